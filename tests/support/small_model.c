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

/* One block of 32 random quants whose values have the standard deviation spread. */
static void fill_quants(char *block, uint32_t type, double spread, uint64_t *noise)
{
    const struct ggml_type *row = ggml_type_find(type);
    double levels =
        type == GGML_Q8_0 ? 73.9 : 4.61; /* deviation of the even spread over the quants */
    double scale = spread / levels * noise_between(0.7, 1.3, noise);
    size_t at = type == GGML_Q4_1 ? 4 : 2;
    put_half(block, scale);
    if (type == GGML_Q4_1)
        put_half(block + 2, -7.5 * scale);
    for (; at < row->block_bytes; at++)
        block[at] = (char)noise_below(noise, 256);
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

static void add_keys(struct gguf_writer *w, const struct small_model *m)
{
    gguf_writer_string(w, "general.architecture", "llama");
    gguf_writer_string(w, "general.name", "small random model");
    gguf_writer_u32(w, "llama.block_count", m->layers);
    gguf_writer_u32(w, "llama.context_length", m->context);
    gguf_writer_u32(w, "llama.embedding_length", m->hidden);
    gguf_writer_u32(w, "llama.feed_forward_length", m->ffn);
    gguf_writer_u32(w, "llama.vocab_size", m->vocab);
    gguf_writer_u32(w, "llama.attention.head_count", m->heads);
    gguf_writer_u32(w, "llama.attention.head_count_kv", m->kv_heads);
    gguf_writer_u32(w, "llama.attention.key_length", m->d_qk);
    gguf_writer_u32(w, "llama.attention.value_length", m->d_v);
    gguf_writer_u32(w, "llama.rope.dimension_count", m->d_qk);
    gguf_writer_f32(w, "llama.rope.freq_base", 10000.0f);
    gguf_writer_f32(w, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
}

static void add_layer(struct gguf_writer *w, const struct small_model *m, uint32_t layer,
                      uint64_t *noise)
{
    uint32_t merged = m->heads * m->d_v;
    const struct {
        const char *part;
        uint32_t columns, rows;
    } matrices[] = {
        {"attn_q.weight", m->hidden, m->heads * m->d_qk},
        {"attn_k.weight", m->hidden, m->kv_heads * m->d_qk},
        {"attn_v.weight", m->hidden, m->kv_heads * m->d_v},
        {"attn_output.weight", merged, m->hidden},
        {"ffn_gate.weight", m->hidden, m->ffn},
        {"ffn_up.weight", m->hidden, m->ffn},
        {"ffn_down.weight", m->ffn, m->hidden},
    };
    char name[64];
    snprintf(name, sizeof name, "blk.%u.attn_norm.weight", layer);
    add_norm(w, name, m->hidden, noise);
    snprintf(name, sizeof name, "blk.%u.ffn_norm.weight", layer);
    add_norm(w, name, m->hidden, noise);
    for (size_t i = 0; i < ARRAY_LEN(matrices); i++) {
        snprintf(name, sizeof name, "blk.%u.%s", layer, matrices[i].part);
        add_matrix(w, name, m->type, matrices[i].columns, matrices[i].rows, noise);
    }
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
