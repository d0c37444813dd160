/* request.c: a request's memory, its output ring and its hand-over between the two threads.
 *
 * WHY     The engine must never wait for the loop, so a request takes all the memory that its
 *         outputs can need when it is made.
 * HOW     The ring has a slot for every output there can be, so it never turns round and never
 *         fills: the engine writes slot n and releases n + 1. A slot without logprobs is a bare id;
 *         with k alternatives it has room for k, not for twenty.
 * ALWAYS  (1) A slot below n_pushed is never written again.                    request_push
 *         (2) A request is at most once in the ready queue.                    request_announce,
 *         request_finish
 *         (3) After NEWS_DONE is set the engine does not touch the request.    request_finish
 *         (4) The loop sees done only when the request is in no queue.         request_take_news
 * OWNS    ids and slots, from request_new to request_free.
 * THREAD  as said at each function in request.h and request_priv.h
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/request.h"

#include "config/mem.h"
#include "sched/request_priv.h"

enum { REQUEST_MAGIC = 0x52657175 };

struct request_slot {
    uint32_t id;
    float logprob;
    uint16_t has_logprob;
    uint16_t n_top;
    struct token_logprob top[];
};

/* Bit (1 << state) for each state that a state may go to. */
static const uint32_t moves_from[REQUEST_STATE_COUNT] = {
#define TO(state) (1u << REQUEST_##state)
#define STATE(name, moves) [REQUEST_##name] = (moves),
#include "sched/request.def"
#undef STATE
#undef TO
};

static size_t slot_bytes_of(int32_t logprobs)
{
    if (logprobs < 0)
        return sizeof(uint32_t);
    return sizeof(struct request_slot) + (size_t)logprobs * sizeof(struct token_logprob);
}

static void settle(struct request *r, const struct request_params *params, void *user)
{
    r->magic = REQUEST_MAGIC;
    r->n_ids = params->n_ids;
    r->max_tokens = params->max_tokens;
    r->logprobs = params->logprobs;
    r->prompt_logprobs = params->prompt_logprobs;
    r->ignore_eos = params->ignore_eos;
    r->has_salt = params->has_salt;
    memcpy(r->salt, params->salt, sizeof r->salt);
    r->sampling = params->sampling;
    r->user = user;
    r->slot_bytes = slot_bytes_of(params->logprobs);
}

/* False if no size_t or no memory holds it; ids is then still the caller's. */
static bool take_memory(struct request *r, struct request_params *params)
{
    size_t ids_bytes;
    size_t ring_bytes;
    uint32_t n_scored = params->prompt_logprobs ? params->n_ids : 0;
    uint32_t n_tokens;
    if (__builtin_add_overflow(params->max_tokens, n_scored, &r->capacity) ||
        __builtin_add_overflow(params->max_tokens, params->n_ids, &n_tokens) ||
        __builtin_mul_overflow((size_t)r->capacity, r->slot_bytes, &ring_bytes) ||
        __builtin_mul_overflow((size_t)n_tokens, sizeof *r->ids, &ids_bytes))
        return false;
    r->slots = mem_alloc(ring_bytes);
    if (r->slots == NULL)
        return false;
    r->ids = mem_realloc(params->ids, ids_bytes); /* last, since it cannot be undone */
    return r->ids != NULL;
}

enum status request_new(struct request_params *params, void *user, struct request **ret_request)
{
    ASSERT(params->ids != NULL && params->n_ids >= 1 && params->logprobs <= TOP_LOGPROBS_MAX);
    struct request *r = mem_aligned(sizeof *r);
    if (r == NULL)
        return STATUS_NO_MEMORY;
    settle(r, params, user);
    if (!take_memory(r, params)) {
        request_free(&r);
        return STATUS_NO_MEMORY;
    }
    params->ids = NULL;
    *ret_request = r;
    return OK;
}

enum status request_again(const struct request *done, struct request **ret_request)
{
    ASSERT(done->is_done && done->n_generated == 0);
    struct request_params params = {.n_ids = done->n_ids,
                                    .max_tokens = done->max_tokens,
                                    .sampling = done->sampling,
                                    .logprobs = done->logprobs,
                                    .prompt_logprobs = done->prompt_logprobs,
                                    .ignore_eos = done->ignore_eos,
                                    .has_salt = done->has_salt};
    memcpy(params.salt, done->salt, sizeof params.salt);
    params.ids = mem_alloc(done->n_ids * sizeof *params.ids);
    if (params.ids == NULL)
        return STATUS_NO_MEMORY;
    memcpy(params.ids, done->ids, done->n_ids * sizeof *params.ids);
    enum status s = request_new(&params, done->user, ret_request);
    mem_free(params.ids);
    return s;
}

void request_free(struct request **request)
{
    struct request *r = *request;
    *request = NULL;
    if (r == NULL)
        return;
    ASSERT(r->magic == REQUEST_MAGIC && (r->is_done || r->state == REQUEST_NEW));
    r->magic = 0;
    mem_free(r->ids);
    mem_free(r->slots);
    mem_free(r);
}

