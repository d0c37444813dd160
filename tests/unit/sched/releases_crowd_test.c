/* releases_crowd_test.c: generations are published, evaluated, rolled out, promoted, rolled back and forgotten while 32 streams
 * ask and leave. Made for the thread and address sanitizers.
 *
 * HOW     The test's own thread is the loop: it owns the releases and a port, as the daemon's does. A second thread is
 *         the operator, whose calls the loop takes out of a box. Each stream goes the way of a completion: choose, submit,
 *         fall back, go elsewhere, end.
 * ALWAYS  (1) An answer is its generation's alone, tokens and logprobs, to the byte; a cancelled one is a
 *         beginning of it. Nobody whose client stayed gets less.                                     check_answer
 *         (2) The first request for a prompt under a namespace finds none of its tokens there.       check_pages
 *         (3) Engine and arms have counted what the streams have.                                    check_counters
 *         (4) Requests were put back because pages ran out in a rollout up to its promotion, and in the rollback of it: what
 *         (1) says holds of them, too.                                                               preempted
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/releases.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "config/mem.h"
#include "sched/release/change.h"
#include "tests/support/lane_rig.h"
#include "tests/support/noise.h"
#include "tests/support/seed.h"
#include "tests/support/small_model.h"
#include "tests/support/suite_run.h"
#include "tests/support/temp_dir.h"

/* A prompt is two pages and its answer ends on a third: POOL has too few for RUNNING of them, but enough for the cell
 * below, whose requests share their beginning. */
enum { MODELS = 3, STREAMS = 32, PROMPTS = 14, PROMPT = 124, ANSWER = 14, TOP = 2, SPACES_MAX = 64,
       RUNNING = 6, CHUNK = 32, CONTEXT = 192, POOL = 112 << 10, ENCODED_MAX = 4 };
/* Sound candidates pass and time is no part of what is tested. */
#define LIMITS                                                                                     \
    "{\"tpot_p99\":{\"eps_ppm\":1000000000},\"ttft_p99\":{\"eps_ppm\":1000000000},"                    \
    "\"goodput\":{\"eps_ppm\":900000,\"slo_tpot_ms\":60000,\"slo_ttft_ms\":60000},"                \
    "\"error_rate\":{\"margin_ppm\":500000},\"numerical\":{\"samples_min\":1},"                    \
    "\"quality\":{\"eps_ppm\":1000000,\"slice_tokens_min\":1},\"traffic\":{\"eps_ppm\":1000000}}"
/* One cell, as large as what the streams ask for and as many as run at once: its p99 take some hundreds of requests. */
#define MATRIX "{\"contexts\":[140],\"active_requests\":[6],\"query_lengths\":[32]}"

struct token {
    uint32_t id;
    float logprob;
    struct token_logprob top[TOP];
};
struct answer {
    struct token tokens[ANSWER];
    uint32_t n;
};

static const char *const names[MODELS] = {"first", "second", "third"};
static struct answer alone[MODELS][PROMPTS];
static struct engine *engine;
static struct releases *releases;

/* ---- each generation alone ---- */

static struct request *ask_for(uint32_t prompt, void *user)
{
    struct request_params params = {.n_ids = PROMPT,
                                    .max_tokens = ANSWER,
                                    .sampling = {.top_p = 1.0f},
                                    .logprobs = TOP,
                                    .ignore_eos = true,
                                    .salt = {1}, /* whoever evaluates asks without one */
                                    .has_salt = true};
    struct request *request;
    params.ids = mem_zalloc(params.n_ids, sizeof *params.ids);
    ck_assert_ptr_nonnull(params.ids);
    for (uint32_t i = 0; i < params.n_ids; i++)
        params.ids[i] = (10 + prompt + 7 * i) % 200;
    ck_assert_int_eq(request_new(&params, user, &request), OK);
    return request;
}

