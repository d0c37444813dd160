/* vocabulary_keys.c: a vocabulary_file as keys of a whole checkpoint. */
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/vocabulary_keys.h"

#include "config/mem.h"

enum { WORD_ROOM = 16, KIND_NORMAL = 1 };

static void add_tokens(struct gguf_writer *w, const struct vocabulary_file *file, uint32_t n_tokens)
{
    const char **tokens = mem_zalloc(n_tokens, sizeof *tokens);
    char(*words)[WORD_ROOM] = mem_zalloc(n_tokens, sizeof *words);
    int32_t *kinds = mem_zalloc(n_tokens, sizeof *kinds);
    float *scores = mem_zalloc(n_tokens, sizeof *scores);
    ASSERT(tokens != NULL && words != NULL && kinds != NULL && scores != NULL);
    for (uint32_t i = 0; i < n_tokens; i++) {
        bool is_file = i < (uint32_t)file->n_tokens;
        snprintf(words[i], sizeof words[i], "word%u", i);
        tokens[i] = is_file ? file->tokens[i] : words[i];
        kinds[i] = is_file ? file->kinds[i] : KIND_NORMAL;
        scores[i] = is_file ? file->scores[i] : -1000.0f;
    }
    gguf_writer_strings(w, "tokenizer.ggml.tokens", tokens, n_tokens);
    gguf_writer_array(w, "tokenizer.ggml.token_type", GGUF_I32, kinds, n_tokens, n_tokens * sizeof *kinds);
    if (file->n_scores >= 0)
        gguf_writer_array(w, "tokenizer.ggml.scores", GGUF_F32, scores, n_tokens, n_tokens * sizeof *scores);
    mem_free(scores);
    mem_free(kinds);
    mem_free(words);
    mem_free(tokens);
}

static void add_id(struct gguf_writer *w, const char *key, int64_t id)
{
    if (id >= 0)
        gguf_writer_u32(w, key, (uint32_t)id);
}

void vocabulary_keys_add(struct gguf_writer *w, const struct vocabulary_file *file, uint32_t n_tokens)
{
    const char *merges[VOCABULARY_FILE_MERGES];
    ASSERT(n_tokens >= (uint32_t)file->n_tokens);
    for (int i = 0; i < file->n_merges; i++)
        merges[i] = file->merges[i];
    gguf_writer_string(w, "tokenizer.ggml.model", file->model);
    gguf_writer_string(w, "tokenizer.ggml.pre", file->pre);
    add_tokens(w, file, n_tokens);
    if (file->n_merges >= 0)
        gguf_writer_strings(w, "tokenizer.ggml.merges", merges, (size_t)file->n_merges);
    add_id(w, "tokenizer.ggml.bos_token_id", file->bos);
    add_id(w, "tokenizer.ggml.eos_token_id", file->eos);
    add_id(w, "tokenizer.ggml.unknown_token_id", file->unknown);
    if (file->add_space_prefix >= 0)
        gguf_writer_bool(w, "tokenizer.ggml.add_space_prefix", file->add_space_prefix != 0);
}
