/* releases_calls.c: the calls of the admin API, on the registry's thread.
 *
 * HOW     What changes something is first held against three things: a key that was answered before, an epoch that is not the
 *         expected one, and a freeze. Short calls are carried out here; those that load something go on to the loader,
 *         and hear of a change of the registry there.
 * ALWAYS  (1) The answer's epoch is read after the call's own change.                releases_call_run
 * THREAD  registry
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/releases_priv.h"

#include <inttypes.h>

#include "config/mem.h"
#include "sched/release/answer.h"
#include "sched/release/generation_id.h"
#include "sched/release/release_forget.h"

#define FREEZE_KEY "freeze"
enum { PREFIX_MIN = 8, LIMIT_MAX = 1000 };

/* ---- finding ---- */

struct prefix {
    const char *text;
    size_t len;
    char id[SHA256_HEX];
    int n;
};

static enum status match_prefix(void *user, const char *key, const struct record *body,
                                struct why *ret_why)
{
    struct prefix *p = user;
    (void)body, (void)ret_why;
    if (strncmp(key, p->text, p->len) == 0) {
        p->n++;
        snprintf(p->id, sizeof p->id, "%s", key);
    }
    return OK;
}

enum status releases_find_generation(struct registry *registry, const char *subject,
                                     char ret_id[SHA256_HEX], struct record *ret_row,
                                     struct why *ret_why)
{
    struct prefix p = {.text = subject, .len = strlen(subject)};
    enum status s = release_find(registry, subject, ret_id, ret_row, ret_why);
    if (s != STATUS_NOT_FOUND || p.len < PREFIX_MIN)
        return s;
    struct why unheard;
    if (registry_each(registry, REGISTRY_GENERATIONS, match_prefix, &p, &unheard) != OK || p.n != 1)
        return s;
    return release_find(registry, p.id, ret_id, ret_row, ret_why);
}

/* ---- bodies ---- */

enum status releases_check_known(const struct admin_call *call, const char *const *known,
                                 size_t n, struct why *ret_why)
{
    for (const char *key = NULL; (key = record_next_key(&call->body, key)) != NULL;) {
        bool is_known = false;
        for (size_t i = 0; i < n; i++)
            is_known |= strcmp(known[i], key) == 0;
        if (!is_known)
            return why_set(ret_why, STATUS_BAD_REQUEST, key, "%s: no such field in this call", key);
    }
    return OK;
}

/* ---- the rest ---- */

enum status releases_read_freeze(struct registry *registry, bool *ret_is_frozen,
                                 struct why *ret_why)
{
    struct record row;
    enum status s = registry_get(registry, REGISTRY_ROUTES, FREEZE_KEY, &row, ret_why);
    *ret_is_frozen = s == OK && record_flag(&row, "frozen");
    if (s == OK)
        record_release(&row);
    return s == STATUS_NOT_FOUND ? OK : s;
}

static enum status freeze(struct releases *r, struct registry *registry, struct release_work *work)
{
    static const char *const known[] = {"frozen", "reason"};
    struct admin_call *call = work->call;
    struct change *change;
    struct record row;
    bool frozen = record_flag(&call->body, "frozen");
    char text[8];
    record_show(&call->body, "frozen", text, sizeof text);
    TRY(releases_check_known(call, known, ARRAY_LEN(known), &call->why));
    if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
        return why_set(&call->why, STATUS_BAD_REQUEST, "frozen", "frozen: true or false is right");
    TRY(change_begin(registry, &work->terms, frozen ? "release.freeze" : "release.thaw", &change,
                     &call->why));
    record_init(&row);
    record_set_flag(&row, "frozen", frozen);
    change_put(change, REGISTRY_ROUTES, FREEZE_KEY, &row);
    change_subject(change, FREEZE_KEY);
    TRY(change_commit(&change, &call->why));
    if (!call->is_dry_run) {
        pthread_mutex_lock(&r->lock);
        r->is_frozen = frozen;
        pthread_mutex_unlock(&r->lock);
    }
    call->text = record_print(&row);
    record_release(&row);
    return call->text != NULL ? OK : STATUS_NO_MEMORY;
}

/* An entry of the audit without a row: that somebody asked for it. subject: a generation, or NULL. */
static enum status note(struct registry *registry, struct release_work *work, const char *what,
                        const char *subject)
{
    struct admin_call *call = work->call;
    struct change *change;
    TRY(change_begin(registry, &work->terms, what, &change, &call->why));
    if (subject != NULL)
        change_subject(change, subject);
    return change_commit(&change, &call->why);
}

static enum status say_done(struct admin_call *call)
{
    static const char done[] = "{}";
    call->text = mem_dup(done, sizeof done - 1);
    return call->text != NULL ? OK : STATUS_NO_MEMORY;
}

