/* pass_priv.h: the inside of a pass, for its two files: pass.c (life, members and the step) and
 * pass_emit.c (logits to outputs). */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_PASS_PRIV_H
#define FOLDKV_SCHED_PASS_PRIV_H

#include "sched/pass.h"
#include "sched/sampler.h"
#include "sched/scheduler_priv.h"

struct pass {
    const struct model *model;
    const struct kernels *kernels;
    struct workers *workers;
    struct pass_limits limits;
    struct decoder *decoder;
    struct pace pace;
    struct pace_company company;
    uint64_t started_ns; /* the step */
    double late_end_ns;  /* if it has shed rows: when it would have ended with them */

    struct scheduler *schedulers[PASS_SCHEDULERS_MAX]; /* in the order of this step's rows */
    uint32_t n_schedulers;

    struct step_rows rows;
    struct step_wanted wanted;
    uint32_t *logit_rows;         /* [PASS_LOGIT_ROWS] */
    struct token_output *outputs; /* [PASS_LOGIT_ROWS] */
    enum status *output_status;   /* [PASS_LOGIT_ROWS] */
    uint32_t n_threads;
    struct sampler **samplers; /* [n_threads] */
};

enum { PASS_LOGIT_ROWS = 64 }; /* rows of logits at a time */

/* pass_emit.c */
enum status pass_emit_init(struct pass *pass) MUST_USE;
void pass_emit_release(struct pass *pass);

#endif
