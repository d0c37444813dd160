/* release_rig.c: contents, receipts and the world.
 *
 * HOW     Everything about a content follows from its label, so two processes that use the same label mean the same
 *         generation.
 */
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/release_rig.h"

#include "config/mem.h"
#include "sched/evaluate/evaluation_manifest.h"
#include "sched/evaluate/evaluation_receipt.h"

void rig_hash(const char *label, char ret_hex[SHA256_HEX])
{
    uint8_t hash[SHA256_BYTES];
    if (sha256_of(label, strlen(label), hash) != OK)
        abort();
    sha256_hex(hash, ret_hex);
}

struct change_terms rig_terms(int64_t at_us)
{
    return (struct change_terms){.who = "tester", .at_us = at_us, .epoch_expected = EPOCH_ANY};
}

static void part_hash(const char *label, const char *part, char ret_hex[SHA256_HEX])
{
    char text[200];
    snprintf(text, sizeof text, "%s/%s", part, label);
    rig_hash(text, ret_hex);
}

static void set_all(struct record receipts[AGREEMENT_RECEIPTS], unsigned which, const char *field,
                    const char *value)
{
    for (unsigned i = 0; i < AGREEMENT_RECEIPTS; i++)
        if (which >> i & 1)
            record_set_text(&receipts[i], field, value);
}

void rig_receipts(const char *label, const char *id, const char *name_space,
                  struct record ret_receipts[AGREEMENT_RECEIPTS])
{
    enum { CHECKPOINT = 1, CACHE = 2, PLAN = 4, PLACEMENT = 8 };
    char identity[SHA256_HEX], counts[SHA256_HEX], plan[SHA256_HEX];
    part_hash(label, "identity", identity);
    rig_hash("3 of 9", counts);
    for (int i = 0; i < AGREEMENT_RECEIPTS; i++) {
        record_init(&ret_receipts[i]);
        record_set_text(&ret_receipts[i], "kind",
                        agreement_receipt_text((enum agreement_receipt)i));
    }
    set_all(ret_receipts, CHECKPOINT | CACHE | PLAN | PLACEMENT, "identity", identity);
    set_all(ret_receipts, CHECKPOINT | PLAN, "architecture_hash", counts);
    set_all(ret_receipts, CHECKPOINT | PLAN, "qkv_fusion_order", "separate");
    set_all(ret_receipts, CHECKPOINT | CACHE | PLAN, "rope_coordinate_order", "halves");
    set_all(ret_receipts, CACHE | PLAN, "position_convention",
            "absolute, rotated before it is stored");
    set_all(ret_receipts, CHECKPOINT | CACHE | PLAN | PLACEMENT, "head_counts_hash", counts);
    set_all(ret_receipts, CHECKPOINT | CACHE | PLAN, "head_widths_hash", counts);
    set_all(ret_receipts, CHECKPOINT | PLAN | PLACEMENT, "head_map_hash", counts);
    set_all(ret_receipts, CACHE | PLAN, "windows_hash", counts);
    set_all(ret_receipts, CACHE | PLAN, "cache_layout", "head-major pages");
    set_all(ret_receipts, CACHE | PLAN, "kv_type", "f16");
    part_hash(label, "plan", plan);
    set_all(ret_receipts, PLAN, "plan", plan);
    set_all(ret_receipts, CACHE | PLAN, "generation", id);
    set_all(ret_receipts, CACHE | PLAN, "namespace", name_space);
    record_set_number(&ret_receipts[RECEIPT_CACHE], "page_tokens", 64);
    record_set_number(&ret_receipts[RECEIPT_PLAN], "page_tokens", 64);
    record_set_number(&ret_receipts[RECEIPT_PLACEMENT], "unowned_query_heads", 0);
}

/* ---- evidence ---- */

/* Canonical text as a record; frees it. */
static enum status take_text(char *text, struct record *ret_record, struct why *ret_why)
{
    enum status s = record_read(text, strlen(text), ret_record, ret_why);
    mem_free(text);
    return s;
}

