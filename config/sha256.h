/* sha256.h: SHA-256 by libcrypto, one-shot and in tagged, length-framed parts. Any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CONFIG_SHA256_H
#define FOLDKV_CONFIG_SHA256_H

#include "config/status.h"

enum { SHA256_BYTES = 32, SHA256_HEX = 65 };

/* OK always; allocates nothing. */
enum status sha256_of(const void *bytes, size_t len, uint8_t ret_hash[SHA256_BYTES]) MUST_USE;
void sha256_hex(const uint8_t hash[SHA256_BYTES], char ret_hex[SHA256_HEX]);
/* Back from what sha256_hex wrote: 64 lower-case digits, which the caller is sure of. */
void sha256_from_hex(const char *hex, uint8_t ret_hash[SHA256_BYTES]);

/* A context that is allocated once and reused; never shared by two threads at a time. */
struct sha256;
enum status sha256_new(struct sha256 **ret_sha) MUST_USE;
void sha256_free(struct sha256 **sha);
void sha256_start(struct sha256 *sha);
/* Adds bytes as they are. */
void sha256_add(struct sha256 *sha, const void *bytes, size_t len);
/* Adds one framed part: the tag byte, the length as 8 little-endian bytes, the bytes. */
void sha256_part(struct sha256 *sha, uint8_t tag, const void *bytes, size_t len);
void sha256_finish(struct sha256 *sha, uint8_t ret_hash[SHA256_BYTES]);

#endif
