/* oracle_audit.h: one attended row, computed again by the materialised repeat and compared.
 *
 * The oracle runs on the scalar kernels, over the same pages, right after the step that read them: what
 * differs is the plan, the schedule or a kernel, never the K/V. It is the only serving code that may call
 * the oracle. Engine thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_ORACLE_AUDIT_H
#define FOLDKV_SCHED_ORACLE_AUDIT_H

#include "sched/decoder_watch.h"

/* Rows behind so many tokens are not looked at: the copy that the oracle works on would be too large. */
enum { ORACLE_TOKENS_MAX = 32768 };

struct oracle_audit;

/* Takes the copy's room, for one query head of the widest layer. NO_MEMORY. */
enum status oracle_audit_new(const struct graph *graph, enum kv_type type,
                             struct oracle_audit **ret_audit, struct why *ret_why) MUST_USE;
void oracle_audit_free(struct oracle_audit **audit);

/* Largest difference of the row's attended values from the oracle's / the oracle's largest value, over
 * as many query heads as some 256 tokens have room for, at least one; other ones each time. NaN if either has a NaN
 * or an inf. False if the row was not looked at. Allocates nothing. */
bool oracle_audit_row(struct oracle_audit *audit, const struct decoder_row *row,
                      double *ret_difference) MUST_USE;

#endif
