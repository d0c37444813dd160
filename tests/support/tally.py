#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts single tests over meson's test logs: tally.py LOG.json...

A Check program counts as the tests its closing line names; a script as those of its own closing line "N passed, N failed,
N skipped", or as one if it has none. A program that ended badly without naming a failed test counts as one failed.
Prints each failure and each skip with its reason, then the sum; the exit code is 1 unless tests ran and none failed.
"""
import json
import re
import sys

CHECK = re.compile(r"^\d+%: Checks: (\d+), Failures: (\d+), Errors: (\d+)$", re.M)
OWN = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", re.M)
SKIP = re.compile(r"^skip: (.*)$", re.M)


def count(test):
    """(passed, failed, skipped) of one program's run."""
    out = test.get("stdout") or ""
    passed = failed = skipped = 0
    for checks, failures, errors in CHECK.findall(out):
        failed += int(failures) + int(errors)
        passed += int(checks) - int(failures) - int(errors)
    for own in OWN.findall(out):
        passed, failed, skipped = passed + int(own[0]), failed + int(own[1]), skipped + int(own[2])
    named = passed + failed + skipped
    if test["result"] == "SKIP":
        return passed, failed, skipped + (named == 0)
    if test["result"] != "OK":
        return passed, max(failed, 1), skipped
    return passed + (named == 0), failed, skipped


def main():
    total = [0, 0, 0]
    for path in sys.argv[1:]:
        for line in open(path):
            test = json.loads(line)
            where = f"{path.rsplit('/', 1)[-1].removesuffix('.json')} {test['name']}"
            got = count(test)
            total = [a + b for a, b in zip(total, got)]
            reasons = SKIP.findall(test.get("stdout") or "")
            for reason in reasons:
                print(f"skipped: {where}: {reason}")
            if got[2] and not reasons:
                print(f"failed: {where}: a test was skipped without a reason")
                total[1] += 1
            if got[1]:
                print(f"failed: {where}: {test['result']}")
    print(f"{total[0]} passed, {total[1]} failed, {total[2]} skipped")
    sys.exit(1 if total[1] or not total[0] else 0)


if __name__ == "__main__":
    main()
