/* evaluation_manifest.c: checks and writes the manifest of an evaluation.
 *
 * WHY     "Faster" and "as good" mean nothing without what was compared, on what, and by which limits,
 *         said before the first number was seen.
 * HOW     Every member is written; what is missing or contradicts the comparison is refused.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/evaluate/evaluation_manifest.h"

#include <inttypes.h>

static const char schema[] = "foldkv.evaluation_manifest/1";

static bool is_blank_hash(const uint8_t hash[SHA256_BYTES])
{
    static const uint8_t none[SHA256_BYTES];
    return memcmp(hash, none, SHA256_BYTES) == 0;
}

static enum status check_text(const char *text, const char *field, struct why *ret_why)
{
    if (text != NULL && text[0] != '\0')
        return OK;
    return why_set(ret_why, STATUS_BAD_REQUEST, field, "%s is missing: it is fixed before the run",
                   field);
}

static enum status check_hash(const uint8_t hash[SHA256_BYTES], const char *field,
                              struct why *ret_why)
{
    if (!is_blank_hash(hash))
        return OK;
    return why_set(ret_why, STATUS_BAD_REQUEST, field, "%s is missing: its SHA-256 is needed",
                   field);
}

static enum status check_side(const struct evaluation_side *side, const char *name,
                              struct why *ret_why)
{
    const struct {
        const uint8_t *hash;
        const char *field;
    } hashes[] = {{side->checkpoint, "checkpoint"},
                  {side->architecture, "architecture"},
                  {side->head_map, "head_map"},
                  {side->identity, "identity"},
                  {side->kernel_plan, "kernel_plan"}};
    const struct {
        const char *text, *field;
    } texts[] = {{side->backend_revision, "backend_revision"},
                 {side->q_dtype, "q_dtype"},
                 {side->kv_dtype, "kv_dtype"},
                 {side->accumulator_dtype, "accumulator_dtype"}};
    char field[64];
    for (size_t i = 0; i < ARRAY_LEN(hashes); i++) {
        snprintf(field, sizeof field, "%s.%s", name, hashes[i].field);
        TRY(check_hash(hashes[i].hash, field, ret_why));
    }
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        snprintf(field, sizeof field, "%s.%s", name, texts[i].field);
        TRY(check_text(texts[i].text, field, ret_why));
    }
    snprintf(field, sizeof field, "%s.page_tokens", name);
    if (side->page_tokens == 0 || side->tensor_parallel_degree == 0)
        return why_set(ret_why, STATUS_BAD_REQUEST, field,
                       "%s.page_tokens is %" PRIu32 " and its tensor_parallel_degree %" PRIu32
                       ": at least 1 of each is needed",
                       name, side->page_tokens, side->tensor_parallel_degree);
    return OK;
}

static enum status check_lists(const struct evaluation_manifest *manifest, struct why *ret_why)
{
    if (manifest->n_metrics < 1 || manifest->n_metrics > EVALUATION_METRICS_MAX)
        return why_set(ret_why, STATUS_BAD_REQUEST, "metrics",
                       "metrics are %" PRIu32 ": 1 to %d are needed", manifest->n_metrics,
                       EVALUATION_METRICS_MAX);
    for (uint32_t i = 0; i < manifest->n_metrics; i++) {
        TRY(check_text(manifest->metrics[i].task, "metrics.task", ret_why));
        TRY(check_text(manifest->metrics[i].metric, "metrics.metric", ret_why));
    }
    if (manifest->n_slices < 1 || manifest->n_slices > SLICE_TOLERANCES_MAX)
        return why_set(ret_why, STATUS_BAD_REQUEST, "slices",
                       "protected slices are %" PRIu32 ": 1 to %d are needed", manifest->n_slices,
                       SLICE_TOLERANCES_MAX);
    for (uint32_t i = 0; i < manifest->n_slices; i++)
        if (!slice_name_is_valid(manifest->slices[i]) ||
            (i > 0 && strcmp(manifest->slices[i - 1], manifest->slices[i]) >= 0))
            return why_set(ret_why, STATUS_BAD_REQUEST, "slices",
                           "slices[%" PRIu32 "] is '%.48s': names of a-z 0-9 _ . - in rising order",
                           i, manifest->slices[i]);
    if (manifest->repetitions == 0)
        return why_set(ret_why, STATUS_BAD_REQUEST, "repetitions",
                       "repetitions is 0: at least 1 is needed");
    if (manifest->repetitions_max < manifest->repetitions)
        return why_set(ret_why, STATUS_BAD_REQUEST, "repetitions_max",
                       "repetitions_max is %" PRIu32 ": at least the %" PRIu32
                       " repetitions are needed",
                       manifest->repetitions_max, manifest->repetitions);
    return evaluation_matrix_check(&manifest->matrix, ret_why);
}

static enum status check(const struct evaluation_manifest *manifest, struct why *ret_why)
{
    TRY(check_hash(manifest->dataset, "dataset", ret_why));
    TRY(check_hash(manifest->request_order, "request_order", ret_why));
    TRY(check_hash(manifest->tokenizer, "tokenizer", ret_why));
    TRY(check_text(manifest->hardware, "hardware", ret_why));
    TRY(check_text(manifest->topology, "topology", ret_why));
    TRY(check_side(&manifest->baseline, "baseline", ret_why));
    TRY(check_side(&manifest->candidate, "candidate", ret_why));
    TRY(check_lists(manifest, ret_why));
    if (memcmp(manifest->baseline.identity, manifest->candidate.identity, SHA256_BYTES) == 0 &&
        memcmp(manifest->baseline.kernel_plan, manifest->candidate.kernel_plan, SHA256_BYTES) == 0)
        return why_set(ret_why, STATUS_BAD_REQUEST, "candidate",
                       "candidate is the baseline: identity and kernel plan are the same");
    return OK;
}

static void write_side(const struct evaluation_side *side, const char *key,
                       struct canonical_json *json)
{
    canonical_open_object(json, key);
    canonical_text(json, "accumulator_dtype", side->accumulator_dtype);
    canonical_hash(json, "architecture_sha256", side->architecture);
    canonical_text(json, "backend_revision", side->backend_revision);
    canonical_hash(json, "checkpoint_sha256", side->checkpoint);
    canonical_hash(json, "head_map_sha256", side->head_map);
    canonical_hash(json, "identity", side->identity);
    canonical_hash(json, "kernel_plan_sha256", side->kernel_plan);
    canonical_text(json, "kv_dtype", side->kv_dtype);
    canonical_integer(json, "page_tokens", side->page_tokens);
    canonical_text(json, "q_dtype", side->q_dtype);
    canonical_integer(json, "tensor_parallel_degree", side->tensor_parallel_degree);
    canonical_close_object(json);
}

static void write_quality(const struct evaluation_manifest *manifest, struct canonical_json *json)
{
    canonical_open_object(json, "quality");
    canonical_open_array(json, "metrics");
    for (uint32_t i = 0; i < manifest->n_metrics; i++) {
        canonical_open_object(json, NULL);
        canonical_text(json, "metric", manifest->metrics[i].metric);
        canonical_text(json, "task", manifest->metrics[i].task);
        canonical_close_object(json);
    }
    canonical_close_array(json);
    canonical_open_array(json, "protected_slices");
    for (uint32_t i = 0; i < manifest->n_slices; i++)
        canonical_text(json, NULL, manifest->slices[i]);
    canonical_close_array(json);
    canonical_close_object(json);
}

enum status evaluation_manifest_write(const struct evaluation_manifest *manifest, char **ret_text,
                                      uint8_t ret_hash[SHA256_BYTES], struct why *ret_why)
{
    struct canonical_json json;
    TRY(check(manifest, ret_why));
    canonical_init(&json, EVALUATION_MANIFEST_BYTES_MAX);
    canonical_open_object(&json, NULL);
    write_side(&manifest->baseline, "baseline", &json);
    write_side(&manifest->candidate, "candidate", &json);
    canonical_hash(&json, "dataset_sha256", manifest->dataset);
    canonical_text(&json, "hardware", manifest->hardware);
    canonical_bool(&json, "hardware_traffic_is_measurable",
                   manifest->hardware_traffic_is_measurable);
    evaluation_matrix_write(&manifest->matrix, "matrix", &json);
    write_quality(manifest, &json);
    canonical_integer(&json, "repetitions", manifest->repetitions);
    canonical_integer(&json, "repetitions_max", manifest->repetitions_max);
    canonical_hash(&json, "request_order_sha256", manifest->request_order);
    canonical_text(&json, "schema", schema);
    gate_thresholds_write(&manifest->thresholds, "thresholds", &json);
    canonical_hash(&json, "tokenizer_sha256", manifest->tokenizer);
    canonical_text(&json, "topology", manifest->topology);
    canonical_integer(&json, "warmup_runs", manifest->warmup_runs);
    canonical_close_object(&json);
    if (canonical_take(&json, ret_text, ret_hash) != OK)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the evaluation manifest");
    return OK;
}

static enum status read_subject(const struct document_value *root,
                                struct evaluation_subject *ret_subject, struct why *ret_why)
{
    const struct document_value *side = document_find(root, "candidate"),
                                *baseline = document_find(root, "baseline");
    TRY(document_object(root, "the manifest", ret_why));
    TRY(document_object(side, "candidate", ret_why));
    TRY(document_object(baseline, "baseline", ret_why));
    TRY(document_hash(document_find(root, "dataset_sha256"), "dataset_sha256", ret_subject->dataset,
                      ret_why));
    TRY(document_hash(document_find(side, "checkpoint_sha256"), "candidate.checkpoint_sha256",
                      ret_subject->checkpoint, ret_why));
    TRY(document_hash(document_find(side, "identity"), "candidate.identity", ret_subject->identity,
                      ret_why));
    TRY(document_hash(document_find(side, "kernel_plan_sha256"), "candidate.kernel_plan_sha256",
                      ret_subject->kernel_plan, ret_why));
    TRY(document_hash(document_find(baseline, "identity"), "baseline.identity",
                      ret_subject->baseline_identity, ret_why));
    TRY(document_hash(document_find(baseline, "kernel_plan_sha256"), "baseline.kernel_plan_sha256",
                      ret_subject->baseline_plan, ret_why));
    gate_thresholds_defaults(&ret_subject->thresholds);
    return gate_thresholds_read(&ret_subject->thresholds, document_find(root, "thresholds"),
                                "thresholds", ret_why);
}

enum status evaluation_subject_read(struct slice manifest, struct evaluation_subject *ret_subject,
                                    struct why *ret_why)
{
    struct document *document = NULL;
    enum status s = document_parse(manifest, "the manifest", &document, ret_why);
    if (s == OK)
        s = read_subject(document_root(document), ret_subject, ret_why);
    document_free(&document);
    return s == OK || s == STATUS_NO_MEMORY ? s : STATUS_BAD_FILE;
}
