#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a file exports, another file uses: exports.py SOURCE BUILD. A function that only its own file calls is static; one that
only tests call is counted in the report, one that nobody calls is a finding."""
import os
import subprocess
import sys

import tree

BUILD = sys.argv[2]

defined, used = {}, {}
objects = []
for path, dirs, names in os.walk(BUILD):
    objects += [os.path.relpath(os.path.join(path, n), BUILD) for n in names if n.endswith(".o")]
for at in range(0, len(objects), 200):
    run = subprocess.run(["nm", "-A", "-g", *sorted(objects)[at:at + 200]], cwd=BUILD, text=True, capture_output=True, check=True)
    for line in run.stdout.splitlines():
        where, rest = line.split(":", 1)
        *_, kind, symbol = rest.split()
        if kind == "T":
            defined.setdefault(symbol, where)
        elif kind == "U":
            used.setdefault(symbol, set()).add(where)
findings = []
ours = {s: w for s, w in defined.items() if w.split("/")[0] in tree.PROGRAM and "llhttp" not in w and s != "main"}
tested_only = []
for symbol, where in sorted(ours.items()):
    callers = used.get(symbol, set())
    if not callers:
        findings.append(f"{where}: {symbol} is exported and nobody else calls it")
    elif all(c.startswith("tests/") for c in callers):
        tested_only.append(symbol)
print(f"called by tests alone: {' '.join(tested_only)}")
tree.verdict(findings, len(ours))
