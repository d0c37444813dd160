"""The set that ships as C, so that a daemon needs no file beside it: evaluation_set_shipped.py FILE"""
# SPDX-License-Identifier: Apache-2.0
import sys


def spelt(byte):
    """A byte inside quotes: as it is, or as three octal digits."""
    return chr(byte) if 32 <= byte < 127 and chr(byte) not in '\\"' else f"\\{byte:03o}"


def main():
    print('#include "sched/evaluate/evaluation_order.h"\n')
    print("const char evaluation_set_text[] =")
    with open(sys.argv[1], "rb") as file:
        for line in file:
            print('    "' + "".join(spelt(byte) for byte in line) + '"')
    print("    ;\nconst size_t evaluation_set_text_len = sizeof evaluation_set_text - 1;")


main()
