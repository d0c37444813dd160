#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/shapes-reference.json: what a float64 forward pass, which shares nothing with foldkv, makes of the files of
model_shapes.c. Needs gguf and numpy; run by hand when a shape is added: shapes_reference.py MAKE_MODEL > .../shapes-reference.json

Weights are dequantised exactly; every product, norm, softmax and rotation is done in float64, with K/V kept in float64. For each
file: its SHA-256, for each position but the last the log-probability of the next id, and for each the likeliest id."""
import hashlib
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

SHAPES = ["llama", "rope-factors", "layer-heads", "maps", "layer-maps", "qwen2", "qwen3", "exaone4", "gemma3"]
TYPES = {"F32": 0, "F16": 1}
IDS = [(i * i * 31 + i * 7) % 256 for i in range(300)]


class File:
    def __init__(self, path):
        reader = GGUFReader(path)
        self.keys = {key: field.contents() for key, field in reader.fields.items()}
        self.architecture = self.keys["general.architecture"]
        self.tensors = {t.name: dequantize(t.data, t.tensor_type).reshape(t.shape[::-1]).astype(np.float64) for t in reader.tensors}

    def key(self, tail):
        return self.keys.get(f"{self.architecture}.{tail}")


def normed(x, weight, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def rotated(x, base, width, in_halves, factors):
    """x [T, heads, d]: pairs of neighbours (llama), or of the first half and the second."""
    inverse = base ** (-np.arange(width // 2, dtype=np.float64) * 2 / width)
    if factors is not None:
        inverse = inverse / factors
    angle = np.arange(len(x), dtype=np.float64)[:, None] * inverse
    c, s = np.cos(angle)[:, None, :], np.sin(angle)[:, None, :]
    y = x.copy()
    first, second = (slice(0, width // 2), slice(width // 2, width)) if in_halves else (slice(0, width, 2), slice(1, width, 2))
    y[..., first] = x[..., first] * c - x[..., second] * s
    y[..., second] = x[..., first] * s + x[..., second] * c
    return y


def owners(f, layer, n_query, n_kv):
    """For K and for V, the owner of each query head."""
    for c in "kv":
        owner = f.keys.get(f"foldkv.query_to_{c}_head")
        if owner is None:
            yield [i // (n_query // n_kv) for i in range(n_query)]
        else:
            yield owner if len(owner) == n_query else owner[layer * n_query:(layer + 1) * n_query]


def attention(f, layer, h):
    t, name = f.tensors, f"blk.{layer}."
    n_query, n_kv = f.key("attention.head_count"), f.key("attention.head_count_kv")
    n_kv = n_kv[layer] if isinstance(n_kv, list) else n_kv
    d_qk, d_v, eps = f.key("attention.key_length"), f.key("attention.value_length"), f.key("attention.layer_norm_rms_epsilon")
    is_local = f.architecture == "gemma3" and layer % 6 != 5

    def projected(part, heads, d):
        return (h @ t[name + part + ".weight"].T + t.get(name + part + ".bias", 0.0)).reshape(len(h), heads, d)

    q, k, v = projected("attn_q", n_query, d_qk), projected("attn_k", n_kv, d_qk), projected("attn_v", n_kv, d_v)
    if name + "attn_q_norm.weight" in t:
        q, k = normed(q, t[name + "attn_q_norm.weight"], eps), normed(k, t[name + "attn_k_norm.weight"], eps)
    base = 10000.0 if is_local else f.key("rope.freq_base")
    factors = None if is_local else t.get("rope_freqs.weight")
    width, in_halves = f.key("rope.dimension_count"), f.architecture != "llama"
    q, k = rotated(q, base, width, in_halves, factors), rotated(k, base, width, in_halves, factors)
    behind = np.subtract.outer(np.arange(len(h)), np.arange(len(h)))
    is_seen = (behind >= 0) & (behind < f.key("attention.sliding_window")) if is_local else behind >= 0
    out = np.empty((len(h), n_query, d_v))
    k_owner, v_owner = owners(f, layer, n_query, n_kv)
    for i in range(n_query):
        s = np.where(is_seen, q[:, i] @ k[:, k_owner[i]].T / np.sqrt(d_qk), -np.inf)
        p = np.exp(s - s.max(-1, keepdims=True))
        out[:, i] = p / p.sum(-1, keepdims=True) @ v[:, v_owner[i]]
    return out.reshape(len(h), -1) @ t[name + "attn_output.weight"].T


def feed_forward(f, layer, h):
    t, name = f.tensors, f"blk.{layer}.ffn_"
    g, u = h @ t[name + "gate.weight"].T, h @ t[name + "up.weight"].T
    if f.architecture == "gemma3":
        a = 0.5 * g * (1 + np.tanh(np.sqrt(2 / np.pi) * (g + 0.044715 * g**3)))
    else:
        a = g / (1 + np.exp(-g))
    return a * u @ t[name + "down.weight"].T


def forward(f, ids):
    """Log-softmax of every position."""
    t, eps = f.tensors, f.key("attention.layer_norm_rms_epsilon")
    x = t["token_embd.weight"][np.asarray(ids)] * (np.sqrt(f.key("embedding_length")) if f.architecture == "gemma3" else 1.0)
    for layer in range(f.key("block_count")):
        for part, before, after in ((attention, "attn_norm", "post_attention_norm"), (feed_forward, "ffn_norm", "post_ffw_norm")):
            before, after = t.get(f"blk.{layer}.{before}.weight"), t.get(f"blk.{layer}.{after}.weight")
            y = part(f, layer, x if before is None else normed(x, before, eps))
            x = x + (y if after is None else normed(y, after, eps))
    z = normed(x, t["output_norm.weight"], eps) @ t.get("output.weight", t["token_embd.weight"]).T
    z -= z.max(-1, keepdims=True)
    return z - np.log(np.exp(z).sum(-1, keepdims=True))


def facts(shape, type_name, path):
    number = str(TYPES[type_name])
    subprocess.run([sys.argv[1], path, "--shape", shape, "--type", number, "--head-type", number, "--no-vocab"], check=True)
    lp = forward(File(path), IDS)
    with open(path, "rb") as file:
        sha256 = hashlib.sha256(file.read()).hexdigest()
    chosen = [round(float(lp[i, IDS[i + 1]]), 7) for i in range(len(IDS) - 1)]
    return {"shape": shape, "type": type_name, "sha256": sha256, "chosen": chosen, "top1": lp.argmax(-1).tolist()}


with tempfile.TemporaryDirectory() as folder:
    files = [facts(shape, name, os.path.join(folder, "model.gguf")) for shape in SHAPES for name in TYPES]
rows = ",\n".join(json.dumps(row, separators=(",", ":")) for row in files)
print('{"ids":' + json.dumps(IDS, separators=(",", ":")) + ',"files":[\n' + rows + "\n]}")
