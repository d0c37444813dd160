/* lanes_int8.h: sixteen exact sums of 8-bit by 16-bit products, one definition per instruction set; beside lanes.h, whose
 * macro chooses it (INT8_DOTPROD as 1 takes Armv8.2's dot products in place of baseline NEON).
 *
 * A quad is four neighbouring columns of K, or four neighbouring tokens of V. 64 bytes hold a quad of each of sixteen lanes;
 * K bytes are stored + 128. The 16-bit side is one number a column or token, the same for all lanes; sixteen of them, four
 * quads, take 32 bytes in a form of the set's own: two planes of bytes, or words. Integers are exact, so every set gives the
 * same sums.
 *
 *   i8_quads                      64 bytes, as the set likes them
 *   i8_sums                       sixteen running sums, maybe in planes
 *   i8_bias                       what sums over V need beside (sums of V itself, or nothing)
 *   i8_store_q(m, x)              x in -32512..32512, whole: sixteen multipliers for K
 *   i8_store_p(m, x)              x in 0..65281, whole: sixteen multipliers for V
 *   i8_load_k(p) i8_load_v(p)
 *   i8_zero() i8_bias_zero()
 *   i8_add_k(sums, k, m)          sums += quad of lane . quad at m (8 bytes)
 *   i8_add_v(sums, v, m) i8_bias_add(bias, v)
 *   i8_total_k(sums, total)       as floats, rounded to nearest even; total = the sum of all multipliers
 *   i8_total_v(sums, bias)
 *
 * Sums stay under 2^31: 256 columns of 255 * 32512, or 64 tokens of 128 * 65281.
 */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_LANES_INT8_H
#define FOLDKV_KERNELS_LANES_INT8_H

#include "kernels/lanes.h"

#ifndef INT8_DOTPROD
#define INT8_DOTPROD 0
#endif

#if LANES_SCALAR
#include "kernels/scalar/lanes_int8_scalar.h"
#elif LANES_AVX2
#include "kernels/x86/lanes_int8_avx2.h"
#elif LANES_AVX512
#include "kernels/x86/lanes_int8_avx512.h"
#elif INT8_DOTPROD
#include "kernels/arm/lanes_int8_dotprod.h"
#else
#include "kernels/arm/lanes_int8_neon.h"
#endif

#endif
