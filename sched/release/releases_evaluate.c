/* releases_evaluate.c: from a generation that is ready to one that is warmed, and the canary beside a rollout.
 *
 * HOW     The manifest is kept before the first request. The evaluator runs on its own thread; when it has ended, its
 *         receipt is kept and the generation moves: evaluated, then the fixed prompts in its own namespace, then
 *         warmed. The baseline is stable's weights in a namespace made for this run, so that both are cold.
 * ALWAYS  (1) What did not pass stays ready, with its receipt, and may be evaluated again.  keep_end
 * THREAD  loader, but for releases_evaluation_cancel (registry)
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/releases_priv.h"

#include "config/mem.h"
#include "sched/release/generation_id.h"
#include "sched/release/releases_cells.h"

enum { CANARY_SHARE_PPM = 5000 }; /* half a percent of the time, once a step has its first result */

/* ---- starting ---- */

struct subject {
    struct release_view view;
    bool is_stale; /* evaluated or warmed, but not of what is there now: as good as ready */
    char baseline_id[SHA256_HEX];
    int64_t epoch;
    struct release_lane lane, baseline;
};

struct resolving {
    const char *name;
    struct subject *ret;
};

static enum status resolve(struct releases *r, struct registry *registry, void *user,
                           struct why *ret_why)
{
    struct resolving *x = user;
    char id[SHA256_HEX];
    struct record row;
    (void)r;
    TRY(releases_find_generation(registry, x->name, id, &row, ret_why));
    releases_read_view(id, &row, &x->ret->view);
    x->ret->is_stale = releases_is_stale(registry, &row);
    record_release(&row);
    return OK;
}

/* Whom it is about and against whom; nothing is loaded for that. */
static enum status find_subject(struct releases *r, const char *name, struct subject *s,
                                struct why *ret_why)
{
    struct projection p;
    struct resolving resolving = {name, s};
    TRY(releases_do(r, resolve, &resolving, ret_why));
    releases_copy_route(r, &p);
    if (s->view.state != GENERATION_READY && s->view.state != GENERATION_EVALUATED && !s->is_stale)
        return why_set(ret_why, STATUS_ILLEGAL_MOVE, "state",
                       "generation %.16s is %s; one that is ready can be evaluated", s->view.id,
                       generation_state_text(s->view.state));
    if (!release_lanes_find_id(&r->lanes, s->view.id, &s->lane))
        return why_set(ret_why, STATUS_ILLEGAL_MOVE, "state",
                       "generation %.16s is not loaded: publish it again", s->view.id);
    memcpy(s->baseline_id, p.stable, sizeof s->baseline_id);
    s->epoch = p.epoch;
    if (release_lanes_find(&r->lanes, p.stable_namespace, &s->baseline))
        return OK;
    return why_set(ret_why, STATUS_UNAVAILABLE, "", "the baseline's lane is gone");
}

static enum status make_plan(struct releases *r, const struct subject *s, const char *body,
                             struct evaluation_plan **ret_plan, struct why *ret_why)
{
    return releases_evaluation_plan(r, s->view.evaluation_set, s->lane.lane, s->baseline.lane, body,
                                    ret_plan, ret_why);
}

/* From here on the baseline is a lane of its own. */
static enum status take_baseline(struct releases *r, struct subject *s, struct why *ret_why)
{
    char use[96];
    if (r->evaluation_space[0] == '\0') {
        snprintf(use, sizeof use, "evaluation %s %lld", s->view.id, (long long)releases_now_us());
        generation_id_namespace(s->baseline_id, s->epoch, use, r->evaluation_space);
        enum status status =
            releases_load_beside(r, s->view.id, s->baseline_id, r->evaluation_space, ret_why);
        if (status != OK) {
            r->evaluation_space[0] = '\0';
            return status;
        }
    }
    if (release_lanes_find(&r->lanes, r->evaluation_space, &s->baseline))
        return OK;
    return why_set(ret_why, STATUS_UNAVAILABLE, "", "the baseline's lane is gone");
}

struct keeping {
    const struct change_terms *terms;
    const char *id, *kind, *text;
};

static enum status keep_text(struct releases *r, struct registry *registry, void *user,
                             struct why *ret_why)
{
    struct keeping *k = user;
    char hash[SHA256_HEX];
    struct record receipt;
    (void)r;
    TRY(record_read(k->text, strlen(k->text), &receipt, ret_why));
    enum status s = release_receipt(registry, k->terms, k->id, k->kind, &receipt, hash, ret_why);
    record_release(&receipt);
    return s;
}

static void forget_run(struct releases *r)
{
    pthread_mutex_lock(&r->lock);
    r->evaluated[0] = '\0';
    r->is_evaluation_cancelled = false;
    pthread_mutex_unlock(&r->lock);
    r->evaluation_space[0] = '\0'; /* its lane is let go with the next look */
    mem_free(r->evaluation_text);
    r->evaluation_text = NULL;
}

