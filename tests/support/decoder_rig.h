/* decoder_rig.h: a decoder over plain memory, with one sequence and no cache: what a model gives
 * for a list of ids, in any chunks. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_TESTS_SUPPORT_DECODER_RIG_H
#define FOLDKV_TESTS_SUPPORT_DECODER_RIG_H

#include "sched/decoder.h"

struct decoder_rig {
    struct kernels kernels;
    struct workers *workers;
    struct model *model;
    struct decoder *decoder;
    struct decoder_memory memory;
    size_t memory_bytes[GRAPH_CACHE_GROUPS_MAX];
    struct page_run runs[GRAPH_CACHE_GROUPS_MAX];
    uint32_t n_pages;
    bool asks_last_only; /* a step says that only its last row's logits will be asked for */
};

/* Aborts the test on failure. isa NULL: the best. The file may be closed afterwards. */
void decoder_rig_init(struct decoder_rig *rig, const struct gguf *gguf, enum kv_type type,
                      const char *isa, uint32_t n_threads, uint32_t n_tokens_max);
void decoder_rig_release(struct decoder_rig *rig);
/* Tokens first..first + n - 1 of ids as one step. A windowed group gets no page that lies behind
 * the window of every row. */
void decoder_rig_step(struct decoder_rig *rig, const uint32_t *ids, uint32_t first, uint32_t n);
/* What teacher forcing gives: for all t < n, the id with the greatest logit and, for t + 1 < n, the
 * log-probability of ids[t + 1]. Steps of chunk rows. */
void decoder_rig_score(struct decoder_rig *rig, const uint32_t *ids, uint32_t n, uint32_t chunk,
                       double *ret_chosen, uint32_t *ret_top1);

#endif
