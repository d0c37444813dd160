#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Text into and out of each kind of vocabulary: the BOS that a vocabulary wants, pieces that are parts of characters, ends."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from daemon import Daemon, required, run_cases  # noqa: E402

# Their continuations hold spaces, line ends, numerals, and characters of several bytes.
PROMPTS = ("def fib(n):\n    ", "  two spaces", "Smileys: \U0001f600\U0001f601\U0001f602\U0001f923", "\u4eca\u65e5\u306f\u3001", "1, 2, 3,")


class Models:
    """The cases; a class below names the checkpoint and the id of its BOS where a text begins with one."""
    variable = bos = None

    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(model_path=required(cls.variable))

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()

    def greedy(self, prompt, **fields):
        return self.daemon.complete(prompt, **{"max_tokens": 12, "temperature": 0, **fields})

    def test_a_text_begins_as_the_vocabulary_wants(self):
        for prompt in PROMPTS:
            ids = self.daemon.post("/tokenize", {"prompt": prompt})["tokens"]
            bare = self.daemon.post("/tokenize", {"prompt": prompt, "add_special_tokens": False})["tokens"]
            self.assertEqual(ids, ([] if self.bos is None else [self.bos]) + bare)
            by_text, by_ids = self.greedy(prompt), self.greedy(ids)
            self.assertEqual(by_text["choices"], by_ids["choices"])
            self.assertEqual(by_text["usage"]["prompt_tokens"], len(ids))

    def test_a_stream_is_the_whole_answer(self):
        for prompt in PROMPTS:
            whole = self.greedy(prompt)["choices"][0]
            events = self.daemon.stream(prompt, max_tokens=12, temperature=0)
            self.assertEqual(whole["text"], "".join(e["choices"][0]["text"] for e in events))
            self.assertEqual(whole["finish_reason"], events[-1]["choices"][0]["finish_reason"])

    def test_offsets_point_into_the_echoed_text(self):
        for prompt in PROMPTS:
            choice = self.greedy(prompt, echo=True, logprobs=0)["choices"][0]
            text, scores = choice["text"], choice["logprobs"]
            self.assertTrue(text.startswith(prompt))
            offsets = scores["text_offset"] + [len(text)]
            self.assertEqual(offsets[0], 0)
            for i, token in enumerate(scores["tokens"]):
                self.assertLessEqual(offsets[i], offsets[i + 1])
                if not token.startswith("bytes:") and offsets[i + 1] - offsets[i] == len(token):
                    self.assertEqual(text[offsets[i]:offsets[i + 1]], token)
            covered = sum(offsets[i + 1] - offsets[i] == len(t) for i, t in enumerate(scores["tokens"]))
            self.assertGreater(covered, 0)

    def test_tokens_given_back_continue_the_text(self):
        """What is generated, tokenized with its prompt, is the same text again."""
        for prompt in PROMPTS:
            text = prompt + self.greedy(prompt)["choices"][0]["text"]
            ids = self.daemon.post("/tokenize", {"prompt": text, "add_special_tokens": False, "parse_special": False})["tokens"]
            self.assertEqual(self.daemon.post("/detokenize", {"tokens": ids})["prompt"], text)


class SmolLM2(Models, unittest.TestCase):
    variable = "FOLDKV_TEST_MODEL"


class Gemma3(Models, unittest.TestCase):
    variable, bos = "FOLDKV_TEST_GEMMA", 2

    def test_only_bos_is_a_prompt(self):
        answer = self.greedy("", echo=True, logprobs=0)["choices"][0]
        self.assertEqual((answer["logprobs"]["tokens"][0], answer["logprobs"]["text_offset"][:2]), ("<bos>", [0, 0]))

    def test_a_turn_ends(self):
        self.assertEqual(self.daemon.post("/tokenize", {"prompt": "<end_of_turn>", "add_special_tokens": False})["tokens"], [106])
        self.assertEqual(len(self.daemon.post("/tokenize", {"prompt": "<end_of_turn>", "add_special_tokens": False,
                                                            "parse_special": False})["tokens"]) > 1, True)


class Qwen2(Models, unittest.TestCase):
    variable = "FOLDKV_TEST_QWEN"

    def test_a_turn_ends(self):
        answer = self.greedy("<|im_start|>user\nSay only: yes<|im_end|>\n<|im_start|>assistant\n", max_tokens=64)["choices"][0]
        self.assertEqual(answer["finish_reason"], "stop")
        self.assertNotIn("<|im_end|>", answer["text"])


if __name__ == "__main__":
    run_cases()
