/* ledger_report_text.c: a ledger's report as tables for a person. */
// SPDX-License-Identifier: Apache-2.0
#include "config/ledger_report_priv.h"

#include <inttypes.h>

static void begin_text(struct text_buf *out, const struct ledger_report *r)
{
    text_buf_add(out, "ledger at T = %" PRIu64 ", K/V %s, pages of %" PRIu32 " tokens\n\n",
                 r->tokens, r->kv_type, r->page_tokens);
}

static void columns_text(struct text_buf *out,
                         const struct report_column columns[REPORT_ARRANGEMENTS],
                         bool has_intensity)
{
    text_buf_add(out, "  %-28s %18s %18s %18s\n", "", "this model", "as MHA", "as MQA");
    for (int i = 0; i < REPORT_FIGURES; i++)
        text_buf_add(out, "  %-28s %18" PRIu64 " %18" PRIu64 " %18" PRIu64 "\n",
                     ledger_report_figures[i], columns[0].figures[i], columns[1].figures[i],
                     columns[2].figures[i]);
    if (has_intensity)
        text_buf_add(out, "  %-28s %18.4g %18.4g %18.4g\n", "intensity_flop_per_byte",
                     columns[0].intensity, columns[1].intensity, columns[2].intensity);
}

static void kind_text(struct text_buf *out, const struct ledger_report *r,
                      const struct report_kind *kind)
{
    const struct graph_layer *l = &r->graph->layers[kind->first];
    text_buf_add(out, "layers ");
    ledger_report_list_layers(out, r->graph, kind->first, " ");
    text_buf_add(out,
                 "\n  %" PRIu32 " query heads, %" PRIu32 " to %" PRIu32
                 " on a K head, d_qk %" PRIu32 ", d_v %" PRIu32 ", window %" PRIu32
                 "; one of these layers, one request\n",
                 l->n_query_heads, kind->group_least, kind->group_most, l->d_qk, l->d_v, l->window);
    columns_text(out, kind->columns, true);
    text_buf_add(out, "  %-5s %12s %16s %16s %16s %16s\n", "ranks", "replicas", "bytes a rank",
                 "bytes on all", "replica append", "remote history");
    for (uint32_t i = 0; i < kind->n_placements; i++) {
        const struct report_placement *p = &kind->placements[i];
        text_buf_add(out,
                     "  %-5" PRIu32 " %12" PRIu64 " %16" PRIu64 " %16" PRIu64 " %16" PRIu64
                     " %16" PRIu64 "\n",
                     p->ranks, p->replicas_most, p->rank_bytes, p->physical_bytes,
                     p->replica_append_bytes, p->remote_bytes);
    }
    text_buf_add(out, "\n");
}

static void all_layers_text(struct text_buf *out, const struct ledger_report *r,
                            const struct report_column columns[REPORT_ARRANGEMENTS])
{
    text_buf_add(out, "all %" PRIu32 " layers\n", r->graph->n_layers);
    columns_text(out, columns, false);
}

static void shared_text(struct text_buf *out, const struct report_shared *s)
{
    const struct {
        const char *name;
        const uint64_t *values;
    } rows[] = {{"layers that make K/V", s->producers},
                {"projection_parameters", s->projection_parameters},
                {"resident_history_bytes", s->resident_bytes},
                {"history_bytes_read_per_step", s->read_bytes}};
    text_buf_add(out, "\nif pairs of layers shared K/V   %16s %16s\n", "as it is", "shared");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        text_buf_add(out, "  %-28s  %16" PRIu64 " %16" PRIu64 "\n", rows[i].name, rows[i].values[0],
                     rows[i].values[1]);
}

static void group_text(struct text_buf *out, const struct report_group *row)
{
    const struct graph_group *group = row->group;
    if (row->i == 0)
        text_buf_add(out, "\n%-13s %7s %8s %6s %6s %8s %12s %12s %16s\n", "cache group", "layers",
                     "kv heads", "d_qk", "d_v", "window", "page bytes", "pages at T", "bytes at T");
    text_buf_add(out,
                 "  %-11" PRIu32 " %7" PRIu32 " %8" PRIu32 " %6" PRIu32 " %6" PRIu32 " %8" PRIu32
                 " %12" PRIu64 " %12" PRIu64 " %16" PRIu64 "\n",
                 row->i, group->n_layers, group->n_heads, group->d_qk, group->d_v, group->window,
                 row->page_bytes, row->pages_pinned, row->bytes_pinned);
}

static void end_text(struct text_buf *out)
{
    (void)out;
}

const struct report_form ledger_report_as_text = {begin_text,  kind_text,  all_layers_text,
                                                  shared_text, group_text, end_text};
