/* vocabulary_file.c: writes a vocabulary's GGUF, right or wrong.
 *
 * WHY     Each refusal needs a file with one thing wrong; a list of fields to change makes each a line in a test.
 * NOT     Check's assertions: fuzz targets use it, too.
 */
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/vocabulary_file.h"

#include "config/mem.h"
#include "server/byte_text.h"
#include "server/character.h"

enum { FILE_BYTES_MAX = 1 << 20, KEYS_AT = 16, ALIGNMENT = 32 };

void vocabulary_file_set(char ret_text[VOCABULARY_FILE_TEXT], const char *text)
{
    ASSERT(strlen(text) < VOCABULARY_FILE_TEXT);
    memset(ret_text, 0, VOCABULARY_FILE_TEXT);
    memcpy(ret_text, text, strlen(text));
}

static void add_token(struct vocabulary_file *file, const char *text, int32_t kind)
{
    vocabulary_file_set(file->tokens[file->n_tokens], text);
    file->kinds[file->n_tokens++] = kind;
    file->n_kinds = file->n_tokens;
}

void vocabulary_file_init(struct vocabulary_file *file)
{
    static const char *const merged[] = {"he", "ll", "hell", "hello", "\xc4\xa0w"};
    static const char *const merges[] = {"h e", "l l", "he ll", "hell o", "\xc4\xa0 w"};
    static const char *const control[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|im_end|>>"};
    *file = (struct vocabulary_file){.model = "gpt2", .pre = "smollm", .bos = -1, .eos = VF_END_OF_TEXT, .eot = -1,
                                     .eom = -1, .unknown = -1, .padding = -1, .add_bos = -1, .add_eos = -1,
                                     .add_space_prefix = -1, .n_scores = -1};
    for (unsigned byte = 0; byte < 256; byte++) {
        char text[CHARACTER_BYTES_MAX + 1] = "";
        (void)character_write(byte_text_char((uint8_t)byte), text);
        add_token(file, text, 1);
    }
    for (size_t i = 0; i < ARRAY_LEN(merged); i++) {
        add_token(file, merged[i], 1);
        vocabulary_file_set(file->merges[file->n_merges++], merges[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(control); i++)
        add_token(file, control[i], 3);
    add_token(file, "<tool>", 4);
    ASSERT(file->n_tokens == VF_COUNT);
}

static void add_scored(struct vocabulary_file *file, const char *text, int32_t kind, float score)
{
    file->scores[file->n_tokens] = score;
    add_token(file, text, kind);
    file->n_scores = file->n_tokens;
}

void vocabulary_file_init_spm(struct vocabulary_file *file)
{
    static const char *const texts[] = {"\xe2\x96\x81", "h", "e", "l", "o", "he", "ll", "hell", "hello",
                                        "\xe2\x96\x81h", "\xe2\x96\x81hello"};
    *file = (struct vocabulary_file){.model = "llama", .pre = "default", .bos = SF_BOS, .eos = SF_EOS, .eot = -1,
                                     .eom = -1, .unknown = SF_UNKNOWN, .padding = -1, .add_bos = -1, .add_eos = -1,
                                     .add_space_prefix = 0, .n_merges = -1};
    add_scored(file, "<unk>", 2, 0);
    add_scored(file, "<s>", 3, 0);
    add_scored(file, "</s>", 3, 0);
    for (unsigned byte = 0; byte < 256; byte++) {
        char text[VOCABULARY_FILE_TEXT];
        snprintf(text, sizeof text, "<0x%02X>", byte);
        add_scored(file, text, 6, 0);
    }
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        add_scored(file, texts[i], 1, -(float)i);
    add_scored(file, "<tool>", 4, -1000);
    add_scored(file, "<end_of_turn>", 3, -1000);
    ASSERT(file->n_tokens == SF_COUNT);
}

static void put(struct text_buf *out, const void *bytes, size_t len)
{
    text_buf_add_bytes(out, bytes, len);
}

static void put_u32(struct text_buf *out, uint32_t n)
{
    put(out, &n, sizeof n);
}

static void put_u64(struct text_buf *out, uint64_t n)
{
    put(out, &n, sizeof n);
}

static void put_text(struct text_buf *out, const char *text)
{
    put_u64(out, strlen(text));
    put(out, text, strlen(text));
}

static void put_key(struct text_buf *out, const char *key, enum gguf_type type, uint64_t *n_keys)
{
    char name[64];
    snprintf(name, sizeof name, "tokenizer.ggml.%s", key);
    put_text(out, name);
    put_u32(out, type);
    (*n_keys)++;
}

static void put_string_key(struct text_buf *out, const char *key, const char *value, uint64_t *n_keys)
{
    if (value == NULL)
        return;
    put_key(out, key, GGUF_STRING, n_keys);
    put_text(out, value);
}

static void put_id_key(struct text_buf *out, const char *key, int64_t id, uint64_t *n_keys)
{
    if (id < 0)
        return;
    put_key(out, key, GGUF_U32, n_keys);
    put_u32(out, (uint32_t)id);
}

static void put_bool_key(struct text_buf *out, const char *key, int value, uint64_t *n_keys)
{
    if (value < 0)
        return;
    put_key(out, key, GGUF_BOOL, n_keys);
    put(out, &(uint8_t){(uint8_t)value}, 1);
}

static void put_texts_key(struct text_buf *out, const char *key, const char (*texts)[VOCABULARY_FILE_TEXT], int n,
                          bool as_ints, uint64_t *n_keys)
{
    if (n < 0)
        return;
    put_key(out, key, GGUF_ARRAY, n_keys);
    put_u32(out, as_ints ? GGUF_I32 : GGUF_STRING);
    put_u64(out, (uint64_t)n);
    for (int i = 0; i < n; i++) {
        if (as_ints)
            put_u32(out, 0);
        else
            put_text(out, texts[i]);
    }
}

static void put_kinds(struct text_buf *out, const struct vocabulary_file *file, uint64_t *n_keys)
{
    if (file->n_kinds < 0)
        return;
    put_key(out, "token_type", GGUF_ARRAY, n_keys);
    put_u32(out, file->kinds_are_floats ? GGUF_F32 : GGUF_I32);
    put_u64(out, (uint64_t)file->n_kinds);
    put(out, file->kinds, (size_t)file->n_kinds * sizeof file->kinds[0]);
}

static void put_scores(struct text_buf *out, const struct vocabulary_file *file, uint64_t *n_keys)
{
    if (file->n_scores < 0)
        return;
    put_key(out, "scores", GGUF_ARRAY, n_keys);
    put_u32(out, file->scores_are_ints ? GGUF_I32 : GGUF_F32);
    put_u64(out, (uint64_t)file->n_scores);
    put(out, file->scores, (size_t)file->n_scores * sizeof file->scores[0]);
}

static uint64_t put_keys(struct text_buf *out, const struct vocabulary_file *file)
{
    uint64_t n = 0;
    put_string_key(out, "model", file->model, &n);
    put_string_key(out, "pre", file->pre, &n);
    put_texts_key(out, "tokens", file->tokens, file->n_tokens, file->tokens_are_ints, &n);
    put_kinds(out, file, &n);
    put_scores(out, file, &n);
    put_texts_key(out, "merges", file->merges, file->n_merges, file->merges_are_ints, &n);
    put_id_key(out, "bos_token_id", file->bos, &n);
    put_id_key(out, "eos_token_id", file->eos, &n);
    put_id_key(out, "eot_token_id", file->eot, &n);
    put_id_key(out, "eom_token_id", file->eom, &n);
    put_id_key(out, "unknown_token_id", file->unknown, &n);
    put_id_key(out, "padding_token_id", file->padding, &n);
    put_bool_key(out, "add_bos_token", file->add_bos, &n);
    put_bool_key(out, "add_eos_token", file->add_eos, &n);
    put_bool_key(out, "add_space_prefix", file->add_space_prefix, &n);
    return n;
}

char *vocabulary_file_write(const struct vocabulary_file *file, size_t *ret_len)
{
    struct text_buf out;
    text_buf_init(&out, FILE_BYTES_MAX);
    put(&out, "GGUF", 4);
    put_u32(&out, 3);
    put_u64(&out, 0); /* tensors */
    put_u64(&out, 0); /* keys, known below */
    uint64_t n_keys = put_keys(&out, file);
    while (out.len % ALIGNMENT != 0)
        put(&out, "", 1);
    ASSERT(!out.is_failed);
    memcpy(out.bytes + KEYS_AT, &n_keys, sizeof n_keys);
    *ret_len = out.len;
    char *bytes = text_buf_take(&out);
    ASSERT(bytes != NULL);
    return bytes;
}

struct gguf *vocabulary_file_gguf(const struct vocabulary_file *file, char **ret_bytes)
{
    size_t len;
    *ret_bytes = vocabulary_file_write(file, &len);
    struct gguf *gguf = NULL;
    struct why why = {.text = ""};
    enum status s = gguf_parse(*ret_bytes, len, &gguf, &why);
    if (s != OK)
        fprintf(stderr, "%s\n", why.text);
    ASSERT(s == OK);
    return gguf;
}
