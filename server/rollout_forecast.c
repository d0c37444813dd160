/* rollout_forecast.c: what a plan can see, as text or JSON. */
// SPDX-License-Identifier: Apache-2.0
#include "server/rollout_forecast.h"

#include <inttypes.h>

#include "config/mem.h"

/* "1.45 %" of millionths; a dash if nothing is found. */
static const char *percent(uint64_t ppm, char ret_text[16])
{
    if (ppm == 0)
        snprintf(ret_text, 16, "-");
    else
        snprintf(ret_text, 16, "%.2f %%", (double)ppm / 1e4);
    return ret_text;
}

static const char *stretch(uint64_t ppm, char ret_text[16])
{
    if (ppm == 0)
        snprintf(ret_text, 16, "-");
    else
        snprintf(ret_text, 16, "+%.0f %%", ((double)ppm - 1e6) / 1e4);
    return ret_text;
}

static void print_text(const struct rollout_plan *plan, const struct rollout_service *service,
                       const char *hash)
{
    printf(
        "plan %s\n\nsmallest regression found in 19 of 20 rollouts at the step's minimum sample\n"
        "(errors from %.2f %%, good requests from %.2f %%, spreads of TPOT and TTFT %.3f and "
        "%.3f):\n\n"
        "step  weight  requests: candidate  control  errors from  good below  TPOT p99  TTFT p99\n",
        hash, service->error_ppm / 1e4, service->good_ppm / 1e4, service->tpot_spread_milli / 1e3,
        service->ttft_spread_milli / 1e3);
    bool is_short = false;
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        struct rollout_power power;
        char error[16], good[16], tpot[16], ttft[16];
        rollout_power_of(plan, i, service, &power);
        printf("%4" PRIu32 "  %4.2f %%  %19" PRIu64 "  %7" PRIu64 "  %11s  %10s  %8s  %8s%s\n",
               i + 1, plan->steps[i].weight_bp / 100.0, power.n_canary, power.n_control,
               percent(power.error_ppm, error), percent(power.good_ppm, good),
               stretch(power.tpot_ppm, tpot), stretch(power.ttft_ppm, ttft),
               power.passes_equal ? "" : "  *");
        is_short |= !power.passes_equal;
    }
    if (is_short)
        printf("\n* an equal candidate's minimum sample does not yet pass every test: the step "
               "goes on\n");
    printf("\ngates:\n");
    for (int i = 0; i < GATE_COUNT; i++) {
        printf("  %-16s %s; without data: %s\n", gate_rows[i].key, gate_rows[i].rule,
               gate_rows[i].without == GATE_WITHOUT_FAIL ? "fail" : "pause");
        for (size_t t = 0; t < gate_threshold_count; t++)
            if (strcmp(gate_threshold_rows[t].gate, gate_rows[i].key) == 0)
                printf("  %16s   %s = %" PRIu32 " %s\n", "", gate_threshold_rows[t].name,
                       gate_threshold_value(&plan->thresholds, t), gate_threshold_rows[t].unit);
    }
}

static void write_power(const struct rollout_power *power, struct canonical_json *json)
{
    canonical_open_object(json, NULL);
    canonical_integer(json, "candidate_requests", (int64_t)power->n_canary);
    canonical_integer(json, "control_requests", (int64_t)power->n_control);
    canonical_bool(json, "equal_passes_at_minimum", power->passes_equal);
    canonical_integer(json, "error_ppm", (int64_t)power->error_ppm);
    canonical_integer(json, "good_ppm", (int64_t)power->good_ppm);
    canonical_integer(json, "stable_requests", (int64_t)power->n_stable);
    canonical_integer(json, "tpot_p99_ppm", (int64_t)power->tpot_ppm);
    canonical_integer(json, "ttft_p99_ppm", (int64_t)power->ttft_ppm);
    canonical_close_object(json);
}

/* The plan's own text goes in as it is: canonical JSON inside canonical JSON. */
static enum status print_json(const struct rollout_plan *plan,
                              const struct rollout_service *service, const char *plan_text,
                              const char *hash, struct why *ret_why)
{
    struct canonical_json json;
    char *steps;
    canonical_init(&json, 1 << 16);
    canonical_open_array(&json, NULL);
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        struct rollout_power power;
        rollout_power_of(plan, i, service, &power);
        write_power(&power, &json);
    }
    canonical_close_array(&json);
    if (canonical_take(&json, &steps, NULL) != OK)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the report");
    printf("{\"detects\":%s,\"plan\":%s,\"plan_sha256\":\"%s\"}\n", steps, plan_text, hash);
    mem_free(steps);
    return OK;
}

enum status rollout_forecast_print(const struct rollout_plan *plan, const struct rollout_service *service,
                                   bool is_json, struct why *ret_why)
{
    uint8_t hash[SHA256_BYTES];
    char hex[SHA256_HEX], *text;
    if (rollout_plan_write(plan, &text, hash) != OK)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the plan");
    sha256_hex(hash, hex);
    enum status s = OK;
    if (is_json)
        s = print_json(plan, service, text, hex, ret_why);
    else
        print_text(plan, service, hex);
    mem_free(text);
    return s;
}
