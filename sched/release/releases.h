/* releases.h: the daemon's release side in one object: the registry's thread, the loader's thread, the lanes, the
 * route, the rollout's clock, and the admin calls.
 *
 * Opened in two parts, because the tokenizer lies between them: releases_open reads the registry and carries an open
 * journal out, releases_start loads what the rows name. After both, and not before, a listener may open.
 *
 * THREADS  Loop: all of it but what says otherwise. What other threads have done is taken over by
 *          releases_turn, which is due after on_wake. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_RELEASES_H
#define FOLDKV_SCHED_RELEASES_H

#include "sched/release/admin_call.h"
#include "sched/judge/arm.h"
#include "sched/evaluate/evaluation_cells.h"
#include "sched/judge/gate_evidence.h"
#include "sched/release/projection.h"
#include "sched/judge/rollout.h"

struct engine;
struct gguf;
struct lane;
struct releases;

enum { RELEASES_PATH_ROOM = 4096, RELEASES_SHORT_ID_ROOM = 17 };

/* What the release side asks of whoever holds it. */
struct releases_host {
    void *user;
    /* Any thread: releases_turn is due. Must not block. */
    void (*on_wake)(void *user);
    /* Any thread, several at once: a prompt's tokens under stable's tokenizer (mem_free). BOS is added if is_prompt
     * and the file says so. */
    enum status (*encode)(void *user, struct slice text, bool is_prompt, uint32_t **ret_ids,
                          uint32_t *ret_n, struct why *ret_why);
    /* Any thread: a line for the log. is_bad: a person should see it. */
    void (*on_event)(void *user, bool is_bad, const char *what, const char *text);
    /* Loop thread: begin to shut down, as on SIGTERM. */
    void (*drain)(void *user);
};

struct releases_options {
    const char *state_dir; /* NULL: in memory */
    const char *model;     /* a file; NULL: what the registry calls stable */
    const char *first_model; /* in its place where the registry is empty; NULL: none */
    struct releases_host host;
};

/* What lanes are made with; texts are loans until releases_free, stop_ids too. */
struct releases_terms {
    struct engine *engine;
    uint32_t running_max, prefill_chunk, n_threads; /* as engine has them */
    uint64_t cache_bytes;   /* of a generation; 0: as engine's options say */
    uint64_t control_bytes; /* of the control arm; 0: as many as the candidate has */
    const char *cache_type; /* "f16", "f32", "int8" */
    const char *isa;        /* NULL: the best */
    const char *name;       /* stable's alias when a registry is founded; NULL: none */
    const uint32_t *stop_ids;
    uint32_t n_stop_ids;
    const struct gguf *opened; /* releases_stable_file, by whoever read it already, until releases_start returns; NULL: it is
                                * opened */
};

/* Opens the registry (registry_open's failures), and carries an open journal as far as it goes without lanes.
 * BAD_OPTION if there is neither a stable generation nor a model to found the registry with. With a registry that takes no
 * writes (releases_opening_fault) neither a candidate nor a control arm is loaded, and no journal is carried on, until it takes them. */
enum status releases_open(const struct releases_options *options, struct releases **ret_releases,
                          struct why *ret_why) MUST_USE;
/* Why the registry took no writes when it was opened, so that stable is served alone until it does; "" if it did. */
const char *releases_opening_fault(const struct releases *releases);
/* The file that stable is loaded from: the options' model, or stable's object. */
const char *releases_stable_file(const struct releases *releases);
/* Loads stable, and whatever else the route needs; founds the registry if it is empty. RECEIPTS_DISAGREE if the options' model
 * is not the checkpoint that the registry calls stable: both values, and how to start then. Waits for the loads. */
enum status releases_start(struct releases *releases, const struct releases_terms *terms,
                           struct why *ret_why) MUST_USE;
/* Ends its loader and its evaluator, and lets go of its lanes, which are the engine's to free. Calls that are open are
 * answered DRAINING. Takes NULL. The order of an end: releases_stop, engine_free, releases_free. */
