/* evidence_test.c: no rung stands above one that is not proven, and what is printed is what was
 * found. */
// SPDX-License-Identifier: Apache-2.0
#include "server/evidence.h"

#include <jansson.h>

#include "config/mem.h"
#include "tests/support/suite_run.h"

static struct evidence_ladder ladder_of(const char *states)
{
    struct evidence_ladder l = {
        .backend = "scalar",
        .kernel = "attend_merge__scalar",
        .is_chosen = true,
        .source = {"attend_merge__scalar", "kernels/scalar/a.c", "aa", "bb", 3, true},
        .commit = "cc"};
    for (int rung = 0; rung < EVIDENCE_RUNGS; rung++) {
        enum evidence_state state = states[rung] == '+'   ? EVIDENCE_PROVEN
                                    : states[rung] == 'n' ? EVIDENCE_NOT_MEASURABLE
                                                          : EVIDENCE_UNPROVEN;
        evidence_find(&l, (enum evidence_rung)rung, state, "a_test", "found %d \"so\" \\", rung);
    }
    return l;
}

static const struct {
    const char *states, *says;
} ladders[] = {
    {"++++++", NULL},
    {"++++--", NULL},
    {"++++n-", NULL},
    {"------", NULL},
    {"nnnnn-", NULL},
    {"-+----", "source is said to be proven, but api below it is unproven"},
    {"+-+---", "parity is said to be proven, but source below it is unproven"},
    {"++n+--", "allocation is said to be proven, but parity below it is not measurable here"},
    {"++++n+", "slo is said to be proven, but traffic below it is not measurable here"},
};

START_TEST(a_rung_needs_those_below_it)
{
    struct evidence_ladder l = ladder_of(ladders[_i].states);
    struct why why = {0};
    enum status s = evidence_check(&l, &why);
    if (ladders[_i].says == NULL) {
        ck_assert_msg(s == OK, "%s", why.text);
        return;
    }
    ck_assert_int_eq(s, STATUS_BAD_FILE);
    ck_assert_str_eq(why.field, "attend_merge__scalar");
    ck_assert_msg(strstr(why.text, ladders[_i].says) != NULL, "%s", why.text);
}
END_TEST

START_TEST(a_finding_says_how_it_is_known)
{
    struct evidence_ladder l = ladder_of("++++--");
    struct why why = {0};
    l.rungs[EVIDENCE_SLO].text[0] = '\0';
    ck_assert_int_eq(evidence_check(&l, &why), STATUS_BAD_FILE);
    ck_assert_ptr_nonnull(strstr(why.text, "slo is unproven, and nothing says how"));
}
END_TEST

START_TEST(what_stands_on_nothing_is_withheld)
{
    struct evidence_ladder l = ladder_of("+-++n+");
    evidence_withhold(&l);
    ck_assert_int_eq(evidence_check(&l, NULL), OK);
    ck_assert(l.rungs[EVIDENCE_API].state == EVIDENCE_PROVEN);
    ck_assert(l.rungs[EVIDENCE_PARITY].state == EVIDENCE_UNPROVEN);
    ck_assert(l.rungs[EVIDENCE_TRAFFIC].state == EVIDENCE_NOT_MEASURABLE);
    ck_assert(l.rungs[EVIDENCE_SLO].state == EVIDENCE_UNPROVEN);
    ck_assert_str_eq(l.rungs[EVIDENCE_PARITY].text,
                     "source is not proven; held: found 2 \"so\" \\");
}
END_TEST

START_TEST(json_says_what_was_found)
{
    struct evidence_ladder l = ladder_of("++++n-");
    struct text_buf out;
    text_buf_init(&out, 1 << 16);
    evidence_add_json(&out, &l);
    char *text = text_buf_take(&out);
    json_error_t error;
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(json != NULL, "%s in %s", error.text, text);
    const json_t *rungs = json_object_get(json, "rungs");
    ck_assert_uint_eq(json_array_size(rungs), EVIDENCE_RUNGS);
    for (int rung = 0; rung < EVIDENCE_RUNGS; rung++) {
        const json_t *r = json_array_get(rungs, (size_t)rung);
        ck_assert_str_eq(json_string_value(json_object_get(r, "rung")),
                         evidence_rung_name((enum evidence_rung)rung));
        ck_assert_str_eq(json_string_value(json_object_get(r, "state")),
                         evidence_state_name(l.rungs[rung].state));
        ck_assert_str_eq(json_string_value(json_object_get(r, "how")), l.rungs[rung].text);
        ck_assert_str_eq(json_string_value(json_object_get(r, "test")), "a_test");
    }
    const json_t *source = json_object_get(json, "source");
    ck_assert_str_eq(json_string_value(json_object_get(source, "file")), "kernels/scalar/a.c");
    ck_assert_str_eq(json_string_value(json_object_get(source, "commit")), "cc");
    json_decref(json);
    mem_free(text);
}
END_TEST

START_TEST(text_says_what_is_missing)
{
    struct evidence_ladder l = ladder_of("++++n-");
    struct text_buf out;
    text_buf_init(&out, 1 << 16);
    evidence_add_text(&out, &l, NULL);
    char *text = text_buf_take(&out);
    ck_assert_ptr_nonnull(strstr(text, "api+ source+ parity+ allocation+ traffic? slo-"));
    ck_assert_ptr_nonnull(strstr(text, "traffic     not measurable here: found 4"));
    ck_assert_ptr_null(strstr(text, "found 3"));
    mem_free(text);
    evidence_add_text(&out, &l, &l); /* nothing new */
    text = text_buf_take(&out);
    ck_assert_ptr_null(strstr(text, "found 4"));
    mem_free(text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("evidence");
    TCase *tc = tcase_create("ladder");
    tcase_set_timeout(tc, 10);
    tcase_add_loop_test(tc, a_rung_needs_those_below_it, 0, (int)ARRAY_LEN(ladders));
    tcase_add_test(tc, a_finding_says_how_it_is_known);
    tcase_add_test(tc, what_stands_on_nothing_is_withheld);
    tcase_add_test(tc, json_says_what_was_found);
    tcase_add_test(tc, text_says_what_is_missing);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
