/* stop_match.h: finds stop strings in text that arrives in parts.
 *
 * The longest tail that could begin a stop string is held back; it comes out exactly once, or never
 * if the string is completed. What comes out does not depend on how the text was cut into parts.
 * One thread at a time. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_STOP_MATCH_H
#define FOLDKV_SERVER_STOP_MATCH_H

#include "server/byte_buffer.h"

enum { STOP_STRINGS_MAX = 16, STOP_BYTES_MAX = 256 };

struct stop_match;

/* stops[0..n_stops) have 1 to STOP_BYTES_MAX bytes each and are copied; n_stops at most
 * STOP_STRINGS_MAX, 0 is allowed. NO_MEMORY. */
enum status stop_match_new(const struct slice *stops, size_t n_stops,
                           struct stop_match **ret_match) MUST_USE;
void stop_match_free(struct stop_match **match);
/* Appends to out what is surely no part of a stop string. True: a stop string is complete, out has
 * all the text before it, and nothing more may be pushed. The string that ends first counts; of
 * those that end together, the longest. out->failed tells a failure of the buffer. */
bool stop_match_push(struct stop_match *match, struct slice text, struct byte_buffer *out) MUST_USE;
/* The end came without a stop string: appends what is held. */
void stop_match_flush(struct stop_match *match, struct byte_buffer *out);
/* Bytes held back now. */
size_t stop_match_held(const struct stop_match *match);

#endif