/* Its new outputs; true if it is done. */
static bool take_outputs(struct request *request, struct answer *answer)
{
    struct token_output output;
    while (request_next(request, &output)) {
        ck_assert_uint_lt(answer->n, ANSWER);
        ck_assert(output.has_logprob && output.n_top == TOP);
        struct token *token = &answer->tokens[answer->n++];
        token->id = output.id;
        token->logprob = output.logprob;
        memcpy(token->top, output.top, sizeof token->top);
    }
    return request_is_done(request);
}

static void answer_alone(const struct gguf *gguf, int model)
{
    struct engine_options options = lane_rig_options();
    struct lane_terms terms = lane_rig_terms();
    struct lane_rig rig;
    lane_rig_init(&rig, &options);
    struct lane *lane = lane_rig_add(&rig, gguf, &terms);
    for (uint32_t i = 0; i < PROMPTS; i++) {
        struct request *request = NULL;
        ck_assert_int_eq(lane_rig_submit(&rig, lane, ask_for(i, NULL)), OK);
        while ((request = engine_next_ready(rig.port)) == NULL ||
               !take_outputs(request, &alone[model][i]))
            if (request == NULL)
                doorbell_wait(&rig.bell, UINT64_MAX / 2);
        request_free(&request);
        ck_assert_uint_eq(alone[model][i].n, ANSWER);
    }
    lane_rig_release(&rig);
}

static void make_model(const char *folder, int i)
{
    struct small_model model = small_model_default();
    struct gguf *gguf;
    struct why why = {0};
    char name[32];
    size_t len;
    model.seed += (uint64_t)i;
    model.layers = 1; /* sanitizers make every load dear */
    model.hidden = model.ffn = 64;
    model.heads = 4;
    model.context = CONTEXT;
    char *bytes = small_model_bytes(&model, &len);
    snprintf(name, sizeof name, "%s.gguf", names[i]);
    temp_dir_write(folder, name, bytes, len);
    ck_assert_msg(gguf_parse(bytes, len, &gguf, &why) == OK, "%s", why.text);
    answer_alone(gguf, i);
    gguf_free(&gguf);
    mem_free(bytes);
}

/* ---- the operator ---- */

static struct operator {
    char files[TEMP_PATH_ROOM];
    struct doorbell *bell; /* the loop's */
    pthread_mutex_t lock;
    pthread_cond_t answered;
    struct admin_call *call; /* in the box */
    bool is_done;
    char ids[MODELS][SHA256_HEX]; /* of what was published */
    uint32_t n_calls;
    atomic_uint served[MODELS]; /* whole answers so far */
    atomic_bool is_over;
} op;

static void on_done(void *user, struct admin_call *call)
{
    (void)user, (void)call;
    pthread_mutex_lock(&op.lock);
    op.is_done = true;
    pthread_cond_signal(&op.answered);
    pthread_mutex_unlock(&op.lock);
}

static enum status ask(struct admin_call *call, enum admin_op what, const char *subject,
                       const char *body)
{
    struct why why = {0};
    *call = (struct admin_call){
        .op = what, .who = "operator", .epoch_expected = EPOCH_ANY, .on_done = on_done};
    snprintf(call->subject, sizeof call->subject, "%s", subject);
    snprintf(call->idempotency_key, sizeof call->idempotency_key, "%u", ++op.n_calls);
    ck_assert_msg(record_read_loose(body, strlen(body), &call->body, &why) == OK, "%s", why.text);
    ck_assert_int_eq(record_hash(&call->body, call->payload_hash), OK);
    pthread_mutex_lock(&op.lock);
    op.call = call;
    op.is_done = false;
    doorbell_ring(op.bell);
    while (!op.is_done)
        pthread_cond_wait(&op.answered, &op.lock);
    pthread_mutex_unlock(&op.lock);
    record_release(&call->body);
    return call->status;
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 4000000}, NULL);
}

