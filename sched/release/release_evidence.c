/* release_evidence.c: evaluations and decisions, derived again.
 *
 * HOW     Receipts are read from the registry as text and given to who wrote them (evaluation_receipt.h,
 *         rollout_receipt.h); then what they are about is held against the row.
 * THREAD  registry
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/release_evidence.h"

#include "config/mem.h"
#include "sched/evaluate/evaluation_manifest.h"
#include "sched/evaluate/evaluation_receipt.h"
#include "sched/release/release.h"
#include "sched/release/release_state.h"
#include "sched/judge/rollout_receipt.h"

static enum status disagree(struct why *ret_why, const char *field, const char *text)
{
    return why_set(ret_why, STATUS_RECEIPTS_DISAGREE, field, "%s", text);
}

/* The text of the receipt with this hash; NULL: there is none. */
static enum status text_of(struct registry *r, const char *hash, char **ret_text,
                           struct why *ret_why)
{
    struct record receipt;
    *ret_text = NULL;
    if (hash == NULL)
        return OK;
    TRY(registry_get(r, REGISTRY_RECEIPTS, hash, &receipt, ret_why));
    *ret_text = record_print(&receipt);
    record_release(&receipt);
    return *ret_text != NULL
               ? OK
               : why_set(ret_why, STATUS_NO_MEMORY, "receipt", "no memory for a receipt");
}

/* What does not follow from a receipt is a disagreement, whoever found it. */
static enum status as_disagreement(enum status s)
{
    return s == OK || s == STATUS_NO_MEMORY ? s : STATUS_RECEIPTS_DISAGREE;
}

/* ---- evaluation ---- */

static enum status check_hash(const struct record *generation, const char *key,
                              const uint8_t found[SHA256_BYTES], struct why *ret_why)
{
    char hex[SHA256_HEX];
    const char *own = record_text(generation, key);
    sha256_hex(found, hex);
    if (own != NULL && strcmp(own, hex) == 0)
        return OK;
    (void)why_set(ret_why, STATUS_RECEIPTS_DISAGREE, key,
                  "the evaluation is of %s %.16s, the generation has %.16s", key, hex,
                  own != NULL ? own : "none");
    why_add_both(ret_why, "evaluated", hex, "generation", own);
    return STATUS_RECEIPTS_DISAGREE;
}

/* What a generation was loaded with last, from its plan receipt. */
struct loaded {
    char plan[SHA256_HEX], backend[24];
};

static enum status loaded_of(struct registry *r, const struct record *generation,
                             struct loaded *ret_loaded, struct why *ret_why)
{
    struct record named = record_child(generation, "receipts"), receipt;
    const char *hash = record_text(&named, "plan");
    *ret_loaded = (struct loaded){.plan = "none", .backend = "none"};
    if (hash == NULL)
        return OK;
    TRY(registry_get(r, REGISTRY_RECEIPTS, hash, &receipt, ret_why));
    const char *plan = record_text(&receipt, "plan"), *backend = record_text(&receipt, "backend");
    if (plan != NULL)
        snprintf(ret_loaded->plan, sizeof ret_loaded->plan, "%s", plan);
    if (backend != NULL)
        snprintf(ret_loaded->backend, sizeof ret_loaded->backend, "%s", backend);
    record_release(&receipt);
    return OK;
}

static enum status check_plan(struct registry *r, const struct record *generation,
                              const struct evaluation_subject *subject, struct why *ret_why)
{
    struct loaded loaded;
    char hex[SHA256_HEX];
    TRY(loaded_of(r, generation, &loaded, ret_why));
    sha256_hex(subject->kernel_plan, hex);
    if (strcmp(loaded.plan, hex) == 0)
        return OK;
    (void)why_set(ret_why, STATUS_RECEIPTS_DISAGREE, "plan",
                  "it was evaluated with kernel plan %.16s and is loaded with %.16s (backend %s): "
                  "evaluate it again",
                  hex, loaded.plan, loaded.backend);
    why_add_both(ret_why, "evaluated", hex, "loaded", loaded.plan);
    why_add_text(ret_why, "backend", loaded.backend);
    return STATUS_RECEIPTS_DISAGREE;
}

static enum status check_subject(struct registry *r, const struct record *generation,
                                 const struct evaluation_subject *subject, struct why *ret_why)
{
    TRY(check_hash(generation, "checkpoint", subject->checkpoint, ret_why));
    TRY(check_hash(generation, "identity", subject->identity, ret_why));
    TRY(check_plan(r, generation, subject, ret_why));
    return check_hash(generation, "evaluation_set", subject->dataset, ret_why);
}