static enum status drain(struct registry *registry, struct release_work *work)
{
    TRY(releases_check_known(work->call, NULL, 0, &work->call->why));
    TRY(note(registry, work, "daemon.drain", NULL));
    return say_done(work->call);
}

static enum status find_id(struct registry *registry, const char *subject, char ret_id[SHA256_HEX],
                           struct why *ret_why)
{
    struct record row;
    TRY(releases_find_generation(registry, subject, ret_id, &row, ret_why));
    record_release(&row);
    return OK;
}

static enum status purge(struct releases *r, struct registry *registry, struct release_work *work)
{
    static const char *const known[] = {"generation"};
    struct admin_call *call = work->call;
    const char *subject = record_text(&call->body, "generation");
    char id[SHA256_HEX] = "";
    TRY(releases_check_known(call, known, ARRAY_LEN(known), &call->why));
    if (subject == NULL && record_has(&call->body, "generation"))
        return why_set(&call->why, STATUS_BAD_REQUEST, "generation",
                       "generation: an id or a name is right");
    if (subject != NULL)
        TRY(find_id(registry, subject, id, &call->why));
    TRY(note(registry, work, "cache.purge", subject != NULL ? id : NULL));
    if (!call->is_dry_run)
        release_lanes_purge(&r->lanes, id);
    return say_done(call);
}

static enum status fence(struct releases *r, struct registry *registry, struct release_work *work)
{
    struct admin_call *call = work->call;
    TRY(releases_check_known(call, NULL, 0, &call->why));
    TRY(release_fence_namespace(registry, &work->terms, call->subject, &call->why));
    if (!call->is_dry_run)
        release_lanes_want(&r->lanes, call->subject, LANE_FENCED);
    return say_done(call);
}

static enum status print_generation(struct releases *r, struct registry *registry,
                                    struct admin_call *call, const char *id, bool is_whole)
{
    struct record json = {0};
    TRY(releases_json_generation(r, registry, id, is_whole, &json, &call->why));
    call->text = record_print(&json);
    record_release(&json);
    return call->text != NULL ? OK : STATUS_NO_MEMORY;
}

static enum status forget(struct releases *r, struct registry *registry, struct release_work *work)
{
    struct admin_call *call = work->call;
    char id[SHA256_HEX];
    TRY(releases_check_known(call, NULL, 0, &call->why));
    TRY(find_id(registry, call->subject, id, &call->why));
    TRY(release_forget(registry, &work->terms, id, &call->why));
    if (!call->is_dry_run)
        releases_sweep_rows(r, registry);
    releases_ring(r);
    return print_generation(r, registry, call, id, false);
}

static enum status read_evaluation(struct releases *r, struct registry *registry,
                                   struct admin_call *call)
{
    char id[SHA256_HEX];
    TRY(find_id(registry, call->subject, id, &call->why));
    return releases_json_evaluation(r, registry, id, &call->text, &call->why);
}

static enum status cancel_evaluation(struct releases *r, struct registry *registry,
                                     struct release_work *work)
{
    struct admin_call *call = work->call;
    char id[SHA256_HEX];
    TRY(releases_check_known(call, NULL, 0, &call->why));
    TRY(find_id(registry, call->subject, id, &call->why));
    if (!releases_evaluation_cancel(r, id, true))
        return why_set(&call->why, STATUS_ILLEGAL_MOVE, "evaluation",
                       "generation %.16s is not being evaluated", id);
    TRY(note(registry, work, "evaluation.cancel", id));
    releases_evaluation_cancel(r, id, call->is_dry_run); /* if it has ended meanwhile: so much the better */
    if (!call->is_dry_run)
        call->result = ADMIN_RESULT_ACCEPTED;
    return print_generation(r, registry, call, id, false);
}

static enum status list_audit(struct registry *registry, struct admin_call *call)
{
    if (call->after < 0 || call->limit < 1 || call->limit > LIMIT_MAX)
        return why_set(&call->why, STATUS_BAD_REQUEST, "limit",
                       "after is %" PRId64 " and limit %" PRId64 ": 0 or more, and 1 to %d are right",
                       call->after, call->limit, LIMIT_MAX);
    return releases_json_audit(registry, call->after, call->limit, &call->text, &call->why);
}

/* ---- every call ---- */

