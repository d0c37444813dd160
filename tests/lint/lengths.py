#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reports the longest functions and files, and fails past the walls. The aims are lower (functions 50 lines, kernels 100,
files 400) and met by design: a function that outgrows them hides a noun."""
import re

import tree

FUNCTION_WALL, FILE_WALL, COLUMN_WALL = 130, 800, 150
OPEN = re.compile(r"^(?:[\w*]+[ *]+)+(\w+)\([^;{]*\)\s*\n\{\n", re.M)

functions, files, findings = [], [], []
sources = tree.files(tree.PROGRAM + ["tests"], (".c", ".h", ".inc"))
for path in sources:
    text = tree.read(path)
    files.append((text.count("\n"), path))
    for match in OPEN.finditer(text):
        end = text.find("\n}", match.end())
        line = text.count("\n", 0, match.end())
        functions.append((text.count("\n", match.end(), end) + 1, f"{path}:{line}: {match.group(1)}"))
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > COLUMN_WALL:
            findings.append(f"{path}:{number}: {len(line)} columns, the wall is {COLUMN_WALL}")
findings += [f"{where} has {n} lines, the wall is {FUNCTION_WALL}" for n, where in functions if n > FUNCTION_WALL]
findings += [f"{path}:1: {n} lines, the wall is {FILE_WALL}" for n, path in files if n > FILE_WALL]
for name, rows in (("functions", functions), ("files", files)):
    print(f"longest {name}:")
    for n, where in sorted(rows, reverse=True)[:8]:
        print(f"  {n:5d}  {where}")
tree.verdict(findings, len(sources))
