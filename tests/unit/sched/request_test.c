/* request_test.c: the output ring, the news word and the states of a request, alone and between two
 * threads. */
// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include "config/mem.h"
#include "sched/request_priv.h"
#include "sched/request_queue.h"
#include "tests/support/suite_run.h"

enum { N_IDS = 5 };

static struct request_params params_of(uint32_t max_tokens, int32_t logprobs, bool prompt_logprobs)
{
    uint32_t *ids = mem_alloc(N_IDS * sizeof *ids);
    ck_assert_ptr_nonnull(ids);
    for (uint32_t i = 0; i < N_IDS; i++)
        ids[i] = 100 + i;
    return (struct request_params){.ids = ids,
                                   .n_ids = N_IDS,
                                   .max_tokens = max_tokens,
                                   .sampling = {.temperature = 1.0f, .top_p = 1.0f, .seed = 7},
                                   .logprobs = logprobs,
                                   .prompt_logprobs = prompt_logprobs};
}

static struct request *request_of(uint32_t max_tokens, int32_t logprobs, bool prompt_logprobs)
{
    struct request_params params = params_of(max_tokens, logprobs, prompt_logprobs);
    struct request *request = NULL;
    ck_assert_int_eq(request_new(&params, &params, &request), OK);
    ck_assert_ptr_null(params.ids);
    return request;
}

/* An output all of whose fields follow from its number and its request's kind. */
static struct token_output output_of(uint32_t n, uint32_t n_top, bool is_prompt, bool has_logprob)
{
    struct token_output output = {.id = n * 3 + 1,
                                  .is_prompt = is_prompt,
                                  .has_logprob = has_logprob,
                                  .logprob = has_logprob ? -0.5f * (float)n : 0.0f,
                                  .n_top = has_logprob ? n_top : 0};
    for (uint32_t i = 0; i < output.n_top; i++)
        output.top[i] = (struct token_logprob){.id = n + i, .logprob = -(float)(n + i)};
    return output;
}

static void assert_same(const struct token_output *a, const struct token_output *b)
{
    ck_assert_uint_eq(a->id, b->id);
    ck_assert_int_eq(a->is_prompt, b->is_prompt);
    ck_assert_int_eq(a->has_logprob, b->has_logprob);
    ck_assert(a->logprob == b->logprob);
    ck_assert_uint_eq(a->n_top, b->n_top);
    ck_assert_mem_eq(a->top, b->top, a->n_top * sizeof a->top[0]);
}

static void finish(struct request **request)
{
    request_set_state(*request, REQUEST_WAITING);
    request_set_state(*request, REQUEST_RUNNING);
    (void)!request_finish(*request, FINISH_LENGTH, OK);
    request_take_news(*request);
    request_free(request);
    ck_assert_ptr_null(*request);
}

/* Every logprobs setting, with and without prompt scores, fills the ring to its last slot and reads
 * it back. */
START_TEST(ring_gives_back_what_was_pushed)
{
    int32_t logprobs = _i / 2 - 1;
    bool scores_prompt = _i % 2 != 0;
    enum { MAX_TOKENS = 9 };
    struct request *request = request_of(MAX_TOKENS, logprobs, scores_prompt);
    uint32_t n_prompt = scores_prompt ? N_IDS : 0;
    uint32_t n_top = logprobs > 0 ? (uint32_t)logprobs : 0;
    struct token_output got;
    ck_assert(!request_next(request, &got));
    for (uint32_t n = 0; n < n_prompt + MAX_TOKENS; n++) {
        bool is_prompt = n < n_prompt;
        bool scored = logprobs >= 0 && !(is_prompt && n == 0);
        struct token_output output = output_of(n, n_top, is_prompt, scored);
        request_push(request, &output);
        if (n % 2 != 0)
            continue; /* so that the reader is at times one behind */
        while (request_next(request, &got)) {
            uint32_t at = request->n_taken - 1;
            bool at_prompt = at < n_prompt;
            struct token_output want =
                output_of(at, n_top, at_prompt, logprobs >= 0 && !(at_prompt && at == 0));
            assert_same(&got, &want);
        }
        ck_assert_uint_eq(request->n_taken, n + 1);
    }
    while (request_next(request, &got))
        continue;
    ck_assert_uint_eq(request->n_taken, n_prompt + MAX_TOKENS);
    ck_assert_uint_eq(request->n_generated, MAX_TOKENS);
    ck_assert_uint_eq(request_n_tokens(request), N_IDS + MAX_TOKENS);
    for (uint32_t i = 0; i < N_IDS; i++)
        ck_assert_uint_eq(request->ids[i], 100 + i);
    for (uint32_t i = 0; i < MAX_TOKENS; i++)
        ck_assert_uint_eq(request->ids[N_IDS + i], (n_prompt + i) * 3 + 1);
    finish(&request);
}
END_TEST

