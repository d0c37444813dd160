/* vocabulary_file.h: a small vocabulary as GGUF bytes, byte-level or with scores, to be changed by a test before it is
 * written. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_TESTS_VOCABULARY_FILE_H
#define FOLDKV_TESTS_VOCABULARY_FILE_H

#include "config/gguf.h"
#include "config/text_buf.h"

enum { VOCABULARY_FILE_TOKENS = 400, VOCABULARY_FILE_MERGES = 40, VOCABULARY_FILE_TEXT = 24 };

/* Ids of vocabulary_file_init's tokens: 0 to 255 are the bytes in order, then the merged ones, then these. */
enum { VF_HE = 256, VF_LL, VF_HELL, VF_HELLO, VF_SPACE_W, VF_END_OF_TEXT, VF_IM_START, VF_IM_END, VF_LONGER, VF_TOOL, VF_COUNT };

/* The same of vocabulary_file_init_spm: <unk>, <s>, </s>, the byte tokens, then these: "\u2581", "h", "e", "l", "o", "he", "ll",
 * "hell", "hello", "\u2581h", "\u2581hello", a user-defined one and a control one. Scores fall from SF_SPACE on. */
enum { SF_UNKNOWN, SF_BOS, SF_EOS, SF_BYTES, SF_SPACE = SF_BYTES + 256, SF_H, SF_E, SF_L, SF_O, SF_HE, SF_LL, SF_HELL, SF_HELLO,
       SF_SPACE_H, SF_SPACE_HELLO, SF_TOOL, SF_TURN, SF_COUNT };

/* NULL or negative: the key is absent. */
struct vocabulary_file {
    const char *model, *pre;
    char tokens[VOCABULARY_FILE_TOKENS][VOCABULARY_FILE_TEXT];
    int32_t kinds[VOCABULARY_FILE_TOKENS];
    char merges[VOCABULARY_FILE_MERGES][VOCABULARY_FILE_TEXT];
    float scores[VOCABULARY_FILE_TOKENS];
    int n_tokens, n_kinds, n_merges, n_scores;
    int64_t bos, eos, eot, eom, unknown, padding;
    int add_bos, add_eos, add_space_prefix;
    bool tokens_are_ints, merges_are_ints, kinds_are_floats, scores_are_ints;
};

/* "hello" and " w" can be merged; the tokens above are control tokens, but for VF_TOOL, which is user-defined. */
void vocabulary_file_init(struct vocabulary_file *file);
/* Of the model "llama", with scores in place of merges. */
void vocabulary_file_init_spm(struct vocabulary_file *file);
void vocabulary_file_set(char ret_text[VOCABULARY_FILE_TEXT], const char *text);
/* The bytes of the file; freed with mem_free. Fails the test if it cannot. */
char *vocabulary_file_write(const struct vocabulary_file *file, size_t *ret_len);
/* The same, parsed; *ret_bytes must outlive the gguf. */
struct gguf *vocabulary_file_gguf(const struct vocabulary_file *file, char **ret_bytes);

#endif
