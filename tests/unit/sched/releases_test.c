/* releases_test.c: the release side over a real engine and small models: founded, asked, published to, opened again. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/releases.h"

#include <sched.h>

#include "config/mem.h"
#include "sched/release/change.h"
#include "sched/available_memory.h"
#include "sched/engine.h"
#include "tests/support/small_model.h"
#include "tests/support/suite_run.h"
#include "tests/support/temp_dir.h"

static char dir[TEMP_PATH_ROOM], files[TEMP_PATH_ROOM];
static struct why why;
static struct engine *engine;
static struct releases *releases;

/* A model's file: seeds differ in every weight. */
static void write_model(const char *name, uint64_t seed, size_t keep)
{
    struct small_model model = small_model_default();
    size_t len;
    model.seed = seed;
    char *bytes = small_model_bytes(&model, &len);
    temp_dir_write(files, name, bytes, keep > 0 ? keep : len);
    mem_free(bytes);
}

static const char *path_of(const char *name)
{
    static char path[TEMP_PATH_ROOM + 32];
    snprintf(path, sizeof path, "%s/%s", files, name);
    return path;
}

static enum status encode(void *user, struct slice text, bool is_prompt, uint32_t **ret_ids,
                          uint32_t *ret_n, struct why *ret_why)
{
    (void)user, (void)text, (void)is_prompt, (void)ret_why;
    *ret_n = 1;
    *ret_ids = mem_zalloc(1, sizeof **ret_ids);
    return *ret_ids != NULL ? OK : STATUS_NO_MEMORY;
}

static uint64_t control_bytes;
static bool is_dry_run;

static enum status start(const char *state, const char *model)
{
    const struct releases_options options = {
        .state_dir = state, .model = model, .host = {.encode = encode}};
    enum status s = releases_open(&options, &releases, &why);
    if (s != OK)
        return s;
    const struct engine_options e = {.n_threads = 1,
                                     .running_max = 4,
                                     .queue_max = 8,
                                     .queue_tokens_max = 4096,
                                     .prefill_chunk = 64,
                                     .on_lane_change = releases_lane_changed,
                                     .user = releases};
    s = engine_new(&e, &engine, &why);
    const struct releases_terms terms = {.engine = engine,
                                         .running_max = 4,
                                         .prefill_chunk = 64,
                                         .n_threads = 1,
                                         .cache_bytes = 4 << 20,
                                         .control_bytes = control_bytes,
                                         .cache_type = "f16",
                                         .name = "first"};
    return s == OK ? releases_start(releases, &terms, &why) : s;
}

static void end(void)
{
    releases_stop(releases);
    engine_free(&engine);
    releases_free(&releases);
}

static void choose(struct release_choice *ret)
{
    const struct arm_session session = {.connection = {"c", 1}};
    const struct evaluation_cell cell = {.context = 64, .query_length = 16};
    enum status s =
        releases_choose(releases, &session, (struct slice){0}, cell, ret, &why);
    ck_assert_msg(s == OK, "%s", why.text);
}

static void on_done(void *user, struct admin_call *call)
{
    (void)call;
    *(bool *)user = true;
}

/* Asks and waits. */
static void ask_about(struct admin_call *call, enum admin_op op, const char *subject,
                      const char *body, const char *key)
{
    bool is_done = false;
    char text[TEMP_PATH_ROOM + 128];
    snprintf(text, sizeof text, "%s", body);
    *call = (struct admin_call){
        .op = op, .who = "tester", .epoch_expected = EPOCH_ANY, .on_done = on_done, .user = &is_done};
    call->is_dry_run = is_dry_run;
    snprintf(call->subject, sizeof call->subject, "%s", subject);
    snprintf(call->idempotency_key, sizeof call->idempotency_key, "%s", key);
    ck_assert_int_eq(record_read_loose(text, strlen(text), &call->body, &why), OK);
    ck_assert_int_eq(record_hash(&call->body, call->payload_hash), OK);
    ck_assert_int_eq(releases_ask(releases, call), OK);
    while (!is_done) {
        releases_turn(releases);
        sched_yield();
    }
    record_release(&call->body);
}

