/* row_audit_test.c: the audit knows every operation but attention's, passes on every row that this
 * machine can run, and sees each kind of fault. */
// SPDX-License-Identifier: Apache-2.0
#include "kernels/oracle/row_audit.h"

#include "config/mem.h"
#include "tests/support/suite_run.h"

static bool is_attention(const char *op)
{
    return strncmp(op, "attend_", 7) == 0 || strncmp(op, "kv_store_", 9) == 0;
}

START_TEST(every_row_passes)
{
    for (size_t i = 0; i < kernels_row_count(); i++) {
        struct kernel_row row = kernels_row(i);
        struct kernels kernels;
        struct row_audit audit;
        ck_assert_msg(row_audit_knows(row.op) || is_attention(row.op), "%s", row.op);
        if (!row.available || is_attention(row.op))
            continue;
        kernels_pick(1u << row.isa, &kernels);
        ck_assert(kernels_row_is_chosen(&kernels, i));
        ck_assert_int_eq(row_audit_run(row.op, &kernels, &audit), OK);
        ck_assert_msg(audit.same_as_scalar && audit.is_near && audit.allocation_calls == 0,
                      "%s: as scalar %d, error %g, %d allocations", row.function,
                      audit.same_as_scalar, audit.error_max, (int)audit.allocation_calls);
    }
}
END_TEST

static add_fn *right_add;

static void spoilt_add(float *x, const float *y, uint32_t n)
{
    right_add(x, y, n);
    x[n - 1] += 0.01f;
}

static void allocating_add(float *x, const float *y, uint32_t n)
{
    mem_free(mem_alloc(8));
    right_add(x, y, n);
}

START_TEST(each_kind_of_fault_is_seen)
{
    struct kernels kernels;
    struct row_audit audit;
    kernels_pick(0, &kernels);
    right_add = kernels.vector.add;
    kernels.vector.add = spoilt_add;
    ck_assert_int_eq(row_audit_run("add", &kernels, &audit), OK);
    ck_assert(!audit.same_as_scalar && !audit.is_near && audit.error_max > 0.001);
    kernels.vector.add = allocating_add;
    ck_assert_int_eq(row_audit_run("add", &kernels, &audit), OK);
    ck_assert(audit.same_as_scalar && audit.is_near && audit.allocation_calls == 1);
    ck_assert(!row_audit_knows("attend_merge") && !row_audit_knows("matmul_q9"));
}
END_TEST

START_TEST(every_allocation_fails_once)
{
    struct kernels kernels;
    struct row_audit audit;
    kernels_pick(0, &kernels);
    for (uint64_t n = 1; n <= 3; n++) {
        mem_fail_nth(n);
        ck_assert_int_eq(row_audit_run("matmul_q4_1", &kernels, &audit), STATUS_NO_MEMORY);
        ck_assert(mem_failure_struck());
        mem_fail_nth(0);
    }
    ck_assert_int_eq(row_audit_run("matmul_q4_1", &kernels, &audit), OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("row_audit");
    TCase *tc = tcase_create("audit");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, every_row_passes);
    tcase_add_test(tc, each_kind_of_fault_is_seen);
    tcase_add_test(tc, every_allocation_fails_once);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
