/* metrics_release.c: samples of release_stats.def.
 *
 * HOW     A row of the table is a family here and a function of its name below, which prints its samples. States and verdicts are
 *         families of zeros and a one, so that an alert names the state it waits for.
 * ALWAYS  (1) Every row of the table is printed exactly once, with samples or without.   metrics_release
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/metrics_release.h"

#include <inttypes.h>

#include "sched/judge/rollout.h"

enum { LABELS_ROOM = 64 };

static void print_flag(const struct metrics_printer *p, const char *name, bool flag)
{
    byte_buffer_format(p->out, "%s %d\n", name, flag);
}

static void print_kernels_info(const struct metrics_printer *p, const struct metrics_release *r, const char *name)
{
    if (r->isa != NULL)
        byte_buffer_format(p->out, "%s{isa=\"%s\",numerics=\"%s\",plan=\"%s\"} 1\n", name, r->isa, r->numerics, r->plan);
}

/* A generation may have several lanes (stable and control): a sample names it once. */
static bool is_told(const struct releases_figures *f, uint32_t i, bool by_arm)
{
    const struct release_figures *g = &f->generations[i];
    for (uint32_t j = 0; j < i; j++)
        if (strcmp(f->generations[j].id, g->id) == 0 && (!by_arm || f->generations[j].arm == g->arm))
            return true;
    return false;
}

static void print_generation_info(const struct metrics_printer *p, const struct metrics_release *r,
                                  const char *name)
{
    for (uint32_t i = 0; i < r->figures->n_generations; i++) {
        const struct release_figures *g = &r->figures->generations[i];
        if (is_told(r->figures, i, true))
            continue;
        byte_buffer_format(p->out, "%s{generation=\"%.16s\",name=\"", name, g->id);
        metrics_label_value(p->out, g->name);
        byte_buffer_format(p->out, "\",arm=\"%s\"} 1\n", g->arm < ARM_COUNT ? arm_name(g->arm) : "none");
    }
}

/* What the lanes of one generation have together. */
struct lanes_sum {
    bool is_loaded;
    uint64_t weights_bytes, cache_bytes;
};

static struct lanes_sum sum_of(const struct releases_figures *f, const char *id)
{
    struct lanes_sum sum = {0};
    for (uint32_t i = 0; i < f->n_generations; i++) {
        const struct release_figures *g = &f->generations[i];
        if (strcmp(g->id, id) != 0)
            continue;
        sum.is_loaded |= g->is_loaded;
        sum.weights_bytes = g->weights_bytes > sum.weights_bytes ? g->weights_bytes : sum.weights_bytes;
        sum.cache_bytes += g->cache_bytes;
    }
    return sum;
}

static void print_lanes(const struct metrics_printer *p, const struct metrics_release *r, const char *name,
                        uint64_t (*value)(const struct lanes_sum *sum))
{
    for (uint32_t i = 0; i < r->figures->n_generations; i++) {
        struct lanes_sum sum = sum_of(r->figures, r->figures->generations[i].id);
        if (!is_told(r->figures, i, false))
            byte_buffer_format(p->out, "%s{generation=\"%.16s\"} %" PRIu64 "\n", name,
                               r->figures->generations[i].id, value(&sum));
    }
}

static uint64_t loaded_of(const struct lanes_sum *sum)
{
    return sum->is_loaded;
}

static uint64_t weights_of(const struct lanes_sum *sum)
{
    return sum->weights_bytes; /* of the previous generation they stay without a lane */
}

static uint64_t cache_of(const struct lanes_sum *sum)
{
    return sum->cache_bytes;
}

static void print_generation_loaded(const struct metrics_printer *p, const struct metrics_release *r,
                                    const char *name)
{
    print_lanes(p, r, name, loaded_of);
}

static void print_generation_weights_bytes(const struct metrics_printer *p, const struct metrics_release *r,
                                           const char *name)
{
    print_lanes(p, r, name, weights_of);
}

static void print_generation_cache_bytes(const struct metrics_printer *p, const struct metrics_release *r,
                                         const char *name)
{
    print_lanes(p, r, name, cache_of);
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

static void print_rollout_state(const struct metrics_printer *p, const struct metrics_release *r,
                                const char *name)
{
    const struct release_rollout_figures *f = &r->figures->rollout;
    for (int s = 0; s < ROLLOUT_STATE_COUNT; s++)
        byte_buffer_format(p->out, "%s{state=\"%s\"} %d\n", name, rollout_state_name((enum rollout_state)s),
                           f->is_there && f->now.state == (enum rollout_state)s);
}

static void print_rollout_step(const struct metrics_printer *p, const struct metrics_release *r, const char *name)
{
    const struct release_rollout_figures *f = &r->figures->rollout;
    byte_buffer_format(p->out, "%s %u\n", name, f->is_there && f->now.has_served ? f->now.step + 1 : 0);
}

static void print_rollout_weight_ratio(const struct metrics_printer *p, const struct metrics_release *r,
                                       const char *name)
{
    byte_buffer_format(p->out, "%s %g\n", name, r->figures->route.weight_bp / (double)ARM_BUCKETS);
}

static void print_rollout_gate(const struct metrics_printer *p, const struct metrics_release *r, const char *name)
{
    const struct release_rollout_figures *f = &r->figures->rollout;
    for (int g = 0; f->has_verdicts && g < GATE_COUNT; g++)
        for (int v = VERDICT_PASS; v <= VERDICT_NO_DATA; v++)
            byte_buffer_format(p->out, "%s{gate=\"%s\",verdict=\"%s\"} %d\n", name, gate_rows[g].key,
                               gate_verdict_name((enum gate_verdict)v), f->verdicts[g] == (enum gate_verdict)v);
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
