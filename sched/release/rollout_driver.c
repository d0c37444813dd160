/* rollout_driver.c: gathers, judges, decides.
 *
 * WHY     Requests end on one thread, lanes measure on another, and decisions are written on a third; what a decision
 *         rests on must be one moment of all of them.
 * HOW     The step's evidence lies under a lock that is held for the length of an addition or a copy. A tick takes what
 *         lanes have measured since the step began, copies all of it, and judges the copy; an undecided tick
 *         writes nothing. What a decision will be is worked out before it is made durable (the machine is pure), so
 *         that a candidate on its way back is barred before the first write.
 * ALWAYS  (1) Evidence belongs to one step of one rollout: another step begins with none.        adopt
 *         (2) A rollback's candidate is barred before its intent is durable.                      decide
 * THREAD  registry: tick, start, command, verdicts, status; any: outcome, quality, lacks_quality, copy
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/rollout_driver.h"

#include <pthread.h>

#include "config/mem.h"
#include "sched/release/release.h"
#include "sched/release/rollout_status.h"

struct rollout_driver {
    struct rollout_driver_options options;

    pthread_mutex_t lock; /* guards the next block */
    bool is_gathering;    /* a candidate has traffic */
    struct gate_thresholds thresholds;
    struct gate_evidence evidence;

    /* The registry thread's. */
    char key[REGISTRY_KEY_ROOM]; /* whose evidence it is; "": nobody's */
    uint32_t step;
    bool has_begun; /* what lanes had measured when the step began is known */
    struct lane_evidence candidate_begun, baseline_begun;
    struct gate_evidence view; /* one moment of evidence */
    struct {
        char decision[SHA256_HEX]; /* the rollout's last when they were read; "": they were not */
        bool are_there;
        enum gate_verdict verdicts[GATE_COUNT];
    } last; /* what the last decision's gates said, read once */
};