void releases_stop(struct releases *releases);
/* After the engine's end, which still calls releases_lane_changed. Takes NULL. */
void releases_free(struct releases **releases);
/* The engine's on_lane_change; user is the releases. Any thread, from releases_open on. */
void releases_lane_changed(void *user);

/* Hands answered calls back (on_done) and takes over the newest route. */
void releases_turn(struct releases *releases);
/* Takes the call until its on_done. QUEUE_FULL: not taken, too many are open. */
enum status releases_ask(struct releases *releases, struct admin_call *call) MUST_USE;

/* ---- routing ---- */

/* Where a request goes. From releases_choose to releases_end the lane is there. */
struct release_choice {
    struct lane *lane;
    enum arm arm;
    bool is_pinned; /* the client named the generation: it counts for no arm */
    char id[RELEASES_SHORT_ID_ROOM]; /* the first 16 hex digits of the generation's id */
    uint32_t slot;                   /* its own */
    int64_t epoch;                   /* of the route that chose */
    struct evaluation_cell cell;     /* its own: what was asked for */
};

/* model: bytes NULL, or a generation that is pinned past all routing, as releases_check_pin takes it. cell is what the request asks for
 * (context: prompt and answer; query_length: 0 is 1; active_requests is not read). UNAVAILABLE: nothing can admit it now; else
 * as releases_check_pin, and evaluation_cells_admit if it lies outside what was tested. */
enum status releases_choose(struct releases *releases, const struct arm_session *session,
                            struct slice model, struct evaluation_cell cell,
                            struct release_choice *ret_choice, struct why *ret_why) MUST_USE;
/* Whether a request may name this generation: by its name, or by 8 to 64 hex digits that its id begins with. MODEL_NOT_FOUND lists
 * those that it may; BAD_REQUEST for digits that begin several ids; WRONG_STATE names the state of one in memory whose evaluation
 * has not passed or that is on its way out. Any thread. */
enum status releases_check_pin(struct releases *releases, struct slice model,
                               struct why *ret_why) MUST_USE;
/* Before the first byte the chosen lane would not have it: true if another one may (choice is that one now), and the
 * candidate is charged with an error. */
bool releases_fall_back(struct releases *releases, struct release_choice *choice,
                        enum status status);
/* The request is over; times are the lane's own (request_times). is_counted false: the client left. */
void releases_end(struct releases *releases, const struct release_choice *choice, bool is_counted,
                  bool is_error, uint64_t ttft_own_ns, uint64_t tpot_own_ns);

/* ---- figures ---- */

/* One lane: a generation in memory, or control's. */
struct release_figures {
    char id[SHA256_HEX];
    char name[128];
    char state[32]; /* the row's */
    bool is_control;
    bool is_loaded; /* false: its weights alone are kept */
    enum arm arm; /* that it serves; ARM_COUNT: none */
    uint64_t n_requests, n_errors;
    uint64_t weights_bytes, cache_bytes;
};
enum { RELEASE_FIGURES_MAX = 8 };

/* The newest rollout, as the last tick left it. */
struct release_rollout_figures {
    bool is_there;
    struct rollout now;
    bool has_verdicts; /* as rollout_driver_verdicts has them */
    enum gate_verdict verdicts[GATE_COUNT];
};

struct releases_figures {
    struct projection route;
    struct release_rollout_figures rollout;
    bool is_durable, is_writable, is_frozen;
    bool is_blocked; /* a rollback waits for a person */
    uint32_t n_generations;
    struct release_figures generations[RELEASE_FIGURES_MAX];
    uint64_t arm_requests[ARM_COUNT], arm_errors[ARM_COUNT];
    struct latency_sketch arm_ttft[ARM_COUNT], arm_tpot[ARM_COUNT];
};
/* About 100 KiB are copied. */
void releases_figures(const struct releases *releases, struct releases_figures *ret_figures);
/* Stable's lane, for what must not be routed: tokenising, model list. A loan until the next call that returns one; NULL: there
 * is none, and what was lent stays. Loop thread. */
struct lane *releases_stable(struct releases *releases);
/* False while a blocked rollback leaves nothing in memory that may serve. Any thread. */
bool releases_is_serving(const struct releases *releases);

#endif
