/* cache_model.h: drives a cache by a string of bytes and compares every step with a naive model
 * that knows whole token strings.
 *
 * The randomised test and the fuzzer share it. It asserts: whatever differs aborts with file and
 * line. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_TESTS_CACHE_MODEL_H
#define FOLDKV_TESTS_CACHE_MODEL_H

#include "config/base.h"

/* How often each thing happened: a run that never met one of them has not tested it. */
struct cache_model_counts {
    uint64_t operations, opens, shared_blocks, copied_heads, tail_sources, late_moves, commits,
        partial_commits, aborts;
    uint64_t exchanged_blocks, evictions, full_at_open, full_at_append, no_sequence, refused, drops,
        covered_tails, purges;
    uint64_t given_back;   /* blocks behind a window */
    uint64_t window_hits;  /* hits over blocks that a group with a window no longer had */
    uint64_t shortened;    /* hits that a group with a window made shorter */
    uint64_t full_in_some; /* appends refused though some group had room */
    uint64_t drops_behind; /* blocks dropped that had been given back */
};

/* Plays bytes[len] on a fresh cache whose pool (first byte modulo 7) and groups (its rest) the bytes
 * choose; adds to *counts. Deterministic. */
void cache_model_play(const uint8_t *bytes, size_t len, struct cache_model_counts *counts);

#endif
