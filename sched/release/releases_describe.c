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

static void describe_lane(struct releases *r, const char *id, const struct record *row)
{
    enum generation_state state = generation_state_find(record_text(row, "state"));
    const struct release_lane_row of = {.id = id,
                                        .space = record_text_or_empty(row, "namespace"),
                                        .name = record_text_or_empty(row, "name"),
                                        .state = record_text_or_empty(row, "state"),
                                        .is_over = state == GENERATION_REJECTED || state == GENERATION_RETIRED};
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
