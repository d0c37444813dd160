/* metrics_release_test.c: every row of the table once, samples of what there is, and rows that make room for newer ones. */
// SPDX-License-Identifier: Apache-2.0
#include "server/metrics_release.h"

#include "config/mem.h"
#include "tests/support/suite_run.h"

enum { TEXT_MAX = 1 << 20 };

static struct releases_figures figures; /* 100 KiB */
static struct release_stats stats;

static char *print(void)
{
    struct metrics_release release = {.figures = &figures, .stats = &stats, .isa = "avx2", .numerics = "contract-1", .plan = "0123456789abcdef"};
    struct byte_buffer text;
    struct metrics_printer p = {&text, false};
    byte_buffer_init(&text, TEXT_MAX);
    metrics_release(&p, &release);
    byte_buffer_append(&text, "", 1);
    ck_assert(!text.failed);
    return text.bytes;
}

static void require_line(const char *text, const char *line)
{
    size_t len = strlen(line);
    for (const char *at = text; at != NULL; at = strchr(at, '\n'), at += at != NULL)
        if (strncmp(at, line, len) == 0 && at[len] == '\n')
            return;
    ck_abort_msg("no line %s", line);
}

START_TEST(every_row_appears_once)
{
    char *text = print();
#define RELEASE(name, kind, labels, unit, prose)                                                   \
    {                                                                                              \
        const char *head = strstr(text, "# HELP foldkv_" #name);                                   \
        ck_assert_msg(head != NULL, "%s is not there", #name);                                     \
        ck_assert(strstr(text, prose) != NULL);                                                    \
    }
#include "server/release_stats.def"
#undef RELEASE
    require_line(text, "foldkv_rollout_state{state=\"step\"} 0");
    require_line(text, "foldkv_rollout_step 0");
    require_line(text, "foldkv_release_epoch 0");
    ck_assert_ptr_null(strstr(text, "foldkv_rollout_gate{"));
    ck_assert_ptr_null(strstr(text, "foldkv_generation_requests_total{"));
    mem_free(text);
}
END_TEST

START_TEST(a_rollout_is_shown)
{
    figures.n_generations = 3;
    figures.route.epoch = 7;
    figures.route.weight_bp = 250;
    figures.is_writable = true;
    figures.generations[0] = (struct release_figures){.id = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff",
                                                      .name = "a \"b\"",
                                                      .state = "stable",
                                                      .is_loaded = true,
                                                      .arm = ARM_STABLE,
                                                      .weights_bytes = 5,
                                                      .cache_bytes = 6};
    figures.generations[1] = (struct release_figures){
        .id = "aa", .state = "previous", .arm = ARM_COUNT, .weights_bytes = 9}; /* its weights are kept */
    figures.generations[2] = figures.generations[0]; /* the control lane */
    figures.generations[2].arm = ARM_CONTROL;
    release_stats_end(&stats, "0011223344556677", ARM_CANARY, false, 2000000, 0);
    release_stats_end(&stats, "0011223344556677", ARM_CANARY, true, 0, 0);
    figures.rollout = (struct release_rollout_figures){
        .is_there = true, .now = {.state = ROLLOUT_STEP, .step = 1, .has_served = true}, .has_verdicts = true};
    figures.rollout.verdicts[GATE_TPOT_P99] = VERDICT_FAIL;
    char *text = print();
    static const char *const lines[] = {
        "foldkv_generation_info{generation=\"0011223344556677\",name=\"a \\\"b\\\"\",arm=\"stable\"} 1",
        "foldkv_generation_info{generation=\"0011223344556677\",name=\"a \\\"b\\\"\",arm=\"control\"} 1",
        "foldkv_kernels_info{isa=\"avx2\",numerics=\"contract-1\",plan=\"0123456789abcdef\"} 1",
        "foldkv_generation_info{generation=\"aa\",name=\"\",arm=\"none\"} 1",
        "foldkv_generation_loaded{generation=\"aa\"} 0",
        "foldkv_generation_weights_bytes{generation=\"aa\"} 9",
        "foldkv_generation_cache_bytes{generation=\"aa\"} 0",
        "foldkv_generation_weights_bytes{generation=\"0011223344556677\"} 5",
        "foldkv_generation_cache_bytes{generation=\"0011223344556677\"} 12",
        "foldkv_generation_requests_total{arm=\"canary\",generation=\"0011223344556677\"} 2",
        "foldkv_generation_errors_total{arm=\"canary\",generation=\"0011223344556677\"} 1",
        "foldkv_generation_time_to_first_token_seconds_count{arm=\"canary\",generation=\"0011223344556677\"} 1",
        "foldkv_generation_time_per_output_token_seconds_count{arm=\"canary\",generation=\"0011223344556677\"} 0",
        "foldkv_release_epoch 7",
        "foldkv_release_writable 1",
        "foldkv_rollout_state{state=\"step\"} 1",
        "foldkv_rollout_state{state=\"promoted\"} 0",
        "foldkv_rollout_step 2",
        "foldkv_rollout_weight_ratio 0.025",
        "foldkv_rollout_gate{gate=\"tpot_p99\",verdict=\"fail\"} 1",
        "foldkv_rollout_gate{gate=\"tpot_p99\",verdict=\"pass\"} 0",
    };
    for (size_t i = 0; i < ARRAY_LEN(lines); i++)
        require_line(text, lines[i]);
    const char *first = strstr(text, "generation_weights_bytes{generation=\"0011");
    ck_assert(first != NULL && strstr(first + 1, "generation_weights_bytes{generation=\"0011") == NULL);
    mem_free(text);
}
END_TEST

START_TEST(the_row_used_longest_ago_goes)
{
    char id[RELEASE_STATS_ID_ROOM];
    release_stats_end(&stats, "first", ARM_STABLE, false, 1, 1);
    for (int i = 0; i < RELEASE_STATS_ROWS; i++) {
        snprintf(id, sizeof id, "%d", i);
        release_stats_end(&stats, id, ARM_STABLE, false, 1, 1);
        release_stats_end(&stats, "kept", ARM_CONTROL, true, 1, 1);
    }
    char *text = print();
    char line[128];
    ck_assert_ptr_null(strstr(text, "generation=\"first\""));
    ck_assert_ptr_null(strstr(text, "generation=\"0\""));
    snprintf(line, sizeof line, "foldkv_generation_errors_total{arm=\"control\",generation=\"kept\"} %d", RELEASE_STATS_ROWS);
    require_line(text, line);
    require_line(text, "foldkv_generation_requests_total{arm=\"stable\",generation=\"1\"} 1");
    mem_free(text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("metrics_release");
    TCase *tcase = tcase_create("metrics_release");
    tcase_add_test(tcase, every_row_appears_once);
    tcase_add_test(tcase, a_rollout_is_shown);
    tcase_add_test(tcase, the_row_used_longest_ago_goes);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
