/* rollout_status.c: composes a rollout's status from its row, its plan and the evidence at hand.
 *
 * HOW     The row is taken as it is; what a reader would have to look up (the plan) or compute (quantiles, verdicts) stands
 *         beside it. Verdicts are gate_judge's: what is shown is what the next tick would decide by, or what the last decision
 *         was made by.
 * THREAD  registry
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/rollout_status.h"

#include "sched/judge/gate.h"

static void set_quantiles(struct record *arm, const char *p50, const char *p99,
                          const struct latency_sketch *sketch)
{
    if (sketch->n == 0) {
        record_set_text(arm, p50, NULL);
        record_set_text(arm, p99, NULL);
        return;
    }
    record_set_number(arm, p50, (int64_t)latency_sketch_quantile(sketch, 500000));
    record_set_number(arm, p99, (int64_t)latency_sketch_quantile(sketch, 990000));
}

static void set_arm(struct record *arms, const char *key, const struct arm_evidence *arm)
{
    struct record r;
    record_init(&r);
    record_set_number(&r, "errors", (int64_t)arm->n_errors);
    record_set_number(&r, "good", (int64_t)arm->n_good);
    record_set_number(&r, "requests", (int64_t)arm->n_requests);
    set_quantiles(&r, "tpot_p50_ns", "tpot_p99_ns", &arm->tpot);
    set_quantiles(&r, "ttft_p50_ns", "ttft_p99_ns", &arm->ttft);
    record_set_record(arms, key, &r);
    record_release(&r);
}

static void set_arms(struct record *status, const struct gate_evidence *evidence)
{
    struct record arms, stable;
    record_init(&arms);
    record_init(&stable);
    set_arm(&arms, arm_name(ARM_CANARY), &evidence->canary);
    set_arm(&arms, arm_name(ARM_CONTROL), &evidence->control);
    record_set_number(&stable, "errors", (int64_t)evidence->n_stable_errors);
    record_set_number(&stable, "requests", (int64_t)evidence->n_stable_requests);
    record_set_record(&arms, arm_name(ARM_STABLE), &stable);
    record_set_record(status, "arms", &arms);
    record_release(&stable);
    record_release(&arms);
}

static void add_gates(struct record *status, const struct gate_evidence *evidence,
                      const struct rollout_plan *plan)
{
    for (int i = 0; i < GATE_COUNT; i++) {
        struct gate_judgement judgement;
        struct record gate;
        gate_judge((enum gate)i, evidence, &plan->thresholds, plan->n_steps, &judgement);
        record_init(&gate);
        record_set_text(&gate, "figures", judgement.text);
        record_set_text(&gate, "gate", gate_rows[i].key);
        record_set_text(&gate, "verdict", gate_verdict_name(judgement.verdict));
        record_add_record(status, "gates", &gate);
        record_release(&gate);
    }
}

static enum status set_plan(struct registry *r, const struct release_rollout *ro,
                            struct record *status, struct why *ret_why)
{
    struct record plan;
    TRY(registry_get(r, REGISTRY_RECEIPTS, ro->plan_hash, &plan, ret_why));
    record_set_record(status, "plan", &plan);
    record_set_text(status, "plan_sha256", ro->plan_hash);
    record_release(&plan);
    return OK;
}

static void set_judged(struct record *status, const struct rollout_judged *judged)
{
    struct record r;
    record_init(&r);
    record_set_number(&r, "at_ms", judged->at_ms);
    record_set_text(&r, "decision", judged->decision);
    record_set_number(&r, "step", judged->step);
    record_set_record(status, "judged", &r);
    record_release(&r);
}

static enum status print(struct registry *r, const struct release_rollout *ro,
                         const struct gate_evidence *evidence,
                         const struct rollout_judged *judged, struct record *status,
                         char **ret_text, struct why *ret_why)
{
    TRY(set_plan(r, ro, status, ret_why));
    record_set_text(status, "id", ro->key);
    record_set_number(status, "weight_bp", rollout_weight_bp(&ro->now, &ro->plan));
    if (evidence != NULL) {
        set_arms(status, evidence);
        add_gates(status, evidence, &ro->plan);
    }
    if (judged != NULL)
        set_judged(status, judged);
    *ret_text = record_print(status);
    return *ret_text != NULL ? OK
                             : why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for a status");
}

enum status rollout_status_print(struct registry *registry, const char *key,
                                 const struct gate_evidence *evidence,
                                 const struct rollout_judged *judged, char **ret_text,
                                 struct why *ret_why)
{
    struct release_rollout ro;
    struct record status = {0};
    *ret_text = NULL;
    TRY(release_rollout_read(registry, key, &ro, ret_why));
    TRY(registry_get(registry, REGISTRY_ROLLOUTS, key, &status, ret_why));
    enum status s = print(registry, &ro, evidence, judged, &status, ret_text, ret_why);
    record_release(&status);
    return s;
}