/* The first gate that does not pass, with its figures. */
static enum status refuse_result(const struct evaluation_result *result,
                                 const struct gate_thresholds *thresholds, struct why *ret_why)
{
    for (int i = 0; i < GATE_COUNT; i++) {
        struct gate_judgement judgement;
        gate_judge((enum gate)i, &result->evidence, thresholds, 1, &judgement);
        if (judgement.verdict != VERDICT_PASS)
            return why_set(ret_why, STATUS_RECEIPTS_DISAGREE, "evaluation",
                           "the evaluation's gate %s says %s (%s)", gate_rows[i].key,
                           gate_verdict_name(judgement.verdict), judgement.text);
    }
    return disagree(ret_why, "evaluation", "no cell of the evaluation passed");
}

static enum status check_result(const char *manifest_hash, const char *text,
                                const struct gate_thresholds *thresholds, struct why *ret_why)
{
    char hex[SHA256_HEX];
    struct evaluation_result *result = mem_zalloc(1, sizeof *result);
    if (result == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "evaluation", "no memory for an evaluation");
    enum status s = as_disagreement(
        evaluation_receipt_read((struct slice){text, strlen(text)}, thresholds, result, ret_why));
    sha256_hex(result->manifest, hex);
    if (s == OK && strcmp(hex, manifest_hash) != 0)
        s = disagree(ret_why, "evaluation", "the evaluation was run under another manifest");
    if (s == OK && !evaluation_result_passes(result, thresholds))
        s = refuse_result(result, thresholds, ret_why);
    mem_free(result);
    return s;
}

enum status release_evidence_evaluation(struct registry *registry, const struct record *generation,
                                        struct why *ret_why)
{
    struct evaluation_subject subject;
    struct record named = record_child(generation, "receipts");
    const char *hash = record_text(&named, "evaluation_manifest");
    char *manifest = NULL, *receipt = NULL;
    enum status s = text_of(registry, hash, &manifest, ret_why);
    if (s == OK)
        s = text_of(registry, record_text(&named, "evaluation"), &receipt, ret_why);
    if (s == OK && (manifest == NULL || receipt == NULL))
        s = disagree(ret_why, "evaluation",
                     "the generation has no evaluation receipt, or not the manifest of one");
    if (s == OK)
        s = as_disagreement(
            evaluation_subject_read((struct slice){manifest, strlen(manifest)}, &subject, ret_why));
    if (s == OK)
        s = check_subject(registry, generation, &subject, ret_why);
    if (s == OK)
        s = check_result(hash, receipt, &subject.thresholds, ret_why);
    mem_free(manifest);
    mem_free(receipt);
    return s;
}

static enum status check_baseline(const char *what, const uint8_t evaluated[SHA256_BYTES],
                                  const char *stable, struct why *ret_why)
{
    char hex[SHA256_HEX];
    sha256_hex(evaluated, hex);
    if (stable != NULL && strcmp(stable, hex) == 0)
        return OK;
    (void)why_set(ret_why, STATUS_RECEIPTS_DISAGREE, what,
                  "it was evaluated against a baseline of %s %.16s, the stable generation has "
                  "%.16s: evaluate it again",
                  strcmp(what, "baseline") == 0 ? "identity" : "kernel plan", hex,
                  stable != NULL ? stable : "none");
    why_add_both(ret_why, "evaluated", hex, "stable", stable);
    return STATUS_RECEIPTS_DISAGREE;
}

static enum status check_stable(struct registry *r, const struct evaluation_subject *subject,
                                struct why *ret_why)
{
    struct record route, stable;
    struct loaded loaded;
    TRY(registry_get(r, REGISTRY_ROUTES, RELEASE_ROUTE, &route, ret_why));
    const char *id = record_text(&route, "stable");
    enum status s =
        registry_get(r, REGISTRY_GENERATIONS, id != NULL ? id : "", &stable, ret_why);
    record_release(&route);
    TRY(s);
    s = check_baseline("baseline", subject->baseline_identity, record_text(&stable, "identity"),
                       ret_why);
    if (s == OK)
        s = loaded_of(r, &stable, &loaded, ret_why);
    if (s == OK)
        s = check_baseline("baseline_plan", subject->baseline_plan, loaded.plan, ret_why);
    record_release(&stable);
    return s;
}

