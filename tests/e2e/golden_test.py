#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the served model says against facts that were not made by it: token ids, and log-probabilities of a float64 forward pass."""
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from daemon import Daemon, required, run_cases  # noqa: E402

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")


def load(name):
    with open(os.path.join(DATA, name), encoding="utf-8") as f:
        return json.load(f)


class Golden:
    """The cases; a class below names the checkpoint, its files in tests/data, and llama.cpp's figures on the same file and
    lists (f16 K/V) as the mean difference that is allowed and the share of positions whose likeliest token is the reference's."""
    variable = name = mean_most = top1_least = None

    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(model_path=required(cls.variable))

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()

    def strings(self):
        """The known strings that a request may carry: a body with a NUL is refused (the unit test of the tokenizer has those)."""
        return [row for row in load(f"{self.name}-tokens.json") if "\0" not in row["text"]]

    def plain(self, text):
        """What comes back of a text."""
        return text

    def test_tokenize_gives_the_known_ids(self):
        link = self.daemon.connect()
        for row in self.strings():
            for parse, key in ((False, "ids"), (True, "ids_special")):
                got = self.daemon.post("/tokenize", {"prompt": row["text"], "add_special_tokens": False,
                                                     "parse_special": parse}, link)
                self.assertEqual((row["text"], row[key]), (row["text"], got["tokens"]))
                self.assertEqual(got["count"], len(row[key]))
        link.close()

    def test_detokenize_gives_the_text_back(self):
        link = self.daemon.connect()
        for row in load(f"{self.name}-tokens.json"):
            got = self.daemon.post("/detokenize", {"tokens": row["ids"]}, link)
            self.assertEqual(self.plain(row["text"]), got["prompt"])
        link.close()

    def token_names(self, ids):
        """How logprobs print each of the ids."""
        unique = sorted(set(ids))
        names = {}
        for at in range(0, len(unique), 1000):
            part = unique[at:at + 1000]
            scored = self.daemon.complete(part, max_tokens=0, echo=True, logprobs=0)["choices"][0]["logprobs"]
            names.update(zip(part, scored["tokens"], strict=True))
        return names

    def test_prompt_logprobs_are_near_the_reference(self):
        lists, reference = load(f"{self.name}-ids.json"), load(f"{self.name}-reference.json")
        names = self.token_names([i for top in reference["top1"] for i in top])
        differences, agreed = [], 0
        for ids, chosen, top1 in zip(lists, reference["chosen"], reference["top1"], strict=True):
            scored = self.daemon.complete(ids, max_tokens=0, echo=True, logprobs=1)["choices"][0]["logprobs"]
            self.assertEqual(len(scored["token_logprobs"]), len(ids))
            self.assertIsNone(scored["token_logprobs"][0])
            differences += [abs(a - b) for a, b in zip(scored["token_logprobs"][1:], chosen, strict=True)]
            for alternatives, best in zip(scored["top_logprobs"][1:], top1):
                agreed += max(alternatives, key=alternatives.get) == names[best]
        mean, share = sum(differences) / len(differences), agreed / len(differences)
        print(f"{self.name}: mean difference {mean:.5f}, largest {max(differences):.3f}, top-1 {share:.4f}, {len(differences)} positions",
              file=sys.stderr)
        self.assertGreater(len(differences), 2500)
        self.assertLessEqual(mean, self.mean_most)
        self.assertGreaterEqual(share, self.top1_least)


class SmolLM2(Golden, unittest.TestCase):
    variable, name, mean_most, top1_least = "FOLDKV_TEST_MODEL", "smollm2", 0.0289, 0.977


class Gemma3(Golden, unittest.TestCase):
    variable, name, mean_most, top1_least = "FOLDKV_TEST_GEMMA", "gemma3", 0.0275, 0.98

    def plain(self, text):
        """U+2581 is how the vocabulary writes a space; in a text it is one, as in the model's own tokenizer."""
        return text.replace("\u2581", " ")


class Qwen2(Golden, unittest.TestCase):
    variable, name, mean_most, top1_least = "FOLDKV_TEST_QWEN", "qwen2", 0.0095, 0.993


if __name__ == "__main__":
    run_cases()
