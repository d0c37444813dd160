/* evaluation_plan.c: makes a plan: texts to tokens, the order of all requests, the manifest.
 *
 * WHY     What is not settled before the first number is seen can be chosen to fit it.
 * HOW     The order's hash covers every fixed prompt's tokens and what each cell runs; the matrix's own
 *         tokens follow from the set's hash, so that nobody can pick them.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/evaluate/evaluation_plan.h"

#include <inttypes.h>

#include "config/mem.h"
#include "sched/evaluate/evaluation_order.h"

static const char order_schema[] = "foldkv.request_order/1";

/* ---- the fixed prompts ---- */

static enum status encode_part(const struct evaluation_terms *terms, const char *text,
                               bool is_start, uint32_t **ret_ids, uint32_t *ret_n,
                               struct why *ret_why)
{
    struct slice slice = {text, strlen(text)};
    *ret_ids = NULL;
    TRY(terms->encode(terms->encode_user, slice, is_start, ret_ids, ret_n, ret_why));
    for (uint32_t i = 0; i < *ret_n; i++)
        if ((*ret_ids)[i] >= terms->vocab) {
            uint32_t id = (*ret_ids)[i];
            mem_free(*ret_ids);
            *ret_ids = NULL;
            return why_set(ret_why, STATUS_BAD_REQUEST, "set",
                           "token %" PRIu32 " of the set is beyond the model's %" PRIu32, id,
                           terms->vocab);
        }
    return OK;
}

/* Both are encoded by themselves: what is scored is then the same number of tokens whatever stands
 * before them. */
static enum status encode_item(const struct evaluation_terms *terms, uint32_t line,
                               struct planned_item *item, struct why *ret_why)
{
    const struct evaluation_item *text = &terms->set->items[line];
    uint32_t *prompt = NULL, *continuation = NULL, n_prompt = 0, n_continuation = 0;
    enum status s = encode_part(terms, text->prompt, true, &prompt, &n_prompt, ret_why);
    if (s == OK)
        s = encode_part(terms, text->continuation, false, &continuation, &n_continuation, ret_why);
    if (s == OK && (n_prompt == 0 || n_continuation == 0))
        s = why_set(ret_why, STATUS_BAD_REQUEST, "set",
                    "line %" PRIu32 " of the set has %" PRIu32 " prompt tokens and %" PRIu32
                    " to score: at least one of each is needed",
                    line + 1, n_prompt, n_continuation);
    if (s == OK &&
        (item->ids = mem_alloc(((size_t)n_prompt + n_continuation) * sizeof *item->ids)) == NULL)
        s = why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the set's tokens");
    if (s == OK) {
        memcpy(item->ids, prompt, n_prompt * sizeof *prompt);
        memcpy(item->ids + n_prompt, continuation, n_continuation * sizeof *continuation);
        item->slice = text->slice;
        item->n_ids = n_prompt + n_continuation;
        item->n_scored = n_continuation;
    }
    mem_free(prompt);
    mem_free(continuation);
    return s;
}

static enum status encode_set(const struct evaluation_terms *terms, struct evaluation_plan *plan,
                              struct why *ret_why)
{
    const struct evaluation_set *set = terms->set;
    plan->items = mem_zalloc(set->n_items, sizeof *plan->items);
    if (plan->items == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the set's tokens");
    plan->n_items = set->n_items;
    plan->n_slices = set->n_slices;
    memcpy(plan->slices, set->slices, sizeof plan->slices);
    for (uint32_t i = 0; i < set->n_items; i++)
        TRY(encode_item(terms, i, &plan->items[i], ret_why));
    return OK;
}

/* ---- the order ---- */

static void add_numbers(struct sha256 *sha, uint8_t tag, const uint32_t *numbers, size_t n)
{
    sha256_part(sha, tag, numbers, n * sizeof *numbers);
}

static void add_cells(const struct evaluation_plan *plan, struct sha256 *sha)
{
    uint32_t n = evaluation_matrix_count(&plan->matrix);
    const uint32_t runs[] = {plan->warmup_runs, plan->repetitions, plan->repetitions_max,
                             plan->vocab};
    add_numbers(sha, 3, runs, ARRAY_LEN(runs));
    sha256_part(sha, 4, &plan->seed, sizeof plan->seed);
    for (uint32_t i = 0; i < n; i++) {
        struct cell_shape shape = cell_shape_of(evaluation_matrix_cell(&plan->matrix, i));
        const uint32_t numbers[] = {shape.fits,         shape.query,       shape.n_side,
                                    shape.side_prefix,  shape.side_answer, shape.n_probes,
                                    shape.probe_prefix, shape.probe_answer};
        add_numbers(sha, 5, numbers, ARRAY_LEN(numbers));
    }
}

static enum status hash_order(struct evaluation_plan *plan, uint8_t ret_order[SHA256_BYTES])
{
    struct sha256 *sha = NULL;
    TRY(sha256_new(&sha));
    for (int is_order = 0; is_order < 2; is_order++) {
        sha256_start(sha);
        sha256_part(sha, 1, order_schema, sizeof order_schema - 1);
        for (uint32_t i = 0; i < plan->n_items; i++) {
            const struct planned_item *item = &plan->items[i];
            add_numbers(sha, 2, &item->n_scored, 1);
            add_numbers(sha, 2, item->ids, item->n_ids);
        }
        if (is_order)
            add_cells(plan, sha);
        sha256_finish(sha, is_order ? ret_order : plan->prompts_hash);
    }
    sha256_free(&sha);
    return OK;
}

/* As many as give EVALUATION_SAMPLES requests a side. */
static uint32_t enough_repetitions(const struct evaluation_plan *plan)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < evaluation_matrix_count(&plan->matrix); i++) {
        struct cell_shape shape = cell_shape_of(evaluation_matrix_cell(&plan->matrix, i));
        n += cell_shape_requests(&shape);
    }
    uint64_t enough = n > 0 ? (EVALUATION_SAMPLES + n - 1) / n : 1;
    enough = enough < EVALUATION_REPETITIONS_MAX ? enough : EVALUATION_REPETITIONS_MAX;
    return enough > plan->repetitions ? (uint32_t)enough : plan->repetitions;
}

