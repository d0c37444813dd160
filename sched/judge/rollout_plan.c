/* rollout_plan.c: reads, checks, writes and hashes plans.
 *
 * WHY     What a rollout is judged by must be settled before it starts and be provable afterwards.
 * HOW     Strict JSON; each refusal names one field. The canonical form is written from the struct, so
 *         that two files that say the same have one hash.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/judge/rollout_plan.h"

#include <inttypes.h>

#include "config/file_text.h"
#include "config/mem.h"

enum {
    CAP_DEFAULT = 500,
    CAP_MOST = 5000,
    REQUESTS_LEAST = 100,
    REQUESTS_MOST = 1000000000,
    SECONDS_MOST = 366 * 86400,
    FIELD_ROOM = 64
};
static const char schema[] = "foldkv.rollout_plan/1";

void rollout_plan_defaults(struct rollout_plan *ret_plan)
{
    static const uint32_t weights[] = {100, 500, 2500};
    *ret_plan = (struct rollout_plan){.n_steps = ARRAY_LEN(weights), .cap_bp = CAP_DEFAULT};
    for (size_t i = 0; i < ARRAY_LEN(weights); i++)
        ret_plan->steps[i] = (struct rollout_step){weights[i], 5000, 7 * 86400};
    gate_thresholds_defaults(&ret_plan->thresholds);
}

static enum status read_weight(const struct document_value *value, const char *field,
                               const struct rollout_plan *plan, uint32_t before,
                               uint32_t *ret_weight_bp, struct why *ret_why)
{
    char right[128];
    uint64_t weight;
    TRY(document_number(value, field, 1, UINT32_MAX, &weight, ret_why));
    if (weight > ARM_BUCKETS)
        return document_refuse(value, field, "10000 basis points are 100 %, there is no more",
                               ret_why);
    snprintf(right, sizeof right,
             "a judged step ends at %" PRIu32 " (10000 - cap_bp), the promotion itself is 100 %%",
             ARM_BUCKETS - plan->cap_bp);
    if (weight > ARM_BUCKETS - plan->cap_bp)
        return document_refuse(value, field, right, ret_why);
    snprintf(right, sizeof right, "weights rise: more than the %" PRIu32 " before it is needed",
             before);
    if (weight <= before)
        return document_refuse(value, field, right, ret_why);
    *ret_weight_bp = (uint32_t)weight;
    return OK;
}

static enum status read_step(const struct document_value *value, size_t i,
                             struct rollout_plan *plan, struct why *ret_why)
{
    static const char *const keys[] = {"weight_bp", "min_requests", "max_seconds"};
    struct rollout_step *step = &plan->steps[i];
    char prefix[FIELD_ROOM], field[FIELD_ROOM];
    uint64_t number;
    snprintf(field, sizeof field, "steps[%zu]", i);
    TRY(document_object(value, field, ret_why));
    snprintf(prefix, sizeof prefix, "steps[%zu].", i);
    TRY(document_known(value, prefix, keys, ARRAY_LEN(keys), ret_why));
    snprintf(field, sizeof field, "steps[%zu].weight_bp", i);
    TRY(read_weight(document_find(value, keys[0]), field, plan,
                    i > 0 ? plan->steps[i - 1].weight_bp : 0, &step->weight_bp, ret_why));
    snprintf(field, sizeof field, "steps[%zu].min_requests", i);
    TRY(document_number(document_find(value, keys[1]), field, REQUESTS_LEAST, REQUESTS_MOST,
                        &number, ret_why));
    step->min_requests = (uint32_t)number;
    snprintf(field, sizeof field, "steps[%zu].max_seconds", i);
    TRY(document_number(document_find(value, keys[2]), field, 1, SECONDS_MOST, &number, ret_why));
    step->max_seconds = (uint32_t)number;
    return OK;
}

/* What the program fixes may be said, if it is said right. */
static enum status read_fixed(const struct document_value *root, struct why *ret_why)
{
    const struct document_value *value = document_find(root, "schema");
    const char *text = schema;
    uint64_t number;
    if (value != NULL)
        TRY(document_text(value, "schema", 1, 64, &text, ret_why));
    if (strcmp(text, schema) != 0)
        return document_refuse(value, "schema", "foldkv.rollout_plan/1 is what is read", ret_why);
    value = document_find(root, "alpha_ppm");
    if (value != NULL)
        TRY(document_number(value, "alpha_ppm", GATE_ALPHA_PPM, GATE_ALPHA_PPM, &number, ret_why));
    value = document_find(root, "beta_ppm");
    if (value != NULL)
        TRY(document_number(value, "beta_ppm", GATE_BETA_PPM, GATE_BETA_PPM, &number, ret_why));
    return OK;
}

