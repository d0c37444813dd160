#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An arrow is an include, and nothing points up: config <- kernels, cache <- sched <- server; cache and kernels do not know
each other. Also: a .c includes its own header first, ours by path from the root, private headers stay with their noun, and
outside libraries stay in the folders that may use them."""
import os
import re

import tree

MAY = {
    "config": {"config"},
    "kernels": {"config", "kernels"},
    "cache": {"config", "cache"},
    "sched": {"config", "kernels", "cache", "sched"},
    "server": {"config", "sched", "server"},
}
# Rooms of a folder that see less than it: what judges is pure, and what measures knows nothing of how it came to be asked.
ROOMS = {
    "sched/judge": re.compile(r"^(config|sched/judge)/"),
    "sched/evaluate": re.compile(r"^(config|kernels|cache|sched(?!/release))/"),
}
# The files that join the parts: main and the commands that show kernels or run benchmarks.
JOINS = re.compile(r"^server/(main|\w*command\w*|bench\w*)\.[ch]$")
OUTSIDE = {
    r"^jansson\.h$": {"config", "server"},
    r"^openssl/": {"config", "server"},
    r"^sqlite3\.h$": {"sched"},
    r"^curl/": {"server"},
    r"^uv\.h$|^llhttp\.h$|^pcre2\.h$": {"server"},
    r"^(imm|arm_|x86)\w*intrin\.h$|^arm_neon\.h$|^cpuid\.h$|^sys/auxv\.h$": {"kernels"},
}
# Private headers that a second noun of the same folder works on, because it is the other half of the same thing.
FRIENDS = {
    "sched/release/registry_priv.h": ("change", "audit", "answer"),  # what else reads and writes the registry's file
    "sched/request_priv.h": ("engine", "lane", "scheduler"),  # the engine's side of a request
    "sched/engine_priv.h": ("lane",),  # a lane is the engine's part that comes and goes
    "sched/lane_priv.h": ("engine",),  # and what its threads work on
    "sched/scheduler_priv.h": ("pass",),  # a step of one scheduler or several
    "kernels/weight_type_priv.h": ("packed",),  # packing is reading rows of the source format
    "kernels/bench/bench_bandwidth_priv.h": ("bench_read",),  # the probe's loops, one an instruction set
}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+(?:"([^"]+)"|<([^>]+)>)', re.M)


def check(path):
    text = tree.read(path)
    folder = path.split("/")[0]
    stem = os.path.splitext(path)[0]
    ours = []
    for match in INCLUDE.finditer(text):
        where = f"{path}:{text.count(chr(10), 0, match.start()) + 1}"
        if match.group(2):
            for pattern, folders in OUTSIDE.items():
                if re.match(pattern, match.group(2)) and folder not in folders:
                    yield f"{where}: {folder} may not use <{match.group(2)}>"
            continue
        name = match.group(1)
        ours.append(name)
        target = name.split("/")[0]
        if not os.path.isfile(os.path.join(tree.ROOT, name)):
            yield f'{where}: "{name}" is no path from the root'
        elif target not in MAY[folder] and not (JOINS.match(path) and target in tree.PROGRAM):
            yield f"{where}: {folder} may not include {name}"
        room = ROOMS.get(os.path.dirname(path))
        if room is not None and not room.match(name):
            yield f"{where}: {os.path.dirname(path)} may not include {name}"
        if name.endswith("_priv.h"):
            noun = os.path.basename(name).removesuffix("_priv.h")
            if not os.path.basename(path).startswith((noun, *FRIENDS.get(name, ()))):
                yield f"{where}: {name} belongs to {noun} alone"
    own = stem + ".h"
    if path.endswith(".c") and os.path.isfile(os.path.join(tree.ROOT, own)):
        first = INCLUDE.search(text)
        if first is None or first.group(1) not in (own, stem + "_priv.h"):
            yield f"{path}:1: its own header {own} must be the first include"


sources = tree.files(tree.PROGRAM, (".c", ".h", ".def", ".inc"))
tree.verdict([f for path in sources for f in check(path)], len(sources))
