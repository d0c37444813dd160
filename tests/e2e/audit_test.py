#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`foldkv audit` on a state directory: what it lists and verifies, and that it finds what was altered. audit_test.py ACTOR"""
import json
import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from daemon import required, run_cases, seconds  # noqa: E402

ACTOR = os.path.abspath(sys.argv.pop(1))


def act(state, scenario):
    """Runs a scenario of tests/torture/registry_actor.c to its end."""
    ours, theirs = socket.socketpair()
    process = subprocess.Popen([ACTOR, state, scenario, str(theirs.fileno())], pass_fds=[theirs.fileno()])
    theirs.close()
    with ours, ours.makefile("r") as told:
        told.readline()
        ours.sendall(b"!")
        lines = told.read().splitlines()
    if process.wait(seconds(60)) != 0:
        raise AssertionError(lines)


def audit(*arguments):
    return subprocess.run([required("FOLDKV_TEST_BINARY"), "audit", *arguments], capture_output=True, text=True, timeout=seconds(60))


class Audit(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.state = os.path.join(self.folder.name, "state")
        for scenario in ("create", "publish", "promote"):
            act(self.state, scenario)

    def tearDown(self):
        self.folder.cleanup()

    def refused(self, code, words, *arguments):
        run = audit(*arguments)
        self.assertEqual((run.returncode, run.stdout), (code, ""), run.stderr)
        self.assertEqual(run.stderr.count("\n"), 1, run.stderr)
        self.assertIn(words, run.stderr)

    def test_1_lists_and_verifies(self):
        run = audit("list", "--state", self.state)
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        rows = [json.loads(line) for line in run.stdout.splitlines()]
        self.assertEqual([row["entry"]["seq"] for row in rows], list(range(1, len(rows) + 1)))
        self.assertIn("rollout.approve", {row["entry"]["what"] for row in rows})
        for row in rows:
            self.assertLessEqual({"who", "what", "before", "after", "at_us", "epoch"}, set(row["entry"]))
        page = audit("list", "--state", self.state, "--after", "3", "--limit", "2").stdout.splitlines()
        self.assertEqual([json.loads(line)["entry"]["seq"] for line in page], [4, 5])
        report = json.loads(audit("verify", "--state", self.state, "--json").stdout)
        self.assertEqual((report["verified"], report["entries"], report["head"]), (True, len(rows), rows[-1]["hash"]))
        self.assertIn("verified:", audit("verify", "--state", self.state).stdout)

    def test_2_finds_what_was_altered(self):
        with sqlite3.connect(os.path.join(self.state, "registry.sqlite")) as db:
            db.execute("UPDATE receipts SET body = replace(body, '\"errors\":0', '\"errors\":1') WHERE body LIKE '%rollout_decision%'")
        self.refused(1, "it was altered", "verify", "--state", self.state)

    def test_3_usage(self):
        self.refused(2, "--state DIR is needed", "verify")
        self.refused(2, "list or verify", "--state", self.state)
        self.refused(1, "cannot be read", "list", "--state", os.path.join(self.folder.name, "none"))
        self.refused(2, "limit", "list", "--state", self.state, "--limit", "0")
        self.assertIn("--state", audit("--help").stdout)


if __name__ == "__main__":
    run_cases()