static struct evaluation_side side_of(const struct record *generation)
{
    struct evaluation_side side = {.backend_revision = "rig",
                                   .q_dtype = "f32",
                                   .kv_dtype = "f16",
                                   .accumulator_dtype = "f32",
                                   .page_tokens = 64,
                                   .tensor_parallel_degree = 1};
    sha256_from_hex(record_text(generation, "checkpoint"), side.checkpoint);
    sha256_from_hex(record_text(generation, "identity"), side.identity);
    sha256_from_hex(record_text(generation, "plan"), side.kernel_plan);
    memset(side.architecture, 3, SHA256_BYTES);
    memset(side.head_map, 4, SHA256_BYTES);
    return side;
}

enum status rig_evaluation(const struct record *generation, const struct record *baseline,
                           bool passes, struct record *ret_manifest, struct record *ret_receipt,
                           struct why *ret_why)
{
    static struct evaluation_manifest manifest;
    static struct evaluation_result result;
    char *text;
    memset(&manifest, 0, sizeof manifest);
    memset(&result, 0, sizeof result);
    sha256_from_hex(record_text(generation, "evaluation_set"), manifest.dataset);
    memset(manifest.request_order, 1, SHA256_BYTES);
    memset(manifest.tokenizer, 2, SHA256_BYTES);
    manifest.n_metrics = manifest.n_slices = 1;
    manifest.repetitions = manifest.repetitions_max = 1;
    manifest.metrics[0] =
        (struct evaluation_metric){"continuation", "negative log-probability a token"};
    snprintf(manifest.slices[0], sizeof manifest.slices[0], "code");
    manifest.candidate = side_of(generation);
    manifest.baseline = side_of(baseline);
    manifest.hardware = manifest.topology = "rig";
    manifest.matrix = (struct evaluation_matrix){{1, {64}}, {1, {1}}, {1, {1}}};
    gate_thresholds_defaults(&manifest.thresholds);
    *ret_manifest = *ret_receipt = (struct record){0};
    TRY(evaluation_manifest_write(&manifest, &text, result.manifest, ret_why));
    TRY(take_text(text, ret_manifest, ret_why));
    result.cells.matrix = manifest.matrix;
    result.cells.has_passed[0] = true;
    rig_evidence(RIG_PASS, &result.evidence);
    if (!passes)
        result.evidence.slices[0].candidate_unats *= 2;
    TRY(evaluation_receipt_write(&result, &manifest.thresholds, &text, NULL));
    return take_text(text, ret_receipt, ret_why);
}

enum { RIG_REQUESTS = 6000 };

static void add_requests(struct gate_evidence *evidence, enum arm arm, int n)
{
    struct gate_thresholds thresholds;
    gate_thresholds_defaults(&thresholds);
    for (int i = 0; i < n; i++) {
        const struct request_outcome outcome = {arm, false, 300000000, 40000000};
        gate_evidence_add(evidence, &thresholds, &outcome);
    }
}

/* A candidate like its baseline in everything. */
static void make_equal(struct gate_evidence *evidence, int n_requests)
{
    struct quality_slice slice = {
        .name = "code", .n_tokens = 100, .candidate_unats = 200000000, .baseline_unats = 200000000};
    gate_evidence_clear(evidence);
    add_requests(evidence, ARM_CANARY, n_requests);
    add_requests(evidence, ARM_CONTROL, n_requests);
    gate_evidence_add_allocation(evidence, 1, 1000000, 1000000, 0);
    evidence->has_plan_receipt = evidence->has_traffic = evidence->has_quality = true;
    evidence->issued_kib = evidence->baseline_issued_kib = 1100;
    evidence->logical_kib = evidence->baseline_logical_kib = 1000;
    if (!gate_evidence_add_quality(evidence, &slice))
        abort();
    for (int i = 0; i < 16; i++)
        gate_evidence_add_sample(evidence, 5e-7);
}

