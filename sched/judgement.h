/* judgement.h: what a receipt with gates comes to, derived again from the values that it holds.
 *
 * "gates" is a list of {name, sense: "at_most" | "at_least", limit, value, verdict}; limit and value are whole
 * numbers of one unit. A gate without a value cannot pass: its verdict is "pause", "fail", or
 * "not_measurable" where it says "is_declared": true (the plan said so before the start). "verdict" of the
 * receipt is the worst of its gates. Any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_JUDGEMENT_H
#define FOLDKV_SCHED_JUDGEMENT_H

#include "config/record.h"

enum judgement { JUDGEMENT_PASS, JUDGEMENT_PAUSE, JUDGEMENT_FAIL };

const char *judgement_text(enum judgement verdict);
/* RECEIPTS_DISAGREE names a gate whose verdict does not follow from its value, or that says nothing. */
enum status judgement_of(const struct record *receipt, enum judgement *ret_verdict,
                         struct why *ret_why) MUST_USE;

#endif
