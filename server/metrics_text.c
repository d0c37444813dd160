/* metrics_text.c: rows of the two tables, printed.
 *
 * HOW     A family is HELP, TYPE and samples. The two formats differ in three places only: where _total stands, the header of a
 *         histogram's family, and the end mark.
 * ALWAYS  (1) Every row of both tables is printed exactly once.
 * THREAD  any
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/metrics_text.h"

#include <inttypes.h>

#include "server/metrics_family.h"

enum stat_kind { COUNTER, GAUGE };

static void print_stat(const struct metrics_printer *p, enum stat_kind kind, const char *name,
                       uint64_t value, const char *prose)
{
    const char *suffix = kind == COUNTER ? "_total" : "";
    metrics_family(p, "foldkv_", name, kind == COUNTER ? "counter" : "gauge", suffix, prose);
    byte_buffer_format(p->out, "foldkv_%s%s %" PRIu64 "\n", name, suffix, value);
}

static void print_histogram(const struct metrics_printer *p, const char *prefix, const char *name,
                            const struct histogram *h, const char *prose)
{
    metrics_family(p, prefix, name, "histogram", "_seconds", prose);
    metrics_histogram(p, prefix, name, "", h);
}

/* Every status code that was answered. */
static void print_http_responses(const struct metrics_printer *p, const struct server_stats *s,
                                 const char *label, const char *prose)
{
    metrics_family(p, "foldkv_", "http_responses", "counter", "_total", prose);
    for (size_t i = 0; i < ARRAY_LEN(s->http_responses); i++)
        if (s->http_responses[i] > 0)
            byte_buffer_format(p->out, "foldkv_http_responses_total{%s=\"%zu\"} %" PRIu64 "\n",
                               label, i + SERVER_STATS_CODE_LEAST, s->http_responses[i]);
}

static void print_completions(const struct metrics_printer *p, const struct server_stats *s,
                              const char *label, const char *prose)
{
    metrics_family(p, "foldkv_", "completions", "counter", "_total", prose);
    for (int i = 0; i < OUTCOME_COUNT; i++)
        byte_buffer_format(p->out, "foldkv_completions_total{%s=\"%s\"} %" PRIu64 "\n", label,
                           completion_outcome_name((enum completion_outcome)i), s->completions[i]);
}

static void group_labels(const struct metrics_printer *p, size_t index, const struct group_stats *g)
{
    byte_buffer_format(p->out, "{group=\"%zu\",heads=\"%" PRIu64 "\",window=\"%" PRIu64 "\"}",
                       index, g->heads, g->window);
}

/* A family of the cache groups': a sample each. The figures are offset bytes into their counters. */
static void print_group_stat(const struct metrics_printer *p, const struct engine_stats *engine,
                             enum stat_kind kind, const char *name, size_t offset,
                             const char *prose)
{
    const char *suffix = kind == COUNTER ? "_total" : "";
    metrics_family(p, "foldkv_group_", name, kind == COUNTER ? "counter" : "gauge", suffix, prose);
    for (size_t i = 0; i < engine->n_groups; i++) {
        const struct group_stats *g = &engine->groups[i];
        uint64_t value;
        memcpy(&value, (const char *)g + offset, sizeof value);
        byte_buffer_format(p->out, "foldkv_group_%s%s", name, suffix);
        group_labels(p, i, g);
        byte_buffer_format(p->out, " %" PRIu64 "\n", value);
    }
}

