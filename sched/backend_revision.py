"""What decides results, as one SHA-256 in C: backend_revision.py TOP OUTPUT DEPFILE"""
# SPDX-License-Identifier: Apache-2.0
import fnmatch
import hashlib
import os
import sys

# Folders, and which of their files: the graph, the arithmetic, and what lays out and samples a step. How fast something is
# measured, and what checks it, decides nothing.
FOLDERS = {
    "config": ("graph*.[ch]", "graph*.def"),
    "kernels": ("*.[ch]", "*.def"),
    "kernels/arm": ("*.[ch]",),
    "kernels/scalar": ("*.[ch]",),
    "kernels/x86": ("*.[ch]",),
    "sched": ("decoder*.[ch]", "logprobs.[ch]", "model.[ch]", "pass*.[ch]", "philox.[ch]", "sampler.[ch]", "weights.[ch]"),
}


def main():
    top, output, depfile = sys.argv[1:]
    found, watched, whole = [], [], hashlib.sha256()
    for folder, patterns in FOLDERS.items():
        watched.append(folder)  # a file that comes or goes
        found += [f"{folder}/{name}" for name in os.listdir(os.path.join(top, folder))
                  if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]
    for name in sorted(found):
        with open(os.path.join(top, name), "rb") as file:
            whole.update(name.encode() + b"\0" + hashlib.sha256(file.read()).digest())
    with open(output, "w") as file:
        file.write(f'#include "sched/backend_revision.h"\n\nconst char backend_revision[] = "{whole.hexdigest()}";\n')
    with open(depfile, "w") as file:
        names = (os.path.abspath(os.path.join(top, name)).replace(" ", "\\ ") for name in watched + sorted(found))
        file.write(f"{output}: {' '.join(names)}\n")


main()
