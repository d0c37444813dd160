/* release_fuzz.c: any bytes as a rollout's plan, as an evaluation's set and terms, as receipts of both, as a manifest, and as a row.
 *
 * HOW     A plan that is taken comes back out of its canonical form with the same hash. A receipt that
 *         is derived again was a receipt.
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/mem.h"
#include "sched/evaluate/evaluation_manifest.h"
#include "sched/evaluate/evaluation_plan.h"
#include "sched/evaluate/evaluation_receipt.h"
#include "sched/evaluate/evaluation_set.h"
#include "sched/release/release_rollout.h"
#include "sched/judge/rollout_receipt.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void check_said(enum status s, enum status wrong, const struct why *why)
{
    ASSERT(s == OK || (s == wrong && why->text[0] != '\0'));
}

static void check_plan(struct slice text)
{
    struct rollout_plan plan, again;
    struct why why = {0};
    char *canonical = NULL, *canonical_again = NULL;
    enum status s = rollout_plan_parse(text, &plan, &why);
    check_said(s, STATUS_BAD_REQUEST, &why);
    if (s != OK)
        return;
    s = rollout_plan_write(&plan, &canonical, NULL);
    ASSERT(s == OK);
    s = rollout_plan_parse((struct slice){canonical, strlen(canonical)}, &again, &why);
    ASSERT(s == OK);
    s = rollout_plan_write(&again, &canonical_again, NULL);
    ASSERT(s == OK && strcmp(canonical, canonical_again) == 0);
    mem_free(canonical);
    mem_free(canonical_again);
}

static void check_set(struct slice text)
{
    struct evaluation_set *set = NULL;
    struct why why = {0};
    enum status s = evaluation_set_parse(text, &set, &why);
    check_said(s, STATUS_BAD_REQUEST, &why);
    for (uint32_t i = 0; s == OK && i < set->n_items; i++)
        ASSERT(set->items[i].slice < set->n_slices && set->items[i].prompt[0] != '\0');
    evaluation_set_free(&set);
}

static void check_terms(struct slice text)
{
    struct evaluation_terms terms = {0};
    struct why why = {0};
    char *path = NULL;
    evaluation_terms_defaults(&(struct evaluation_room){1024, 4, 64}, &terms);
    enum status s = evaluation_terms_read(&terms, text, &path, &why);
    check_said(s, STATUS_BAD_REQUEST, &why);
    ASSERT(evaluation_matrix_check(&terms.matrix, &why) == OK && terms.repetitions > 0);
    ASSERT(s == OK || path == NULL);
    mem_free(path);
}

static void check_receipts(struct slice text)
{
    static struct evaluation_result result;
    static struct rollout_plan plan;
    struct why why = {0};
    rollout_plan_defaults(&plan);
    check_said(rollout_receipt_rederive(text, &plan, &why), STATUS_BAD_FILE, &why);
    why = (struct why){0};
    enum status s = evaluation_receipt_read(text, &plan.thresholds, &result, &why);
    check_said(s, STATUS_BAD_FILE, &why);
}

static void check_manifest(struct slice text)
{
    static struct evaluation_subject subject;
    struct why why = {0};
    check_said(evaluation_subject_read(text, &subject, &why), STATUS_BAD_FILE, &why);
}

/* What is read prints what is read again; a row of anything is a rollout's or says that it is none. */
static void check_record(struct slice text)
{
    static struct release_rollout rollout;
    struct registry *registry;
    struct record record, again;
    struct why why = {0};
    enum status s = record_read_loose(text.bytes, text.len, &record, &why);
    check_said(s, STATUS_BAD_FILE, &why);
    if (s != OK)
        return;
    char *printed = record_print(&record);
    ASSERT(printed != NULL);
    s = record_read(printed, strlen(printed), &again, &why);
    ASSERT(s == OK && record_is_equal(&record, &again));
    s = registry_open(NULL, &registry, &why);
    ASSERT(s == OK);
    s = release_rollout_parse(registry, "1", &record, &rollout, &why);
    ASSERT(s != OK); /* its plan is nowhere */
    registry_close(&registry);
    record_release(&record);
    record_release(&again);
    mem_free(printed);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct slice text = {(const char *)bytes, len};
    check_plan(text);
    check_set(text);
    check_terms(text);
    check_receipts(text);
    check_manifest(text);
    check_record(text);
    return 0;
}
