/* vocabulary_keys.h: the keys of a small vocabulary, added to a checkpoint that a writer makes. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_TESTS_VOCABULARY_KEYS_H
#define FOLDKV_TESTS_VOCABULARY_KEYS_H

#include "tests/support/gguf_writer.h"
#include "tests/support/vocabulary_file.h"

/* The file's tokens, kinds, merges or scores and special ids, and words that no text has up to n_tokens. */
void vocabulary_keys_add(struct gguf_writer *writer, const struct vocabulary_file *file, uint32_t n_tokens);

#endif