/* The member of the answer's object, or of its object "now". */
static void ask_text(enum admin_op what, const char *subject, const char *body, bool is_now,
                     const char *member, char *ret_text, size_t room)
{
    struct admin_call call;
    struct record json, now;
    struct why why = {0};
    enum status s = ask(&call, what, subject, body);
    ck_assert_msg(s == OK, "%s %s: %s", admin_route(what)->key, subject, call.why.text);
    ck_assert_msg(record_read_loose(call.text, strlen(call.text), &json, &why) == OK, "%s", why.text);
    now = record_child(&json, "now");
    const char *text = record_text(is_now ? &now : &json, member);
    ck_assert_msg(text != NULL, "no %s: %s", member, call.text);
    snprintf(ret_text, room, "%s", text);
    record_release(&json);
    mem_free(call.text);
}

static void publish(int model)
{
    char body[TEMP_PATH_ROOM + 64], id[SHA256_HEX];
    snprintf(body, sizeof body, "{\"path\":\"%s/%s.gguf\",\"name\":\"%s\"}", op.files, names[model],
             names[model]);
    ask_text(ADMIN_GENERATION_PUBLISH, "", body, false, "id", id, sizeof id);
    pthread_mutex_lock(&op.lock);
    snprintf(op.ids[model], sizeof op.ids[model], "%s", id);
    pthread_mutex_unlock(&op.lock);
}

static void evaluate(int model)
{
    char state[32] = "";
    struct admin_call call;
    ask_text(ADMIN_GENERATION_EVALUATE, names[model],
             "{\"matrix\":" MATRIX ",\"thresholds\":" LIMITS ",\"warmup_runs\":0}", false, "id", state, sizeof state);
    for (bool is_running = true; is_running && strcmp(state, "warmed") != 0; nap()) {
        ck_assert_msg(ask(&call, ADMIN_EVALUATION_READ, names[model], "{}") == OK, "%s", call.why.text);
        is_running = strstr(call.text, "\"is_running\":true") != NULL;
        mem_free(call.text);
        ask_text(ADMIN_GENERATION_READ, names[model], "{}", false, "state", state, sizeof state);
    }
    if (strcmp(state, "warmed") != 0)
        ask(&call, ADMIN_EVALUATION_READ, names[model], "{}");
    ck_assert_msg(strcmp(state, "warmed") == 0, "%s: %.2000s", state, call.text);
}

static void await_state(const char *rollout, const char *state)
{
    char found[32] = "";
    for (int i = 0; strcmp(found, state) != 0; i++) {
        nap();
        ask_text(ADMIN_ROLLOUT_READ, rollout, "{}", true, "state", found, sizeof found);
        bool is_wrong = strcmp(found, "paused") == 0 || strcmp(found, "blocked") == 0 ||
                        (strcmp(state, "rolled_back") != 0 && strstr(found, "roll") == found);
        struct admin_call call = {0};
        if (is_wrong)
            ask(&call, ADMIN_ROLLOUT_READ, rollout, "{}");
        ck_assert_msg(!is_wrong, "%s instead of %s: %s", found, state, call.text);
    }
}

static void await_answers(int model, uint32_t n)
{
    uint32_t before = atomic_load(&op.served[model]);
    while (atomic_load(&op.served[model]) < before + n)
        nap();
}

/* A rollout on its first step; its id. */
static void begin(int model, char rollout[REGISTRY_KEY_ROOM])
{
    char body[2048], state[32];
    snprintf(body, sizeof body,
             "{\"candidate\":\"%s\",\"plan\":{\"steps\":[{\"weight_bp\":4500,\"min_requests\":100,"
             "\"max_seconds\":600}],\"cap_bp\":4500,\"gates\":" LIMITS "}}",
             names[model]);
    ask_text(ADMIN_ROLLOUT_START, "", body, false, "id", rollout, REGISTRY_KEY_ROOM);
    ask_text(ADMIN_ROLLOUT_APPROVE, rollout, "{}", true, "state", state, sizeof state);
    ck_assert_str_eq(state, "step");
}

