#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The whole daemon of another architecture, under an emulator, answers a completion, and with the same bytes as this machine's.

FOLDKV_TEST_BINARY runs the foreign one, FOLDKV_TEST_NATIVE is this machine's.
"""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from daemon import Daemon, required, run_cases  # noqa: E402

ASK = {"prompt": "The sky is", "max_tokens": 4, "temperature": 0, "logprobs": 3, "echo": True}
FLAGS = ("--threads", "2", "--cache-bytes", "32MiB")


class Emulated(unittest.TestCase):
    def test_a_completion_is_the_same_as_the_native_one(self):
        with Daemon(*FLAGS) as daemon:
            foreign = daemon.post("/v1/completions", ASK)
        os.environ["FOLDKV_TEST_BINARY"] = required("FOLDKV_TEST_NATIVE")
        with Daemon(*FLAGS) as daemon:
            native = daemon.post("/v1/completions", ASK)
        self.assertEqual(native["usage"]["completion_tokens"], 4)
        self.assertEqual(native["choices"], foreign["choices"])


if __name__ == "__main__":
    run_cases()
