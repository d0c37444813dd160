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
};

/* Plays bytes[len] on a fresh cache whose size the first bytes choose; adds to *counts.
 * Deterministic. */
void cache_model_play(const uint8_t *bytes, size_t len, struct cache_model_counts *counts);

#endif