static void command(enum admin_op what, const char *subject, const char *body)
{
    struct admin_call call;
    enum status s = ask(&call, what, subject, body);
    ck_assert_msg(s == OK, "%s %s: %s", admin_route(what)->key, subject, call.why.text);
    mem_free(call.text);
}

static void check_sum(void)
{
    struct engine_stats s;
    engine_stats_copy(engine, &s);
    ck_assert_uint_eq(s.requests_admitted, s.requests_finished + s.requests_aborted +
                                               s.requests_failed + s.requests_running +
                                               s.requests_waiting);
}

/* How many requests were put back because pages ran out; since must have been fewer. */
static uint64_t preempted(uint64_t since)
{
    struct engine_stats s;
    engine_stats_copy(engine, &s);
    ck_assert_uint_gt(s.preemptions, since);
    return s.preemptions;
}

static void say(const char *what)
{
    static struct timespec start;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (start.tv_sec == 0)
        start = now;
    printf("%lld s: %s; answers %u %u %u\n", (long long)(now.tv_sec - start.tv_sec), what,
           atomic_load(&op.served[0]), atomic_load(&op.served[1]), atomic_load(&op.served[2]));
    check_sum();
}

static void *operate(void *unused)
{
    char rollout[REGISTRY_KEY_ROOM], state[32];
    uint64_t n_preempted;
    (void)unused;
    say("publish second");
    publish(1);
    evaluate(1);
    say("a canary that is aborted");
    begin(1, rollout);
    await_answers(1, 40);
    command(ADMIN_ROLLOUT_ABORT, rollout, "{}");
    await_state(rollout, "rolled_back");
    say("one that is forgotten before it served");
    publish(2);
    command(ADMIN_CACHE_PURGE, "", "{}");
    command(ADMIN_GENERATION_FORGET, names[2], "{}");
    say("the first candidate again, to promotion");
    publish(1);
    evaluate(1);
    begin(1, rollout);
    await_state(rollout, "awaiting_approval");
    n_preempted = preempted(0);
    command(ADMIN_ROLLOUT_APPROVE, rollout, "{}");
    await_state(rollout, "promoted");
    await_answers(1, 60);
    n_preempted = preempted(n_preempted);
    say("rolled back at once");
    ask_text(ADMIN_ROLLBACK, "", "{\"to\":\"previous\"}", false, "id", rollout, sizeof rollout);
    await_state(rollout, "rolled_back");
    await_answers(0, 60);
    n_preempted = preempted(n_preempted);
    say("another one, whose previous generation is forgotten");
    publish(2);
    evaluate(2);
    begin(2, rollout);
    await_state(rollout, "awaiting_approval");
    command(ADMIN_ROLLOUT_APPROVE, rollout, "{}");
    await_state(rollout, "promoted");
    command(ADMIN_GENERATION_FORGET, op.ids[0], "{}");
    await_answers(2, 60);
    ask_text(ADMIN_GENERATION_READ, op.ids[0], "{}", false, "state", state, sizeof state);
    ck_assert_str_eq(state, "retired");
    printf("%" PRIu64 " preempted\n", preempted(n_preempted));
    say("over");
    atomic_store(&op.is_over, true);
    doorbell_ring(op.bell);
    return NULL;
}

/* ---- the streams ---- */

struct stream {
    struct release_choice choice;
    struct request *request; /* NULL: none under way */
    struct answer answer;
    uint32_t prompt, cancel_at; /* > ANSWER: never */
    bool is_first, is_cancelled;
};

static struct loop {
    struct doorbell bell;
    struct engine_port *port;
    uint64_t random;
    struct stream streams[STREAMS];
    struct space {
        uint8_t id[SHA256_BYTES];
        bool is_seen[PROMPTS];
    } spaces[SPACES_MAX];
    uint32_t n_spaces, n_whole, n_cancelled, n_moved, n_moved_canary, n_hits;
    uint64_t n_ended[ARM_COUNT];
    struct lane *followed;
} loop;