void rig_evidence(enum rig_verdict verdict, struct gate_evidence *ret_evidence)
{
    make_equal(ret_evidence, verdict == RIG_PASS ? RIG_REQUESTS : 50);
    if (verdict == RIG_FAIL)
        gate_evidence_add_sample(ret_evidence, 0.01);
}

void rig_plan(bool is_auto, struct rollout_plan *ret_plan)
{
    rollout_plan_defaults(ret_plan);
    ret_plan->auto_approve = is_auto;
    for (uint32_t i = 0; i < ret_plan->n_steps; i++) {
        ret_plan->steps[i].min_requests = 100;
        ret_plan->steps[i].max_seconds = 600;
    }
}

enum status rig_start(struct registry *registry, const char *candidate, bool is_auto,
                      char ret_key[REGISTRY_KEY_ROOM], struct why *ret_why)
{
    struct rollout_plan plan;
    struct rollout_decision decision;
    char key[REGISTRY_KEY_ROOM];
    const struct change_terms terms = rig_terms(6);
    rig_plan(is_auto, &plan);
    TRY(release_rollout_start(registry, &terms, candidate, &plan, key, &decision, ret_why));
    if (ret_key != NULL)
        memcpy(ret_key, key, sizeof key);
    return OK;
}

enum status rig_tick(struct registry *registry, enum rig_verdict verdict, struct why *ret_why)
{
    struct release_rollout rollout;
    struct rollout_decision decision;
    struct gate_evidence evidence;
    const struct change_terms terms = rig_terms(7);
    TRY(release_rollout_find_active(registry, &rollout, ret_why));
    rig_evidence(verdict, &evidence);
    const struct rollout_event event = {
        .kind = EVENT_TICK, .now_ms = rollout.now.started_ms + 600000, .evidence = &evidence};
    return release_rollout_apply(registry, &terms, rollout.key, &event, &decision, ret_why);
}

enum status rig_command(struct registry *registry, enum rollout_event_kind kind, const char *note,
                        struct why *ret_why)
{
    struct release_rollout rollout;
    struct rollout_decision decision;
    struct change_terms terms = rig_terms(7);
    const struct rollout_event event = {.kind = kind};
    terms.note = note;
    TRY(release_rollout_find_active(registry, &rollout, ret_why));
    return release_rollout_apply(registry, &terms, rollout.key, &event, &decision, ret_why);
}

enum status rig_roll_back(struct registry *registry, const char *note, struct why *ret_why)
{
    char key[REGISTRY_KEY_ROOM];
    struct change_terms terms = rig_terms(8);
    terms.note = note;
    return release_rollout_roll_back(registry, &terms, key, ret_why);
}

/* ---- contents ---- */

struct content_hashes {
    char checkpoint[SHA256_HEX], identity[SHA256_HEX], plan[SHA256_HEX], set[SHA256_HEX];
};

static struct release_content content_of(const char *label, struct content_hashes *hashes)
{
    part_hash(label, "checkpoint", hashes->checkpoint);
    part_hash(label, "identity", hashes->identity);
    part_hash(label, "plan", hashes->plan);
    rig_hash("evaluation set", hashes->set);
    return (struct release_content){.checkpoint = hashes->checkpoint,
                                    .identity = hashes->identity,
                                    .plan = hashes->plan,
                                    .evaluation_set = hashes->set,
                                    .name = label};
}

static void make_receipts(void *user, const char *id, const char *name_space,
                          struct record ret_receipts[4])
{
    rig_receipts(user, id, name_space, ret_receipts);
}

enum status rig_found(struct registry *registry, const char *label, char ret_id[SHA256_HEX],
                      struct why *ret_why)
{
    struct content_hashes hashes;
    struct release_content content = content_of(label, &hashes);
    const struct change_terms terms = rig_terms(1);
    return release_found(registry, &terms, &content, make_receipts, (void *)(uintptr_t)label,
                         ret_id, ret_why);
}