static void print_groups(const struct metrics_printer *p, const struct engine_stats *engine)
{
#define STAT(kind, name, unit, prose)                                                              \
    print_group_stat(p, engine, kind, #name, offsetof(struct group_stats, name), prose);
#include "sched/group_stats.def"
#undef STAT
}

static void print_tables(const struct metrics_printer *p, const struct engine_stats *engine,
                         const struct server_stats *server)
{
#define STAT(kind, name, unit, prose) print_stat(p, kind, #name, engine->name, prose);
#include "sched/engine_stats.def"
#undef STAT
    print_groups(p, engine);
#define STAT(kind, name, unit, prose) print_stat(p, kind, #name, server->name, prose);
#define HISTOGRAM(name, prose) print_histogram(p, "foldkv_", #name, &server->name, prose);
#define LABELLED(name, label, prose) print_##name(p, server, label, prose);
#include "server/server_stats.def"
#undef STAT
#undef HISTOGRAM
#undef LABELLED
}

static void print_about(const struct metrics_printer *p, const struct metrics_about *about)
{
    metrics_family(p, "foldkv_", "build_info", "gauge", "",
           "1, with the version, the model and its generation as labels.");
    byte_buffer_text(p->out, "foldkv_build_info{version=\"" FOLDKV_VERSION "\",model=\"");
    metrics_label_value(p->out, about->model_name);
    byte_buffer_format(p->out, "\",generation=\"%s\"} 1\n", about->generation);
    metrics_family(p, "process_", "start_time", "gauge", "_seconds",
           "Start time of the process since the Unix epoch.");
    byte_buffer_format(p->out, "process_start_time_seconds %" PRIu64 "\n", about->process_start_s);
    metrics_family(p, "process_", "resident_memory", "gauge", "_bytes", "Resident memory.");
    byte_buffer_format(p->out, "process_resident_memory_bytes %" PRIu64 "\n",
                       about->resident_bytes);
    metrics_family(p, "process_", "open_fds", "gauge", "", "Open file descriptors.");
    byte_buffer_format(p->out, "process_open_fds %u\n", about->open_descriptors);
}

static void print_value(const struct metrics_printer *p, const char *name, const char *type,
                        const char *prose, double value)
{
    const char *suffix = strcmp(type, "counter") == 0 ? "_total" : "";
    metrics_family(p, "vllm:", name, type, suffix, prose);
    byte_buffer_format(p->out, "vllm:%s%s %.9g\n", name, suffix, value);
}

static double cache_usage(const struct engine_stats *e)
{
    double most = 0;
    for (size_t i = 0; i < e->n_groups; i++) {
        const struct group_stats *g = &e->groups[i];
        double usage = g->blocks > 0 ? (double)g->blocks_used / (double)g->blocks : 0;
        most = usage > most ? usage : most;
    }
    return most;
}

/* The names that routers and dashboards hard-code. */
static void print_compatible(const struct metrics_printer *p, const struct engine_stats *e,
                             const struct server_stats *s, const struct metrics_about *about)
{
    double usage = cache_usage(e);
    print_value(p, "num_requests_running", "gauge", "As foldkv_requests_running.",
                (double)e->requests_running);
    print_value(p, "num_requests_waiting", "gauge", "As foldkv_requests_waiting.",
                (double)e->requests_waiting);
    print_value(p, "kv_cache_usage_perc", "gauge",
                "Blocks used over blocks, 0 to 1, of the cache group where that is most.", usage);
    print_value(p, "gpu_cache_usage_perc", "gauge", "The same under its older name.", usage);
    print_value(p, "prefix_cache_queries", "counter", "As foldkv_prefix_lookup_tokens_total.",
                (double)e->prefix_lookup_tokens);
    print_value(p, "prefix_cache_hits", "counter", "As foldkv_prefix_hit_tokens_total.",
                (double)e->prefix_hit_tokens);
    metrics_family(p, "vllm:", "cache_config_info", "gauge", "",
           "1, with the block size and the number of blocks as labels.");
    byte_buffer_format(
        p->out, "vllm:cache_config_info{block_size=\"%u\",num_gpu_blocks=\"%" PRIu64 "\"} 1\n",
        about->page_tokens, e->blocks);
    print_histogram(p, "vllm:", "time_to_first_token", &s->time_to_first_token,
                    "As foldkv_time_to_first_token_seconds.");
    print_histogram(p, "vllm:", "e2e_request_latency", &s->request_time,
                    "As foldkv_request_time_seconds.");
    print_histogram(p, "vllm:", "request_time_per_output_token", &s->time_per_output_token,
                    "As foldkv_time_per_output_token_seconds.");
}

void metrics_text(const struct engine_stats *engine, const struct server_stats *server,
                  const struct metrics_about *about, bool is_openmetrics, struct byte_buffer *text)
{
    struct metrics_printer p = {text, is_openmetrics};
    print_tables(&p, engine, server);
    if (about->release != NULL)
        metrics_release(&p, about->release);
    print_about(&p, about);
    print_compatible(&p, engine, server, about);
    if (is_openmetrics)
        byte_buffer_text(text, "# EOF\n");
}

static const char *kind_name(enum stat_kind kind)
{
    return kind == COUNTER ? "counter" : "gauge";
}

static void reference_row(struct byte_buffer *out, const char *name, const char *suffix,
                          const char *type, const char *unit, const char *prose)
{
    byte_buffer_format(out, "| `foldkv_%s%s` | %s | %s | %s |\n", name, suffix, type, unit, prose);
}

static void release_row(struct byte_buffer *out, const char *name, const char *suffix, const char *type,
                        const char *labels, const char *unit, const char *prose)
{
    byte_buffer_format(out, "| `foldkv_%s%s%s%s%s` | %s | %s | %s |\n", name, suffix, labels[0] != '\0' ? "{" : "",
                       labels, labels[0] != '\0' ? "}" : "", type, unit, prose);
}

void metrics_reference(struct byte_buffer *out)
{
    byte_buffer_text(out, "# Metrics\n\nTo begin with: `foldkv_requests_waiting` and `foldkv_requests_running` say how busy it is, "
                          "`foldkv_blocks_free` how much cache is left, and the histograms below what clients wait for. "
                          "`deploy/alerts.yaml` has rules for releases.\n\nMade from `sched/engine_stats.def`, `sched/group_stats.def`, "
                          "`server/server_stats.def` and `server/release_stats.def` by `foldkv help metrics`; not "
                          "edited by hand.\n\n`GET /metrics` prints them as Prometheus text 0.0.4, "
                          "or as OpenMetrics 1.0 where "
                          "`Accept` asks for\n`application/openmetrics-text`. At every moment\n\n  "
                          "  requests_admitted = requests_finished "
                          "+ requests_aborted + requests_failed + requests_running + "
                          "requests_waiting\n\n## The engine\n\n"
                          "| name | type | unit | meaning |\n|---|---|---|---|\n");
#define STAT(kind, name, unit, prose)                                                              \
    reference_row(out, #name, kind == COUNTER ? "_total" : "", kind_name(kind), unit, prose);
#include "sched/engine_stats.def"
#undef STAT
    byte_buffer_text(out,
                     "\n## Each cache group\n\nA cache group is the layers whose K/V heads, "
                     "widths and window are the same; it has a page pool of its own.\nEvery "
                     "figure has the labels `group` (from 0), `heads` (K/V heads of a layer) "
                     "and `window` (tokens; 0: none).\nThe sums over the groups are among the "
                     "engine's figures. Expected bytes are the ledger's, from heads and "
                     "widths;\nresident bytes are what the allocator mapped; expected + scales "
                     "+ rounding = resident.\n\n| name | type | unit | meaning "
                     "|\n|---|---|---|---|\n");
#define STAT(kind, name, unit, prose)                                                              \
    reference_row(out, "group_" #name, kind == COUNTER ? "_total" : "", kind_name(kind), unit,     \
                  prose);
#include "sched/group_stats.def"
#undef STAT
#define STAT(kind, name, unit, prose)                                                              \
    reference_row(out, #name, kind == COUNTER ? "_total" : "", kind_name(kind), unit, prose);
    byte_buffer_text(out,
                     "\n## The server\n\n| name | type | unit | meaning |\n|---|---|---|---|\n");
#define HISTOGRAM(name, prose) reference_row(out, #name, "_seconds", "histogram", "seconds", prose);
#define LABELLED(name, label, prose)                                                               \
    reference_row(out, #name, "_total{" label "=}", "counter", "", prose);
#include "server/server_stats.def"
#undef STAT
#undef HISTOGRAM
#undef LABELLED
    byte_buffer_text(out, "\n## Generations and rollouts\n\n`generation` is the first 16 hex digits of a generation's id, "
                          "`arm` one of stable, control and canary; what an arm is for is in "
                          "[release.md](release.md).\n`deploy/alerts.yaml` has alert rules over them.\n\n"
                          "| name | type | unit | meaning |\n|---|---|---|---|\n");
#define GAUGE "", "gauge"
#define COUNTER "_total", "counter"
#define HISTOGRAM "_seconds", "histogram"
#define RELEASE(name, kind, labels, unit, prose) release_row(out, #name, kind, labels, unit, prose);
#include "server/release_stats.def"
#undef RELEASE
#undef GAUGE
#undef COUNTER
#undef HISTOGRAM
    byte_buffer_text(
        out,
        "\nBeside them: `foldkv_build_info` and `process_start_time_seconds`, "
        "`process_resident_memory_bytes`, "
        "`process_open_fds`.\n\n## Names that routers and dashboards "
        "expect\n\n`vllm:num_requests_running`, "
        "`vllm:num_requests_waiting`, `vllm:kv_cache_usage_perc`, `vllm:gpu_cache_usage_perc`,\n"
        "`vllm:cache_config_info{block_size,num_gpu_blocks}`, `vllm:prefix_cache_queries_total`, "
        "`vllm:prefix_cache_hits_total`,\n`vllm:time_to_first_token_seconds`, "
        "`vllm:e2e_request_latency_seconds`, "
        "`vllm:request_time_per_output_token_seconds` repeat\nthe figures above under those "
        "names.\n");
}
