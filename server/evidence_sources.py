#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where each kernel comes from, as a C table made at build time: evidence_sources.py ROOT OUT NM ARCHIVE...

A function is looked for in the archives' symbols, so that the file named is the one that was compiled; the file is hashed, and
so is all of ours that it includes. The commit is that of the tree, if ROOT is the top of a git work tree."""
import hashlib
import os
import re
import subprocess
import sys

root, out, nm, *archives = sys.argv[1:]
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.M)
KERNEL = re.compile(r"^KERNEL\(\w+, \w+, (\w+), \w+\)", re.M)


def read(path):
    with open(os.path.join(root, path), "rb") as f:
        return f.read()


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else ""


def git(*words):
    return run("git", "-C", root, *words)


def parts_of(path):
    """All of ours that a file includes, itself apart."""
    seen, left = set(), [path]
    while left:
        for name in INCLUDE.findall(read(left.pop()).decode()):
            if name not in seen and name != path and os.path.isfile(os.path.join(root, name)):
                seen.add(name)
                left.append(name)
    return sorted(seen)


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def objects():
    """Kernel sources by the name of the object that the build makes of them."""
    for folder in sorted(os.listdir(os.path.join(root, "kernels"))):
        where = os.path.join(root, "kernels", folder)
        for name in sorted(os.listdir(where)) if os.path.isdir(where) else ():
            if name.endswith(".c"):
                yield f"{folder}_{name}.o", f"kernels/{folder}/{name}"


def functions():
    """File of each function that the archives define."""
    files = dict(objects())
    for archive in archives:
        for line in run(nm, "-A", "-g", "--defined-only", archive).splitlines():
            where, _, symbol = line.rpartition(" ")
            match = re.search(r"([^/:]+\.c\.o):", where)
            if match and match.group(1) in files:
                yield symbol, files[match.group(1)]


def table():
    is_top = os.path.realpath(git("rev-parse", "--show-toplevel").strip() or "/") == os.path.realpath(root)
    commit = git("rev-parse", "HEAD").strip() if is_top else ""
    changed = set(git("diff", "--name-only", "HEAD").split()) if commit else set()
    known = set(git("ls-files").split()) if commit else set()
    found = dict(functions())
    yield '#include "server/evidence_sources.h"\n'
    yield f'const char evidence_commit[] = "{commit}";\n'
    yield "const struct evidence_source evidence_sources[] = {"
    for function in sorted(set(KERNEL.findall(read("kernels/kernels.def").decode())) & set(found)):
        file = found[function]
        parts = parts_of(file)
        lines = "".join(f"{sha256(read(part))}  {part}\n" for part in parts)
        clean = commit != "" and not changed.intersection([file, *parts]) and known.issuperset([file, *parts])
        yield (f'    {{"{function}", "{file}", "{sha256(read(file))}", "{sha256(lines.encode())}", {len(parts)}, '
               f'{"true" if clean else "false"}}},')
    yield "    {0},\n};\n"


text = "\n".join(table())
if not os.path.exists(out) or open(out).read() != text:
    with open(out, "w") as f:
        f.write(text)
