/* releases_describe.c: the book of lanes calls each generation what its row calls it.
 *
 * WHY     A request may pin a generation by its name, and only in some states, and the loop must not wait for the registry to know.
 *         Who was told that a generation is forgotten, ready or evaluated finds it so with the next request.
 * HOW     After whatever may have changed rows, and before its asker hears of it, the few rows of those that are loaded are read.
 *         A lane whose generation was given up, or was registered anew under another namespace, is past: it is let go later.
 * THREAD  registry
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/release_state.h"
#include "sched/release/releases_priv.h"

static const char *text_of(const struct record *row, const char *key)
{
    const char *text = record_text(row, key);
    return text != NULL ? text : "";
}

static void describe_lane(struct releases *r, const char *id, const struct record *row)
{
    const char *state = text_of(row, "state");
    bool is_over = strcmp(state, generation_state_text(GENERATION_REJECTED)) == 0 ||
                   strcmp(state, generation_state_text(GENERATION_RETIRED)) == 0;
    const struct release_lane_row of = {.id = id,
                                        .space = text_of(row, "namespace"),
                                        .name = text_of(row, "name"),
                                        .state = state,
                                        .is_over = is_over};
    release_lanes_describe(&r->lanes, &of);
}

void releases_describe_lanes(void *user, struct registry *registry)
{
    struct releases *r = user;
    struct release_lane e;
    struct record row;
    struct why unheard; /* who cannot be read keeps what was said of it */
    for (uint32_t i = 0; r->has_lanes && i < RELEASE_LANES_MAX; i++) {
        if (!release_lanes_at(&r->lanes, i, &e) ||
            registry_get(registry, REGISTRY_GENERATIONS, e.id, &row, &unheard) != OK)
            continue;
        describe_lane(r, e.id, &row);
        record_release(&row);
    }
}
