/* small_model.c: random checkpoints.
 *
 * HOW     Weights are evenly spread round 0. A quantised block has one scale of its own and random
 *         quants, so that every value of the format occurs; the scale is chosen for the spread that
 *         its matrix needs.
 */
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/small_model.h"

#include <math.h>

#include "config/ggml_type.h"
#include "config/mem.h"
#include "kernels/half.h"
#include "tests/support/noise.h"

struct small_model small_model_default(void)
{
    return (struct small_model){.layers = 2,
                                .hidden = 96,
                                .ffn = 192,
                                .heads = 6,
                                .kv_heads = 2,
                                .d_qk = 16,
                                .d_v = 16,
                                .vocab = 256,
                                .context = 1024,
                                .type = GGML_Q4_1,
                                .head_type = GGML_Q8_0,
                                .seed = 1};
}

static void put_half(char *at, double value)
{
    uint16_t bits = half_from_float((float)value);
    memcpy(at, &bits, sizeof bits);
}

/* Where a type's block keeps its scale and, if it has one, the number that is taken away or added:
 * that many times the scale, so that values lie round 0; and the deviation of evenly spread bits,
 * in scales. */
static const struct quant_block {
    uint32_t type;
    size_t scale_at, least_at; /* least_at 0: none */
    double least, deviation;
} quant_blocks[] = {
    {GGML_Q4_0, 0, 0, 0.0, 4.61},   {GGML_Q4_1, 0, 2, -7.5, 4.61},
    {GGML_Q5_0, 0, 0, 0.0, 9.23},   {GGML_Q5_1, 0, 2, -15.5, 9.23},
    {GGML_Q8_0, 0, 0, 0.0, 73.9},   {GGML_Q2_K, 80, 82, 1.5, 12.0},
    {GGML_Q3_K, 108, 0, 0.0, 42.0}, {GGML_Q4_K, 0, 2, 7.5, 250.0},
    {GGML_Q5_K, 0, 2, 15.5, 500.0}, {GGML_Q6_K, 208, 0, 0.0, 1367.0},
    {GGML_IQ4_NL, 0, 0, 0.0, 72.0}, {GGML_IQ4_XS, 0, 0, 0.0, 1332.0},
};

/* One block of random quants whose values have the standard deviation spread. */
static void fill_quants(char *block, uint32_t type, double spread, uint64_t *noise)
{
    const struct ggml_type *row = ggml_type_find(type);
    const struct quant_block *q = NULL;
    for (size_t i = 0; i < ARRAY_LEN(quant_blocks); i++)
        if (quant_blocks[i].type == type)
            q = &quant_blocks[i];
    ASSERT(q != NULL);
    double scale = spread / q->deviation * noise_between(0.7, 1.3, noise);
    for (size_t at = 0; at < row->block_bytes; at++) {
        if (at == q->scale_at)
            put_half(block + at++, scale);
        else if (q->least_at > 0 && at == q->least_at)
            put_half(block + at++, q->least * scale);
        else
            block[at] = (char)noise_below(noise, 256);
    }
}

/* One element that is not quantised. */
static void put_real(char *at, uint32_t type, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint16_t upper = (uint16_t)(bits >> 16);
    if (type == GGML_F32)
        memcpy(at, &value, sizeof value);
    else if (type == GGML_F16)
        put_half(at, (double)value);
    else
        memcpy(at, &upper, sizeof upper);
}

static void fill_matrix(char *data, uint32_t type, uint64_t n, double spread, uint64_t *noise)
{
    const struct ggml_type *row = ggml_type_find(type);
    double reach = spread * 1.7320508; /* of an even spread with that deviation */
    for (uint64_t i = 0; i < n / row->block_elements; i++) {
        if (row->block_elements > 1)
            fill_quants(data + i * row->block_bytes, type, spread, noise);
        else
            put_real(data + i * row->block_bytes, type, (float)noise_between(-reach, reach, noise));
    }
}

static void add_matrix(struct gguf_writer *w, const char *name, uint32_t type, uint64_t columns,
                       uint64_t rows, uint64_t *noise)
{
    const struct ggml_type *row = ggml_type_find(type);
    ASSERT(row != NULL && columns % row->block_elements == 0);
    size_t bytes = columns / row->block_elements * row->block_bytes * rows;
    struct gguf_writer_tensor *t =
        gguf_writer_tensor(w, name, type, 2, (const uint64_t[]){columns, rows}, NULL, bytes);
    fill_matrix(t->data, type, columns * rows, 1.0 / sqrt((double)columns), noise);
}

