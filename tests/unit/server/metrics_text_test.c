/* metrics_text_test.c: every row of both tables appears once, with prose and type, under a name of the grammar; histograms add up. */
// SPDX-License-Identifier: Apache-2.0
#include "server/metrics_text.h"

#include "config/mem.h"
#include "tests/support/suite_run.h"

enum { TEXT_MAX = 1 << 20 };

static char *print(const struct engine_stats *engine, const struct server_stats *server,
                   bool is_openmetrics)
{
    struct metrics_about about = {
        .model_name = "a \"b\" \\c", .generation = "0123", .page_tokens = 64};
    struct byte_buffer text;
    byte_buffer_init(&text, TEXT_MAX);
    metrics_text(engine, server, &about, is_openmetrics, &text);
    byte_buffer_append(&text, "", 1);
    ck_assert(!text.failed);
    return text.bytes;
}

/* How many lines begin with start. */
static int count_lines(const char *text, const char *start)
{
    int n = 0;
    for (const char *line = text; line != NULL; line = strchr(line, '\n'), line += line != NULL)
        n += strncmp(line, start, strlen(start)) == 0;
    return n;
}

static void require_family(const char *text, const char *name, const char *type)
{
    char line[256];
    snprintf(line, sizeof line, "# HELP %s ", name);
    ck_assert_msg(count_lines(text, line) == 1, "%s has no prose, or twice", name);
    snprintf(line, sizeof line, "# TYPE %s %s\n", name, type);
    ck_assert_msg(count_lines(text, line) == 1, "%s has no type %s, or twice", name, type);
    ck_assert_msg(strspn(name, "abcdefghijklmnopqrstuvwxyz_") == strlen(name), "%s is no name",
                  name);
}

START_TEST(every_row_appears_once)
{
    struct engine_stats engine = {0};
    struct server_stats server = {0};
    char *text = print(&engine, &server, false);
#define COUNTER_NAME(name) "foldkv_" #name "_total"
#define GAUGE_NAME(name) "foldkv_" #name
#define COUNTER_TYPE "counter"
#define GAUGE_TYPE "gauge"
#define STAT(kind, name, unit, prose) require_family(text, kind##_NAME(name), kind##_TYPE);
#include "sched/engine_stats.def"
#undef STAT
#undef GAUGE_NAME
#undef COUNTER_NAME
#define COUNTER_NAME(name) "foldkv_group_" #name "_total"
#define GAUGE_NAME(name) "foldkv_group_" #name
#define STAT(kind, name, unit, prose) require_family(text, kind##_NAME(name), kind##_TYPE);
#include "sched/group_stats.def"
#undef STAT
#undef GAUGE_NAME
#undef COUNTER_NAME
#define COUNTER_NAME(name) "foldkv_" #name "_total"
#define GAUGE_NAME(name) "foldkv_" #name
#define STAT(kind, name, unit, prose) require_family(text, kind##_NAME(name), kind##_TYPE);
#define HISTOGRAM(name, prose) require_family(text, "foldkv_" #name "_seconds", "histogram");
#define LABELLED(name, label, prose) require_family(text, COUNTER_NAME(name), "counter");
#include "server/server_stats.def"
#undef STAT
#undef HISTOGRAM
#undef LABELLED
    mem_free(text);
}
END_TEST

START_TEST(values_are_printed)
{
    struct engine_stats engine = {.requests_running = 7,
                                  .prompt_tokens = 18446744073709551615u,
                                  .blocks = 10,
                                  .n_groups = 2};
    engine.groups[0] = (struct group_stats){.heads = 1, .blocks = 8, .blocks_used = 2};
    engine.groups[1] = (struct group_stats){
        .heads = 4, .window = 512, .blocks = 2, .blocks_used = 1, .evicted_blocks = 9};
    struct server_stats server = {0};
    server.http_responses[404 - SERVER_STATS_CODE_LEAST] = 3;
    server.completions[OUTCOME_STOP] = 2;
    char *text = print(&engine, &server, false);
    static const char *const lines[] = {
        "foldkv_requests_running 7\n",
        "foldkv_prompt_tokens_total 18446744073709551615\n",
        "foldkv_group_blocks_used{group=\"0\",heads=\"1\",window=\"0\"} 2\n",
        "foldkv_group_blocks_used{group=\"1\",heads=\"4\",window=\"512\"} 1\n",
        "foldkv_group_evicted_blocks_total{group=\"1\",heads=\"4\",window=\"512\"} 9\n",
        "foldkv_http_responses_total{code=\"404\"} 3\n",
        "foldkv_completions_total{outcome=\"stop\"} 2\n",
        "foldkv_completions_total{outcome=\"refused\"} 0\n",
        "vllm:num_requests_running 7\n",
        "vllm:kv_cache_usage_perc 0.5\n",
        "vllm:gpu_cache_usage_perc 0.5\n",
        "vllm:prefix_cache_queries_total 0\n",
        "vllm:prefix_cache_hits_total 0\n",
        "vllm:cache_config_info{block_size=\"64\",num_gpu_blocks=\"10\"} 1\n",
        "vllm:time_to_first_token_seconds_count 0\n",
        "vllm:e2e_request_latency_seconds_count 0\n",
        "vllm:request_time_per_output_token_seconds_count 0\n",
        "foldkv_build_info{version=\"" FOLDKV_VERSION
        "\",model=\"a \\\"b\\\" \\\\c\",generation=\"0123\"} 1\n",
    };
    for (size_t i = 0; i < ARRAY_LEN(lines); i++)
        ck_assert_msg(count_lines(text, lines[i]) == 1, "%s", lines[i]);
    mem_free(text);
}
END_TEST

