/* lanes_probe_tmpl.h: fills the table of lanes_probe.h; the includer defines LANES_x and LANES_PROBE, the table's name. */
// SPDX-License-Identifier: Apache-2.0
#include "kernels/lanes.h"
#include "tests/kernels/lanes_probe.h"

#define PROBE_1(op)                                                                                \
    static void probe_##op(const float *a, float *out)                                             \
    {                                                                                              \
        v16_store(out, v16_##op(v16_load(a)));                                                     \
    }
#define PROBE_2(op)                                                                                \
    static void probe_##op(const float *a, const float *b, float *out)                             \
    {                                                                                              \
        v16_store(out, v16_##op(v16_load(a), v16_load(b)));                                        \
    }

PROBE_1(sqrt)
PROBE_1(exp)
PROBE_2(add)
PROBE_2(sub)
PROBE_2(mul)
PROBE_2(div)
PROBE_2(max)

static void probe_load_f16(const uint16_t *p, float *out)
{
    v16_store(out, v16_load_f16(p));
}

static void probe_load_bf16(const uint16_t *p, float *out)
{
    v16_store(out, v16_load_bf16(p));
}

static void probe_store_f16(const float *v, uint16_t *out)
{
    v16_store_f16(out, v16_load(v));
}

static void probe_fma(const float *a, const float *b, const float *c, float *out)
{
    v16_store(out, v16_fma(v16_load(a), v16_load(b), v16_load(c)));
}

static void probe_keep(const float *a, int n, float *out)
{
    v16_store(out, v16_keep(v16_load(a), n));
}

static bool probe_any_gt(const float *a, const float *b)
{
    return v16_any_gt(v16_load(a), v16_load(b));
}

static float probe_fold_max(const float *a)
{
    return v16_fold_max(v16_load(a));
}

static float probe_fold_add(const float *a)
{
    return v16_fold_add(v16_load(a));
}

const struct lanes_probe LANES_PROBE = {
    .load_f16 = probe_load_f16,
    .load_bf16 = probe_load_bf16,
    .store_f16 = probe_store_f16,
    .fma = probe_fma,
    .add = probe_add,
    .sub = probe_sub,
    .mul = probe_mul,
    .div = probe_div,
    .max = probe_max,
    .sqrt = probe_sqrt,
    .exp = probe_exp,
    .keep = probe_keep,
    .any_gt = probe_any_gt,
    .fold_max = probe_fold_max,
    .fold_add = probe_fold_add,
};
