#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The walk of docs/release.md, pasted into a shell as it stands; only model, folder, port and the size of the pools are the
test's. walk_test.py MAKE_MODEL"""
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.join(HERE, "..", "..")
sys.path.insert(0, os.path.join(HERE, "..", "support"))
from daemon import required, run_cases, seconds  # noqa: E402
from releasing import make_model  # noqa: E402

MAKE_MODEL = os.path.abspath(sys.argv.pop(1))


def blocks():
    with open(os.path.join(SOURCE, "docs", "release.md"), encoding="utf-8") as f:
        walk = f.read().split("\n## A walk\n")[1].split("\n## ")[0]
    return re.findall(r"^```sh\n(.*?)^```$", walk, re.M | re.S)


class Walk(unittest.TestCase):
    def test_1_from_publish_to_rollback(self):
        first, *rest = blocks()
        self.assertEqual(re.findall(r"^(\w+)=", first, re.M), ["PATH", "MODEL", "STATE"])
        with socket.socket() as s, tempfile.TemporaryDirectory() as folder:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
            model = make_model(MAKE_MODEL, folder, "small", "--vocab", "49152", "--hidden", "32", "--ffn", "64", "--heads", "2",
                               "--kv-heads", "1")
            s.close()
            text = f"PATH={os.path.dirname(required('FOLDKV_TEST_BINARY'))}:$PATH\nMODEL={model}\nSTATE={folder}/state\n"
            text += "\n".join(rest).replace("127.0.0.1:8080", f"127.0.0.1:{port}").replace("256MiB", "4MiB")
            code, out = self.paste(text, folder)
        out = "\n".join(line for line in out.splitlines() if " completed: " not in line)
        self.assertEqual(code, 0, out[-6000:])
        for words in ("published\n", "passed: it may be rolled out", "promoted", "rolled back\n", "verified: "):
            self.assertIn(words, out, out[-6000:])

    def paste(self, text, folder):
        """Exit code, None if it did not end in time, and all that was written; nothing it started is left."""
        with open(os.path.join(folder, "out"), "w+") as out:
            shell = subprocess.Popen(["bash", "-e", "-c", text], stdout=out, stderr=subprocess.STDOUT, cwd=folder, start_new_session=True)
            try:
                code = shell.wait(seconds(150))
            except subprocess.TimeoutExpired:
                code = None
            try:
                os.killpg(shell.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            shell.wait()
            out.seek(0)
            return code, out.read()


if __name__ == "__main__":
    run_cases()