START_TEST(histograms_add_up)
{
    struct engine_stats engine = {0};
    struct server_stats server = {0};
    static const double samples[] = {0, 0.0005, 0.0006, 0.01, 0.5, 119, 121, 1000};
    for (size_t i = 0; i < ARRAY_LEN(samples); i++)
        histogram_add(&server.inter_token, samples[i]);
    char *text = print(&engine, &server, false);
    static const char *const lines[] = {
        "foldkv_inter_token_seconds_bucket{le=\"0.0005\"} 2\n",
        "foldkv_inter_token_seconds_bucket{le=\"0.001\"} 3\n",
        "foldkv_inter_token_seconds_bucket{le=\"0.005\"} 3\n",
        "foldkv_inter_token_seconds_bucket{le=\"0.01\"} 4\n",
        "foldkv_inter_token_seconds_bucket{le=\"0.5\"} 5\n",
        "foldkv_inter_token_seconds_bucket{le=\"120\"} 6\n",
        "foldkv_inter_token_seconds_bucket{le=\"+Inf\"} 8\n",
        "foldkv_inter_token_seconds_count 8\n",
        "foldkv_inter_token_seconds_sum 1240.5111\n",
    };
    for (size_t i = 0; i < ARRAY_LEN(lines); i++)
        ck_assert_msg(count_lines(text, lines[i]) == 1, "%s", lines[i]);
    ck_assert_double_eq_tol(histogram_mean(&server.inter_token), 1240.5111 / 8, 1e-9);
    mem_free(text);
}
END_TEST

START_TEST(openmetrics_differs_where_it_must)
{
    struct engine_stats engine = {0};
    struct server_stats server = {0};
    char *text = print(&engine, &server, true);
    ck_assert_int_eq(count_lines(text, "# TYPE foldkv_steps counter\n"), 1);
    ck_assert_int_eq(count_lines(text, "foldkv_steps_total 0\n"), 1);
    ck_assert_str_eq(text + strlen(text) - 6, "# EOF\n");
    mem_free(text);
}
END_TEST

START_TEST(reference_names_every_row)
{
    struct byte_buffer text;
    byte_buffer_init(&text, TEXT_MAX);
    metrics_reference(&text);
    byte_buffer_append(&text, "", 1);
    ck_assert(!text.failed);
#define STAT(kind, name, unit, prose) ck_assert_ptr_nonnull(strstr(text.bytes, prose));
#define HISTOGRAM(name, prose) ck_assert_ptr_nonnull(strstr(text.bytes, prose));
#define LABELLED(name, label, prose) ck_assert_ptr_nonnull(strstr(text.bytes, prose));
#include "sched/engine_stats.def"
#include "sched/group_stats.def"
#include "server/server_stats.def"
    byte_buffer_release(&text);
}
END_TEST

START_TEST(no_memory_is_told)
{
    struct engine_stats engine = {0};
    struct server_stats server = {0};
    struct metrics_about about = {.model_name = "m", .generation = ""};
    struct byte_buffer text;
    byte_buffer_init(&text, TEXT_MAX);
    mem_fail_nth(3);
    metrics_text(&engine, &server, &about, false, &text);
    mem_fail_nth(0);
    ck_assert(text.failed);
    byte_buffer_release(&text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("metrics_text");
    TCase *tcase = tcase_create("metrics_text");
    tcase_set_timeout(tcase, 10);
    tcase_add_test(tcase, every_row_appears_once);
    tcase_add_test(tcase, values_are_printed);
    tcase_add_test(tcase, histograms_add_up);
    tcase_add_test(tcase, openmetrics_differs_where_it_must);
    tcase_add_test(tcase, reference_names_every_row);
    tcase_add_test(tcase, no_memory_is_told);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
