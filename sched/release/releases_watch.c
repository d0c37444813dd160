/* releases_watch.c: what a scrape shows of the newest rollout: where it stands, and its gates' verdicts.
 *
 * WHY     A scrape must not wait for the registry's thread, so what it shows is left for it: at the start, so that no scrape sees
 *         less than the registry holds, and on each tick.
 * THREAD  registry, but for releases_watch_start
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/releases_priv.h"

#include "config/mem.h"

static void look(struct releases *r, struct registry *registry, struct release_rollout_figures *f)
{
    char key[REGISTRY_KEY_ROOM];
    struct why unheard; /* the tick has said what there is to say */
    struct release_rollout *rollout = mem_alloc(sizeof *rollout);
    if (rollout != NULL && registry_last_key(registry, REGISTRY_ROLLOUTS, key, &unheard) == OK && key[0] != '\0' &&
        release_rollout_read(registry, key, rollout, &unheard) == OK) {
        f->is_there = true;
        f->now = rollout->now;
        f->has_verdicts = rollout_driver_verdicts(r->driver, registry, rollout, f->verdicts);
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

static enum status watch_first(struct releases *r, struct registry *registry, void *user,
                               struct why *ret_why)
{
    bool is_frozen;
    (void)user;
    TRY(releases_read_freeze(registry, &is_frozen, ret_why));
    pthread_mutex_lock(&r->lock);
    r->is_frozen = is_frozen;
    pthread_mutex_unlock(&r->lock);
    releases_watch(r, registry, false);
    return OK;
}

enum status releases_watch_start(struct releases *r, struct why *ret_why)
{
    return releases_do(r, watch_first, NULL, ret_why);
}
