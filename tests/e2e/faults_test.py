#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A disk that fails under a daemon that serves, and rollbacks that are blocked, each with the way out of docs/release.md.
faults_test.py MAKE_MODEL

The disk fails by strace's injection into the daemon's own calls on the registry's files, or on the one copy that it makes."""
import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
from daemon import Refused, required, run_cases, seconds, wait_until  # noqa: E402
from releasing import Releasing, make_models  # noqa: E402

MAKE_MODEL = os.path.abspath(sys.argv.pop(1))
REGISTRY = ("registry.sqlite", "registry.sqlite-wal")


class Faults(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        make_models(cls, MAKE_MODEL, {"one": [], "two": ["--nudge"], "three": ["--seed", "9"]})

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.state = os.path.join(self.folder.name, "state")

    def tearDown(self):
        self.folder.cleanup()

    def daemon(self, *flags, state=None, model=None):
        d = Releasing(state or self.state, model or self.one, "--threads", "1", *flags)
        self.addCleanup(lambda: d.process.poll() is None and d.kill())  # after a failure
        return d

    def generations(self, d):
        return {g["state"]: g for g in json.loads(d.foldkv("generations", "--json"))["generations"]}

    def in_step(self, d):
        """(stable, candidate), with a rollout in a step that does not end."""
        d.foldkv("publish", self.two, "--name", "two")
        d.evaluate("two")
        d.start("two", 3000, requests=1000000)
        d.foldkv("rollout", "approve")
        found = self.generations(d)
        stable, two = found["stable"]["id"][:16], found["canary"]["id"][:16]
        self.reaches(d, two)
        return stable, two

    def reaches(self, d, generation):
        self.assertTrue(wait_until(lambda: d.answer()[0] == generation), f"nothing reaches {generation}")

    def verify(self, state=None):
        run = subprocess.run([required("FOLDKV_TEST_BINARY"), "audit", "verify", "--state", state or self.state], capture_output=True,
                             text=True, timeout=seconds(60))
        self.assertEqual((run.returncode, run.stderr), (0, ""))


class Disk(Faults):
    @contextlib.contextmanager
    def failing(self, d, call, error, *names):
        """Each such call on the named files of the state directory fails; at least one must have."""
        trace = os.path.join(self.folder.name, "trace")
        paths = [word for name in names for word in ("-P", os.path.join(self.state, name))]
        strace = subprocess.Popen(["strace", "-f", "-e", f"trace={call}", "-e", f"inject={call}:error={error}", "-o", trace, *paths, "-p",
                                   str(d.process.pid)], stderr=subprocess.PIPE, text=True)
        try:
            line = strace.stderr.readline()
            self.assertIn("attached", line)
            yield
        finally:
            strace.send_signal(signal.SIGTERM)
            strace.stderr.read()
            strace.wait(seconds(60))
            strace.stderr.close()
        with open(trace) as f:
            self.assertIn("(INJECTED)", f.read())

    def takes_no_writes(self, d, stable, reason):
        """503 with the reason for what changes, answers for what reads, inference by stable alone."""
        status, body, headers = d.ask("POST", "/admin/v1/cache:purge")
        self.assertEqual((status, body["error"]["code"]), (503, "registry_read_only"))
        self.assertIn(reason, body["error"]["message"])
        self.assertEqual(headers["retry-after"], "1")
        self.assertEqual({d.answer()[0] for _ in range(40)}, {stable}, "a candidate was admitted")
        self.assertEqual(d.metrics()["foldkv_release_writable"], 0)
        self.assertEqual(d.ask("GET", "/admin/v1/generations")[0], 200)
        for command in (("publish", self.three), ("rollout", "pause"), ("rollout", "abort"), ("forget", "two")):
            said = d.foldkv(*command, code=1)
            self.assertEqual(said.count("\n"), 1, said)
            self.assertIn("registry_read_only", said)
        self.assertEqual({d.answer()[0] for _ in range(10)}, {stable}, "a candidate was admitted")
        self.assertEqual(d.get("/readyz"), "ok\n")

    def test_1_a_full_disk_that_gets_space_again(self):
        with self.daemon() as d:
            stable, two = self.in_step(d)
            with self.failing(d, "pwrite64", "ENOSPC", *REGISTRY):
                self.takes_no_writes(d, stable, "full")
            self.assertTrue(wait_until(lambda: d.metrics()["foldkv_release_writable"] == 1))
            self.assertEqual(d.ask("POST", "/admin/v1/cache:purge")[0], 200)
            d.foldkv("publish", self.three, "--name", "three")
            self.assertEqual(d.rollout()["now"]["state"], "step")
            self.reaches(d, two)
            d.foldkv("rollback")
            d.in_state("rolled_back")
            self.assertEqual(self.generations(d)["stable"]["id"][:16], stable)
        self.verify()

    def test_2_a_failing_and_a_read_only_disk_until_the_restart(self):
        d = self.daemon()
        stable, two = self.in_step(d)
        for call, error, reason in (("fdatasync", "EIO", "I/O error"), ("pwrite64", "EROFS", "I/O error")):
            with self.subTest(error):
                with self.failing(d, call, error, *REGISTRY):
                    self.takes_no_writes(d, stable, reason)
                self.takes_no_writes(d, stable, reason)  # what was not synced is not trusted
                before = self.generations(d)
                d.stop()
                d = self.daemon()
                self.assertEqual({state: g["id"] for state, g in self.generations(d).items()},
                                 {state: g["id"] for state, g in before.items()})
                self.assertEqual(d.rollout()["now"]["state"], "step")
                self.reaches(d, two)
                self.assertEqual(d.ask("POST", "/admin/v1/cache:purge")[0], 200)
        d.stop()
        self.verify()

    def test_3_no_room_for_the_copy_of_a_file(self):
        with self.daemon() as d:
            copy = f"objects/.partial-{d.process.pid}-{os.stat(self.two).st_ino:x}"
            for call, error, text in (("write", "ENOSPC", "No space left"), ("write", "EDQUOT", "Disk quota exceeded")):
                with self.subTest(error):
                    with self.failing(d, call, error, copy):
                        body = d.ask("POST", "/admin/v1/generations", {"path": self.two})
                    self.assertEqual((body[0], body[1]["error"]["code"]), (503, "registry_read_only"))
                    self.assertIn(text, body[1]["error"]["message"])
                    self.assertEqual(len(os.listdir(os.path.join(self.state, "objects"))), 1)
                    self.assertEqual(set(self.generations(d)), {"stable"})
            d.foldkv("publish", self.two, "--name", "two")
        self.verify()


class Blocked(Faults):
    def is_blocked(self, d, *words):
        """The status says why, metrics and alert say that."""
        self.assertTrue(wait_until(lambda: d.metrics()["foldkv_rollback_blocked"] == 1), d.rollout()["now"])
        found = d.rollout()
        self.assertEqual((found["now"]["state"], found["now"]["reason"]), ("blocked", "rollback_blocked"))
        for word in words:
            self.assertIn(word, found["note"])
        self.assertEqual(d.metrics()['foldkv_rollout_state{state="blocked"}'], 1)
        self.assertIn("blocked", d.foldkv("rollout", "status"))

    def rolls_back(self, d, stable):
        d.foldkv("rollback")
        d.in_state("rolled_back")
        self.assertEqual(d.answer()[0], stable)
        self.assertEqual(self.generations(d)["stable"]["id"][:16], stable)
        self.assertTrue(wait_until(lambda: d.metrics()["foldkv_rollback_blocked"] == 0))
        self.assertEqual(d.get("/readyz"), "ok\n")

    def promoted(self, d):
        """The previous generation, which is not loaded any more."""
        d.foldkv("publish", self.two, "--name", "two")
        d.evaluate("two")
        d.start("two", 3000)
        d.foldkv("rollout", "approve")
        d.traffic(lambda: d.rollout()["now"]["state"] != "step")
        d.in_state("awaiting_approval")
        d.foldkv("rollout", "approve")
        d.in_state("promoted")
        return self.generations(d)["previous"]

    def serves_nobody(self, d):
        """The one that was rolled back stays barred, so there is none."""
        for ask in (lambda: d.complete("hello w", max_tokens=4), lambda: d.get("/readyz")):
            with self.assertRaises(Refused) as caught:
                ask()
            self.assertEqual(caught.exception.status, 503)

    def test_0_weights_in_memory_need_no_file(self):
        """Right after the promotion, and after a restart that could still read the file."""
        for is_restarted in (False, True):
            with self.subTest(is_restarted=is_restarted):
                d = self.daemon()
                previous = self.promoted(d)
                both = d.metrics()["foldkv_weight_bytes"]
                if is_restarted:
                    d.stop()
                    d = self.daemon(model=self.two)
                    self.assertTrue(wait_until(lambda: d.metrics()["foldkv_weight_bytes"] == both))
                file = os.path.join(self.state, "objects", previous["object"])
                os.unlink(file)
                shutil.copy(self.three, file)
                self.rolls_back(d, previous["id"][:16])
                d.stop()
                self.verify()
                shutil.rmtree(self.state)

    def test_1_the_previous_file_is_lost_or_altered(self):
        d = self.daemon()
        previous = self.promoted(d)
        d.stop()
        generation, file = previous["id"][:16], os.path.join(self.state, "objects", previous["object"])
        os.unlink(file)
        with self.daemon(model=self.two) as d:
            self.assertIn("is blocked", d.foldkv("rollback", code=1))
            self.is_blocked(d, "is not there any more", previous["object"][:16])
            self.assertEqual(json.loads(d.foldkv("generations", generation, "--json"))["id"], previous["id"])
            self.serves_nobody(d)
            shutil.copy(self.three, file)  # another file under the name
            self.assertIn("the registry says", d.foldkv("rollback", code=1))
            self.assertTrue(wait_until(lambda: "the registry says" in (d.rollout()["note"] or "")), d.rollout())
            self.is_blocked(d, previous["object"][:16])
            self.serves_nobody(d)
            shutil.copy(self.one, file)
            self.rolls_back(d, generation)
        self.verify()

    def test_2_receipts_that_do_not_verify(self):
        with self.daemon() as d:
            stable, two = self.in_step(d)
            key = self.generations(d)["stable"]["receipts"]["placement"]
            with contextlib.closing(sqlite3.connect(os.path.join(self.state, "registry.sqlite"))) as db:
                body = db.execute("SELECT body FROM receipts WHERE key = ?", (key,)).fetchone()[0]

                def put(text):
                    with db:
                        self.assertEqual(db.execute("UPDATE receipts SET body = ? WHERE key = ?", (text, key)).rowcount, 1)

                identity = json.loads(body)["identity"]
                put(body.replace(identity, "0" * 64))
                d.foldkv("rollback", code=1)
                self.is_blocked(d)
                self.assertEqual({d.answer()[0] for _ in range(40)}, {stable}, "stable serves on, and it alone")
                self.assertEqual(d.get("/readyz"), "ok\n")
                d.foldkv("rollback", code=1)
                self.assertTrue(wait_until(lambda: d.rollout()["now"]["state"] == "blocked"))
                put(body)
            self.rolls_back(d, stable)
            self.assertEqual(self.generations(d)["rolled_back"]["id"][:16], two)
        self.verify()

    def test_3_the_previous_file_is_lost_for_good(self):
        d = self.daemon()
        previous = self.promoted(d)
        d.stop()
        os.unlink(os.path.join(self.state, "objects", previous["object"]))
        d = self.daemon(model=self.two)
        d.foldkv("rollback", code=1)
        self.is_blocked(d, previous["object"][:16])
        d.stop()
        with self.assertRaises(AssertionError) as caught:
            self.daemon(model=self.two)
        self.assertIn("the registry says", str(caught.exception))
        new = os.path.join(self.folder.name, "new")
        with self.daemon(state=new, model=self.two) as d:
            self.assertEqual(set(self.generations(d)), {"stable"})
            d.answer()
        self.verify()
        self.verify(new)


if __name__ == "__main__":
    run_cases()
