/* release_forget.c: retired, rejected, fenced, its file given up: by a person's word.
 *
 * THREAD  registry
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/release_forget.h"

#include "config/mem.h"
#include "sched/release/generation_id.h"
#include "sched/release/projection.h"
#include "sched/release/release_rollout.h"

static bool is_rolled_out(struct registry *r, const char *id)
{
    struct release_rollout *rollout = mem_alloc(sizeof *rollout);
    struct why unheard;
    bool is = rollout == NULL || (release_rollout_find_active(r, rollout, &unheard) == OK &&
                                  strcmp(rollout->candidate, id) == 0);
    mem_free(rollout);
    return is;
}

static bool is_over(const struct record *row)
{
    enum generation_state state = generation_state_find(record_text(row, "state"));
    return state != GENERATION_STATE_COUNT && generation_may_move(state, GENERATION_REGISTERED);
}

static enum status give_up_object(struct registry *r, struct change *change, const char *id,
                                  struct why *ret_why)
{
    struct record row;
    TRY(registry_get(r, REGISTRY_GENERATIONS, id, &row, ret_why));
    record_set_text(&row, "object", NULL);
    change_put(change, REGISTRY_GENERATIONS, id, &row);
    record_release(&row);
    return OK;
}

static enum status put_forgotten(struct registry *r, struct change *change, const char *id,
                                 const struct record *row, bool is_previous, struct why *ret_why)
{
    struct record route;
    if (is_previous) {
        TRY(release_route(r, &route, ret_why));
        record_set_text(&route, "previous", NULL);
        change_put(change, REGISTRY_ROUTES, RELEASE_ROUTE, &route);
        record_release(&route);
    }
    change_subject(change, id);
    if (!is_over(row))
        TRY(release_put_state(r, change, id,
                              is_previous ? GENERATION_RETIRED : GENERATION_REJECTED, "forgotten",
                              ret_why));
    TRY(give_up_object(r, change, id, ret_why));
    return release_put_namespace(r, change, record_text(row, "namespace"), "fenced", ret_why);
}

static enum status forget(struct registry *r, const struct change_terms *terms, const char *id,
                          const struct record *row, bool is_previous, struct why *ret_why)
{
    struct change *change;
    TRY(change_begin(r, terms, "release.forget", &change, ret_why));
    enum status s = put_forgotten(r, change, id, row, is_previous, ret_why);
    if (s == OK)
        return change_commit(&change, ret_why);
    change_abort(&change);
    return s;
}

enum status release_forget(struct registry *registry, const struct change_terms *terms,
                           const char *id, struct why *ret_why)
{
    struct projection p;
    struct record row;
    TRY(projection_read(registry, &p, ret_why));
    TRY(registry_get(registry, REGISTRY_GENERATIONS, id, &row, ret_why));
    enum generation_state state = generation_state_find(record_text(&row, "state"));
    bool is_previous = strcmp(p.previous, id) == 0 && p.barred[0] == '\0';
    bool has_left = is_over(&row) && record_has(&row, "object");
    enum status s;
    if ((!is_previous && !has_left && state > GENERATION_WARMED) || is_rolled_out(registry, id))
        s = why_set(ret_why, STATUS_ILLEGAL_MOVE, "state",
                    "generation %.16s is %s: only the previous one, those that have no traffic "
                    "and no rollout, and those that are over and still have a file can be forgotten",
                    id, state != GENERATION_STATE_COUNT ? generation_state_text(state) : "nothing");
    else
        s = forget(registry, terms, id, &row, is_previous, ret_why);
    record_release(&row);
    return s;
}

enum status release_fence_namespace(struct registry *registry, const struct change_terms *terms,
                                    const char *space, struct why *ret_why)
{
    struct projection p;
    struct change *change;
    TRY(projection_read(registry, &p, ret_why));
    const char *const served[] = {p.stable_namespace, p.candidate_namespace, p.control_namespace,
                                  p.pinned_namespace};
    for (size_t i = 0; i < ARRAY_LEN(served); i++)
        if (strcmp(served[i], space) == 0)
            return why_set(ret_why, STATUS_ILLEGAL_MOVE, "namespace",
                           "namespace %.16s serves requests: roll back instead", space);
    if (!generation_id_is_hash(space))
        return why_set(ret_why, STATUS_NOT_FOUND, "namespace", "there is no namespace '%.64s'",
                       space);
    TRY(change_begin(registry, terms, "namespace.fence", &change, ret_why));
    change_subject(change, space);
    enum status s = release_put_namespace(registry, change, space, "fenced", ret_why);
    if (s == OK)
        return change_commit(&change, ret_why);
    change_abort(&change);
    return s;
}
