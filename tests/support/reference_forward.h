/* reference_forward.h: a float64 forward pass over a loaded model, without cache, pages or
 * kernels: the truth to measure by. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_TESTS_REFERENCE_FORWARD_H
#define FOLDKV_TESTS_REFERENCE_FORWARD_H

#include "sched/model.h"

/* ret_chosen[t] = natural log-probability of ids[t + 1] after ids[0..t], for t < n - 1. Weights are
 * taken as packed_row gives them: exact for F32, F16 and BF16. Small models only: cost grows with n
 * squared. */
void reference_forward(const struct model *model, const uint32_t *ids, uint32_t n,
                       double *ret_chosen);

#endif
