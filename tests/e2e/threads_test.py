#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A short crowd of requests, leaving clients and scrapes at once, for a build that watches threads."""
import os
import sys
import unittest
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from daemon import Daemon, run_cases, wait_until  # noqa: E402


class Threads(unittest.TestCase):
    def test_a_crowd(self):
        def one(i):
            if i % 4 == 3:
                link = daemon.connect()
                link.request("POST", "/v1/completions", '{"prompt": "a b c", "max_tokens": 500, "stream": true}',
                             {"Content-Type": "application/json"})
                link.getresponse().readline()
                link.close()
            else:
                got = daemon.complete(f"{i % 3} green bottles hanging on the wall", max_tokens=6, seed=i, logprobs=2)
                self.assertEqual(len(got["choices"][0]["logprobs"]["tokens"]), got["usage"]["completion_tokens"])
            daemon.metrics()

        with Daemon("--threads", "3", "--prefill-chunk", "16", "--cache-bytes", "48MiB") as daemon:
            with ThreadPoolExecutor(6) as pool:
                list(pool.map(one, range(16)))
            self.assertTrue(wait_until(lambda: daemon.metrics()["foldkv_requests_running"] == 0))


if __name__ == "__main__":
    run_cases()
