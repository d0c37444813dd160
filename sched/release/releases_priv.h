/* releases_priv.h: the release side's inside, for releases*.c alone. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_RELEASES_PRIV_H
#define FOLDKV_SCHED_RELEASES_PRIV_H

#include <pthread.h>
#include <stdatomic.h>

#include "sched/release/change.h"
#include "sched/doorbell.h"
#include "sched/evaluate/evaluator.h"
#include "sched/release/generation_content.h"
#include "sched/release/registry_thread.h"
#include "sched/release/release.h"
#include "sched/release/release_lanes.h"
#include "sched/release/releases.h"
#include "sched/release/rollout_driver.h"

enum {
    RELEASES_CALLS_MAX = 64,      /* open at once */
    RELEASES_VIEWS_MAX = 32,      /* generations that may need a lane */
    RELEASES_DRAIN_US = 10000000, /* of a candidate that is rolled back */
    RELEASES_RECOVERY_MS = 2000,
};

/* A call on its way: loop -> registry -> (loader ->) loop. The loop frees it. */
struct release_work {
    struct registry_job job; /* the first member: a job is its work */
    struct releases *owner;
    struct admin_call *call;
    struct release_work *next;
    struct change_terms terms;
    char answer_key[SHA256_HEX]; /* hash of the idempotency key */
    bool needs_loader; /* checked; the rest is the loader's, or the rescue's */
    bool is_prepared;  /* a rollback whose target was loaded before */
};

/* What is asked of the registry's thread by one that waits. */
typedef enum status release_task_fn(struct releases *r, struct registry *registry, void *user,
                                    struct why *ret_why);

/* A generation's row, as far as the loader needs it. */
struct release_view {
    char id[SHA256_HEX], space[SHA256_HEX], checkpoint[SHA256_HEX], identity[SHA256_HEX];
    char plan[SHA256_HEX], evaluation_set[SHA256_HEX];
    enum generation_state state;
};

/* Files that a registry in memory does not keep: where a checkpoint or a set was published from. */
struct release_path {
    char hash[SHA256_HEX];
    char path[RELEASES_PATH_ROOM];
    struct release_path *next;
};

struct release_counts {
    uint64_t n_requests, n_errors;
    struct latency_sketch ttft, tpot;
};

struct releases {
    char dir[RELEASES_PATH_ROOM];   /* "": in memory */
    char model[RELEASES_PATH_ROOM]; /* of the options; "": none */
    char stable_file[RELEASES_PATH_ROOM];
    struct gguf *own_opened; /* terms.opened, if it is ours to free */
    struct why opening_fault; /* why the registry took no writes when it was opened; "" */
    struct releases_host host;
    struct releases_terms terms; /* its opened is NULL once the release side has started */
    struct kernels kernels; /* picked once, for what is registered */
    char tokenizer[SHA256_HEX];

    struct journal_effects effects;
    struct registry_thread *thread;
    struct registry_port *loop_port, *loader_port;
    struct rollout_driver *driver;
    struct evaluator *evaluator;
    struct release_lanes lanes;
    bool has_lanes;

    pthread_t loader;
    struct doorbell bell; /* the loader's */
    bool has_bell;
    /* A rollback's own thread: it must not wait for whatever the loader is at. */
    pthread_t rescue;
    struct registry_port *rescue_port;
    struct doorbell rescue_bell;
    bool has_rescue_bell, has_rescue; /* the loop's */
    atomic_bool is_rescue_busy;
    atomic_bool has_loader;
    atomic_bool is_brought_back; /* all that was loaded before the daemon ended, as far as it can be */
    atomic_bool is_stopping;
    atomic_bool is_due; /* the loader has something to look at */
    /* Candidates are not admitted: a rollback is decided and not durable yet. */
    atomic_bool is_held;
    atomic_bool is_candidate_admitted;

