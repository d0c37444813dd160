/* decoder_priv.h: the decoder's insides, for decoder.c (life) and decoder_step.c (the step) only.
 * */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_DECODER_PRIV_H
#define FOLDKV_SCHED_DECODER_PRIV_H

#include "sched/decoder.h"

/* Rows of quantised activations, owned. */
struct act_rows {
    uint32_t n_columns;
    int8_t *quants;
    float *scale;
    float *scaled_sum;
    int32_t *sum;
};

struct decoder {
    const struct model *model;
    const struct kernels *kernels;
    struct workers *workers;
    struct decoder_limits limits;
    struct decoder_memory memory;
    struct attention_plan *plan;

    float *residual; /* [rows][hidden] */
    float *normed;   /* [rows][hidden] */
    float *q;        /* [rows][H_q * d_qk] */
    float *k;        /* [rows][H_k * d_qk] */
    float *v;        /* [rows][H_v * d_v] */
    float *attended; /* [rows][H_q * d_v] */
    float *product;  /* [rows][hidden] */
    float *gate;     /* [rows][ffn] */
    float *up;       /* [rows][ffn] */
    float *cosine;   /* [rows][rope_dims / 2] */
    float *sine;
    double *rope_frequency; /* [rope_dims / 2] */
    float *logits;          /* [logit_rows_max][vocab] */

    struct act_rows hidden_act; /* of normed */
    struct act_rows attended_act;
    struct act_rows ffn_act;
    struct act_rows *own_act; /* [threads], one row each, for steps of one row */
    float *own_values;        /* [threads][own_columns] */
    uint32_t own_columns;

    uint32_t *row_sequence; /* [rows]: index into the batch's sequences */
    const struct decoder_batch *batch;
    const uint32_t *logit_rows;
    uint32_t n_logit_rows;
    enum status attention_status; /* written by worker 0 */
};

#endif
