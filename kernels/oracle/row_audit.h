/* row_audit.h: one operation of one instruction set, attention apart, run here and now: against the
 * scalar set's bits and against double arithmetic. For evidence and tests; one call at a time in a
 * process, since the allocation counter is the process's. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_ORACLE_ROW_AUDIT_H
#define FOLDKV_KERNELS_ORACLE_ROW_AUDIT_H

#include "kernels/kernel.h"

struct row_audit {
    bool same_as_scalar;
    bool is_near;              /* every value within rounding of double arithmetic */
    double error_max;          /* greatest difference, relative to the greatest value */
    uint64_t allocation_calls; /* during the kernel's runs, as the counter says */
};

/* False if the audit does not know the operation. */
bool row_audit_knows(const char *op);
/* op as kernels.def has it, "rms_norm" or "matmul_q4_1"; it must be known (asserted). NO_MEMORY. */
enum status row_audit_run(const char *op, const struct kernels *kernels,
                          struct row_audit *ret_audit) MUST_USE;

#endif