    pthread_mutex_t lock; /* of what follows */
    bool has_lock;
    struct projection route;
    struct release_work *asked, *answered; /* for the loader; for the loop */
    struct release_path *paths;
    bool is_frozen;
    char kept_objects[2][SHA256_HEX]; /* of a publish under way, which has no row yet; "" */
    char rescued[SHA256_HEX]; /* what a rollback has loaded, before it is durable; "" */
    struct release_rollout_figures rollout_figures;
    char loading[SHA256_HEX]; /* what the loader loads now; "" */
    char failed_pin[SHA256_HEX]; /* a generation that could not be loaded for a rollback; "" */
    struct why failed_pin_why;
    bool is_load_asked; /* a person asked again for what could not be loaded */
    char evaluated[SHA256_HEX];  /* whom the evaluator's run is about; "" */
    char *evaluation_text;       /* its body, for making its plan again; NULL */
    bool is_evaluation_cancelled;
    char unsaid[SHA256_HEX]; /* whose last run ended without a verdict; "" */
    struct why unsaid_why;

    /* Registry thread. */
    bool is_watched;       /* the rollout's figures are the last there will be */
    int64_t watched_epoch; /* of the route when the rollout was last looked at */

    /* Loop thread. */
    struct sha256 *sha;
    uint32_t n_calls;
    struct release_work *calls; /* all that are open, linked by their own list */
    struct admin_call *open[RELEASES_CALLS_MAX];
    bool wants_drain;
    struct release_counts arms[ARM_COUNT];
    uint32_t followed; /* the place that releases_stable lends from; NO_LANE */

    /* Loader thread. */
    int64_t reconciled_epoch;
    bool is_waiting; /* for a lane to become free */
    char failed_space[SHA256_HEX]; /* of a load that failed under this epoch; "" */
    char evaluation_space[SHA256_HEX]; /* of the baseline's lane of the evaluation; "" */
    char evaluation_who[ADMIN_WHO_ROOM];
    char canary[SHA256_HEX]; /* whom the quality canary is about; "" */
    uint64_t n_canary_runs;
};

/* ---- releases_watch.c ---- */

/* Registry thread, each tick: the newest rollout's figures, if they may have changed. */
void releases_watch(struct releases *r, struct registry *registry, bool is_moving);
/* The start: what a scrape shows is there before anybody can ask. */
enum status releases_watch_start(struct releases *r, struct why *ret_why) MUST_USE;

/* ---- releases.c ---- */

/* stable_file into terms.opened, until the end of releases_start. Whoever starts. */
enum status releases_open_stable(struct releases *r, struct why *ret_why) MUST_USE;
int64_t releases_now_us(void);
void releases_say(const struct releases *r, bool is_bad, const char *what, const char *format, ...)
    PRINTF_LIKE(4, 5);
/* Runs task on the registry's thread and waits; the loader, or whoever starts and ends everything. */
enum status releases_do(struct releases *r, release_task_fn *task, void *user,
                        struct why *ret_why) MUST_USE;
/* The same for a job of one's own. */
void releases_do_job(struct releases *r, struct registry_job *job);
void releases_copy_route(struct releases *r, struct projection *ret_route);
/* The loader has something to look at. Any thread. */
void releases_ring(struct releases *r);

/* ---- releases_ask.c ---- */

/* Any thread: the call is answered; the loop hands it back. */
void releases_answer(struct releases *r, struct release_work *work);
/* The end: calls that wait for the loader are answered DRAINING. Loop thread. */
void releases_end_calls(struct releases *r);

/* ---- releases_store.c ---- */

/* Where the bytes of a checkpoint or a set lie. NOT_FOUND. */
enum status releases_find_file(struct releases *r, const char *hash,
                               char ret_path[RELEASES_PATH_ROOM], struct why *ret_why) MUST_USE;
enum status releases_keep_path(struct releases *r, const char *hash, const char *path) MUST_USE;
/* Keeps a file: its hash, by which releases_find_file finds it. */
enum status releases_store(struct releases *r, const char *path, char ret_hash[SHA256_HEX],
                           struct why *ret_why) MUST_USE;

/* Removes what no generation's row names any more (object_sweep.h), but not kept_objects. Whoever may call releases_do; the second on the
 * registry's thread. A failure is told; the next sweep goes on. */
void releases_sweep(struct releases *r);
void releases_sweep_rows(struct releases *r, struct registry *registry);
/* The hash of the evaluation set that the program carries. */
enum status releases_own_set(char ret_hash[SHA256_HEX], struct why *ret_why) MUST_USE;

/* ---- releases_effects.c ---- */

