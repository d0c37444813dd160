/* metrics_release.c: samples of release_stats.def.
 *
 * HOW     A row of the table is a family here and a function of its name below, which prints its samples. States and verdicts are
 *         families of zeros and a one, so that an alert names the state it waits for.
 * ALWAYS  (1) Every row of the table is printed exactly once, with samples or without.   metrics_release
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/metrics_release.h"

#include <inttypes.h>

#include "sched/rollout.h"

enum { LABELS_ROOM = 64 };

static void print_flag(const struct metrics_printer *p, const char *name, bool flag)
{
    byte_buffer_format(p->out, "%s %d\n", name, flag);
}

static void print_generation_info(const struct metrics_printer *p, const struct metrics_release *r,
                                  const char *name)
{
    for (uint32_t i = 0; i < r->figures->n_generations; i++) {
        const struct release_figures *g = &r->figures->generations[i];
        byte_buffer_format(p->out, "%s{generation=\"%.16s\",name=\"", name, g->id);
        metrics_label_value(p->out, g->name);
        byte_buffer_format(p->out, "\",state=\"%s\",arm=\"%s\"} 1\n", g->state,
                           g->arm < ARM_COUNT ? arm_name(g->arm) : "none");
    }
}

/* A figure of each generation: offset bytes into its figures. */
static void print_figure(const struct metrics_printer *p, const struct metrics_release *r, const char *name,
                         size_t offset)
{
    for (uint32_t i = 0; i < r->figures->n_generations; i++) {
        const struct release_figures *g = &r->figures->generations[i];
        uint64_t value;
        memcpy(&value, (const char *)g + offset, sizeof value);
        byte_buffer_format(p->out, "%s{generation=\"%.16s\"} %" PRIu64 "\n", name, g->id, value);
    }
}

static void print_generation_loaded(const struct metrics_printer *p, const struct metrics_release *r,
                                    const char *name)
{
    for (uint32_t i = 0; i < r->figures->n_generations; i++)
        byte_buffer_format(p->out, "%s{generation=\"%.16s\"} %d\n", name, r->figures->generations[i].id,
                           r->figures->generations[i].is_loaded);
}

static void print_generation_weights_bytes(const struct metrics_printer *p, const struct metrics_release *r,
                                           const char *name)
{
    print_figure(p, r, name, offsetof(struct release_figures, weights_bytes));
}

static void print_generation_cache_bytes(const struct metrics_printer *p, const struct metrics_release *r,
                                         const char *name)
{
    print_figure(p, r, name, offsetof(struct release_figures, cache_bytes));
}

static bool is_taken(const struct release_stats_row *row)
{
    return row->generation[0] != '\0';
}

static void write_labels(const struct release_stats_row *row, char ret_labels[LABELS_ROOM])
{
    snprintf(ret_labels, LABELS_ROOM, "arm=\"%s\",generation=\"%s\"", arm_name(row->arm), row->generation);
}

static void print_count(const struct metrics_printer *p, const struct metrics_release *r, const char *name,
                        size_t offset)
{
    char labels[LABELS_ROOM];
    for (size_t i = 0; i < RELEASE_STATS_ROWS; i++) {
        const struct release_stats_row *row = &r->stats->rows[i];
        uint64_t value;
        memcpy(&value, (const char *)row + offset, sizeof value);
        write_labels(row, labels);
        if (is_taken(row))
            byte_buffer_format(p->out, "%s_total{%s} %" PRIu64 "\n", name, labels, value);
    }
}

static void print_generation_requests(const struct metrics_printer *p, const struct metrics_release *r,
                                      const char *name)
{
    print_count(p, r, name, offsetof(struct release_stats_row, requests));
}

static void print_generation_errors(const struct metrics_printer *p, const struct metrics_release *r,
                                    const char *name)
{
    print_count(p, r, name, offsetof(struct release_stats_row, errors));
}

