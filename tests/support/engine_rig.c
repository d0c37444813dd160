/* engine_rig.c: steps a scheduler by hand and gathers outputs as the loop thread would.
 *
 * WHY     Schedules must be replayed to the step, which a real engine thread and a real clock do
 *         not allow.
 * HOW     The parts are the engine's own (sched/lane_parts.h); news are noted in a list and
 *         drained after each step.
 */
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/engine_rig.h"

#include <check.h>

#include "config/mem.h"
#include "sched/request_priv.h"
#include "tests/support/noise.h"

enum { NEWS_MAX = 4096 };

struct rig {
    struct rig_parts parts;
    struct request *news[NEWS_MAX];
    uint32_t n_news;
    uint64_t now_ns;
};

static void on_news(void *user, struct request *request)
{
    struct rig *rig = user;
    ck_assert_uint_lt(rig->n_news, NEWS_MAX);
    rig->news[rig->n_news++] = request;
}

struct rig_options rig_options(void)
{
    return (struct rig_options){
        .n_threads = 1, .running_max = 8, .prefill_chunk = 64, .cache_type = "f16"};
}

static struct lane_parts *lane_of(struct rig_parts *p, uint32_t lane)
{
    ck_assert_uint_lt(lane, p->n_lanes);
    return lane == 0 ? &p->lane : &p->others[lane - 1];
}

static enum status join(struct rig_parts *p, uint32_t lane, struct why *ret_why)
{
    struct decoder_memory memory = lane_parts_memory(lane_of(p, lane));
    return pass_join(p->pass, lane_of(p, lane)->scheduler, &memory, ret_why);
}

/* Time that goes by in leaps, so that some steps are late. */
static uint64_t leaping_clock(void *user)
{
    struct rig_clock *clock = user;
    clock->now_ns += noise_below(&clock->random, 4) == 0 ? clock->leap_ns : 1000;
    return clock->now_ns;
}

static enum status join_all(struct rig_parts *p, const struct rig_options *o, struct why *ret_why)
{
    uint32_t most = o->running_max * p->n_lanes;
    struct pass_limits limits = {.running_max = o->running_all > 0 ? o->running_all : most,
                                 .prefill_chunk = o->prefill_chunk,
                                 .context_max = p->context_max,
                                 .is_paced = true,
                                 .clock_ns = o->leap_ns > 0 ? leaping_clock : NULL,
                                 .clock_user = &p->clock};
    p->clock = (struct rig_clock){.random = o->leap_ns, .leap_ns = o->leap_ns};
    TRY(pass_new(p->model, &p->lane.kernels, p->workers, &limits, &p->pass, ret_why));
    for (uint32_t i = 0; i < p->n_lanes; i++)
        TRY(join(p, i, ret_why));
    return OK;
}

/* Each lane has a namespace of its own and the first one's weights. */
static enum status load_lane(struct rig_parts *p, uint32_t lane, const struct gguf *gguf,
                             const struct rig_options *o, scheduler_news_fn *news_fn, void *user,
                             struct why *ret_why)
{
    struct lane_terms terms = {.cache_bytes = o->cache_bytes + lane * o->lane_bytes,
                               .cache_type =
                                   o->other_type != NULL && lane % 2 == 1 ? o->other_type
                                                                          : o->cache_type,
                               .isa = o->isa,
                               .stop_ids = o->stop_ids,
                               .n_stop_ids = o->n_stop_ids};
    terms.namespace_id[0] = (uint8_t)lane;
    struct lane_limits limits = {.running_max = o->running_max,
                                 .prefill_chunk = o->prefill_chunk};
    return lane_parts_init(lane_of(p, lane), gguf, &terms, &limits, p->workers,
                           lane > 0 ? p->lane.model->weights : NULL, news_fn, user, ret_why);
}

enum status rig_parts_init(struct rig_parts *p, const struct gguf *gguf,
                           const struct rig_options *o, scheduler_news_fn *news_fn, void *user,
                           struct why *ret_why)
{
    TRY(workers_new(o->n_threads, &p->workers, ret_why));
    p->n_lanes = o->n_lanes > 0 ? o->n_lanes : 1;
    for (uint32_t i = 0; i < p->n_lanes; i++)
        TRY(load_lane(p, i, gguf, o, news_fn, user, ret_why));
    p->model = p->lane.model;
    p->cache = p->lane.cache;
    p->scheduler = p->lane.scheduler;
    p->context_max = p->lane.context_max;
    return join_all(p, o, ret_why);
}

void rig_parts_release(struct rig_parts *p)
{
    pass_free(&p->pass);
    for (uint32_t i = p->n_lanes; i-- > 0;)
        lane_parts_release(lane_of(p, i));
    workers_free(&p->workers);
}

struct rig *rig_new(const struct gguf *gguf, const struct rig_options *options)
{
    struct why why = {0};
    struct rig *rig = mem_zalloc(1, sizeof *rig);
    ck_assert_ptr_nonnull(rig);
    enum status s = rig_parts_init(&rig->parts, gguf, options, on_news, rig, &why);
    ck_assert_msg(s == OK, "%s: %s", status_code(s), why.text);
    return rig;
}

