/* lane_rig.c: what a thread with a port does, in a few lines each. */
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/lane_rig.h"

#include <check.h>
#include <time.h>

#include "config/mem.h"

#define WAIT_NS 10000000000u

static void ring(void *user)
{
    doorbell_ring(user);
}

struct engine_options lane_rig_options(void)
{
    return (struct engine_options){.n_threads = 1,
                                   .running_max = 8,
                                   .queue_max = 64,
                                   .queue_tokens_max = 1u << 20,
                                   .prefill_chunk = 64};
}

struct lane_terms lane_rig_terms(void)
{
    return (struct lane_terms){.cache_bytes = 4u << 20, .cache_type = "f16"};
}

static void add_port(struct lane_rig *rig, struct engine *engine)
{
    struct why why = {0};
    ck_assert_int_eq(doorbell_init(&rig->bell), OK);
    ck_assert_msg(engine_port_new(engine, ring, &rig->bell, &rig->port, &why) == OK, "%s",
                  why.text);
}

void lane_rig_init(struct lane_rig *rig, const struct engine_options *options)
{
    struct why why = {0};
    *rig = (struct lane_rig){0};
    ck_assert_msg(engine_new(options, &rig->engine, &why) == OK, "%s", why.text);
    add_port(rig, rig->engine);
}

void lane_rig_init_port(struct lane_rig *rig, struct engine *engine)
{
    *rig = (struct lane_rig){0};
    add_port(rig, engine);
}

void lane_rig_release(struct lane_rig *rig)
{
    if (rig->engine == NULL)
        engine_port_free(&rig->port);
    engine_free(&rig->engine);
    doorbell_release(&rig->bell);
}

struct lane *lane_rig_add(struct lane_rig *rig, const struct gguf *gguf,
                          const struct lane_terms *terms)
{
    struct why why = {0};
    struct lane *lane;
    enum status s = lane_load(gguf, terms, rig->engine, &lane, &why);
    ck_assert_msg(s == OK, "%s: %s", status_code(s), why.text);
    s = engine_add(rig->engine, lane, &why);
    ck_assert_msg(s == OK, "%s: %s", status_code(s), why.text);
    return lane;
}

struct request *lane_rig_request(uint32_t seed, uint32_t n_ids, uint32_t max_tokens, void *user)
{
    struct request_params params = {.ids = mem_zalloc(n_ids, sizeof *params.ids),
                                    .n_ids = n_ids,
                                    .max_tokens = max_tokens,
                                    .sampling = {.top_p = 1.0f},
                                    .logprobs = -1,
                                    .ignore_eos = true};
    ck_assert_ptr_nonnull(params.ids);
    for (uint32_t i = 0; i < n_ids; i++)
        params.ids[i] = (seed + i) % 200;
    struct request *request;
    ck_assert_int_eq(request_new(&params, user, &request), OK);
    return request;
}

enum status lane_rig_submit(struct lane_rig *rig, struct lane *lane, struct request *request)
{
    enum status s = engine_submit(rig->port, lane, &request, NULL);
    ck_assert((s == OK) == (request == NULL));
    request_free(&request);
    return s;
}

/* Its new outputs; true if it is done. */
static bool take(struct request *r, uint32_t *tokens)
{
    struct lane_rig_answer *answer = request_user(r);
    struct token_output output;
    for (; request_next(r, &output); ++*tokens) {
        if (answer == NULL)
            continue;
        ck_assert_uint_lt(answer->n_ids, LANE_RIG_TOKENS_MAX);
        answer->ids[answer->n_ids++] = output.id;
    }
    if (!request_is_done(r))
        return false;
    if (answer != NULL) {
        answer->is_done = true;
        answer->reason = request_finish_reason(r);
        answer->error = request_error(r);
        answer->times = request_times(r);
    }
    return true;
}

uint32_t lane_rig_collect(struct lane_rig *rig, uint32_t n)
{
    uint32_t tokens = 0;
    while (n > 0) {
        struct request *r = engine_next_ready(rig->port);
        if (r == NULL) {
            doorbell_wait(&rig->bell, WAIT_NS);
        } else if (take(r, &tokens)) {
            request_free(&r);
            n--;
        }
    }
    return tokens;
}

void lane_rig_await(struct lane *lane, enum lane_life life)
{
    for (int ms = 0; lane_reached(lane) < life; ms++) {
        ck_assert_msg(ms < 20000, "life %d is not reached: %d is", (int)life,
                      (int)lane_reached(lane));
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}
