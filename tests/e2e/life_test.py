#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What comes goes: clients that leave give their pages back, many requests leave no memory behind, SIGTERM ends in good order."""
import json
import os
import signal
import sys
import tempfile
import threading
import unittest
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from daemon import Daemon, Refused, is_long, run_cases, seconds, wait_until  # noqa: E402


def begin_stream(daemon, **fields):
    """A connection on which the first event of a long stream has come."""
    link = daemon.connect()
    link.request("POST", "/v1/completions", json.dumps({"prompt": "Count on:", "stream": True, "ignore_eos": True, **fields}),
                 {"Content-Type": "application/json"})
    answer = link.getresponse()
    assert answer.status == 200, answer.read()
    assert answer.readline().startswith(b"data: "), "no first event"
    return link, answer


class Life(unittest.TestCase):
    def is_at_rest(self, daemon):
        m = daemon.metrics()
        return m["foldkv_requests_running"] == m["foldkv_requests_waiting"] == m["foldkv_blocks_used"] == 0

    def check_books(self, daemon):
        """Conservation: what was admitted has ended one way or runs; what the pool has is free, used or cached."""
        m = daemon.metrics()
        ended = sum(m[f"foldkv_requests_{way}_total"] for way in ("finished", "aborted", "failed"))
        self.assertEqual(m["foldkv_requests_admitted_total"],
                         ended + m["foldkv_requests_running"] + m["foldkv_requests_waiting"])
        self.assertEqual(m["foldkv_blocks"],
                         m["foldkv_blocks_free"] + m["foldkv_blocks_used"] + m["foldkv_blocks_cached"])

    def test_1_probes_and_books(self):
        with Daemon() as daemon:
            for path in ("/livez", "/readyz", "/health"):
                daemon.get(path)
            daemon.complete("One, two,", max_tokens=4)
            self.assertTrue(wait_until(lambda: self.is_at_rest(daemon)))
            self.check_books(daemon)

    def test_2_a_client_that_leaves_gives_its_pages_back(self):
        with Daemon() as daemon:
            descriptors = daemon.descriptors()
            for n in (1, 12):
                streams = [begin_stream(daemon, max_tokens=4000, cache_salt=str(i)) for i in range(n)]
                self.assertGreater(daemon.metrics()["foldkv_blocks_used"], 0)
                for link, answer in streams:
                    answer.close()
                    link.close()
                self.assertTrue(wait_until(lambda: self.is_at_rest(daemon), 20), daemon.metrics())
            self.assertEqual(daemon.metrics()["foldkv_requests_aborted_total"], 13)
            self.check_books(daemon)
            self.assertTrue(wait_until(lambda: daemon.descriptors() <= descriptors + 1))

    def test_3_the_rest_are_not_touched_when_one_leaves(self):
        body = {"prompt": "The sea", "max_tokens": 60, "temperature": 0, "logprobs": 1, "ignore_eos": True}
        with Daemon() as daemon:
            alone = daemon.post("/v1/completions", body)["choices"]
            with ThreadPoolExecutor(1) as pool:
                leaving = [begin_stream(daemon, max_tokens=4000) for _ in range(4)]
                staying = pool.submit(daemon.post, "/v1/completions", body)
                for link, answer in leaving:
                    answer.close()
                    link.close()
                self.assertEqual(alone, staying.result()["choices"])

    def test_4_memory_does_not_grow(self):
        count = 1000 if is_long() else 200
        with Daemon("--cache-bytes", "96MiB") as daemon:
            def ask(i):
                daemon.complete([1000 + (i * 7919 + k * 104729) % 40000 for k in range(40 + i % 50)], max_tokens=4 + i % 3,
                                temperature=1, seed=i, logprobs=i % 3)
            with ThreadPoolExecutor(4) as pool:
                list(pool.map(ask, range(50)))
                early = daemon.resident_bytes()
                list(pool.map(ask, range(50, count)))
            late = daemon.resident_bytes()
            print(f"resident after 50 requests {early}, after {count} {late}", file=sys.stderr)
            self.assertLess(late, 1.01 * early)
            self.assertTrue(wait_until(lambda: self.is_at_rest(daemon)))
            self.check_books(daemon)

    def test_5_sigterm_finishes_what_runs(self):
        daemon = Daemon()
        link, answer = begin_stream(daemon, max_tokens=120)
        daemon.process.send_signal(signal.SIGTERM)
        rest = answer.read().decode()
        self.assertTrue(rest.rstrip().endswith("data: [DONE]"), rest[-200:])
        self.assertEqual(daemon.process.wait(seconds(60)), 0, daemon.log())
        link.close()
        daemon.release()

    def test_6_sigterm_cancels_after_the_drain_time(self):
        daemon = Daemon("--server-drain-timeout-ms", "300")
        link, answer = begin_stream(daemon, max_tokens=8000)
        ended = threading.Event()
        threading.Thread(target=lambda: (answer.read(), ended.set()), daemon=True).start()
        daemon.process.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.process.wait(seconds(30)), 0, daemon.log())
        self.assertTrue(ended.wait(seconds(10)))
        link.close()
        daemon.release()

    def test_7_a_shorter_queue_holds_without_a_restart(self):
        with tempfile.NamedTemporaryFile("w+", suffix=".conf") as config, \
                Daemon("--running-max", "1", "--config", config.name) as daemon:
            streams = [begin_stream(daemon, max_tokens=4000)]
            config.write("engine.queue_max = 1\n")
            config.flush()
            daemon.process.send_signal(signal.SIGHUP)
            self.assertTrue(wait_until(lambda: "engine.queue_max: 256 is 1 now" in daemon.log()), daemon.log())
            waiting = daemon.connect()
            waiting.request("POST", "/v1/completions", json.dumps({"prompt": "One", "max_tokens": 1}),
                            {"Content-Type": "application/json"})
            self.assertTrue(wait_until(lambda: daemon.metrics()["foldkv_requests_waiting"] == 1))
            with self.assertRaises(Refused) as refused:
                daemon.complete("Two", max_tokens=1)
            self.assertEqual(refused.exception.status, 429)
            for link, answer in streams:
                answer.close()
                link.close()
            self.assertEqual(waiting.getresponse().status, 200)
            waiting.close()


if __name__ == "__main__":
    run_cases()