static void ask(struct admin_call *call, enum admin_op op, const char *body, const char *key)
{
    ask_about(call, op, "", body, key);
}

static void publish(struct admin_call *call, const char *name, const char *key)
{
    char body[TEMP_PATH_ROOM + 64];
    snprintf(body, sizeof body, "{\"path\": \"%s\"}", path_of(name));
    ask(call, ADMIN_GENERATION_PUBLISH, body, key);
}

static void begin_case(void)
{
    temp_dir_make(dir);
    temp_dir_make(files);
    write_model("one.gguf", 1, 0);
    write_model("two.gguf", 2, 0);
    write_model("cut.gguf", 2, 5000);
}

static void end_case(void)
{
    if (releases != NULL)
        end();
    temp_dir_remove(dir);
    temp_dir_remove(files);
}

START_TEST(it_is_founded_and_opened_again_without_its_model)
{
    struct release_choice first, again;
    enum status s = start(dir, path_of("one.gguf"));
    ck_assert_msg(s == OK, "%s", why.text);
    choose(&first);
    ck_assert_uint_eq(strlen(first.id), 16);
    ck_assert_int_eq(first.arm, ARM_STABLE);
    releases_end(releases, &first, true, false, 1000, 1000);
    end();
    s = start(dir, NULL);
    ck_assert_msg(s == OK, "%s", why.text);
    choose(&again);
    ck_assert_str_eq(again.id, first.id);
    releases_end(releases, &again, false, false, 0, 0);
}
END_TEST

START_TEST(another_model_is_not_the_stable_one)
{
    ck_assert_int_eq(start(dir, path_of("one.gguf")), OK);
    end();
    ck_assert_int_eq(start(dir, path_of("two.gguf")), STATUS_RECEIPTS_DISAGREE);
    ck_assert_ptr_nonnull(strstr(why.text, "start without a model argument"));
    ck_assert_ptr_nonnull(strstr(why.text, "the registry says"));
    end();
    ck_assert_int_eq(start(dir, path_of("one.gguf")), OK);
}
END_TEST

START_TEST(an_empty_folder_needs_a_model)
{
    ck_assert_int_eq(start(dir, NULL), STATUS_BAD_OPTION);
    ck_assert_ptr_nonnull(strstr(why.text, "is empty"));
}
END_TEST

START_TEST(a_candidate_is_loaded_beside_the_stable_one)
{
    struct admin_call call;
    struct release_choice choice;
    ck_assert_int_eq(start(_i == 0 ? dir : NULL, path_of("one.gguf")), OK);
    publish(&call, "two.gguf", "a");
    ck_assert_msg(call.status == OK, "%s", call.why.text);
    ck_assert_int_eq(call.result, ADMIN_RESULT_CREATED);
    ck_assert_ptr_nonnull(strstr(call.text, "\"state\":\"ready\""));
    mem_free(call.text);
    publish(&call, "two.gguf", "a"); /* the same question again */
    ck_assert_int_eq(call.status, OK);
    ck_assert(call.is_repeat);
    mem_free(call.text);
    publish(&call, "two.gguf", "b"); /* the same content */
    ck_assert_int_eq(call.status, OK);
    ck_assert_int_eq(call.result, ADMIN_RESULT_OK);
    mem_free(call.text);
    publish(&call, "one.gguf", "a"); /* the key of another question */
    ck_assert_int_eq(call.status, STATUS_KEY_REUSED);
    choose(&choice); /* nobody goes to it */
    ck_assert_int_eq(choice.arm, ARM_STABLE);
    releases_end(releases, &choice, true, false, 0, 0);
}
END_TEST

