#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every header compiles by itself, with the flags of the instruction set whose folder it lies in."""
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

import tree

BASE = ["-std=gnu17", "-fsyntax-only", "-x", "c", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror",
        "-I", tree.ROOT, "-I/usr/share/include"]
AVX2 = ["-mavx2", "-mfma", "-mf16c"]
AVX512 = AVX2 + ["-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512vnni"]
X86, ARM = "x86_64", "aarch64"
# The one header that is made to be read under several instruction sets; it brings in kernels/*/lanes_*.h.
LANES = [("-DLANES_SCALAR=1", None, []), ("-DLANES_AVX2=1", X86, AVX2), ("-DLANES_AVX512=1", X86, AVX512),
         ("-DLANES_NEON=1", ARM, [])]
# Parts of templates: loops of one instruction set that need the includer's names.
PARTS = ("kernels/arm/quant_groups.h", "kernels/arm/quant_tile_groups.h")


def compiler(machine):
    if machine in (None, os.uname().machine):
        return "gcc"
    return shutil.which("aarch64-linux-gnu-gcc") if machine == ARM else None


def ways(path):
    """(machine, flags) for each way in which the header is to compile; templates compile through their includers."""
    if path.endswith("_tmpl.h") or path in PARTS or (path.startswith("kernels/") and "/lanes_" in path):
        return []
    if path == "kernels/lanes.h":
        return [(machine, [define, *flags]) for define, machine, flags in LANES]
    if path.startswith("kernels/x86/"):
        return [(X86, AVX512)]
    return [(ARM if path.startswith("kernels/arm/") else None, [])]


def check(job):
    path, (machine, flags) = job
    cc = compiler(machine)
    if cc is None:
        return None
    run = subprocess.run([cc, *BASE, *flags, "-"], input=f'#include "{path}"\n', text=True, capture_output=True)
    if run.returncode == 0:
        return None
    wrong = [line for line in run.stderr.splitlines() if "error" in line] or [run.stderr]
    return f"{path}:1: {' '.join(flags[:1])} {wrong[0]}"


headers = tree.files(tree.PROGRAM + ["tests"], (".h",))
jobs = [(path, way) for path in headers for way in ways(path)]
with ThreadPoolExecutor(2) as pool:
    findings = [f for f in pool.map(check, jobs) if f]
tree.verdict(findings, len(jobs))
