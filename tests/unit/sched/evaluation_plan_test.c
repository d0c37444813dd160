/* evaluation_plan_test.c: what is settled before a run: bodies, default matrices, tokens, the hash of the order. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/evaluate/evaluation_order.h"

#include "config/mem.h"
#include "tests/support/suite_run.h"

static struct evaluation_terms terms;
static struct evaluation_host host;
static struct evaluation_set *set;
static struct evaluation_room room = {.context = 1024, .running_max = 4, .prefill_chunk = 128};
static struct why why;

/* A byte, a token; 1 stands at the start of a text. */
static enum status encode(void *user, struct slice text, bool is_start, uint32_t **ret_ids,
                          uint32_t *ret_n, struct why *ret_why)
{
    (void)user;
    uint32_t n = 0;
    *ret_ids = mem_alloc((text.len + 1) * sizeof **ret_ids);
    if (*ret_ids == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory");
    if (is_start)
        (*ret_ids)[n++] = 1;
    for (size_t i = 0; i < text.len; i++)
        (*ret_ids)[n++] = (unsigned char)text.bytes[i];
    *ret_n = n;
    return OK;
}

static void fill_side(struct evaluation_side *side, uint8_t first)
{
    uint8_t *hashes[] = {side->checkpoint, side->architecture, side->head_map, side->identity,
                         side->kernel_plan};
    for (size_t i = 0; i < ARRAY_LEN(hashes); i++)
        memset(hashes[i], (int)(first + i), SHA256_BYTES);
    side->backend_revision = "0.1.0";
    side->q_dtype = side->accumulator_dtype = side->kv_dtype = "f32";
    side->page_tokens = 64;
    side->tensor_parallel_degree = 1;
}

static void setup(void)
{
    static const char lines[] =
        "{\"slice\": \"a\", \"prompt\": \"one\", \"continuation\": \" two\"}\n"
        "{\"slice\": \"b\", \"prompt\": \"three\", \"continuation\": \" four\"}\n";
    struct slice text = {lines, sizeof lines - 1};
    ck_assert_msg(evaluation_set_parse(text, &set, &why) == OK, "%s", why.text);
    evaluation_host_read("scalar", 2, &host);
    terms = (struct evaluation_terms){.set = set, .host = &host, .vocab = 256, .encode = encode};
    fill_side(&terms.baseline, 10);
    fill_side(&terms.candidate, 20);
    memset(terms.tokenizer, 3, SHA256_BYTES);
    evaluation_terms_defaults(&room, &terms);
}

static void teardown(void)
{
    evaluation_set_free(&set);
}

static struct evaluation_plan *plan_of(void)
{
    struct evaluation_plan *plan = NULL;
    ck_assert_msg(evaluation_plan_new(&terms, &plan, &why) == OK, "%s", why.text);
    return plan;
}

static enum status read_body(const char *text)
{
    char *path = NULL;
    enum status s = evaluation_terms_read(&terms, (struct slice){text, strlen(text)}, &path, &why);
    mem_free(path);
    return s;
}

START_TEST(a_default_matrix_fits_its_room)
{
    static const struct evaluation_room rooms[] = {{1024, 4, 128}, {8192, 64, 512},
                                                   {64, 1, 512},   {131072, 256, 512},
                                                   {128, 64, 64},  {7, 3, 5}};
    for (size_t i = 0; i < ARRAY_LEN(rooms); i++) {
        struct evaluation_matrix matrix;
        evaluation_matrix_default(&rooms[i], &matrix);
        ck_assert_msg(evaluation_matrix_check(&matrix, &why) == OK, "room %zu: %s", i, why.text);
        for (uint32_t c = 0; c < evaluation_matrix_count(&matrix); c++) {
            struct evaluation_cell cell = evaluation_matrix_cell(&matrix, c);
            ck_assert_uint_le(cell.context, rooms[i].context);
            ck_assert_uint_le(cell.active_requests, rooms[i].running_max);
            ck_assert_msg(cell_shape_of(cell).fits, "room %zu, cell %u does not fit", i, c);
        }
        ck_assert_uint_eq(matrix.contexts.values[matrix.contexts.n - 1], rooms[i].context);
    }
}
END_TEST

/* What passes it whole serves all that fits: any prompt with two tokens of answer, as many at once as ever run. */
START_TEST(a_default_matrix_covers_its_room)
{
    static const struct evaluation_room rooms[] = {
        {1024, 4, 128}, {8192, 64, 512}, {600, 8, 512}, {512, 2, 512}, {64, 1, 512}};
    static struct evaluation_cells cells;
    memset(cells.has_passed, true, sizeof cells.has_passed);
    for (size_t i = 0; i < ARRAY_LEN(rooms); i++) {
        const struct evaluation_room *most = &rooms[i];
        evaluation_matrix_default(most, &cells.matrix);
        for (uint32_t prompt = 1; prompt + 2 <= most->context; prompt++) {
            uint32_t query = prompt < most->prefill_chunk ? prompt : most->prefill_chunk;
            const struct evaluation_cell least = {prompt + 2, most->running_max, query};
            const struct evaluation_cell whole = {most->context, most->running_max, query};
            ck_assert_msg(evaluation_cells_admit(&cells, least, &why) == OK, "%s", why.text);
            ck_assert_msg(evaluation_cells_admit(&cells, whole, &why) == OK, "%s", why.text);
        }
    }
}
END_TEST

START_TEST(what_the_room_does_not_hold_is_named_with_the_bound)
{
    static const struct {
        struct evaluation_matrix matrix;
        const char *said;
    } wrong[] = {
        {{{2, {256, 1025}}, {1, {4}}, {1, {128}}}, "matrix.contexts[1] is 1025: at most 1024"},
        {{{1, {1024}}, {3, {4, 5, 6}}, {1, {128}}}, "matrix.active_requests[1] is 5: at most 4"},
        {{{1, {1024}}, {1, {4}}, {1, {129}}}, "matrix.query_lengths[0] is 129: at most 128"},
    };
    const struct evaluation_matrix right = {{1, {1024}}, {1, {4}}, {1, {128}}};
    ck_assert_int_eq(evaluation_matrix_fits(&right, &room, &why), OK);
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        ck_assert_int_eq(evaluation_matrix_fits(&wrong[i].matrix, &room, &why),
                         STATUS_BAD_REQUEST);
        ck_assert_msg(strstr(why.text, wrong[i].said) != NULL, "%s", why.text);
        ck_assert_uint_eq(why.n_parts, 2);
    }
}
END_TEST