void releases_effects_init(struct releases *r);

/* ---- releases_loader.c ---- */

void *releases_loader_run(void *releases);
/* Loads what the route needs and lets go of what nothing needs. */
enum status releases_reconcile(struct releases *r, bool is_start, struct why *ret_why) MUST_USE;

/* ---- releases_load.c ---- */

/* A lane for a generation under a namespace, in the engine and in the book. */
struct release_load {
    const char *id, *space, *kv_type;
    const struct gguf *gguf; /* the file */
    const char *checkpoint; /* the file's hash, as far as it is known; NULL: it is not */
    const struct lane *kept; /* in whose stead: gguf and kv_type are not looked at; NULL: none */
    bool is_urgent;          /* of a kept one */
    bool is_new;             /* its receipts will be kept, with every tensor's hash where they last */
    bool is_control;
    bool is_judged; /* a candidate: it may hold no more pages than a control arm beside it */
    uint64_t cache_bytes;
    uint32_t quota_blocks; /* of pages; 0: none, or is_judged's */
    struct record *ret_receipts; /* [AGREEMENT_RECEIPTS], made before the engine has it; NULL: none */
    const char *who;
};
enum status releases_load(struct releases *r, const struct release_load *load,
                          struct why *ret_why) MUST_USE;
/* NO_MEMORY with the figures if a candidate from this file would not fit beside what is loaded. */
enum status releases_check_room(struct releases *r, const struct gguf *gguf, const char *checkpoint,
                                struct why *ret_why) MUST_USE;
/* Registered or loading: loads it, keeps its receipts, and makes it ready, or rejects it; later states: loads it. file NULL: as
 * it is kept; it is not read while the model is still in memory. */
enum status releases_bring_up(struct releases *r, const struct change_terms *terms, const char *id,
                              const char *file, struct why *ret_why) MUST_USE;
/* The baseline's weights under a namespace, with as many pages as the candidate may hold. */
enum status releases_load_beside(struct releases *r, const char *candidate, const char *baseline,
                                 const char *space, struct why *ret_why) MUST_USE;
/* Whether that would find memory; loads nothing. NO_MEMORY with the figures. */
enum status releases_load_fits_beside(struct releases *r, const char *candidate,
                                      const char *baseline, struct why *ret_why) MUST_USE;
enum status releases_view(struct releases *r, const char *id, struct release_view *ret_view,
                          struct why *ret_why) MUST_USE;
void releases_read_view(const char *id, const struct record *row, struct release_view *ret_view);
enum status releases_move(struct releases *r, const struct change_terms *terms, const char *id,
                          enum generation_state to, const char *reason,
                          struct why *ret_why) MUST_USE;

/* ---- releases_quota.c: candidate and control hold equally many pages ---- */

/* The most that a control arm's pool takes beside a candidate's of these bytes. */
uint64_t releases_quota_bytes(const struct releases *r, uint64_t candidate_bytes);
/* Before the engine has a candidate's lane: it gets no more pages than a control arm beside stable can have. BAD_OPTION if
 * release.control_bytes hold none. */
enum status releases_quota_candidate(struct releases *r, struct lane *lane,
                                     struct why *ret_why) MUST_USE;
/* Fills in the cache bytes and pages of a control lane beside the candidate. The loader. */
enum status releases_quota_control(struct releases *r, const char *candidate, const char *baseline,
                                   struct release_load *load, struct why *ret_why) MUST_USE;
/* A rollout of this candidate would have equal arms; BAD_OPTION with the figures: stable has changed since it was
 * loaded. NO_MEMORY with the figures: there is no room for the control arm's pool. */
enum status releases_quota_check(struct releases *r, const struct release_lane *candidate,
                                 struct why *ret_why) MUST_USE;
/* What is stable now has its whole pool. */
void releases_quota_lift(struct releases *r, const struct projection *p);

/* ---- releases_rescue.c ---- */

/* True on the rescue's thread, which has ways of its own to the registry. */
bool releases_is_rescue(void);
/* A rollback to a generation whose pool was given back: loads it, then carries the call out. Loop thread. */
void releases_rescue(struct releases *r, struct release_work *work);
void releases_rescue_join(struct releases *r);

/* ---- releases_found.c, releases_publish.c, releases_evaluate.c: the loader's parts of calls ---- */

