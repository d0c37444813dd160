/* text_hash.h: a quick hash of short texts, for tables that a checkpoint's vocabulary fills. Not safe
 * against crafted collisions: they cost the operator's own start. Pure; any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_TEXT_HASH_H
#define FOLDKV_SERVER_TEXT_HASH_H

#include "config/base.h"

/* 1 to 8 bytes as a number; different for different bytes of one length. */
static inline uint64_t text_hash_load(const char *bytes, size_t n)
{
    if (n < 4)
        return (uint64_t)(uint8_t)bytes[0] | (uint64_t)(uint8_t)bytes[n / 2] << 8 |
               (uint64_t)(uint8_t)bytes[n - 1] << 16;
    uint32_t low, high;
    memcpy(&low, bytes, sizeof low);
    memcpy(&high, bytes + n - sizeof high, sizeof high);
    return (uint64_t)high << 32 | low;
}

/* Eight bytes at a time. */
static inline uint64_t text_hash(struct slice text)
{
    uint64_t hash = text.len;
    for (size_t at = 0; at < text.len; at += 8) {
        size_t n = text.len - at < 8 ? text.len - at : 8;
        hash = (hash ^ text_hash_load(text.bytes + at, n)) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return hash * UINT64_C(0xbf58476d1ce4e5b9);
}

/* A table is filled this many texts at a time: their slots are fetched together, as each alone is a wait for memory. */
enum { TEXT_HASH_BATCH = 32 };

#endif
