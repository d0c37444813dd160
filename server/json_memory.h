/* json_memory.h: jansson's memory: ours, with a word on whether a parse lacked any. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_JSON_MEMORY_H
#define FOLDKV_SERVER_JSON_MEMORY_H

#include "config/base.h"

/* Gives jansson mem_alloc and mem_free. Once, before any other thread uses jansson. */
void json_memory_install(void);
/* Around one parse on this thread; end is true if memory was lacking and the result must not be
 * trusted. */
void json_memory_parse_begin(void);
bool json_memory_parse_end(void) MUST_USE;

#endif