static void tell(rig_told_fn *on_told, void *user, const char *what)
{
    if (on_told != NULL)
        on_told(user, what);
}

static enum status add_receipts(struct registry *r, const char *label, const char *id,
                                struct why *ret_why)
{
    const struct change_terms terms = rig_terms(3);
    struct record row, receipts[AGREEMENT_RECEIPTS] = {0};
    char space[SHA256_HEX], hash[SHA256_HEX];
    TRY(registry_get(r, REGISTRY_GENERATIONS, id, &row, ret_why));
    snprintf(space, sizeof space, "%s", record_text(&row, "namespace"));
    record_release(&row);
    rig_receipts(label, id, space, receipts);
    enum status s = OK;
    for (int i = 0; i < AGREEMENT_RECEIPTS; i++) {
        if (s == OK)
            s = release_receipt(r, &terms, id, agreement_receipt_text((enum agreement_receipt)i),
                                &receipts[i], hash, ret_why);
        record_release(&receipts[i]);
    }
    return s;
}

/* The generation's row and that of what is stable; both are empty on failure. */
static enum status get_sides(struct registry *r, const char *id, struct record *ret_row,
                             struct record *ret_baseline, struct why *ret_why)
{
    struct record route;
    *ret_row = *ret_baseline = (struct record){0};
    TRY(release_route(r, &route, ret_why));
    enum status s =
        registry_get(r, REGISTRY_GENERATIONS, record_text(&route, "stable"), ret_baseline, ret_why);
    record_release(&route);
    return s == OK ? registry_get(r, REGISTRY_GENERATIONS, id, ret_row, ret_why) : s;
}

static enum status add_evaluation(struct registry *r, const char *id, struct why *ret_why)
{
    const struct change_terms terms = rig_terms(4);
    struct record row, baseline, manifest = {0}, evaluation = {0};
    char hash[SHA256_HEX];
    enum status s = get_sides(r, id, &row, &baseline, ret_why);
    if (s == OK)
        s = rig_evaluation(&row, &baseline, true, &manifest, &evaluation, ret_why);
    if (s == OK)
        s = release_receipt(r, &terms, id, "evaluation_manifest", &manifest, hash, ret_why);
    if (s == OK)
        s = release_receipt(r, &terms, id, "evaluation", &evaluation, hash, ret_why);
    record_release(&row);
    record_release(&baseline);
    record_release(&manifest);
    record_release(&evaluation);
    return s;
}

static enum status add_warming(struct registry *r, const char *id, struct why *ret_why)
{
    const struct change_terms terms = rig_terms(5);
    struct record row, warming;
    char hash[SHA256_HEX];
    TRY(registry_get(r, REGISTRY_GENERATIONS, id, &row, ret_why));
    record_init(&warming);
    record_set_text(&warming, "kind", "warming");
    record_set_text(&warming, "namespace", record_text(&row, "namespace"));
    record_set_number(&warming, "shared_pages", 0);
    enum status s = release_receipt(r, &terms, id, "warming", &warming, hash, ret_why);
    record_release(&row);
    record_release(&warming);
    return s;
}

enum status rig_publish(struct registry *registry, const char *label, rig_told_fn *on_told,
                        void *user, char ret_id[SHA256_HEX], struct why *ret_why)
{
    struct content_hashes hashes;
    struct release_content content = content_of(label, &hashes);
    const struct change_terms terms = rig_terms(2);
    bool is_new;
    TRY(release_register(registry, &terms, &content, ret_id, &is_new, ret_why));
    tell(on_told, user, "registered");
    TRY(release_move_generation(registry, &terms, ret_id, GENERATION_LOADING, NULL, ret_why));
    TRY(add_receipts(registry, label, ret_id, ret_why));
    TRY(release_move_generation(registry, &terms, ret_id, GENERATION_READY, NULL, ret_why));
    tell(on_told, user, "ready");
    TRY(add_evaluation(registry, ret_id, ret_why));
    TRY(release_move_generation(registry, &terms, ret_id, GENERATION_EVALUATED, NULL, ret_why));
    tell(on_told, user, "evaluated");
    TRY(add_warming(registry, ret_id, ret_why));
    TRY(release_move_generation(registry, &terms, ret_id, GENERATION_WARMED, NULL, ret_why));
    tell(on_told, user, "warmed");
    return OK;
}