START_TEST(what_does_not_fit_is_refused_with_the_figures)
{
    struct admin_call call;
    struct release_choice choice;
    ck_assert_int_eq(start(dir, path_of("one.gguf")), OK);
    available_memory_pretend(1 << 20);
    for (int i = 0; i < 2; i++) {
        is_dry_run = i == 0;
        publish(&call, "two.gguf", i == 0 ? "a" : "b");
        ck_assert_int_eq(call.status, STATUS_NO_MEMORY);
        ck_assert_ptr_nonnull(strstr(call.why.text, "1.0 MiB are available"));
        ck_assert_ptr_nonnull(strstr(call.text, "{\"available_bytes\":1048576,"
                                                "\"cache_bytes\":4194304,\"control_bytes\":"));
        mem_free(call.text);
    }
    choose(&choice);
    releases_end(releases, &choice, true, false, 0, 0);
    available_memory_pretend(UINT64_MAX);
    publish(&call, "two.gguf", "c");
    ck_assert_msg(call.status == OK, "%s", call.why.text);
    mem_free(call.text);
}
END_TEST

static int64_t number_of(const char *json, const char *key)
{
    char member[64];
    snprintf(member, sizeof member, "\"%s\":", key);
    const char *at = strstr(json, member);
    ck_assert_msg(at != NULL, "no %s in %s", key, json);
    return strtoll(at + strlen(member), NULL, 10);
}

/* The control lane of the evaluation, once it is there. */
static uint64_t control_cache_bytes(void)
{
    static struct releases_figures figures;
    uint64_t bytes = 0;
    releases_figures(releases, &figures);
    for (uint32_t i = 0; i < figures.n_generations; i++)
        bytes += figures.generations[i].is_control ? figures.generations[i].cache_bytes : 0;
    return bytes;
}

static const struct {
    const char *type; /* the candidate's K/V */
    uint64_t control_bytes;
    int64_t candidate_per_mille; /* of its own pool */
    uint64_t control_most;
} quotas[] = {
    {"f16", 0, 1000, 4 << 20},       /* equal as they are */
    {"f16", 1 << 20, 250, 1 << 20},  /* the candidate is held to control's */
    {"f16", 16 << 20, 1000, 4 << 20}, /* control is held to the candidate's */
    {"f32", 0, 1000, 2 << 20},       /* pages of twice the bytes: half as many */
};

START_TEST(candidate_and_control_hold_equally_many_pages)
{
    struct admin_call call;
    char body[TEMP_PATH_ROOM + 128];
    control_bytes = quotas[_i].control_bytes;
    ck_assert_int_eq(start(NULL, path_of("one.gguf")), OK);
    snprintf(body, sizeof body, "{\"path\": \"%s\", \"name\": \"x\", \"cache_type\": \"%s\"}",
             path_of("two.gguf"), quotas[_i].type);
    ask(&call, ADMIN_GENERATION_PUBLISH, body, "a");
    ck_assert_msg(call.status == OK, "%s", call.why.text);
    int64_t pool = number_of(call.text, "pool_tokens"), quota = number_of(call.text, "quota_tokens");
    mem_free(call.text);
    ck_assert_int_le(quota, pool * quotas[_i].candidate_per_mille / 1000);
    ck_assert_int_ge(quota + 64, pool * quotas[_i].candidate_per_mille / 1000);
    ask_about(&call, ADMIN_GENERATION_EVALUATE, "x", "{}", "b");
    ck_assert_msg(call.status == OK, "%s", call.why.text);
    mem_free(call.text);
    uint64_t control = control_cache_bytes();
    ck_assert_uint_le(control, quotas[_i].control_most);
    ck_assert_uint_ge(control, quotas[_i].control_most * 9 / 10);
}
END_TEST