enum status releases_found(struct releases *r, struct why *ret_why) MUST_USE;
void releases_publish(struct releases *r, struct release_work *work);
void releases_evaluate(struct releases *r, struct release_work *work);
/* False if this generation's does not run. Registry thread; the loader collects the end of it. */
bool releases_evaluation_cancel(struct releases *r, const char *id, bool is_dry_run);
/* Collects what the evaluator has; starts and stops the quality canary as the route says. */
void releases_evaluate_turn(struct releases *r);

/* ---- releases_describe.c ---- */

/* Names and states of the rows, into the book. user: the releases. */
void releases_describe_lanes(void *user, struct registry *registry);

/* ---- releases_pin.c ---- */

/* releases_check_pin, and its place in the book. */
enum status releases_find_pin(struct releases *r, struct slice model,
                              struct release_lane *ret_entry, struct why *ret_why) MUST_USE;

/* ---- releases_evaluation_plan.c ---- */

/* set_hash: of the set that the candidate was published with. As evaluation_terms_read and evaluation_plan_new; RECEIPTS_DISAGREE
 * where the body names another set. */
enum status releases_evaluation_plan(struct releases *r, const char *set_hash,
                                     const struct lane *candidate, const struct lane *baseline,
                                     const char *body, struct evaluation_plan **ret_plan,
                                     struct why *ret_why) MUST_USE;

/* ---- releases_stale.c: evaluations of another plan or baseline than what is there now ---- */

/* True where an evaluated or warmed generation's evaluation is such a one. Registry thread. */
bool releases_is_stale(struct registry *registry, const struct record *generation);
/* A candidate was loaded again: one that has to be evaluated anew is ready again, and its rollout, if it has traffic, pauses. */
enum status releases_stale_settle(struct releases *r, const struct change_terms *terms,
                                  const char *id, struct why *ret_why) MUST_USE;

/* ---- releases_route.c ---- */

/* For the rollout's driver: what candidate and baseline have measured. Registry thread. */
bool releases_lane_evidence(void *user, const struct release_rollout *rollout,
                            struct lane_evidence *ret_candidate,
                            struct lane_evidence *ret_baseline);

/* ---- releases_calls.c ---- */

enum job_turn releases_call_run(struct registry *registry, struct registry_job *job);
/* Whether changes are refused, as the registry says. */
enum status releases_read_freeze(struct registry *registry, bool *ret_is_frozen,
                                 struct why *ret_why) MUST_USE;
/* By id, name, or the first 8 hex digits of an id or more, if only one begins so. NOT_FOUND. */
enum status releases_find_generation(struct registry *registry, const char *subject,
                                     char ret_id[SHA256_HEX], struct record *ret_row,
                                     struct why *ret_why) MUST_USE;

/* BAD_REQUEST names the first member of the call's body that is none of the known. */
enum status releases_check_known(const struct admin_call *call, const char *const *known,
                                 size_t n, struct why *ret_why) MUST_USE;

/* ---- releases_calls_rollout.c ---- */

/* ROLLOUT_... and ROLLBACK. */
enum status releases_call_rollout(struct releases *r, struct registry *registry,
                                  struct release_work *work) MUST_USE;

/* ---- releases_json.c: what calls are answered with; registry thread ---- */

/* The answer of a call about one generation; the loader. */
void releases_tell_generation(struct releases *r, struct admin_call *call, const char *id);
enum status releases_json_generation(struct releases *r, struct registry *registry, const char *id,
                                     bool is_whole, struct record *ret_json,
                                     struct why *ret_why) MUST_USE;
enum status releases_json_generations(struct releases *r, struct registry *registry,
                                      char **ret_text, struct why *ret_why) MUST_USE;
enum status releases_json_rollouts(struct registry *registry, char **ret_text,
                                   struct why *ret_why) MUST_USE;
/* Progress, manifest and receipts. */
enum status releases_json_evaluation(struct releases *r, struct registry *registry, const char *id,
                                     char **ret_text, struct why *ret_why) MUST_USE;
enum status releases_json_audit(struct registry *registry, int64_t after, int64_t limit,
                                char **ret_text, struct why *ret_why) MUST_USE;

#endif
