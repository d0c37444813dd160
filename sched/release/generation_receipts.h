/* generation_receipts.h: the four receipts of a generation, made from what was really loaded: the file, the pool as it
 * was allocated, the kernels and the plan, the owners of every query head.
 *
 * Each is made from its own part; agreement.h holds them against each other. Any thread, while the lane
 * is there. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_GENERATION_RECEIPTS_H
#define FOLDKV_SCHED_GENERATION_RECEIPTS_H

#include "sched/release/agreement.h"
#include "sched/model.h"

struct cache;

struct receipt_sources {
    const struct gguf *gguf; /* NULL: without the list of tensors, to be checked and not kept */
    const struct model *model;
    const struct cache *cache; /* before the engine has it, or as its functions say */
    const struct kernels *kernels;
    const char *id;         /* the generation's */
    const char *who;        /* says where the checkpoint is from */
    bool hashes_tensors;    /* each tensor's bytes too: one more reading of the file */
};

/* The records are the caller's, also on failure. NO_MEMORY. */
enum status generation_receipts_make(const struct receipt_sources *sources,
                                     struct record ret_receipts[AGREEMENT_RECEIPTS]) MUST_USE;

#endif
