/* evaluation_receipt.c: writes and re-derives what an evaluation found.
 *
 * WHY     "It was evaluated" must say over which cells, by which limits and with what counts.
 * HOW     Inputs are read back, verdicts are judged anew, and the text is compared with the new one.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/evaluate/evaluation_receipt.h"

#include "config/mem.h"

static const char schema[] = "foldkv.evaluation_receipt/1";

static void judge(const struct evaluation_result *result, const struct gate_thresholds *thresholds,
                  struct gate_judgement judgements[GATE_COUNT])
{
    for (int i = 0; i < GATE_COUNT; i++)
        gate_judge((enum gate)i, &result->evidence, thresholds, 1, &judgements[i]);
}

static bool passes(const struct evaluation_result *result,
                   const struct gate_judgement judgements[GATE_COUNT])
{
    for (int i = 0; i < GATE_COUNT; i++)
        if (judgements[i].verdict != VERDICT_PASS)
            return false;
    return evaluation_cells_most(&result->cells).context > 0;
}

bool evaluation_result_passes(const struct evaluation_result *result,
                              const struct gate_thresholds *thresholds)
{
    struct gate_judgement judgements[GATE_COUNT];
    judge(result, thresholds, judgements);
    return passes(result, judgements);
}

static void write_cells(const struct evaluation_cells *cells, struct canonical_json *json)
{
    canonical_open_array(json, "cells");
    for (uint32_t i = 0; i < evaluation_matrix_count(&cells->matrix); i++)
        canonical_bool(json, NULL, cells->has_passed[i]);
    canonical_close_array(json);
}

static void write_failures(const struct evaluation_result *result, struct canonical_json *json)
{
    if (result->n_failures == 0)
        return;
    canonical_open_array(json, "cells_failed");
    for (uint32_t i = 0; i < result->n_failures; i++) {
        canonical_open_object(json, NULL);
        canonical_integer(json, "cell", result->failures[i].cell);
        canonical_text(json, "why", result->failures[i].why);
        canonical_close_object(json);
    }
    canonical_close_array(json);
}

static void write_gates(const struct gate_judgement judgements[GATE_COUNT],
                        struct canonical_json *json)
{
    canonical_open_array(json, "gates");
    for (int i = 0; i < GATE_COUNT; i++) {
        canonical_open_object(json, NULL);
        canonical_text(json, "figures", judgements[i].text);
        canonical_text(json, "gate", gate_rows[i].key);
        canonical_text(json, "verdict", gate_verdict_name(judgements[i].verdict));
        canonical_close_object(json);
    }
    canonical_close_array(json);
}

enum status evaluation_receipt_write(const struct evaluation_result *result,
                                     const struct gate_thresholds *thresholds, char **ret_text,
                                     uint8_t ret_hash[SHA256_BYTES])
{
    struct canonical_json json;
    struct gate_judgement judgements[GATE_COUNT];
    judge(result, thresholds, judgements);
    canonical_init(&json, EVALUATION_RECEIPT_BYTES_MAX);
    canonical_open_object(&json, NULL);
    write_cells(&result->cells, &json);
    write_failures(result, &json);
    gate_evidence_write(&result->evidence, "evidence", &json);
    write_gates(judgements, &json);
    canonical_hash(&json, "manifest_sha256", result->manifest);
    evaluation_matrix_write(&result->cells.matrix, "matrix", &json);
    canonical_bool(&json, "passes", passes(result, judgements));
    canonical_text(&json, "schema", schema);
    gate_thresholds_write(thresholds, "thresholds", &json);
    canonical_close_object(&json);
    return canonical_take(&json, ret_text, ret_hash);
}

static enum status read_failures(const struct document_value *list, uint32_t n_cells,
                                 struct evaluation_result *ret_result, struct why *ret_why)
{
    if (list == NULL)
        return OK;
    TRY(document_array(list, "cells_failed", 1, CELL_FAILURES_MAX, ret_why));
    ret_result->n_failures = (uint32_t)document_count(list);
    for (uint32_t i = 0; i < ret_result->n_failures; i++) {
        struct cell_failure *failure = &ret_result->failures[i];
        const struct document_value *item = document_at(list, i);
        const char *text;
        uint64_t cell;
        TRY(document_object(item, "cells_failed", ret_why));
        TRY(document_number(document_find(item, "cell"), "cells_failed.cell", 0, n_cells - 1, &cell,
                            ret_why));
        TRY(document_text(document_find(item, "why"), "cells_failed.why", 1,
                          sizeof failure->why - 1, &text, ret_why));
        if (ret_result->cells.has_passed[cell])
            return document_refuse(item, "cells_failed", "a cell that passed has not failed",
                                   ret_why);
        failure->cell = (uint32_t)cell;
        snprintf(failure->why, sizeof failure->why, "%s", text);
    }
    return OK;
}

static enum status read_result(const struct document_value *root,
                               struct evaluation_result *ret_result, struct why *ret_why)
{
    TRY(document_object(root, "the receipt", ret_why));
    TRY(document_hash(document_find(root, "manifest_sha256"), "manifest_sha256",
                      ret_result->manifest, ret_why));
    TRY(evaluation_matrix_read(document_find(root, "matrix"), &ret_result->cells.matrix, ret_why));
    uint32_t n = evaluation_matrix_count(&ret_result->cells.matrix);
    const struct document_value *cells = document_find(root, "cells");
    TRY(document_array(cells, "cells", n, n, ret_why));
    for (uint32_t i = 0; i < n; i++)
        TRY(document_bool(document_at(cells, i), "cells", &ret_result->cells.has_passed[i],
                          ret_why));
    TRY(read_failures(document_find(root, "cells_failed"), n, ret_result, ret_why));
    return gate_evidence_read(document_find(root, "evidence"), &ret_result->evidence, ret_why);
}

static enum status compare(struct slice receipt, const struct evaluation_result *result,
                           const struct gate_thresholds *thresholds, struct why *ret_why)
{
    char *derived = NULL;
    TRY(evaluation_receipt_write(result, thresholds, &derived, NULL));
    size_t at = 0, len = strlen(derived);
    while (at < receipt.len && at < len && receipt.bytes[at] == derived[at])
        at++;
    enum status s = OK;
    if (at < receipt.len || at < len)
        s = why_set(ret_why, STATUS_BAD_FILE, "receipt",
                    "the receipt does not follow from its evidence and thresholds: byte %zu on, "
                    "derived is '%.64s'",
                    at, derived + (at < 24 ? 0 : at - 24));
    mem_free(derived);
    return s;
}

enum status evaluation_receipt_read(struct slice receipt, const struct gate_thresholds *thresholds,
                                    struct evaluation_result *ret_result, struct why *ret_why)
{
    struct document *document = NULL;
    memset(ret_result, 0, sizeof *ret_result);
    enum status s = document_parse(receipt, "the receipt", &document, ret_why);
    if (s == OK)
        s = read_result(document_root(document), ret_result, ret_why);
    if (s == OK)
        s = compare(receipt, ret_result, thresholds, ret_why);
    document_free(&document);
    return s == OK || s == STATUS_NO_MEMORY ? s : STATUS_BAD_FILE;
}