/* ---- the world ---- */

static void wrong(struct world *w, const char *text)
{
    w->n_wrong++;
    snprintf(w->wrong, sizeof w->wrong, "%s", text);
}

bool world_is_fenced(const struct world *world, const char *name_space)
{
    for (int i = 0; i < world->n_fenced; i++)
        if (strcmp(world->fenced[i], name_space) == 0)
            return true;
    return false;
}

static bool is_row_fenced(struct world *w, const char *name_space)
{
    struct record row;
    if (registry_get(w->registry, REGISTRY_NAMESPACES, name_space, &row, NULL) != OK)
        return false;
    bool is = strcmp(record_text(&row, "state"), "fenced") == 0;
    record_release(&row);
    return is;
}

static void fence(struct world *w, const char *name_space)
{
    if (name_space[0] == '\0' || world_is_fenced(w, name_space))
        return;
    if (!is_row_fenced(w, name_space))
        wrong(w, "a namespace is fenced in memory before its row");
    snprintf(w->fenced[w->n_fenced++], SHA256_HEX, "%s", name_space);
}

static enum effect_outcome apply_pin(void *user, const struct journal_case *c, int64_t at_us,
                                     struct record *evidence, struct why *ret_why)
{
    struct world *w = user;
    (void)at_us, (void)evidence;
    w->n_applied[journal_step_at(c->kind, c->step + 1)]++;
    if (c->kind == JOURNAL_ROLLBACK && strcmp(w->barred, c->candidate) != 0)
        wrong(w, "a rollback pins before its candidate is barred");
    if (w->is_pin_failing)
        why_set(ret_why, STATUS_RECEIPTS_DISAGREE, "weights",
                "the weights are not what was hashed");
    return w->is_pin_failing ? EFFECT_FAILED : EFFECT_DONE;
}

static enum effect_outcome apply_drain(void *user, const struct journal_case *c, int64_t at_us,
                                       struct record *evidence, struct why *ret_why)
{
    struct world *w = user;
    (void)at_us, (void)ret_why, (void)c;
    w->n_applied[STEP_DRAIN_OR_ABORT_CANDIDATE_REQUESTS]++;
    if (w->drain_turns > 0) {
        w->drain_turns--;
        return EFFECT_PENDING;
    }
    record_set_number(evidence, "aborted", w->in_flight);
    w->in_flight = 0;
    return EFFECT_DONE;
}

static enum effect_outcome apply_fence(void *user, const struct journal_case *c, int64_t at_us,
                                       struct record *evidence, struct why *ret_why)
{
    struct world *w = user;
    (void)at_us, (void)evidence, (void)ret_why;
    w->n_applied[journal_step_at(c->kind, c->step + 1)]++;
    if (c->kind == JOURNAL_ROLLBACK && w->in_flight != 0)
        wrong(w, "a candidate is fenced with requests in flight");
    fence(w, c->kind == JOURNAL_ROLLBACK ? c->candidate_namespace : c->older_namespace);
    fence(w, c->control_namespace);
    return EFFECT_DONE;
}

static enum effect_outcome apply_restore(void *user, const struct journal_case *c, int64_t at_us,
                                         struct record *evidence, struct why *ret_why)
{
    struct world *w = user;
    (void)at_us, (void)evidence, (void)ret_why;
    w->n_applied[STEP_RESTORE_PREVIOUS_ROUTE]++;
    if (!world_is_fenced(w, c->candidate_namespace) || w->in_flight != 0)
        wrong(w, "the previous route is restored before the candidate is fenced and empty");
    snprintf(w->stable, sizeof w->stable, "%s", c->pinned);
    w->candidate[0] = '\0';
    return EFFECT_DONE;
}

