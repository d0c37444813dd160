/* ledger_report.h: M5.7's tables for one graph at one length: what each layer's attention costs as
 * it is and at the endpoints MHA and MQA, all layers together, the ranks it could be placed on, and
 * the pages each cache group pins. Any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CONFIG_LEDGER_REPORT_H
#define FOLDKV_CONFIG_LEDGER_REPORT_H

#include "config/graph.h"
#include "config/ledger.h"

struct ledger_report {
    const struct graph *graph;
    const char *kv_type;     /* "f16" */
    uint32_t kv_bytes;       /* an element of K or V */
    uint32_t kv_scale_bytes; /* a token and head; 0: none */
    uint32_t page_tokens;
    uint64_t tokens; /* T */
};

/* A layer as the formulas take it. */
struct ledger_shape ledger_report_shape(const struct ledger_report *report, uint32_t layer);

/* One JSON object on one line, or text; both end in a newline. The caller's, freed with mem_free;
 * NULL without memory. */
char *ledger_report_json(const struct ledger_report *report) MUST_USE;
char *ledger_report_text(const struct ledger_report *report) MUST_USE;

#endif