static bool is_first_in(const uint8_t *id, uint32_t prompt)
{
    uint32_t i = 0;
    while (i < loop.n_spaces && memcmp(loop.spaces[i].id, id, SHA256_BYTES) != 0)
        i++;
    ck_assert_uint_lt(i, SPACES_MAX);
    if (i == loop.n_spaces)
        memcpy(loop.spaces[loop.n_spaces++].id, id, SHA256_BYTES);
    bool was_seen = loop.spaces[i].is_seen[prompt];
    loop.spaces[i].is_seen[prompt] = true;
    return !was_seen;
}

static bool fall_back(struct stream *s, enum status status)
{
    bool was_canary = s->choice.arm == ARM_CANARY;
    if (!releases_fall_back(releases, &s->choice, status))
        return false;
    loop.n_moved++;
    loop.n_moved_canary += was_canary;
    return true;
}

static void hand_over(struct stream *s)
{
    struct why why = {0};
    struct request *request = s->request;
    for (;;) {
        enum status status = engine_submit(loop.port, s->choice.lane, &request, &why);
        if (status == OK)
            break;
        ck_assert_msg(fall_back(s, status), "%s: %s", status_code(status), why.text);
    }
    s->is_first = is_first_in(lane_namespace(s->choice.lane), s->prompt);
}

static void start(struct stream *s)
{
    struct why why = {0};
    char name[20];
    int n = snprintf(name, sizeof name, "%" PRIx64, noise_next(&loop.random));
    const struct arm_session session = {.connection = {name, (size_t)n}};
    *s = (struct stream){.prompt = noise_below(&loop.random, PROMPTS), .cancel_at = UINT32_MAX};
    const struct evaluation_cell cell = {.context = PROMPT + ANSWER, .query_length = CHUNK};
    enum status status =
        releases_choose(releases, &session, (struct slice){0}, cell, &s->choice, &why);
    ck_assert_msg(status == OK, "%s: %s", status_code(status), why.text);
    if (noise_below(&loop.random, 8) == 0)
        s->cancel_at = noise_below(&loop.random, ANSWER);
    s->request = ask_for(s->prompt, s);
    hand_over(s);
}

static bool go_elsewhere(struct stream *s)
{
    struct request *again;
    if (request_finish_reason(s->request) != FINISH_ERROR ||
        request_error(s->request) != STATUS_LANE_CLOSED || s->answer.n > 0)
        return false;
    ck_assert(fall_back(s, STATUS_LANE_CLOSED));
    ck_assert_int_eq(request_again(s->request, &again), OK);
    request_free(&s->request);
    s->request = again;
    s->is_cancelled = false;
    hand_over(s);
    return true;
}

static int model_of(const struct release_choice *choice)
{
    int model = 0;
    pthread_mutex_lock(&op.lock);
    while (model < MODELS && strncmp(op.ids[model], choice->id, strlen(choice->id)) != 0)
        model++;
    pthread_mutex_unlock(&op.lock);
    ck_assert_msg(model < MODELS, "generation %s was never published", choice->id);
    return model;
}

static void check_answer(const struct stream *s)
{
    int model = model_of(&s->choice);
    const struct answer *whole = &alone[model][s->prompt];
    enum finish_reason reason = request_finish_reason(s->request);
    ck_assert_mem_eq(s->answer.tokens, whole->tokens, s->answer.n * sizeof *whole->tokens);
    if (s->is_cancelled && reason == FINISH_CANCELLED) {
        loop.n_cancelled++;
        return;
    }
    ck_assert_msg(reason == FINISH_LENGTH, "generation %s: reason %d, %s after %u tokens",
                  s->choice.id, (int)reason, status_code(request_error(s->request)), s->answer.n);
    ck_assert_uint_eq(s->answer.n, ANSWER);
    loop.n_whole++;
    atomic_fetch_add(&op.served[model], 1);
}