static void add_norm(struct gguf_writer *w, const char *name, uint64_t n, uint64_t *noise)
{
    struct gguf_writer_tensor *t =
        gguf_writer_tensor(w, name, GGML_F32, 1, &n, NULL, n * sizeof(float));
    for (uint64_t i = 0; i < n; i++)
        put_real(t->data + i * sizeof(float), GGML_F32, (float)noise_between(0.8, 1.2, noise));
}

/* Which parts the layers of an architecture have. */
struct shape {
    bool has_pre_norm, has_post_norm, has_qk_norm, has_bias, has_window;
};

static const char *architecture_of(const struct small_model *m)
{
    return m->architecture != NULL ? m->architecture : "llama";
}

static struct shape shape_of(const struct small_model *m)
{
    const char *name = architecture_of(m);
    bool is_gemma = strcmp(name, "gemma3") == 0, is_exaone = strcmp(name, "exaone4") == 0;
    return (struct shape){.has_pre_norm = !is_exaone,
                          .has_post_norm = is_gemma || is_exaone,
                          .has_qk_norm = is_gemma || is_exaone || strcmp(name, "qwen3") == 0,
                          .has_bias = strcmp(name, "qwen2") == 0,
                          .has_window = is_gemma};
}

static void add_u32(struct gguf_writer *w, const struct small_model *m, const char *tail,
                    uint32_t value)
{
    char key[96];
    snprintf(key, sizeof key, "%s.%s", architecture_of(m), tail);
    gguf_writer_u32(w, key, value);
}

static void add_u32s(struct gguf_writer *w, const char *key, const uint32_t *values, uint32_t n)
{
    if (values != NULL)
        gguf_writer_array(w, key, GGUF_U32, values, n, n * sizeof *values);
}

static void add_keys(struct gguf_writer *w, const struct small_model *m)
{
    char key[96];
    gguf_writer_string(w, "general.architecture", architecture_of(m));
    gguf_writer_string(w, "general.name", "small random model");
    add_u32(w, m, "block_count", m->layers);
    add_u32(w, m, "context_length", m->context);
    add_u32(w, m, "embedding_length", m->hidden);
    add_u32(w, m, "feed_forward_length", m->ffn);
    add_u32(w, m, "vocab_size", m->vocab);
    add_u32(w, m, "attention.head_count", m->heads);
    snprintf(key, sizeof key, "%s.attention.head_count_kv", architecture_of(m));
    add_u32s(w, key, m->layer_kv_heads, m->layers);
    if (m->layer_kv_heads == NULL)
        gguf_writer_u32(w, key, m->kv_heads);
    add_u32(w, m, "attention.key_length", m->d_qk);
    add_u32(w, m, "attention.value_length", m->d_v);
    add_u32(w, m, "rope.dimension_count", m->d_qk);
    if (shape_of(m).has_window)
        add_u32(w, m, "attention.sliding_window", m->window);
    snprintf(key, sizeof key, "%s.rope.freq_base", architecture_of(m));
    gguf_writer_f32(w, key, shape_of(m).has_window ? 1000000.0f : 10000.0f);
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", architecture_of(m));
    gguf_writer_f32(w, key, 1e-5f);
    add_u32s(w, "foldkv.query_to_k_head", m->k_map, m->n_k_map);
    add_u32s(w, "foldkv.query_to_v_head", m->v_map, m->n_v_map);
}

static void add_norms(struct gguf_writer *w, const struct small_model *m, uint32_t layer,
                      uint64_t *noise)
{
    struct shape shape = shape_of(m);
    const struct {
        const char *part;
        uint32_t n;
        bool is_had;
    } norms[] = {
        {"attn_norm.weight", m->hidden, shape.has_pre_norm},
        {"ffn_norm.weight", m->hidden, shape.has_pre_norm},
        {"post_attention_norm.weight", m->hidden, shape.has_post_norm},
        {"post_ffw_norm.weight", m->hidden, shape.has_post_norm},
        {"attn_q_norm.weight", m->d_qk, shape.has_qk_norm},
        {"attn_k_norm.weight", m->d_qk, shape.has_qk_norm},
    };
    char name[64];
    for (size_t i = 0; i < ARRAY_LEN(norms); i++) {
        snprintf(name, sizeof name, "blk.%u.%s", layer, norms[i].part);
        if (norms[i].is_had)
            add_norm(w, name, norms[i].n, noise);
    }
}

