/* rollout_receipt.c: writes decisions, and derives them again.
 *
 * WHY     "The gate said so" is not evidence; what the gate saw is.
 * HOW     Only inputs are read back. All that follows from them is computed anew and compared as text,
 *         so there is no second reading of the rules that could differ from the first.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/judge/rollout_receipt.h"

#include "config/mem.h"

static const char schema[] = "foldkv.rollout_decision/1";
#define TIME_MAX ((uint64_t)1 << 53)

static void write_rollout(const struct rollout *rollout, const char *key,
                          struct canonical_json *json)
{
    canonical_open_object(json, key);
    canonical_text(json, "gate", gate_rows[rollout->gate].key);
    canonical_bool(json, "has_served", rollout->has_served);
    canonical_text(json, "reason", rollout_reason_name(rollout->reason));
    canonical_integer(json, "started_ms", (int64_t)rollout->started_ms);
    canonical_text(json, "state", rollout_state_name(rollout->state));
    canonical_integer(json, "step", rollout->step);
    canonical_close_object(json);
}

static void write_gates(const struct rollout_decision *decision, struct canonical_json *json)
{
    canonical_open_array(json, "gates");
    for (int i = 0; i < GATE_COUNT; i++) {
        canonical_open_object(json, NULL);
        canonical_text(json, "figures", decision->judgements[i].text);
        canonical_text(json, "gate", gate_rows[i].key);
        canonical_text(json, "verdict", gate_verdict_name(decision->judgements[i].verdict));
        canonical_close_object(json);
    }
    canonical_close_array(json);
}

enum status rollout_receipt_write(const struct rollout *before, const struct rollout_plan *plan,
                                  const struct rollout_event *event, const struct rollout *next,
                                  const struct rollout_decision *decision, char **ret_text,
                                  uint8_t ret_hash[SHA256_BYTES])
{
    struct canonical_json json;
    char *plan_text;
    uint8_t plan_hash[SHA256_BYTES];
    TRY(rollout_plan_write(plan, &plan_text, plan_hash));
    mem_free(plan_text);
    canonical_init(&json, ROLLOUT_RECEIPT_BYTES_MAX);
    canonical_open_object(&json, NULL);
    canonical_text(&json, "action", rollout_action_name(decision->action));
    write_rollout(next, "after", &json);
    canonical_integer(&json, "at_ms", (int64_t)event->now_ms);
    write_rollout(before, "before", &json);
    canonical_text(&json, "event", rollout_event_name(event->kind));
    if (decision->is_judged) {
        gate_evidence_write(event->evidence, "evidence", &json);
        write_gates(decision, &json);
    }
    canonical_hash(&json, "plan_sha256", plan_hash);
    canonical_text(&json, "schema", schema);
    canonical_close_object(&json);
    return canonical_take(&json, ret_text, ret_hash);
}

/* The index of a name among n; BAD_REQUEST if it is none of them. */
static enum status read_name(const struct document_value *value, const char *field, uint32_t n,
                             const char *(*name_of)(uint32_t i), uint32_t *ret_i,
                             struct why *ret_why)
{
    const char *text;
    TRY(document_text(value, field, 1, 63, &text, ret_why));
    for (uint32_t i = 0; i < n; i++) {
        if (strcmp(name_of(i), text) != 0)
            continue;
        *ret_i = i;
        return OK;
    }
    return document_refuse(value, field, "it is no name of this version", ret_why);
}

static const char *state_name(uint32_t i)
{
    return rollout_state_name((enum rollout_state)i);
}

static const char *reason_name(uint32_t i)
{
    return rollout_reason_name((enum rollout_reason)i);
}

static const char *event_name(uint32_t i)
{
    return rollout_event_name((enum rollout_event_kind)i);
}

static const char *gate_name(uint32_t i)
{
    return gate_rows[i].key;
}

static enum status read_before(const struct document_value *value, uint32_t n_steps,
                               struct rollout *ret_before, struct why *ret_why)
{
    uint32_t state = 0, reason = 0, gate = 0;
    uint64_t step;
    *ret_before = (struct rollout){0};
    TRY(document_object(value, "before", ret_why));
    TRY(read_name(document_find(value, "state"), "before.state", ROLLOUT_STATE_COUNT, state_name,
                  &state, ret_why));
    TRY(read_name(document_find(value, "reason"), "before.reason", REASON_COUNT, reason_name,
                  &reason, ret_why));
    TRY(read_name(document_find(value, "gate"), "before.gate", GATE_COUNT, gate_name, &gate,
                  ret_why));
    TRY(document_number(document_find(value, "step"), "before.step", 0, n_steps - 1, &step,
                        ret_why));
    TRY(document_number(document_find(value, "started_ms"), "before.started_ms", 0, TIME_MAX,
                        &ret_before->started_ms, ret_why));
    TRY(document_bool(document_find(value, "has_served"), "before.has_served",
                      &ret_before->has_served, ret_why));
    ret_before->state = (enum rollout_state)state;
    ret_before->reason = (enum rollout_reason)reason;
    ret_before->gate = (enum gate)gate;
    ret_before->step = (uint32_t)step;
    return OK;
}

