/* agreement.c: compares the four receipts field by field.
 *
 * WHY     A checkpoint can load because its row counts are right while the kernel assumes another order of
 *         heads: shapes agree, numbers do not. Only what each part says of itself can show it.
 * HOW     The first receipt that must carry a field sets its value; each later one is held against it. A
 *         receipt that does not carry what it must is a disagreement too: silence is not consent.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/agreement.h"

#include <inttypes.h>

static const struct field {
    const char *name;
    bool is_in[AGREEMENT_RECEIPTS];
} fields[] = {
#define FIELD(name, checkpoint, cache, plan, placement)                                            \
    {(name), {(checkpoint), (cache), (plan), (placement)}},
#include "sched/release/agreement.def"
#undef FIELD
};

static const char *const kinds[AGREEMENT_RECEIPTS] = {"checkpoint", "cache", "plan", "placement"};

const char *agreement_receipt_text(enum agreement_receipt receipt)
{
    return kinds[receipt];
}

enum { VALUE_ROOM = 96 };

static void show(const struct record *receipt, const char *field, char ret_text[VALUE_ROOM])
{
    const char *text = record_text(receipt, field);
    if (text != NULL)
        snprintf(ret_text, VALUE_ROOM, "%s", text);
    else
        record_show(receipt, field, ret_text, VALUE_ROOM);
}

static enum status disagree(const struct record receipts[AGREEMENT_RECEIPTS], const char *field,
                            int left, int right, struct why *ret_why)
{
    char left_value[VALUE_ROOM], right_value[VALUE_ROOM];
    show(&receipts[left], field, left_value);
    show(&receipts[right], field, right_value);
    (void)why_set(ret_why, STATUS_RECEIPTS_DISAGREE, field,
                  "the receipts disagree on %s: %s has %s, %s has %s", field, kinds[left],
                  left_value, kinds[right], right_value);
    why_add_both(ret_why, kinds[left], left_value, right != left ? kinds[right] : "needed",
                 right != left ? right_value : "a value");
    return STATUS_RECEIPTS_DISAGREE;
}

static enum status check_field(const struct record receipts[AGREEMENT_RECEIPTS],
                               const struct field *f, struct why *ret_why)
{
    int first = 0;
    while (!f->is_in[first])
        first++;
    for (int i = first; i < AGREEMENT_RECEIPTS; i++)
        if (f->is_in[i] && !record_is_shared(&receipts[first], &receipts[i], f->name))
            return disagree(receipts, f->name, first, i, ret_why);
    return OK;
}

/* Every query head has a local, replicated or communicated owner of its K and V. */
static enum status check_owners(const struct record receipts[AGREEMENT_RECEIPTS],
                                struct why *ret_why)
{
    int64_t unowned = -1;
    char found[VALUE_ROOM];
    const struct record *placement = &receipts[RECEIPT_PLACEMENT];
    if (record_number(placement, "unowned_query_heads", &unowned) && unowned == 0)
        return OK;
    (void)why_set(ret_why, STATUS_RECEIPTS_DISAGREE, "unowned_query_heads",
                  "placement leaves %" PRId64
                  " query heads without an owner of their K and V, 0 are allowed",
                  unowned);
    show(placement, "unowned_query_heads", found);
    why_add_both(ret_why, kinds[RECEIPT_PLACEMENT], found, "allowed", "0");
    return STATUS_RECEIPTS_DISAGREE;
}

enum status agreement_check(const struct record receipts[AGREEMENT_RECEIPTS], const char *identity,
                            struct why *ret_why)
{
    for (int i = 0; i < AGREEMENT_RECEIPTS; i++) {
        const char *kind = record_text(&receipts[i], "kind");
        if (kind == NULL || strcmp(kind, kinds[i]) != 0)
            return why_set(ret_why, STATUS_RECEIPTS_DISAGREE, kinds[i], "the %s receipt is missing",
                           kinds[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        TRY(check_field(receipts, &fields[i], ret_why));
    TRY(check_owners(receipts, ret_why));
    const char *found = record_text(&receipts[RECEIPT_CHECKPOINT], "identity");
    if (found != NULL && strcmp(found, identity) == 0)
        return OK;
    (void)why_set(ret_why, STATUS_RECEIPTS_DISAGREE, "identity",
                  "the receipts name identity %.64s, the generation was registered with %.64s",
                  found != NULL ? found : "none", identity);
    why_add_both(ret_why, "receipts", found, "generation", identity);
    return STATUS_RECEIPTS_DISAGREE;
}
