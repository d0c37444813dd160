/* rollout_judged.c: looks for the decision that asked the gates, the newest first.
 *
 * HOW     A rollback's end, a promotion's end and most commands ask no gate: their receipts have no evidence and are passed
 *         over.
 * THREAD  registry
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/rollout_judged.h"

#include "config/mem.h"
#include "sched/judge/rollout_receipt.h"

static enum status read_receipt(const struct record *receipt, struct rollout_judged *ret_judged,
                                struct gate_evidence *ret_evidence, struct why *ret_why)
{
    struct record before = record_child(receipt, "before");
    if (!record_has(receipt, "evidence"))
        return STATUS_NOT_FOUND;
    if (!record_number(receipt, "at_ms", &ret_judged->at_ms) ||
        !record_number(&before, "step", &ret_judged->step))
        return why_set(ret_why, STATUS_BAD_FILE, "receipt", "a decision without a time or a step");
    char *text = record_print(receipt);
    if (text == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for a receipt");
    enum status s =
        rollout_receipt_evidence((struct slice){text, strlen(text)}, ret_evidence, ret_why);
    mem_free(text);
    return s;
}

static enum status look_at(struct registry *r, const char *hash, struct rollout_judged *ret_judged,
                           struct gate_evidence *ret_evidence, struct why *ret_why)
{
    struct record receipt;
    TRY(registry_get(r, REGISTRY_RECEIPTS, hash, &receipt, ret_why));
    snprintf(ret_judged->decision, sizeof ret_judged->decision, "%s", hash);
    enum status s = read_receipt(&receipt, ret_judged, ret_evidence, ret_why);
    record_release(&receipt);
    return s;
}

enum status rollout_judged_find(struct registry *registry, const char *key,
                                struct rollout_judged *ret_judged,
                                struct gate_evidence *ret_evidence, struct why *ret_why)
{
    struct record row;
    enum status s = STATUS_NOT_FOUND;
    TRY(registry_get(registry, REGISTRY_ROLLOUTS, key, &row, ret_why));
    for (size_t i = record_list_count(&row, "decisions"); i > 0 && s == STATUS_NOT_FOUND; i--) {
        const char *hash = record_item_text(&row, "decisions", i - 1);
        s = look_at(registry, hash != NULL ? hash : "", ret_judged, ret_evidence, ret_why);
    }
    record_release(&row);
    if (s == STATUS_NOT_FOUND)
        why_set(ret_why, s, "rollout", "no decision of rollout %.64s asked the gates", key);
    return s;
}
