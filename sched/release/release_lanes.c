/* release_lanes.c: the book of loaded lanes, under one lock.
 *
 * ALWAYS  (1) A lane that was taken is there until it is given back.                 release_lanes_pop
 *         (2) The lock is held for a walk over a few places and nothing else.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/release_lanes.h"

enum status release_lanes_init(struct release_lanes *lanes)
{
    memset(lanes, 0, sizeof *lanes);
    return pthread_mutex_init(&lanes->lock, NULL) == 0 ? OK : STATUS_NO_MEMORY;
}

void release_lanes_destroy(struct release_lanes *lanes)
{
    pthread_mutex_destroy(&lanes->lock);
}

bool release_lanes_add(struct release_lanes *lanes, const struct release_lane *entry)
{
    bool is_added = false;
    pthread_mutex_lock(&lanes->lock);
    for (uint32_t i = 0; i < RELEASE_LANES_MAX && !is_added; i++)
        if (lanes->places[i].lane == NULL) {
            lanes->places[i] = *entry;
            lanes->places[i].uses = 0;
            lanes->places[i].place = i;
            is_added = true;
        }
    pthread_mutex_unlock(&lanes->lock);
    return is_added;
}

/* By namespace, or by id among those that are not control's; under the lock. */
static bool is_meant(const struct release_lane *e, const char *space, const char *id)
{
    if (e->lane == NULL)
        return false;
    if (space != NULL)
        return strcmp(e->space, space) == 0;
    return id != NULL && !e->is_control && !e->is_past && strcmp(e->id, id) == 0;
}

static struct release_lane *search(struct release_lanes *lanes, const char *space, const char *id)
{
    for (uint32_t i = 0; i < RELEASE_LANES_MAX; i++) {
        struct release_lane *e = &lanes->places[i];
        if (!e->is_leaving && is_meant(e, space, id))
            return e;
    }
    return NULL;
}

/* Under the lock; uses: how many more. */
static bool hand_out(struct release_lane *e, uint32_t uses, struct release_lane *ret_entry)
{
    if (e == NULL || e->lane == NULL)
        return false;
    e->uses += uses;
    *ret_entry = *e;
    ret_entry->is_open = lane_wanted(e->lane) == LANE_OPEN;
    return true;
}

static bool find(struct release_lanes *lanes, const char *space, const char *id, uint32_t uses,
                 struct release_lane *ret_entry)
{
    pthread_mutex_lock(&lanes->lock);
    bool is_there = hand_out(search(lanes, space, id), uses, ret_entry);
    pthread_mutex_unlock(&lanes->lock);
    return is_there;
}

bool release_lanes_find(struct release_lanes *lanes, const char *space,
                        struct release_lane *ret_entry)
{
    return find(lanes, space, NULL, 0, ret_entry);
}

bool release_lanes_find_id(struct release_lanes *lanes, const char *id,
                           struct release_lane *ret_entry)
{
    return find(lanes, NULL, id, 0, ret_entry);
}

bool release_lanes_keep(struct release_lanes *lanes, const char *space,
                        struct release_lane *ret_entry)
{
    return find(lanes, space, NULL, 1, ret_entry);
}

bool release_lanes_keep_id(struct release_lanes *lanes, const char *id,
                           struct release_lane *ret_entry)
{
    return find(lanes, NULL, id, 1, ret_entry);
}

static bool look(struct release_lanes *lanes, uint32_t i, uint32_t uses,
                 struct release_lane *ret_entry)
{
    ASSERT(i < RELEASE_LANES_MAX);
    pthread_mutex_lock(&lanes->lock);
    bool is_there = hand_out(&lanes->places[i], uses, ret_entry);
    pthread_mutex_unlock(&lanes->lock);
    return is_there;
}

bool release_lanes_at(struct release_lanes *lanes, uint32_t i, struct release_lane *ret_entry)
{
    return look(lanes, i, 0, ret_entry);
}

bool release_lanes_hold(struct release_lanes *lanes, uint32_t i, struct release_lane *ret_entry)
{
    return look(lanes, i, 1, ret_entry);
}

static struct release_lane *search_open(struct release_lanes *lanes, const char *space)
{
    struct release_lane *e = search(lanes, space, NULL);
    return e != NULL && lane_wanted(e->lane) == LANE_OPEN ? e : NULL;
}

static enum status check_cells(const struct release_lane *e, struct evaluation_cell cell,
                               struct why *ret_why)
{
    return e->has_cells ? evaluation_cells_admit(&e->cells, cell, ret_why) : OK;
}

/* Under the lock: the lane's own cells speak first. */
static enum status find_taker(struct release_lanes *lanes, const struct release_wish *wish,
                              struct release_lane **ret_entry, struct why *ret_why)
{
    struct evaluation_cell cell = wish->cell;
    struct release_lane *e = *ret_entry = search_open(lanes, wish->space);
    if (e == NULL)
        return STATUS_NOT_FOUND;
    uint32_t active = lane_in_flight(e->lane) + 1;
    cell.active_requests = active < cell.active_requests ? active : cell.active_requests;
    TRY(check_cells(e, cell, ret_why));
    for (size_t i = 0; i < ARRAY_LEN(wish->peers) && wish->peers[i] != NULL; i++) {
        const struct release_lane *peer = search_open(lanes, wish->peers[i]);
        if (peer == NULL)
            return STATUS_NOT_FOUND;
        TRY(check_cells(peer, cell, ret_why));
    }
    return OK;
}

