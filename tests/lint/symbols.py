#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No serving object refers to an oracle, an audit or a benchmark: symbols.py SOURCE BUILD. The oracles (materialised repeat, direct
owner map) are for tests, benchmarks and audits; a call from the serving path would repeat K/V in memory. Whatever such an object
defines may be referred to by those that the table names for it, and by no other object outside of tests. The audit of
oracle_audit.c alone runs beside serving: it looks at a row between steps, on a copy of its own."""
import os
import subprocess
import sys

import tree

BUILD = sys.argv[2]
BENCHES = ["bench_bench_attention", "bench_bench_bandwidth", "bench_bench_gemm", "bench_bench_gemv", "bench_bench_options",
           "bench_bench_product", "bench_bench_time"]
# Object (kernels/oracle/x.c is oracle_x) to the objects that may refer to what it defines.
MAY = {
    "oracle_attention_oracle": {"oracle_attention_audit", "oracle_audit", "bench_bench_attention"},
    "oracle_plain_oracle": set(),
    "oracle_attention_audit": {"evidence_command"},
    "oracle_row_audit": {"evidence_command"},
    "oracle_audit": {"lane_collector"},
    **{bench: {"bench_command", *BENCHES} for bench in BENCHES},
    **{f"bench_bench_read_{isa}": {"bench_bench_bandwidth"} for isa in ("scalar", "avx2", "avx512", "neon")},
}


def noun(path):
    return os.path.basename(path).removesuffix(".c.o")


def symbols(flags, paths):
    """(object, symbol) of each line of nm."""
    run = subprocess.run(["nm", "-A", *flags, *paths], cwd=BUILD, text=True, capture_output=True, check=True)
    return [(line.split(":", 1)[0], line.split()[-1]) for line in run.stdout.splitlines()]


objects = []
for path, dirs, names in os.walk(BUILD):
    objects += [os.path.relpath(os.path.join(path, n), BUILD) for n in names if n.endswith(".o")]
program = [o for o in sorted(objects) if not o.startswith("tests/")]
guarded = [o for o in program if noun(o).startswith(("oracle_", "bench_bench_"))]
findings = [f"{o}: an oracle or a benchmark that MAY of tests/lint/symbols.py does not name" for o in guarded if noun(o) not in MAY]
if guarded:
    definer = {symbol: noun(o) for o, symbol in symbols(["-g", "--defined-only"], guarded)}
    for where, symbol in symbols(["-u"], program):
        definers = definer.get(symbol)
        if definers and noun(where) != definers and noun(where) not in MAY.get(definers, set()):
            findings.append(f"{where}: refers to {symbol} of {definers}")
tree.verdict(findings, len(program) if guarded else 0)
