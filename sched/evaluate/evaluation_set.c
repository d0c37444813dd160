/* evaluation_set.c: reads evaluation sets.
 *
 * WHY     A quality canary compares the same words under two generations; which words is fixed and
 *         hashed, or a better score may only be an easier exam.
 * HOW     One pass a line: strict JSON, texts copied into one block. Slices are numbered in the order of
 *         their names once all are known.
 * OWNS    All of the set, in three allocations.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/evaluate/evaluation_set.h"

#include "config/file_text.h"
#include "config/mem.h"

enum { FIELD_ROOM = 64 };

/* The reader's place. */
struct reader {
    struct evaluation_set *set;
    struct slice text;
    size_t texts_len;
    uint32_t line; /* from 1 */
};

void evaluation_set_free(struct evaluation_set **set)
{
    if (*set != NULL) {
        mem_free((*set)->items);
        mem_free((*set)->texts);
    }
    mem_free(*set);
    *set = NULL;
}

static const char *keep(struct reader *reader, const char *text)
{
    size_t len = strlen(text) + 1; /* JSON text is never longer than its source */
    char *kept = reader->set->texts + reader->texts_len;
    memcpy(kept, text, len);
    reader->texts_len += len;
    return kept;
}

/* The slice's index, in the order in which they came; QUALITY_SLICES_MAX if there is no room. */
static uint32_t slice_index(struct evaluation_set *set, const char *name)
{
    uint32_t i = 0;
    while (i < set->n_slices && strcmp(set->slices[i], name) != 0)
        i++;
    if (i == set->n_slices && i < QUALITY_SLICES_MAX) {
        snprintf(set->slices[i], sizeof set->slices[i], "%s", name);
        set->n_slices++;
    }
    return i;
}

static enum status read_text(const struct document_value *root, const char *key,
                             const struct reader *reader, const char **ret_text,
                             struct why *ret_why)
{
    char field[FIELD_ROOM];
    snprintf(field, sizeof field, "line %u: %s", reader->line, key);
    return document_text(document_find(root, key), field, 1, EVALUATION_TEXT_MAX, ret_text,
                         ret_why);
}

static enum status read_item(struct reader *reader, const struct document_value *root,
                             struct why *ret_why)
{
    static const char *const keys[] = {"slice", "prompt", "continuation"};
    const char *slice, *prompt, *continuation;
    char field[FIELD_ROOM];
    snprintf(field, sizeof field, "line %u", reader->line);
    TRY(document_object(root, field, ret_why));
    snprintf(field, sizeof field, "line %u: ", reader->line);
    TRY(document_known(root, field, keys, ARRAY_LEN(keys), ret_why));
    TRY(read_text(root, "slice", reader, &slice, ret_why));
    TRY(read_text(root, "prompt", reader, &prompt, ret_why));
    TRY(read_text(root, "continuation", reader, &continuation, ret_why));
    snprintf(field, sizeof field, "line %u: slice", reader->line);
    if (!slice_name_is_valid(slice))
        return document_refuse(document_find(root, "slice"), field,
                               "a slice's name is 1 to 47 of a-z 0-9 _ . -", ret_why);
    uint32_t index = slice_index(reader->set, slice);
    if (index == QUALITY_SLICES_MAX)
        return document_refuse(document_find(root, "slice"), field,
                               "there are 32 slices already, which is the most", ret_why);
    reader->set->items[reader->set->n_items++] =
        (struct evaluation_item){index, keep(reader, prompt), keep(reader, continuation)};
    return OK;
}

static enum status read_line(struct reader *reader, struct slice line, struct why *ret_why)
{
    char name[FIELD_ROOM];
    struct document *document = NULL;
    snprintf(name, sizeof name, "line %u of the evaluation set", reader->line);
    TRY(document_parse(line, name, &document, ret_why));
    enum status s = read_item(reader, document_root(document), ret_why);
    document_free(&document);
    return s;
}

static enum status read_lines(struct reader *reader, struct why *ret_why)
{
    const char *at = reader->text.bytes, *end = at + reader->text.len;
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *stop = newline != NULL ? newline : end;
        reader->line++;
        TRY(read_line(reader, (struct slice){at, (size_t)(stop - at)}, ret_why));
        at = newline != NULL ? newline + 1 : end;
    }
    if (reader->set->n_items == 0)
        return why_set(ret_why, STATUS_BAD_REQUEST, "", "the evaluation set has no line");
    return OK;
}

