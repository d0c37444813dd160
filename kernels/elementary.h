/* elementary.h: double-precision elementary functions of our own, so that no libm decides a bit of
 * a result. Error under 2 units in the last place over the ranges given. Pure; any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_ELEMENTARY_H
#define FOLDKV_KERNELS_ELEMENTARY_H

/* e^x for -700 <= x <= 700; 0 below, inf above. */
double elementary_exp(double x);
/* Natural logarithm of a positive, normal x. */
double elementary_log(double x);
/* Both for |x| <= 2^21; the reduction by pi / 2 is in four parts, so that no double in the range
 * comes too near a multiple of it. */
void elementary_sincos(double x, double *ret_sine, double *ret_cosine);

#endif
