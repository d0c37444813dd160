/* decoder.h: the decoder step: rows of tokens through all layers, K/V written to pages, attention
 * read from them.
 *
 * Everything is taken when the decoder is made: a step allocates nothing. One step at a time, from
 * the engine thread; the workers walk the layers together, split over outputs, rows or items, never
 * over a sum.
 *
 * POOL  The pages of one cache. Several caches of one graph and set of weights share a step, whatever
 *       their K/V types: each is attached once and gets a number, which its sequences carry. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_DECODER_H
#define FOLDKV_SCHED_DECODER_H

#include "sched/model.h"

struct decoder;

struct decoder_limits {
    uint32_t rows_max;       /* rows of one step */
    uint32_t sequences_max;  /* sequences of one step */
    uint32_t logit_rows_max; /* rows that decoder_logits takes at once */
    uint32_t context_max;    /* tokens of a sequence */
};

/* Where a cache keeps the pages of one group of layers: kernels compute on these addresses
 * (cache/cache.h, struct cache_memory). */
struct decoder_group_memory {
    char *base;
    size_t layer_stride; /* by a layer's place in the group */
    size_t head_stride;
    size_t page_bytes;
};

struct decoder_memory {
    struct decoder_group_memory groups[GRAPH_CACHE_GROUPS_MAX]; /* as graph->groups */
    uint8_t generation[SHA256_BYTES]; /* the cache's: a plan that serves another is refused */
    enum kv_type type;
};

enum { DECODER_POOLS_MAX = ATTEND_POOLS_MAX };

/* One step's rows. Sequence i's rows follow those of sequence i - 1; runs must cover every row's
 * page. A sequence has one entry a group, which differ in their pages only. */
struct decoder_batch {
    uint32_t n_rows;
    uint32_t n_sequences;
    const uint32_t *ids;                        /* [n_rows] */
    const struct attention_sequence *sequences; /* [n_groups][n_sequences] */
    /* [n_sequences]: how many of its last rows may be asked for logits, since the last layer is
     * worked through for those alone; NULL: all. */
    const uint32_t *n_asked;
    /* Whether a step with n_done layers behind it is late: then it goes on with the rows alone that may
     * be asked for logits (decoder_has_shed), provided that those are all or none of each sequence's.
     * Asked by one worker between layers. NULL: never. */
    bool (*is_late)(void *user, uint32_t n_done);
    void *late_user;
};

/* Bytes of one page (64 tokens of one head of one layer) of a group. */
size_t decoder_page_bytes(const struct graph *graph, uint32_t group, enum kv_type type);

/* The model, kernels and workers are loans until decoder_free. */
enum status decoder_new(const struct model *model, const struct kernels *kernels,
                        struct workers *workers, const struct decoder_limits *limits,
                        struct decoder **ret_decoder, struct why *ret_why) MUST_USE;
void decoder_free(struct decoder **decoder);
/* Between steps; plans for a K/V type that is new to it are made here. The memory must stay until it is
 * detached. With a why: UNAVAILABLE if there are DECODER_POOLS_MAX already, NO_MEMORY. */
enum status decoder_attach(struct decoder *decoder, const struct decoder_memory *memory,
                           uint32_t *ret_pool, struct why *ret_why) MUST_USE;
void decoder_detach(struct decoder *decoder, uint32_t pool);
/* What the plans of its K/V type take while they run: shared by all pools of the type. */
uint64_t decoder_workspace_bytes(const struct decoder *decoder, uint32_t pool);
/* STALE_PLAN if a plan does not serve the pool as it is now. */
enum status decoder_check(const struct decoder *decoder, uint32_t pool) MUST_USE;

/* Runs the layers. STALE_PLAN, with nothing read or written, if a pool of the batch's does not pass
 * decoder_check. */
enum status decoder_step(struct decoder *decoder, const struct decoder_batch *batch) MUST_USE;
/* The last step was late: what it did for sequences with n_asked 0 is not to be used, neither rows nor K/V. */
bool decoder_has_shed(const struct decoder *decoder);
/* Logits of rows[n] of the last step that may be asked for, n <= logit_rows_max: ret_logits[i * vocab ...] belongs to the
 * decoder until the next call. */
const float *decoder_logits(struct decoder *decoder, const uint32_t *rows, uint32_t n);
/* Copies the first n_tokens of one page of a pool to another, in every layer and head of a group. */
void decoder_copy_page(const struct decoder *decoder, uint32_t pool, uint32_t group,
                       uint32_t from_page, uint32_t to_page, uint32_t n_tokens);

#endif
