/* evaluation_cells_test.c: the matrix, and that nothing is admitted beyond what passed. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/evaluate/evaluation_cells.h"

#include "config/mem.h"
#include "tests/support/suite_run.h"

static struct evaluation_cells cells;

static void setup(void)
{
    cells = (struct evaluation_cells){.matrix = {.contexts = {3, {512, 2048, 8192}},
                                                 .active_requests = {2, {1, 16}},
                                                 .query_lengths = {2, {1, 256}}}};
    memset(cells.has_passed, true, sizeof cells.has_passed);
}

static enum status admit(uint32_t context, uint32_t active, uint32_t query, struct why *ret_why)
{
    return evaluation_cells_admit(&cells, (struct evaluation_cell){context, active, query},
                                  ret_why);
}

START_TEST(cells_are_the_product)
{
    bool seen[8193][17][2] = {0};
    ck_assert_uint_eq(evaluation_matrix_count(&cells.matrix), 12);
    for (uint32_t i = 0; i < 12; i++) {
        struct evaluation_cell cell = evaluation_matrix_cell(&cells.matrix, i);
        bool *at = &seen[cell.context][cell.active_requests][cell.query_length > 1];
        ck_assert(!*at);
        *at = true;
    }
    ck_assert_uint_eq(evaluation_matrix_cell(&cells.matrix, 1).query_length, 256);
    ck_assert_uint_eq(evaluation_matrix_cell(&cells.matrix, 11).context, 8192);
}
END_TEST

START_TEST(inside_is_served_and_beyond_is_refused_by_name)
{
    struct why why = {0};
    ck_assert_int_eq(admit(1, 1, 1, &why), OK);
    ck_assert_int_eq(admit(8192, 16, 256, &why), OK);
    ck_assert_int_eq(admit(8193, 1, 1, &why), STATUS_CONTEXT_LENGTH);
    ck_assert_str_eq(why.text, "context is 8193: this generation was tested up to 8192");
    ck_assert_int_eq(admit(600, 17, 1, &why), STATUS_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(why.text, "active requests are 17"));
    ck_assert_int_eq(admit(600, 2, 257, &why), STATUS_BAD_REQUEST);
    ck_assert_str_eq(why.field, "query_length");
    ck_assert_str_eq(why.text,
                     "query length is 257: at a context of 600 this generation was tested up to 256");
}
END_TEST

/* The long context failed under load: alone it is still served, and shorter ones under load. */
START_TEST(a_failed_cell_is_not_covered_by_smaller_ones)
{
    struct why why = {0};
    for (uint32_t i = 0; i < 12; i++) {
        struct evaluation_cell cell = evaluation_matrix_cell(&cells.matrix, i);
        cells.has_passed[i] = !(cell.context == 8192 && cell.active_requests == 16);
    }
    ck_assert_int_eq(admit(8192, 1, 256, &why), OK);
    ck_assert_int_eq(admit(2048, 16, 256, &why), OK);
    ck_assert_int_eq(admit(2049, 2, 1, &why), STATUS_UNAVAILABLE);
    ck_assert_ptr_nonnull(
        strstr(why.text, "at a context of 2049 this generation was tested up to 1"));
}
END_TEST

START_TEST(without_a_passed_cell_nothing_is_admitted)
{
    struct why why = {0};
    memset(cells.has_passed, false, sizeof cells.has_passed);
    ck_assert_int_eq(admit(0, 0, 0, &why), STATUS_CONTEXT_LENGTH);
    ck_assert_uint_eq(evaluation_cells_most(&cells).context, 0);
}
END_TEST

/* A long query passed alone only: when others have ended it is served, so it may come again. */
START_TEST(what_may_be_served_later_is_told_apart)
{
    struct why why = {0};
    for (uint32_t i = 0; i < 12; i++) {
        struct evaluation_cell cell = evaluation_matrix_cell(&cells.matrix, i);
        cells.has_passed[i] = cell.active_requests == 1 || cell.query_length == 1;
    }
    ck_assert_int_eq(admit(600, 1, 256, &why), OK);
    ck_assert_int_eq(admit(600, 2, 256, &why), STATUS_UNAVAILABLE);
    ck_assert_str_eq(why.text, "query length is 256: at a context of 600 and 2 active requests this "
                               "generation was tested up to 1");
    ck_assert_int_eq(admit(600, 2, 257, &why), STATUS_BAD_REQUEST);
    ck_assert_int_eq(admit(9000, 17, 257, &why), STATUS_CONTEXT_LENGTH);
}
END_TEST

