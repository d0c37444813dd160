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

static enum status disagree(const struct record receipts[AGREEMENT_RECEIPTS], const char *field,
                            enum agreement_receipt left, enum agreement_receipt right,
                            struct disagreement *ret_d, struct why *ret_why)
{
    struct disagreement d = {.field = field, .left = left, .right = right};
    record_show(&receipts[left], field, d.left_value, sizeof d.left_value);
    record_show(&receipts[right], field, d.right_value, sizeof d.right_value);
    if (ret_d != NULL)
        *ret_d = d;
    return why_set(ret_why, STATUS_RECEIPTS_DISAGREE, field,
                   "the receipts disagree on %s: %s has %s, %s has %s", field, kinds[left],
                   d.left_value, kinds[right], d.right_value);
}

static enum status check_field(const struct record receipts[AGREEMENT_RECEIPTS],
                               const struct field *f, struct disagreement *ret_d,
                               struct why *ret_why)
{
    int first = 0;
    while (!f->is_in[first])
        first++;
    for (int i = first; i < AGREEMENT_RECEIPTS; i++)
        if (f->is_in[i] && !record_is_shared(&receipts[first], &receipts[i], f->name))
            return disagree(receipts, f->name, (enum agreement_receipt)first,
                            (enum agreement_receipt)i, ret_d, ret_why);
    return OK;
}

/* Every query head has a local, replicated or communicated owner of its K and V. */
static enum status check_owners(const struct record receipts[AGREEMENT_RECEIPTS],
                                struct disagreement *ret_d, struct why *ret_why)
{
    int64_t unowned = -1;
    const struct record *placement = &receipts[RECEIPT_PLACEMENT];
    if (record_number(placement, "unowned_query_heads", &unowned) && unowned == 0)
        return OK;
    if (ret_d != NULL) {
        *ret_d = (struct disagreement){.field = "unowned_query_heads",
                                       .left = RECEIPT_PLACEMENT,
                                       .right = RECEIPT_PLACEMENT,
                                       .right_value = "0"};
        record_show(placement, "unowned_query_heads", ret_d->left_value, sizeof ret_d->left_value);
    }
    return why_set(ret_why, STATUS_RECEIPTS_DISAGREE, "unowned_query_heads",
                   "placement leaves %" PRId64
                   " query heads without an owner of their K and V, 0 are allowed",
                   unowned);
}

enum status agreement_check(const struct record receipts[AGREEMENT_RECEIPTS], const char *identity,
                            struct disagreement *ret_disagreement, struct why *ret_why)
{
    for (int i = 0; i < AGREEMENT_RECEIPTS; i++) {
        const char *kind = record_text(&receipts[i], "kind");
        if (kind != NULL && strcmp(kind, kinds[i]) == 0)
            continue;
        if (ret_disagreement != NULL)
            *ret_disagreement = (struct disagreement){
                .field = "", .left = (enum agreement_receipt)i, .right = (enum agreement_receipt)i};
        return why_set(ret_why, STATUS_RECEIPTS_DISAGREE, kinds[i], "the %s receipt is missing",
                       kinds[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        TRY(check_field(receipts, &fields[i], ret_disagreement, ret_why));
    TRY(check_owners(receipts, ret_disagreement, ret_why));
    const char *found = record_text(&receipts[RECEIPT_CHECKPOINT], "identity");
    if (found != NULL && strcmp(found, identity) == 0)
        return OK;
    return why_set(ret_why, STATUS_RECEIPTS_DISAGREE, "identity",
                   "the receipts name identity %.64s, the generation was registered with %.64s",
                   found != NULL ? found : "none", identity);
}