START_TEST(what_is_refused_changes_nothing)
{
    struct admin_call call;
    ck_assert_int_eq(start(dir, path_of("one.gguf")), OK);
    publish(&call, "cut.gguf", "a");
    ck_assert_int_eq(call.status, STATUS_BAD_REQUEST);
    ck_assert_ptr_nonnull(strstr(call.why.text, "the whole file has 5000"));
    publish(&call, "none.gguf", "b");
    ck_assert_int_eq(call.status, STATUS_BAD_REQUEST);
    ask(&call, ADMIN_ROLLBACK, "{\"to\": \"previous\"}", "c");
    ck_assert_int_eq(call.status, STATUS_ILLEGAL_MOVE);
    ask(&call, ADMIN_FREEZE, "{\"frozen\": true}", "d");
    ck_assert_int_eq(call.status, OK);
    mem_free(call.text);
    publish(&call, "two.gguf", "e");
    ck_assert_int_eq(call.status, STATUS_FROZEN);
    ask(&call, ADMIN_FREEZE, "{\"frozen\": false}", "f");
    ck_assert_int_eq(call.status, OK);
    mem_free(call.text);
    ask(&call, ADMIN_GENERATION_LIST, "{}", "");
    ck_assert_int_eq(call.status, OK);
    ck_assert_ptr_null(strstr(call.text, "\"state\":\"ready\""));
    mem_free(call.text);
}
END_TEST

/* Text of a member whose value is one; the first of them. */
static void text_of(const char *json, const char *key, char *ret_text, size_t room)
{
    char member[64];
    snprintf(member, sizeof member, "\"%s\":\"", key);
    const char *at = strstr(json, member);
    ck_assert_msg(at != NULL, "no %s in %s", key, json);
    at += strlen(member);
    snprintf(ret_text, room, "%.*s", (int)strcspn(at, "\""), at);
}

/* Plan and manifest, word for word. */
START_TEST(receipts_say_what_computes)
{
    static const char *const shared[] = {"backend_revision", "q_dtype", "accumulator_dtype"};
    struct admin_call plan, manifest;
    char body[TEMP_PATH_ROOM + 128];
    ck_assert_int_eq(start(NULL, path_of("one.gguf")), OK);
    snprintf(body, sizeof body, "{\"path\": \"%s\", \"name\": \"two\", \"cache_type\": \"int8\"}",
             path_of("two.gguf"));
    ask(&plan, ADMIN_GENERATION_PUBLISH, body, "p");
    ck_assert_msg(plan.status == OK, "%s", plan.why.text);
    mem_free(plan.text);
    ask_about(&plan, ADMIN_GENERATION_READ, "two", "{}", "");
    ck_assert_int_eq(plan.status, OK);
    ck_assert_int_gt(number_of(plan.text, "workspace_bytes"), 0);
    ask_about(&manifest, ADMIN_GENERATION_EVALUATE, "two", "{}", "e");
    ck_assert_msg(manifest.status == OK, "%s", manifest.why.text);
    mem_free(manifest.text);
    ask_about(&manifest, ADMIN_EVALUATION_READ, "two", "{}", "");
    ck_assert_int_eq(manifest.status, OK);
    const char *candidate = strstr(manifest.text, "\"candidate\":{");
    ck_assert_ptr_nonnull(candidate);
    for (size_t i = 0; i < ARRAY_LEN(shared); i++) {
        char left[96], right[96];
        text_of(plan.text, shared[i], left, sizeof left);
        text_of(candidate, shared[i], right, sizeof right);
        ck_assert_str_eq(left, right);
    }
    char revision[96];
    text_of(candidate, "backend_revision", revision, sizeof revision);
    ck_assert_uint_eq(strlen(revision), SHA256_HEX - 1);
    mem_free(plan.text);
    mem_free(manifest.text);
}
END_TEST

#define WIDE                                                                                       \
    "{\"tpot_p99\":{\"eps_ppm\":1000000000},\"ttft_p99\":{\"eps_ppm\":1000000000},"                    \
    "\"goodput\":{\"eps_ppm\":900000,\"slo_tpot_ms\":60000,\"slo_ttft_ms\":60000},"                \
    "\"error_rate\":{\"margin_ppm\":500000},\"numerical\":{\"samples_min\":1},"                    \
    "\"quality\":{\"eps_ppm\":1000000,\"slice_tokens_min\":1},\"traffic\":{\"eps_ppm\":1000000}}"
#define MATRIX "{\"contexts\":[32],\"active_requests\":[1],\"query_lengths\":[1]}"
#define START                                                                                      \
    "{\"candidate\":\"two\",\"plan\":{\"steps\":[{\"weight_bp\":4500,\"min_requests\":100,"       \
    "\"max_seconds\":600}],\"cap_bp\":4500,\"gates\":" WIDE "}}"

