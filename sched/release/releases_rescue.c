/* releases_rescue.c: a rollback after a promotion: the previous generation's pool is made again before anybody is barred.
 *
 * WHY     From a rollback's first step on nobody is admitted to the generation that is rolled back; if the one that serves
 *         instead had to be loaded then, requests would be refused meanwhile.
 * HOW     A thread that lives for one call loads it and then carries the call out as any other. Its weights are still there,
 *         so that no file is read, whatever its size: only a pool is mapped. A load that fails does
 *         not hold the rollback up: its second step says that it is blocked.
 * THREAD  rescue, but for what is said to be the loop's
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/releases_priv.h"

static _Thread_local bool is_rescue;

bool releases_is_rescue(void)
{
    return is_rescue;
}

static void note_rescued(struct releases *r, const char *id)
{
    pthread_mutex_lock(&r->lock);
    snprintf(r->rescued, sizeof r->rescued, "%s", id);
    pthread_mutex_unlock(&r->lock);
}

static void *run(void *user)
{
    struct release_work *work = user;
    struct releases *r = work->owner;
    struct projection p;
    struct why why = {0};
    const struct change_terms terms = {
        .who = "foldkv", .at_us = releases_now_us(), .epoch_expected = EPOCH_ANY};
    (void)pthread_setname_np(pthread_self(), "rescue");
    is_rescue = true;
    releases_copy_route(r, &p);
    note_rescued(r, p.previous);
    if (releases_bring_up(r, &terms, p.previous, NULL, &why) != OK)
        releases_say(r, true, "rollback", "generation %.16s cannot be loaded: %s", p.previous,
                     why.text);
    work->is_prepared = true;
    work->needs_loader = false;
    releases_do_job(r, &work->job);
    note_rescued(r, "");
    releases_ring(r);
    releases_answer(r, work);
    atomic_store(&r->is_rescue_busy, false);
    return NULL;
}

void releases_rescue_join(struct releases *r)
{
    if (r->has_rescue)
        pthread_join(r->rescue, NULL);
    r->has_rescue = false;
}

void releases_rescue(struct releases *r, struct release_work *work)
{
    struct admin_call *call = work->call;
    if (atomic_load(&r->is_rescue_busy)) {
        call->status = why_set(&call->why, STATUS_TRANSITION_IN_PROGRESS, "journal",
                               "a rollback is being prepared");
        releases_answer(r, work);
        return;
    }
    releases_rescue_join(r);
    atomic_store(&r->is_rescue_busy, true);
    if (pthread_create(&r->rescue, NULL, run, work) == 0) {
        r->has_rescue = true;
        return;
    }
    atomic_store(&r->is_rescue_busy, false);
    call->status = why_set(&call->why, STATUS_NO_MEMORY, "", "no memory for a thread");
    releases_answer(r, work);
}
