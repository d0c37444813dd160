/* scheduler_priv.h: the scheduler's insides, for its files and its pass: scheduler.c (life and
 * lists), scheduler_batch.c (admission, rows, preemption) and scheduler_emit.c (which rows give
 * outputs, and what becomes of them). */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_SCHEDULER_PRIV_H
#define FOLDKV_SCHED_SCHEDULER_PRIV_H

#include "sched/pace.h"
#include "sched/request_priv.h"
#include "sched/scheduler.h"

/* What is left of a step's room for prompt rows. */
struct prompt_room {
    uint32_t rows;
    double units;
};

/* The rows of a step, as its schedulers put them there one behind the other. */
struct step_rows {
    uint32_t *ids;                        /* [rows_max] */
    struct attention_sequence *sequences; /* [groups][n_sequences] */
    uint32_t *n_asked;                    /* [n_sequences]: see struct decoder_batch */
    uint32_t n_rows, n_sequences;
    struct prompt_room room;
    struct pace_step made_of;
};

/* A row whose logits are wanted: they give the token at index token of the request. */
struct wanted_row {
    struct scheduler *scheduler;
    uint32_t running; /* its place among the scheduler's running requests */
    uint32_t row;
    uint32_t token;
    bool is_prompt; /* the token is known: score it */
};

struct step_wanted {
    struct wanted_row *rows; /* [rows_max] */
    uint32_t n;
};

/* A running request and its share of the step. */
struct running {
    struct request *request;
    uint32_t n_rows; /* of this step; 0: it has none */
    uint32_t row_first;
    uint32_t first_position;
    enum status status; /* of its outputs in this step */
    bool is_stopped;    /* a stop token came */
};

struct scheduler {
    const struct model *model;
    struct cache *cache;
    struct decoder *decoder; /* its pass's; NULL: it is in none */
    uint32_t pool;
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

    uint64_t now_ns;
    uint64_t lag_ns; /* now_ns - lag_ns: its own clock */
    struct engine_stats stats;
};

/* ---- for the pass, once a step each in this order:
 * begin -> plan -> sequences, group by group -> (the decoder) -> commit -> want -> take, row by row ->
 * settle ---- */

void scheduler_enter(struct scheduler *s, struct decoder *decoder, uint32_t pool);
void scheduler_leave(struct scheduler *s);
/* Ends what was cancelled and admits. */
void scheduler_begin(struct scheduler *s, uint64_t now_ns);
/* Running requests that need one row. */
uint32_t scheduler_decoding(const struct scheduler *s);
/* When the oldest running request that needs more was submitted; UINT64_MAX: there is none. */
uint64_t scheduler_oldest_prompt_ns(const struct scheduler *s);
/* Puts its rows behind those there. */
void scheduler_plan(struct scheduler *s, struct step_rows *rows, const struct pace *pace);
/* Plans no rows: its running requests fail instead. False if it has none. */
bool scheduler_skip(struct scheduler *s, enum status error);
/* What the decoder is told of each planned sequence; returns the place behind the last. */
struct attention_sequence *scheduler_sequences(const struct scheduler *s, uint32_t group,
                                               struct attention_sequence *at);
/* Commits every planned append; aborts them if the step failed, and if it has shed rows those it was not asked for. */
void scheduler_commit(struct scheduler *s, const uint32_t *ids, enum status status, bool has_shed);
/* Puts the rows whose logits it wants behind those there. */
void scheduler_want(struct scheduler *s, uint64_t now_ns, struct step_wanted *wanted);
const struct request *scheduler_request(const struct scheduler *s, uint32_t running);
/* The output of a wanted row. Statuses other than OK are ends with an error. */
void scheduler_take(struct scheduler *s, const struct wanted_row *w,
                    const struct token_output *output, enum status status);
/* Ends what has ended, announces what has news. */
void scheduler_settle(struct scheduler *s);

/* ---- among its own files ---- */

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

#endif