static enum status make_ready(struct releases *r, struct release_work *work, struct subject *s)
{
    const struct change_terms own = {
        .who = work->terms.who, .at_us = work->terms.at_us, .epoch_expected = EPOCH_ANY};
    if (s->is_stale)
        TRY(releases_move(r, &own, s->view.id, GENERATION_READY, "it is evaluated again",
                          &work->call->why));
    return OK;
}

/* A dry run holds what is asked for against stable's own lane, and loads none. */
static enum status begin(struct releases *r, struct release_work *work, struct subject *s)
{
    struct admin_call *call = work->call;
    struct evaluation_plan *plan = NULL;
    struct why *why = &call->why;
    mem_free(r->evaluation_text);
    r->evaluation_text =
        call->body.json != NULL ? record_print(&call->body) : mem_dup("{}", strlen("{}"));
    if (r->evaluation_text == NULL)
        return STATUS_NO_MEMORY;
    TRY(find_subject(r, call->subject, s, why));
    if (call->is_dry_run)
        TRY(releases_load_fits_beside(r, s->view.id, s->baseline_id, why));
    else
        TRY(take_baseline(r, s, why));
    TRY(make_plan(r, s, r->evaluation_text, &plan, why));
    const struct keeping keeping = {&work->terms, s->view.id, "evaluation_manifest",
                                    evaluation_plan_manifest(plan)};
    bool is_warming = s->view.state == GENERATION_EVALUATED && !s->is_stale;
    enum status status = call->is_dry_run ? OK : make_ready(r, work, s);
    if (status == OK && !is_warming)
        status = releases_do(r, keep_text, (void *)(uintptr_t)&keeping, why);
    if (status == OK && !call->is_dry_run)
        status = is_warming
                     ? evaluator_warm(r->evaluator, &plan, s->lane.lane, s->baseline.lane, why)
                     : evaluator_start(r->evaluator, &plan, s->lane.lane, s->baseline.lane, why);
    evaluation_plan_free(&plan);
    return status;
}

void releases_evaluate(struct releases *r, struct release_work *work)
{
    struct admin_call *call = work->call;
    struct subject *s = mem_zalloc(1, sizeof *s);
    if (s == NULL) {
        call->status = STATUS_NO_MEMORY;
        return;
    }
    if (r->evaluated[0] != '\0')
        call->status = why_set(&call->why, STATUS_TRANSITION_IN_PROGRESS, "evaluation",
                               "generation %.16s is being evaluated", r->evaluated);
    else
        call->status = begin(r, work, s);
    if (call->status == OK && !call->is_dry_run) {
        pthread_mutex_lock(&r->lock);
        snprintf(r->evaluated, sizeof r->evaluated, "%s", s->view.id);
        r->unsaid[0] = '\0';
        pthread_mutex_unlock(&r->lock);
        snprintf(r->evaluation_who, sizeof r->evaluation_who, "%s", call->who);
        releases_tell_generation(r, call, s->view.id);
        call->result = ADMIN_RESULT_ACCEPTED;
    } else if (r->evaluated[0] == '\0') {
        forget_run(r);
    }
    mem_free(s);
}

/* ---- ending ---- */

static enum status keep_end(struct releases *r, const struct evaluator_end *end,
                            struct why *ret_why)
{
    const struct change_terms terms = {
        .who = r->evaluation_who, .at_us = releases_now_us(), .epoch_expected = EPOCH_ANY};
    struct keeping keeping = {&terms, r->evaluated, end->is_warming ? "warming" : "evaluation",
                              end->receipt};
    TRY(releases_do(r, keep_text, &keeping, ret_why));
    if (!end->passes) {
        releases_say(r, true, "evaluation", "generation %.16s does not pass", r->evaluated);
        return OK;
    }
    TRY(releases_move(r, &terms, r->evaluated,
                      end->is_warming ? GENERATION_WARMED : GENERATION_EVALUATED, NULL, ret_why));
    if (!end->is_warming)
        release_lanes_set_cells(&r->lanes, r->evaluated, &end->cells);
    return OK;
}

