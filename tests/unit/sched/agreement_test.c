/* agreement_test.c: four receipts that agree, and each way in which they may not. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/agreement.h"

#include "tests/support/release_rig.h"
#include "tests/support/suite_run.h"

static struct record receipts[AGREEMENT_RECEIPTS];
static char identity[SHA256_HEX];

static void begin(void)
{
    rig_receipts("label", "generation", "namespace", receipts);
    rig_hash("identity/label", identity);
}

static void end(void)
{
    for (int i = 0; i < AGREEMENT_RECEIPTS; i++)
        record_release(&receipts[i]);
}

START_TEST(they_agree)
{
    struct why why = {0};
    ck_assert_msg(agreement_check(receipts, identity, &why) == OK, "%s", why.text);
}
END_TEST

/* A field, the receipt that says something else, and who is shown beside it. */
static const struct odd {
    const char *field;
    enum agreement_receipt who, beside;
    const char *value;
} odds[] = {
    {"identity", RECEIPT_PLACEMENT, RECEIPT_CHECKPOINT, "other"},
    {"namespace", RECEIPT_PLAN, RECEIPT_CACHE, "of an older generation"}, /* a stale plan */
    {"generation", RECEIPT_PLAN, RECEIPT_CACHE, "older"},
    {"cache_layout", RECEIPT_CACHE, RECEIPT_PLAN, "token-major pages"}, /* a wrong page layout */
    {"rope_coordinate_order", RECEIPT_PLAN, RECEIPT_CHECKPOINT, "neighbours"},
    {"head_map_hash", RECEIPT_PLAN, RECEIPT_CHECKPOINT,
     "0123"}, /* a map that the kernel did not plan for */
    {"qkv_fusion_order", RECEIPT_CHECKPOINT, RECEIPT_PLAN, "fused"},
    {"kv_type", RECEIPT_PLAN, RECEIPT_CACHE, "f32"},
    {"position_convention", RECEIPT_CACHE, RECEIPT_PLAN, "relative"},
    {"head_counts_hash", RECEIPT_CACHE, RECEIPT_CHECKPOINT, "9 of 9"},
    {"windows_hash", RECEIPT_CACHE, RECEIPT_PLAN, "w"},
    {"architecture_hash", RECEIPT_PLAN, RECEIPT_CHECKPOINT, "x"},
    {"head_widths_hash", RECEIPT_CACHE, RECEIPT_CHECKPOINT, "x"},
};

START_TEST(each_disagreement_is_named_with_both_values)
{
    const struct odd *odd = &odds[_i];
    struct why why = {0};
    record_set_text(&receipts[odd->who], odd->field, odd->value);
    ck_assert_int_eq(agreement_check(receipts, identity, &why), STATUS_RECEIPTS_DISAGREE);
    ck_assert_str_eq(why.field, odd->field);
    ck_assert_uint_eq(why.n_parts, 3);
    ck_assert_str_eq(why.parts[0].key, "field");
    ck_assert_str_eq(why.parts[0].text, odd->field);
    const struct why_part *left = &why.parts[1], *right = &why.parts[2];
    bool is_left = strcmp(left->key, agreement_receipt_text(odd->who)) == 0;
    ck_assert_str_eq((is_left ? left : right)->text, odd->value);
    ck_assert_str_eq((is_left ? right : left)->key, agreement_receipt_text(odd->beside));
    ck_assert_str_ne(left->text, right->text);
    ck_assert_ptr_nonnull(strstr(why.text, left->text));
    ck_assert_ptr_nonnull(strstr(why.text, right->text));
    ck_assert_ptr_nonnull(strstr(why.text, agreement_receipt_text(odd->who)));
}
END_TEST

START_TEST(page_tokens_are_numbers)
{
    struct why why = {0};
    record_set_number(&receipts[RECEIPT_PLAN], "page_tokens", 32);
    ck_assert_int_eq(agreement_check(receipts, identity, &why), STATUS_RECEIPTS_DISAGREE);
    ck_assert_str_eq(why.text, "the receipts disagree on page_tokens: cache has 64, plan has 32");
}
END_TEST

START_TEST(silence_is_not_consent)
{
    struct why why = {0};
    record_set_text(&receipts[RECEIPT_PLAN], "kv_type", NULL);
    ck_assert_int_eq(agreement_check(receipts, identity, &why), STATUS_RECEIPTS_DISAGREE);
    record_set_text(&receipts[RECEIPT_CACHE], "kv_type", NULL);
    ck_assert_int_eq(agreement_check(receipts, identity, &why), STATUS_RECEIPTS_DISAGREE);
}
END_TEST

START_TEST(a_receipt_is_missing)
{
    struct why why = {0};
    record_release(&receipts[_i]);
    ck_assert_int_eq(agreement_check(receipts, identity, &why), STATUS_RECEIPTS_DISAGREE);
    ck_assert_str_eq(why.field, agreement_receipt_text((enum agreement_receipt)_i));
}
END_TEST

START_TEST(a_query_head_without_an_owner)
{
    struct why why = {0};
    record_set_number(&receipts[RECEIPT_PLACEMENT], "unowned_query_heads", 3);
    ck_assert_int_eq(agreement_check(receipts, identity, &why), STATUS_RECEIPTS_DISAGREE);
    ck_assert_ptr_nonnull(strstr(why.text, "3 query heads"));
}
END_TEST

START_TEST(all_agree_on_another_identity)
{
    struct why why = {0};
    ck_assert_int_eq(agreement_check(receipts, "another", &why), STATUS_RECEIPTS_DISAGREE);
    ck_assert_ptr_nonnull(strstr(why.text, identity));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("agreement");
    TCase *tcase = tcase_create("agreement");
    tcase_set_timeout(tcase, 30);
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, they_agree);
    tcase_add_loop_test(tcase, each_disagreement_is_named_with_both_values, 0,
                        (int)ARRAY_LEN(odds));
    tcase_add_test(tcase, page_tokens_are_numbers);
    tcase_add_test(tcase, silence_is_not_consent);
    tcase_add_loop_test(tcase, a_receipt_is_missing, 0, AGREEMENT_RECEIPTS);
    tcase_add_test(tcase, a_query_head_without_an_owner);
    tcase_add_test(tcase, all_agree_on_another_identity);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
