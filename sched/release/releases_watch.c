/* releases_watch.c: what a scrape shows of the newest rollout: where it stands, and its gates' verdicts.
 *
 * WHY     A scrape must not wait for the registry's thread, so what it shows is left for it on each tick.
 * THREAD  registry
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/releases_priv.h"

#include "config/mem.h"

/* Judged as the next tick would. */
static void judge(struct releases *r, const struct release_rollout *rollout,
                  struct release_rollout_figures *f)
{
    struct gate_evidence *evidence = mem_alloc(sizeof *evidence);
    if (evidence == NULL)
        return;
    rollout_driver_copy(r->driver, evidence);
    for (int i = 0; i < GATE_COUNT; i++) {
        struct gate_judgement judgement;
        gate_judge((enum gate)i, evidence, &rollout->plan.thresholds, rollout->plan.n_steps, &judgement);
        f->verdicts[i] = judgement.verdict;
    }
    f->has_verdicts = true;
    mem_free(evidence);
}

static void look(struct releases *r, struct registry *registry, struct release_rollout_figures *f)
{
    char key[REGISTRY_KEY_ROOM];
    struct why unheard; /* the tick has said what there is to say */
    struct release_rollout *rollout = mem_alloc(sizeof *rollout);
    if (rollout != NULL && registry_last_key(registry, REGISTRY_ROLLOUTS, key, &unheard) == OK && key[0] != '\0' &&
        release_rollout_read(registry, key, rollout, &unheard) == OK) {
        f->is_there = true;
        f->now = rollout->now;
        if (rollout->now.has_served && !rollout_is_over(rollout->now.state))
            judge(r, rollout, f);
    }
    mem_free(rollout);
}

void releases_watch(struct releases *r, struct registry *registry, bool is_moving)
{
    struct release_rollout_figures figures = {0};
    if (!is_moving && r->is_watched)
        return;
    r->is_watched = !is_moving; /* once more after its end, and once after a start */
    look(r, registry, &figures);
    pthread_mutex_lock(&r->lock);
    r->rollout_figures = figures;
    pthread_mutex_unlock(&r->lock);
}
