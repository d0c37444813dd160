#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The model of journal, router and fence, checked by spin over all interleavings and crashes; and each of its mutants, which
must fail: a model in which nothing can go wrong proves nothing. model_test.py MODEL"""
import os
import re
import subprocess
import sys
import tempfile

MODEL = os.path.abspath(sys.argv[1])
# The assertion that a mutant must break.
MUTANTS = {"FENCE_AFTER_RESTORE": "m_fenced", "INTENT_AFTER_FLAG": "told", "LISTENER_FIRST": "d_receipts==0"}
STATES_MIN = 1000


def run(*command):
    done = subprocess.run(command, text=True, capture_output=True)
    return done.stdout + done.stderr


def verify(defines, compile_flags, pan_flags):
    """What the verifier of the model with these defines says."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        said = run("spin", "-a", *defines, MODEL) + run("gcc", "-O1", "-w", *compile_flags, "-o", "pan", "pan.c")
        if not os.path.exists("pan"):
            raise SystemExit(f"model: no verifier: {said}")
        text = run("./pan", "-m100000", *pan_flags)
        os.chdir("/")
    errors = re.search(r"errors: (\d+)", text)
    if not errors:
        raise SystemExit(f"model: no verdict: {text}")
    return int(errors.group(1)), text


def stored(text):
    return int(re.search(r"(\d+) states, stored", text).group(1))


failures = []
errors, text = verify([], ["-DSAFETY", "-DNOCLAIM"], [])
print(f"model: {stored(text)} states, {errors} errors")
if errors or stored(text) < STATES_MIN or "max search depth too small" in text:
    failures.append(f"the model itself: {text}")
dead = re.search(r"unreached in proctype daemon\n((?:\t.*\n)*)", text).group(1)
if "(0 of" not in dead:
    failures.append(f"statements that nothing reaches:\n{dead}")
errors, text = verify([], ["-DNFAIR=3"], ["-a", "-f"])
print(f"a rollback that was told ends: {stored(text)} states, {errors} errors")
if errors:
    failures.append(f"a rollback need not end: {text}")
for mutant, broken in MUTANTS.items():
    errors, text = verify([f"-D{mutant}"], ["-DSAFETY", "-DNOCLAIM"], [])
    violated = re.search(r"assertion violated (.*) \(at", text)
    print(f"mutant {mutant}: {errors} errors, {violated.group(1).strip() if violated else 'no assertion'}")
    if not errors or not violated or broken not in violated.group(1):
        failures.append(f"mutant {mutant} does not fail as it must: {text}")
print("\n".join(failures) or "model: holds")
sys.exit(bool(failures))
