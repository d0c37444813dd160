/* release.h: what may be done with generations: found, register, attach receipts, move on, and read the
 * route. Each call is one durable change.
 *
 * A generation's row: {checkpoint, evaluation_set, identity, name, namespace, object, plan, reason, receipts:
 * {kind: hash}, registered_epoch, state}. The route's row: {barred, candidate, cap_bp, control_namespace, pinned,
 * previous, rollout, salt, stable, weight_bp}; ids are generations', null where there is none. Registry
 * thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_RELEASE_H
#define FOLDKV_SCHED_RELEASE_H

#include "sched/release/change.h"
#include "sched/release/release_state.h"

#define RELEASE_ROUTE "route" /* the one key of the table of routes */

/* What a generation is; all but name and object are hashes in hex. */
struct release_content {
    const char *checkpoint;     /* SHA-256 of the file */
    const char *identity;       /* I */
    const char *plan;           /* hash of the kernel plan */
    const char *evaluation_set; /* hash of what it is evaluated with */
    const char *name;           /* an alias, unique; NULL: none */
    const char *object;         /* key in the object store; NULL: the file stays where it is */
};

/* The first generation of an empty registry: stable at once, since there is nothing to compare it with;
 * its four receipts (in the order of agreement.h) are made by make_receipts, which learns the namespace that
 * they must name. ILLEGAL_MOVE if there is a route already. */
typedef void release_receipts_fn(void *user, const char *id, const char *name_space,
                                 struct record ret_receipts[4]);
enum status release_found(struct registry *registry, const struct change_terms *terms,
                          const struct release_content *content, release_receipts_fn *make_receipts,
                          void *user, char ret_id[SHA256_HEX], struct why *ret_why) MUST_USE;

/* Registers by content. The same content again gives the same id and changes nothing (ret_is_new false),
 * unless it was rejected, rolled back or retired: then it starts afresh under a new namespace. NAME_TAKEN if
 * the name is another generation's, or the content has another name. */
enum status release_register(struct registry *registry, const struct change_terms *terms,
                             const struct release_content *content, char ret_id[SHA256_HEX],
                             bool *ret_is_new, struct why *ret_why) MUST_USE;

/* Keeps the receipt and names it in the generation's row under kind ("checkpoint", "cache", "plan",
 * "placement", "evaluation", "warming", or another). */
enum status release_receipt(struct registry *registry, const struct change_terms *terms,
                            const char *id, const char *kind, const struct record *receipt,
                            char ret_hash[SHA256_HEX], struct why *ret_why) MUST_USE;
/* A move of generation.def up to warmed, or to rejected; reason may be NULL. The rules ask for the receipts
 * that the state stands on. */
enum status release_move_generation(struct registry *registry, const struct change_terms *terms,
                                    const char *id, enum generation_state to, const char *reason,
                                    struct why *ret_why) MUST_USE;

/* The generation's row by id or by name. NOT_FOUND. */
enum status release_find(struct registry *registry, const char *id_or_name, char ret_id[SHA256_HEX],
                         struct record *ret_generation, struct why *ret_why) MUST_USE;
enum status release_route(struct registry *registry, struct record *ret_route,
                          struct why *ret_why) MUST_USE;
/* The namespace that a generation is under; "" for the id "". NOT_FOUND. */
enum status release_namespace_of(struct registry *registry, const char *id,
                                 char ret_namespace[SHA256_HEX], struct why *ret_why) MUST_USE;
/* Part of a change: moves a generation's row, whatever the move (the rules judge it). */
enum status release_put_state(struct registry *registry, struct change *change, const char *id,
                              enum generation_state to, const char *reason,
                              struct why *ret_why) MUST_USE;
/* Part of a change: moves a namespace forward; one that is there already stays. NULL: nothing. */
enum status release_put_namespace(struct registry *registry, struct change *change, const char *key,
                                  const char *state, struct why *ret_why) MUST_USE;

#endif