static void print_generation_time_to_first_token(const struct metrics_printer *p, const struct metrics_release *r,
                                                 const char *name)
{
    char labels[LABELS_ROOM];
    for (size_t i = 0; i < RELEASE_STATS_ROWS; i++) {
        write_labels(&r->stats->rows[i], labels);
        if (is_taken(&r->stats->rows[i]))
            metrics_histogram(p, "", name, labels, &r->stats->rows[i].time_to_first_token);
    }
}

static void print_generation_time_per_output_token(const struct metrics_printer *p,
                                                   const struct metrics_release *r, const char *name)
{
    char labels[LABELS_ROOM];
    for (size_t i = 0; i < RELEASE_STATS_ROWS; i++) {
        write_labels(&r->stats->rows[i], labels);
        if (is_taken(&r->stats->rows[i]))
            metrics_histogram(p, "", name, labels, &r->stats->rows[i].time_per_output_token);
    }
}

static void print_release_epoch(const struct metrics_printer *p, const struct metrics_release *r,
                                const char *name)
{
    byte_buffer_format(p->out, "%s %" PRId64 "\n", name, r->figures->route.epoch);
}

static void print_release_writable(const struct metrics_printer *p, const struct metrics_release *r,
                                   const char *name)
{
    print_flag(p, name, r->figures->is_writable);
}

static void print_release_frozen(const struct metrics_printer *p, const struct metrics_release *r,
                                 const char *name)
{
    print_flag(p, name, r->figures->is_frozen);
}

static void print_rollback_blocked(const struct metrics_printer *p, const struct metrics_release *r,
                                   const char *name)
{
    print_flag(p, name, r->figures->is_blocked);
}

static bool is_text(const json_t *object, const char *key, const char *text)
{
    const char *found = json_string_value(json_object_get(object, key));
    return found != NULL && strcmp(found, text) == 0;
}

static void print_rollout_state(const struct metrics_printer *p, const struct metrics_release *r,
                                const char *name)
{
    const json_t *now = json_object_get(r->rollout, "now");
    for (int s = 0; s < ROLLOUT_STATE_COUNT; s++) {
        const char *state = rollout_state_name((enum rollout_state)s);
        byte_buffer_format(p->out, "%s{state=\"%s\"} %d\n", name, state, is_text(now, "state", state));
    }
}

static void print_rollout_step(const struct metrics_printer *p, const struct metrics_release *r, const char *name)
{
    const json_t *now = json_object_get(r->rollout, "now");
    json_int_t step = json_integer_value(json_object_get(now, "step"));
    bool has_served = json_is_true(json_object_get(now, "has_served"));
    byte_buffer_format(p->out, "%s %lld\n", name, has_served ? (long long)step + 1 : 0);
}

static void print_rollout_weight_ratio(const struct metrics_printer *p, const struct metrics_release *r,
                                       const char *name)
{
    byte_buffer_format(p->out, "%s %g\n", name, r->figures->route.weight_bp / (double)ARM_BUCKETS);
}

static void print_rollout_gate(const struct metrics_printer *p, const struct metrics_release *r, const char *name)
{
    const json_t *gates = json_object_get(r->rollout, "gates");
    size_t i;
    json_t *gate;
    json_array_foreach(gates, i, gate) {
        const char *key = json_string_value(json_object_get(gate, "gate"));
        for (int v = VERDICT_PASS; v <= VERDICT_NO_DATA && key != NULL; v++) {
            const char *verdict = gate_verdict_name((enum gate_verdict)v);
            byte_buffer_format(p->out, "%s{gate=\"", name);
            metrics_label_value(p->out, key);
            byte_buffer_format(p->out, "\",verdict=\"%s\"} %d\n", verdict, is_text(gate, "verdict", verdict));
        }
    }
}

void metrics_release(const struct metrics_printer *p, const struct metrics_release *release)
{
#define GAUGE "gauge", ""
#define COUNTER "counter", "_total"
#define HISTOGRAM "histogram", "_seconds"
#define RELEASE(name, kind, labels, unit, prose)                                                   \
    metrics_family(p, "foldkv_", #name, kind, prose);                                              \
    print_##name(p, release, "foldkv_" #name);
#include "server/release_stats.def"
#undef RELEASE
#undef GAUGE
#undef COUNTER
#undef HISTOGRAM
}
