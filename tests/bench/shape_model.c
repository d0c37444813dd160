/* shape_model.c: a checkpoint of a known model's shape with random weights, for comparisons of speed.
 *
 * WHY     Speed depends on shapes and formats alone; so a model too large to fetch is measured by a
 *         file that both sides load and that means nothing.
 * HOW     The shape's keys and tensors come from small_model.h, the tokenizer from a real file,
 *         filled up with unused tokens.
 */
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "config/ggml_type.h"
#include "config/mem.h"
#include "tests/support/small_model.h"

enum { TOKEN_UNUSED = 5 };

/* EXAONE 4.0 1.2B; its table is the larger part of a row's bytes. */
static const struct small_model exaone = {.architecture = "exaone4",
                                          .layers = 30,
                                          .hidden = 2048,
                                          .ffn = 4096,
                                          .heads = 32,
                                          .kv_heads = 8,
                                          .d_qk = 64,
                                          .d_v = 64,
                                          .vocab = 102400,
                                          .context = 65536,
                                          .type = GGML_Q4_1,
                                          .head_type = GGML_Q8_0,
                                          .seed = 1};

static void give_up(const char *what, const char *detail)
{
    fprintf(stderr, "shape_model: %s%s\n", what, detail);
    exit(1);
}

static char *text_of(struct slice s)
{
    char *text = mem_alloc(s.len + 1);
    if (text == NULL)
        give_up("out of memory", "");
    memcpy(text, s.bytes, s.len);
    text[s.len] = '\0';
    return text;
}

/* An array of strings of the real file, filled up to n with unused ones. */
static void copy_strings(struct gguf_writer *w, const struct gguf *from, const char *key, size_t n)
{
    enum gguf_type type;
    size_t count;
    struct why why;
    if (gguf_array(from, key, &type, &count, &why) != OK || type != GGUF_STRING)
        give_up("no array of strings: ", key);
    n = n > count ? n : count;
    char **texts = mem_zalloc(n, sizeof *texts);
    if (texts == NULL)
        give_up("out of memory", "");
    for (size_t i = 0; i < n; i++) {
        char unused[32];
        snprintf(unused, sizeof unused, "[unused %zu]", i);
        texts[i] = text_of(i < count ? gguf_array_string(from, key, i)
                                     : (struct slice){unused, strlen(unused)});
    }
    gguf_writer_strings(w, key, (const char *const *)texts, n);
    for (size_t i = 0; i < n; i++)
        mem_free(texts[i]);
    mem_free(texts);
}

static void copy_kinds(struct gguf_writer *w, const struct gguf *from, uint32_t n)
{
    static const char key[] = "tokenizer.ggml.token_type";
    enum gguf_type type;
    size_t count;
    struct why why;
    int32_t *kinds = mem_zalloc(n, sizeof *kinds);
    if (kinds == NULL || gguf_array(from, key, &type, &count, &why) != OK)
        give_up("no array: ", key);
    for (size_t i = 0; i < n; i++)
        kinds[i] = i < count ? (int32_t)gguf_array_int(from, key, i) : TOKEN_UNUSED;
    gguf_writer_array(w, key, GGUF_I32, kinds, n, n * sizeof *kinds);
    mem_free(kinds);
}

static void copy_tokenizer(struct gguf_writer *w, const struct gguf *from, uint32_t vocab)
{
    static const char *const ids[] = {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id"};
    static const char *const names[] = {"tokenizer.ggml.model", "tokenizer.ggml.pre"};
    struct why why;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct slice name;
        if (gguf_string(from, names[i], &name, &why) != OK)
            give_up(why.text, "");
        char *text = text_of(name);
        gguf_writer_string(w, names[i], text);
        mem_free(text);
    }
    for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
        uint32_t id;
        if (gguf_u32(from, ids[i], &id, &why) != OK)
            give_up(why.text, "");
        gguf_writer_u32(w, ids[i], id);
    }
    copy_strings(w, from, "tokenizer.ggml.tokens", vocab);
    copy_strings(w, from, "tokenizer.ggml.merges", 0);
    copy_kinds(w, from, vocab);
}

static void write_file(const char *path, struct gguf_writer *w)
{
    size_t len;
    char *bytes = gguf_writer_finish(w, &len);
    FILE *out = fopen(path, "wb");
    if (out == NULL || fwrite(bytes, 1, len, out) != len || fclose(out) != 0)
        give_up("cannot write ", path);
    mem_free(bytes);
}

int main(int argc, char **argv)
{
    struct gguf *from;
    struct why why;
    if (argc != 3)
        give_up("usage: shape_model VOCABULARY.gguf OUT.gguf\n",
                "writes a model of EXAONE 4.0 1.2B's shape, Q4_1, with the tokenizer of another file");
    if (gguf_open(argv[1], &from, &why) != OK)
        give_up(why.text, "");
    struct gguf_writer *w = small_model_writer(&exaone);
    copy_tokenizer(w, from, exaone.vocab);
    write_file(argv[2], w);
    gguf_writer_free(&w);
    gguf_free(&from);
    return 0;
}
