/* attention_audit.h: one instruction set's attention, run here and now in three ways over the same
 * small worlds of pages, and what came of it.
 *
 * For MHA, MQA, groups, groups of unequal size, different maps for K and V, d_qk unlike d_v and a
 * window: the grouped path, the direct owner map and the materialised repeat must give the same
 * bits, those bits must be the scalar set's, and the values must be near double arithmetic. The
 * allocation counter is read before and after the grouped run. For evidence and tests; one call at
 * a time in a process, since the counter is the process's. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_ORACLE_ATTENTION_AUDIT_H
#define FOLDKV_KERNELS_ORACLE_ATTENTION_AUDIT_H

#include "kernels/kernel.h"

struct attention_audit {
    uint32_t n_cases;
    bool same_as_owner_map, same_as_repeat, same_as_scalar;
    double error_max;        /* greatest |difference| from double arithmetic, values are up to 2 */
    bool is_near;            /* error_max is within what the K/V type's rounding explains */
    uint64_t owned_bytes;    /* K/V as stored, over the cases */
    uint64_t repeated_bytes; /* what the materialised repeat held */
    uint64_t allocation_calls; /* during the grouped runs, as the counter says */
    char failed_case[32];      /* the first that was not the same or not near; "" if none */
};

/* NO_MEMORY, or what the plan refuses. Where bits differ OK is returned and the audit says so. */
enum status attention_audit_run(const struct kernels *kernels, enum kv_type type,
                                struct attention_audit *ret_audit, struct why *ret_why) MUST_USE;

#endif
