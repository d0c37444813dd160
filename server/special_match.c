/* special_match.c: special tokens found in text by walking a sorted list.
 *
 * HOW     A place in the text narrows the sorted spellings byte by byte: after n bytes the
 *         candidates are those that share the text's n bytes, which lie side by side. So a place
 *         costs its longest match times the logarithm of the list, whatever the text and however
 *         many tokens share their beginning.
 * NOT     Leftmost first, then longest. A tokenizer that takes the longest anywhere differs only
 *         where two spellings overlap at their ends, which no known vocabulary has.
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/special_match.h"

#include "config/mem.h"

struct special_match {
    const struct vocabulary *vocabulary; /* outlives this */
    uint32_t n_ids;
    bool is_first[256]; /* some spelling begins with the byte */
    uint32_t ids[];     /* ascending by spelling */
};

static int compare(const void *a, const void *b, void *user)
{
    const struct vocabulary *vocabulary = user;
    struct slice x = vocabulary_piece(vocabulary, *(const uint32_t *)a);
    struct slice y = vocabulary_piece(vocabulary, *(const uint32_t *)b);
    int order = memcmp(x.bytes, y.bytes, x.len < y.len ? x.len : y.len);
    return order != 0 ? order : (x.len > y.len) - (x.len < y.len);
}

enum status special_match_new(const struct vocabulary *vocabulary, struct special_match **ret_match)
{
    uint32_t n = 0;
    for (uint32_t id = 0; id < vocabulary_count(vocabulary); id++)
        n += vocabulary_search(vocabulary, id) != SEARCH_NEVER;
    struct special_match *match = mem_zalloc(1, sizeof *match + n * sizeof match->ids[0]);
    *ret_match = match;
    if (match == NULL)
        return STATUS_NO_MEMORY;
    match->vocabulary = vocabulary;
    for (uint32_t id = 0; id < vocabulary_count(vocabulary); id++) {
        if (vocabulary_search(vocabulary, id) == SEARCH_NEVER)
            continue;
        match->ids[match->n_ids++] = id;
        match->is_first[(uint8_t)vocabulary_piece(vocabulary, id).bytes[0]] = true;
    }
    qsort_r(match->ids, match->n_ids, sizeof match->ids[0], compare, (void *)(uintptr_t)vocabulary);
    return OK;
}

void special_match_free(struct special_match **match)
{
    mem_free(*match);
    *match = NULL;
}

/* The first in [from, to) whose byte at `depth` is at least `least` (256: none is); those with
 * depth bytes or fewer come first. */
static uint32_t lower_bound(const struct special_match *match, uint32_t from, uint32_t to,
                            size_t depth, unsigned least)
{
    while (from < to) {
        uint32_t middle = from + (to - from) / 2;
        struct slice piece = vocabulary_piece(match->vocabulary, match->ids[middle]);
        if (piece.len <= depth || (uint8_t)piece.bytes[depth] < least)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

/* The longest spelling that text begins with. */
static int64_t longest_at(const struct special_match *match, const char *text, size_t len,
                          bool with_control)
{
    int64_t found = TOKEN_NONE;
    uint32_t from = 0, to = match->n_ids;
    for (size_t depth = 0; depth < len && from < to; depth++) {
        unsigned byte = (uint8_t)text[depth];
        from = lower_bound(match, from, to, depth, byte);
        to = lower_bound(match, from, to, depth, byte + 1);
        if (from == to)
            break;
        uint32_t id = match->ids[from]; /* the shortest of the candidates comes first */
        bool is_wanted = with_control || vocabulary_search(match->vocabulary, id) == SEARCH_ALWAYS;
        if (is_wanted && vocabulary_piece(match->vocabulary, id).len == depth + 1)
            found = id;
    }
    return found;
}

bool special_match_find(const struct special_match *match, struct slice text, size_t from,
                        bool with_control, size_t *ret_start, uint32_t *ret_id)
{
    if (match->n_ids == 0)
        return false;
    for (size_t at = from; at < text.len; at++) {
        if (!match->is_first[(uint8_t)text.bytes[at]])
            continue;
        int64_t id = longest_at(match, text.bytes + at, text.len - at, with_control);
        if (id == TOKEN_NONE)
            continue;
        *ret_start = at;
        *ret_id = (uint32_t)id;
        return true;
    }
    return false;
}
