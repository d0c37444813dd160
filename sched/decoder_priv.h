/* decoder_priv.h: the decoder's insides, for the decoder*.c files only: decoder.c (life and buffers),
 * decoder_layers.c (what layers share: plans, rotations), decoder_pools.c (whose pages it computes
 * over), decoder_asked.c (which rows the last layer is for), decoder_watch.c (what others see of it),
 * decoder_product.c (products and shares), decoder_heads.c (q, k and v of a layer), decoder_step.c (the step). */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_DECODER_PRIV_H
#define FOLDKV_SCHED_DECODER_PRIV_H

#include "sched/cache_misses.h"
#include "sched/decoder_watch.h"

/* Rows of quantised activations, owned. */
struct act_rows {
    uint32_t n_columns;
    int8_t *quants;
    float *scale;
    float *scaled_sum;
    int32_t *sum;
};

/* One way to rotate, shared by every layer that rotates so; its sines are made anew for the rows
 * of each step. */
struct rope_table {
    double base;
    uint32_t n_dims;
    bool has_factors;
    double *frequency; /* [n_dims / 2] */
    float *cosine;     /* [rows][n_dims / 2] */
    float *sine;
};

/* The schedules of attention over pools of one K/V type, shared by every layer of its cache group that
 * maps heads alike. */
struct layer_plan {
    struct attention_plan *all;   /* for every row */
    struct attention_plan *asked; /* for those that are asked for, where not all are worked through */
    enum kv_type type;
    uint32_t group;
    uint32_t layer; /* the first that has it, which says what the others are compared with */
};

/* What a layer needs beside its weights. */
struct decoder_layer {
    const struct layer_plan *plans[KV_TYPE_COUNT]; /* NULL: no pool of the type was ever attached */
    const struct rope_table *rope; /* NULL: not rotated */
    struct kv_layer memory[DECODER_POOLS_MAX];
    uint32_t rows_by_heads; /* a step of at most so many rows is shared by whole heads */
};

struct span {
    uint32_t first, end;
};

enum { ROW_RUNS_MAX = 8 };

/* Rows of a step, in rising order. */
struct row_set {
    bool is_alone; /* the step's only row: every worker carries it for itself */
    uint32_t n_runs;
    struct span runs[ROW_RUNS_MAX];
};

/* The rows of one layer. */
struct layer_rows {
    const struct row_set *in;      /* whose K and V it makes */
    const struct row_set *through; /* of these, those that go on to its end */
};

/* The widest of any layer, in floats. */
struct decoder_widths {
    uint32_t q, k, v, attended;
};

/* A row that a pool's watcher has asked for. */
struct watched_row {
    uint32_t layer;
    uint64_t pick;
    decoder_row_fn *on_row; /* NULL: not asked */
    void *user;
    bool is_chosen; /* in this step */
    uint32_t row;
    struct attention_sequence sequence; /* that row alone */
};

struct decoder_watch {
    struct watched_row asked[DECODER_POOLS_MAX];
    uint32_t n_chosen;
    float *q;                     /* [pools][widths.q] */
    float *attended;              /* [pools][widths.attended] */
    _Atomic uint64_t allocations; /* during steps */
    bool is_count_due, is_counting;
    struct cache_misses *misses; /* NULL: the host cannot count */
    uint64_t miss_bytes, miss_logical_bytes, logical_before;
};

struct decoder {
    const struct model *model;
    const struct kernels *kernels;
    struct workers *workers;
    struct decoder_limits limits;
    struct decoder_memory pools[DECODER_POOLS_MAX];
    uint32_t pools_attached; /* a bit each */
    struct decoder_widths widths;

    struct decoder_layer *layers; /* [n_layers] */
    uint32_t n_plans;
    struct layer_plan *plans; /* [KV_TYPE_COUNT * n_layers] at most */
    uint32_t types_used; /* by the step's pools, a bit each */
    uint32_t n_ropes;
    struct rope_table *ropes; /* [n_layers] at most */

    float *residual; /* [rows][hidden] */
    float *normed;   /* [rows][hidden] */
    float *q;        /* [rows][H_q * d_qk] of the layer */
    float *k;        /* [rows][H_k * d_qk] */
    float *v;        /* [rows][H_v * d_v] */
    float *attended; /* [rows][H_q * d_v] */
    float *product;  /* [rows][hidden]: what attention or the ffn gives, before it is added */
    float *gate;     /* [rows][ffn] */
    float *up;       /* [rows][ffn] */
    float *logits;   /* [logit_rows_max][vocab] */