enum status rollout_driver_new(const struct rollout_driver_options *options,
                               struct rollout_driver **ret_driver, struct why *ret_why)
{
    struct rollout_driver *d = mem_zalloc(1, sizeof *d);
    *ret_driver = d;
    if (d == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the rollout's driver");
    d->options = *options;
    if (pthread_mutex_init(&d->lock, NULL) != 0) {
        mem_free(d);
        *ret_driver = NULL;
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no lock for the rollout's driver");
    }
    return OK;
}

void rollout_driver_free(struct rollout_driver **driver)
{
    if (*driver == NULL)
        return;
    pthread_mutex_destroy(&(*driver)->lock);
    mem_free(*driver);
    *driver = NULL;
}

/* ---- gathering: any thread ---- */

void rollout_driver_outcome(struct rollout_driver *driver, const struct request_outcome *outcome)
{
    pthread_mutex_lock(&driver->lock);
    if (driver->is_gathering)
        gate_evidence_add(&driver->evidence, &driver->thresholds, outcome);
    pthread_mutex_unlock(&driver->lock);
}

bool rollout_driver_quality(struct rollout_driver *driver, const struct quality_slice *slices,
                            uint32_t n_slices)
{
    bool fits = true;
    pthread_mutex_lock(&driver->lock);
    if (driver->is_gathering)
        driver->evidence.n_slices = 0; /* runs that were well before do not hide a drop */
    for (uint32_t i = 0; driver->is_gathering && i < n_slices; i++)
        fits = gate_evidence_add_quality(&driver->evidence, &slices[i]) && fits;
    if (driver->is_gathering)
        driver->evidence.has_quality = fits && driver->evidence.n_slices > 0;
    pthread_mutex_unlock(&driver->lock);
    return fits;
}

bool rollout_driver_lacks_quality(struct rollout_driver *driver)
{
    pthread_mutex_lock(&driver->lock);
    bool is_lacking = driver->is_gathering && !driver->evidence.has_quality;
    pthread_mutex_unlock(&driver->lock);
    return is_lacking;
}

void rollout_driver_copy(struct rollout_driver *driver, struct gate_evidence *ret_evidence)
{
    pthread_mutex_lock(&driver->lock);
    *ret_evidence = driver->evidence;
    pthread_mutex_unlock(&driver->lock);
}

/* ---- the step's evidence: registry thread ---- */

static bool is_followed(const struct lane_evidence *before, const struct lane_evidence *now)
{
    return now->n_steps >= before->n_steps && now->step_ns >= before->step_ns &&
           now->n_samples >= before->n_samples && now->audit_ns >= before->audit_ns &&
           now->n_snapshots >= before->n_snapshots && now->n_fallbacks >= before->n_fallbacks &&
           now->n_materialisations >= before->n_materialisations &&
           now->issued_bytes >= before->issued_bytes &&
           now->logical_bytes >= before->logical_bytes &&
           now->hardware_bytes >= before->hardware_bytes &&
           now->hardware_logical_bytes >= before->hardware_logical_bytes;
}

/* What lanes have measured in the step, into the evidence. A lane that was loaded anew counts from its beginning. */
static void take_lanes(struct rollout_driver *d, const struct release_rollout *ro)
{
    struct lane_evidence candidate, baseline;
    if (!d->options.lanes(d->options.user, ro, &candidate, &baseline))
        return;
    if (!d->has_begun) {
        d->candidate_begun = candidate;
        d->baseline_begun = baseline;
        d->has_begun = true;
    }
    if (!is_followed(&d->candidate_begun, &candidate))
        memset(&d->candidate_begun, 0, sizeof d->candidate_begun);
    if (!is_followed(&d->baseline_begun, &baseline))
        memset(&d->baseline_begun, 0, sizeof d->baseline_begun);
    lane_evidence_since(&candidate, &d->candidate_begun, &candidate);
    lane_evidence_since(&baseline, &d->baseline_begun, &baseline);
    pthread_mutex_lock(&d->lock);
    lane_evidence_to_gate(&candidate, &baseline, &d->evidence);
    pthread_mutex_unlock(&d->lock);
}

static void forget(struct rollout_driver *d)
{
    d->key[0] = '\0';
    pthread_mutex_lock(&d->lock);
    d->is_gathering = false;
    gate_evidence_clear(&d->evidence);
    pthread_mutex_unlock(&d->lock);
}

/* Another step, or another rollout: its evidence begins here. */
static void adopt(struct rollout_driver *d, const struct release_rollout *ro)
{
    bool has_traffic = ro->now.has_served && rollout_weight_bp(&ro->now, &ro->plan) > 0 &&
                       !rollout_is_over(ro->now.state);
    if (!has_traffic) {
        forget(d);
        return;
    }
    if (strcmp(d->key, ro->key) == 0 && d->step == ro->now.step)
        return;
    memcpy(d->key, ro->key, sizeof d->key);
    d->step = ro->now.step;
    d->has_begun = false;
    pthread_mutex_lock(&d->lock);
    d->thresholds = ro->plan.thresholds;
    gate_evidence_clear(&d->evidence);
    d->is_gathering = true;
    pthread_mutex_unlock(&d->lock);
    take_lanes(d, ro); /* only finds where they begin */
}

static void look(struct rollout_driver *d, const struct release_rollout *ro)
{
    adopt(d, ro);
    if (d->key[0] != '\0')
        take_lanes(d, ro);
    rollout_driver_copy(d, &d->view);
}

/* ---- deciding: registry thread ---- */

static void bar(struct rollout_driver *d, const char *candidate, bool is_barred)
{
    d->options.bar(d->options.user, candidate, is_barred);
}

/* A disk that failed leaves open whether the decision is kept: the candidate stays barred. */
static bool is_undecided(enum status s)
{
    return s != OK && s != STATUS_READ_ONLY && s != STATUS_IO;
}

static enum status tell(struct rollout_driver *d, struct registry *r, const char *key,
                        const struct rollout_decision *decision, struct why *ret_why)
{
    struct release_rollout ro;
    TRY(release_rollout_read(r, key, &ro, ret_why));
    adopt(d, &ro);
    if (d->options.on_decision != NULL)
        d->options.on_decision(d->options.user, &ro, decision);
    return OK;
}

/* One event, as it is and durable. */
static enum status decide(struct rollout_driver *d, struct registry *r,
                          const struct change_terms *terms, const struct release_rollout *ro,
                          enum rollout_event_kind kind, struct rollout_decision *ret_decision,
                          struct why *ret_why)
{
    struct rollout next;
    const struct rollout_event event = {
        .kind = kind, .now_ms = (uint64_t)(terms->at_us / 1000), .evidence = &d->view};
    TRY(change_check_epoch(r, terms, ret_why));
    bool is_foreseen =
        rollout_apply(&ro->now, &ro->plan, &event, &next, ret_decision, ret_why) == OK;
    if (is_foreseen && ret_decision->action == ACTION_NONE)
        return OK;
    bool is_back = is_foreseen && ret_decision->action == ACTION_ROLL_BACK && !terms->is_dry_run;
    if (is_back)
        bar(d, ro->candidate, true);
    enum status s = release_rollout_apply(r, terms, ro->key, &event, ret_decision, ret_why);
    if (is_back && is_undecided(s))
        bar(d, ro->candidate, false);
    TRY(s);
    return terms->is_dry_run ? OK : tell(d, r, ro->key, ret_decision, ret_why);
}

enum status rollout_driver_tick(struct rollout_driver *driver, struct registry *registry,
                                int64_t at_us, bool *ret_changed, struct why *ret_why)
{
    struct release_rollout ro;
    struct rollout_decision decision;
    const struct change_terms terms = {
        .who = "foldkv", .at_us = at_us, .epoch_expected = EPOCH_ANY};
    *ret_changed = false;
    enum status s = release_rollout_find_active(registry, &ro, ret_why);
    if (s == STATUS_NOT_FOUND) {
        forget(driver);
        return OK;
    }
    TRY(s);
    look(driver, &ro);
    TRY(decide(driver, registry, &terms, &ro, EVENT_TICK, &decision, ret_why));
    *ret_changed = decision.action != ACTION_NONE;
    return OK;
}

enum status rollout_driver_start(struct rollout_driver *driver, struct registry *registry,
                                 const struct change_terms *terms, const char *candidate,
                                 const struct rollout_plan *plan, char ret_key[REGISTRY_KEY_ROOM],
                                 struct why *ret_why)
{
    struct rollout_decision decision;
    TRY(release_rollout_start(registry, terms, candidate, plan, ret_key, &decision, ret_why));
    return terms->is_dry_run ? OK : tell(driver, registry, ret_key, &decision, ret_why);
}

enum status rollout_driver_command(struct rollout_driver *driver, struct registry *registry,
                                   const struct change_terms *terms, const char *key,
                                   enum rollout_event_kind kind, struct why *ret_why)
{
    struct release_rollout ro;
    struct rollout_decision decision;
    ASSERT(kind == EVENT_APPROVE || kind == EVENT_PAUSE || kind == EVENT_RESUME ||
           kind == EVENT_PROMOTE || kind == EVENT_ABORT);
    TRY(release_rollout_read(registry, key, &ro, ret_why));
    if (!rollout_is_over(ro.now.state))
        look(driver, &ro);
    return decide(driver, registry, terms, &ro, kind, &decision, ret_why);
}

/* Who is rolled back: the candidate that has traffic, else the stable generation; "" where there is no way back. */
static enum status find_candidate(struct registry *r, char ret_candidate[SHA256_HEX],
                                  struct why *ret_why)
{
    struct release_rollout ro;
    struct record route;
    enum status s = release_rollout_find_active(r, &ro, ret_why);
    if (s != OK && s != STATUS_NOT_FOUND)
        return s;
    if (s == OK && ro.now.has_served) {
        memcpy(ret_candidate, ro.candidate, SHA256_HEX);
        return OK;
    }
    TRY(release_route(r, &route, ret_why));
    const char *stable = record_text(&route, "stable");
    bool has_way = stable != NULL && record_has(&route, "previous");
    snprintf(ret_candidate, SHA256_HEX, "%s", has_way ? stable : "");
    record_release(&route);
    return OK;
}

enum status rollout_driver_roll_back(struct rollout_driver *driver, struct registry *registry,
                                     const struct change_terms *terms,
                                     char ret_key[REGISTRY_KEY_ROOM], struct why *ret_why)
{
    char candidate[SHA256_HEX];
    const struct rollout_decision decision = {.action = ACTION_ROLL_BACK};
    TRY(change_check_epoch(registry, terms, ret_why));
    TRY(find_candidate(registry, candidate, ret_why));
    bool is_back = candidate[0] != '\0' && !terms->is_dry_run;
    if (is_back)
        bar(driver, candidate, true);
    enum status s = release_rollout_roll_back(registry, terms, ret_key, ret_why);
    if (is_back && is_undecided(s))
        bar(driver, candidate, false);
    TRY(s);
    return terms->is_dry_run ? OK : tell(driver, registry, ret_key, &decision, ret_why);
}

/* ---- what is shown: registry thread ---- */

static bool is_own(const struct rollout_driver *d, const char *key)
{
    return key[0] != '\0' && strcmp(d->key, key) == 0;
}

static void judge(const struct gate_evidence *evidence, const struct rollout_plan *plan,
                  enum gate_verdict ret_verdicts[GATE_COUNT])
{
    for (int i = 0; i < GATE_COUNT; i++) {
        struct gate_judgement judgement;
        gate_judge((enum gate)i, evidence, &plan->thresholds, plan->n_steps, &judgement);
        ret_verdicts[i] = judgement.verdict;
    }
}

bool rollout_driver_verdicts(struct rollout_driver *driver, struct registry *registry,
                             const struct release_rollout *rollout,
                             enum gate_verdict ret_verdicts[GATE_COUNT])
{
    struct rollout_judged judged;
    struct why unheard; /* without a receipt there is nothing to show */
    if (is_own(driver, rollout->key)) {
        rollout_driver_copy(driver, &driver->view);
        judge(&driver->view, &rollout->plan, ret_verdicts);
        return true;
    }
    if (strcmp(driver->last.decision, rollout->decision) != 0) {
        enum status s =
            rollout_judged_find(registry, rollout->key, &judged, &driver->view, &unheard);
        driver->last.are_there = s == OK;
        if (s == OK)
            judge(&driver->view, &rollout->plan, driver->last.verdicts);
        if (s == OK || s == STATUS_NOT_FOUND)
            memcpy(driver->last.decision, rollout->decision, sizeof driver->last.decision);
    }
    memcpy(ret_verdicts, driver->last.verdicts, sizeof driver->last.verdicts);
    return driver->last.are_there;
}

enum status rollout_driver_status(struct rollout_driver *driver, struct registry *registry,
                                  const char *key, char **ret_text, struct why *ret_why)
{
    struct release_rollout ro;
    struct rollout_judged judged;
    *ret_text = NULL;
    TRY(release_rollout_read(registry, key, &ro, ret_why));
    if (!rollout_is_over(ro.now.state))
        look(driver, &ro);
    if (is_own(driver, key))
        return rollout_status_print(registry, key, &driver->view, NULL, ret_text, ret_why);
    enum status s = rollout_judged_find(registry, key, &judged, &driver->view, ret_why);
    if (s != OK && s != STATUS_NOT_FOUND)
        return s;
    return rollout_status_print(registry, key, s == OK ? &driver->view : NULL,
                                s == OK ? &judged : NULL, ret_text, ret_why);
}