START_TEST(ring_without_logprobs_is_four_bytes_a_token)
{
    struct request *request = request_of(8192, -1, false);
    ck_assert_uint_eq(request->slot_bytes, 4);
    request_free(&request);
    request = request_of(8192, 5, false);
    ck_assert_uint_le(request->slot_bytes, 12 + 5 * 8);
    request_free(&request);
}
END_TEST

START_TEST(pushing_beyond_the_ring_aborts)
{
    struct request *request = request_of(1, -1, false);
    struct token_output output = output_of(0, 0, false, false);
    request_push(request, &output);
    request_push(request, &output);
}
END_TEST

START_TEST(sizes_that_overflow_are_refused)
{
    struct request_params params = params_of(UINT32_MAX, -1, false);
    struct request *request = NULL;
    ck_assert_int_eq(request_new(&params, NULL, &request), STATUS_NO_MEMORY);
    ck_assert_ptr_nonnull(params.ids);
    ck_assert_ptr_null(request);
    params.max_tokens = UINT32_MAX - N_IDS + 1;
    params.prompt_logprobs = true;
    ck_assert_int_eq(request_new(&params, NULL, &request), STATUS_NO_MEMORY);
    mem_free(params.ids);
}
END_TEST

START_TEST(each_failed_allocation_leaves_ids_with_the_caller)
{
    struct request_params params = params_of(16, 2, true);
    struct request *request = NULL;
    for (uint64_t n = 1; n <= 3; n++) {
        mem_fail_nth(n);
        ck_assert_int_eq(request_new(&params, NULL, &request), STATUS_NO_MEMORY);
        ck_assert(mem_failure_struck());
        ck_assert_ptr_nonnull(params.ids);
        ck_assert_uint_eq(params.ids[N_IDS - 1], 100 + N_IDS - 1);
    }
    mem_fail_nth(0);
    ck_assert_int_eq(request_new(&params, NULL, &request), OK);
    request_free(&request);
}
END_TEST

/* The matrix of request.def, written out once more by hand. */
static const struct move {
    enum request_state from, to;
} legal[] =
    {
        {REQUEST_NEW, REQUEST_WAITING},  {REQUEST_WAITING, REQUEST_RUNNING},
        {REQUEST_WAITING, REQUEST_DONE}, {REQUEST_RUNNING, REQUEST_WAITING},
        {REQUEST_RUNNING, REQUEST_DONE},
},
  illegal[] = {
      {REQUEST_NEW, REQUEST_NEW},         {REQUEST_NEW, REQUEST_RUNNING},
      {REQUEST_NEW, REQUEST_DONE},        {REQUEST_WAITING, REQUEST_NEW},
      {REQUEST_WAITING, REQUEST_WAITING}, {REQUEST_RUNNING, REQUEST_NEW},
      {REQUEST_RUNNING, REQUEST_RUNNING}, {REQUEST_DONE, REQUEST_NEW},
      {REQUEST_DONE, REQUEST_WAITING},    {REQUEST_DONE, REQUEST_RUNNING},
      {REQUEST_DONE, REQUEST_DONE},
};
_Static_assert(ARRAY_LEN(legal) + ARRAY_LEN(illegal) == REQUEST_STATE_COUNT * REQUEST_STATE_COUNT,
               "every move is named once");

static void make(const struct move *move)
{
    struct request *request = request_of(1, -1, false);
    request->state = move->from;
    request_set_state(request, move->to);
    ck_assert_int_eq((int)request->state, (int)move->to);
    request->state = REQUEST_NEW;
    request_free(&request);
}

START_TEST(legal_moves_are_made)
{
    make(&legal[_i]);
}
END_TEST

START_TEST(illegal_moves_abort)
{
    make(&illegal[_i]);
}
END_TEST

START_TEST(freeing_a_running_request_aborts)
{
    struct request *request = request_of(1, -1, false);
    request_set_state(request, REQUEST_WAITING);
    request_free(&request);
}
END_TEST

START_TEST(done_is_seen_only_when_taken_from_the_queue)
{
    struct request *request = request_of(4, -1, false);
    request_set_state(request, REQUEST_WAITING);
    ck_assert(request_announce(request));
    ck_assert(!request_announce(request)); /* it is there already */
    request_take_news(request);
    ck_assert(!request_is_done(request));
    ck_assert(request_finish(request, FINISH_ERROR, STATUS_NUMERIC)); /* queued anew */
    ck_assert(!request_is_done(request));
    request_take_news(request);
    ck_assert(request_is_done(request));
    ck_assert_int_eq((int)request_finish_reason(request), FINISH_ERROR);
    ck_assert_int_eq(request_error(request), STATUS_NUMERIC);
    ck_assert_uint_eq(request_prompt_tokens(request), N_IDS);
    request_free(&request);
    request_free(&request);
}
END_TEST

START_TEST(first_wish_counts)
{
    struct request *request = request_of(4, -1, false);
    ck_assert_int_eq((int)request_asked(request), REQUEST_KEEP);
    request_ask(request, REQUEST_STOP);
    request_ask(request, REQUEST_CANCEL);
    ck_assert_int_eq((int)request_asked(request), REQUEST_STOP);
    request_free(&request);
}
END_TEST

