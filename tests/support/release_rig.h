/* release_rig.h: releases for tests: contents and receipts that agree, a plan, evidence, and a small world in
 * memory (a router, an admission, a fence) on which a journal's effects work.
 *
 * The world checks what must hold of it each time an effect runs, and counts what it finds wrong. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_TESTS_RELEASE_RIG_H
#define FOLDKV_TESTS_RELEASE_RIG_H

#include "sched/release/agreement.h"
#include "sched/release/journal.h"
#include "sched/release/projection.h"
#include "sched/release/release.h"
#include "sched/release/release_rollout.h"

/* Ends the test with what a call that gave no OK said, in a struct why of this name. */
#define ck_ok(call)                                                                                \
    do {                                                                                           \
        enum status ck_ok_status_ = (call);                                                        \
        if (ck_ok_status_ != OK)                                                                   \
            ck_abort_msg("%s: %s: %s", #call, status_code(ck_ok_status_), why.text);               \
    } while (0)

enum { WORLD_FENCES_MAX = 64 };

/* What a daemon holds in memory beside the registry. */
struct world {
    struct registry *registry;
    char stable[SHA256_HEX], candidate[SHA256_HEX], barred[SHA256_HEX];
    char fenced[WORLD_FENCES_MAX][SHA256_HEX];
    int n_fenced;
    int in_flight;   /* of the candidate */
    int drain_turns; /* how often draining says that it needs time */
    bool is_pin_failing;
    int n_applied[JOURNAL_STEP_COUNT];
    int n_wrong; /* invariants that did not hold; wrong says the last */
    char wrong[160];
};

/* SHA-256 of the label in hex: stands in for any hash. */
void rig_hash(const char *label, char ret_hex[SHA256_HEX]);
struct change_terms rig_terms(int64_t at_us);
/* Four receipts that agree, for the content of that label. */
void rig_receipts(const char *label, const char *id, const char *name_space,
                  struct record ret_receipts[AGREEMENT_RECEIPTS]);
/* An evaluation of this generation against that baseline (rows) and the manifest that it was run under;
 * one that does not pass has a slice that lost. NO_MEMORY: one or both are empty. */
enum status rig_evaluation(const struct record *generation, const struct record *baseline,
                           bool passes, struct record *ret_manifest, struct record *ret_receipt,
                           struct why *ret_why) MUST_USE;
/* Weights 1 %, 5 %, 25 %, 600 s a step. */
void rig_plan(bool is_auto, struct rollout_plan *ret_plan);
/* What a step ends with: RIG_PASS all gates pass; RIG_FAIL the numerical gate is breached; RIG_PAUSE the time is over and
 * the requests were too few. */
enum rig_verdict { RIG_PASS, RIG_FAIL, RIG_PAUSE };
void rig_evidence(enum rig_verdict verdict, struct gate_evidence *ret_evidence);
/* A rollout of this candidate by rig_plan; ret_key may be NULL. */
enum status rig_start(struct registry *registry, const char *candidate, bool is_auto,
                      char ret_key[REGISTRY_KEY_ROOM], struct why *ret_why);
/* A tick of the rollout under way with that evidence, in the step's last moment. */
enum status rig_tick(struct registry *registry, enum rig_verdict verdict, struct why *ret_why);
/* A command to the rollout under way; note may be NULL. */
enum status rig_command(struct registry *registry, enum rollout_event_kind kind, const char *note,
                        struct why *ret_why);
enum status rig_roll_back(struct registry *registry, const char *note, struct why *ret_why);

enum status rig_found(struct registry *registry, const char *label, char ret_id[SHA256_HEX],
                      struct why *ret_why);
/* From registered to warmed, name as alias; each durable change is one call. on_told, if any, is called after each
 * with its name. */
typedef void rig_told_fn(void *user, const char *what);
enum status rig_publish(struct registry *registry, const char *label, rig_told_fn *on_told,
                        void *user, char ret_id[SHA256_HEX], struct why *ret_why);

/* The world as the registry's projection says; what a start does before the listener opens. */
enum status world_recover(struct world *world, struct registry *registry, struct why *ret_why);
/* Effects that work on the world. */
void world_effects(struct world *world, struct journal_effects *ret_effects);
bool world_is_fenced(const struct world *world, const char *name_space);
/* Advances until nothing is pending. */
enum status world_settle(struct world *world, struct why *ret_why);
/* What must be true of registry and world between any two steps; n_wrong grows where it is not. */
void world_check(struct world *world);

#endif
