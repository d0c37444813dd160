/* make_model.c: writes a small checkpoint with a tokenizer, right or wrong: `make_model OUT.gguf [flags]`.
 *
 * WHY     Tests of whole generations need several checkpoints that differ in one known thing, small enough that a daemon has
 *         them in memory within a second.
 * HOW     Weights come from the seed, so that the same flags give the same bytes. What is wrong is done to the finished
 *         parts: the rest of the file is as it should be.
 */
// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <math.h>

#include "config/mem.h"
#include "tests/support/model_shapes.h"
#include "tests/support/vocabulary_keys.h"

struct wish {
    struct small_model model;
    const char *name;
    uint32_t vocab; /* tokens; 0: as many as vocabulary_file.h names */
    uint64_t cut;   /* bytes that the file keeps; 0: all */
    bool has_nan, has_other_vocabulary, has_no_vocabulary, is_nudged;
};

static const char usage[] =
    "usage: make_model OUT.gguf [--shape NAME] (of model_shapes.c; before the others) [--seed N] [--layers N]\n"
    "       [--hidden N] [--ffn N] [--heads N] [--kv-heads N] [--context N] [--type GGML-ID] [--head-type GGML-ID] [--vocab N] [--name TEXT]\n"
    "       [--nudge] (one weight differs) [--nan] (one weight is NaN) [--other-vocab] (one token differs)\n"
    "       [--no-vocab] (no tokenizer at all) [--cut BYTES] (only the first of the file)\n";

static bool read_number(const char *text, uint64_t most, uint64_t *ret)
{
    char *end;
    *ret = strtoull(text, &end, 10);
    return *text != '\0' && *end == '\0' && *ret <= most;
}

static bool read_switch(const char *flag, struct wish *w)
{
    const struct {
        const char *flag;
        bool *ret;
    } switches[] = {
        {"--nan", &w->has_nan},
        {"--nudge", &w->is_nudged},
        {"--other-vocab", &w->has_other_vocabulary},
        {"--no-vocab", &w->has_no_vocabulary},
    };
    for (size_t i = 0; i < ARRAY_LEN(switches); i++)
        if (strcmp(flag, switches[i].flag) == 0)
            return *switches[i].ret = true;
    return false;
}

static bool read_value(const char *flag, const char *value, struct wish *w)
{
    const struct {
        const char *flag;
        uint32_t *ret;
    } numbers[] = {
        {"--layers", &w->model.layers},     {"--hidden", &w->model.hidden},
        {"--ffn", &w->model.ffn},           {"--heads", &w->model.heads},
        {"--kv-heads", &w->model.kv_heads}, {"--context", &w->model.context},
        {"--type", &w->model.type},         {"--vocab", &w->vocab},
        {"--head-type", &w->model.head_type},
    };
    uint64_t number;
    if (strcmp(flag, "--name") == 0)
        return (w->name = value) != NULL;
    if (strcmp(flag, "--shape") == 0)
        return model_shape_find(value, &w->model);
    if (strcmp(flag, "--seed") == 0)
        return read_number(value, UINT64_MAX, &w->model.seed);
    if (strcmp(flag, "--cut") == 0)
        return read_number(value, UINT64_MAX, &w->cut);
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        if (strcmp(flag, numbers[i].flag) == 0 && read_number(value, 1 << 20, &number)) {
            *numbers[i].ret = (uint32_t)number;
            return true;
        }
    return false;
}

/* Byte-level, as vocabulary_file.h describes it; what is beyond its tokens are words that no text has. */
static void add_vocabulary(struct gguf_writer *w, uint32_t n_tokens, bool is_other)
{
    static struct vocabulary_file file;
    vocabulary_file_init(&file);
    if (is_other)
        vocabulary_file_set(file.tokens[VF_TOOL], "<other>");
    vocabulary_keys_add(w, &file, n_tokens);
}

/* Numbers of a tensor that is stored as F32 whatever the matrices are. */
static void spoil(struct gguf_writer *w, const struct wish *wish)
{
    if (!wish->has_nan && !wish->is_nudged)
        return;
    float *norm = (float *)(void *)gguf_writer_find(w, "blk.0.attn_norm.weight")->data;
    if (wish->has_nan)
        norm[0] = NAN;
    if (wish->is_nudged)
        norm[1] = nextafterf(norm[1], 2.0f);
}

static bool write_file(const char *path, const struct wish *wish)
{
    size_t len;
    struct gguf_writer *w = small_model_writer(&wish->model);
    if (!wish->has_no_vocabulary)
        add_vocabulary(w, wish->model.vocab, wish->has_other_vocabulary);
    if (wish->name != NULL) {
        gguf_writer_drop_key(w, "general.name");
        gguf_writer_string(w, "general.name", wish->name);
    }
    spoil(w, wish);
    char *bytes = gguf_writer_finish(w, &len);
    gguf_writer_free(&w);
    if (wish->cut > 0 && wish->cut < len)
        len = (size_t)wish->cut;
    FILE *file = fopen(path, "wb");
    bool is_written = file != NULL && fwrite(bytes, 1, len, file) == len;
    is_written = file != NULL && fclose(file) == 0 && is_written;
    mem_free(bytes);
    return is_written;
}

int main(int argc, char **argv)
{
    struct wish wish = {.model = small_model_default()};
    bool is_right = argc > 1 && argv[1][0] != '-';
    for (int i = 2; i < argc && is_right; i++)
        if (!read_switch(argv[i], &wish)) {
            is_right = i + 1 < argc && read_value(argv[i], argv[i + 1], &wish);
            i++;
        }
    if (wish.vocab > 0 || !wish.has_no_vocabulary)
        wish.model.vocab = wish.vocab > 0 ? wish.vocab : VF_COUNT;
    if (!is_right || (wish.model.vocab < VF_COUNT && !wish.has_no_vocabulary)) {
        fputs(usage, stderr);
        return 2;
    }
    if (write_file(argv[1], &wish))
        return 0;
    fprintf(stderr, "make_model: %s cannot be written: %s\n", argv[1], strerror(errno));
    return 1;
}
