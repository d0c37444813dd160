/* evaluation_receipt.h: the outcome of an evaluation: which cells passed, what every gate says, and on what it rests.
 *
 * A generation may carry traffic only with a receipt that passes; its cells are what it may serve. A
 * receipt is derived again from its own evidence, as a rollout's are; which cells passed is evidence,
 * too, and stands under the hash that the registry keeps. Any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_EVALUATION_RECEIPT_H
#define FOLDKV_SCHED_EVALUATION_RECEIPT_H

#include "sched/evaluate/evaluation_cells.h"
#include "sched/judge/gate.h"

enum { EVALUATION_RECEIPT_BYTES_MAX = 1 << 20, CELL_FAILURES_MAX = 16 };

/* Why a cell did not pass. */
struct cell_failure {
    uint32_t cell;
    char why[160];
};

struct evaluation_result {
    uint8_t manifest[SHA256_BYTES]; /* hash of the manifest that was settled before the run */
    struct evaluation_cells cells;
    uint32_t n_failures; /* the first of them that there is room for; a receipt without any says nothing of it */
    struct cell_failure failures[CELL_FAILURES_MAX];
    struct gate_evidence evidence; /* over the whole run; the baseline stands in for control */
};

/* True if every gate passes and a cell did. */
bool evaluation_result_passes(const struct evaluation_result *result,
                              const struct gate_thresholds *thresholds);
/* ret_text is the caller's (mem_free); ret_hash may be NULL. NO_MEMORY. */
enum status evaluation_receipt_write(const struct evaluation_result *result,
                                     const struct gate_thresholds *thresholds, char **ret_text,
                                     uint8_t ret_hash[SHA256_BYTES]) MUST_USE;
/* Reads a receipt back and derives it again under the manifest's thresholds. BAD_FILE says what does
 * not follow; NO_MEMORY. */
enum status evaluation_receipt_read(struct slice receipt, const struct gate_thresholds *thresholds,
                                    struct evaluation_result *ret_result,
                                    struct why *ret_why) MUST_USE;

#endif
