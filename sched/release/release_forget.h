/* release_forget.h: giving up a generation that carries no traffic, and fencing a namespace by hand. Each call is one
 * durable change. Registry thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_RELEASE_FORGET_H
#define FOLDKV_SCHED_RELEASE_FORGET_H

#include "sched/release/release.h"

/* The previous generation is retired, so there is nothing to go back to; one that never had traffic is rejected; of one that
 * was rejected, rolled back or retired before, the state stays. Its namespace is fenced, and its row names no object
 * any more. ILLEGAL_MOVE for one with traffic, or in a rollout, or without anything left to forget. */
enum status release_forget(struct registry *registry, const struct change_terms *terms,
                           const char *id, struct why *ret_why) MUST_USE;
/* ILLEGAL_MOVE for a namespace that the route serves. */
enum status release_fence_namespace(struct registry *registry, const struct change_terms *terms,
                                    const char *space, struct why *ret_why) MUST_USE;

#endif
