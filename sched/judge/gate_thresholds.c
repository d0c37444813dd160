/* gate_thresholds.c: defaults, reading and writing of limits, from the rows of gate_threshold.def.
 *
 * WHY     A limit that can be left out can be forgotten; so every limit has a default, a plan changes
 *         it within its range or not at all, and the hash covers all of them whether named or not.
 * ALWAYS  (1) null, blank and unknown names are refused.                     gate_thresholds_read
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/judge/gate_thresholds.h"

enum { FIELD_ROOM = 96 };

const struct gate_threshold_row gate_threshold_rows[] = {
#define THRESHOLD(gate, name, value, least, most, unit, prose)                                     \
    {#gate, #name, unit, prose, value, least, most},
#include "sched/judge/gate_threshold.def"
#undef THRESHOLD
};
const size_t gate_threshold_count = ARRAY_LEN(gate_threshold_rows);

static const size_t offsets[] = {
#define THRESHOLD(gate, name, value, least, most, unit, prose)                                     \
    offsetof(struct gate_thresholds, gate##_##name),
#include "sched/judge/gate_threshold.def"
#undef THRESHOLD
};

static uint32_t *member(struct gate_thresholds *thresholds, size_t i)
{
    return (uint32_t *)((char *)thresholds + offsets[i]);
}

uint32_t gate_threshold_value(const struct gate_thresholds *thresholds, size_t i)
{
    ASSERT(i < gate_threshold_count);
    return *(const uint32_t *)((const char *)thresholds + offsets[i]);
}

void gate_thresholds_defaults(struct gate_thresholds *ret_thresholds)
{
    *ret_thresholds = (struct gate_thresholds){0};
    for (size_t i = 0; i < gate_threshold_count; i++)
        *member(ret_thresholds, i) = gate_threshold_rows[i].value;
}

bool slice_name_is_valid(const char *name)
{
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_.-");
    return len > 0 && len <= SLICE_NAME_MAX && name[len] == '\0';
}

/* The row of gate.name; the count of rows if there is none. */
static size_t row_of(const char *gate, const char *name)
{
    size_t i = 0;
    while (i < gate_threshold_count && (strcmp(gate_threshold_rows[i].gate, gate) != 0 ||
                                        strcmp(gate_threshold_rows[i].name, name) != 0))
        i++;
    return i;
}

/* Puts a slice at its place in the order of names. JSON objects have each name once. */
static void insert_slice(struct gate_thresholds *thresholds, const char *name, uint32_t eps_ppm)
{
    uint32_t at = thresholds->n_slices++;
    for (; at > 0 && strcmp(thresholds->slices[at - 1].name, name) > 0; at--)
        thresholds->slices[at] = thresholds->slices[at - 1];
    thresholds->slices[at] = (struct slice_tolerance){.eps_ppm = eps_ppm};
    snprintf(thresholds->slices[at].name, sizeof thresholds->slices[at].name, "%s", name);
}

static enum status read_slices(struct gate_thresholds *thresholds,
                               const struct document_value *slices, const char *key,
                               struct why *ret_why)
{
    const struct document_value *value;
    const char *name;
    char list[FIELD_ROOM];
    snprintf(list, sizeof list, "%.16s.quality.slices", key);
    TRY(document_object(slices, list, ret_why));
    thresholds->n_slices = 0;
    for (size_t i = 0; (name = document_member(slices, i, &value)) != NULL; i++) {
        char field[FIELD_ROOM];
        uint64_t eps_ppm;
        snprintf(field, sizeof field, "%.16s.quality.slices.%.48s", key, name);
        if (!slice_name_is_valid(name))
            return why_set(ret_why, STATUS_BAD_REQUEST, field,
                           "%s: a slice's name is 1 to %d of a-z 0-9 _ . -", field, SLICE_NAME_MAX);
        if (i == SLICE_TOLERANCES_MAX)
            return why_set(ret_why, STATUS_BAD_REQUEST, field,
                           "%s is one too many: %d slices may have their own tolerance", field,
                           SLICE_TOLERANCES_MAX);
        TRY(document_number(value, field, 0, 1000000, &eps_ppm, ret_why));
        insert_slice(thresholds, name, (uint32_t)eps_ppm);
    }
    return OK;
}