static enum status carry_out(struct releases *r, struct registry *registry,
                             struct release_work *work)
{
    struct admin_call *call = work->call;
    switch (call->op) {
    case ADMIN_GENERATION_LIST:
        return releases_json_generations(r, registry, &call->text, &call->why);
    case ADMIN_GENERATION_READ:
        return print_generation(r, registry, call, call->subject, true);
    case ADMIN_EVALUATION_READ:
        return read_evaluation(r, registry, call);
    case ADMIN_EVALUATION_CANCEL:
        return cancel_evaluation(r, registry, work);
    case ADMIN_GENERATION_FORGET:
        return forget(r, registry, work);
    case ADMIN_ROLLOUT_START:
    case ADMIN_ROLLOUT_LIST:
    case ADMIN_ROLLOUT_READ:
    case ADMIN_ROLLOUT_APPROVE:
    case ADMIN_ROLLOUT_PAUSE:
    case ADMIN_ROLLOUT_RESUME:
    case ADMIN_ROLLOUT_PROMOTE:
    case ADMIN_ROLLOUT_ABORT:
    case ADMIN_ROLLBACK:
        return releases_call_rollout(r, registry, work);
    case ADMIN_AUDIT_LIST:
        return list_audit(registry, call);
    case ADMIN_DRAIN:
        return drain(registry, work);
    case ADMIN_FREEZE:
        return freeze(r, registry, work);
    case ADMIN_NAMESPACE_FENCE:
        return fence(r, registry, work);
    case ADMIN_CACHE_PURGE:
        return purge(r, registry, work);
    case ADMIN_GENERATION_PUBLISH:
    case ADMIN_GENERATION_EVALUATE:
        work->needs_loader = true;
        return OK;
    case ADMIN_OP_COUNT:
        break;
    }
    return STATUS_NOT_FOUND;
}

/* The same key with the same payload again: what it was about, as it stands now. */
static enum status repeat(struct releases *r, struct registry *registry, struct admin_call *call,
                          const struct record *answer)
{
    const char *subject = record_text(answer, "subject");
    struct why unheard;
    call->is_repeat = true;
    if (call->op == ADMIN_GENERATION_PUBLISH || call->op == ADMIN_ROLLOUT_START)
        call->result = ADMIN_RESULT_CREATED;
    if (call->op == ADMIN_GENERATION_EVALUATE || call->op == ADMIN_EVALUATION_CANCEL)
        call->result = ADMIN_RESULT_ACCEPTED;
    if (call->op == ADMIN_CACHE_PURGE)
        return say_done(call);
    if (subject != NULL && generation_id_is_hash(subject) &&
        print_generation(r, registry, call, subject, false) == OK)
        return OK;
    if (subject != NULL &&
        rollout_driver_status(r->driver, registry, subject, &call->text, &unheard) == OK)
        return OK;
    call->text = record_print(answer);
    return call->text != NULL ? OK : STATUS_NO_MEMORY;
}

static enum status check_change(struct registry *registry, const struct release_work *work,
                                const struct admin_route *route)
{
    struct admin_call *call = work->call;
    int64_t epoch = 0;
    bool frozen = false;
    TRY(registry_epoch(registry, &epoch, &call->why));
    if (call->epoch_expected != EPOCH_ANY && call->epoch_expected != epoch)
        return why_set(&call->why, STATUS_EPOCH_MISMATCH, "If-Match",
                       "the release epoch is %" PRId64 ", the call expects %" PRId64, epoch,
                       call->epoch_expected);
    if (registry_fault(registry) != NULL)
        registry_probe(registry);
    if (registry_fault(registry) != NULL)
        return why_set(&call->why, STATUS_READ_ONLY, "registry", "%s", registry_fault(registry));
    TRY(releases_read_freeze(registry, &frozen, &call->why));
    if (frozen && route->epoch != ADMIN_EPOCH_ANY && call->op != ADMIN_FREEZE)
        return why_set(&call->why, STATUS_FROZEN, "freeze",
                       "changes are frozen: a rollback and an abort are taken, all else waits");
    return OK;
}

static enum status answer(struct releases *r, struct registry *registry, struct release_work *work)
{
    struct admin_call *call = work->call;
    const struct admin_route *route = admin_route(call->op);
    struct record before = {0};
    if (route->epoch == ADMIN_EPOCH_NONE)
        return carry_out(r, registry, work);
    enum status s = STATUS_NOT_FOUND;
    if (work->terms.answer_key != NULL)
        s = answer_find(registry, work->terms.answer_key, work->terms.answer_payload, &before,
                        &call->why);
    if (s == OK) {
        s = repeat(r, registry, call, &before);
        record_release(&before);
        return s;
    }
    if (s != STATUS_NOT_FOUND)
        return s;
    TRY(check_change(registry, work, route));
    return carry_out(r, registry, work);
}

enum job_turn releases_call_run(struct registry *registry, struct registry_job *job)
{
    struct release_work *work = (struct release_work *)job;
    struct admin_call *call = work->call;
    struct why unheard;
    call->status = answer(work->owner, registry, work);
    if (call->status != OK)
        work->needs_loader = false;
    if (call->status != OK && call->why.text[0] == '\0')
        why_set(&call->why, call->status, "", "%s", status_text(call->status));
    if (call->status == OK && call->is_dry_run && call->text == NULL && !work->needs_loader)
        call->text = mem_dup("{\"dry_run\":true}", strlen("{\"dry_run\":true}"));
    if (registry_epoch(registry, &call->epoch, &unheard) != OK)
        call->epoch = 0;
    return JOB_DONE;
}
