/* releases_ask.c: admin calls as the loop sees them: taken, sent to the registry, on to whoever loads, handed back.
 *
 * ALWAYS  (1) A call that was taken is answered exactly once.                       releases_answer
 *         (2) A key that is being served is not served twice.                      is_in_flight
 * THREAD  loop; releases_answer: any
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/releases_priv.h"

#include "config/mem.h"

void releases_answer(struct releases *r, struct release_work *work)
{
    pthread_mutex_lock(&r->lock);
    struct release_work **end = &r->answered;
    while (*end != NULL)
        end = &(*end)->next;
    work->next = NULL;
    *end = work;
    pthread_mutex_unlock(&r->lock);
    if (r->host.on_wake != NULL)
        r->host.on_wake(r->host.user);
}

static void take_terms(struct release_work *work)
{
    const struct admin_call *c = work->call;
    uint8_t hash[SHA256_BYTES];
    bool has_key = c->idempotency_key[0] != '\0';
    if (sha256_of(c->idempotency_key, strlen(c->idempotency_key), hash) == OK)
        sha256_hex(hash, work->answer_key);
    work->terms = (struct change_terms){.who = c->who,
                                        .at_us = releases_now_us(),
                                        .epoch_expected = c->epoch_expected,
                                        .is_dry_run = c->is_dry_run,
                                        .answer_key = has_key ? work->answer_key : NULL,
                                        .answer_payload = has_key ? c->payload_hash : NULL};
}

/* A key that is being served already is not served twice. */
static bool is_in_flight(const struct releases *r, const struct admin_call *call)
{
    for (uint32_t i = 0; i < r->n_calls; i++)
        if (call->idempotency_key[0] != '\0' &&
            strcmp(r->open[i]->idempotency_key, call->idempotency_key) == 0)
            return true;
    return false;
}

enum status releases_ask(struct releases *r, struct admin_call *call)
{
    bool is_twice = is_in_flight(r, call);
    if (r->n_calls >= RELEASES_CALLS_MAX || atomic_load(&r->is_stopping))
        return STATUS_QUEUE_FULL;
    struct release_work *work = mem_zalloc(1, sizeof *work);
    if (work == NULL)
        return STATUS_QUEUE_FULL;
    work->owner = r;
    work->call = call;
    call->status = OK;
    call->result = ADMIN_RESULT_OK;
    call->text = NULL;
    call->why = (struct why){0};
    call->is_repeat = false;
    call->epoch = 0;
    call->work = work;
    r->open[r->n_calls++] = call;
    take_terms(work);
    if (is_twice) {
        call->status = why_set(&call->why, STATUS_KEY_IN_FLIGHT, "Idempotency-Key",
                               "a call with this key is being served");
        releases_answer(r, work);
        return OK;
    }
    work->job.run = releases_call_run;
    enum status s = registry_port_submit(r->loop_port, &work->job);
    ASSERT(s == OK); /* the port has room for every call that may be open */
    return OK;
}

/* The parts of a refusal as JSON; NULL if there are none, or no memory for them: the line has them too. */
static char *print_parts(const struct why *why)
{
    struct record parts;
    if (why->n_parts == 0)
        return NULL;
    record_init(&parts);
    for (uint32_t i = 0; i < why->n_parts; i++) {
        const struct why_part *part = &why->parts[i];
        if (part->is_number)
            record_set_number(&parts, part->key, (int64_t)part->number);
        else
            record_set_text(&parts, part->key, part->text);
    }
    char *text = record_print(&parts);
    record_release(&parts);
    return text;
}

static void hand_back(struct releases *r, struct release_work *work)
{
    struct admin_call *call = work->call;
    if (call->status != OK && call->text == NULL)
        call->text = print_parts(&call->why);
    for (uint32_t i = 0; i < r->n_calls; i++)
        if (r->open[i] == call) {
            r->open[i] = r->open[--r->n_calls];
            break;
        }
    bool is_drain = call->op == ADMIN_DRAIN && call->status == OK && !call->is_dry_run;
    mem_free(work);
    call->work = NULL;
    call->on_done(call->user, call);
    if (is_drain && r->host.drain != NULL)
        r->host.drain(r->host.user);
}

static void to_loader(struct releases *r, struct release_work *work)
{
    pthread_mutex_lock(&r->lock);
    struct release_work **end = &r->asked;
    while (*end != NULL)
        end = &(*end)->next;
    work->next = NULL;
    *end = work;
    pthread_mutex_unlock(&r->lock);
    releases_ring(r);
}

void releases_turn(struct releases *r)
{
    for (struct registry_job *job; (job = registry_port_next(r->loop_port)) != NULL;) {
        struct release_work *work = (struct release_work *)job;
        if (work->needs_loader && work->call->op == ADMIN_ROLLBACK)
            releases_rescue(r, work);
        else if (work->needs_loader && atomic_load(&r->has_loader))
            to_loader(r, work);
        else
            hand_back(r, work);
    }
    for (;;) {
        pthread_mutex_lock(&r->lock);
        struct release_work *work = r->answered;
        if (work != NULL)
            r->answered = work->next;
        pthread_mutex_unlock(&r->lock);
        if (work == NULL)
            return;
        hand_back(r, work);
    }
}

void releases_end_calls(struct releases *r)
{
    releases_turn(r);
    for (struct release_work *work; (work = r->asked) != NULL;) {
        r->asked = work->next;
        work->call->status = why_set(&work->call->why, STATUS_DRAINING, "", "the daemon is ending");
        hand_back(r, work);
    }
}
