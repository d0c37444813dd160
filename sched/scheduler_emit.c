/* scheduler_emit.c: which rows of a step give outputs, and what becomes of those: pushed, or an end.
 *
 * HOW     Row at position p gives the token at index p + 1: scored if the prompt has it and scores
 *         are asked for, sampled if it is the first unknown one. The logits between are the pass's
 *         (pass_emit.c).
 * ALWAYS  (1) A token is sampled, scored and pushed once, also when its row is computed again.
 *          is_wanted
 *         (2) NaN or inf in a row of logits ends that request alone.
 *          scheduler_take
 * THREAD  engine
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/scheduler_priv.h"

/* ---- which rows ---- */

/* True if row i's logits are wanted. Scored: outputs so far; prompt tokens come first, each an
 * output. */
static bool is_wanted(const struct running *run, uint32_t i, uint32_t scored, bool *ret_is_prompt)
{
    const struct request *r = run->request;
    uint32_t token = run->first_position + i + 1;
    *ret_is_prompt = token < r->n_ids && r->prompt_logprobs && token >= scored;
    return *ret_is_prompt || (token == request_n_tokens(r) && r->n_generated < r->max_tokens);
}

static void want_rows(struct scheduler *s, uint32_t index, struct step_wanted *wanted)
{
    const struct running *run = &s->running[index];
    uint32_t scored = request_n_outputs(run->request);
    for (uint32_t i = 0; i < run->n_rows; i++) {
        bool is_prompt;
        if (is_wanted(run, i, scored, &is_prompt))
            wanted->rows[wanted->n++] = (struct wanted_row){.scheduler = s,
                                                            .running = index,
                                                            .row = run->row_first + i,
                                                            .token = run->first_position + i + 1,
                                                            .is_prompt = is_prompt};
    }
}

uint32_t scheduler_rows_asked(const struct running *run)
{
    uint32_t scored = request_n_outputs(run->request), i = 0;
    bool is_prompt;
    while (i < run->n_rows && !is_wanted(run, i, scored, &is_prompt))
        i++;
    return run->n_rows - i;
}

/* ---- outputs to requests ---- */

static bool is_stop_id(const struct scheduler *s, uint32_t id)
{
    for (uint32_t i = 0; i < s->limits.n_stop_ids; i++)
        if (s->stop_ids[i] == id)
            return true;
    return false;
}

/* The prompt's first token has no row before it: its score is null. */
static void push_first_prompt_token(struct request *r)
{
    if (!r->prompt_logprobs || request_n_outputs(r) > 0)
        return;
    struct token_output first = {.id = r->ids[0], .is_prompt = true};
    request_push(r, &first);
}

void scheduler_want(struct scheduler *s, uint64_t now_ns, struct step_wanted *wanted)
{
    s->now_ns = now_ns;
    for (uint32_t i = 0; i < s->n_running; i++) {
        struct running *run = &s->running[i];
        run->is_stopped = false;
        if (run->status != OK || run->n_rows == 0)
            continue;
        push_first_prompt_token(run->request);
        want_rows(s, i, wanted);
    }
}

const struct request *scheduler_request(const struct scheduler *s, uint32_t running)
{
    return s->running[running].request;
}

static void push(struct scheduler *s, struct request *r, const struct token_output *output)
{
    uint64_t own_ns = s->now_ns - s->lag_ns;
    if (r->times.first_output_ns == 0) {
        r->times.first_output_ns = s->now_ns;
        r->own_first_ns = own_ns;
    }
    r->times.last_output_ns = s->now_ns;
    if (!output->is_prompt && r->n_generated == 0)
        r->own_first_token_ns = own_ns;
    if (!output->is_prompt)
        r->own_last_token_ns = own_ns;
    request_push(r, output);
    s->stats.generated_tokens += !output->is_prompt;
}

/* A stop token is an end without a push. */
void scheduler_take(struct scheduler *s, const struct wanted_row *w,
                    const struct token_output *output, enum status status)
{
    struct running *run = &s->running[w->running];
    if (run->status != OK || run->is_stopped)
        return;
    run->status = status;
    if (status != OK)
        return;
    if (!output->is_prompt && !run->request->ignore_eos && is_stop_id(s, output->id)) {
        run->is_stopped = true;
        return;
    }
    push(s, run->request, output);
}

/* ---- ends ---- */

static bool is_complete(const struct scheduler *s, const struct request *r)
{
    if (sequence_length(r->sequence) < r->n_ids)
        return false;
    return r->n_generated == r->max_tokens || request_n_tokens(r) >= s->limits.context_max;
}

/* Ends or announces running[index]; true if it ended. */
static bool settle(struct scheduler *s, uint32_t index)
{
    struct running *run = &s->running[index];
    struct request *r = run->request;
    enum finish_reason reason = run->status != OK   ? FINISH_ERROR
                                : run->is_stopped   ? FINISH_STOP
                                : is_complete(s, r) ? FINISH_LENGTH
                                                    : FINISH_NONE;
    if (reason == FINISH_NONE) {
        if (run->n_rows > 0)
            scheduler_announce(s, r);
        return false;
    }
    enum status error = run->status;
    scheduler_remove_running(s, index);
    scheduler_end(s, r, reason, error);
    return true;
}

void scheduler_settle(struct scheduler *s)
{
    for (uint32_t i = s->n_running; i-- > 0;)
        settle(s, i);
}