enum status release_evidence_current(struct registry *registry, const struct record *generation,
                                     struct why *ret_why)
{
    struct evaluation_subject subject;
    struct record named = record_child(generation, "receipts");
    char *manifest = NULL;
    TRY(text_of(registry, record_text(&named, "evaluation_manifest"), &manifest, ret_why));
    if (manifest == NULL)
        return disagree(ret_why, "evaluation", "it was never evaluated");
    enum status s = as_disagreement(
        evaluation_subject_read((struct slice){manifest, strlen(manifest)}, &subject, ret_why));
    mem_free(manifest);
    if (s == OK)
        s = check_plan(registry, generation, &subject, ret_why);
    return s == OK ? check_stable(registry, &subject, ret_why) : s;
}

/* ---- decisions ---- */

/* One decision more, and nothing else about the rollout changed. */
static bool is_continued(const struct record *before, const struct record *after)
{
    static const char *const fixed[] = {"baseline", "candidate", "plan", "started_us"};
    size_t n = record_list_count(before, "decisions");
    if (record_list_count(after, "decisions") != n + 1)
        return false;
    for (size_t i = 0; before->json != NULL && i < ARRAY_LEN(fixed); i++)
        if (!record_is_shared(before, after, fixed[i]))
            return false;
    for (size_t i = 0; i < n; i++) {
        const char *a = record_item_text(before, "decisions", i),
                   *b = record_item_text(after, "decisions", i);
        if (a == NULL || b == NULL || strcmp(a, b) != 0)
            return false;
    }
    return true;
}

/* A rollout starts from a generation that is evaluated and warmed. */
static enum status check_start(struct registry *r, const struct release_rollout *ro,
                               const struct record *receipt, struct why *ret_why)
{
    struct record row, from = record_child(receipt, "before");
    const char *state = record_text(&from, "state"), *event = record_text(receipt, "event");
    if (state == NULL || event == NULL || record_flag(&from, "has_served") ||
        strcmp(state, rollout_state_name(ROLLOUT_EVALUATED)) != 0 ||
        strcmp(event, rollout_event_name(EVENT_START)) != 0)
        return disagree(ret_why, "decisions", "a rollout begins with its start");
    TRY(registry_get(r, REGISTRY_GENERATIONS, ro->candidate, &row, ret_why));
    enum generation_state found = generation_state_find(record_text(&row, "state"));
    record_release(&row);
    return found == GENERATION_WARMED || found == GENERATION_CANARY
               ? OK
               : why_set(ret_why, STATUS_ILLEGAL_MOVE, "candidate",
                         "a rollout starts with a generation that is warmed");
}

/* The receipt speaks of exactly this move. */
static enum status check_receipt(struct registry *r, const struct release_rollout *ro,
                                 const struct record *before, const struct record *after,
                                 const struct record *receipt, struct why *ret_why)
{
    struct record to = record_child(receipt, "after"), now = record_child(after, "now");
    struct record from = record_child(receipt, "before"), was = record_child(before, "now");
    if (!record_is_equal(&to, &now))
        return disagree(ret_why, "decisions",
                        "the rollout does not stand where its decision put it");
    if (before->json == NULL)
        return check_start(r, ro, receipt, ret_why);
    return record_is_equal(&from, &was)
               ? OK
               : disagree(ret_why, "decisions", "the decision was made from another state");
}

enum status release_evidence_decision(struct registry *registry, const char *key,
                                      const struct record *before, const struct record *after,
                                      struct release_rollout *ret_after, struct why *ret_why)
{
    char *text = NULL;
    struct record receipt = {0};
    if (!is_continued(before, after))
        return why_set(ret_why, STATUS_ILLEGAL_MOVE, "decisions",
                       "a rollout moves by one decision after the other (%s)", key);
    TRY(release_rollout_parse(registry, key, after, ret_after, ret_why));
    TRY(registry_get(registry, REGISTRY_RECEIPTS, ret_after->decision, &receipt, ret_why));
    enum status s = check_receipt(registry, ret_after, before, after, &receipt, ret_why);
    record_release(&receipt);
    if (s == OK)
        s = text_of(registry, ret_after->decision, &text, ret_why);
    if (s == OK)
        s = as_disagreement(rollout_receipt_rederive((struct slice){text, strlen(text)},
                                                     &ret_after->plan, ret_why));
    mem_free(text);
    return s;
}
