#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Equal sources have one revision, wherever they lie; changed ones another. backend_revision_test.py TOP BUILT"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

TOP, BUILT = sys.argv[1:3]
del sys.argv[1:3]


class BackendRevision(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.top = os.path.join(self.folder.name, "a copy")
        for name in ("config", "kernels", "sched"):
            shutil.copytree(os.path.join(TOP, name), os.path.join(self.top, name))

    def tearDown(self):
        self.folder.cleanup()

    def revision(self, text=None):
        if text is None:
            out = os.path.join(self.folder.name, "out.c")
            subprocess.run([sys.executable, os.path.join(TOP, "sched", "backend_revision.py"), self.top, out, out + ".d"], check=True)
            with open(out) as f:
                text = f.read()
        return re.search(r'backend_revision\[\] = "([0-9a-f]{64})"', text).group(1)

    def add(self, *path):
        with open(os.path.join(self.top, *path), "a") as f:
            f.write("\n")

    def test_a_copy_has_the_revision_that_was_built(self):
        with open(BUILT) as f:
            self.assertEqual(self.revision(), self.revision(f.read()))

    def test_what_decides_results_changes_it(self):
        seen = {self.revision()}
        for path in (("kernels", "kernels.def"), ("kernels", "x86", "attend_avx512.c"), ("kernels", "arm", "a_new_one.c"),
                     ("sched", "decoder_step.c"), ("sched", "sampler.c"), ("config", "graph.c")):
            self.add(*path)
            seen.add(self.revision())
        self.assertEqual(len(seen), 7)

    def test_what_does_not_leaves_it(self):
        before = self.revision()
        for path in (("kernels", "bench", "bench_gemm.c"), ("kernels", "oracle", "row_audit.c"), ("sched", "engine.c"), ("config", "text_buf.c")):
            self.add(*path)
        self.assertEqual(self.revision(), before)


if __name__ == "__main__":
    unittest.main()
