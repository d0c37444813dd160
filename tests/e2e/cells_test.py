#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where an evaluated generation serves: inside the cells it was tested for, during its rollout, after its promotion and when a request
names it. cells_test.py MAKE_MODEL"""
import itertools
import json
import os
import sys
import tempfile
import threading
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
from daemon import Refused, run_cases, wait_until  # noqa: E402
from releasing import Releasing, make_model  # noqa: E402

MAKE_MODEL = os.path.abspath(sys.argv.pop(1))
MATRIX = {"contexts": [256], "active_requests": [1, 2], "query_lengths": [1, 64]}
INSIDE = {"prompt": "w" * 20, "max_tokens": 4}
LONG = {"prompt": "w" * 20, "max_tokens": 200, "ignore_eos": True}
BEYOND = [({"prompt": "w" * 20, "max_tokens": 300}, "context_length_exceeded", "context", ("context is 3", "up to 256")),
          ({"prompt": "w" * 100, "max_tokens": 4}, "invalid_request", "query_length", ("query length is 10", "up to 64"))]


class Cells(unittest.TestCase):
    """One daemon, whose candidate goes from publication to a rollback that is blocked: the cases are its stations."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.state = os.path.join(cls.folder.name, "state")
        cls.models = {name: make_model(MAKE_MODEL, cls.folder.name, name, *flags)
                      for name, flags in (("one", []), ("two", ["--nudge"]), ("three", ["--name", "three"]), ("nan", ["--nan"]))}
        cls.d = cls.daemon("one")
        cls.addClassCleanup(cls.end)
        cls.ids = {name: json.loads(cls.d.foldkv("publish", cls.models[name], "--name", name, "--json"))["id"] for name in ("two", "nan")}
        cls.d.evaluate("nan", code=1)

    @classmethod
    def daemon(cls, model):
        return Releasing(cls.state, cls.models[model], "--threads", "1", "--release-pin", "on", "--release-arm-header", "on",
                         "--model-name", "served")

    @classmethod
    def end(cls):
        cls.d.kill()
        cls.folder.cleanup()

    def ask(self, **fields):
        """(arm, generation) of an answer on a connection of its own; Refused."""
        link = self.d.connect()
        link.request("POST", "/v1/completions", json.dumps({"temperature": 0, **fields}), {"Content-Type": "application/json"})
        answer = link.getresponse()
        body = json.loads(answer.read())
        link.close()
        if answer.status != 200:
            raise Refused(answer.status, body, dict(answer.getheaders()))
        return answer.getheader("x-foldkv-arm"), answer.getheader("x-foldkv-generation")

    def refused(self, status, code, *words, **fields):
        """The error's field."""
        with self.assertRaises(Refused) as caught:
            self.ask(**{**INSIDE, **fields})
        error = caught.exception.body["error"]
        self.assertEqual((caught.exception.status, error["code"]), (status, code), error)
        for word in words:
            self.assertIn(word, error["message"])
        return error["param"]

    def somebody(self, arm):
        """A user of that arm, once its lane is there."""
        names = itertools.cycle(map(str, range(100)))
        found = wait_until(lambda: (name := next(names)) and self.ask(**INSIDE, user=name)[0] == arm and name, 60)
        self.assertTrue(found, f"nobody goes to {arm}")
        return found

    def crowd(self, fields, threads, until):
        """Threads ask until until(answers, refusals) is true of what came so far."""
        answers, refusals, failed, over = [], [], [], threading.Event()

        def run():
            while not over.is_set():
                try:
                    answers.append(self.ask(**fields))
                except Refused as e:
                    refusals.append(e)
                except Exception as e:  # told below
                    failed.append(e)
                    over.set()

        crowd = [threading.Thread(target=run) for _ in range(threads)]
        for one in crowd:
            one.start()
        met = wait_until(lambda: failed or until(answers, refusals), 60)
        over.set()
        for one in crowd:
            one.join()
        self.assertFalse(failed)
        self.assertTrue(met, (answers[-5:], refusals[-5:]))
        return answers, refusals

    def test_1_a_pin_reaches_only_what_has_passed(self):
        for name in ("two", "nan"):  # one was never evaluated, one has failed
            for model in (name, self.ids[name][:8], self.ids[name]):
                self.assertEqual(self.refused(409, "wrong_state", self.ids[name][:16], "is ready", model=model), "model")
        self.refused(404, "model_not_found", "'nobody'", "may name: ", " (served)", model="nobody")
        stable = self.ask(**INSIDE)[1]
        self.assertEqual(self.ask(**INSIDE, model=stable)[1], stable)
        self.d.evaluate("two", matrix=MATRIX)
        for model in ("two", self.ids["two"][:8], self.ids["two"]):
            self.assertEqual(self.ask(**INSIDE, model=model)[1], self.ids["two"][:16])
            self.assertEqual(self.d.post("/tokenize", {"prompt": "w", "model": model})["count"], 1)
        self.assertEqual(self.ask(**INSIDE, model="served")[1], stable)
        self.refused(404, "model_not_found", "'nobody'", f"{self.ids['two'][:16]} (two)", model="nobody")
        self.refused(404, "model_not_found", model=self.ids["two"][:7])
        for fields, code, field, words in BEYOND:
            self.assertEqual(self.refused(400, code, *words, **fields, model="two"), field)

    def test_1b_who_is_published_anew_may_have_wider_cells(self):
        self.d.foldkv("forget", "two")
        self.refused(404, "model_not_found", "'two'", model="two")
        self.d.foldkv("publish", self.models["two"], "--name", "two")
        self.refused(409, "wrong_state", "is ready", model="two")
        self.d.evaluate("two", matrix={**MATRIX, "contexts": [320], "query_lengths": [1, 128]})
        for fields in ({"prompt": "w" * 20, "max_tokens": 280}, {"prompt": "w" * 100, "max_tokens": 4}):
            self.assertEqual(self.ask(**fields, model="two")[1], self.ids["two"][:16])
        self.d.foldkv("forget", "two")
        self.d.foldkv("publish", self.models["two"], "--name", "two")
        self.d.evaluate("two", matrix=MATRIX)

    def test_2_without_the_option_there_is_no_pin(self):
        with tempfile.TemporaryDirectory() as folder:
            with Releasing(os.path.join(folder, "state"), self.models["one"], "--threads", "1") as d:
                for model in ("two", json.loads(d.foldkv("generations", "--json"))["generations"][0]["id"]):
                    with self.assertRaises(Refused) as caught:
                        d.complete("w", model=model)
                    self.assertEqual((caught.exception.status, caught.exception.body["error"]["code"]), (404, "model_not_found"))

    def test_3_control_and_canary_serve_the_same_requests(self):
        self.d.start("two", 3000)
        self.d.foldkv("rollout", "approve")
        for arm in ("canary", "control"):
            user = self.somebody(arm)
            with self.subTest(arm):
                self.assertTrue(wait_until(lambda: self.ask(**LONG, user=user)[0] == arm))
                for fields, *_ in BEYOND:
                    self.assertEqual({self.ask(**fields, user=user)[0] for _ in range(3)}, {"stable"})
                both = {arm, "stable"}  # beyond the second at once
                _, refusals = self.crowd({**LONG, "user": user}, 6, lambda answers, _: {a for a, _ in answers} == both)
                self.assertEqual(refusals, [])

    def test_4_after_the_promotion_what_is_beyond_is_refused_by_name(self):
        self.d.traffic(lambda: self.d.rollout()["now"]["state"] != "step")
        self.d.in_state("awaiting_approval")
        self.d.foldkv("rollout", "approve")
        self.d.in_state("promoted")
        self.assertEqual(self.ask(**INSIDE)[1], self.ids["two"][:16])
        for fields, code, field, words in BEYOND:
            self.assertEqual(self.refused(400, code, *words, **fields), field)
        _, refusals = self.crowd(LONG, 6, lambda answers, refusals: refusals and answers)
        for e in refusals:
            self.assertEqual((e.status, e.body["error"]["code"], e.body["error"]["param"]), (503, "unavailable", "active_requests"))
            self.assertRegex(e.body["error"]["message"], r"^active requests are 3: .* tested up to 2$")
            self.assertGreaterEqual(int(e.headers["Retry-After"]), 1)
        self.assertEqual(self.ask(**LONG)[1], self.ids["two"][:16])

    def test_4b_a_rollout_does_not_widen_what_stable_serves(self):
        self.d.foldkv("publish", self.models["three"], "--name", "three")
        self.d.evaluate("three", matrix={"contexts": [512], "active_requests": [1, 8], "query_lengths": [1, 128]})
        self.d.start("three", 3000)
        self.d.foldkv("rollout", "approve")
        for arm in ("canary", "control", "stable"):
            user = self.somebody(arm)
            for fields, code, field, words in BEYOND:
                with self.subTest(arm=arm, field=field):
                    self.assertEqual(self.refused(400, code, *words, **fields, user=user), field)
        for fields, *_ in BEYOND:
            self.ask(**fields, model="three")
        self.d.foldkv("rollout", "abort")
        self.d.in_state("rolled_back")

    def test_5_cells_and_bars_outlast_a_restart(self):
        previous = next(g for g in json.loads(self.d.foldkv("generations", "--json"))["generations"] if g["state"] == "previous")
        self.refused(409, "wrong_state", "is previous", model=previous["id"])
        file = os.path.join(self.state, "objects", json.loads(self.d.foldkv("generations", previous["id"], "--json"))["object"])
        self.d.stop()
        os.unlink(file)  # so that the rollback is blocked
        type(self).d = self.daemon("two")
        self.assertEqual(self.ask(**INSIDE, model="two")[1], self.ids["two"][:16])
        for fields, code, field, words in BEYOND:
            self.assertEqual(self.refused(400, code, *words, **fields), field)
        self.assertIn("is blocked", self.d.foldkv("rollback", code=1))
        self.refused(409, "wrong_state", "is being rolled back", model="two")
        self.refused(404, "model_not_found", "may name: none", model="nobody")


if __name__ == "__main__":
    run_cases()
