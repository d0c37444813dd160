/* scheduler_priv.h: the scheduler's insides, for its three files: scheduler.c (life, lists and the
 * step), scheduler_batch.c (admission, rows, preemption) and scheduler_emit.c (scheduler_deliver).
 * */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_SCHEDULER_PRIV_H
#define FOLDKV_SCHED_SCHEDULER_PRIV_H

#include "sched/pace.h"
#include "sched/request_priv.h"
#include "sched/sampler.h"
#include "sched/scheduler.h"

/* A running request and its share of the step. */
struct running {
    struct request *request;
    uint32_t n_rows; /* of this step; 0: it has none */
    uint32_t row_first;
    uint32_t first_position;
    enum status status; /* of its outputs in this step */
    bool is_stopped;    /* a stop token came */
};

/* A row whose logits are wanted: they give the token at index token of the request. */
struct wanted_row {
    uint32_t row;
    uint32_t running;
    uint32_t token;
    bool is_prompt; /* the token is known: score it */
};

struct scheduler {
    struct scheduler_parts parts;
    struct scheduler_limits limits;
    uint32_t *stop_ids;
    scheduler_news_fn *on_news;
    void *user;

    struct request *waiting_head; /* oldest first */
    struct request *waiting_tail;
    struct running *running; /* [running_max], oldest first */
    uint32_t n_running;
    /* blocks of each group that the oldest waiting one lacked at its last try */
    uint32_t admission_blocks[CACHE_GROUPS_MAX];

    uint32_t *row_ids;                    /* [rows_max] */
    struct attention_sequence *sequences; /* [groups][n_sequences], room for running_max */
    uint32_t *n_asked;                    /* [running_max]: see struct decoder_batch */
    struct wanted_row *wanted;            /* [rows_max] */
    uint32_t *logit_rows;                 /* [SCHEDULER_LOGIT_ROWS] */
    struct token_output *outputs;         /* [SCHEDULER_LOGIT_ROWS] */
    enum status *output_status;           /* [SCHEDULER_LOGIT_ROWS] */
    struct sampler **samplers;            /* [threads] */
    uint32_t n_rows, n_sequences, n_wanted;
    uint32_t n_threads;

    struct pace pace;
    struct pace_step last_step;
    uint64_t now_ns;
    struct engine_stats stats;
};

/* scheduler.c */
void scheduler_end(struct scheduler *s, struct request *request, enum finish_reason reason,
                   enum status error);
void scheduler_announce(struct scheduler *s, struct request *request);
void scheduler_remove_running(struct scheduler *s, uint32_t index);
/* Counts a request in (1) or out (-1) of the waiting list. */
void scheduler_count_waiting(struct scheduler *s, const struct request *request, int sign);
void scheduler_wait(struct scheduler *s, struct request *request, bool is_preempted);

/* scheduler_emit.c */
/* How many of its last rows of this step may give an output. */
uint32_t scheduler_rows_asked(const struct running *run);

/* scheduler_batch.c */
void scheduler_admit(struct scheduler *s);
void scheduler_plan_rows(struct scheduler *s);
/* Commits (or, if the step failed, aborts) every planned append. */
void scheduler_commit(struct scheduler *s, bool is_good);

#endif