START_TEST(a_shape_ends_at_its_context)
{
    for (uint32_t context = 3; context < 2000; context += 61)
        for (uint32_t active = 1; active < 70; active += 17)
            for (uint32_t query = 1; query < 600; query += 37) {
                struct cell_shape shape =
                    cell_shape_of((struct evaluation_cell){context, active, query});
                ck_assert_int_eq(shape.fits, query + 2 <= context);
                if (!shape.fits)
                    continue;
                if (shape.n_side > 0)
                    ck_assert_uint_eq(shape.side_prefix + 1 + shape.side_answer, context);
                if (shape.n_probes > 0)
                    ck_assert_uint_eq(shape.probe_prefix + query + shape.probe_answer, context);
                ck_assert_uint_eq(shape.n_side + (shape.n_probes > 0), active);
                cell_shape_stretch(&shape, (struct evaluation_cell){context, active, query});
                ck_assert_uint_eq(shape.side_prefix + 1 + shape.side_answer, context);
            }
}
END_TEST

START_TEST(a_body_changes_what_it_names)
{
    ck_assert_msg(read_body("{\"matrix\":{\"contexts\":[256],\"active_requests\":[1,2],"
                            "\"query_lengths\":[1]},\"repetitions\":2,\"repetitions_max\":3,"
                            "\"warmup_runs\":0,\"thresholds\":{\"quality\":{\"eps_ppm\":7}}}") ==
                      OK,
                  "%s", why.text);
    ck_assert_uint_eq(terms.matrix.contexts.values[0], 256);
    ck_assert_uint_eq(terms.repetitions, 2);
    ck_assert_uint_eq(terms.repetitions_max, 3);
    ck_assert_uint_eq(terms.warmup_runs, 0);
    ck_assert_uint_eq(terms.thresholds.quality_eps_ppm, 7);
    char *path = NULL;
    static const char set_body[] = "{\"set\":\"/tmp/x.jsonl\"}";
    ck_assert_int_eq(
        evaluation_terms_read(&terms, (struct slice){set_body, sizeof set_body - 1}, &path, &why),
        OK);
    ck_assert_str_eq(path, "/tmp/x.jsonl");
    mem_free(path);
}
END_TEST

static const struct {
    const char *body, *field;
} bad_bodies[] = {
    {"[]", "the body"},
    {"{\"matrices\":1}", "matrices"},
    {"{\"matrix\":{\"contexts\":[2,1],\"active_requests\":[1],\"query_lengths\":[1]}}",
     "matrix.contexts[1] is 1"},
    {"{\"repetitions\":0}", "repetitions"},
    {"{\"repetitions\":4,\"repetitions_max\":3}", "repetitions_max"},
    {"{\"warmup_runs\":9}", "warmup_runs"},
    {"{\"set\":\"\"}", "set"},
    {"{\"thresholds\":{\"quality\":{\"eps\":1}}}", "thresholds.quality.eps"},
    {"{\"thresholds\":{\"speed\":{}}}", "thresholds.speed"},
};

START_TEST(a_bad_body_is_refused_by_name)
{
    struct evaluation_terms before = terms;
    ck_assert_int_eq(read_body(bad_bodies[_i].body), STATUS_BAD_REQUEST);
    ck_assert_msg(strstr(why.text, bad_bodies[_i].field) != NULL, "%s: %s", bad_bodies[_i].body,
                  why.text);
    ck_assert_mem_eq(&before, &terms, sizeof terms);
}
END_TEST

