#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Names, rows and objects of kernels agree: kernel_names.py SOURCE BUILD. A row's function is op__isa; an op's rows rise from
scalar; what a row names lies in the library of its set, and what such a library exports is in a row."""
import os
import re
import subprocess
import sys

import tree

BUILD = sys.argv[2]
ORDER = ["scalar", "avx2", "avx512", "neon", "dotprod"]
TABLE = "kernels/kernels.def"

text = tree.code_only(tree.read(TABLE))
ops = re.findall(r"^\s*OP\((\w+),", text, re.M)
rows = [(op, isa.lower(), function) for op, isa, function in re.findall(r"^\s*KERNEL\((\w+),\s*(\w+),\s*(\w+),", text, re.M)]
findings = []
seen = {}
for op, isa, function in rows:
    if function != f"{op}__{isa}":
        findings.append(f"{TABLE}:1: {function} should be {op}__{isa}")
    if op not in ops:
        findings.append(f"{TABLE}:1: the row {function} has no OP")
    if isa not in ORDER:
        findings.append(f"{TABLE}:1: {function}: no set is named {isa}")
    elif seen.get(op, []) and ORDER.index(isa) <= ORDER.index(seen[op][-1]):
        findings.append(f"{TABLE}:1: {function} stands behind {op}__{seen[op][-1]}")
    seen.setdefault(op, []).append(isa)
findings += [f"{TABLE}:1: {op} has no scalar row in front" for op in ops if seen.get(op, [""])[0] != "scalar"]

for isa in ORDER:
    folder = os.path.join(BUILD, "kernels", f"libkernels_{isa}.a.p")
    if not os.path.isdir(folder):
        continue
    objects = [os.path.join(folder, n) for n in sorted(os.listdir(folder)) if n.endswith(".o")]
    run = subprocess.run(["nm", "-g", "--defined-only", *objects], text=True, capture_output=True, check=True)
    exported = {line.split()[-1] for line in run.stdout.splitlines() if re.search(r" T \w+__[a-z0-9]+$", line)}
    named = {function for _, row_isa, function in rows if row_isa == isa}
    findings += [f"{TABLE}:1: {f} is not in the library of {isa}" for f in sorted(named - exported)]
    findings += [f"{TABLE}:1: {f} of the library of {isa} is in no row" for f in sorted(exported - named)
                 if not f.startswith("bench_")]
tree.verdict(findings, len(rows))
