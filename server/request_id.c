/* request_id.c: an id goes into a header and into log lines, so only bytes that are harmless in both are echoed. */
// SPDX-License-Identifier: Apache-2.0
#include "server/request_id.h"

#include <inttypes.h>

/* Spreads a counter over 64 bits (SplitMix64's finalizer), so that ids of one run do not look alike. */
static uint64_t spread(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static bool is_well_formed(const char *text)
{
    size_t len =
        strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/+=@");
    return len > 0 && text[len] == '\0';
}

void request_id_choose(const struct http_head *head, uint64_t seed, uint64_t *n_ids,
                       char ret_id[REQUEST_ID_BYTES])
{
    uint64_t n = ++*n_ids;
    if (head->request_id.has && !head->request_id.is_long && is_well_formed(head->request_id.text))
        snprintf(ret_id, REQUEST_ID_BYTES, "%s", head->request_id.text);
    else
        snprintf(ret_id, REQUEST_ID_BYTES, "%016" PRIx64 "%016" PRIx64, spread(seed),
                 spread(seed + n));
}
