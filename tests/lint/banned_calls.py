#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Calls that have one place: memory comes from config/mem.c, only the server speaks to people, nothing below it reads a clock."""
import re

import tree

RULES = [
    (r"\b(malloc|calloc|realloc|free|strdup|strndup|aligned_alloc|posix_memalign|alloca)\s*\(",
     r"^config/mem\.c$", "memory comes from config/mem.h"),
    (r"\b(mmap|munmap)\s*\(", r"^config/(mem|gguf\w*|file\w*|checkpoint\w*)\.c$", "mappings are made in config"),
    (r"\b(printf|fprintf|vfprintf|puts|fputs|putchar|perror|syslog)\s*\(",
     r"^(server/|kernels/bench/|config/base\.c$)", "only the server prints; return the failure"),
    (r"\b(clock_gettime|gettimeofday|time|clock|uv_hrtime|uv_now)\s*\(",
     r"^(server/|kernels/bench/|sched/)", "time is an argument here"),
    (r"\b(rand|srand|random|drand48|rand_r)\s*\(", r"^$", "randomness is counter-based"),
    (r"\b(exit|_exit|abort)\s*\(", r"^(server/|config/base\.c$)", "return the failure"),
    (r"\b(system|popen|signal|setjmp|longjmp)\s*\(", r"^$", "not used in this program"),
    (r"\b(strcpy|strcat|strncpy|strncat|sprintf|vsprintf|gets|strtok|atoi|atol|atof)\s*\(",
     r"^config/banned\.h$", "see config/banned.h"),
    (r"\b(assert)\s*\(", r"^$", "ASSERT, which stays on"),
]

sources = tree.files(tree.PROGRAM, (".c", ".h", ".inc"))
findings = []
for path in sources:
    code = tree.code_only(tree.read(path))
    for pattern, may, why in RULES:
        if re.search(may, path):
            continue
        for match in re.finditer(r"(?<!->)(?<!\.)" + pattern, code):
            findings.append(f"{path}:{code.count(chr(10), 0, match.start()) + 1}: {match.group(1)}(): {why}")
tree.verdict(findings, len(sources))
