/* releases_cells.c: from receipts to cells.
 *
 * ALWAYS  (1) Cells come from a receipt that was derived again, under the thresholds of its manifest.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/releases_cells.h"

#include "config/mem.h"
#include "sched/release/releases_priv.h"

struct reading {
    const char *id;
    struct evaluation_result *ret;
};

static enum status text_of(struct registry *registry, const struct record *named, const char *kind,
                           char **ret_text, struct why *ret_why)
{
    struct record body;
    const char *hash = record_text(named, kind);
    if (hash == NULL)
        return why_set(ret_why, STATUS_NOT_FOUND, kind, "the generation has no %s", kind);
    TRY(registry_get(registry, REGISTRY_RECEIPTS, hash, &body, ret_why));
    *ret_text = record_print(&body);
    record_release(&body);
    return *ret_text != NULL ? OK : STATUS_NO_MEMORY;
}

static enum status read_result(struct releases *r, struct registry *registry, void *user,
                               struct why *ret_why)
{
    struct reading *reading = user;
    struct evaluation_subject subject;
    struct record row;
    char *manifest = NULL, *receipt = NULL;
    (void)r;
    TRY(registry_get(registry, REGISTRY_GENERATIONS, reading->id, &row, ret_why));
    struct record named = record_child(&row, "receipts");
    enum status s = text_of(registry, &named, "evaluation_manifest", &manifest, ret_why);
    if (s == OK)
        s = text_of(registry, &named, "evaluation", &receipt, ret_why);
    if (s == OK)
        s = evaluation_subject_read((struct slice){manifest, strlen(manifest)}, &subject, ret_why);
    if (s == OK)
        s = evaluation_receipt_read((struct slice){receipt, strlen(receipt)}, &subject.thresholds,
                                    reading->ret, ret_why);
    mem_free(manifest);
    mem_free(receipt);
    record_release(&row);
    return s;
}

enum status releases_evaluation_read(struct releases *r, const char *id,
                                     struct evaluation_result *ret_result, struct why *ret_why)
{
    struct reading reading = {id, ret_result};
    return releases_do(r, read_result, &reading, ret_why);
}

void releases_cells_restore(struct releases *r, struct release_lane *entry)
{
    struct why why = {0};
    struct evaluation_result *result = mem_zalloc(1, sizeof *result);
    enum status s =
        result != NULL ? releases_evaluation_read(r, entry->id, result, &why) : STATUS_NO_MEMORY;
    entry->has_cells = s == OK;
    if (s == OK)
        entry->cells = result->cells;
    else if (s != STATUS_NOT_FOUND)
        releases_say(r, true, "cells", "%.16s: %s", entry->id, why.text);
    mem_free(result);
}
