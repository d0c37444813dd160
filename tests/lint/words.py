#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What every file carries and what none does: a licence line, an essay atop each .c, no promise of later work, no path of
somebody's machine, no address outside this machine, no trailing blanks."""
import re

import tree

DATA = re.compile(r"^tests/data/|^LICENSE$|^tests/fuzz/corpus")
LATER = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX|HA" r"CK)\b")
MACHINE = re.compile(r"(?<![\w.~/}$])/(work|home|root|Users)/\w")
ADDRESS = re.compile(r"https?://(?!127\.0\.0\.1|localhost|\[::1\]|example\.(org|com)|HOST|www\.apache\.org)[\w.-]+\.\w+")
ESSAY_LINES = range(1, 61)


def check(path):
    text = tree.read(path)
    is_c = path.endswith((".c", ".h", ".inc"))
    if (is_c or tree.is_script(path)) and "SPDX-License-Identifier: Apache-2.0" not in text[:6000]:
        yield f"{path}:1: no SPDX-License-Identifier line"
    if path.endswith(".c"):
        essay = re.match(r"/\*.*?\*/", text, re.S)
        if not essay:
            yield f"{path}:1: no essay: what the file is for, before anything else"
        elif essay.group(0).count("\n") + 1 not in ESSAY_LINES:
            yield f"{path}:1: the essay has {essay.group(0).count(chr(10)) + 1} lines"
    for number, line in enumerate(text.split("\n"), 1):
        for pattern, why in ((LATER, "what is left to do is an issue"), (MACHINE, "a path of one machine"),
                             (ADDRESS, "an address outside this machine")):
            found = pattern.search(line)
            if found:
                yield f"{path}:{number}: '{found.group(0)}': {why}"
        if line != line.rstrip():
            yield f"{path}:{number}: blanks at the end of the line"


paths = [p for p in tree.files(top=True) if not DATA.search(p)]
tree.verdict([f for path in paths for f in check(path)], len(paths))
