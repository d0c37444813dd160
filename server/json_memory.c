/* json_memory.c: what jansson allocates with.
 *
 * WHY     jansson 2.14 does not look whether the buffer of its current token could grow: without
 *         memory a byte of a string goes missing, or its closing quote, and the scan runs past the
 *         end.
 * HOW     While a thread parses, a failed allocation is noted and tried once more, so that one that
 *         failed alone harms nothing; the parse then fails as a whole.
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/json_memory.h"

#include <jansson.h>

#include "config/mem.h"

static _Thread_local struct {
    bool is_parsing, has_failed;
} here;

static void *json_memory_alloc(size_t bytes)
{
    void *p = mem_alloc(bytes);
    if (p != NULL || !here.is_parsing)
        return p;
    here.has_failed = true;
    return mem_alloc(bytes);
}

void json_memory_install(void)
{
    json_set_alloc_funcs(json_memory_alloc, mem_free);
}

void json_memory_parse_begin(void)
{
    here.is_parsing = true;
    here.has_failed = false;
}

bool json_memory_parse_end(void)
{
    here.is_parsing = false;
    return here.has_failed;
}
