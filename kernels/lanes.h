/* lanes.h: the sixteen-lane vector that every float kernel is written over, one definition per instruction set.
 *
 * A kernel body is a template header (*_tmpl.h) that includes nothing of its own instruction set: the file that
 * includes it defines exactly one of LANES_SCALAR, LANES_AVX2, LANES_AVX512, LANES_NEON as 1 first. All four give the same
 * bits: each lane does the same fused operations in the same order, so parity between instruction sets is memcmp
 * (except for the payload of a NaN).
 *
 *   v16                                   sixteen f32 lanes
 *   v16_zero() v16_set1(x)
 *   v16_load(p) v16_store(p, v)           unaligned f32[16]
 *   v16_load_f16(p) v16_store_f16(p, v)   IEEE half, round to nearest even
 *   v16_load_bf16(p)                      bfloat16
 *   v16_fma(a, b, c)                      a * b + c, rounded once
 *   v16_fma_at(p, b, c)                   *p * b + c in every lane; *p costs no register where a set can do without
 *   v16_add v16_sub v16_mul v16_div v16_sqrt
 *   v16_trunc(v)                          towards zero, of what is under 2^23 in magnitude
 *   v16_max(a, b)                         a > b ? a : b  (NaN in either gives b)
 *   v16_keep(v, n)                        lanes 0..n-1 of v, -inf above (n may exceed 16)
 *   v16_any_gt(a, b)                      true if a > b in some lane (false for NaN)
 *   v16_ge_mask(a, b)                     bit i set if a >= b in lane i (clear for NaN)
 *   v16_load_pairs(p, &even, &odd)        unaligned f32[32]: its even and its odd elements; v16_store_pairs undoes it
 *   v16_fold_max(v)                       greatest lane; order-free unless NaN
 *   v16_magnitude(a, b)                   the greater of |a| and |b| as bits: NaN above inf above the rest
 *   v16_fold_magnitude(v)                 bits of the greatest |lane|, in that order
 *   v16_fold_add(v)                       fixed tree: i + (i+8), then +4, +2, +1
 *   v16_exp(x)                            see below
 */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_LANES_H
#define FOLDKV_KERNELS_LANES_H

#include <stdbool.h>
#include <stdint.h>

#define LANES_INLINE static inline __attribute__((always_inline, unused))

#ifndef LANES_SCALAR
#define LANES_SCALAR 0
#endif
#ifndef LANES_AVX2
#define LANES_AVX2 0
#endif
#ifndef LANES_AVX512
#define LANES_AVX512 0
#endif
#ifndef LANES_NEON
#define LANES_NEON 0
#endif

#if LANES_SCALAR
#include "kernels/scalar/lanes_scalar.h"
#elif LANES_AVX2
#include "kernels/x86/lanes_avx2.h"
#elif LANES_AVX512
#include "kernels/x86/lanes_avx512.h"
#elif LANES_NEON
#include "kernels/arm/lanes_neon.h"
#else
#error "define one of LANES_SCALAR, LANES_AVX2, LANES_AVX512, LANES_NEON as 1 before including kernels/lanes.h"
#endif

/* e^x. x < -87 gives exactly 0 and x > 88.3 gives inf, so a score of -inf weighs nothing; NaN gives NaN. Else Cody-Waite
 * reduction by ln 2 in two parts and a polynomial of degree 6; relative error under 1.2e-7. */
LANES_INLINE v16 v16_exp(v16 x)
{
    v16i n = v16_round(v16_mul(x, v16_set1(1.44269504f)));
    v16 nf = v16_from_int(n);
    v16 r = v16_fma(nf, v16_set1(-0.693359375f), x);
    r = v16_fma(nf, v16_set1(2.12194440e-4f), r);
    v16 p = v16_set1(1.3814539e-3f); /* minimax for |r| <= ln 2 / 2 with the first two terms kept; 4e-9 of its own */
    p = v16_fma(p, r, v16_set1(8.3687454e-3f));
    p = v16_fma(p, r, v16_set1(4.1668389e-2f));
    p = v16_fma(p, r, v16_set1(1.6666521e-1f));
    p = v16_fma(p, r, v16_set1(4.9999994e-1f));
    p = v16_fma(p, r, v16_set1(1.0f));
    p = v16_fma(p, r, v16_set1(1.0f));
    return v16_exp_select(x, v16_scale2(p, n));
}

#endif
