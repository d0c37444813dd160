#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the release side refuses, by the command and by the call: a clear line, exit code 1, and nothing has changed.
bad_input_test.py MAKE_MODEL"""
import hashlib
import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
from daemon import required, run_cases, seconds  # noqa: E402
from releasing import Releasing, make_model, plan  # noqa: E402

MAKE_MODEL = os.path.abspath(sys.argv.pop(1))
STEP = plan(1000)["steps"][0]
PLANS = {  # what the line must name
    "steps[0].weight_bp is 12000": plan(12000),
    "steps[0].weight_bp is 8000": plan(8000),  # control has 30 %
    "steps[1].weight_bp is 1000": plan(2000, 1000),
    "steps[1].weight_bp is 2000": plan(2000, 2000),
    "steps is []": plan(),
    "steps is missing": {"cap_bp": 500},
    "steps[0].min_requests is missing": {"steps": [{"weight_bp": 100, "max_seconds": 600}]},
    "gates.quality is null": plan(1000, gates={"quality": None}),
    "gates.tpot_p99.eps_ppm is null": plan(1000, gates={"tpot_p99": {"eps_ppm": None}}),
    "gates.quality.eps is unknown": plan(1000, gates={"quality": {"eps": 1}}),
    "gates.speed is unknown": plan(1000, gates={"speed": {"eps_ppm": 1}}),
    "hurry is unknown": plan(1000, hurry=True),
}


class BadInput(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.one = make_model(MAKE_MODEL, cls.folder.name, "one")
        cls.two = make_model(MAKE_MODEL, cls.folder.name, "two", "--nudge")
        cls.state = os.path.join(cls.folder.name, "state")
        cls.daemon = Releasing(cls.state, cls.one, "--threads", "1")
        try:
            cls.id = json.loads(cls.daemon.foldkv("publish", cls.two, "--name", "two", "--json"))["id"]
            cls.daemon.evaluate("two")
            cls.daemon.foldkv("publish", make_model(MAKE_MODEL, cls.folder.name, "three", "--seed", "9"), "--name", "three")
        except BaseException:
            cls.daemon.kill()
            raise

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()
        cls.folder.cleanup()

    def setUp(self):
        self.before = self.world()

    def tearDown(self):
        self.assertEqual(self.world(), self.before, "something has changed")

    def world(self):
        status, generations, headers = self.daemon.ask("GET", "/admin/v1/generations")
        audit = self.daemon.ask("GET", "/admin/v1/audit?limit=1000")[1]
        return (status, headers["etag"], [(g["id"], g["state"], g["name"]) for g in generations["generations"]], audit.count("\n"),
                sorted(os.listdir(os.path.join(self.state, "objects"))))

    def refused(self, words, *command):
        said = self.daemon.foldkv(*command, code=1)
        self.assertEqual(said.count("\n"), 1, said)
        self.assertIn(words, said)

    def file(self, name, content):
        path = os.path.join(self.folder.name, name)
        with open(path, "wb") as f:
            f.write(content)
        return path

    def test_1_files(self):
        with open(self.one, "rb") as f:
            good = f.read()
        files = {"the file is empty": b"", "starts with bytes": b"no model\n" * 50, "GGUF version 9": good[:4] + b"\x09\0\0\0" + good[8:],
                 "18446744073709551615 tensors": good[:8] + b"\xff" * 16 + good[24:], "need at least": good[:200],
                 "the file has": good[:-100]}
        for words, content in files.items():
            with self.subTest(words):
                path = self.file("bad.gguf", content)
                self.refused(words, "publish", path)
                status, body, _ = self.daemon.ask("POST", "/admin/v1/generations", {"path": path})
                self.assertEqual((status, body["error"]["code"]), (400, "invalid_request"))
                self.assertIn(words, body["error"]["message"])
        self.refused("not a regular file", "publish", self.folder.name)
        self.refused("No such file", "publish", os.path.join(self.folder.name, "none"))

    def test_2_another_tokenizer(self):
        other = make_model(MAKE_MODEL, self.folder.name, "vocabulary", "--other-vocab")
        said = self.daemon.foldkv("publish", other, code=1)
        self.assertEqual([line for line in said.splitlines() if line.startswith("foldkv:")], said.splitlines()[-1:])
        status, body, _ = self.daemon.ask("POST", "/admin/v1/generations", {"path": other})
        self.assertEqual((status, body["error"]["code"]), (409, "receipts_disagree"))
        detail = body["error"]["detail"]
        self.assertEqual(detail["field"], "tokenizer")
        self.assertNotEqual(detail["candidate"], detail["stable"])
        for side in ("candidate", "stable"):
            self.assertRegex(detail[side], "^[0-9a-f]{64}$")
            self.assertIn(detail[side], said)

    def test_3_published_twice(self):
        status, body, _ = self.daemon.ask("POST", "/admin/v1/generations", {"path": self.two, "name": "two"})
        self.assertEqual((status, body["id"]), (200, self.id))
        other = make_model(MAKE_MODEL, self.folder.name, "other", "--seed", "10")
        status, body, _ = self.daemon.ask("POST", "/admin/v1/generations", {"path": other, "name": "two"})
        self.assertEqual((status, body["error"]["code"]), (409, "name_taken"))
        self.refused("name_taken", "publish", other, "--name", "two")
        status, body, _ = self.daemon.ask("POST", "/admin/v1/generations", {"path": self.two, "name": "more"})
        self.assertEqual((status, body["error"]["code"]), (409, "name_taken"))
        self.assertIn("named 'two': it is not named 'more' as well", body["error"]["message"])
        self.refused("page_tokens is 32: pages have 64 tokens", "publish", self.two, "--page-tokens", "32")
        self.refused("--page-tokens is 'x': a whole number is right", "publish", self.two, "--page-tokens", "x")

    def test_4_plans(self):
        for words, bad in PLANS.items():
            with self.subTest(words):
                path = self.file("plan.json", json.dumps(bad).encode())
                self.refused(words, "rollout", "start", "two", "--plan", path)
                status, body, _ = self.daemon.ask("POST", "/admin/v1/rollouts", {"candidate": "two", "plan": bad})
                self.assertEqual((status, words in body["error"]["message"]), (400, True), body)
        self.refused("not JSON", "rollout", "start", "two", "--plan", self.file("plan.json", b'{"steps": ['))
        for body in ({"candidate": "two"}, {"plan": plan(1000)}, {"candidate": "two", "plan": 7}):
            self.assertEqual(self.daemon.ask("POST", "/admin/v1/rollouts", body)[0], 400, body)

    def test_5_thresholds_of_an_evaluation(self):
        for words, thresholds in (("thresholds.speed", {"speed": {"eps_ppm": 1}}), ("thresholds.quality.eps", {"quality": {"eps": 1}}),
                                  ("thresholds.quality.eps_ppm", {"quality": {"eps_ppm": None}})):
            with self.subTest(words):
                status, body, _ = self.daemon.ask("POST", "/admin/v1/generations/three:evaluate", {"thresholds": thresholds})
                self.assertEqual(status, 400, body)
                self.assertIn(words, body["error"]["message"])
                self.assertTrue(body["error"]["param"].startswith("thresholds."), body)
        status, body, _ = self.daemon.ask("POST", "/admin/v1/generations", {"path": self.two, "cache_type": "q8"})
        self.assertEqual((status, body["error"]["param"]), (400, "cache_type"))
        self.assertTrue(body["error"]["message"].startswith('cache_type is "q8": '), body)


class Registries(unittest.TestCase):
    """A state directory that must not be taken: the daemon ends with a line, and the directory is as it was."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.model = make_model(MAKE_MODEL, self.folder.name, "one")
        self.state = os.path.join(self.folder.name, "state")
        Releasing(self.state, self.model, "--threads", "1").stop()
        self.path = os.path.join(self.state, "registry.sqlite")

    def tearDown(self):
        self.folder.cleanup()

    def content(self):
        found = {}
        for top, _, names in os.walk(self.state):
            for name in names:
                path = os.path.join(top, name)
                if name not in ("registry.sqlite-shm", "admin.sock"):
                    with open(path, "rb") as f:
                        found[path] = hashlib.sha256(f.read()).hexdigest()
        if os.path.exists(self.path + "-wal") and os.path.getsize(self.path + "-wal") == 0:
            del found[self.path + "-wal"]  # a log without content is none
        return found

    def registry(self):
        with open(self.path, "rb") as f:
            return f.read()

    def refused(self, words):
        before = self.content()
        run = subprocess.run([required("FOLDKV_TEST_BINARY"), "serve", self.model, "--listen", "127.0.0.1:0", "--threads", "1", "--state",
                              self.state, "--admin-listen", f"unix:{self.folder.name}/other.sock"], capture_output=True, text=True,
                             timeout=seconds(60))
        self.assertEqual((run.returncode, run.stdout), (1, ""), run.stderr)
        self.assertEqual(run.stderr.count("\n"), 1, run.stderr)
        self.assertRegex(run.stderr, re.escape(words))
        self.assertEqual(self.content(), before)

    def statement(self, text):
        db = sqlite3.connect(self.path)
        db.execute(text)
        db.commit()
        db.close()

    def test_1_of_a_newer_version(self):
        version = int.from_bytes(self.registry()[60:64], "big") + 1
        self.statement(f"PRAGMA user_version={version}")
        self.refused("was written by a newer foldkv")

    def test_2_corrupt(self):
        good = self.registry()
        for words, content in (("it is no SQLite file", b"no database" * 100), ("is corrupt", b""), ("is corrupt", good[:4096] + b"\xa5" * 3000 + good[7096:]),
                               ("is corrupt", good[:len(good) // 2])):
            with self.subTest(words=words, bytes=len(content)):
                with open(self.path, "wb") as f:
                    f.write(content)
                self.refused(words)

    def test_3_with_an_altered_audit(self):
        self.statement("UPDATE audit SET body = replace(body, 'foldkv', 'nobody') WHERE seq = 1")
        self.refused("audit entry 1 does not follow")

    def test_4_locked_by_another_daemon(self):
        with Releasing(self.state, self.model, "--threads", "1") as d:
            self.refused("is locked by another daemon")
            self.assertEqual(d.ask("POST", "/admin/v1/cache:purge")[0], 200)


if __name__ == "__main__":
    run_cases()
