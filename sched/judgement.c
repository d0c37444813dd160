/* judgement.c: derives verdicts from values.
 *
 * WHY     A receipt that says "pass" proves nothing; the value beside its limit does.
 * HOW     A value within its limit may still pause (a one-sided test that is not decided); one beyond it may
 *         not pass.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/judgement.h"

static const char *const texts[] = {"pass", "pause", "fail"};

const char *judgement_text(enum judgement verdict)
{
    return texts[verdict];
}

/* False for an unknown word. */
static bool find(const char *text, enum judgement *ret_verdict)
{
    for (size_t i = 0; text != NULL && i < ARRAY_LEN(texts); i++)
        if (strcmp(text, texts[i]) == 0) {
            *ret_verdict = (enum judgement)i;
            return true;
        }
    return false;
}

/* Whether the value lies within the limit; false where one of them, or the sense, is missing. */
static bool is_within(const struct record *gate)
{
    int64_t value, limit;
    const char *sense = record_text(gate, "sense");
    if (sense == NULL || !record_number(gate, "value", &value) ||
        !record_number(gate, "limit", &limit))
        return false;
    if (strcmp(sense, "at_most") == 0)
        return value <= limit;
    return strcmp(sense, "at_least") == 0 && value >= limit;
}

static enum status judge(const struct record *gate, enum judgement *ret_verdict,
                         struct why *ret_why)
{
    const char *name = record_text(gate, "name"), *said = record_text(gate, "verdict");
    if (name == NULL || said == NULL || !record_has(gate, "limit"))
        return why_set(ret_why, STATUS_RECEIPTS_DISAGREE, "gates",
                       "a gate lacks its name, its limit or its verdict");
    if (strcmp(said, "not_measurable") == 0) {
        *ret_verdict = JUDGEMENT_PASS;
        if (!record_has(gate, "value") && record_flag(gate, "is_declared"))
            return OK;
        return why_set(
            ret_why, STATUS_RECEIPTS_DISAGREE, name,
            "gate %s calls itself not measurable, which was not declared before the start", name);
    }
    if (!find(said, ret_verdict))
        return why_set(ret_why, STATUS_RECEIPTS_DISAGREE, name, "gate %s says '%.40s'", name, said);
    if (*ret_verdict == JUDGEMENT_PASS && !is_within(gate))
        return why_set(ret_why, STATUS_RECEIPTS_DISAGREE, name,
                       "gate %s says pass, but its value is missing or beyond its limit", name);
    if (*ret_verdict == JUDGEMENT_FAIL && is_within(gate))
        return why_set(ret_why, STATUS_RECEIPTS_DISAGREE, name,
                       "gate %s says fail, but its value is within its limit", name);
    return OK;
}

enum status judgement_of(const struct record *receipt, enum judgement *ret_verdict,
                         struct why *ret_why)
{
    size_t n = record_list_count(receipt, "gates");
    enum judgement worst = JUDGEMENT_PASS, said = JUDGEMENT_PASS;
    if (n == 0)
        return why_set(ret_why, STATUS_RECEIPTS_DISAGREE, "gates", "the receipt has no gates");
    for (size_t i = 0; i < n; i++) {
        enum judgement one = JUDGEMENT_FAIL;
        struct record gate = record_item(receipt, "gates", i);
        TRY(judge(&gate, &one, ret_why));
        worst = one > worst ? one : worst;
    }
    if (!find(record_text(receipt, "verdict"), &said) || said != worst)
        return why_set(ret_why, STATUS_RECEIPTS_DISAGREE, "verdict",
                       "the receipt's verdict is not '%s', which is the worst of its gates",
                       texts[worst]);
    *ret_verdict = worst;
    return OK;
}
