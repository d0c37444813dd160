/* text_hold.c: token bytes to text, character by character.
 *
 * WHY     A token may end inside a character, and a model may give bytes that are no text at all;
 *         clients parse JSON, which must be UTF-8.
 * HOW     Whole characters pass. The head of a character waits for its rest. What cannot be
 *         completed becomes one U+FFFD for each longest part that could have begun a character, as
 *         the Unicode standard recommends; so the result does not depend on where tokens cut.
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/text_hold.h"

static const char replacement[] = "\xef\xbf\xbd";

static void replace(struct byte_buffer *out)
{
    byte_buffer_append(out, replacement, sizeof replacement - 1);
}

/* Gives out whole and broken parts from the front of what is held. */
static void settle(struct text_hold *hold, struct byte_buffer *out)
{
    while (hold->len > 0) {
        size_t n = unicode_length(hold->bytes, hold->len);
        if (n > 0) {
            byte_buffer_append(out, hold->bytes, n);
        } else if (character_is_broken(hold->bytes, hold->len)) {
            n = character_broken_bytes(hold->bytes, hold->len);
            replace(out);
        } else {
            return;
        }
        hold->len = (uint8_t)(hold->len - n);
        memmove(hold->bytes, hold->bytes + n, hold->len);
    }
}

void text_hold_push(struct text_hold *hold, const char *bytes, size_t len, struct byte_buffer *out)
{
    size_t at = 0;
    while (at < len) {
        if (hold->len == 0) {
            size_t n = character_whole_bytes((struct slice){bytes + at, len - at});
            byte_buffer_append(out, bytes + at, n);
            at += n;
            if (at == len)
                return;
        }
        /* Never full: three bytes that are not settled are the head of a character of four. */
        hold->bytes[hold->len++] = bytes[at++];
        settle(hold, out);
    }
}

void text_hold_flush(struct text_hold *hold, struct byte_buffer *out)
{
    if (hold->len > 0)
        replace(out);
    hold->len = 0;
}
