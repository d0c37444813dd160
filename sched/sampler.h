/* sampler.h: from a row of logits to one token, by temperature, top_k, top_p and min_p, in this
 * order.
 *
 * What is drawn is a function of the logits, the parameters, seed, choice and position alone: the
 * same bits on every instruction set and in every thread. A sampler is scratch memory for one
 * vocabulary: one a thread. Nothing allocates after sampler_new. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_SAMPLER_H
#define FOLDKV_SCHED_SAMPLER_H

#include "config/status.h"
#include "kernels/vector.h"
#include "sched/request.h"

struct sampler;

/* vocab: logits a row, at least 1. NO_MEMORY. */
enum status sampler_new(uint32_t vocab, struct sampler **ret_sampler) MUST_USE;
/* Takes NULL. */
void sampler_free(struct sampler **sampler);
/* The token at output position of a choice. Temperature 0 takes the greatest logit, the lowest id
 * among equals. Else each filter keeps a run of the tokens ordered by logit (the lowest id first
 * among equals): top_k that many of them; top_p the fewest whose probabilities, of what top_k left,
 * reach top_p (one at least); min_p those whose probability is at least min_p of the greatest.
 * NUMERIC if a logit is NaN or infinite. */
enum status sampler_pick(struct sampler *sampler, const float *logits,
                         const struct sampling *sampling, uint32_t choice, uint32_t position,
                         const struct vector_kernels *vector, uint32_t *ret_id) MUST_USE;

#endif
