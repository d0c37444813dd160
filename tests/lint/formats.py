#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/formats.md names all that the graph's reader knows: architectures, keys, tensors, weight types, words of other designs."""
import re

import tree

PAGE = "docs/formats.md"
TABLES = {
    "config/graph_architecture.c": [r'\{\.name = "(\w+)"'],
    "config/graph_keys.c": [r'^    \{"([a-z_.]+)", RULE_'],
    "config/graph_heads.c": [r'"(foldkv\.[a-z_.]+)"'],
    "config/graph_tensors.c": [r'^    \{"([a-z_.]+)", WIDTH_', r"\bGGML_([A-Z]\w+)(?=,|\})"],
    "config/graph_designs.c": [r'^    \{"(\w+)", [A-Z_]+\}'],
}
page = tree.read(PAGE)
words = {word.strip(".") for word in re.findall(r"[\w.]+", page)}
findings, n = [], 0
for path, patterns in TABLES.items():
    text = tree.read(path)
    for pattern in patterns:
        names = set(re.findall(pattern, text, re.M))
        if not names:
            findings.append(f"{path}:1: nothing there looks like {pattern}")
        n += len(names)
        findings += [f"{PAGE}:1: {name} of {path} is not explained" for name in sorted(names) if name not in words]
tree.verdict(findings, n)
