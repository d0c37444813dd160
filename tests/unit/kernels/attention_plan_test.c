/* attention_plan_test.c: groups by both owners, refusals with the field, failing allocations. */
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention.h"

#include "config/mem.h"
#include "kernels/attention_priv.h"
#include "kernels/kernel.h"
#include "tests/support/suite_run.h"

static uint16_t k_owner[64], v_owner[64];

static struct attention_shape good_shape(void)
{
    for (uint16_t h = 0; h < 64; h++)
        k_owner[h] = v_owner[h] = h / 3 % 3;
    return (struct attention_shape){
        .n_query_heads = 9,
        .n_kv_heads = 3,
        .d_qk = 64,
        .d_v = 64,
        .scale = 0.125f,
        .query_to_k_head = k_owner,
        .query_to_v_head = v_owner,
        .n_threads = 2,
        .rows_max = 512,
        .sequences_max = 64,
        .context_max = 8192,
    };
}

static const struct attention_kernels *kernels(void)
{
    static struct kernels all;
    kernels_pick(1u << ISA_SCALAR, &all);
    return &all.attention;
}

static struct attention_plan *plan_of(const struct attention_shape *shape)
{
    struct attention_plan *plan = NULL;
    struct why why = {0};
    ck_assert_msg(attention_plan_new(shape, kernels(), &plan, &why) == OK, "%s", why.text);
    return plan;
}

START_TEST(contiguous_heads_form_equal_groups)
{
    struct attention_shape shape = good_shape();
    struct attention_plan *plan = plan_of(&shape);
    ck_assert_uint_eq(plan->n_groups, 3);
    for (uint16_t g = 0; g < 3; g++) {
        ck_assert_uint_eq(plan->groups[g].k_head, g);
        ck_assert_uint_eq(plan->groups[g].n_heads, 3);
        for (uint16_t i = 0; i < 3; i++)
            ck_assert_uint_eq(plan->heads[plan->groups[g].first + i], g * 3u + i);
    }
    attention_plan_free(&plan);
    ck_assert_ptr_null(plan);
}
END_TEST

START_TEST(scattered_heads_are_gathered_by_both_owners)
{
    static const uint16_t k[6] = {1, 0, 1, 0, 1, 1}, v[6] = {1, 0, 0, 0, 1, 0};
    struct attention_shape shape = good_shape();
    shape.n_query_heads = 6;
    shape.query_to_k_head = k;
    shape.query_to_v_head = v;
    struct attention_plan *plan = plan_of(&shape);
    static const struct attention_group wanted[3] = {{0, 0, 2, 0}, {1, 1, 2, 2}, {1, 0, 2, 4}};
    static const uint16_t heads[6] = {1, 3, 0, 4, 2, 5};
    ck_assert_uint_eq(plan->n_groups, 3);
    for (int g = 0; g < 3; g++) {
        ck_assert_uint_eq(plan->groups[g].k_head, wanted[g].k_head);
        ck_assert_uint_eq(plan->groups[g].v_head, wanted[g].v_head);
        ck_assert_uint_eq(plan->groups[g].n_heads, wanted[g].n_heads);
        ck_assert_uint_eq(plan->groups[g].first, wanted[g].first);
    }
    ck_assert_mem_eq(plan->heads, heads, sizeof heads);
    attention_plan_free(&plan);
}
END_TEST

/* One field made wrong, and the word that the message must have. */
static const struct refusal {
    size_t offset;
    uint32_t value;
    enum status status;
    const char *word;
} refusals[] = {
    {offsetof(struct attention_shape, n_query_heads), 0, STATUS_BAD_OPTION, "query heads"},
    {offsetof(struct attention_shape, n_query_heads), 1025, STATUS_BAD_OPTION, "query heads"},
    {offsetof(struct attention_shape, n_kv_heads), 0, STATUS_BAD_OPTION, "K/V heads"},
    {offsetof(struct attention_shape, n_kv_heads), 10, STATUS_BAD_OPTION, "K/V heads"},
    {offsetof(struct attention_shape, n_kv_heads), 2, STATUS_BAD_FILE, "query_to_k_head[6] is 2"},
    {offsetof(struct attention_shape, d_qk), 0, STATUS_BAD_FILE, "d_qk is 0"},
    {offsetof(struct attention_shape, d_qk), 72, STATUS_BAD_FILE, "d_qk is 72"},
    {offsetof(struct attention_shape, d_v), 272, STATUS_BAD_FILE, "d_v is 272"},
    {offsetof(struct attention_shape, n_threads), 0, STATUS_BAD_OPTION, "threads"},
    {offsetof(struct attention_shape, n_threads), 257, STATUS_BAD_OPTION, "threads"},
    {offsetof(struct attention_shape, rows_max), 0, STATUS_BAD_OPTION, "rows of a step"},
    {offsetof(struct attention_shape, sequences_max), 0, STATUS_BAD_OPTION, "sequences"},
    {offsetof(struct attention_shape, context_max), 0, STATUS_BAD_OPTION, "context"},
    {offsetof(struct attention_shape, type), KV_TYPE_COUNT, STATUS_BAD_OPTION, "K/V type"},
    {offsetof(struct attention_shape, scale), 0x7f800000, STATUS_BAD_FILE, "scale"},
};

START_TEST(a_wrong_field_is_named)
{
    const struct refusal *refusal = &refusals[_i];
    struct attention_shape shape = good_shape();
    struct attention_plan *plan = NULL;
    struct why why = {0};
    memcpy((char *)&shape + refusal->offset, &refusal->value, sizeof refusal->value);
    ck_assert_int_eq((int)attention_plan_new(&shape, kernels(), &plan, &why), (int)refusal->status);
    ck_assert_ptr_null(plan);
    ck_assert_msg(strstr(why.text, refusal->word) != NULL, "%s", why.text);
}
END_TEST

START_TEST(every_allocation_may_fail)
{
    struct attention_shape shape = good_shape();
    struct attention_plan *plan = NULL;
    uint64_t mapped = mem_mapped_bytes();
    uint64_t n = 1;
    for (;; n++) {
        struct why why = {0};
        mem_fail_nth(n);
        enum status s = attention_plan_new(&shape, kernels(), &plan, &why);
        mem_fail_nth(0);
        if (s == OK)
            break;
        ck_assert_int_eq((int)s, STATUS_NO_MEMORY);
        ck_assert_ptr_null(plan);
        ck_assert_uint_eq(mem_mapped_bytes(), mapped);
    }
    ck_assert_uint_gt(n, 6);
    ck_assert_uint_ge(mem_mapped_bytes(), mapped + attention_plan_workspace_bytes(plan));
    attention_plan_free(&plan);
    ck_assert_uint_eq(mem_mapped_bytes(), mapped);
    attention_plan_free(&plan);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("attention_plan");
    TCase *tc = tcase_create("plan");
    tcase_set_timeout(tc, 20);
    tcase_add_test(tc, contiguous_heads_form_equal_groups);
    tcase_add_test(tc, scattered_heads_are_gathered_by_both_owners);
    tcase_add_loop_test(tc, a_wrong_field_is_named, 0, (int)ARRAY_LEN(refusals));
    tcase_add_test(tc, every_allocation_may_fail);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
