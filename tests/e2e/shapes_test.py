#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same request gives the same bytes on every architecture and head arrangement: alone or in a batch of 32, with any thread
count and prefill chunk, after a hit of any length, preempted or not, after a restart. Small random models of
tests/support/model_shapes.c over every K/V type; what exact_test.py does with a checkpoint. shapes_test.py MAKE_MODEL"""
import os
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from daemon import Daemon, run_cases  # noqa: E402

MAKE_MODEL = os.path.abspath(sys.argv.pop(1))
# Each with a type of weights and of K/V: F32, F16, Q4_1 and Q8_0 by ggml's numbers.
SHAPES = {"llama": (3, "f16"), "rope-factors": (1, "f32"), "layer-heads": (0, "int8"), "maps": (3, "int8"), "layer-maps": (8, "f32"),
          "qwen2": (8, "f16"), "qwen3": (1, "int8"), "exaone4": (3, "f16"), "gemma3": (8, "f16")}


def ids(n, salt):
    """Tokens that are bytes: none of them ends or marks anything."""
    return [(i * i * 31 + i * 7 + salt * 13 + i * salt) % 256 for i in range(n)]


PROBE = {"prompt": ids(300, 1), "max_tokens": 24, "temperature": 0.9, "top_p": 0.95, "seed": 7, "logprobs": 5}
GREEDY = {"prompt": ids(130, 2), "max_tokens": 24, "temperature": 0, "logprobs": 3}
# 32 together that differ in length, sampling and content.
CROWD = [{"prompt": ids(20 + 11 * (i % 16), i % 5), "max_tokens": 8 + i % 24, "temperature": (i % 3) * 0.6, "seed": i,
          "logprobs": i % 6, "ignore_eos": i % 2 == 0} for i in range(30)] + [PROBE, GREEDY]
# Short prompts with long answers are all admitted and then outgrow a small pool: only the oldest can keep its pages.
GROWING = [{"prompt": ids(20, 20 + i), "max_tokens": 150, "temperature": 0.8, "seed": i, "logprobs": 1, "ignore_eos": True}
           for i in range(6)]
HITS = (1, 15, 16, 17, 63, 64, 65, 129, 255, 256, 257, 299)


def answer(daemon, body):
    return daemon.post("/v1/completions", body)["choices"]


def together(daemon, bodies):
    with ThreadPoolExecutor(len(bodies)) as pool:
        return list(pool.map(lambda body: answer(daemon, body), bodies))


def block_bytes(daemon):
    """Of 64 tokens in all groups."""
    return int(sum(n for name, n in daemon.metrics().items() if name.startswith("foldkv_group_block_bytes")))


class Shapes(unittest.TestCase):
    def check(self, path, cache_type):
        flags = ("--cache-type", cache_type)
        with Daemon("--threads", "1", "--cache-bytes", "64MiB", *flags, model_path=path) as daemon:
            crowd = [answer(daemon, {**body, "cache_salt": str(i)}) for i, body in enumerate(CROWD)]
            growing = [answer(daemon, {**body, "cache_salt": "growing"}) for body in GROWING]
            small = 7 * block_bytes(daemon)
        probe = crowd[-2]
        with Daemon("--threads", "2", "--prefill-chunk", "64", "--running-max", "64", "--cache-bytes", "64MiB", *flags,
                    model_path=path) as daemon:
            self.assertEqual(crowd, together(daemon, CROWD))
        with Daemon("--threads", "3", "--prefill-chunk", "16", "--cache-bytes", "64MiB", *flags, model_path=path) as daemon:
            for n in HITS:
                salt = f"prefix of {n}"
                daemon.complete(PROBE["prompt"][:n], max_tokens=1, cache_salt=salt, temperature=0)
                got = daemon.post("/v1/completions", {**PROBE, "cache_salt": salt})
                self.assertEqual(probe, got["choices"], f"after a hit of {n}")
                again = daemon.post("/v1/completions", {**PROBE, "cache_salt": salt})
                self.assertEqual(probe, again["choices"])
                self.assertEqual(again["usage"]["prompt_tokens_details"]["cached_tokens"], len(PROBE["prompt"]) - 1)
            metrics = daemon.metrics()
            self.assertGreater(metrics["foldkv_prefix_copied_tokens_total"], 0)
        with Daemon("--threads", "1", "--prefill-chunk", "8192", "--cache-bytes", str(small), *flags, model_path=path) as daemon:
            self.assertEqual([*growing, probe], together(daemon, [*GROWING, PROBE]))
            self.assertGreater(daemon.metrics()["foldkv_preemptions_total"], 0, "nothing was preempted: the pool is too large")


def case_of(name, weights, cache_type):
    def run(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, name + ".gguf")
            subprocess.run([MAKE_MODEL, path, "--shape", name, "--type", str(weights)], check=True)
            self.check(path, cache_type)
    return run


for _name, (_weights, _cache_type) in SHAPES.items():
    setattr(Shapes, f"test_{_name.replace('-', '_')}_{_cache_type}", case_of(_name, _weights, _cache_type))

if __name__ == "__main__":
    run_cases()
