/* bench_test.c: the benchmarks run, on a size that takes no time, and report every weight type; bad sizes are refused.
 *
 * NOT     What they measure: that is never a test.
 */
// SPDX-License-Identifier: Apache-2.0
#include "kernels/bench/bench.h"
#include "tests/support/suite_run.h"

typedef enum status bench_fn(const struct bench_options *options, FILE *out, bool json,
                             struct why *ret_why);

static bench_fn *const benches[] = {bench_gemv, bench_gemm};

enum { TEXT_MAX = 16384 };

static const char *run(bench_fn *bench, bool json)
{
    static char text[TEXT_MAX];
    struct bench_options o = {
        .n_threads = 2, .n_columns = 256, .n_rows = 40, .bytes = 100000, .rounds = 2};
    struct why why = {0};
    FILE *out = tmpfile();
    ck_assert_ptr_nonnull(out);
    ck_assert_msg(bench(&o, out, json, &why) == OK, "%s", why.text);
    rewind(out);
    size_t n = fread(text, 1, sizeof text - 1, out);
    text[n] = '\0';
    fclose(out);
    return text;
}

START_TEST(every_type_is_reported)
{
    const char *text = run(benches[_i], false);
    for (int type = 0; type < WEIGHT_TYPE_COUNT; type++)
        ck_assert_ptr_nonnull(strstr(text, weight_type_name((enum weight_type)type)));
    ck_assert_ptr_null(strstr(text, "nan"));
    ck_assert_ptr_null(strstr(text, "inf"));
}
END_TEST

START_TEST(json_is_one_closed_object)
{
    const char *text = run(benches[_i], true);
    int depth = 0;
    for (const char *c = text; *c != '\0' && *c != '\n'; c++) {
        depth += (*c == '{' || *c == '[') - (*c == '}' || *c == ']');
        ck_assert_msg(depth > 0 || c[1] == '\n', "%s", text);
    }
    ck_assert_int_eq(depth, 0);
    ck_assert_int_eq(text[0], '{');
    ck_assert_ptr_null(strstr(text, ", ]"));
    ck_assert_ptr_null(strstr(text, "nan"));
}
END_TEST

START_TEST(bad_sizes_are_refused_by_name)
{
    static const struct {
        struct bench_options o;
        const char *field;
    } bad[] = {
        {{.n_threads = 0}, "threads"},
        {{.n_threads = 1, .n_columns = 33}, "columns"},
        {{.n_threads = 1, .rounds = 1000}, "rounds"},
        {{.n_threads = 1, .n_rows = 1u << 30}, "rows"},
        {{.n_threads = 1, .type = "Q4_K", .n_columns = 96}, "columns"},
        {{.n_threads = 1, .type = "Q8_K"}, "type"},
        {{.n_threads = 1, .isa = "mmx"}, "kernels.isa"},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct why why = {0};
        ck_assert_int_eq(benches[_i](&bad[i].o, stdout, false, &why), STATUS_BAD_OPTION);
        ck_assert_str_eq(why.field, bad[i].field);
    }
}
END_TEST

int main(void)
{
    int n = (int)ARRAY_LEN(benches);
    TCase *c = tcase_create("bench");
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, bad_sizes_are_refused_by_name, 0, n);
    tcase_add_loop_test(c, every_type_is_reported, 0, n);
    tcase_add_loop_test(c, json_is_one_closed_object, 0, n);
    Suite *s = suite_create("bench");
    suite_add_tcase(s, c);
    return suite_run(s);
}
