/* engine_port.c: requests into the engine and back.
 *
 * HOW     Submissions go over one bounded queue, news come back over another; cancels are a word in
 *         the request. A submission is checked by what the lane has published and by what was submitted
 *         since; it counts itself before it looks whether the lane is open, so that whoever closes the
 *         lane either refuses it or waits for it.
 * ALWAYS  (1) No more requests are alive than the ready queue has room for.    check_queue
 * THREAD  the port's own; the engine's at the other end of both queues
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/engine_port.h"

#include <inttypes.h>

#include "config/mem.h"
#include "sched/engine_priv.h"
#include "sched/request_priv.h"

/* ---- life ---- */

static uint32_t waiting_most(const struct engine *e)
{
    return e->options.queue_max + e->options.running_max;
}

static uint32_t alive_most(const struct engine *e)
{
    return ENGINE_LANES_MAX * waiting_most(e) + UNCOLLECTED_MAX;
}

void engine_port_release(struct engine_port **port)
{
    struct engine_port *p = *port;
    *port = NULL;
    if (p == NULL)
        return;
    request_queue_free(&p->submitted);
    request_queue_free(&p->ready);
    mem_free(p);
}

enum status engine_set_queue(struct engine *e, uint32_t queue_max, uint32_t queue_tokens_max,
                             struct why *ret_why)
{
    uint32_t most = alive_most(e) - e->options.running_max;
    if (queue_max > most)
        return why_set(
            ret_why, STATUS_BAD_OPTION, "engine.queue_max",
            "engine.queue_max is %u: the queues made at the start hold %u; more needs a restart",
            queue_max, most);
    atomic_store(&e->queue_max, queue_max);
    atomic_store(&e->queue_tokens_max, queue_tokens_max);
    return OK;
}

static enum status add(struct engine *e, struct engine_port *port)
{
    for (uint32_t i = 0; i < ENGINE_PORTS_MAX; i++) {
        if (e->roster.ports[i] != NULL)
            continue;
        e->roster.ports[i] = port;
        engine_await_roster(e);
        return OK;
    }
    return STATUS_UNAVAILABLE;
}

enum status engine_port_new(struct engine *e, void (*on_wake)(void *user), void *user,
                            struct engine_port **ret_port, struct why *ret_why)
{
    *ret_port = NULL;
    struct engine_port *p = mem_zalloc(1, sizeof *p);
    enum status s = p != NULL ? request_queue_new(alive_most(e), &p->submitted) : STATUS_NO_MEMORY;
    if (s == OK)
        s = request_queue_new(alive_most(e), &p->ready);
    if (s != OK) {
        engine_port_release(&p);
        return why_set(ret_why, s, "", "no memory for a port's queues");
    }
    p->engine = e;
    p->on_wake = on_wake;
    p->user = user;
    pthread_mutex_lock(&e->lock);
    s = add(e, p);
    pthread_mutex_unlock(&e->lock);
    if (s != OK) {
        engine_port_release(&p);
        return why_set(ret_why, s, "", "the engine has %d ports already, which is the most",
                       ENGINE_PORTS_MAX);
    }
    *ret_port = p;
    return OK;
}

void engine_port_free(struct engine_port **port)
{
    struct engine_port *p = *port;
    *port = NULL;
    if (p == NULL)
        return;
    struct engine *e = p->engine;
    ASSERT(atomic_load(&p->alive) == 0);
    pthread_mutex_lock(&e->lock);
    for (uint32_t i = 0; i < ENGINE_PORTS_MAX; i++)
        if (e->roster.ports[i] == p)
            e->roster.ports[i] = NULL;
    engine_await_roster(e);
    pthread_mutex_unlock(&e->lock);
    engine_port_release(&p);
}

/* ---- in ---- */

static enum status check_fits(const struct lane *lane, const struct request *r, struct why *ret_why)
{
    uint32_t context = lane_context(lane);
    if (r->n_ids > context || (r->n_ids == context && r->max_tokens > 0))
        return why_set(ret_why, STATUS_CONTEXT_LENGTH, "prompt",
                       "the prompt has %u tokens and the context holds %u: a completion needs at "
                       "least one more place",
                       r->n_ids, context);
    uint64_t whole = (uint64_t)r->n_ids + r->max_tokens;
    uint32_t tokens = whole < context ? (uint32_t)whole : context;
    uint32_t tokens_max = atomic_load(&lane->tokens_max);
    if (tokens > tokens_max)
        return why_set(ret_why, STATUS_CACHE_TOO_SMALL, "max_tokens",
                       "prompt and max_tokens need %u tokens of K/V and the whole page pool holds "
                       "%u: ask for less or raise "
                       "cache.bytes",
                       tokens, tokens_max);
    return OK;
}

