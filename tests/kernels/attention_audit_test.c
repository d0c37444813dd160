/* attention_audit_test.c: the audit passes on every instruction set of this machine, and sees each
 * kind of fault. */
// SPDX-License-Identifier: Apache-2.0
#include "kernels/oracle/attention_audit.h"

#include "config/mem.h"
#include "tests/support/suite_run.h"

static const enum kv_type types[] = {KV_F16, KV_F32, KV_I8};

START_TEST(every_set_passes)
{
    uint32_t available = isa_available();
    enum kv_type type = types[_i % 3];
    enum isa isa = (enum isa)(_i / 3);
    struct kernels kernels;
    struct attention_audit audit;
    struct why why = {0};
    if ((available >> isa & 1u) == 0)
        return;
    kernels_pick(1u << isa, &kernels);
    if (kernels.attention.chunk[type] == NULL)
        return;
    ck_assert_msg(attention_audit_run(&kernels, type, &audit, &why) == OK, "%s", why.text);
    ck_assert_msg(
        audit.same_as_owner_map && audit.same_as_repeat && audit.same_as_scalar && audit.is_near,
        "%s %s: owner map %d, repeat %d, scalar %d, error %g", isa_name(isa), audit.failed_case,
        audit.same_as_owner_map, audit.same_as_repeat, audit.same_as_scalar, audit.error_max);
    ck_assert_uint_eq(audit.n_cases, 9);
    ck_assert_uint_eq(audit.allocation_calls, 0);
    ck_assert_uint_gt(audit.repeated_bytes, audit.owned_bytes);
    ck_assert_str_eq(audit.failed_case, "");
}
END_TEST

static attend_chunk_fn *right_chunk;
static attend_finish_fn *right_finish;
static int spoilt_calls;

/* Depends on how many rows share a tile, as a grouped kernel never may. */
static void spoilt_by_rows(const struct attend_tile *tile)
{
    right_chunk(tile);
    if (tile->n_rows > 1)
        tile->acc[0] += 1e-7f;
}

static void spoilt_values(uint32_t d_v, float l, const float *acc, float *out)
{
    right_finish(d_v, l, acc, out);
    out[0] += 0.001f;
}

static void allocates(const struct attend_tile *tile)
{
    mem_free(mem_alloc(64));
    spoilt_calls++;
    right_chunk(tile);
}

START_TEST(each_kind_of_fault_is_seen)
{
    struct kernels kernels;
    struct attention_audit audit;
    kernels_pick(0, &kernels);
    right_chunk = kernels.attention.chunk[KV_F16];
    right_finish = kernels.attention.finish;
    kernels.attention.chunk[KV_F16] = spoilt_by_rows;
    ck_assert_int_eq(attention_audit_run(&kernels, KV_F16, &audit, NULL), OK);
    ck_assert(!audit.same_as_owner_map && !audit.same_as_repeat && !audit.same_as_scalar);
    ck_assert_str_ne(audit.failed_case, "");
    kernels.attention.chunk[KV_F16] = right_chunk;
    kernels.attention.finish = spoilt_values; /* in all three ways alike: near double it is not */
    ck_assert_int_eq(attention_audit_run(&kernels, KV_F16, &audit, NULL), OK);
    ck_assert(audit.same_as_owner_map && audit.same_as_repeat && !audit.same_as_scalar);
    ck_assert(!audit.is_near && audit.error_max > 0.0009);
    kernels.attention.finish = right_finish;
    kernels.attention.chunk[KV_F16] = allocates;
    ck_assert_int_eq(attention_audit_run(&kernels, KV_F16, &audit, NULL), OK);
    ck_assert(audit.same_as_owner_map && audit.same_as_scalar && audit.is_near);
    ck_assert_uint_gt(audit.allocation_calls, 0);
    ck_assert_uint_gt((uint64_t)spoilt_calls, audit.allocation_calls); /* the owner map's, too */
}
END_TEST

START_TEST(every_allocation_fails_once)
{
    struct kernels kernels;
    struct attention_audit audit;
    kernels_pick(0, &kernels);
    for (uint64_t n = 1;; n += 7) {
        mem_fail_nth(n);
        enum status s = attention_audit_run(&kernels, KV_F16, &audit, NULL);
        bool has_struck = mem_failure_struck();
        mem_fail_nth(0);
        ck_assert_int_eq(s, has_struck ? STATUS_NO_MEMORY : OK);
        if (!has_struck)
            break;
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("attention_audit");
    TCase *tc = tcase_create("audit");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, every_set_passes, 0, 3 * ISA_COUNT);
    tcase_add_test(tc, each_kind_of_fault_is_seen);
    tcase_add_test(tc, every_allocation_fails_once);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
