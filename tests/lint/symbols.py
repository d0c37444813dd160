#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No serving object refers to an oracle: symbols.py SOURCE BUILD. The oracles (materialised repeat, direct owner map) are for
tests, benchmarks and audit; a call from the serving path would repeat K/V in memory. sched/oracle_audit.c alone may: it looks at
a row between steps, on a copy of its own."""
import os
import subprocess
import sys

import tree

BUILD = sys.argv[2]

objects = []
for path, dirs, names in os.walk(BUILD):
    objects += [os.path.relpath(os.path.join(path, n), BUILD) for n in names if n.endswith(".o")]
findings = []
AUDITORS = ("oracle_attention_oracle.c.o", "oracle_plain_oracle.c.o", "oracle_attention_audit.c.o", "oracle_row_audit.c.o", "oracle_audit.c.o")
serving = [o for o in sorted(objects) if not o.startswith("tests/") and os.path.basename(o) not in AUDITORS and "bench" not in o]
if serving:
    run = subprocess.run(["nm", "-A", "-u", *serving], cwd=BUILD, text=True, capture_output=True, check=True)
    for line in run.stdout.splitlines():
        where, symbol = line.split(":", 1)[0], line.split()[-1]
        if symbol.startswith("oracle_") and not symbol.startswith("oracle_audit_"):
            findings.append(f"{where}: refers to {symbol}")
tree.verdict(findings, len(serving))
