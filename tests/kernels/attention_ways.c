/* attention_ways.c: one world of pages attended in every way that must give the same bits.
 *
 * HOW     Scalar, grouped, on one thread is the expectation; every set of this machine is compared
 *         with it by memcmp: grouped on one to three threads, direct owner map, materialised
 *         repeat, and the grouped path in pieces of 1 to 15 rows.
 */
// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/attention_ways.h"

#include <check.h>
#include <math.h>

#include "config/mem.h"
#include "kernels/half.h"
#include "tests/support/guard.h"

bool pick_isa(int isa, struct kernels *ret_kernels)
{
    if ((isa_available() >> isa & 1u) == 0)
        return false;
    kernels_pick((2u << isa) - 1, ret_kernels);
    return true;
}

const struct kernels *scalar_kernels(void)
{
    static struct kernels kernels;
    kernels_pick(1u << ISA_SCALAR, &kernels);
    return &kernels;
}

void require_same(const float *a, const float *b, size_t n, const char *what)
{
    if (memcmp(a, b, n * sizeof *a) == 0)
        return;
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(float_bits(a[i]) == float_bits(b[i]) || (isnan(a[i]) && isnan(b[i])),
                      "%s: element %zu of %zu is %a in one and %a in the other", what, i, n,
                      (double)a[i], (double)b[i]);
}

static void require_set_agrees(const struct paged_kv *p, const struct kernels *kernels,
                               const float *expected)
{
    size_t n = paged_kv_out_bytes(p) / sizeof(float);
    float *found = guard_alloc(n * sizeof *found);
    for (uint32_t threads = 1; threads <= 3; threads++) {
        memset(found, 0xff, n * sizeof *found);
        paged_kv_grouped(p, kernels, threads, found);
        require_same(found, expected, n, "grouped");
    }
    memset(found, 0xff, n * sizeof *found);
    paged_kv_owner_map(p, kernels, found);
    require_same(found, expected, n, "owner map");
    memset(found, 0xff, n * sizeof *found);
    paged_kv_repeat(p, kernels, found);
    require_same(found, expected, n, "repeat");
    for (uint32_t rows = 1; rows < 20; rows += 1 + rows) {
        memset(found, 0xff, n * sizeof *found);
        paged_kv_stepwise(p, kernels, 1 + rows % 3, rows, found);
        require_same(found, expected, n, "stepwise");
    }
    guard_free(found, n * sizeof *found);
}

void require_all_ways_agree(const struct paged_kv *p)
{
    size_t n = paged_kv_out_bytes(p) / sizeof(float);
    struct kernels kernels;
    float *expected = mem_zalloc(n, sizeof *expected);
    ck_assert_ptr_nonnull(expected);
    paged_kv_grouped(p, scalar_kernels(), 1, expected);
    for (size_t i = 0; i < n; i++)
        ck_assert(isfinite(expected[i]));
    for (int isa = 0; isa < ISA_COUNT; isa++)
        if (pick_isa(isa, &kernels))
            require_set_agrees(p, &kernels, expected);
    mem_free(expected);
}

void require_all_ways_agree_on(const struct paged_spec *spec, uint64_t *seed)
{
    struct paged_kv p;
    paged_kv_init(&p, spec, seed);
    require_all_ways_agree(&p);
    paged_kv_release(&p);
}