static void check_pages(const struct stream *s)
{
    if (s->answer.n == 0)
        return;
    uint32_t n = request_cached_tokens(s->request);
    ck_assert_msg(!s->is_first || n == 0, "%u cached tokens under a new namespace", n);
    loop.n_hits += n > 0;
}

static void end(struct stream *s)
{
    bool is_counted = request_finish_reason(s->request) != FINISH_CANCELLED;
    const struct request_times times = request_times(s->request);
    check_answer(s);
    check_pages(s);
    releases_end(releases, &s->choice, is_counted, false, is_counted ? times.ttft_own_ns : 0,
                 is_counted ? times.tpot_own_ns : 0);
    loop.n_ended[s->choice.arm] += is_counted;
    request_free(&s->request);
}

static void collect(void)
{
    struct request *request;
    while ((request = engine_next_ready(loop.port)) != NULL) {
        struct stream *s = request_user(request);
        if (take_outputs(request, &s->answer)) {
            if (!go_elsewhere(s))
                end(s);
        } else if (s->answer.n >= s->cancel_at && !s->is_cancelled) {
            s->is_cancelled = true;
            engine_cancel(loop.port, request, false);
        }
    }
}

static void take_call(void)
{
    pthread_mutex_lock(&op.lock);
    struct admin_call *call = op.call;
    op.call = NULL;
    pthread_mutex_unlock(&op.lock);
    if (call != NULL)
        ck_assert_int_eq(releases_ask(releases, call), OK);
}

/* As the daemon does: the stable lane is looked into whatever becomes of it meanwhile. */
static void follow(void)
{
    struct lane *stable = releases_stable(releases);
    if (stable != NULL)
        loop.followed = stable;
    ck_assert_uint_gt(lane_context(loop.followed), 0);
}

static void run(void)
{
    for (;;) {
        bool is_over = atomic_load(&op.is_over);
        uint32_t n_active = 0;
        take_call();
        releases_turn(releases);
        follow();
        collect();
        for (int i = 0; i < STREAMS; i++) {
            if (loop.streams[i].request == NULL && !is_over)
                start(&loop.streams[i]);
            n_active += loop.streams[i].request != NULL;
        }
        if (is_over && n_active == 0)
            return;
        doorbell_wait(&loop.bell, UINT64_MAX / 2);
    }
}

/* ---- the daemon's side ---- */

static enum status encode(void *user, struct slice text, bool is_prompt, uint32_t **ret_ids,
                          uint32_t *ret_n, struct why *ret_why)
{
    (void)user, (void)is_prompt, (void)ret_why;
    *ret_n = text.len < ENCODED_MAX ? (uint32_t)text.len : ENCODED_MAX;
    *ret_ids = mem_zalloc(*ret_n, sizeof **ret_ids);
    for (uint32_t i = 0; *ret_ids != NULL && i < *ret_n; i++)
        (*ret_ids)[i] = (uint8_t)text.bytes[i];
    return *ret_ids != NULL ? OK : STATUS_NO_MEMORY;
}

static void wake(void *user)
{
    (void)user;
    doorbell_ring(&loop.bell);
}

static void on_event(void *user, bool is_bad, const char *what, const char *text)
{
    (void)user;
    if (is_bad)
        printf("%s: %s\n", what, text);
}

static void open_all(const char *state, const char *model)
{
    struct why why = {0};
    const struct releases_options options = {
        .state_dir = state,
        .model = model,
        .host = {.encode = encode, .on_wake = wake, .on_event = on_event}};
    enum status s = releases_open(&options, &releases, &why);
    ck_assert_msg(s == OK, "%s", why.text);
    const struct engine_options e = {.n_threads = 1,
                                     .running_max = RUNNING,
                                     .queue_max = 2 * STREAMS,
                                     .queue_tokens_max = 1 << 20,
                                     .prefill_chunk = CHUNK,
                                     .on_lane_change = releases_lane_changed,
                                     .user = releases};
    s = engine_new(&e, &engine, &why);
    ck_assert_msg(s == OK, "%s", why.text);
    const struct releases_terms terms = {.engine = engine,
                                         .running_max = RUNNING,
                                         .prefill_chunk = CHUNK,
                                         .n_threads = 1,
                                         .cache_bytes = POOL,
                                         .cache_type = "f16",
                                         .name = names[0]};
    s = releases_start(releases, &terms, &why);
    ck_assert_msg(s == OK, "%s", why.text);
    s = engine_port_new(engine, wake, NULL, &loop.port, &why);
    ck_assert_msg(s == OK, "%s", why.text);
}