static enum status warm(struct releases *r, struct why *ret_why)
{
    struct evaluation_plan *plan = NULL;
    struct subject *s = mem_zalloc(1, sizeof *s);
    if (s == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory to warm the candidate");
    enum status status = find_subject(r, r->evaluated, s, ret_why);
    if (status == OK)
        status = take_baseline(r, s, ret_why);
    if (status == OK)
        status = make_plan(r, s, r->evaluation_text, &plan, ret_why);
    if (status == OK)
        status = evaluator_warm(r->evaluator, &plan, s->lane.lane, s->baseline.lane, ret_why);
    evaluation_plan_free(&plan);
    mem_free(s);
    return status;
}

static bool is_cancelled(struct releases *r)
{
    pthread_mutex_lock(&r->lock);
    bool is = r->is_evaluation_cancelled;
    pthread_mutex_unlock(&r->lock);
    return is;
}

bool releases_evaluation_cancel(struct releases *r, const char *id, bool is_dry_run)
{
    pthread_mutex_lock(&r->lock);
    bool is_running = id[0] != '\0' && strcmp(r->evaluated, id) == 0;
    if (is_running && !is_dry_run)
        r->is_evaluation_cancelled = true;
    pthread_mutex_unlock(&r->lock);
    if (is_running && !is_dry_run)
        evaluator_cancel(r->evaluator);
    return is_running;
}

/* What a run that said nothing of its candidate ended with, for who asks. */
static void note_unsaid(struct releases *r, const struct why *why)
{
    pthread_mutex_lock(&r->lock);
    memcpy(r->unsaid, r->evaluated, sizeof r->unsaid);
    r->unsaid_why = *why;
    pthread_mutex_unlock(&r->lock);
}

static void take_end(struct releases *r, struct evaluator_end *end)
{
    struct why why = end->why;
    enum status s = end->status;
    if (s == OK)
        s = keep_end(r, end, &why);
    if (s == OK && end->passes && !end->is_warming && is_cancelled(r)) {
        s = why_set(&why, STATUS_CANCELLED, "", "cancelled before its warming");
    } else if (s == OK && end->passes && !end->is_warming) {
        s = warm(r, &why);
        if (s == OK)
            return; /* the run goes on */
    }
    if (s != OK) {
        note_unsaid(r, &why);
        releases_say(r, true, "evaluation", "generation %.16s: %s", r->evaluated, why.text);
    }
    forget_run(r);
}

/* ---- the canary of a rollout ---- */

static enum status start_canary(struct releases *r, const struct projection *p,
                                struct evaluation_result *result, struct why *ret_why)
{
    struct evaluation_plan *plan = NULL;
    struct subject *s = mem_zalloc(1, sizeof *s);
    struct evaluator_canary *canary = mem_zalloc(1, sizeof *canary);
    enum status status = s != NULL && canary != NULL ? OK : STATUS_NO_MEMORY;
    if (status == OK)
        status = releases_view(r, p->candidate, &s->view, ret_why);
    if (status == OK && (!release_lanes_find(&r->lanes, p->candidate_namespace, &s->lane) ||
                         !release_lanes_find(&r->lanes, p->stable_namespace, &s->baseline)))
        status = STATUS_UNAVAILABLE;
    if (status == OK)
        status = releases_evaluation_read(r, p->candidate, result, ret_why);
    if (status == OK)
        status = make_plan(r, s, "{}", &plan, ret_why);
    if (status == OK) {
        canary->candidate = s->lane.lane;
        canary->share_ppm = CANARY_SHARE_PPM;
        canary->n_slices = result->evidence.n_slices;
        memcpy(canary->baseline, result->evidence.slices, sizeof canary->baseline);
        status = evaluator_canary_start(r->evaluator, &plan, canary, ret_why);
    }
    evaluation_plan_free(&plan);
    mem_free(canary);
    mem_free(s);
    return status;
}

static void follow_canary(struct releases *r)
{
    struct projection p;
    struct why why = {0};
    releases_copy_route(r, &p);
    bool is_wanted = p.candidate[0] != '\0' && p.weight_bp > 0 && p.barred[0] == '\0';
    if (r->canary[0] != '\0' && (!is_wanted || strcmp(r->canary, p.candidate) != 0)) {
        evaluator_canary_stop(r->evaluator);
        r->canary[0] = '\0';
        r->n_canary_runs = 0;
    }
    if (!is_wanted || r->canary[0] != '\0')
        return;
    struct evaluation_result *result = mem_zalloc(1, sizeof *result);
    if (result != NULL && start_canary(r, &p, result, &why) == OK)
        snprintf(r->canary, sizeof r->canary, "%s", p.candidate);
    mem_free(result);
}

static void take_quality(struct releases *r)
{
    struct evaluator_quality *quality = mem_alloc(sizeof *quality);
    if (quality != NULL && r->canary[0] != '\0' && evaluator_quality(r->evaluator, quality) &&
        quality->n_runs > r->n_canary_runs) {
        r->n_canary_runs = quality->n_runs;
        if (!rollout_driver_quality(r->driver, quality->slices, quality->n_slices))
            releases_say(r, true, "canary", "too many slices");
    }
    mem_free(quality);
    if (r->canary[0] != '\0' && rollout_driver_lacks_quality(r->driver))
        evaluator_canary_hurry(r->evaluator);
}

void releases_evaluate_turn(struct releases *r)
{
    struct evaluator_end *end = mem_zalloc(1, sizeof *end);
    if (end != NULL && evaluator_take_end(r->evaluator, end)) {
        take_end(r, end);
        mem_free(end->receipt);
    }
    mem_free(end);
    follow_canary(r);
    take_quality(r);
}
