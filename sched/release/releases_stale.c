/* releases_stale.c: what becomes of an evaluation once something else is loaded than what it was made with.
 *
 * WHY     Another instruction set after a restart is another plan, and another stable generation another baseline: the
 *         figures of before say nothing of them.
 * HOW     Seen whenever a candidate is loaded again. One without traffic goes back to ready; one with traffic keeps what it has
 *         and its rollout pauses, which no resume ends before the plan is the evaluated one again (release_rollout.h).
 * THREAD  registry, but for releases_stale_settle: loader, rescue, or whoever starts
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/releases_priv.h"

#include "config/mem.h"
#include "sched/release/release_evidence.h"

enum { NOTE_ROOM = 200 }; /* less than a rollout keeps */

bool releases_is_stale(struct registry *registry, const struct record *generation)
{
    enum generation_state state = generation_state_find(record_text(generation, "state"));
    struct why unheard;
    return (state == GENERATION_EVALUATED || state == GENERATION_WARMED) &&
           release_evidence_current(registry, generation, &unheard) == STATUS_RECEIPTS_DISAGREE;
}

static enum status pause_rollout(struct releases *r, struct registry *registry,
                                 const struct change_terms *terms, const char *id,
                                 const char *text, struct why *ret_why)
{
    char note[NOTE_ROOM];
    struct change_terms own = *terms;
    struct release_rollout *rollout = mem_alloc(sizeof *rollout);
    if (rollout == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory to look at the rollout");
    snprintf(note, sizeof note, "%s", text);
    own.note = note;
    enum status s = release_rollout_find_active(registry, rollout, ret_why);
    if (s == OK && strcmp(rollout->candidate, id) == 0 && rollout->now.state == ROLLOUT_STEP)
        s = rollout_driver_command(r->driver, registry, &own, rollout->key, EVENT_PAUSE, ret_why);
    mem_free(rollout);
    return s == STATUS_NOT_FOUND ? OK : s;
}

struct settling {
    const struct change_terms *terms;
    const char *id;
    struct why why; /* what is stale; "" */
};

static enum status settle(struct releases *r, struct registry *registry, void *user,
                          struct why *ret_why)
{
    struct settling *x = user;
    struct record row;
    TRY(registry_get(registry, REGISTRY_GENERATIONS, x->id, &row, ret_why));
    enum generation_state state = generation_state_find(record_text(&row, "state"));
    bool is_due = state == GENERATION_EVALUATED || state == GENERATION_WARMED ||
                  state == GENERATION_CANARY;
    enum status s = is_due ? release_evidence_current(registry, &row, &x->why) : OK;
    record_release(&row);
    if (s != STATUS_RECEIPTS_DISAGREE)
        return s;
    if (state == GENERATION_CANARY)
        return pause_rollout(r, registry, x->terms, x->id, x->why.text, ret_why);
    return release_move_generation(registry, x->terms, x->id, GENERATION_READY, x->why.text,
                                   ret_why);
}

enum status releases_stale_settle(struct releases *r, const struct change_terms *terms,
                                  const char *id, struct why *ret_why)
{
    struct settling x = {.terms = terms, .id = id};
    TRY(releases_do(r, settle, &x, ret_why));
    if (x.why.text[0] != '\0')
        releases_say(r, true, "loader", "generation %.16s: %s", id, x.why.text);
    return OK;
}
