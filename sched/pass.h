/* pass.h: one walk through a model's weights a step, for every scheduler that shares them.
 *
 * Each scheduler has a cache of its own (a POOL of the pass's decoder), its own lists and counters;
 * what they share is the step: its rows, the room for prompt rows, the logits. So two lanes of one
 * checkpoint read its weights once a step, not twice. Who else is in a step changes when an output
 * comes, never what it is.
 *
 * It has no clock and makes no thread: the engine (or a test) calls it with the time. Nothing
 * allocates after pass_new and pass_join. Engine thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_PASS_H
#define FOLDKV_SCHED_PASS_H

#include "sched/pace.h"
#include "sched/scheduler.h"

struct pass;

enum { PASS_SCHEDULERS_MAX = DECODER_POOLS_MAX };

struct pass_limits {
    uint32_t running_max;   /* requests of a step, of all schedulers together */
    uint32_t prefill_chunk; /* prompt rows of a step, of all together */
    uint32_t context_max;
    bool is_paced; /* fewer prompt rows while others decode (pace.h) */
    /* Read while a step is under way: one that is late for its decode rows goes on without its prompt
     * rows, which are planned again. NULL: none is late. */
    uint64_t (*clock_ns)(void *user);
    void *clock_user;
};

/* The model, kernels and workers are loans until pass_free: a model whose graph and weights are those
 * of every lane that joins; K/V types may differ. NO_MEMORY and others with a why. */
enum status pass_new(const struct model *model, const struct kernels *kernels,
                     struct workers *workers, const struct pass_limits *limits,
                     struct pass **ret_pass, struct why *ret_why) MUST_USE;
/* Who is still in leaves first. */
void pass_free(struct pass **pass);

/* The scheduler's rows are in every step from now on; its cache's pages are where memory says.
 * Between steps. UNAVAILABLE with a why if there are PASS_SCHEDULERS_MAX already or their running
 * requests might be more than running_max; STALE_PLAN if its model's weights or architecture are
 * not those of the pass's; as decoder_attach. */
enum status pass_join(struct pass *pass, struct scheduler *scheduler,
                      const struct decoder_memory *memory, struct why *ret_why) MUST_USE;
/* Between steps (after the deliver). Its requests wait from then on until it joins one again. */
void pass_leave(struct pass *pass, struct scheduler *scheduler);

/* A step's layers: each scheduler ends what was cancelled and admits, then all rows are computed
 * together. False if there was nothing to do. A scheduler whose pool is not the one that was
 * admitted is left out and its running requests fail with STALE_PLAN, alone. */
bool pass_step(struct pass *pass, uint64_t now_ns);
/* A step's outputs: after each pass_step that was true, with the time then. */
void pass_deliver(struct pass *pass, uint64_t now_ns);
/* Passes of one engine take turns, and a long prompt in one holds up the streams of the others: adds
 * what this one is to them, and settles what they are to it in the next step. */
void pass_add_company(const struct pass *pass, struct pace_company *company);
void pass_set_company(struct pass *pass, const struct pace_company *company);
/* How long the last step took, for its pace. */
void pass_observe(struct pass *pass, uint64_t elapsed_ns);
/* Requests waiting and running in all its schedulers. */
uint32_t pass_active(const struct pass *pass);
uint32_t pass_schedulers(const struct pass *pass);
/* For who looks into a step: the pool of a scheduler that is in. */
struct decoder *pass_decoder(struct pass *pass);
uint32_t pass_pool(const struct pass *pass, const struct scheduler *scheduler);

#endif
