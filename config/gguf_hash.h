/* gguf_hash.h: hashes over a GGUF file, and over parts of its metadata, whatever the order in which the
 * file has them. Any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CONFIG_GGUF_HASH_H
#define FOLDKV_CONFIG_GGUF_HASH_H

#include "config/gguf.h"
#include "config/sha256.h"

/* Over all of the file: the checkpoint's hash. Taken once for each opened file, however often it is
 * asked for, since it is a good part of a start. NO_MEMORY. */
enum status gguf_hash_file(const struct gguf *gguf, uint8_t ret_hash[SHA256_BYTES]) MUST_USE;
/* Nobody wants it any more: who is at it, or asks when it was not taken, gets UNAVAILABLE soon. */
void gguf_hash_stop(const struct gguf *gguf);
/* Over names, types and values of the keys that begin with prefix ("tokenizer."): equal for two files that
 * have equal keys there. NO_MEMORY. */
enum status gguf_hash_keys(const struct gguf *gguf, const char *prefix,
                           uint8_t ret_hash[SHA256_BYTES]) MUST_USE;

#endif
