/* ledger_report_json.c: a ledger's report as one JSON object on one line. */
// SPDX-License-Identifier: Apache-2.0
#include "config/ledger_report_priv.h"

#include <inttypes.h>

static const char *const arrangement_names[REPORT_ARRANGEMENTS] = {"model", "mha", "mqa"};

static void begin_json(struct text_buf *out, const struct ledger_report *r)
{
    text_buf_add(out,
                 "{\"tokens\":%" PRIu64 ",\"kv_type\":\"%s\",\"page_tokens\":%" PRIu32
                 ",\"grouped_temporary_bytes\":%d,\"layers\":[",
                 r->tokens, r->kv_type, r->page_tokens, LEDGER_GROUPED_TEMPORARY_BYTES);
}

static void columns_json(struct text_buf *out,
                         const struct report_column columns[REPORT_ARRANGEMENTS],
                         bool has_intensity)
{
    for (int a = 0; a < REPORT_ARRANGEMENTS; a++) {
        text_buf_add(out, "%s\"%s\":{", a == 0 ? "" : ",", arrangement_names[a]);
        for (int i = 0; i < REPORT_FIGURES; i++)
            text_buf_add(out, "%s\"%s\":%" PRIu64, i == 0 ? "" : ",", ledger_report_figures[i],
                         columns[a].figures[i]);
        if (has_intensity)
            text_buf_add(out, ",\"intensity_flop_per_byte\":%.6g", columns[a].intensity);
        text_buf_add(out, "}");
    }
}

static void placements_json(struct text_buf *out, const struct report_kind *kind)
{
    for (uint32_t i = 0; i < kind->n_placements; i++) {
        const struct report_placement *p = &kind->placements[i];
        text_buf_add(out,
                     "%s{\"ranks\":%" PRIu32 ",\"replicas_per_kv_head\":%" PRIu64
                     ",\"per_rank_bytes\":%" PRIu64 ",\"physical_bytes\":%" PRIu64
                     ",\"replica_append_bytes_per_token\":%" PRIu64
                     ",\"remote_history_bytes_if_not_replicated\":%" PRIu64 "}",
                     i == 0 ? "" : ",", p->ranks, p->replicas_most, p->rank_bytes,
                     p->physical_bytes, p->replica_append_bytes, p->remote_bytes);
    }
}

static void kind_json(struct text_buf *out, const struct ledger_report *r,
                      const struct report_kind *kind)
{
    const struct graph_layer *l = &r->graph->layers[kind->first];
    text_buf_add(out, "%s{\"layers\":[", kind->first == 0 ? "" : ",");
    ledger_report_list_layers(out, r->graph, kind->first, ",");
    text_buf_add(out,
                 "],\"query_heads\":%" PRIu32 ",\"d_qk\":%" PRIu32 ",\"d_v\":%" PRIu32
                 ",\"window\":%" PRIu32 ",\"group_least\":%" PRIu32 ",\"group_most\":%" PRIu32
                 ",\"arrangements\":{",
                 l->n_query_heads, l->d_qk, l->d_v, l->window, kind->group_least, kind->group_most);
    columns_json(out, kind->columns, true);
    text_buf_add(out, "},\"placement\":[");
    placements_json(out, kind);
    text_buf_add(out, "]}");
}

static void all_layers_json(struct text_buf *out, const struct ledger_report *r,
                            const struct report_column columns[REPORT_ARRANGEMENTS])
{
    (void)r;
    text_buf_add(out, "],\"all_layers\":{");
    columns_json(out, columns, false);
    text_buf_add(out, "},");
}

static void shared_json(struct text_buf *out, const struct report_shared *s)
{
    text_buf_add(out,
                 "\"pairs_of_layers_shared\":{\"producer_layers\":%" PRIu64
                 ",\"projection_parameters_before\":%" PRIu64
                 ",\"projection_parameters_after\":%" PRIu64 ",\"resident_history_before\":%" PRIu64
                 ",\"resident_history_after\":%" PRIu64
                 ",\"history_bytes_read_per_step_before\":%" PRIu64
                 ",\"history_bytes_read_per_step_after\":%" PRIu64 "},",
                 s->producers[1], s->projection_parameters[0], s->projection_parameters[1],
                 s->resident_bytes[0], s->resident_bytes[1], s->read_bytes[0], s->read_bytes[1]);
}

static void group_json(struct text_buf *out, const struct report_group *row)
{
    const struct graph_group *group = row->group;
    text_buf_add(out,
                 "%s{\"group\":%" PRIu32 ",\"layers\":%" PRIu32 ",\"kv_heads\":%" PRIu32
                 ",\"d_qk\":%" PRIu32 ",\"d_v\":%" PRIu32 ",\"window\":%" PRIu32
                 ",\"page_bytes\":%" PRIu64 ",\"pages_pinned_at_T\":%" PRIu64
                 ",\"bytes_pinned_at_T\":%" PRIu64 "}",
                 row->i == 0 ? "\"cache_groups\":[" : ",", row->i, group->n_layers, group->n_heads,
                 group->d_qk, group->d_v, group->window, row->page_bytes, row->pages_pinned,
                 row->bytes_pinned);
}

static void end_json(struct text_buf *out)
{
    text_buf_add(out, "]}\n");
}

const struct report_form ledger_report_as_json = {begin_json,  kind_json,  all_layers_json,
                                                  shared_json, group_json, end_json};
