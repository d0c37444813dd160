/* rollout_simulation.c: draws requests and ticks the machine until it ends or pauses.
 *
 * WHY     The promise of a canary is a figure over many rollouts, which no clock could wait for.
 * HOW     Arrivals are Poisson; only the requests of canary and control are drawn one by one, what is
 *         between two of them under plain stable is a count (its errors by a normal approximation).
 *         A bucket of a person is uniform, as the hash's are; arm_test holds the hash to that.
 *         Numbers come from Philox, so a seed is the whole run.
 */
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/rollout_simulation.h"

#include <math.h>

#include "config/mem.h"
#include "sched/philox.h"

enum { REQUESTS_A_TICK = 500, QUALITY_TOKENS = 400 };

struct run {
    const struct simulation *simulation;
    uint64_t seed;
    uint32_t drawn, page;
    double spare;
    bool has_spare;
    struct rollout rollout;
    struct gate_evidence evidence;
    double now_ms;
};

static double uniform(struct run *run)
{
    if (++run->drawn == 0)
        run->page++;
    return philox_uniform(run->seed, run->page, run->drawn) + 0x1p-54;
}

static double normal(struct run *run)
{
    if (run->has_spare) {
        run->has_spare = false;
        return run->spare;
    }
    double radius = sqrt(-2.0 * log(uniform(run))), angle = 2.0 * M_PI * uniform(run);
    run->spare = radius * sin(angle);
    run->has_spare = true;
    return radius * cos(angle);
}

struct simulation simulation_equal(const struct rollout_plan *plan)
{
    return (struct simulation){.plan = plan,
                               .ttft_ms = 300.0,
                               .ttft_spread = 0.5,
                               .tpot_ms = 40.0,
                               .tpot_spread = 0.25,
                               .error_rate = 0.001,
                               .ttft_factor = 1.0,
                               .tpot_factor = 1.0,
                               .candidate_error_rate = 0.001,
                               .requests_per_second = 50.0};
}

/* What other sources give a step: an allocator that agrees, prompts that score the same, and so on. */
static void add_bounds(struct gate_evidence *evidence)
{
    static const char *const slices[] = {"code", "facts", "prose"};
    gate_evidence_add_allocation(evidence, 1, 1 << 30, 1 << 30, 0);
    evidence->has_plan_receipt = true;
    evidence->has_traffic = true;
    evidence->issued_kib = evidence->baseline_issued_kib = 1100;
    evidence->logical_kib = evidence->baseline_logical_kib = 1000;
    evidence->has_quality = true;
    for (size_t i = 0; i < ARRAY_LEN(slices); i++) {
        struct quality_slice slice = {.n_tokens = QUALITY_TOKENS,
                                      .candidate_unats = QUALITY_TOKENS * 2000000ull,
                                      .baseline_unats = QUALITY_TOKENS * 2000000ull};
        snprintf(slice.name, sizeof slice.name, "%s", slices[i]);
        bool is_added = gate_evidence_add_quality(evidence, &slice);
        ASSERT(is_added);
    }
    for (int i = 0; i < 32; i++)
        gate_evidence_add_sample(evidence, 1e-6);
}

/* One request of canary or control, and the stable ones that came before it. */
static void add_request(struct run *run, struct simulation_result *result)
{
    const struct simulation *sim = run->simulation;
    uint32_t weight = rollout_weight_bp(&run->rollout, sim->plan);
    uint32_t control = arm_control_bp(weight, sim->plan->cap_bp);
    double share = (weight + control) / (double)ARM_BUCKETS;
    double between = share >= 1.0 ? 0.0 : floor(log(uniform(run)) / log1p(-share));
    double errors = between * sim->error_rate + sqrt(between * sim->error_rate) * normal(run);
    run->evidence.n_stable_requests += (uint64_t)between;
    run->evidence.n_stable_errors += (uint64_t)fmin(between, fmax(0.0, round(errors)));
    run->now_ms -= (between + 1.0) * 1000.0 / sim->requests_per_second * log(uniform(run));
    bool is_canary = uniform(run) * (weight + control) < weight;
    struct request_outcome outcome = {.arm = is_canary ? ARM_CANARY : ARM_CONTROL};
    double chance = is_canary ? sim->candidate_error_rate : sim->error_rate;
    outcome.is_error = uniform(run) < chance;
    double ttft = sim->ttft_ms * exp(sim->ttft_spread * normal(run));
    double tpot = sim->tpot_ms * exp(sim->tpot_spread * normal(run));
    outcome.ttft_ns = (uint64_t)(ttft * (is_canary ? sim->ttft_factor : 1.0) * 1e6);
    outcome.tpot_ns = (uint64_t)(tpot * (is_canary ? sim->tpot_factor : 1.0) * 1e6);
    gate_evidence_add(&run->evidence, &sim->plan->thresholds, &outcome);
    result->n_requests += (uint64_t)between + 1;
    result->n_canary += is_canary;
}

static struct rollout_decision apply(struct run *run, enum rollout_event_kind kind)
{
    struct rollout_decision decision;
    struct why why = {0};
    struct rollout_event event = {kind, (uint64_t)run->now_ms, &run->evidence};
    enum status s =
        rollout_apply(&run->rollout, run->simulation->plan, &event, &run->rollout, &decision, &why);
    ASSERT(s == OK);
    if (decision.action == ACTION_BEGIN_STEP) {
        gate_evidence_clear(&run->evidence);
        add_bounds(&run->evidence);
    }
    return decision;
}

static void run_to_the_end(struct run *run, struct simulation_result *result)
{
    static const enum rollout_event_kind start[] = {EVENT_LOAD, EVENT_LOADED, EVENT_EVALUATED,
                                                    EVENT_START};
    for (size_t i = 0; i < ARRAY_LEN(start); i++)
        apply(run, start[i]);
    while (run->rollout.state == ROLLOUT_STEP || run->rollout.state == ROLLOUT_AWAITING_APPROVAL) {
        if (run->rollout.state == ROLLOUT_AWAITING_APPROVAL)
            apply(run, EVENT_APPROVE);
        for (int i = 0; i < REQUESTS_A_TICK && run->rollout.state == ROLLOUT_STEP; i++)
            add_request(run, result);
        result->n_ticks++;
        apply(run, EVENT_TICK);
    }
    result->was_paused = run->rollout.state == ROLLOUT_PAUSED;
    if (run->rollout.state == ROLLOUT_PROMOTING)
        apply(run, EVENT_PROMOTION_DONE);
    if (run->rollout.state == ROLLOUT_ROLLING_BACK)
        apply(run, EVENT_ROLLBACK_DONE);
}

void simulation_run(const struct simulation *simulation, uint64_t seed,
                    struct simulation_result *ret_result)
{
    struct run *run = mem_zalloc(1, sizeof *run);
    ASSERT(run != NULL);
    run->simulation = simulation;
    run->seed = seed;
    *ret_result = (struct simulation_result){0};
    rollout_init(&run->rollout);
    run_to_the_end(run, ret_result);
    ret_result->rollout = run->rollout;
    ret_result->ms = (uint64_t)run->now_ms;
    mem_free(run);
}
