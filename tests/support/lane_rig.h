/* lane_rig.h: a real engine with its threads, lanes of small models in it, and requests through a port,
 * from a test's own thread. Every failure aborts the test with a message. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_TESTS_SUPPORT_LANE_RIG_H
#define FOLDKV_TESTS_SUPPORT_LANE_RIG_H

#include "sched/doorbell.h"
#include "sched/engine.h"

struct lane_rig {
    struct engine *engine;
    struct engine_port *port;
    struct doorbell bell; /* rung by the port's wake-ups */
};

/* One worker, 8 running, 64 waiting, prompts by 64. */
struct engine_options lane_rig_options(void);
/* f16, 4 MiB of pages, the best kernels. */
struct lane_terms lane_rig_terms(void);

void lane_rig_init(struct lane_rig *rig, const struct engine_options *options);
void lane_rig_release(struct lane_rig *rig);
/* Another port with a bell of its own: engine stays NULL, so that release frees the port alone. */
void lane_rig_init_port(struct lane_rig *rig, struct engine *engine);
/* Loaded and added. */
struct lane *lane_rig_add(struct lane_rig *rig, const struct gguf *gguf,
                          const struct lane_terms *terms);

/* A greedy one over the tokens (seed + i) % 200; user is handed back. */
struct request *lane_rig_request(uint32_t seed, uint32_t n_ids, uint32_t max_tokens, void *user);
/* The status of engine_submit; the request is freed if it was refused. */
enum status lane_rig_submit(struct lane_rig *rig, struct lane *lane, struct request *request);

/* What a request gave; user of each request that lane_rig_collect sees must be one, or NULL. */
enum { LANE_RIG_TOKENS_MAX = 1024 };
struct lane_rig_answer {
    uint32_t ids[LANE_RIG_TOKENS_MAX];
    uint32_t n_ids;
    bool is_done;
    enum finish_reason reason;
    enum status error;
    struct request_times times;
};
/* Takes what is ready; waits until n requests are done and frees those. Returns all tokens that came. */
uint32_t lane_rig_collect(struct lane_rig *rig, uint32_t n);
/* Waits until the lane has reached life. */
void lane_rig_await(struct lane *lane, enum lane_life life);

#endif
