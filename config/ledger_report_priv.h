/* ledger_report_priv.h: the rows of a ledger's report, and the two forms that print them. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CONFIG_LEDGER_REPORT_PRIV_H
#define FOLDKV_CONFIG_LEDGER_REPORT_PRIV_H

#include "config/ledger_report.h"
#include "config/text_buf.h"

enum {
    REPORT_ARRANGEMENTS = 3,
    REPORT_FIGURES = 9,
    REPORT_RANKS_MAX = 16
}; /* the model's own, MHA, MQA */

/* The names of a column's figures. */
extern const char *const ledger_report_figures[REPORT_FIGURES];

struct report_column {
    uint64_t figures[REPORT_FIGURES];
    double intensity;
};

/* One number of ranks. */
struct report_placement {
    uint32_t ranks;
    uint64_t replicas_most, rank_bytes, physical_bytes, replica_append_bytes, remote_bytes;
};

/* Layers alike: the first stands for all of them. */
struct report_kind {
    uint32_t first, group_least, group_most; /* query heads on a K head */
    struct report_column columns[REPORT_ARRANGEMENTS];
    uint32_t n_placements;
    struct report_placement placements[REPORT_RANKS_MAX];
};

/* 0x08: the model as it is, and as if every second layer read the K/V of the layer before it. */
struct report_shared {
    uint64_t producers[2], projection_parameters[2], resident_bytes[2], read_bytes[2];
};

struct report_group {
    uint32_t i;
    const struct graph_group *group;
    uint64_t page_bytes, pages_pinned, bytes_pinned;
};

/* How the rows look; called in this order, each as often as there are rows. */
struct report_form {
    void (*begin)(struct text_buf *out, const struct ledger_report *r);
    void (*kind)(struct text_buf *out, const struct ledger_report *r,
                 const struct report_kind *kind);
    void (*all_layers)(struct text_buf *out, const struct ledger_report *r,
                       const struct report_column columns[REPORT_ARRANGEMENTS]);
    void (*shared)(struct text_buf *out, const struct report_shared *shared);
    void (*group)(struct text_buf *out, const struct report_group *row);
    void (*end)(struct text_buf *out);
};

extern const struct report_form ledger_report_as_json, ledger_report_as_text;

/* The numbers of the layers that are like first, itself the first. */
void ledger_report_list_layers(struct text_buf *out, const struct graph *g, uint32_t first,
                               const char *between);

#endif
