/* rollout_screen.c: a rollout's status in lines.
 *
 * HOW     Fixed columns, so that figures stand still while they change. A figure that is not there is a dash.
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/rollout_screen.h"

#include <time.h>

#include "server/admin_show.h"

enum { FIGURE_ROOM = 24, GATE_WIDTH = 16, VERDICT_WIDTH = 12 };

const char *rollout_screen_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

static const json_t *now_of(const json_t *status)
{
    return json_object_get(status, "now");
}

enum rollout_state rollout_screen_state(const json_t *status)
{
    const char *name = rollout_screen_text(now_of(status), "state");
    int state = 0;
    while (state < ROLLOUT_STATE_COUNT && strcmp(name, rollout_state_name((enum rollout_state)state)) != 0)
        state++;
    return (enum rollout_state)state;
}

static long long number_of(const json_t *object, const char *key)
{
    return (long long)json_integer_value(json_object_get(object, key));
}

static void print_head(const json_t *status, FILE *out)
{
    const json_t *now = now_of(status);
    size_t n_steps = json_array_size(json_object_get(json_object_get(status, "plan"), "steps"));
    const char *reason = rollout_screen_text(now, "reason");
    bool is_gate = strcmp(reason, "gate_failed") == 0 || strcmp(reason, "no_data") == 0 ||
                   strcmp(reason, "inconclusive") == 0;
    bool is_step = rollout_screen_state(status) == ROLLOUT_STEP;
    fprintf(out, "rollout    %s\ncandidate  %s\nbaseline   %s\nstate      %s", rollout_screen_text(status, "id"),
            rollout_screen_text(status, "candidate"), rollout_screen_text(status, "baseline"),
            is_step ? "" : rollout_screen_text(now, "state"));
    if (json_is_true(json_object_get(now, "has_served")))
        fprintf(out, "%sstep %lld of %zu", is_step ? "" : ", ", number_of(now, "step") + 1, n_steps);
    fprintf(out, ", %.2f %% of requests\n", (double)number_of(status, "weight_bp") / 100.0);
    if (reason[0] != '\0' && strcmp(reason, "none") != 0)
        fprintf(out, "reason     %s%s%s\n", reason, is_gate ? ": " : "",
                is_gate ? rollout_screen_text(now, "gate") : "");
    if (rollout_screen_text(status, "note")[0] != '\0')
        fprintf(out, "note       %s\n", rollout_screen_text(status, "note"));
}

/* Gates that are not of now: when they were asked, and the decision that rests on them. */
static void print_judged(const json_t *judged, FILE *out)
{
    struct tm tm;
    char when[32] = "";
    time_t seconds = (time_t)(number_of(judged, "at_ms") / 1000);
    if (gmtime_r(&seconds, &tm) != NULL)
        (void)strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &tm);
    fprintf(out, "judged     in step %lld at %s, decision %.16s\n", number_of(judged, "step") + 1, when,
            rollout_screen_text(judged, "decision"));
}

static const char *milliseconds(const json_t *arm, const char *key, char ret_text[FIGURE_ROOM])
{
    const json_t *value = json_object_get(arm, key);
    if (json_is_integer(value))
        snprintf(ret_text, FIGURE_ROOM, "%.2f ms", (double)json_integer_value(value) * 1e-6);
    else
        snprintf(ret_text, FIGURE_ROOM, "-");
    return ret_text;
}

static const char *share(const json_t *arm, const char *key, char ret_text[FIGURE_ROOM])
{
    long long requests = number_of(arm, "requests");
    if (json_is_integer(json_object_get(arm, key)) && requests > 0)
        snprintf(ret_text, FIGURE_ROOM, "%.2f %%", 100.0 * (double)number_of(arm, key) / (double)requests);
    else
        snprintf(ret_text, FIGURE_ROOM, "-");
    return ret_text;
}

static void print_arms(const json_t *arms, FILE *out)
{
    const char *key;
    json_t *arm;
    fprintf(out, "\n%-8s %9s %9s %9s %9s %12s %12s %12s %12s\n", "arm", "requests", "errors", "error", "good",
            "TTFT p50", "p99", "TPOT p50", "p99");
    json_object_foreach((json_t *)arms, key, arm) {
        char error[FIGURE_ROOM], good[FIGURE_ROOM], times[4][FIGURE_ROOM];
        fprintf(out, "%-8s %9lld %9lld %9s %9s %12s %12s %12s %12s\n", key, number_of(arm, "requests"),
                number_of(arm, "errors"), share(arm, "errors", error), share(arm, "good", good),
                milliseconds(arm, "ttft_p50_ns", times[0]), milliseconds(arm, "ttft_p99_ns", times[1]),
                milliseconds(arm, "tpot_p50_ns", times[2]), milliseconds(arm, "tpot_p99_ns", times[3]));
    }
}

void rollout_screen_gates(const json_t *gates, bool has_colour, FILE *out)
{
    size_t i;
    json_t *gate;
    fprintf(out, "%-*s  %-*s  %s\n", GATE_WIDTH, "gate", VERDICT_WIDTH, "verdict", "figures");
    json_array_foreach(gates, i, gate) {
        char figures[256];
        const char *verdict = rollout_screen_text(gate, "verdict");
        const char *colour = !has_colour                     ? ""
                             : strcmp(verdict, "pass") == 0 ? "\033[32m"
                             : strcmp(verdict, "fail") == 0 ? "\033[31;1m"
                                                            : "\033[33m";
        admin_show_scalar(json_object_get(gate, "figures"), figures, sizeof figures);
        fprintf(out, "%-*s  %s%-*s%s  %s\n", GATE_WIDTH, rollout_screen_text(gate, "gate"), colour, VERDICT_WIDTH,
                verdict, has_colour ? "\033[0m" : "", figures);
    }
}

void rollout_screen_print(const json_t *status, bool has_colour, FILE *out)
{
    const json_t *arms = json_object_get(status, "arms"), *gates = json_object_get(status, "gates");
    const json_t *judged = json_object_get(status, "judged");
    print_head(status, out);
    if (judged != NULL)
        print_judged(judged, out);
    if (json_object_size(arms) > 0)
        print_arms(arms, out);
    if (json_array_size(gates) > 0) {
        fprintf(out, "\n");
        rollout_screen_gates(gates, has_colour, out);
    }
}