/* What rollout_apply was given, read back. */
struct inputs {
    struct rollout before;
    struct rollout_event event;
    struct gate_evidence evidence;
};

static enum status read_inputs(const struct document_value *root, const struct rollout_plan *plan,
                               struct inputs *ret_inputs, struct why *ret_why)
{
    uint32_t kind = 0;
    TRY(read_before(document_find(root, "before"), plan->n_steps, &ret_inputs->before, ret_why));
    TRY(read_name(document_find(root, "event"), "event", EVENT_COUNT, event_name, &kind, ret_why));
    TRY(document_number(document_find(root, "at_ms"), "at_ms", 0, TIME_MAX,
                        &ret_inputs->event.now_ms, ret_why));
    ret_inputs->event.kind = (enum rollout_event_kind)kind;
    ret_inputs->event.evidence = &ret_inputs->evidence;
    const struct document_value *evidence = document_find(root, "evidence");
    gate_evidence_clear(&ret_inputs->evidence);
    return evidence == NULL ? OK : gate_evidence_read(evidence, &ret_inputs->evidence, ret_why);
}

static enum status derive(const struct inputs *inputs, const struct rollout_plan *plan,
                          char **ret_text, struct why *ret_why)
{
    struct rollout next;
    struct rollout_decision decision;
    TRY(rollout_apply(&inputs->before, plan, &inputs->event, &next, &decision, ret_why));
    return rollout_receipt_write(&inputs->before, plan, &inputs->event, &next, &decision, ret_text,
                                 NULL);
}

/* Where two texts part, with what each has there. */
static enum status compare(struct slice receipt, const char *derived, struct why *ret_why)
{
    size_t at = 0, len = strlen(derived);
    while (at < receipt.len && at < len && receipt.bytes[at] == derived[at])
        at++;
    if (at == receipt.len && at == len)
        return OK;
    size_t from = at < 24 ? 0 : at - 24;
    return why_set(ret_why, STATUS_BAD_FILE, "receipt",
                   "the receipt does not follow from its evidence and plan: at byte %zu it says "
                   "'%.*s', derived is '%.64s'",
                   at, (int)(receipt.len - from < 64 ? receipt.len - from : 64),
                   receipt.bytes + from, derived + (from < len ? from : len));
}

enum status rollout_receipt_rederive(struct slice receipt, const struct rollout_plan *plan,
                                     struct why *ret_why)
{
    struct document *document = NULL;
    char *derived = NULL;
    struct inputs *inputs = mem_zalloc(1, sizeof *inputs);
    if (inputs == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory to re-derive a receipt");
    enum status s = document_parse(receipt, "the receipt", &document, ret_why);
    if (s == OK)
        s = read_inputs(document_root(document), plan, inputs, ret_why);
    if (s == OK)
        s = derive(inputs, plan, &derived, ret_why);
    if (s == OK)
        s = compare(receipt, derived, ret_why);
    mem_free(derived);
    document_free(&document);
    mem_free(inputs);
    return s == OK || s == STATUS_NO_MEMORY ? s : STATUS_BAD_FILE;
}

enum status rollout_receipt_evidence(struct slice receipt, struct gate_evidence *ret_evidence,
                                     struct why *ret_why)
{
    struct document *document = NULL;
    gate_evidence_clear(ret_evidence);
    enum status s = document_parse(receipt, "the receipt", &document, ret_why);
    const struct document_value *evidence =
        s == OK ? document_find(document_root(document), "evidence") : NULL;
    if (s == OK && evidence == NULL)
        s = why_set(ret_why, STATUS_NOT_FOUND, "evidence", "the decision asked no gate");
    else if (s == OK)
        s = gate_evidence_read(evidence, ret_evidence, ret_why);
    document_free(&document);
    return s == OK || s == STATUS_NO_MEMORY || s == STATUS_NOT_FOUND ? s : STATUS_BAD_FILE;
}
