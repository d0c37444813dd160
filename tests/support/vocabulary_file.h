/* vocabulary_file.h: a small byte-level vocabulary as GGUF bytes, to be changed by a test before it is written. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_TESTS_VOCABULARY_FILE_H
#define FOLDKV_TESTS_VOCABULARY_FILE_H

#include "config/gguf.h"
#include "config/text_buf.h"

enum { VOCABULARY_FILE_TOKENS = 400, VOCABULARY_FILE_MERGES = 40, VOCABULARY_FILE_TEXT = 24 };

/* Ids of vocabulary_file_init's tokens: 0 to 255 are the bytes in order, then the merged ones, then these. */
enum { VF_HE = 256, VF_LL, VF_HELL, VF_HELLO, VF_SPACE_W, VF_END_OF_TEXT, VF_IM_START, VF_IM_END, VF_LONGER, VF_TOOL, VF_COUNT };

/* NULL or negative: the key is absent. */
struct vocabulary_file {
    const char *model, *pre;
    char tokens[VOCABULARY_FILE_TOKENS][VOCABULARY_FILE_TEXT];
    int32_t kinds[VOCABULARY_FILE_TOKENS];
    char merges[VOCABULARY_FILE_MERGES][VOCABULARY_FILE_TEXT];
    int n_tokens, n_kinds, n_merges;
    int64_t bos, eos, eot, eom, unknown, padding;
    int add_bos, add_eos, add_space_prefix;
    bool tokens_are_ints, merges_are_ints, kinds_are_floats;
};

/* "hello" and " w" can be merged; the tokens above are control tokens, but for VF_TOOL, which is user-defined. */
void vocabulary_file_init(struct vocabulary_file *file);
void vocabulary_file_set(char ret_text[VOCABULARY_FILE_TEXT], const char *text);
/* The bytes of the file; freed with mem_free. Fails the test if it cannot. */
char *vocabulary_file_write(const struct vocabulary_file *file, size_t *ret_len);
/* The same, parsed; *ret_bytes must outlive the gguf. */
struct gguf *vocabulary_file_gguf(const struct vocabulary_file *file, char **ret_bytes);

#endif