static enum effect_outcome apply_switch(void *user, const struct journal_case *c, int64_t at_us,
                                        struct record *evidence, struct why *ret_why)
{
    struct world *w = user;
    (void)at_us, (void)evidence, (void)ret_why;
    w->n_applied[STEP_SWITCH_ROUTE]++;
    snprintf(w->stable, sizeof w->stable, "%s", c->candidate);
    w->candidate[0] = '\0';
    return EFFECT_DONE;
}

static enum effect_outcome apply_complete(void *user, const struct journal_case *c, int64_t at_us,
                                          struct record *evidence, struct why *ret_why)
{
    struct world *w = user;
    (void)at_us, (void)evidence, (void)ret_why;
    w->n_applied[journal_step_at(c->kind, c->step + 1)]++;
    return EFFECT_DONE;
}

void world_effects(struct world *world, struct journal_effects *ret_effects)
{
    *ret_effects =
        (struct journal_effects){.user = world,
                                 .apply = {
                                     [STEP_PIN_PREVIOUS_ACTIVE_RELEASE] = apply_pin,
                                     [STEP_PIN_CANDIDATE_RELEASE] = apply_pin,
                                     [STEP_DRAIN_OR_ABORT_CANDIDATE_REQUESTS] = apply_drain,
                                     [STEP_FENCE_CANDIDATE_CACHE_NAMESPACE] = apply_fence,
                                     [STEP_FENCE_OLDER_CACHE_NAMESPACES] = apply_fence,
                                     [STEP_RESTORE_PREVIOUS_ROUTE] = apply_restore,
                                     [STEP_SWITCH_ROUTE] = apply_switch,
                                     [STEP_RETAIN_FAILED_RECEIPTS_FOR_AUDIT] = apply_complete,
                                     [STEP_ROLLBACK_COMPLETE] = apply_complete,
                                     [STEP_PROMOTION_COMPLETE] = apply_complete,
                                 }};
}

static void see_namespace(void *user, const char *name_space, const char *generation,
                          bool is_fenced)
{
    (void)generation;
    if (is_fenced)
        fence(user, name_space);
}

enum status world_recover(struct world *world, struct registry *registry, struct why *ret_why)
{
    struct projection p;
    *world = (struct world){.registry = registry};
    TRY(projection_read(registry, &p, ret_why));
    snprintf(world->stable, sizeof world->stable, "%s", p.stable);
    snprintf(world->candidate, sizeof world->candidate, "%s",
             p.is_candidate_admitted ? p.candidate : "");
    snprintf(world->barred, sizeof world->barred, "%s", p.barred);
    return projection_each_namespace(registry, see_namespace, world, ret_why);
}

enum status world_settle(struct world *world, struct why *ret_why)
{
    struct journal_effects effects;
    enum journal_progress progress = JOURNAL_PENDING;
    world_effects(world, &effects);
    while (progress == JOURNAL_PENDING) {
        TRY(journal_advance(world->registry, &effects, 9, &progress, ret_why));
        world_check(world);
    }
    return progress == JOURNAL_BLOCKED ? STATUS_ROLLBACK_BLOCKED : OK;
}

void world_check(struct world *world)
{
    struct projection p;
    struct journal_case c;
    if (projection_read(world->registry, &p, NULL) != OK) {
        wrong(world, "the projection cannot be read");
        return;
    }
    if (journal_find_open(world->registry, &c, NULL) != OK || c.kind != JOURNAL_ROLLBACK)
        return;
    if (strcmp(p.barred, c.candidate) != 0 ||
        (p.is_candidate_admitted && strcmp(p.candidate, c.candidate) == 0))
        wrong(world, "a candidate is admitted after the intent to roll it back");
    if (strcmp(p.stable, c.candidate) != 0 && p.candidate[0] == '\0' &&
        !is_row_fenced(world, c.candidate_namespace))
        wrong(world, "the previous route is authoritative and the candidate is not fenced");
}
