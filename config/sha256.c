/* sha256.c: SHA-256 by libcrypto.
 *
 * WHY     Identities, prefix keys and files are all hashed; framing and libcrypto's ways are kept in this one file.
 * HOW     The algorithm is fetched and a context set up when it is made, so that later starts allocate nothing.
 * THREAD  any; a struct sha256 by one at a time
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/sha256.h"

#include <openssl/evp.h>

#include "config/mem.h"

struct sha256 {
    EVP_MD *algorithm;
    EVP_MD_CTX *context;
};

enum status sha256_of(const void *bytes, size_t len, uint8_t ret_hash[SHA256_BYTES])
{
    struct sha256 *sha = NULL;
    enum status s = sha256_new(&sha);
    if (s != OK)
        return s;
    sha256_add(sha, bytes, len);
    sha256_finish(sha, ret_hash);
    sha256_free(&sha);
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

enum status sha256_new(struct sha256 **ret_sha)
{
    *ret_sha = NULL;
    struct sha256 *sha = mem_zalloc(1, sizeof *sha);
    if (sha == NULL)
        return STATUS_NO_MEMORY;
    sha->algorithm = EVP_MD_fetch(NULL, "SHA256", NULL);
    sha->context = EVP_MD_CTX_new();
    if (sha->algorithm == NULL || sha->context == NULL ||
        EVP_DigestInit_ex(sha->context, sha->algorithm, NULL) != 1) {
        sha256_free(&sha);
        return STATUS_NO_MEMORY;
    }
    *ret_sha = sha;
    return OK;
}

void sha256_free(struct sha256 **sha)
{
    if (*sha == NULL)
        return;
    EVP_MD_CTX_free((*sha)->context);
    EVP_MD_free((*sha)->algorithm);
    mem_free(*sha);
    *sha = NULL;
}

void sha256_start(struct sha256 *sha)
{
    int is_ok = EVP_DigestInit_ex(sha->context, sha->algorithm, NULL);
    ASSERT(is_ok == 1);
}

void sha256_add(struct sha256 *sha, const void *bytes, size_t len)
{
    int is_ok = EVP_DigestUpdate(sha->context, bytes, len);
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
    unsigned len = 0;
    int is_ok = EVP_DigestFinal_ex(sha->context, ret_hash, &len);
    ASSERT(is_ok == 1 && len == SHA256_BYTES);
}