    struct act_rows hidden_act; /* of normed, or of residual where nothing is normed before */
    struct act_rows attended_act;
    struct act_rows ffn_act;
    /* For steps of one row, which every worker carries for itself: [threads], one row each. */
    struct act_rows *own_act;
    float *own_values;   /* [threads][hidden] */
    float *own_residual; /* [threads][hidden] */

    uint32_t *row_sequence;                     /* [rows]: index into the batch's sequences */
    struct attention_sequence *typed_sequences; /* [sequences_max] */
    const struct decoder_batch *batch;
    struct row_set all;   /* rows of the step */
    struct row_set asked; /* those that the last layer is worked through for */
    bool is_asked_for_all;
    bool may_shed; /* those are whole sequences, and there is somebody who says when */
    bool has_shed; /* from this layer on those alone go on; written by worker 0 between two barriers */
    const uint32_t *logit_rows;
    uint32_t n_logit_rows;
    enum status attention_status; /* written by worker 0 */
    struct decoder_watch watch;
};

/* A buffer: where its pointer is kept, and its size. */
struct buffer_row {
    void **where;
    size_t elements;
    size_t element_bytes;
};
/* Takes them all; NO_MEMORY leaves those taken to whoever owns the pointers. */
enum status decoder_take_buffers(const struct buffer_row *rows, size_t n) MUST_USE;

/* decoder_asked.c. Settles which rows of the batch go through the last layer, and schedules its attention. */
void decoder_ask(struct decoder *decoder);
/* Worker 0, before the barrier that ends a layer, with how many layers are done then: whether the rest is for the
 * rows asked for alone. */
void decoder_consider_shedding(struct decoder *decoder, uint32_t n_done);
bool decoder_is_asked(const struct decoder *decoder, uint32_t row);

/* decoder_product.c. A worker's part of n things, in whole grains. */
struct span decoder_share(const struct decoder *d, uint32_t n, uint32_t grain, uint32_t tid);
/* Of a run of rows. */
struct span decoder_share_run(const struct decoder *d, const struct span *run, uint32_t tid);
/* Of a matrix's outputs, in pairs of panels, the kernels' widest tile. */
struct span decoder_panel_share(const struct decoder *d, const struct packed_matrix *m,
                                uint32_t tid);
struct span decoder_panel_columns(const struct packed_matrix *m, struct span panels);
struct activations decoder_activations(const struct act_rows *act, const float *values);
/* Quantises columns [first, end) of row r of x[.][n_columns] into act. */
void decoder_quantise(const struct decoder *d, const struct act_rows *act, const float *x,
                      uint32_t r, uint32_t first, uint32_t end);
/* out[row][outputs of the panels] = x W^T for the rows of the set. */
void decoder_product(const struct decoder *d, const struct packed_matrix *m,
                     const struct activations *x, const struct row_set *rows, struct span panels,
                     float *out);

/* decoder_heads.c. Up to how many rows sharing whole heads costs less than the barrier that it saves. */
uint32_t decoder_rows_by_heads(const struct graph_layer *layer, uint32_t n_threads);
/* K and V of the rows that enter layer l, Q of those that go through it; ends at a barrier. */
void decoder_heads(struct decoder *decoder, uint32_t tid, uint32_t l, const struct activations *x,
                   const struct layer_rows *rows);

/* decoder_watch.c. begin and end: around a step; enter and leave: by each worker in it; layer: by worker
 * 0, when a layer's rows are attended. */
enum status decoder_watch_init(struct decoder *decoder) MUST_USE;
void decoder_watch_release(struct decoder *decoder);
void decoder_watch_begin(struct decoder *decoder);
void decoder_watch_end(struct decoder *decoder, enum status status);
void decoder_watch_enter(struct decoder *decoder, uint32_t tid);
void decoder_watch_leave(struct decoder *decoder, uint32_t tid);
void decoder_watch_layer(struct decoder *decoder, uint32_t layer);

/* Makes the plans of a K/V type, if there are none yet; on failure there are none. */
enum status decoder_plan_type(struct decoder *decoder, enum kv_type type,
                              struct why *ret_why) MUST_USE;
static inline enum kv_type decoder_pool_type(const struct decoder *d, uint32_t pool)
{
    return d->pools[pool].type;
}

/* Makes the rotations of every layer, and the plans of the model's own K/V type. */
enum status decoder_layers_init(struct decoder *decoder, struct why *ret_why) MUST_USE;
/* Takes what init left half made. */
void decoder_layers_release(struct decoder *decoder);

#endif
