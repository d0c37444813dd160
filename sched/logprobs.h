/* logprobs.h: the log-softmax of a row of logits, as it is, at one token and at the best few.
 * Allocates nothing; any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_LOGPROBS_H
#define FOLDKV_SCHED_LOGPROBS_H

#include "config/status.h"
#include "kernels/vector.h"
#include "sched/request.h"

/* Fills output's has_logprob, logprob (of output->id, below vocab), n_top and top: the n_top
 * (0..TOP_LOGPROBS_MAX) greatest of the vocab logits, greatest first, the lowest id among equals;
 * fewer if the vocabulary has fewer. NUMERIC if a logit is NaN or infinite; output is then as it
 * was. */
enum status logprobs_fill(const float *logits, uint32_t vocab, uint32_t n_top,
                          const struct vector_kernels *vector,
                          struct token_output *output) MUST_USE;

#endif
