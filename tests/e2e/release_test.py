#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generations over the real daemon: publish, evaluation, rollout, promotion, rollback, restarts in between, and what is refused.
release_test.py MAKE_MODEL"""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
from daemon import Daemon, required, run_cases, seconds, wait_until  # noqa: E402
from releasing import LIMITS, TERMS, Releasing, make_models, plan  # noqa: E402

MAKE_MODEL = os.path.abspath(sys.argv.pop(1))
with open("/proc/cpuinfo") as f:
    ANOTHER_ISA = "avx2" if " avx512_vnni" in f.read() else "scalar"  # than the one that is taken by itself


class Release(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        make_models(cls, MAKE_MODEL, {"one": [], "two": ["--nudge"], "other": ["--seed", "9"], "nan": ["--nan"],
                                      "vocabulary": ["--other-vocab"], "cut": ["--cut", "30000"]})

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.state = os.path.join(self.folder.name, "state")

    def tearDown(self):
        self.folder.cleanup()

    def daemon(self, *flags, model=None):
        d = Releasing(self.state, self.one if model is None else model, *flags)
        self.addCleanup(lambda: d.process.poll() is None and d.kill())  # after a failure
        return d

    def ids(self, d):
        """{state: first digits of the id}"""
        return {g["state"]: g["id"][:16] for g in json.loads(d.foldkv("generations", "--json"))["generations"]}

    def verify(self):
        run = subprocess.run([required("FOLDKV_TEST_BINARY"), "audit", "verify", "--state", self.state], capture_output=True, text=True,
                             timeout=seconds(60))
        self.assertEqual((run.returncode, run.stderr), (0, ""))

    def test_1_publish_to_rollback(self):
        with self.daemon() as d:
            stable = self.ids(d)["stable"]
            self.assertEqual(d.answer()[0], stable)
            published = json.loads(d.foldkv("publish", self.two, "--name", "two", "--json"))
            two = published["id"][:16]
            self.assertEqual((published["state"], set(published["receipts"]) >= {"checkpoint", "cache", "plan", "placement"}), ("ready", True))
            self.assertNotEqual(two, stable)
            self.assertEqual({generation for generation, _ in (d.answer() for _ in range(20))}, {stable})
            self.assertIn("passed: it may be rolled out", d.evaluate("two"))
            self.assertEqual(self.ids(d)["warmed"], two)
            self.assertIn("awaiting_approval", d.start("two", 3000))
            d.foldkv("rollout", "approve")
            seen = d.traffic(lambda: d.rollout()["now"]["state"] != "step")
            self.assertEqual({generation for generation, _ in seen}, {stable, two})
            waiting = d.in_state("awaiting_approval")
            self.assertEqual({gate["verdict"] for gate in waiting["gates"]}, {"pass"}, waiting["gates"])
            d.foldkv("rollout", "approve")
            d.in_state("promoted")
            self.assertEqual(d.answer()[0], two)
            self.assertEqual(self.ids(d), {"stable": two, "previous": stable})
            self.keeps_the_weights(d, stable)
            d.foldkv("rollback", "--reason", "a test")
            d.in_state("rolled_back")
            self.assertEqual(d.answer()[0], stable)
            self.assertEqual(self.ids(d), {"stable": stable, "rolled_back": two})
            self.verify()
            lines = [json.loads(line) for line in d.foldkv("audit", "list", "--admin", f"unix:{self.state}/admin.sock").splitlines()]
            self.assertEqual([line["entry"]["seq"] for line in lines], list(range(1, len(lines) + 1)))
            self.assertIn(f"uid:{os.getuid()}", {line["entry"]["who"] for line in lines})
        self.verify()

    def keeps_the_weights(self, d, previous):
        """When its pool has gone back, the previous generation's weights are still told of."""
        gone = f'foldkv_generation_loaded{{generation="{previous}"}} 0'
        self.assertTrue(wait_until(lambda: gone in d.get("/metrics")))
        kept = int(re.search(rf'^foldkv_generation_weights_bytes{{generation="{previous}"}} (\d+)$', d.get("/metrics"), re.M).group(1))
        self.assertGreater(kept, 0)
        row = json.loads(d.foldkv("generations", previous, "--json"))
        self.assertEqual((row["lane"], row["weights_bytes"]), (None, kept))
        self.assertRegex(d.foldkv("generations"), rf"(?m)^{previous} .* previous .* {kept / 1048576:.1f} MiB +weights$")

    def test_2_restarts_in_between(self):
        d = self.daemon()
        stable = self.ids(d)["stable"]
        two = json.loads(d.foldkv("publish", self.two, "--name", "two", "--json"))["id"][:16]
        d.evaluate("two")
        d.start("two", 3000)
        d.foldkv("rollout", "approve")
        d.traffic(lambda: d.rollout()["arms"]["canary"]["requests"] > 5)
        d.kill()
        d = self.daemon()
        self.assertEqual(d.rollout()["now"]["state"], "step")
        d.traffic(lambda: d.rollout()["now"]["state"] != "step")
        d.in_state("awaiting_approval")
        d.stop()
        d = self.daemon()
        d.foldkv("rollout", "approve")
        d.in_state("promoted")
        d.kill()
        with self.assertRaises(AssertionError) as caught:
            self.daemon(model=self.other)  # it is not what the registry calls stable
        text = str(caught.exception)
        for words in (f"model {self.other[:110]}", "release.state", "start without a model argument", "publish this file"):
            self.assertIn(words, text)
        self.assertRegex(text, r"the file (is checkpoint|has identity) [0-9a-f]{16}.*, the registry says [0-9a-f]{16}")
        d = self.daemon("--first-model", self.one, model="")  # what founded it is not looked at any more
        self.assertEqual((d.answer()[0], self.ids(d)), (two, {"stable": two, "previous": stable}))
        d.kill()
        d = self.daemon(model=self.two)
        self.assertEqual((d.answer()[0], self.ids(d)), (two, {"stable": two, "previous": stable}))
        d.foldkv("rollback")
        d.in_state("rolled_back")
        d.kill()
        d = self.daemon()
        self.assertEqual((d.answer()[0], self.ids(d)), (stable, {"stable": stable, "rolled_back": two}))
        d.stop()
        self.verify()

    def is_in(self, d, state, name="two"):
        self.assertTrue(wait_until(lambda: json.loads(d.foldkv("generations", name, "--json"))["state"] == state), state)

    def test_2b_another_instruction_set_after_a_restart(self):
        """What was evaluated with one plan carries no rollout with another; evaluated again it does."""
        d = self.daemon("--threads", "1")
        d.foldkv("publish", self.two, "--name", "two")
        d.evaluate("two")
        d.stop()
        d = self.daemon("--threads", "1", "--kernels-isa", ANOTHER_ISA)
        self.is_in(d, "ready")
        self.assertIn("evaluate it again", json.loads(d.foldkv("generations", "two", "--json"))["reason"])
        status, body, _ = d.ask("POST", "/admin/v1/rollouts", {"candidate": "two", "plan": plan(3000)})
        detail = body["error"]["detail"]
        self.assertEqual((status, body["error"]["code"], detail["field"], detail["backend"]), (409, "receipts_disagree", "plan", ANOTHER_ISA))
        for side in ("evaluated", "loaded"):
            self.assertIn(detail[side][:16], body["error"]["message"])
        self.assertNotEqual(detail["evaluated"], detail["loaded"])
        d.evaluate("two")
        d.start("two", 3000)
        d.stop()
        d = self.daemon("--threads", "1")  # before its approval
        self.is_in(d, "ready")
        self.assertIn("receipts_disagree", d.foldkv("rollout", "approve", code=1))
        d.evaluate("two")
        d.foldkv("rollout", "approve")
        d.stop()
        d = self.daemon("--threads", "1", "--kernels-isa", ANOTHER_ISA)  # with traffic
        self.assertEqual(d.in_state("paused")["note"][:28], "it was evaluated with kernel")
        self.assertIn("receipts_disagree", d.foldkv("rollout", "resume", code=1))
        d.stop()
        with self.daemon("--threads", "1") as d:
            d.foldkv("rollout", "resume")
            self.assertEqual(d.rollout()["now"]["state"], "step")
        self.verify()

    def test_2c_another_baseline(self):
        """What is warmed may be evaluated again once its baseline is not stable any more."""
        with self.daemon("--threads", "1") as d:
            d.foldkv("publish", self.two, "--name", "two")
            d.foldkv("publish", self.other, "--name", "other")
            d.evaluate("other", thresholds={**LIMITS, "quality": {"eps_ppm": 1000000}})
            d.evaluate("two")
            d.start("two", 3000, auto_approve=True)
            d.traffic(lambda: d.rollout()["now"]["state"] == "promoted")
            status, body, _ = d.ask("POST", "/admin/v1/rollouts", {"candidate": "other", "plan": plan(3000)})
            self.assertEqual((status, body["error"]["detail"]["field"]), (409, "baseline"), body)
            self.assertEqual(body["error"]["detail"]["stable"], json.loads(d.foldkv("generations", "two", "--json"))["identity"])
            d.evaluate("other", thresholds={**LIMITS, "quality": {"eps_ppm": 1000000}})
            self.assertIn("awaiting_approval", d.start("other", 3000))
        self.verify()

    def test_2d_a_rollout_right_after_a_restart(self):
        """What is still being loaded again is not taken for gone."""
        with self.daemon("--threads", "1") as d:
            d.foldkv("publish", self.two, "--name", "two")
            d.evaluate("two")
        for _ in range(3):
            with self.daemon("--threads", "1") as d:
                def starts():
                    status, body, _ = d.ask("POST", "/admin/v1/rollouts?dry_run=all", {"candidate": "two", "plan": plan(3000)})
                    if status >= 300:
                        self.assertEqual((status, body["error"]["code"]), (503, "unavailable"), body)
                        self.assertIn("is loaded again after the start: ask again", body["error"]["message"])
                    return status < 300
                self.assertTrue(wait_until(starts))

    def test_3_what_is_refused(self):
        with self.daemon() as d:
            self.assertIn("tokenizer", d.foldkv("publish", self.vocabulary, code=1))
            self.assertIn("invalid_request", d.foldkv("publish", self.cut, code=1))
            first = d.foldkv("publish", self.two, "--name", "two", "--json")
            self.assertEqual(json.loads(d.foldkv("publish", self.two, "--name", "two", "--json"))["id"], json.loads(first)["id"])
            self.assertIn("name_taken", d.foldkv("publish", self.other, "--name", "two", code=1))
            self.assertIn("evaluated and warmed", d.foldkv("rollout", "start", "two", code=1))
            self.assertIn("not_found", d.foldkv("rollout", "start", "nobody", code=1))
            self.assertIn("epoch_mismatch", d.foldkv("publish", self.other, "--epoch", "99", code=1))
            self.assertEqual(set(self.ids(d)), {"stable", "ready"})
        self.verify()

    def test_4_a_broken_candidate_fails_its_evaluation(self):
        with self.daemon() as d:
            stable = self.ids(d)["stable"]
            d.foldkv("publish", self.nan, "--name", "nan")
            self.assertRegex(d.evaluate("nan", code=1), r"not passed  gate \w+: fail \(.+\)")
            d.foldkv("rollout", "start", "nan", code=1)
            self.assertEqual(d.answer()[0], stable)

    def test_4a_why_it_did_not_pass(self):
        with self.daemon("--threads", "1") as d:
            d.foldkv("publish", self.two, "--name", "two")
            for axis, value, most in (("contexts", 999999, "context"), ("active_requests", 65, "at most 64"), ("query_lengths", 513, "at most 512")):
                matrix = {**TERMS["matrix"], axis: [value]}
                status, body, _ = d.ask("POST", "/admin/v1/generations/two:evaluate", {**TERMS, "matrix": matrix})
                self.assertEqual((status, body["error"]["param"], body["error"]["detail"]["value"]), (400, f"matrix.{axis}[0]", value))
                self.assertIn(most, body["error"]["message"])
            none_fits = {"contexts": [64], "active_requests": [1], "query_lengths": [64]}
            said = d.evaluate("two", code=1, matrix=none_fits)
            self.assertIn("0 of 1 passed\nfailed      context 64, 1 active, query 64: query and answer do not fit", said)
            receipt = d.ask("GET", "/admin/v1/generations/two/evaluation")[1]["evaluation"]
            self.assertEqual(receipt["cells_failed"], [{"cell": 0, "why": "query and answer do not fit in the context"}])

    def test_4d_dry_runs_do_nothing(self):
        with self.daemon("--threads", "1") as d:
            d.foldkv("publish", self.two, "--name", "two")
            d.foldkv("evaluate", "two", "--dry-run")
            status, body, _ = d.ask("POST", "/admin/v1/generations/two:evaluate?dry_run=all", {"matrix": {**TERMS["matrix"], "contexts": [999999]}})
            self.assertEqual((status, body["error"]["param"]), (400, "matrix.contexts[0]"))
            holders = [g["lane"]["weights_holders"] for g in json.loads(d.foldkv("generations", "--json"))["generations"]]
            self.assertEqual((holders, set(self.ids(d))), ([1, 1], {"stable", "ready"}))

    def test_4b_upkeep(self):
        with self.daemon() as d:
            stable = self.ids(d)["stable"]
            d.foldkv("publish", self.two, "--name", "two")
            d.answer("a prompt that is long enough for a page to be kept " * 4)
            self.assertIn("purged", d.foldkv("purge"))
            self.assertTrue(wait_until(lambda: re.search(r"^foldkv_blocks_cached\S* 0$", d.get("/metrics"), re.M)))
            self.assertIn("not_found", d.foldkv("purge", "nobody", code=1))
            self.assertIn("illegal_transition", d.foldkv("evaluate", "two", "--cancel", code=1))
            d.foldkv("freeze", "on")
            self.assertIn("\nfoldkv_release_frozen 1\n", d.get("/metrics"))
        with self.daemon() as d:
            self.assertEqual(re.findall(r"^foldkv_release_frozen.*$", d.get("/metrics"), re.M), ["foldkv_release_frozen 1"])
            self.assertIn("frozen", d.foldkv("forget", "two", code=1))
            d.foldkv("freeze", "off")
            self.assertEqual(re.findall(r"^foldkv_release_frozen.*$", d.get("/metrics"), re.M), ["foldkv_release_frozen 0"])
            self.assertRegex(d.foldkv("generations"), rf"(?m)^{stable} .* stable .*8\.0 MiB .*loaded$")
            space = json.loads(d.foldkv("generations", "two", "--json"))["namespace"]
            d.foldkv("forget", "two")
            self.assertIn("fenced", d.foldkv("fence", space))
            d.foldkv("drain")
            self.assertEqual(d.process.wait(30), 0)
        self.verify()

    def test_4c_a_long_prompt_lies_inside_the_tested_chunks(self):
        """A prompt is computed a chunk at a step: tested for such chunks, a candidate takes longer prompts too, up to the tested context."""
        with self.daemon("--prefill-chunk", "64") as d:
            two = json.loads(d.foldkv("publish", self.two, "--name", "two", "--json"))["id"][:16]
            d.evaluate("two")
            d.start("two", 3000)
            d.foldkv("rollout", "approve")
            long, too_long = "w" * 200, "w" * 300
            self.assertTrue(wait_until(lambda: d.answer(prompt=long)[0] == two), "no long prompt reaches the candidate")
            self.assertNotIn(two, {d.answer(prompt=too_long)[0] for _ in range(40)})

    def test_5_nothing_of_it_is_on_the_inference_port(self):
        with self.daemon() as d:
            for path in ("/admin/v1/generations", "/admin/v1/rollback"):
                link = d.connect()
                link.request("GET", path)
                self.assertEqual(link.getresponse().status, 404)
                link.close()
            self.assertEqual(os.stat(os.path.join(self.state, "admin.sock")).st_mode & 0o777, 0o600)
            self.assertNotIn("kept in memory", d.log())

    def test_6_without_a_state_folder_it_says_so(self):
        with Daemon("--cache-bytes", "8MiB", "--threads", "1", model_path=self.one) as d:
            self.assertTrue(wait_until(lambda: "generations are kept in memory: a restart knows its model file alone" in d.log()), d.log())
            self.assertNotIn("admin API", d.log())


if __name__ == "__main__":
    run_cases()