void *request_user(const struct request *request)
{
    return request->user;
}

void request_set_state(struct request *request, enum request_state state)
{
    ASSERT(state < REQUEST_STATE_COUNT && (moves_from[request->state] >> state & 1u) != 0);
    request->state = state;
}

static void slot_write(struct request_slot *slot, const struct token_output *output)
{
    slot->id = output->id;
    slot->has_logprob = output->has_logprob;
    slot->logprob = output->has_logprob ? output->logprob : 0.0f;
    slot->n_top = (uint16_t)(output->has_logprob ? output->n_top : 0);
    memcpy(slot->top, output->top, slot->n_top * sizeof slot->top[0]);
}

void request_push(struct request *request, const struct token_output *output)
{
    uint32_t n = atomic_load_explicit(&request->n_pushed, memory_order_relaxed);
    ASSERT(n < request->capacity);
    ASSERT(output->is_prompt == (request->prompt_logprobs && n < request->n_ids));
    char *slot = request->slots + (size_t)n * request->slot_bytes;
    if (request->logprobs < 0) {
        memcpy(slot, &output->id, sizeof output->id);
    } else {
        ASSERT(!output->has_logprob || output->n_top <= (uint32_t)request->logprobs);
        slot_write((struct request_slot *)(void *)slot, output);
    }
    if (!output->is_prompt)
        request->ids[request_n_tokens(request)] = output->id;
    request->n_generated += !output->is_prompt;
    atomic_store_explicit(&request->n_pushed, n + 1, memory_order_release);
}

bool request_next(struct request *request, struct token_output *ret_output)
{
    uint32_t n = request->n_taken;
    if (n == atomic_load_explicit(&request->n_pushed, memory_order_acquire))
        return false;
    const char *from = request->slots + (size_t)n * request->slot_bytes;
    memset(ret_output, 0, offsetof(struct token_output, top));
    ret_output->is_prompt = request->prompt_logprobs && n < request->n_ids;
    if (request->logprobs < 0) {
        memcpy(&ret_output->id, from, sizeof ret_output->id);
    } else {
        const struct request_slot *slot = (const struct request_slot *)(const void *)from;
        ret_output->id = slot->id;
        ret_output->has_logprob = slot->has_logprob != 0;
        ret_output->logprob = slot->logprob;
        ret_output->n_top = slot->n_top;
        memcpy(ret_output->top, slot->top, slot->n_top * sizeof slot->top[0]);
    }
    request->n_taken = n + 1;
    return true;
}

bool request_announce(struct request *request)
{
    return (atomic_fetch_or_explicit(&request->news, NEWS_QUEUED, memory_order_acq_rel) &
            NEWS_QUEUED) == 0;
}

bool request_finish(struct request *request, enum finish_reason reason, enum status error)
{
    ASSERT(reason != FINISH_NONE && (reason == FINISH_ERROR) == (error != OK));
    request_set_state(request, REQUEST_DONE);
    request->finish_reason = reason;
    request->error = error;
    uint32_t old =
        atomic_fetch_or_explicit(&request->news, NEWS_QUEUED | NEWS_DONE, memory_order_acq_rel);
    return (old & NEWS_QUEUED) == 0;
}

void request_take_news(struct request *request)
{
    ASSERT(request->magic == REQUEST_MAGIC);
    uint32_t old =
        atomic_fetch_and_explicit(&request->news, ~(uint32_t)NEWS_QUEUED, memory_order_acq_rel);
    ASSERT((old & NEWS_QUEUED) != 0);
    request->is_done = (old & NEWS_DONE) != 0;
}

void request_ask(struct request *request, enum request_cancel wish)
{
    uint32_t keep = REQUEST_KEEP;
    atomic_compare_exchange_strong_explicit(&request->cancel, &keep, wish, memory_order_release,
                                            memory_order_relaxed);
}

enum request_cancel request_asked(const struct request *request)
{
    return (enum request_cancel)atomic_load_explicit(&request->cancel, memory_order_acquire);
}

bool request_is_done(const struct request *request)
{
    return request->is_done;
}

enum finish_reason request_finish_reason(const struct request *request)
{
    ASSERT(request->is_done);
    return request->finish_reason;
}

enum status request_error(const struct request *request)
{
    ASSERT(request->is_done);
    return request->error;
}

uint32_t request_cached_tokens(const struct request *request)
{
    return request->cached_tokens;
}

uint32_t request_prompt_tokens(const struct request *request)
{
    return request->n_ids;
}

struct request_times request_times(const struct request *request)
{
    ASSERT(request_is_done(request));
    struct request_times times = request->times;
    if (times.first_output_ns != 0)
        times.ttft_own_ns = request->own_first_ns - request->own_submitted_ns;
    if (request->n_generated >= 2)
        times.tpot_own_ns = (request->own_last_token_ns - request->own_first_token_ns) /
                            (request->n_generated - 1);
    return times;
}
