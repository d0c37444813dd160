/* projection.h: what the router, the admission and the cache must hold, as the registry's rows say: read at
 * start before the listener opens, and after each change.
 *
 * While a rollback is open its candidate is barred, whatever the rest of the route says, and what would go to it goes
 * to the pinned generation. A registry that takes no writes admits no candidate: its stable generation serves
 * alone. Registry thread; the struct may be copied to any. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_PROJECTION_H
#define FOLDKV_SCHED_PROJECTION_H

#include "sched/release/registry.h"

/* Empty texts: there is none. */
struct projection {
    int64_t epoch;
    char stable[SHA256_HEX], stable_namespace[SHA256_HEX];
    char previous[SHA256_HEX];
    char candidate[SHA256_HEX], candidate_namespace[SHA256_HEX];
    char control_namespace[SHA256_HEX];
    char barred[SHA256_HEX]; /* nobody is admitted to it */
    char pinned[SHA256_HEX]; /* who is routed to the barred one goes here */
    char pinned_namespace[SHA256_HEX];
    char rollout[REGISTRY_KEY_ROOM];
    char salt[SHA256_HEX];
    uint32_t weight_bp, cap_bp; /* the candidate's share; the most of control's (arm.h) */
    bool is_candidate_admitted;
    bool is_writable; /* the last write succeeded */
};

/* An empty registry gives a projection without a stable generation. */
enum status projection_read(struct registry *registry, struct projection *ret_projection,
                            struct why *ret_why) MUST_USE;
/* For each namespace that there ever was: whether a look-up in it must answer "fenced". */
typedef void projection_namespace_fn(void *user, const char *name_space, const char *generation,
                                     bool is_fenced);
enum status projection_each_namespace(struct registry *registry,
                                      projection_namespace_fn *on_namespace, void *user,
                                      struct why *ret_why) MUST_USE;

#endif
