/* releases_pin.c: which generation a request may name.
 *
 * WHY     A pin goes past buckets and weights, not past the proof that a generation may serve.
 * HOW     Only what is in memory can be pinned, so the book of lanes is asked, not the registry. A generation comes to evaluated, and to
 *         every later state of service, only with receipts that agree and an evaluation that passed.
 * ALWAYS  (1) One that was not evaluated, is barred or is leaving is named in the refusal with its state.    check_state
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/releases_priv.h"

#include "sched/release/release_state.h"

enum { PREFIX_MIN = 8, SHOWN_MAX = 100 };

/* A generation without a name has an empty one, which nobody can ask for. */
static bool is_text(struct slice model, const char *text)
{
    return model.len > 0 && model.len == strlen(text) && memcmp(model.bytes, text, model.len) == 0;
}

static bool is_id(struct slice model, const char *id)
{
    return model.len >= PREFIX_MIN && model.len < SHA256_HEX &&
           memcmp(model.bytes, id, model.len) == 0;
}

static bool is_proven(const char *state)
{
    static const enum generation_state proven[] = {GENERATION_EVALUATED, GENERATION_WARMED,
                                                   GENERATION_CANARY, GENERATION_STABLE,
                                                   GENERATION_PREVIOUS};
    for (size_t i = 0; i < ARRAY_LEN(proven); i++)
        if (strcmp(state, generation_state_text(proven[i])) == 0)
            return true;
    return false;
}

static enum status check_state(struct releases *r, const struct projection *p,
                               const struct release_lane *e, struct why *ret_why)
{
    const char *state = e->state[0] != '\0' ? e->state : generation_state_text(GENERATION_LOADING);
    if (strcmp(e->id, p->barred) == 0 ||
        (atomic_load(&r->is_held) && strcmp(e->id, p->candidate) == 0))
        return why_set(ret_why, STATUS_WRONG_STATE, "model",
                       "generation %.16s is being rolled back: nobody is admitted to it", e->id);
    if (!is_proven(state))
        return why_set(ret_why, STATUS_WRONG_STATE, "model",
                       "generation %.16s is %s: a request may name one whose evaluation has passed",
                       e->id, state);
    if (!e->is_open)
        return why_set(ret_why, STATUS_WRONG_STATE, "model",
                       "generation %.16s is %s and takes no requests: its cache is not loaded",
                       e->id, state);
    return OK;
}

/* A generation's own place, not control's. */
static bool look_at(struct releases *r, uint32_t i, struct release_lane *ret_entry)
{
    return release_lanes_at(&r->lanes, i, ret_entry) && !ret_entry->is_control &&
           !ret_entry->is_past && !ret_entry->is_leaving;
}

static enum status refuse(struct releases *r, const struct projection *p, struct slice model,
                          struct why *ret_why)
{
    char list[sizeof ret_why->text] = "";
    struct release_lane e;
    struct why unheard;
    size_t n = 0;
    for (uint32_t i = 0; i < RELEASE_LANES_MAX && n < sizeof list; i++)
        if (look_at(r, i, &e) && check_state(r, p, &e, &unheard) == OK)
            n += (size_t)snprintf(list + n, sizeof list - n,
                                  e.name[0] != '\0' ? "%s%.16s (%.40s)" : "%s%.16s",
                                  n > 0 ? ", " : "", e.id, e.name);
    return why_set(ret_why, STATUS_MODEL_NOT_FOUND, "model",
                   "the model '%.*s' is not served; generations that a request may name: %s",
                   (int)(model.len < SHOWN_MAX ? model.len : SHOWN_MAX), model.bytes,
                   n > 0 ? list : "none");
}

enum status releases_find_pin(struct releases *r, struct slice model,
                              struct release_lane *ret_entry, struct why *ret_why)
{
    struct projection p;
    struct release_lane e;
    uint32_t n_found = 0;
    bool is_name = false;
    releases_copy_route(r, &p);
    for (uint32_t i = 0; i < RELEASE_LANES_MAX && !is_name; i++) {
        if (!look_at(r, i, &e))
            continue;
        is_name = is_text(model, e.name);
        if (!is_name && !is_id(model, e.id))
            continue;
        *ret_entry = e;
        n_found++;
    }
    if (n_found == 0)
        return refuse(r, &p, model, ret_why);
    if (n_found > 1 && !is_name)
        return why_set(ret_why, STATUS_BAD_REQUEST, "model",
                       "'%.*s' begins the ids of %u generations: more digits are needed",
                       (int)model.len, model.bytes, n_found);
    return check_state(r, &p, ret_entry, ret_why);
}

enum status releases_check_pin(struct releases *releases, struct slice model, struct why *ret_why)
{
    struct release_lane unused;
    return releases_find_pin(releases, model, &unused, ret_why);
}
