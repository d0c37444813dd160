#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pages made from tables are as the tables are: generated.py SOURCE FOLDKV [--write]. With --write they are made anew."""
import os
import subprocess
import sys

import tree

PAGES = {"reference": "docs/options.md", "metrics": "docs/metrics.md", "errors": "docs/errors.md", "gates": "docs/gates.md", "example": "deploy/foldkv.conf"}

findings = []
for topic, path in PAGES.items():
    run = subprocess.run([sys.argv[2], "help", topic], text=True, capture_output=True, check=True)
    full = os.path.join(tree.ROOT, path)
    if "--write" in sys.argv:
        with open(full, "w", encoding="utf-8") as f:
            f.write(run.stdout)
    elif not os.path.exists(full) or tree.read(path) != run.stdout:
        findings.append(f"{path}:1: not what `foldkv help {topic}` prints; tests/lint/generated.py . BINARY --write makes it anew")
tree.verdict(findings, len(PAGES))