/* Asks about it until the answer has the words. */
static void await_words(enum admin_op op, const char *subject, const char *words)
{
    for (bool is_there = false; !is_there; sched_yield()) {
        struct admin_call call;
        ask_about(&call, op, subject, "{}", "");
        ck_assert_msg(call.status == OK, "%s", call.why.text);
        is_there = strstr(call.text, words) != NULL;
        mem_free(call.text);
    }
}

static void publish_two(void)
{
    struct admin_call call;
    char body[TEMP_PATH_ROOM + 64];
    snprintf(body, sizeof body, "{\"path\": \"%s\", \"name\": \"two\"}", path_of("two.gguf"));
    ask(&call, ADMIN_GENERATION_PUBLISH, body, "p");
    ck_assert_msg(call.status == OK, "%s", call.why.text);
    mem_free(call.text);
}

/* Beside the candidate's own pool of 4 MiB. */
START_TEST(a_candidate_needs_room_for_its_control_arm)
{
    struct admin_call call;
    control_bytes = 64 << 20;
    ck_assert_int_eq(start(NULL, path_of("one.gguf")), OK);
    available_memory_pretend(66 << 20);
    publish(&call, "two.gguf", "a");
    ck_assert_int_eq(call.status, STATUS_NO_MEMORY);
    ck_assert_ptr_nonnull(strstr(
        call.why.text, "page pool 4.0 MiB and that of a control arm 64.0 MiB: 66.0 MiB are available"));
    mem_free(call.text);
}
END_TEST

START_TEST(a_rollout_needs_room_for_its_control_arm)
{
    struct admin_call call;
    control_bytes = 4 << 20;
    ck_assert_int_eq(start(NULL, path_of("one.gguf")), OK);
    publish_two();
    available_memory_pretend(3 << 20);
    ask(&call, ADMIN_ROLLOUT_START, START, "b");
    ck_assert_int_eq(call.status, STATUS_NO_MEMORY);
    ck_assert_msg(strstr(call.why.text, "the control arm's page pool takes 4.0 MiB") != NULL &&
                      strstr(call.why.text, "3.0 MiB are available") != NULL,
                  "%s", call.why.text);
    mem_free(call.text);
    available_memory_pretend(UINT64_MAX);
    ask(&call, ADMIN_ROLLOUT_START, START, "c");
    ck_assert_int_eq(call.status, STATUS_ILLEGAL_MOVE); /* it is not evaluated */
    mem_free(call.text);
}
END_TEST

START_TEST(a_rollout_ends_if_its_control_arm_cannot_be_loaded)
{
    struct admin_call call;
    control_bytes = 4 << 20;
    ck_assert_int_eq(start(NULL, path_of("one.gguf")), OK);
    publish_two();
    ask_about(&call, ADMIN_GENERATION_EVALUATE, "two",
              "{\"matrix\":" MATRIX ",\"thresholds\":" WIDE ",\"warmup_runs\":0}", "b");
    ck_assert_msg(call.status == OK, "%s", call.why.text);
    mem_free(call.text);
    await_words(ADMIN_GENERATION_READ, "two", "\"state\":\"warmed\"");
    ask(&call, ADMIN_ROLLOUT_START, START, "c");
    ck_assert_msg(call.status == OK, "%s", call.why.text);
    mem_free(call.text);
    available_memory_pretend(1 << 20); /* gone since the start */
    ask_about(&call, ADMIN_ROLLOUT_APPROVE, "active", "{}", "d");
    ck_assert_msg(call.status == OK, "%s", call.why.text);
    mem_free(call.text);
    await_words(ADMIN_ROLLOUT_LIST, "", "the control arm cannot be loaded: beside what is loaded");
    await_words(ADMIN_ROLLOUT_LIST, "", "\"rolled_back\"");
}
END_TEST

static int count_objects(void)
{
    char path[TEMP_PATH_ROOM + 16];
    snprintf(path, sizeof path, "%s/objects", dir);
    return temp_dir_count(path);
}

