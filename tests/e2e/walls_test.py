#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Weights that differ in one number share no cached page: beside each other, after a promotion, after a rollback, after another
publish. walls_test.py MAKE_MODEL

Each prompt is asked of one generation until it is found in its cache; whoever is asked it next must find nothing of it."""
import json
import os
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
from daemon import run_cases, wait_until  # noqa: E402
from releasing import Releasing, make_model  # noqa: E402

MAKE_MODEL = os.path.abspath(sys.argv.pop(1))


class Walls(unittest.TestCase):
    def ask(self, prompt, user):
        """(generation, prompt tokens that were found cached)"""
        link = self.d.connect()
        link.request("POST", "/v1/completions", json.dumps({"prompt": prompt, "max_tokens": 2, "temperature": 0, "user": user}),
                     {"Content-Type": "application/json"})
        answer = link.getresponse()
        found = json.loads(answer.read())
        link.close()
        self.assertEqual(answer.status, 200, found)
        return answer.getheader("x-foldkv-generation"), found["usage"]["prompt_tokens_details"]["cached_tokens"]

    def somebody(self, generation, arms):
        """A user whom the generation answers; each has a prompt of its own, and arms says how the namespaces differ."""
        for n in range(400):
            user = f"{arms}-{n}"
            if self.ask(f"find {user}", user)[0] == generation:
                return user
        raise AssertionError(f"nobody is answered by {generation}")

    def prompt(self, word):
        return f"{word} " + " ".join(f"{word}{n}" for n in range(20))

    def warm(self, word, user, generation):
        """The prompt is cold at first and found afterwards, which shows that a hit would be seen."""
        self.assertEqual(self.ask(self.prompt(word), user), (generation, 0))
        again = self.ask(self.prompt(word), user)
        self.assertEqual(again[0], generation)
        self.assertGreater(again[1], 100)

    def cold(self, word, user, generation):
        self.assertEqual(self.ask(self.prompt(word), user), (generation, 0), f"pages of '{word}' are another generation's")

    def namespace(self, state):
        return next(g["namespace"] for g in json.loads(self.d.foldkv("generations", "--json"))["generations"] if g["state"] == state)

    def to_step(self):
        self.d.evaluate("two", matrix={"contexts": [512], "active_requests": [1, 16], "query_lengths": [1, 256]})
        self.d.start("two", 3000)
        self.d.foldkv("rollout", "approve")

    def test_no_page_crosses(self):
        with tempfile.TemporaryDirectory() as folder:
            one, two = make_model(MAKE_MODEL, folder, "one"), make_model(MAKE_MODEL, folder, "two", "--nudge")
            with Releasing(os.path.join(folder, "state"), one, "--threads", "1") as self.d:
                self.crosses(two)

    def crosses(self, two_file):
        d = self.d
        one = d.answer()[0]
        spaces = {self.namespace("stable")}
        self.warm("early", "anybody", one)

        two = json.loads(d.foldkv("publish", two_file, "--name", "two", "--json"))["id"][:16]
        spaces.add(self.namespace("ready"))
        self.to_step()
        self.assertTrue(wait_until(lambda: any(d.answer()[0] == two for _ in range(20))))
        canary = self.somebody(two, "step")
        self.cold("early", canary, two)
        self.warm("canary", canary, two)
        stable = next(u for u in (f"step-{n}" for n in range(400)) if d.answer(f"who {u}", user=u)[0] == one)
        self.cold("canary", stable, one)
        self.warm("stable", stable, one)

        d.traffic(lambda: d.rollout()["now"]["state"] != "step")
        d.in_state("awaiting_approval")
        d.foldkv("rollout", "approve")
        d.in_state("promoted")
        self.cold("stable", "anybody", two)
        self.warm("promoted", "anybody", two)

        d.foldkv("rollback")
        d.in_state("rolled_back")
        self.cold("promoted", "anybody", one)
        self.warm("back", "anybody", one)

        self.assertEqual(json.loads(d.foldkv("publish", two_file, "--name", "two", "--json"))["id"][:16], two)
        self.assertNotIn(self.namespace("ready"), spaces, "its pages could be found again")
        self.to_step()
        canary = self.somebody(two, "again")
        for word in ("back", "promoted", "canary", "early"):
            self.cold(word, canary, two)


if __name__ == "__main__":
    run_cases()