/* Against the definition, over all passes of a small matrix: what is inside, and what would be if it came alone. */
START_TEST(admission_is_the_definition)
{
    cells.matrix = (struct evaluation_matrix){{2, {1, 2}}, {2, {1, 2}}, {2, {1, 2}}};
    for (uint32_t passes = 0; passes < 256; passes++) {
        for (uint32_t i = 0; i < 8; i++)
            cells.has_passed[i] = (passes >> i & 1) != 0;
        for (uint32_t r = 0; r < 27; r++) {
            struct evaluation_cell request = {r % 3 + 1, r / 3 % 3 + 1, r / 9 + 1};
            bool is_inside = false, is_inside_alone = false;
            for (uint32_t i = 0; i < 8; i++) {
                struct evaluation_cell cell = evaluation_matrix_cell(&cells.matrix, i);
                is_inside |= cells.has_passed[i] && cell.context >= request.context &&
                             cell.active_requests >= request.active_requests &&
                             cell.query_length >= request.query_length;
                is_inside_alone |= cells.has_passed[i] && cell.context >= request.context &&
                                   cell.query_length >= request.query_length;
            }
            enum status s = evaluation_cells_admit(&cells, request, NULL);
            ck_assert((s == OK) == is_inside);
            ck_assert((s == OK || status_is_retryable(s)) == is_inside_alone);
        }
    }
}
END_TEST

static enum status read(const char *text, struct evaluation_matrix *ret_matrix, struct why *ret_why)
{
    struct document *document = NULL;
    enum status s = document_parse((struct slice){text, strlen(text)}, "it", &document, ret_why);
    ck_assert_int_eq(s, OK);
    s = evaluation_matrix_read(document_root(document), ret_matrix, ret_why);
    document_free(&document);
    return s;
}

START_TEST(a_matrix_is_written_and_read)
{
    struct canonical_json json;
    struct evaluation_matrix again;
    struct why why = {0};
    char *text;
    canonical_init(&json, 4096);
    evaluation_matrix_write(&cells.matrix, NULL, &json);
    ck_assert_int_eq(canonical_take(&json, &text, NULL), OK);
    ck_assert_str_eq(text, "{\"active_requests\":[1,16],\"contexts\":[512,2048,8192],"
                           "\"query_lengths\":[1,256]}");
    ck_assert_msg(read(text, &again, &why) == OK, "%s", why.text);
    ck_assert_mem_eq(&again, &cells.matrix, sizeof again);
    mem_free(text);
}
END_TEST

START_TEST(wrong_axes_are_refused_by_name)
{
    static const char *const wrong[][2] = {
        {"{\"active_requests\":[1],\"contexts\":[2,1],\"query_lengths\":[1]}",
         "matrix.contexts[1] is 1: values rise, from 3"},
        {"{\"active_requests\":[],\"contexts\":[1],\"query_lengths\":[1]}",
         "matrix.active_requests is []"},
        {"{\"active_requests\":[1],\"contexts\":[1]}", "matrix.query_lengths is missing"},
        {"{\"active_requests\":[0],\"contexts\":[1],\"query_lengths\":[1]}",
         "matrix.active_requests[0] is 0"},
        {"{\"active_requests\":[1],\"contexts\":[1],\"query_lengths\":[1],\"page_sizes\":[64]}",
         "matrix.page_sizes is unknown"},
        {"{\"active_requests\":[1,2,3,4,5,6,7,8,9],\"contexts\":[1,2,3,4,5,6,7,8],"
         "\"query_lengths\":[1,2,3,4,5,6,7,8]}",
         "576 cells"},
    };
    struct evaluation_matrix matrix;
    struct why why = {0};
    ck_assert_int_eq(read(wrong[_i][0], &matrix, &why), STATUS_BAD_REQUEST);
    ck_assert_msg(strstr(why.text, wrong[_i][1]) != NULL, "%s", why.text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("evaluation_cells");
    TCase *tc = tcase_create("evaluation_cells");
    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_test(tc, cells_are_the_product);
    tcase_add_test(tc, inside_is_served_and_beyond_is_refused_by_name);
    tcase_add_test(tc, a_failed_cell_is_not_covered_by_smaller_ones);
    tcase_add_test(tc, what_may_be_served_later_is_told_apart);
    tcase_add_test(tc, without_a_passed_cell_nothing_is_admitted);
    tcase_add_test(tc, admission_is_the_definition);
    tcase_add_test(tc, a_matrix_is_written_and_read);
    tcase_add_loop_test(tc, wrong_axes_are_refused_by_name, 0, 6);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