static void publish_as(struct admin_call *call, const char *name, const char *more, const char *key)
{
    char body[TEMP_PATH_ROOM + 128];
    snprintf(body, sizeof body, "{\"path\": \"%s\", %s}", path_of(name), more);
    ask(call, ADMIN_GENERATION_PUBLISH, body, key);
}

static void expect(struct admin_call *call, enum status status, const char *words)
{
    const char *text = call->status == OK ? call->text : call->why.text;
    ck_assert_msg(call->status == status, "%s: %s", status_text(call->status), call->why.text);
    ck_assert_msg(strstr(text, words) != NULL, "'%s' lacks '%s'", text, words);
    mem_free(call->text);
    call->text = NULL;
}

START_TEST(what_is_refused_leaves_no_copy)
{
    struct admin_call call;
    control_bytes = 1; /* no control arm beside stable: found out after the load */
    ck_assert_int_eq(start(dir, path_of("one.gguf")), OK);
    ck_assert_int_eq(count_objects(), 1);
    publish_as(&call, "two.gguf", "\"name\": \"first\"", "a");
    expect(&call, STATUS_NAME_TAKEN, "'first' is the name of generation");
    publish_as(&call, "two.gguf", "\"name\": \"a b\"", "b");
    expect(&call, STATUS_BAD_REQUEST, "no spaces");
    publish_as(&call, "two.gguf", "\"cache_type\": \"f8\"", "c");
    expect(&call, STATUS_BAD_REQUEST, "f8");
    ask(&call, ADMIN_GENERATION_LIST, "{}", "");
    ck_assert_ptr_null(strstr(call.text, "rejected")); /* not even a row */
    mem_free(call.text);
    publish_as(&call, "two.gguf", "\"name\": \"two\"", "d");
    expect(&call, STATUS_BAD_OPTION, "set release.control_bytes");
    ask_about(&call, ADMIN_GENERATION_READ, "two", "{}", "");
    expect(&call, OK, "\"object\":null");
    ck_assert_int_eq(count_objects(), 1);
}
END_TEST

START_TEST(what_does_not_fit_is_refused_before_the_copy)
{
    struct admin_call call;
    ck_assert_int_eq(start(dir, path_of("one.gguf")), OK);
    available_memory_pretend(4 << 20);
    ck_assert_int_eq(count_objects(), 1);
    publish(&call, "two.gguf", "a");
    expect(&call, STATUS_NO_MEMORY, "MiB are available");
    ck_assert_int_eq(count_objects(), 1);
}
END_TEST

START_TEST(what_is_forgotten_gives_up_its_file)
{
    struct admin_call call;
    ck_assert_int_eq(start(dir, path_of("one.gguf")), OK);
    publish_as(&call, "two.gguf", "\"name\": \"narrow\"", "a");
    expect(&call, OK, "narrow");
    publish_as(&call, "two.gguf", "\"name\": \"wide\", \"cache_type\": \"f32\"", "b");
    expect(&call, OK, "wide");
    ck_assert_int_eq(count_objects(), 2);
    ask_about(&call, ADMIN_GENERATION_FORGET, "narrow", "{}", "c");
    expect(&call, OK, "\"object\":null");
    ck_assert_int_eq(count_objects(), 2); /* the other one's, too */
    ask_about(&call, ADMIN_GENERATION_FORGET, "wide", "{}", "d");
    expect(&call, OK, "forgotten");
    ck_assert_int_eq(count_objects(), 1);
    ask_about(&call, ADMIN_GENERATION_FORGET, "wide", "{}", "e");
    expect(&call, STATUS_ILLEGAL_MOVE, "still have a file");
    publish_as(&call, "two.gguf", "\"name\": \"wide\", \"cache_type\": \"f32\"", "f");
    expect(&call, OK, "\"state\":\"ready\"");
    ck_assert_int_eq(count_objects(), 2);
}
END_TEST