/* ---- the manifest ---- */

static enum status write_manifest(const struct evaluation_terms *terms,
                                  struct evaluation_plan *plan, struct why *ret_why)
{
    struct evaluation_manifest *manifest = mem_zalloc(1, sizeof *manifest);
    if (manifest == NULL || hash_order(plan, manifest->request_order) != OK) {
        mem_free(manifest);
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the evaluation manifest");
    }
    memcpy(manifest->dataset, terms->set->hash, SHA256_BYTES);
    memcpy(manifest->tokenizer, terms->tokenizer, SHA256_BYTES);
    manifest->n_metrics = 1;
    manifest->metrics[0] =
        (struct evaluation_metric){"continuation", "sum of negative log-probabilities, micro-nats"};
    manifest->n_slices = plan->n_slices;
    memcpy(manifest->slices, plan->slices, sizeof manifest->slices);
    manifest->baseline = terms->baseline;
    manifest->candidate = terms->candidate;
    manifest->hardware = terms->host->hardware;
    manifest->topology = terms->host->topology;
    manifest->matrix = plan->matrix;
    manifest->warmup_runs = plan->warmup_runs;
    manifest->repetitions = plan->repetitions;
    manifest->repetitions_max = plan->repetitions_max;
    manifest->hardware_traffic_is_measurable = plan->hardware_traffic_is_measurable;
    manifest->thresholds = plan->thresholds;
    enum status s = evaluation_manifest_write(manifest, &plan->manifest, plan->hash, ret_why);
    mem_free(manifest);
    return s;
}

enum status evaluation_plan_new(const struct evaluation_terms *terms,
                                struct evaluation_plan **ret_plan, struct why *ret_why)
{
    _Static_assert((int)QUALITY_SLICES_MAX == (int)SLICE_TOLERANCES_MAX, "one array of names");
    struct evaluation_plan *plan = mem_zalloc(1, sizeof *plan);
    *ret_plan = NULL;
    if (plan == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the evaluation");
    ASSERT(terms->vocab > 0);
    plan->thresholds = terms->thresholds;
    plan->matrix = terms->matrix;
    plan->warmup_runs = terms->warmup_runs;
    plan->repetitions = terms->repetitions;
    plan->hardware_traffic_is_measurable = terms->hardware_traffic_is_measurable;
    plan->vocab = terms->vocab;
    memcpy(&plan->seed, terms->set->hash, sizeof plan->seed);
    enum status s = evaluation_matrix_check(&plan->matrix, ret_why);
    if (s == OK)
        s = encode_set(terms, plan, ret_why);
    if (s == OK && (s = evaluation_plan_stream(plan)) != OK)
        s = why_set(ret_why, s, "", "no memory for the matrix's tokens");
    if (s == OK) {
        plan->repetitions_max =
            terms->repetitions_max > 0 ? terms->repetitions_max : enough_repetitions(plan);
        s = write_manifest(terms, plan, ret_why);
    }
    if (s != OK)
        evaluation_plan_free(&plan);
    *ret_plan = plan;
    return s;
}

void evaluation_plan_free(struct evaluation_plan **plan)
{
    if (*plan == NULL)
        return;
    for (uint32_t i = 0; (*plan)->items != NULL && i < (*plan)->n_items; i++)
        mem_free((*plan)->items[i].ids);
    mem_free((*plan)->items);
    mem_free((*plan)->stream);
    mem_free((*plan)->manifest);
    mem_free(*plan);
    *plan = NULL;
}

const char *evaluation_plan_manifest(const struct evaluation_plan *plan)
{
    return plan->manifest;
}

const uint8_t *evaluation_plan_hash(const struct evaluation_plan *plan)
{
    return plan->hash;
}

void evaluation_plan_slices(const struct evaluation_plan *plan,
                            struct quality_slice ret_slices[QUALITY_SLICES_MAX])
{
    memset(ret_slices, 0, QUALITY_SLICES_MAX * sizeof *ret_slices);
    for (uint32_t i = 0; i < plan->n_slices; i++)
        snprintf(ret_slices[i].name, sizeof ret_slices[i].name, "%s", plan->slices[i]);
}

enum status evaluation_set_shipped(struct evaluation_set **ret_set, struct why *ret_why)
{
    struct slice text = {evaluation_set_text, evaluation_set_text_len};
    return evaluation_set_parse(text, ret_set, ret_why);
}