/* What waits is what the lane says waits and what it has not taken yet; slots free in the batch
 * count as room. Ports that submit at the same moment may each be one over. */
static enum status check_queue(const struct engine_port *port, const struct lane *lane,
                               const struct request *r, struct why *ret_why)
{
    const struct engine *e = port->engine;
    uint32_t queue_max = atomic_load(&e->queue_max), tokens_max = atomic_load(&e->queue_tokens_max);
    struct engine_stats stats;
    lane_stats_copy(lane, &stats);
    uint64_t waiting =
        stats.requests_waiting + atomic_load(&lane->n_submitted) - stats.requests_admitted;
    uint64_t room = queue_max + e->options.running_max;
    if (waiting + stats.requests_running >= room || atomic_load(&port->alive) >= alive_most(e))
        return why_set(ret_why, STATUS_QUEUE_FULL, "",
                       "%u requests are waiting already (engine.queue_max)", queue_max);
    uint64_t tokens =
        stats.waiting_tokens + atomic_load(&lane->tokens_submitted) - stats.prompt_tokens;
    if (waiting > 0 && tokens + r->n_ids > tokens_max)
        return why_set(
            ret_why, STATUS_QUEUE_FULL, "prompt",
            "%" PRIu64
            " prompt tokens are waiting already and this prompt has %u: the queue holds %u "
            "(engine.queue_tokens_max)",
            tokens, r->n_ids, tokens_max);
    return OK;
}

static enum status check_open(const struct lane *lane, struct why *ret_why)
{
    enum lane_life wanted = lane_wanted(lane);
    if (wanted == LANE_OPEN)
        return OK;
    if (wanted < LANE_FENCED)
        return why_set(ret_why, STATUS_LANE_CLOSED, "", "generation %.16s takes no new requests",
                       lane_id(lane));
    return why_set(ret_why, STATUS_FENCED, "", "the cache of generation %.16s is fenced",
                   lane_id(lane));
}

/* Counted before the lane is looked at once more and before the engine can see it. */
static enum status send(struct engine_port *port, struct lane *lane, struct request *r,
                        struct why *ret_why)
{
    uint32_t n_ids = r->n_ids; /* from the push on the request is the engine's */
    r->port = port;
    r->lane = lane;
    atomic_fetch_add(&lane->n_submitted, 1);
    atomic_fetch_add(&lane->tokens_submitted, n_ids);
    enum status s = check_open(lane, ret_why);
    if (s == OK && !request_queue_try_push(port->submitted, r))
        s = why_set(ret_why, STATUS_QUEUE_FULL, "", "%u requests are waiting already",
                    atomic_load(&port->engine->queue_max));
    if (s != OK) {
        atomic_fetch_sub(&lane->tokens_submitted, n_ids);
        atomic_fetch_sub(&lane->n_submitted, 1);
    }
    doorbell_ring(
        &port->engine->bell); /* also if not: who closes the lane may wait for the count */
    return s;
}

enum status engine_submit(struct engine_port *port, struct lane *lane, struct request **request,
                          struct why *ret_why)
{
    if (atomic_load(&port->engine->is_draining))
        return why_set(ret_why, STATUS_DRAINING, "", "the server is shutting down");
    TRY(check_open(lane, ret_why));
    TRY(check_fits(lane, *request, ret_why));
    TRY(check_queue(port, lane, *request, ret_why));
    TRY(send(port, lane, *request, ret_why));
    atomic_fetch_add(&port->alive, 1);
    *request = NULL;
    return OK;
}

void engine_cancel(struct engine_port *port, struct request *request, bool is_stop)
{
    request_ask(request, is_stop ? REQUEST_STOP : REQUEST_CANCEL);
    doorbell_ring(&port->engine->bell);
}

/* ---- out ---- */

struct request *engine_next_ready(struct engine_port *port)
{
    struct request *r = request_queue_pop(port->ready);
    if (r == NULL) {
        if (atomic_exchange(&port->is_awaited, false))
            doorbell_ring(&port->engine->bell);
        return NULL;
    }
    request_take_news(r);
    if (request_is_done(r))
        atomic_fetch_sub(&port->alive, 1);
    return r;
}

uint32_t engine_port_active(const struct engine_port *port)
{
    return atomic_load(&port->alive);
}