START_TEST(a_plan_holds_prompts_and_what_is_scored)
{
    struct evaluation_plan *plan = plan_of();
    ck_assert_uint_eq(plan->n_items, 2);
    ck_assert_uint_eq(plan->items[1].n_ids, 1 + 5 + 5);
    ck_assert_uint_eq(plan->items[1].n_scored, 5);
    ck_assert_uint_eq(plan->items[1].ids[0], 1);
    ck_assert_uint_eq(plan->items[1].ids[6], ' ');
    ck_assert_uint_eq(plan->items[1].slice, 1);
    ck_assert_uint_ge(plan->repetitions_max, 2);
    ck_assert_ptr_nonnull(strstr(evaluation_plan_manifest(plan), "\"request_order_sha256\":"));
    evaluation_plan_free(&plan);
}
END_TEST

START_TEST(another_order_is_another_manifest)
{
    uint8_t hash[SHA256_BYTES];
    struct evaluation_plan *plan = plan_of();
    memcpy(hash, evaluation_plan_hash(plan), SHA256_BYTES);
    evaluation_plan_free(&plan);
    plan = plan_of();
    ck_assert_mem_eq(hash, evaluation_plan_hash(plan), SHA256_BYTES);
    evaluation_plan_free(&plan);
    set->items[0].continuation = " twO";
    plan = plan_of();
    ck_assert_mem_ne(hash, evaluation_plan_hash(plan), SHA256_BYTES);
    evaluation_plan_free(&plan);
    set->items[0].continuation = " two";
    terms.matrix.query_lengths.values[terms.matrix.query_lengths.n - 1]--;
    plan = plan_of();
    ck_assert_mem_ne(hash, evaluation_plan_hash(plan), SHA256_BYTES);
    evaluation_plan_free(&plan);
}
END_TEST

START_TEST(requests_share_their_prefix_and_nothing_else)
{
    struct evaluation_plan *plan = plan_of();
    uint32_t a[300], b[300], c[300];
    evaluation_plan_tokens(plan, (struct cell_request){0, 1, 0}, 200, 100, a);
    evaluation_plan_tokens(plan, (struct cell_request){0, 1, 1}, 200, 100, b);
    evaluation_plan_tokens(plan, (struct cell_request){0, 1, 0}, 200, 100, c);
    ck_assert_mem_eq(a, b, 200 * sizeof *a);
    ck_assert_mem_ne(a + 200, b + 200, 100 * sizeof *a);
    ck_assert_mem_eq(a, c, sizeof a);
    for (size_t i = 0; i < ARRAY_LEN(a); i++)
        ck_assert_uint_lt(a[i], terms.vocab);
    evaluation_plan_free(&plan);
}
END_TEST

START_TEST(tokens_beyond_the_model_are_refused)
{
    struct evaluation_plan *plan = NULL;
    terms.vocab = 64;
    ck_assert_int_eq(evaluation_plan_new(&terms, &plan, &why), STATUS_BAD_REQUEST);
    ck_assert_ptr_null(plan);
    ck_assert_msg(strstr(why.text, "beyond") != NULL, "%s", why.text);
}
END_TEST

START_TEST(a_plan_without_memory_is_refused_whole)
{
    struct evaluation_plan *plan = NULL;
    uint32_t n_refused = 0;
    for (uint64_t n = 1;; n++) {
        mem_fail_nth(n);
        enum status s = evaluation_plan_new(&terms, &plan, &why);
        bool struck = mem_failure_struck();
        mem_fail_nth(0);
        if (s == OK && !struck)
            break;
        evaluation_plan_free(&plan);
        n_refused += s == STATUS_NO_MEMORY;
    }
    evaluation_plan_free(&plan);
    ck_assert_uint_ge(n_refused, 4);
}
END_TEST

START_TEST(the_shipped_set_is_part_of_the_program)
{
    struct evaluation_set *shipped = NULL, *file = NULL;
    ck_assert_msg(evaluation_set_shipped(&shipped, &why) == OK, "%s", why.text);
    ck_assert_msg(
        evaluation_set_read_file(TEST_SOURCE "/deploy/evaluation_small.jsonl", &file, &why) == OK,
        "%s", why.text);
    ck_assert_mem_eq(shipped->hash, file->hash, SHA256_BYTES);
    evaluation_set_free(&shipped);
    evaluation_set_free(&file);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("evaluation_plan");
    TCase *tc = tcase_create("evaluation_plan");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_default_matrix_fits_its_room);
    tcase_add_test(tc, a_default_matrix_covers_its_room);
    tcase_add_test(tc, what_the_room_does_not_hold_is_named_with_the_bound);
    tcase_add_test(tc, a_shape_ends_at_its_context);
    tcase_add_test(tc, a_body_changes_what_it_names);
    tcase_add_loop_test(tc, a_bad_body_is_refused_by_name, 0, (int)ARRAY_LEN(bad_bodies));
    tcase_add_test(tc, a_plan_holds_prompts_and_what_is_scored);
    tcase_add_test(tc, another_order_is_another_manifest);
    tcase_add_test(tc, requests_share_their_prefix_and_nothing_else);
    tcase_add_test(tc, tokens_beyond_the_model_are_refused);
    tcase_add_test(tc, a_plan_without_memory_is_refused_whole);
    tcase_add_test(tc, the_shipped_set_is_part_of_the_program);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
