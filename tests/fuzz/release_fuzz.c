/* release_fuzz.c: any bytes as a rollout's plan, as an evaluation set, and as receipts of both.
 *
 * HOW     A plan that is taken comes back out of its canonical form with the same hash. A receipt that
 *         is derived again was a receipt.
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/mem.h"
#include "sched/evaluation_receipt.h"
#include "sched/evaluation_set.h"
#include "sched/rollout_receipt.h"

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

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct slice text = {(const char *)bytes, len};
    check_plan(text);
    check_set(text);
    check_receipts(text);
    return 0;
}