/* Numbers the slices in the order of their names. */
static void sort_slices(struct evaluation_set *set)
{
    uint32_t new_index[QUALITY_SLICES_MAX];
    char sorted[QUALITY_SLICES_MAX][SLICE_NAME_MAX + 1];
    for (uint32_t i = 0; i < set->n_slices; i++) {
        new_index[i] = 0;
        for (uint32_t j = 0; j < set->n_slices; j++)
            new_index[i] += strcmp(set->slices[j], set->slices[i]) < 0;
        memcpy(sorted[new_index[i]], set->slices[i], sizeof sorted[0]);
    }
    memcpy(set->slices, sorted, set->n_slices * sizeof sorted[0]);
    for (uint32_t i = 0; i < set->n_items; i++)
        set->items[i].slice = new_index[set->items[i].slice];
}

static int by_texts(const void *a, const void *b)
{
    const struct evaluation_item *x = *(const struct evaluation_item *const *)a;
    const struct evaluation_item *y = *(const struct evaluation_item *const *)b;
    int order = strcmp(x->prompt, y->prompt);
    if (order == 0)
        order = strcmp(x->continuation, y->continuation);
    return order != 0 ? order : (x > y) - (x < y);
}

/* The same item twice would weigh twice. */
static enum status refuse_twins(const struct evaluation_set *set, struct why *ret_why)
{
    const struct evaluation_item **order = mem_alloc(set->n_items * sizeof *order);
    if (order == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the evaluation set");
    for (uint32_t i = 0; i < set->n_items; i++)
        order[i] = &set->items[i];
    qsort(order, set->n_items, sizeof *order, by_texts);
    enum status s = OK;
    for (uint32_t i = 1; i < set->n_items && s == OK; i++)
        if (strcmp(order[i - 1]->prompt, order[i]->prompt) == 0 &&
            strcmp(order[i - 1]->continuation, order[i]->continuation) == 0)
            s = why_set(ret_why, STATUS_BAD_REQUEST, "",
                        "line %zu is line %zu again: each prompt with its continuation is there "
                        "once",
                        (size_t)(order[i] - set->items) + 1,
                        (size_t)(order[i - 1] - set->items) + 1);
    mem_free(order);
    return s;
}

enum status evaluation_set_parse(struct slice text, struct evaluation_set **ret_set,
                                 struct why *ret_why)
{
    size_t n_lines = 1;
    if (text.len > EVALUATION_SET_BYTES_MAX)
        return why_set(ret_why, STATUS_BAD_REQUEST, "",
                       "the evaluation set has %zu bytes: at most %d", text.len,
                       EVALUATION_SET_BYTES_MAX);
    for (size_t i = 0; i < text.len; i++)
        n_lines += text.bytes[i] == '\n';
    if (n_lines > EVALUATION_LINES_MAX)
        return why_set(ret_why, STATUS_BAD_REQUEST, "", "the evaluation set has over %d lines",
                       EVALUATION_LINES_MAX);
    struct evaluation_set *set = mem_zalloc(1, sizeof *set);
    if (set != NULL) {
        set->items = mem_zalloc(n_lines, sizeof *set->items);
        set->texts = mem_alloc(text.len + 1);
    }
    struct reader reader = {set, text, 0, 0};
    enum status s = OK;
    if (set == NULL || set->items == NULL || set->texts == NULL)
        s = why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the evaluation set");
    if (s == OK)
        s = read_lines(&reader, ret_why);
    if (s == OK)
        s = refuse_twins(set, ret_why);
    if (s != OK) {
        evaluation_set_free(&set);
        return s;
    }
    sort_slices(set);
    s = sha256_of(text.bytes, text.len, set->hash);
    ASSERT(s == OK);
    *ret_set = set;
    return OK;
}

enum status evaluation_set_read_file(const char *path, struct evaluation_set **ret_set,
                                     struct why *ret_why)
{
    char *bytes;
    size_t len;
    TRY(file_text_read(path, "the evaluation set", EVALUATION_SET_BYTES_MAX, &bytes, &len,
                       ret_why));
    enum status s = evaluation_set_parse((struct slice){bytes, len}, ret_set, ret_why);
    mem_free(bytes);
    return s;
}