enum { N_REQUESTS = 64, PAIR_TOKENS = 300 };

struct pair {
    struct request_queue *submitted;
    struct request_queue *ready;
};

static void announce(struct pair *pair, struct request *request, bool is_new)
{
    if (is_new)
        ck_assert(request_queue_try_push(pair->ready, request));
}

/* Plays the engine: gives every request its outputs round by round, ends some early because they
 * were asked to. */
static void *engine_side(void *arg)
{
    struct pair *pair = arg;
    struct request *running[N_REQUESTS];
    uint32_t n_running = 0;
    uint32_t n_finished = 0;
    while (n_finished < N_REQUESTS) {
        for (struct request *r; (r = request_queue_pop(pair->submitted)) != NULL;) {
            request_set_state(r, REQUEST_WAITING);
            request_set_state(r, REQUEST_RUNNING);
            running[n_running++] = r;
        }
        for (uint32_t i = 0; i < n_running;) {
            struct request *r = running[i];
            bool stopped = request_asked(r) != REQUEST_KEEP;
            if (stopped || r->n_generated == r->max_tokens) {
                running[i] = running[--n_running];
                n_finished++;
                bool is_new = request_finish(r, stopped ? FINISH_STOP : FINISH_LENGTH, OK);
                announce(pair, r, is_new);
                continue;
            }
            struct token_output output = output_of(r->n_generated, 3, false, true);
            request_push(r, &output);
            announce(pair, r, request_announce(r));
            i++;
        }
    }
    return NULL;
}

/* The loop's side: reads, asks every fourth to stop at its tenth token, frees at once when done. */
static uint32_t take_one(struct request *r, uint32_t n_seen[])
{
    uint32_t *seen = &n_seen[*(uint32_t *)request_user(r)];
    struct token_output got;
    request_take_news(r);
    while (request_next(r, &got)) {
        struct token_output want = output_of((*seen)++, 3, false, true);
        assert_same(&got, &want);
        if (*seen == 10 && *(uint32_t *)request_user(r) % 4 == 0)
            request_ask(r, REQUEST_STOP);
    }
    if (!request_is_done(r))
        return 0;
    if (request_finish_reason(r) == FINISH_LENGTH)
        ck_assert_uint_eq(*seen, PAIR_TOKENS);
    request_free(&r);
    return 1;
}

START_TEST(two_threads_lose_nothing)
{
    struct pair pair;
    uint32_t number[N_REQUESTS];
    uint32_t n_seen[N_REQUESTS] = {0};
    ck_assert_int_eq(request_queue_new(N_REQUESTS, &pair.submitted), OK);
    ck_assert_int_eq(request_queue_new(N_REQUESTS, &pair.ready), OK);
    pthread_t engine;
    ck_assert_int_eq(pthread_create(&engine, NULL, engine_side, &pair), 0);
    uint32_t n_done = 0;
    for (uint32_t i = 0; n_done < N_REQUESTS;) {
        if (i < N_REQUESTS) {
            struct request_params params = params_of(PAIR_TOKENS, 3, false);
            struct request *request;
            number[i] = i;
            ck_assert_int_eq(request_new(&params, &number[i], &request), OK);
            ck_assert(request_queue_try_push(pair.submitted, request));
            i++;
        }
        for (struct request *r; (r = request_queue_pop(pair.ready)) != NULL;)
            n_done += take_one(r, n_seen);
        sched_yield();
    }
    ck_assert_int_eq(pthread_join(engine, NULL), 0);
    ck_assert_ptr_null(request_queue_pop(pair.ready));
    for (uint32_t i = 0; i < N_REQUESTS; i++)
        ck_assert_uint_ge(n_seen[i], 10);
    request_queue_free(&pair.submitted);
    request_queue_free(&pair.ready);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("request");
    TCase *tcase = tcase_create("request");
    tcase_set_timeout(tcase, 30);
    tcase_add_loop_test(tcase, ring_gives_back_what_was_pushed, 0, 2 * (TOP_LOGPROBS_MAX + 2));
    tcase_add_test(tcase, ring_without_logprobs_is_four_bytes_a_token);
    tcase_add_test_raise_signal(tcase, pushing_beyond_the_ring_aborts, SIGABRT);
    tcase_add_test(tcase, sizes_that_overflow_are_refused);
    tcase_add_test(tcase, each_failed_allocation_leaves_ids_with_the_caller);
    tcase_add_loop_test(tcase, legal_moves_are_made, 0, ARRAY_LEN(legal));
    tcase_add_loop_test_raise_signal(tcase, illegal_moves_abort, SIGABRT, 0, ARRAY_LEN(illegal));
    tcase_add_test_raise_signal(tcase, freeing_a_running_request_aborts, SIGABRT);
    tcase_add_test(tcase, done_is_seen_only_when_taken_from_the_queue);
    tcase_add_test(tcase, first_wish_counts);
    tcase_add_test(tcase, two_threads_lose_nothing);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
