/* projection.c: rows to what holds in memory.
 *
 * ALWAYS  (1) A generation that an open rollback names as its candidate is barred.
 *         (2) Without a registry that takes writes no candidate is admitted.
 * THREAD  registry
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/projection.h"

#include "sched/release/release.h"

enum status projection_read(struct registry *registry, struct projection *ret_projection,
                            struct why *ret_why)
{
    struct projection *p = ret_projection;
    struct record route = {0};
    int64_t weight = 0, cap = 0;
    memset(p, 0, sizeof *p); /* padding too: two projections are compared as bytes */
    p->is_writable = registry_fault(registry) == NULL;
    TRY(registry_epoch(registry, &p->epoch, ret_why));
    enum status s = release_route(registry, &route, ret_why);
    if (s != OK && s != STATUS_NOT_FOUND)
        return s;
    record_copy_text(&route, "stable", p->stable, sizeof p->stable);
    record_copy_text(&route, "previous", p->previous, sizeof p->previous);
    record_copy_text(&route, "candidate", p->candidate, sizeof p->candidate);
    record_copy_text(&route, "control_namespace", p->control_namespace, sizeof p->control_namespace);
    record_copy_text(&route, "barred", p->barred, sizeof p->barred);
    record_copy_text(&route, "pinned", p->pinned, sizeof p->pinned);
    record_copy_text(&route, "rollout", p->rollout, sizeof p->rollout);
    record_copy_text(&route, "salt", p->salt, sizeof p->salt);
    (void)record_number(&route, "weight_bp", &weight);
    (void)record_number(&route, "cap_bp", &cap);
    p->weight_bp = (uint32_t)weight;
    p->cap_bp = (uint32_t)cap;
    record_release(&route);
    p->is_candidate_admitted =
        p->candidate[0] != '\0' && strcmp(p->candidate, p->barred) != 0 && p->is_writable;
    TRY(release_namespace_of(registry, p->stable, p->stable_namespace, ret_why));
    TRY(release_namespace_of(registry, p->candidate, p->candidate_namespace, ret_why));
    TRY(release_namespace_of(registry, p->pinned, p->pinned_namespace, ret_why));
    return OK;
}

/* What projection_each_namespace hands through. */
struct walk {
    projection_namespace_fn *on_namespace;
    void *user;
};

static enum status see(void *user, const char *key, const struct record *body, struct why *ret_why)
{
    const struct walk *walk = user;
    char state[32], generation[SHA256_HEX];
    (void)ret_why;
    record_copy_text(body, "state", state, sizeof state);
    record_copy_text(body, "generation", generation, sizeof generation);
    walk->on_namespace(walk->user, key, generation, namespace_may_move("draining", state));
    return OK;
}

enum status projection_each_namespace(struct registry *registry,
                                      projection_namespace_fn *on_namespace, void *user,
                                      struct why *ret_why)
{
    struct walk walk = {on_namespace, user};
    return registry_each(registry, REGISTRY_NAMESPACES, see, &walk, ret_why);
}
