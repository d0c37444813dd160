/* release_lanes.h: which generations are loaded, under which namespace, and who still uses them.
 *
 * A lane may be wanted away by the registry's thread, chosen by the loop and freed by the loader, all at once; so a
 * place in the book has a count of uses, and a lane that is used is not handed out for freeing. Any
 * thread; nothing is done under the lock but looking, at cells too. A copy from a look-up (find, at) says what there was; its lane
 * may be followed by the loader alone, which frees lanes. All others take, keep or hold it. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_RELEASE_LANES_H
#define FOLDKV_SCHED_RELEASE_LANES_H

#include <pthread.h>

#include "cache/cache_shape.h"
#include "sched/evaluate/evaluation_cells.h"
#include "sched/lane.h"

enum { RELEASE_LANES_MAX = 8, NO_LANE = RELEASE_LANES_MAX };

struct release_lane {
    struct lane *lane; /* NULL: the place is free */
    uint32_t place;    /* in the book */
    bool is_open;      /* in a copy: requests were wanted for it */
    char id[SHA256_HEX], space[SHA256_HEX];
    char name[128], state[32]; /* of the generation's row, for people */
    bool is_control;
    bool is_past;    /* not its generation's any more: that was given up, or has another namespace now */
    bool is_leaving; /* not handed out any more */
    uint32_t uses;   /* choices that have not ended */
    uint64_t cache_bytes, weights_bytes; /* as it was loaded; a lane that is FREED has the weights alone */
    struct cache_shape shape; /* of its cache */
    bool has_cells; /* it serves only inside cells; false: everywhere */
    struct evaluation_cells cells;
};

struct release_lanes {
    pthread_mutex_t lock;
    struct release_lane places[RELEASE_LANES_MAX];
};

enum status release_lanes_init(struct release_lanes *lanes) MUST_USE;
void release_lanes_destroy(struct release_lanes *lanes);

/* False if there is no place. */
bool release_lanes_add(struct release_lanes *lanes, const struct release_lane *entry) MUST_USE;
/* A copy of the place with this namespace that is not leaving; false if there is none. */
bool release_lanes_find(struct release_lanes *lanes, const char *space,
                        struct release_lane *ret_entry);
/* The same by generation; a control lane is not its generation's, nor is one that is past. */
bool release_lanes_find_id(struct release_lanes *lanes, const char *id,
                           struct release_lane *ret_entry);
/* Place i as it is; false if it is free. */
bool release_lanes_at(struct release_lanes *lanes, uint32_t i, struct release_lane *ret_entry);

/* Who a request is for, and whose cells it must lie inside. */
struct release_wish {
    const char *space;    /* of the lane that is to take it */
    const char *peers[2]; /* namespaces of others whose cells bind it, too, and that must take requests; NULL: none */
    struct evaluation_cell cell; /* active_requests: the most that ever run at once; those behind them wait */
};
/* One use more of the lane. It is counted as active with those that the lane has in flight. NOT_FOUND: a lane is lacking, or
 * takes no requests; else as evaluation_cells_admit. */
enum status release_lanes_take(struct release_lanes *lanes, const struct release_wish *wish,
                               uint32_t *ret_place, struct why *ret_why) MUST_USE;
/* As find, find_id and at, with one use more of the lane, whatever state it is in. */
bool release_lanes_keep(struct release_lanes *lanes, const char *space,
                        struct release_lane *ret_entry);
bool release_lanes_keep_id(struct release_lanes *lanes, const char *id,
                           struct release_lane *ret_entry);
bool release_lanes_hold(struct release_lanes *lanes, uint32_t i, struct release_lane *ret_entry);
void release_lanes_give(struct release_lanes *lanes, uint32_t place);

/* Every lane of the namespace, leaving or not; "" names none. */
void release_lanes_want(struct release_lanes *lanes, const char *space, enum lane_life life);
/* Every lane of a generation but control's. */
void release_lanes_want_id(struct release_lanes *lanes, const char *id, enum lane_life life);
/* lane_purge of every lane of a generation but control's; "": of all. */
void release_lanes_purge(struct release_lanes *lanes, const char *id);
/* True if each lane of the namespace has reached life, or there is none. */
bool release_lanes_has_reached(struct release_lanes *lanes, const char *space, enum lane_life life);
uint32_t release_lanes_in_flight(struct release_lanes *lanes, const char *space);

void release_lanes_set_cells(struct release_lanes *lanes, const char *id,
                             const struct evaluation_cells *cells);
/* Of a generation's row; is_over: it was given up. */
struct release_lane_row {
    const char *id, *space, *name, *state;
    bool is_over;
};
void release_lanes_describe(struct release_lanes *lanes, const struct release_lane_row *row);
/* Every place is free; the lanes are whoever's they were. */
void release_lanes_clear(struct release_lanes *lanes);
/* From now on it is not found, nor taken. */
void release_lanes_leave(struct release_lanes *lanes, uint32_t place);
/* The lane of a place that leaves, is used by nobody and has reached FREED; the place is free then. NULL:
 * not yet. */
struct lane *release_lanes_pop(struct release_lanes *lanes, uint32_t place);

#endif
