/* generation_id.c: content-addressed names. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/generation_id.h"

bool generation_id_is_hash(const char *text)
{
    return text != NULL && strlen(text) == SHA256_HEX - 1 &&
           strspn(text, "0123456789abcdef") == SHA256_HEX - 1;
}

static void bytes_of(const char *hex, uint8_t ret_bytes[SHA256_BYTES])
{
    ASSERT(generation_id_is_hash(hex));
    sha256_from_hex(hex, ret_bytes);
}

static void hash_hex(const void *bytes, size_t len, char ret_hex[SHA256_HEX])
{
    uint8_t hash[SHA256_BYTES];
    enum status s = sha256_of(bytes, len, hash);
    ASSERT(s == OK); /* it allocates nothing */
    sha256_hex(hash, ret_hex);
}

void generation_id_of(const char *identity, const char *plan, const char *evaluation_set,
                      char ret_id[SHA256_HEX])
{
    uint8_t parts[3][SHA256_BYTES];
    bytes_of(identity, parts[0]);
    bytes_of(plan, parts[1]);
    bytes_of(evaluation_set, parts[2]);
    hash_hex(parts, sizeof parts, ret_id);
}

void generation_id_namespace(const char *id, int64_t epoch, const char *use,
                             char ret_namespace[SHA256_HEX])
{
    uint8_t parts[SHA256_BYTES + 8 + GENERATION_USE_MAX] = {0};
    size_t len = strlen(use);
    ASSERT(len <= GENERATION_USE_MAX);
    bytes_of(id, parts);
    for (int i = 0; i < 8; i++)
        parts[SHA256_BYTES + i] = (uint8_t)((uint64_t)epoch >> (8 * i));
    memcpy(parts + SHA256_BYTES + 8, use, len);
    hash_hex(parts, SHA256_BYTES + 8 + len, ret_namespace);
}
