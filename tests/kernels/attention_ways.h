/* attention_ways.h: comparison of the instruction sets and of the ways to attend. Ends the test on
 * failure. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_TESTS_ATTENTION_WAYS_H
#define FOLDKV_TESTS_ATTENTION_WAYS_H

#include "tests/kernels/paged_kv.h"

/* The kernels of a set and of all below it; false if this machine does not have it. */
bool pick_isa(int isa, struct kernels *ret_kernels);
const struct kernels *scalar_kernels(void);
/* Equal to the bit, but for the payload of a NaN. */
void require_same(const float *a, const float *b, size_t n, const char *what);
/* Every way on every set gives the same finite bits. */
void require_all_ways_agree(const struct paged_kv *p);
/* The same over random K/V of these sequences. */
void require_all_ways_agree_on(const struct paged_spec *spec, uint64_t *seed);

#endif
