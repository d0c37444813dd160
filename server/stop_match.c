/* stop_match.c: several stop strings searched at once, a byte at a time.
 *
 * WHY     A stop string may be spread over tokens; its first half must not have been sent when its
 *         second half arrives.
 * HOW     For each stop string, Knuth, Morris and Pratt's automaton: `matched` is the longest head
 *         of the string that is a tail of the text. The greatest `matched` of all is what is held
 *         back.
 * ALWAYS  (1) held is the greatest of all `matched`, and tail[0..held) are the last
 *             bytes of the text.                                                  stop_match_push
 *         (2) The bytes given out, then tail, are the whole text so far.          stop_match_push
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/stop_match.h"

#include "config/mem.h"

struct stop {
    char bytes[STOP_BYTES_MAX];
    uint16_t fall[STOP_BYTES_MAX]; /* [n]: matched after n + 1 bytes matched and the next did not */
    uint16_t len, matched;
};

struct stop_match {
    size_t n_stops;
    size_t held;
    char tail[STOP_BYTES_MAX];
    struct stop stops[];
};

static void advance(struct stop *stop, char byte)
{
    while (stop->matched > 0 && (stop->matched == stop->len || stop->bytes[stop->matched] != byte))
        stop->matched = stop->fall[stop->matched - 1];
    if (stop->bytes[stop->matched] == byte)
        stop->matched++;
}

/* The table of a string is the automaton run over the string itself, one byte behind. */
static void prepare(struct stop *stop, struct slice text)
{
    ASSERT(text.len >= 1 && text.len <= STOP_BYTES_MAX);
    memcpy(stop->bytes, text.bytes, text.len);
    stop->len = (uint16_t)text.len;
    for (size_t i = 1; i < text.len; i++) {
        advance(stop, text.bytes[i]);
        stop->fall[i] = stop->matched;
    }
    stop->matched = 0;
}

enum status stop_match_new(const struct slice *stops, size_t n_stops, struct stop_match **ret_match)
{
    ASSERT(n_stops <= STOP_STRINGS_MAX);
    *ret_match = NULL;
    struct stop_match *match = mem_zalloc(1, sizeof *match + n_stops * sizeof match->stops[0]);
    if (match == NULL)
        return STATUS_NO_MEMORY;
    match->n_stops = n_stops;
    for (size_t i = 0; i < n_stops; i++)
        prepare(&match->stops[i], stops[i]);
    *ret_match = match;
    return OK;
}

void stop_match_free(struct stop_match **match)
{
    mem_free(*match);
    *match = NULL;
}

/* One byte for every string; the longest that is complete now, or 0. */
static size_t step(struct stop_match *match, char byte, size_t *ret_held)
{
    size_t complete = 0, held = 0;
    for (size_t i = 0; i < match->n_stops; i++) {
        struct stop *stop = &match->stops[i];
        advance(stop, byte);
        if (stop->matched == stop->len && stop->len > complete)
            complete = stop->len;
        if (stop->matched > held)
            held = stop->matched;
    }
    *ret_held = held;
    return complete;
}

/* Gives out the first n bytes of what was held followed by text. */
static void give(const struct stop_match *match, struct slice text, size_t n,
                 struct byte_buffer *out)
{
    size_t from_tail = n < match->held ? n : match->held;
    byte_buffer_append(out, match->tail, from_tail);
    byte_buffer_append(out, text.bytes, n - from_tail);
}

/* The last held bytes of the old tail followed by text become the new tail. */
static void keep(struct stop_match *match, struct slice text, size_t held)
{
    if (held <= text.len) {
        memcpy(match->tail, text.bytes + text.len - held, held);
    } else {
        size_t from_tail = held - text.len;
        memmove(match->tail, match->tail + match->held - from_tail, from_tail);
        memcpy(match->tail + from_tail, text.bytes, text.len);
    }
    match->held = held;
}

bool stop_match_push(struct stop_match *match, struct slice text, struct byte_buffer *out)
{
    size_t held = match->held;
    for (size_t i = 0; i < text.len; i++) {
        size_t complete = step(match, text.bytes[i], &held);
        if (complete > 0) {
            give(match, text, match->held + i + 1 - complete, out);
            match->held = 0;
            return true;
        }
    }
    give(match, text, match->held + text.len - held, out);
    keep(match, text, held);
    return false;
}

void stop_match_flush(struct stop_match *match, struct byte_buffer *out)
{
    byte_buffer_append(out, match->tail, match->held);
    match->held = 0;
    for (size_t i = 0; i < match->n_stops; i++)
        match->stops[i].matched = 0;
}

size_t stop_match_held(const struct stop_match *match)
{
    return match->held;
}
