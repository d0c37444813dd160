/* gate.h: the gates that judge a candidate: a table, and a verdict from evidence and thresholds.
 *
 * A verdict is a pure function: the same evidence gives the same verdict on another day, which is what
 * an audit checks. Only a pass is a pass: no data and inconclusive are not. The four tests share
 * GATE_ALPHA_PPM over all steps of a plan, so that a rollout of an equal candidate is aborted by
 * chance at most once in a thousand; each may be judged as often as one likes. Any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_GATE_H
#define FOLDKV_SCHED_GATE_H

#include "sched/judge/gate_evidence.h"

/* Chance of a false abort over all gates and steps; chance that one test passes a candidate that is
 * over its threshold in one step. */
enum { GATE_ALPHA_PPM = 1000, GATE_BETA_PPM = 50000 };

enum gate {
#define GATE(NAME, key, judged, without, trigger, against, rule) GATE_##NAME,
#include "sched/judge/gate.def"
#undef GATE
    GATE_COUNT
};

enum gate_judged { GATE_JUDGED_BOUND, GATE_JUDGED_TEST };
enum gate_without { GATE_WITHOUT_PAUSE, GATE_WITHOUT_FAIL };

struct gate_row {
    const char *key, *trigger, *against, *rule;
    enum gate_judged judged;
    enum gate_without without; /* what a due step does when there is no data */
};
extern const struct gate_row gate_rows[GATE_COUNT];
/* The count if there is none of that key, or key is NULL. */
enum gate gate_find(const char *key);
/* How many rows are tests. */
uint32_t gate_test_count(void);

enum gate_verdict { VERDICT_PASS, VERDICT_FAIL, VERDICT_INCONCLUSIVE, VERDICT_NO_DATA };
const char *gate_verdict_name(enum gate_verdict verdict);

struct gate_judgement {
    enum gate_verdict verdict;
    char text[160]; /* the figures, for a person: "p99 41.2 ms, control 40.9 ms ..." */
};

/* n_steps is the plan's: alpha is shared among its steps. */
void gate_judge(enum gate gate, const struct gate_evidence *evidence,
                const struct gate_thresholds *thresholds, uint32_t n_steps,
                struct gate_judgement *ret_judgement);
/* The log of 1/alpha that one test needs in one step. */
double gate_needed_to_fail(uint32_t n_steps);
double gate_needed_to_pass(void);

#endif