/* Charges of requests that a canary would not have stand beside those that ended. */
static void check_counters(void)
{
    struct releases_figures *f = mem_alloc(sizeof *f);
    ck_assert_ptr_nonnull(f);
    releases_figures(releases, f);
    ck_assert_uint_eq(f->arm_requests[ARM_STABLE], loop.n_ended[ARM_STABLE]);
    ck_assert_uint_eq(f->arm_requests[ARM_CONTROL], loop.n_ended[ARM_CONTROL]);
    ck_assert_uint_eq(f->arm_errors[ARM_STABLE] + f->arm_errors[ARM_CONTROL], 0);
    ck_assert_uint_eq(f->arm_requests[ARM_CANARY],
                      loop.n_ended[ARM_CANARY] + f->arm_errors[ARM_CANARY]);
    ck_assert_uint_le(f->arm_errors[ARM_CANARY], loop.n_moved_canary);
    ck_assert_uint_eq(engine_port_active(loop.port), 0);
    check_sum();
    mem_free(f);
}

START_TEST(generations_change_while_streams_run)
{
    static char state[TEMP_PATH_ROOM];
    char model[TEMP_PATH_ROOM + 32];
    struct release_choice choice;
    struct why why = {0};
    pthread_t thread;
    temp_dir_make(state);
    temp_dir_make(op.files);
    for (int i = 0; i < MODELS; i++)
        make_model(op.files, i);
    ck_assert_mem_ne(alone[0], alone[1], sizeof alone[0]);
    loop.random = test_seed();
    ck_assert_int_eq(doorbell_init(&loop.bell), OK);
    op.bell = &loop.bell;
    pthread_mutex_init(&op.lock, NULL);
    pthread_cond_init(&op.answered, NULL);
    snprintf(model, sizeof model, "%s/%s.gguf", op.files, names[0]);
    open_all(_i == 0 ? state : NULL, model);
    const struct arm_session session = {.connection = {"c", 1}};
    ck_assert_int_eq(releases_choose(releases, &session, (struct slice){0},
                                     (struct evaluation_cell){1, 1, 1}, &choice, &why), OK);
    snprintf(op.ids[0], sizeof op.ids[0], "%s", choice.id);
    releases_end(releases, &choice, false, false, 0, 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, operate, NULL), 0);
    run();
    pthread_join(thread, NULL);
    printf("%u whole, %u cancelled, %u elsewhere, %u hits in %u namespaces; stable %" PRIu64
           ", control %" PRIu64 ", canary %" PRIu64 "\n",
           loop.n_whole, loop.n_cancelled, loop.n_moved, loop.n_hits, loop.n_spaces,
           loop.n_ended[ARM_STABLE], loop.n_ended[ARM_CONTROL], loop.n_ended[ARM_CANARY]);
    check_counters();
    ck_assert(loop.n_cancelled > 0 && loop.n_hits > 0);
    engine_port_free(&loop.port);
    releases_stop(releases);
    engine_free(&engine);
    releases_free(&releases);
    doorbell_release(&loop.bell);
    temp_dir_remove(state);
    temp_dir_remove(op.files);
}
END_TEST

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("seed %" PRIu64 "\n", test_seed());
    Suite *suite = suite_create("releases_crowd");
    TCase *tcase = tcase_create("releases_crowd");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, generations_change_while_streams_run, 0, 2); /* on a disk, and in memory */
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
