/* engine_rig.h: an engine's parts without its thread, stepped by a test, and what each request got.
 * */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_TESTS_SUPPORT_ENGINE_RIG_H
#define FOLDKV_TESTS_SUPPORT_ENGINE_RIG_H

#include "sched/lane_parts.h"

/* What a test asks for; ids belong to the test. */
struct rig_spec {
    const uint32_t *ids;
    uint32_t n_ids;
    uint32_t max_tokens;
    struct sampling sampling;
    int32_t logprobs;
    bool prompt_logprobs;
};

/* What came, in order. */
struct rig_outcome {
    struct token_output *outputs;
    uint32_t n_outputs;
    uint32_t room;
    uint32_t cached_tokens;
    bool is_done;
    enum finish_reason reason;
    enum status error;
};

struct rig_options {
    uint32_t n_threads;
    uint32_t running_max;
    uint32_t prefill_chunk;
    uint64_t cache_bytes;
    const char *cache_type;
    const char *isa;
    const uint32_t *stop_ids;
    uint32_t n_stop_ids;
    uint32_t n_lanes;     /* that share the weights and every step; 0: 1 */
    const char *other_type; /* K/V type of every second lane; NULL: cache_type */
    uint64_t lane_bytes;  /* each lane's pool is so much larger than that of the one before */
    uint32_t running_all; /* places in a step; 0: as many as the lanes can fill */
    uint64_t leap_ns;     /* time leaps so far now and then within a step; 0: no step is ever late */
};

struct rig_clock {
    uint64_t now_ns, leap_ns, random;
};

/* Lanes' parts without an engine, in a pass of their own. The named ones are what tests look at: the
 * first lane's. */
struct rig_parts {
    struct lane_parts lane;
    struct lane_parts others[PASS_SCHEDULERS_MAX - 1];
    uint32_t n_lanes;
    struct workers *workers;
    struct pass *pass;
    struct model *model;
    struct cache *cache;
    struct scheduler *scheduler;
    uint32_t context_max;
    struct rig_clock clock;
};

struct rig;

/* On failure what was built is left for rig_parts_release. */
enum status rig_parts_init(struct rig_parts *parts, const struct gguf *gguf,
                           const struct rig_options *options, scheduler_news_fn *on_news,
                           void *user, struct why *ret_why) MUST_USE;
void rig_parts_release(struct rig_parts *parts);

/* Aborts the test with a message on failure. The gguf must stay. */
struct rig *rig_new(const struct gguf *gguf, const struct rig_options *options);
void rig_free(struct rig **rig);
struct rig_parts *rig_parts(struct rig *rig);
/* A lane, and whether it takes part in steps. */
struct lane_parts *rig_lane(struct rig *rig, uint32_t lane);
enum status rig_join(struct rig *rig, uint32_t lane, struct why *ret_why) MUST_USE;
void rig_leave(struct rig *rig, uint32_t lane);
/* Submits to the first lane; outcome (zeroed) fills as steps go by, and must outlive the request. */
struct request *rig_submit(struct rig *rig, const struct rig_spec *spec,
                           struct rig_outcome *outcome);
struct request *rig_submit_to(struct rig *rig, uint32_t lane, const struct rig_spec *spec,
                              struct rig_outcome *outcome);
/* One step at simulated time; tells the scheduler that it took elapsed_ns. False if there was
 * nothing to do. */
bool rig_step(struct rig *rig, uint64_t elapsed_ns);
/* Steps until nothing is left; fails the test after steps_max. */
void rig_run(struct rig *rig, uint32_t steps_max);
/* Fails the test unless both are the same to the byte. */
void rig_outcome_check_equal(const struct rig_outcome *a, const struct rig_outcome *b,
                             const char *what);
void rig_outcome_release(struct rig_outcome *outcome);
/* Options of a small engine: one thread, the best instruction set. */
struct rig_options rig_options(void);

#endif