/* A crash after the copy and before the row, or after a row's end and before the removal. */
START_TEST(objects_without_a_row_go_at_the_start)
{
    struct admin_call call;
    char objects[TEMP_PATH_ROOM + 16];
    ck_assert_int_eq(start(dir, path_of("one.gguf")), OK);
    publish(&call, "two.gguf", "a");
    expect(&call, OK, "ready");
    end();
    snprintf(objects, sizeof objects, "%s/objects", dir);
    temp_dir_write(objects, "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", "x", 1);
    temp_dir_write(objects, "README", "not ours", 8);
    ck_assert_int_eq(count_objects(), 4);
    ck_assert_int_eq(start(dir, NULL), OK);
    ck_assert_int_eq(count_objects(), 3);
}
END_TEST

static void expect_pin(enum status status, const char *words)
{
    ck_assert_int_eq(releases_check_pin(releases, (struct slice){"two", 3}, &why), status);
    ck_assert_msg(strstr(why.text, words) != NULL, "'%s' lacks '%s'", why.text, words);
}

/* The loader lets go of what was forgotten in its own time. */
START_TEST(who_is_told_of_a_change_may_name_a_generation_at_once)
{
    enum { ROUNDS = 10 };
    struct admin_call call;
    char key[16];
    ck_assert_int_eq(start(dir, path_of("one.gguf")), OK);
    for (int i = 0; i < ROUNDS; i++) {
        snprintf(key, sizeof key, "p%d", i);
        publish_as(&call, "two.gguf", "\"name\": \"two\"", key);
        expect(&call, OK, "ready");
        expect_pin(STATUS_WRONG_STATE, "is ready");
        snprintf(key, sizeof key, "f%d", i);
        ask_about(&call, ADMIN_GENERATION_FORGET, "two", "{}", key);
        expect(&call, OK, "rejected");
        expect_pin(STATUS_MODEL_NOT_FOUND, "'two' is not served");
    }
}
END_TEST

START_TEST(a_page_has_one_size)
{
    struct admin_call call;
    ck_assert_int_eq(start(dir, path_of("one.gguf")), OK);
    publish_as(&call, "two.gguf", "\"page_tokens\": 32", "a");
    expect(&call, STATUS_BAD_REQUEST, "page_tokens is 32: pages have 64 tokens");
    ck_assert_str_eq(call.why.field, "page_tokens");
    publish_as(&call, "two.gguf", "\"page_tokens\": \"64\"", "b");
    expect(&call, STATUS_BAD_REQUEST, "page_tokens is \"64\"");
    publish_as(&call, "two.gguf", "\"page_tokens\": 64", "c");
    expect(&call, OK, "ready");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("releases");
    TCase *tcase = tcase_create("releases");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, begin_case, end_case);
    tcase_add_test(tcase, it_is_founded_and_opened_again_without_its_model);
    tcase_add_test(tcase, another_model_is_not_the_stable_one);
    tcase_add_test(tcase, an_empty_folder_needs_a_model);
    tcase_add_loop_test(tcase, a_candidate_is_loaded_beside_the_stable_one, 0, 2);
    tcase_add_loop_test(tcase, candidate_and_control_hold_equally_many_pages, 0, ARRAY_LEN(quotas));
    tcase_add_test(tcase, what_is_refused_changes_nothing);
    tcase_add_test(tcase, receipts_say_what_computes);
    tcase_add_test(tcase, a_candidate_needs_room_for_its_control_arm);
    tcase_add_test(tcase, a_rollout_needs_room_for_its_control_arm);
    tcase_add_test(tcase, a_rollout_ends_if_its_control_arm_cannot_be_loaded);
    tcase_add_test(tcase, what_is_refused_leaves_no_copy);
    tcase_add_test(tcase, what_does_not_fit_is_refused_before_the_copy);
    tcase_add_test(tcase, what_is_forgotten_gives_up_its_file);
    tcase_add_test(tcase, objects_without_a_row_go_at_the_start);
    tcase_add_test(tcase, who_is_told_of_a_change_may_name_a_generation_at_once);
    tcase_add_test(tcase, a_page_has_one_size);
    tcase_add_test(tcase, what_does_not_fit_is_refused_with_the_figures);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
