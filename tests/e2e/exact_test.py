#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same request gives the same bytes: alone or in a batch, with any thread count and prefill chunk, with a prefix hit of any
length or none, preempted or not, before and after a restart. The choices are compared whole: text, logprobs, reasons."""
import json
import os
import sys
import unittest
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from daemon import Daemon, is_long, run_cases  # noqa: E402

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")
with open(os.path.join(DATA, "smollm2-ids.json"), encoding="utf-8") as f:
    LISTS = json.load(f)
TEXT = LISTS[7]  # the longest list
PROBE = {"prompt": TEXT[:300], "max_tokens": 24, "temperature": 0.9, "top_p": 0.95, "seed": 7, "logprobs": 5}
GREEDY = {"prompt": TEXT[40:170], "max_tokens": 24, "temperature": 0, "logprobs": 3}
# K/V bytes of 64 tokens of this model: 30 layers, 3 heads, 64 + 64 wide, 2 bytes.
BLOCK_BYTES = 64 * 30 * 3 * 128 * 2


def crowd(n):
    """n requests that differ in length, sampling and content; some ask for prompt scores."""
    rows = []
    for i in range(n):
        ids = LISTS[i % len(LISTS)]
        at = (37 * i) % max(1, len(ids) - 80)
        rows.append({"prompt": ids[at:at + 20 + 11 * (i % 16)], "max_tokens": 8 + i % 24, "temperature": (i % 3) * 0.6,
                     "seed": i, "logprobs": i % 6, "ignore_eos": i % 2 == 0})
    return rows


def answer(daemon, body):
    return daemon.post("/v1/completions", body)["choices"]


def together(daemon, bodies):
    with ThreadPoolExecutor(len(bodies)) as pool:
        return list(pool.map(lambda body: answer(daemon, body), bodies))


class Exact(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with Daemon("--threads", "1") as daemon:
            cls.alone = [answer(daemon, body) for body in (PROBE, GREEDY)]
            cls.crowd = crowd(30)  # 32 together with the two above
            cls.crowd_alone = [answer(daemon, {**body, "cache_salt": str(i)}) for i, body in enumerate(cls.crowd)]

    def check(self, daemon):
        self.assertEqual(self.alone, [answer(daemon, body) for body in (PROBE, GREEDY)])

    def test_1_restart(self):
        with Daemon("--threads", "1") as daemon:
            self.check(daemon)

    def test_2_threads(self):
        for threads in ("2", "3"):
            with self.subTest(threads=threads), Daemon("--threads", threads) as daemon:
                self.check(daemon)

    def test_3_prefill_chunk(self):
        for chunk in ("16", "64", "8192"):
            with self.subTest(chunk=chunk), Daemon("--prefill-chunk", chunk) as daemon:
                self.check(daemon)

    def test_4_prefix_hits_of_every_length(self):
        lengths = range(1, 301) if is_long() else (1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 200, 255, 256, 257, 299, 300)
        reused = set()
        with Daemon() as daemon:
            for n in lengths:
                salt = f"prefix of {n}"
                daemon.complete(PROBE["prompt"][:n], max_tokens=1, cache_salt=salt, temperature=0)
                got = daemon.post("/v1/completions", {**PROBE, "cache_salt": salt})
                self.assertEqual(self.alone[0], got["choices"], f"after a hit of {n}")
                found = got["usage"]["prompt_tokens_details"]["cached_tokens"]
                self.assertLess(found, len(PROBE["prompt"]))
                reused.add(found)
                again = daemon.post("/v1/completions", {**PROBE, "cache_salt": salt})
                self.assertEqual(self.alone[0], again["choices"])
                self.assertEqual(again["usage"]["prompt_tokens_details"]["cached_tokens"], len(PROBE["prompt"]) - 1)
        self.assertGreater(len(reused), len(lengths) // 2, "reuse is not exact to the token")

    def test_5_in_a_batch(self):
        with Daemon("--running-max", "64", "--prefill-chunk", "128") as daemon:
            bodies = [*self.crowd, PROBE, GREEDY]
            self.assertEqual([*self.crowd_alone, *self.alone], together(daemon, bodies))
            self.assertGreater(daemon.metrics()["foldkv_step_rows_total"], 0)

    def test_6_preempted(self):
        """Short prompts with long answers are all admitted and then outgrow the pool: only the oldest can keep its pages."""
        growing = [{"prompt": TEXT[50 * i:50 * i + 20], "max_tokens": 150, "temperature": 0.8, "seed": i, "logprobs": 1,
                    "ignore_eos": True} for i in range(4)]
        with Daemon("--threads", "1") as daemon:
            alone = [answer(daemon, body) for body in growing]
        with Daemon("--cache-bytes", str(7 * BLOCK_BYTES)) as daemon:
            bodies = [*growing, PROBE, GREEDY]
            self.assertEqual([*alone, *self.alone], together(daemon, bodies))
            self.assertGreater(daemon.metrics()["foldkv_preemptions_total"], 0, "nothing was preempted: the pool is too large")

    def test_7_prompt_scores(self):
        body = {"prompt": TEXT[:700], "max_tokens": 0, "echo": True, "logprobs": 2}
        with Daemon("--prefill-chunk", "64") as daemon:
            first = answer(daemon, body)
            self.assertEqual(first, answer(daemon, body))
            self.assertEqual(first, together(daemon, [body, *self.crowd[:6]])[0])
        with Daemon("--threads", "3", "--prefill-chunk", "512") as daemon:
            self.assertEqual(first, answer(daemon, body))

    def test_8_streamed(self):
        with Daemon() as daemon:
            events = daemon.stream(**{k: v for k, v in PROBE.items()})
            text = "".join(e["choices"][0]["text"] for e in events if e["choices"])
            self.assertEqual(self.alone[0][0]["text"], text)


if __name__ == "__main__":
    run_cases()