static enum status read_root(const struct document_value *root, struct rollout_plan *plan,
                             struct why *ret_why)
{
    static const char *const keys[] = {"steps",  "cap_bp",    "auto_approve", "gates",
                                       "schema", "alpha_ppm", "beta_ppm"};
    const struct document_value *value;
    TRY(document_object(root, "the plan", ret_why));
    TRY(document_known(root, "", keys, ARRAY_LEN(keys), ret_why));
    TRY(read_fixed(root, ret_why));
    if ((value = document_find(root, "cap_bp")) != NULL) {
        uint64_t cap;
        TRY(document_number(value, "cap_bp", 1, CAP_MOST, &cap, ret_why));
        plan->cap_bp = (uint32_t)cap;
    }
    if ((value = document_find(root, "auto_approve")) != NULL)
        TRY(document_bool(value, "auto_approve", &plan->auto_approve, ret_why));
    if ((value = document_find(root, "gates")) != NULL)
        TRY(gate_thresholds_read(&plan->thresholds, value, "gates", ret_why));
    value = document_find(root, "steps");
    TRY(document_array(value, "steps", 1, ROLLOUT_STEPS_MAX, ret_why));
    plan->n_steps = (uint32_t)document_count(value);
    for (size_t i = 0; i < plan->n_steps; i++)
        TRY(read_step(document_at(value, i), i, plan, ret_why));
    return OK;
}

enum status rollout_plan_parse(struct slice text, struct rollout_plan *ret_plan,
                               struct why *ret_why)
{
    struct document *document = NULL;
    struct rollout_plan plan;
    rollout_plan_defaults(&plan);
    TRY(document_parse(text, "the plan", &document, ret_why));
    enum status s = read_root(document_root(document), &plan, ret_why);
    document_free(&document);
    if (s == OK)
        *ret_plan = plan;
    return s;
}

enum status rollout_plan_read_file(const char *path, struct rollout_plan *ret_plan,
                                   struct why *ret_why)
{
    char *bytes;
    size_t len;
    TRY(file_text_read(path, "the plan", ROLLOUT_PLAN_BYTES_MAX, &bytes, &len, ret_why));
    enum status s =
        len > ROLLOUT_PLAN_BYTES_MAX
            ? why_set(ret_why, STATUS_BAD_REQUEST, "", "the plan %s has more than %d bytes", path,
                      ROLLOUT_PLAN_BYTES_MAX)
            : rollout_plan_parse((struct slice){bytes, len}, ret_plan, ret_why);
    mem_free(bytes);
    return s;
}

enum status rollout_plan_write(const struct rollout_plan *plan, char **ret_text,
                               uint8_t ret_hash[SHA256_BYTES])
{
    struct canonical_json json;
    canonical_init(&json, ROLLOUT_PLAN_BYTES_MAX);
    canonical_open_object(&json, NULL);
    canonical_integer(&json, "alpha_ppm", GATE_ALPHA_PPM);
    canonical_bool(&json, "auto_approve", plan->auto_approve);
    canonical_integer(&json, "beta_ppm", GATE_BETA_PPM);
    canonical_integer(&json, "cap_bp", plan->cap_bp);
    gate_thresholds_write(&plan->thresholds, "gates", &json);
    canonical_text(&json, "schema", schema);
    canonical_open_array(&json, "steps");
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        canonical_open_object(&json, NULL);
        canonical_integer(&json, "max_seconds", plan->steps[i].max_seconds);
        canonical_integer(&json, "min_requests", plan->steps[i].min_requests);
        canonical_integer(&json, "weight_bp", plan->steps[i].weight_bp);
        canonical_close_object(&json);
    }
    canonical_close_array(&json);
    canonical_close_object(&json);
    return canonical_take(&json, ret_text, ret_hash);
}
