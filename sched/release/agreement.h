/* agreement.h: whether the four receipts of a generation (checkpoint, cache, kernel plan, placement) describe
 * one and the same thing (M5.7 0x01).
 *
 * Each receipt is a record with "kind" and the fields that agreement.def asks of it; a plan that is of another
 * generation, another page layout, another rope order or a map that the kernel did not plan for is then a
 * field on which two receipts differ. Any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_AGREEMENT_H
#define FOLDKV_SCHED_AGREEMENT_H

#include "config/record.h"

enum agreement_receipt {
    RECEIPT_CHECKPOINT,
    RECEIPT_CACHE,
    RECEIPT_PLAN,
    RECEIPT_PLACEMENT,
    AGREEMENT_RECEIPTS
};

/* "checkpoint", "cache", "plan", "placement": a receipt's kind, and its key in a generation's row. */
const char *agreement_receipt_text(enum agreement_receipt receipt);

/* identity is what the generation was registered with (hex). RECEIPTS_DISAGREE: ret_why says it in a
 * line with both values side by side, and in parts: "field" and each receipt's value under its kind (of
 * unowned_query_heads: placement's and "allowed"). A record without json is a missing receipt. */
enum status agreement_check(const struct record receipts[AGREEMENT_RECEIPTS], const char *identity,
                            struct why *ret_why) MUST_USE;

#endif
