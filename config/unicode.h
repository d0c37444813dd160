/* unicode.h: is it UTF-8? Rejects overlong forms, surrogates and code points over U+10FFFF. Any
 * thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CONFIG_UNICODE_H
#define FOLDKV_CONFIG_UNICODE_H

#include "config/base.h"

/* Bytes of the whole well-formed character at p, of which left bytes are there; 0 if it is
 * malformed or cut short. */
size_t unicode_length(const char *p, size_t left);
bool unicode_is_valid(struct slice text);
/* True for a well-formed text without control characters (below U+0020, and U+007F). */
bool unicode_is_printable(struct slice text);

#endif
