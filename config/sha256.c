/* sha256.c: SHA-256 by libcrypto.
 *
 * WHY     Identities, prefix keys and files are all hashed; framing and libcrypto's ways are kept
 *         in this one file.
 * HOW     The low-level calls: the EVP ones of libcrypto 3 allocate at each start, and a steady
 *         decode step, which hashes blocks as they fill, allocates nothing. Both end in the same
 *         machine code.
 * THREAD  any; a struct sha256 by one at a time
 */
// SPDX-License-Identifier: Apache-2.0
#define OPENSSL_SUPPRESS_DEPRECATED
#include "config/sha256.h"

#include <openssl/sha.h>

#include "config/mem.h"

struct sha256 {
    SHA256_CTX context;
};

enum status sha256_of(const void *bytes, size_t len, uint8_t ret_hash[SHA256_BYTES])
{
    struct sha256 sha;
    sha256_start(&sha);
    sha256_add(&sha, bytes, len);
    sha256_finish(&sha, ret_hash);
    return OK;
}

void sha256_hex(const uint8_t hash[SHA256_BYTES], char ret_hex[SHA256_HEX])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < SHA256_BYTES; i++) {
        ret_hex[2 * i] = digits[hash[i] >> 4];
        ret_hex[2 * i + 1] = digits[hash[i] & 15];
    }
    ret_hex[SHA256_HEX - 1] = '\0';
}

static unsigned digit(char c)
{
    return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
}

void sha256_from_hex(const char *hex, uint8_t ret_hash[SHA256_BYTES])
{
    for (size_t i = 0; i < SHA256_BYTES; i++)
        ret_hash[i] = (uint8_t)(digit(hex[2 * i]) << 4 | digit(hex[2 * i + 1]));
}

enum status sha256_new(struct sha256 **ret_sha)
{
    *ret_sha = mem_alloc(sizeof **ret_sha);
    if (*ret_sha == NULL)
        return STATUS_NO_MEMORY;
    sha256_start(*ret_sha);
    return OK;
}

void sha256_free(struct sha256 **sha)
{
    mem_free(*sha);
    *sha = NULL;
}

/* The calls below cannot fail on a context of ours; libcrypto answers 1. */

void sha256_start(struct sha256 *sha)
{
    int is_ok = SHA256_Init(&sha->context);
    ASSERT(is_ok == 1);
}

void sha256_add(struct sha256 *sha, const void *bytes, size_t len)
{
    int is_ok = SHA256_Update(&sha->context, bytes, len);
    ASSERT(is_ok == 1);
}

void sha256_part(struct sha256 *sha, uint8_t tag, const void *bytes, size_t len)
{
    uint8_t frame[9] = {tag};
    for (unsigned i = 0; i < 8; i++)
        frame[1 + i] = (uint8_t)((uint64_t)len >> (8 * i));
    sha256_add(sha, frame, sizeof frame);
    sha256_add(sha, bytes, len);
}

void sha256_finish(struct sha256 *sha, uint8_t ret_hash[SHA256_BYTES])
{
    int is_ok = SHA256_Final(ret_hash, &sha->context);
    ASSERT(is_ok == 1);
}