static void add_bias(struct gguf_writer *w, const char *name, uint64_t n, uint64_t *noise)
{
    struct gguf_writer_tensor *t =
        gguf_writer_tensor(w, name, GGML_F32, 1, &n, NULL, n * sizeof(float));
    for (uint64_t i = 0; i < n; i++)
        put_real(t->data + i * sizeof(float), GGML_F32, (float)noise_between(-0.5, 0.5, noise));
}

static void add_layer(struct gguf_writer *w, const struct small_model *m, uint32_t layer,
                      uint64_t *noise)
{
    uint32_t merged = m->heads * m->d_v;
    uint32_t kv_heads = m->layer_kv_heads != NULL ? m->layer_kv_heads[layer] : m->kv_heads;
    const struct {
        const char *part, *bias;
        uint32_t columns, rows;
    } matrices[] = {
        {"attn_q.weight", "attn_q.bias", m->hidden, m->heads * m->d_qk},
        {"attn_k.weight", "attn_k.bias", m->hidden, kv_heads * m->d_qk},
        {"attn_v.weight", "attn_v.bias", m->hidden, kv_heads * m->d_v},
        {"attn_output.weight", NULL, merged, m->hidden},
        {"ffn_gate.weight", NULL, m->hidden, m->ffn},
        {"ffn_up.weight", NULL, m->hidden, m->ffn},
        {"ffn_down.weight", NULL, m->ffn, m->hidden},
    };
    char name[64];
    add_norms(w, m, layer, noise);
    for (size_t i = 0; i < ARRAY_LEN(matrices); i++) {
        snprintf(name, sizeof name, "blk.%u.%s", layer, matrices[i].part);
        add_matrix(w, name, m->type, matrices[i].columns, matrices[i].rows, noise);
        if (!shape_of(m).has_bias || matrices[i].bias == NULL)
            continue;
        snprintf(name, sizeof name, "blk.%u.%s", layer, matrices[i].bias);
        add_bias(w, name, matrices[i].rows, noise);
    }
}

static void add_rope_factors(struct gguf_writer *w, const struct small_model *m)
{
    uint64_t n = m->d_qk / 2;
    struct gguf_writer_tensor *t =
        gguf_writer_tensor(w, "rope_freqs.weight", GGML_F32, 1, &n, NULL, n * sizeof(float));
    for (uint64_t i = 0; i < n; i++)
        put_real(t->data + i * sizeof(float), GGML_F32,
                 i < n / 2 ? 1.0f : 1.0f + 7.0f * (float)(i - n / 2 + 1) / (float)(n - n / 2));
}

struct gguf_writer *small_model_writer(const struct small_model *m)
{
    struct gguf_writer *w = gguf_writer_new();
    uint64_t noise = m->seed;
    add_keys(w, m);
    add_matrix(w, "token_embd.weight", m->head_type, m->hidden, m->vocab, &noise);
    add_norm(w, "output_norm.weight", m->hidden, &noise);
    if (m->has_output)
        add_matrix(w, "output.weight", m->head_type, m->hidden, m->vocab, &noise);
    if (m->has_rope_factors)
        add_rope_factors(w, m);
    for (uint32_t layer = 0; layer < m->layers; layer++)
        add_layer(w, m, layer, &noise);
    return w;
}

char *small_model_bytes(const struct small_model *m, size_t *ret_len)
{
    struct gguf_writer *w = small_model_writer(m);
    char *bytes = gguf_writer_finish(w, ret_len);
    gguf_writer_free(&w);
    return bytes;
}

struct gguf *small_model_open(const struct small_model *model, char **ret_bytes)
{
    struct gguf *gguf = NULL;
    struct why why = {0};
    size_t len;
    *ret_bytes = small_model_bytes(model, &len);
    if (gguf_parse(*ret_bytes, len, &gguf, &why) != OK) {
        fprintf(stderr, "small_model: %s\n", why.text);
        abort();
    }
    return gguf;
}