static void drain(struct rig *rig);

void rig_free(struct rig **rig)
{
    for (uint32_t i = 0; i < (*rig)->parts.n_lanes; i++)
        scheduler_cancel_all(rig_lane(*rig, i)->scheduler);
    drain(*rig);
    rig_parts_release(&(*rig)->parts);
    mem_free(*rig);
    *rig = NULL;
}

struct rig_parts *rig_parts(struct rig *rig)
{
    return &rig->parts;
}

struct lane_parts *rig_lane(struct rig *rig, uint32_t lane)
{
    return lane_of(&rig->parts, lane);
}

enum status rig_join(struct rig *rig, uint32_t lane, struct why *ret_why)
{
    return join(&rig->parts, lane, ret_why);
}

void rig_leave(struct rig *rig, uint32_t lane)
{
    pass_leave(rig->parts.pass, rig_lane(rig, lane)->scheduler);
}

struct request *rig_submit(struct rig *rig, const struct rig_spec *spec,
                           struct rig_outcome *outcome)
{
    return rig_submit_to(rig, 0, spec, outcome);
}

struct request *rig_submit_to(struct rig *rig, uint32_t lane, const struct rig_spec *spec,
                              struct rig_outcome *outcome)
{
    struct request_params params = {.ids = mem_alloc(spec->n_ids * sizeof *params.ids),
                                    .n_ids = spec->n_ids,
                                    .max_tokens = spec->max_tokens,
                                    .sampling = spec->sampling,
                                    .logprobs = spec->logprobs,
                                    .prompt_logprobs = spec->prompt_logprobs};
    ck_assert_ptr_nonnull(params.ids);
    memcpy(params.ids, spec->ids, spec->n_ids * sizeof *params.ids);
    struct request *request;
    ck_assert_int_eq(request_new(&params, outcome, &request), OK);
    scheduler_submit(rig_lane(rig, lane)->scheduler, request, rig->now_ns);
    return request;
}

static void append(struct rig_outcome *o, const struct token_output *output)
{
    if (o->n_outputs == o->room) {
        o->room = o->room == 0 ? 64 : 2 * o->room;
        o->outputs = mem_realloc(o->outputs, o->room * sizeof *o->outputs);
        ck_assert_ptr_nonnull(o->outputs);
    }
    struct token_output *kept = &o->outputs[o->n_outputs++];
    memset(kept, 0, sizeof *kept); /* so that whole structs can be compared */
    kept->id = output->id;
    kept->is_prompt = output->is_prompt;
    kept->has_logprob = output->has_logprob;
    kept->logprob = output->logprob;
    kept->n_top = output->n_top;
    memcpy(kept->top, output->top, output->n_top * sizeof output->top[0]);
}

static void drain(struct rig *rig)
{
    for (uint32_t i = 0; i < rig->n_news; i++) {
        struct request *request = rig->news[i];
        request_take_news(request);
        struct rig_outcome *o = request_user(request);
        struct token_output output;
        while (request_next(request, &output))
            append(o, &output);
        if (!request_is_done(request))
            continue;
        o->is_done = true;
        o->reason = request_finish_reason(request);
        o->error = request_error(request);
        o->cached_tokens = request_cached_tokens(request);
        request_free(&request);
    }
    rig->n_news = 0;
}

bool rig_step(struct rig *rig, uint64_t elapsed_ns)
{
    rig->parts.clock.now_ns = rig->now_ns;
    bool worked = pass_step(rig->parts.pass, rig->now_ns);
    rig->now_ns += elapsed_ns;
    if (worked) {
        pass_deliver(rig->parts.pass, rig->now_ns);
        pass_observe(rig->parts.pass, elapsed_ns);
    }
    drain(rig);
    return worked;
}

void rig_run(struct rig *rig, uint32_t steps_max)
{
    for (uint32_t i = 0; pass_active(rig->parts.pass) > 0; i++) {
        ck_assert_msg(i < steps_max, "no end after %u steps", steps_max);
        rig_step(rig, 1000000);
    }
}

void rig_outcome_check_equal(const struct rig_outcome *a, const struct rig_outcome *b,
                             const char *what)
{
    ck_assert_msg(a->is_done && b->is_done, "%s: not done", what);
    ck_assert_msg(a->reason == b->reason && a->error == b->error, "%s: ends %d/%d and %d/%d", what,
                  (int)a->reason, (int)a->error, (int)b->reason, (int)b->error);
    ck_assert_msg(a->n_outputs == b->n_outputs, "%s: %u outputs and %u", what, a->n_outputs,
                  b->n_outputs);
    for (uint32_t i = 0; i < a->n_outputs; i++)
        ck_assert_msg(memcmp(&a->outputs[i], &b->outputs[i], sizeof a->outputs[i]) == 0,
                      "%s: output %u is token %u (%a) and token %u (%a)", what, i, a->outputs[i].id,
                      (double)a->outputs[i].logprob, b->outputs[i].id,
                      (double)b->outputs[i].logprob);
}

void rig_outcome_release(struct rig_outcome *o)
{
    mem_free(o->outputs);
    *o = (struct rig_outcome){0};
}
