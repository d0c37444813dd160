# SPDX-License-Identifier: Apache-2.0
"""What every lint needs: the files of the tree, C text without comments and strings, and a verdict.

A lint is a script that takes the source root (and, if it needs one, the build root), prints one line a finding as
file:line: what is wrong, and exits 1 if there is any.
"""
import os
import re
import sys

ROOT = sys.argv[1]
FOLDERS = ["config", "kernels", "cache", "sched", "server", "tests", "deploy", "docs", ".ci"]
PROGRAM = ["config", "kernels", "cache", "sched", "server"]
_TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def files(folders=FOLDERS, suffixes=("",), top=False):
    """Paths from the root, sorted; with top also the files that lie in the root itself."""
    found = []
    for folder in folders:
        for path, dirs, names in os.walk(os.path.join(ROOT, folder)):
            dirs[:] = [d for d in dirs if d != "__pycache__"]
            found += [os.path.relpath(os.path.join(path, n), ROOT) for n in names]
    if top:
        found += [n for n in os.listdir(ROOT) if os.path.isfile(os.path.join(ROOT, n)) and n != ".git"]  # a file in a linked work tree
    return sorted(f for f in found if f.endswith(suffixes))


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8", errors="surrogateescape") as f:
        return f.read()


def is_script(path):
    return path.endswith(".py") or ("." not in os.path.basename(path) and read(path).startswith("#!"))


def code_only(text):
    """C text with comments gone and strings emptied; line numbers stay."""
    def blank(match):
        found = match.group(0)
        return ('""' if found[0] == '"' else "0" if found[0] == "'" else " ") + "\n" * found.count("\n")
    return _TOKEN.sub(blank, text)


def verdict(findings, looked_at):
    """Prints the findings and ends the lint; one that looked at nothing has failed."""
    for finding in findings:
        print(finding)
    print(f"{looked_at} looked at, {len(findings)} found")
    sys.exit(1 if findings or not looked_at else 0)
