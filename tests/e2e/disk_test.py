#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A daemon started again while its state folder's disk is read-only or full: stable serves alone, the admin side reads and refuses
to change with the reason, and when the disk takes writes again all goes on. disk_test.py MAKE_MODEL

The disk is a real mount, in namespaces of the test's own (unshare of util-linux)."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
from daemon import required, run_cases, seconds, wait_until  # noqa: E402
from releasing import Releasing, make_models  # noqa: E402

INSIDE = "FOLDKV_TEST_DISK_MOUNTS"


class Disk(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        make_models(cls, MAKE_MODEL, {"one": [], "two": ["--nudge"], "three": ["--seed", "9"]})

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.disk = os.path.join(self.folder.name, "disk")
        os.mkdir(self.disk)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", self.disk], check=True)
        self.state = os.path.join(self.disk, "state")
        self.filler = os.path.join(self.disk, "filler")

    def tearDown(self):
        subprocess.run(["umount", "--lazy", self.disk], check=True)
        self.folder.cleanup()

    def daemon(self, *flags, admin="admin.sock", model=None):
        path = admin and os.path.join(self.folder.name, admin)
        d = Releasing(self.state, model or self.one, "--threads", "1", *flags, admin=path)
        self.addCleanup(lambda: d.process.poll() is None and d.kill())  # after a failure
        return d

    def read_only(self, is_so):
        subprocess.run(["mount", "-o", "remount," + ("ro" if is_so else "rw"), self.disk], check=True)

    def full(self, is_so):
        if not is_so:
            os.unlink(self.filler)
            return
        with open(self.filler, "wb", buffering=0) as f:
            for size in (1 << 20, 1 << 12, 1):
                try:
                    while True:
                        f.write(b"\0" * size)
                except OSError:
                    pass

    def generations(self, d):
        return {g["state"]: g for g in json.loads(d.foldkv("generations", "--json"))["generations"]}

    def reaches(self, d, generation):
        self.assertTrue(wait_until(lambda: d.answer()[0] == generation), f"nothing reaches {generation}")

    def verify(self):
        run = subprocess.run([required("FOLDKV_TEST_BINARY"), "audit", "verify", "--state", self.state], capture_output=True, text=True,
                             timeout=seconds(60))
        self.assertEqual((run.returncode, run.stderr), (0, ""))

    def in_step(self, d):
        """(stable, candidate), with a rollout in a step that does not end."""
        d.foldkv("publish", self.two, "--name", "two")
        d.evaluate("two")
        d.start("two", 3000, requests=1000000)
        d.foldkv("rollout", "approve")
        found = self.generations(d)
        self.reaches(d, found["canary"]["id"][:16])
        return found["stable"]["id"][:16], found["canary"]["id"][:16]

    def serves_alone(self, d, stable, reason, before):
        self.assertEqual({d.answer()[0] for _ in range(40)}, {stable}, "a candidate was admitted")
        self.assertEqual(d.get("/readyz"), "ok\n")
        told = [line for line in d.log().splitlines() if "takes no writes" in line]
        self.assertEqual(len(told), 1, d.log())
        self.assertRegex(told[0], reason)
        self.assertIn("stable generation is served alone", told[0])
        metrics = d.metrics()
        self.assertEqual(metrics["foldkv_release_writable"], 0)
        self.assertEqual([name for name in metrics if name.startswith("foldkv_generation_weight_bytes") and stable not in name], [])
        status, body, _ = d.ask("POST", "/admin/v1/cache:purge")
        self.assertEqual((status, body["error"]["code"]), (503, "registry_read_only"))
        self.assertRegex(body["error"]["message"], reason)
        for command in (("publish", self.three), ("rollout", "pause"), ("rollback",), ("forget", "two")):
            said = d.foldkv(*command, code=1)
            self.assertEqual(said.count("\n"), 1, said)
            self.assertIn("registry_read_only", said)
        self.assertEqual(d.ask("GET", "/admin/v1/audit?limit=1000")[1], before)
        self.assertEqual(d.rollout()["now"]["state"], "step")
        self.assertEqual(set(self.generations(d)), {"stable", "canary"})

    def refused_with(self, *words):
        with self.assertRaises(AssertionError) as caught:
            self.daemon()
        for word in words:
            self.assertIn(word, str(caught.exception))

    def restarts(self, spoil, reason):
        """Each restart with the disk spoilt ends by that being over: with a registry that was closed, that was killed, and that was
        killed and has lost SQLite's index of its log."""
        d = self.daemon()
        stable, two = self.in_step(d)
        for end in ("closed", "killed", "without index"):
            with self.subTest(end):
                d.ask("POST", "/admin/v1/cache:purge")  # something in the log
                before = d.ask("GET", "/admin/v1/audit?limit=1000")[1]
                d.stop() if end == "closed" else d.kill()
                if end == "without index":
                    os.unlink(os.path.join(self.state, "registry.sqlite-shm"))
                spoil(True)
                d = self.daemon()
                self.serves_alone(d, stable, reason, before)
                self.verify()
                if end == "killed":
                    d.stop()
                    spoil(False)
                    d = self.daemon()
                else:
                    spoil(False)
                    self.assertTrue(wait_until(lambda: d.metrics()["foldkv_release_writable"] == 1))
                    self.assertIn("takes writes again", d.log())
                self.reaches(d, two)
                self.assertEqual(d.ask("POST", "/admin/v1/cache:purge")[0], 200)
        d.foldkv("publish", self.three, "--name", "three")
        d.foldkv("rollback")
        d.in_state("rolled_back")
        self.assertEqual(d.answer()[0], stable)
        d.stop()
        self.verify()

    def test_1_read_only(self):
        self.restarts(self.read_only, "Read-only file system")

    def test_2_full(self):
        self.restarts(self.full, "No space left on device|disk is full")

    def test_3_its_own_socket_cannot_be_made(self):
        self.daemon(admin=None).stop()
        self.read_only(True)
        with self.daemon(admin=None) as d:
            d.answer()
            self.assertIn("there is no admin API: admin.listen is", d.log())
            self.assertIn("Read-only file system", d.log())

    def test_4_what_is_refused_stays_refused(self):
        self.daemon().stop()
        file = os.path.join(self.state, "registry.sqlite")
        with open(file, "rb") as f:
            good = f.read()
        for words, bad in (("is corrupt", good[:4096] + b"\xa5" * 3000 + good[7096:]), ("newer foldkv", good[:60] + b"\0\0\0\x63" + good[64:]),
                           ("is corrupt", b"no database\n" * 20)):
            with self.subTest(words):
                with open(file, "wb") as f:
                    f.write(bad)
                self.read_only(True)
                self.refused_with(words)
                self.read_only(False)
        with open(file, "wb") as f:
            f.write(good)
        with self.daemon():
            self.refused_with("locked by another daemon")
        os.unlink(file)
        self.read_only(True)
        self.refused_with("Read-only file system")


if __name__ == "__main__":
    if INSIDE not in os.environ:
        os.environ[INSIDE] = "1"
        os.execvp("unshare", ["unshare", "--map-root-user", "--mount", sys.executable, *sys.argv])
    MAKE_MODEL = os.path.abspath(sys.argv.pop(1))
    run_cases()