static enum status refuse_name(const char *key, const char *gate, const char *name,
                               struct why *ret_why)
{
    char field[FIELD_ROOM], list[160];
    size_t len = 0;
    list[0] = '\0';
    snprintf(field, sizeof field, "%.16s.%.20s.%.40s", key, gate, name);
    for (size_t i = 0; i < gate_threshold_count && len < sizeof list; i++)
        if (strcmp(gate_threshold_rows[i].gate, gate) == 0)
            len += (size_t)snprintf(list + len, sizeof list - len, "%s%s", len > 0 ? ", " : "",
                                    gate_threshold_rows[i].name);
    return why_set(ret_why, STATUS_BAD_REQUEST, field, "%s is unknown: the gate has %s%s", field,
                   list, strcmp(gate, "quality") == 0 ? ", slices" : "");
}

static enum status read_gate(struct gate_thresholds *thresholds, const char *key,
                             const char *gate, const struct document_value *members,
                             struct why *ret_why)
{
    const struct document_value *value;
    const char *name;
    char field[FIELD_ROOM];
    snprintf(field, sizeof field, "%.16s.%.20s", key, gate);
    TRY(document_object(members, field, ret_why));
    for (size_t i = 0; (name = document_member(members, i, &value)) != NULL; i++) {
        uint64_t number;
        if (strcmp(gate, "quality") == 0 && strcmp(name, "slices") == 0) {
            TRY(read_slices(thresholds, value, key, ret_why));
            continue;
        }
        size_t row = row_of(gate, name);
        if (row == gate_threshold_count)
            return refuse_name(key, gate, name, ret_why);
        snprintf(field, sizeof field, "%.16s.%.20s.%.40s", key, gate, name);
        TRY(document_number(value, field, gate_threshold_rows[row].least,
                            gate_threshold_rows[row].most, &number, ret_why));
        *member(thresholds, row) = (uint32_t)number;
    }
    return OK;
}

enum status gate_thresholds_read(struct gate_thresholds *thresholds,
                                 const struct document_value *gates, const char *key,
                                 struct why *ret_why)
{
    static const char *const keys[] = {
#define GATE(NAME, key, judged, without, trigger, against, rule) #key,
#include "sched/judge/gate.def"
#undef GATE
    };
    const struct document_value *value;
    const char *gate;
    char prefix[FIELD_ROOM];
    snprintf(prefix, sizeof prefix, "%.16s.", key);
    TRY(document_object(gates, key, ret_why));
    TRY(document_known(gates, prefix, keys, ARRAY_LEN(keys), ret_why));
    for (size_t i = 0; (gate = document_member(gates, i, &value)) != NULL; i++)
        TRY(read_gate(thresholds, key, gate, value, ret_why));
    return OK;
}

/* "slices" stands between "slice_tokens_min" and nothing: it is quality's last key. */
static void write_slices(const struct gate_thresholds *thresholds, struct canonical_json *json)
{
    canonical_open_object(json, "slices");
    for (uint32_t i = 0; i < thresholds->n_slices; i++)
        canonical_integer(json, thresholds->slices[i].name, thresholds->slices[i].eps_ppm);
    canonical_close_object(json);
}

void gate_thresholds_write(const struct gate_thresholds *thresholds, const char *key,
                           struct canonical_json *json)
{
    canonical_open_object(json, key);
    for (size_t i = 0; i < gate_threshold_count; i++) {
        const char *gate = gate_threshold_rows[i].gate;
        bool is_first = i == 0 || strcmp(gate_threshold_rows[i - 1].gate, gate) != 0;
        bool is_last =
            i + 1 == gate_threshold_count || strcmp(gate_threshold_rows[i + 1].gate, gate) != 0;
        if (is_first)
            canonical_open_object(json, gate);
        canonical_integer(json, gate_threshold_rows[i].name, gate_threshold_value(thresholds, i));
        if (!is_last)
            continue;
        if (strcmp(gate, "quality") == 0)
            write_slices(thresholds, json);
        canonical_close_object(json);
    }
    canonical_close_object(json);
}

uint32_t gate_thresholds_slice(const struct gate_thresholds *thresholds, const char *slice)
{
    for (uint32_t i = 0; i < thresholds->n_slices; i++)
        if (strcmp(thresholds->slices[i].name, slice) == 0)
            return thresholds->slices[i].eps_ppm;
    return thresholds->quality_eps_ppm;
}
