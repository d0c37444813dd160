#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/weight-blocks.inc: random blocks of every quantised weight type and what the PyPI package gguf makes of
them (quants.dequantize), as the bits of floats. Needs gguf and numpy; run by hand when a type is added:
weight_blocks.py > tests/data/weight-blocks.inc"""
import gguf
import numpy as np

# name, place of the f16 scale in a block, of the scale of the least value
TYPES = [("Q4_0", 0, None), ("Q4_1", 0, 2), ("Q5_0", 0, None), ("Q5_1", 0, 2), ("Q8_0", 0, None), ("Q2_K", 80, 82),
         ("Q3_K", 108, None), ("Q4_K", 0, 2), ("Q5_K", 0, 2), ("Q6_K", 208, None), ("IQ4_NL", 0, None), ("IQ4_XS", 0, None)]
COLUMNS = 256
rng = np.random.default_rng(7)

print("// SPDX-License-Identifier: Apache-2.0")
print("/* Made by tests/support/weight_blocks.py with gguf's quants.dequantize. WEIGHT_BLOCKS(type, bytes, bits of floats) */")
for name, *halves in TYPES:
    qtype = gguf.GGMLQuantizationType[name]
    elements, size = gguf.GGML_QUANT_SIZES[qtype]
    blocks = rng.integers(0, 256, (COLUMNS // elements, size), dtype=np.uint8)
    for at in halves:
        if at is not None:
            scales = rng.uniform(-0.1, 0.1, len(blocks)).astype(np.float16)
            blocks[:, at:at + 2] = scales.view(np.uint8).reshape(-1, 2)
    values = gguf.quants.dequantize(blocks, qtype).astype(np.float32).ravel().view(np.uint32)
    raw = blocks.ravel()
    print(f"WEIGHT_BLOCKS({name},")
    for label, items, width, form in (("BYTES", raw, 24, "%d"), ("FLOATS", values, 12, "0x%08x")):
        print(f"              {label}(")
        for i in range(0, len(items), width):
            last = i + width >= len(items)
            print("   ", ", ".join(form % x for x in items[i:i + width]) + (")" + (")" if label == "FLOATS" else ",") if last else ","))