enum status release_lanes_take(struct release_lanes *lanes, const struct release_wish *wish,
                               uint32_t *ret_place, struct why *ret_why)
{
    struct release_lane *e;
    pthread_mutex_lock(&lanes->lock);
    enum status s = find_taker(lanes, wish, &e, ret_why);
    if (s == OK) {
        e->uses++;
        *ret_place = (uint32_t)(e - lanes->places);
    }
    pthread_mutex_unlock(&lanes->lock);
    return s;
}

void release_lanes_give(struct release_lanes *lanes, uint32_t place)
{
    ASSERT(place < RELEASE_LANES_MAX);
    pthread_mutex_lock(&lanes->lock);
    ASSERT(lanes->places[place].uses > 0);
    lanes->places[place].uses--;
    pthread_mutex_unlock(&lanes->lock);
}

static void want(struct release_lanes *lanes, const char *space, const char *id,
                 enum lane_life life)
{
    pthread_mutex_lock(&lanes->lock);
    for (uint32_t i = 0; i < RELEASE_LANES_MAX; i++) {
        struct release_lane *e = &lanes->places[i];
        if (is_meant(e, space, id))
            lane_want(e->lane, life);
    }
    pthread_mutex_unlock(&lanes->lock);
}

void release_lanes_want(struct release_lanes *lanes, const char *space, enum lane_life life)
{
    if (space[0] != '\0')
        want(lanes, space, NULL, life);
}

void release_lanes_want_id(struct release_lanes *lanes, const char *id, enum lane_life life)
{
    if (id[0] != '\0')
        want(lanes, NULL, id, life);
}

void release_lanes_purge(struct release_lanes *lanes, const char *id)
{
    pthread_mutex_lock(&lanes->lock);
    for (uint32_t i = 0; i < RELEASE_LANES_MAX; i++) {
        struct release_lane *e = &lanes->places[i];
        if (e->lane != NULL && (id[0] == '\0' || is_meant(e, NULL, id)))
            lane_purge(e->lane);
    }
    pthread_mutex_unlock(&lanes->lock);
}

bool release_lanes_has_reached(struct release_lanes *lanes, const char *space, enum lane_life life)
{
    bool has = true;
    pthread_mutex_lock(&lanes->lock);
    for (uint32_t i = 0; i < RELEASE_LANES_MAX; i++) {
        const struct release_lane *e = &lanes->places[i];
        if (e->lane != NULL && strcmp(e->space, space) == 0)
            has = has && lane_reached(e->lane) >= life;
    }
    pthread_mutex_unlock(&lanes->lock);
    return has;
}

uint32_t release_lanes_in_flight(struct release_lanes *lanes, const char *space)
{
    uint32_t n = 0;
    pthread_mutex_lock(&lanes->lock);
    for (uint32_t i = 0; i < RELEASE_LANES_MAX; i++) {
        const struct release_lane *e = &lanes->places[i];
        if (e->lane != NULL && strcmp(e->space, space) == 0)
            n += lane_in_flight(e->lane);
    }
    pthread_mutex_unlock(&lanes->lock);
    return n;
}

void release_lanes_set_cells(struct release_lanes *lanes, const char *id,
                             const struct evaluation_cells *cells)
{
    pthread_mutex_lock(&lanes->lock);
    struct release_lane *e = search(lanes, NULL, id);
    if (e != NULL) {
        e->cells = *cells;
        e->has_cells = true;
    }
    pthread_mutex_unlock(&lanes->lock);
}

void release_lanes_describe(struct release_lanes *lanes, const struct release_lane_row *row)
{
    pthread_mutex_lock(&lanes->lock);
    for (uint32_t i = 0; i < RELEASE_LANES_MAX; i++) {
        struct release_lane *e = &lanes->places[i];
        if (e->lane == NULL || strcmp(e->id, row->id) != 0)
            continue;
        snprintf(e->name, sizeof e->name, "%s", row->name);
        snprintf(e->state, sizeof e->state, "%s", row->state);
        e->is_past = !e->is_control && (row->is_over || strcmp(e->space, row->space) != 0);
    }
    pthread_mutex_unlock(&lanes->lock);
}

void release_lanes_clear(struct release_lanes *lanes)
{
    pthread_mutex_lock(&lanes->lock);
    memset(lanes->places, 0, sizeof lanes->places);
    pthread_mutex_unlock(&lanes->lock);
}

void release_lanes_leave(struct release_lanes *lanes, uint32_t place)
{
    pthread_mutex_lock(&lanes->lock);
    lanes->places[place].is_leaving = true;
    pthread_mutex_unlock(&lanes->lock);
}

struct lane *release_lanes_pop(struct release_lanes *lanes, uint32_t place)
{
    struct lane *lane = NULL;
    pthread_mutex_lock(&lanes->lock);
    struct release_lane *e = &lanes->places[place];
    if (e->lane != NULL && e->is_leaving && e->uses == 0 && lane_reached(e->lane) >= LANE_FREED) {
        lane = e->lane;
        memset(e, 0, sizeof *e);
    }
    pthread_mutex_unlock(&lanes->lock);
    return lane;
}
