/* model.c: from a checked file to packed weights.
 *
 * WHY     Products read 16-row panels (kernels/matmul.h), so every matrix is repacked once, and the
 *         file can go.
 * HOW     One list of pieces (tensor, packed place) is laid out first, so that one mapping holds
 *         all; then every worker takes pieces of it by counter, and one of them hashes the file
 *         meanwhile. Packing is byte moves: any split gives the same.
 * OWNS    The graph, the manifest and the mapping. Nothing points into the file after model_load.
 * THREAD  The caller's, with the pool it hands in.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/model.h"

#include <stdatomic.h>

#include "config/mem.h"

enum {
    PIECE_ALIGN = 64,
    PANELS_A_TASK = 64,
    PARTS_A_LAYER = 16, /* nine vectors, seven matrices */
    PARTS_OUTSIDE = 3,
};

/* One tensor and where it goes: matrix is NULL for a norm, which is copied as it is. */
struct piece {
    const struct gguf_tensor *tensor;
    struct packed_matrix *matrix;
    const float **vector;
    size_t offset;
    size_t bytes;
};

struct packing {
    const struct gguf *gguf;
    struct piece *pieces;
    uint32_t n_pieces;
    char *base;
    atomic_uint next_task;
    uint8_t checkpoint_sha256[SHA256_BYTES];
    enum status hash_status;
};

enum status model_kv_type(const char *name, enum kv_type *ret_type, struct why *ret_why)
{
    if (strcmp(name, "f16") == 0)
        *ret_type = KV_F16;
    else if (strcmp(name, "f32") == 0)
        *ret_type = KV_F32;
    else if (strcmp(name, "int8") == 0)
        *ret_type = KV_I8;
    else
        return why_set(ret_why, STATUS_BAD_OPTION, "cache.type",
                       "cache.type is \"%s\": give f16, f32 or int8", name);
    return OK;
}

static void add_vector(struct packing *p, const struct gguf_tensor *tensor, const float **vector)
{
    p->pieces[p->n_pieces++] =
        (struct piece){.tensor = tensor, .vector = vector, .bytes = tensor->bytes};
}

static enum status add_matrix(struct packing *p, const struct gguf_tensor *tensor,
                              struct packed_matrix *matrix, struct why *ret_why)
{
    enum weight_type type;
    if (!weight_type_from_ggml(tensor->type, &type))
        return why_set(ret_why, STATUS_BAD_FILE, "tensor",
                       "tensor %.*s has ggml type %u, which is not served", (int)tensor->name.len,
                       tensor->name.bytes, tensor->type);
    matrix->type = type;
    matrix->n_columns = (uint32_t)tensor->dims[0];
    matrix->n_rows = (uint32_t)tensor->dims[1];
    matrix->panel_bytes = packed_panel_bytes(type, matrix->n_columns);
    size_t bytes = matrix->panel_bytes * packed_panels(matrix->n_rows);
    p->pieces[p->n_pieces++] = (struct piece){.tensor = tensor, .matrix = matrix, .bytes = bytes};
    return OK;
}

/* The vectors of a layer that its graph has. */
static void list_vectors(struct packing *p, const struct graph *g, uint32_t l,
                         struct layer_weights *w)
{
    const struct {
        bool is_there;
        const char *part;
        const float **vector;
    } vectors[] = {
        {g->has_pre_norm, "attn_norm.weight", &w->attn_norm},
        {g->has_pre_norm, "ffn_norm.weight", &w->ffn_norm},
        {g->has_post_norm, "post_attention_norm.weight", &w->post_attn_norm},
        {g->has_post_norm, "post_ffw_norm.weight", &w->post_ffn_norm},
        {g->has_qk_norm, "attn_q_norm.weight", &w->q_norm},
        {g->has_qk_norm, "attn_k_norm.weight", &w->k_norm},
        {g->has_qkv_bias, "attn_q.bias", &w->q_bias},
        {g->has_qkv_bias, "attn_k.bias", &w->k_bias},
        {g->has_qkv_bias, "attn_v.bias", &w->v_bias},
    };
    for (size_t i = 0; i < ARRAY_LEN(vectors); i++)
        if (vectors[i].is_there)
            add_vector(p, graph_layer_tensor(p->gguf, l, vectors[i].part), vectors[i].vector);
}

static enum status list_matrices(struct packing *p, uint32_t l, struct layer_weights *w,
                                 struct why *ret_why)
{
    const struct {
        const char *part;
        struct packed_matrix *matrix;
    } matrices[] = {
        {"attn_q.weight", &w->q},      {"attn_k.weight", &w->k},
        {"attn_v.weight", &w->v},      {"attn_output.weight", &w->output},
        {"ffn_gate.weight", &w->gate}, {"ffn_up.weight", &w->up},
        {"ffn_down.weight", &w->down},
    };
    for (size_t i = 0; i < ARRAY_LEN(matrices); i++)
        TRY(add_matrix(p, graph_layer_tensor(p->gguf, l, matrices[i].part), matrices[i].matrix,
                       ret_why));
    return OK;
}

static enum status list_pieces(struct packing *p, struct model *m, struct why *ret_why)
{
    TRY(add_matrix(p, gguf_tensor_find(p->gguf, "token_embd.weight"), &m->embedding, ret_why));
    add_vector(p, gguf_tensor_find(p->gguf, "output_norm.weight"), &m->output_norm);
    if (!m->graph->tied_output)
        TRY(add_matrix(p, gguf_tensor_find(p->gguf, "output.weight"), &m->output, ret_why));
    for (uint32_t l = 0; l < m->graph->n_layers; l++) {
        list_vectors(p, m->graph, l, &m->layers[l]);
        TRY(list_matrices(p, l, &m->layers[l], ret_why));
    }
    return OK;
}

/* Gives each piece its place and each matrix and vector its address. */
static enum status lay_out(struct packing *p, struct model *m)
{
    size_t total = 0;
    for (uint32_t i = 0; i < p->n_pieces; i++) {
        p->pieces[i].offset = total;
        total += (p->pieces[i].bytes + PIECE_ALIGN - 1) / PIECE_ALIGN * PIECE_ALIGN;
    }
    m->weights = mem_map(total);
    if (m->weights == NULL)
        return STATUS_NO_MEMORY;
    m->weights_bytes = total;
    p->base = m->weights;
    for (uint32_t i = 0; i < p->n_pieces; i++) {
        struct piece *piece = &p->pieces[i];
        if (piece->matrix != NULL)
            piece->matrix->panels = p->base + piece->offset;
        else
            *piece->vector = (const float *)(const void *)(p->base + piece->offset);
    }
    if (m->graph->tied_output)
        m->output = m->embedding;
    return OK;
}

/* Packs PANELS_A_TASK panels of the piece that task falls into; false if there is no such task. */
static bool run_task(const struct packing *p, uint32_t task)
{
    for (uint32_t i = 0; i < p->n_pieces; i++) {
        const struct piece *piece = &p->pieces[i];
        uint32_t panels = piece->matrix ? packed_panels(piece->matrix->n_rows) : 1;
        uint32_t tasks = (panels + PANELS_A_TASK - 1) / PANELS_A_TASK;
        if (task >= tasks) {
            task -= tasks;
            continue;
        }
        if (piece->matrix == NULL) {
            memcpy(p->base + piece->offset, piece->tensor->data, piece->bytes);
            return true;
        }
        uint32_t first = task * PANELS_A_TASK;
        uint32_t end = first + PANELS_A_TASK < panels ? first + PANELS_A_TASK : panels;
        packed_pack(piece->matrix->type, piece->tensor->data, piece->matrix->n_rows,
                    piece->matrix->n_columns, first, end, p->base + piece->offset);
        return true;
    }
    return false;
}

/* Task 0 is the file's hash, the longest single one; the others pack. */
static void pack_share(void *arg, uint32_t tid)
{
    (void)tid;
    struct packing *p = arg;
    for (;;) {
        uint32_t task = atomic_fetch_add(&p->next_task, 1);
        if (task == 0) {
            struct slice file = gguf_bytes(p->gguf);
            p->hash_status = sha256_of(file.bytes, file.len, p->checkpoint_sha256);
        } else if (!run_task(p, task - 1)) {
            return;
        }
    }
}

static enum status pack_all(struct packing *p, struct model *m, struct workers *workers,
                            struct why *ret_why)
{
    uint32_t most = m->graph->n_layers * PARTS_A_LAYER + PARTS_OUTSIDE;
    p->pieces = mem_zalloc(most, sizeof *p->pieces);
    if (p->pieces == NULL)
        return STATUS_NO_MEMORY;
    enum status s = list_pieces(p, m, ret_why);
    if (s == OK)
        s = lay_out(p, m);
    if (s == OK) {
        workers_run(workers, pack_share, p);
        s = p->hash_status;
    }
    mem_free(p->pieces);
    p->pieces = NULL;
    return s;
}

/* What the vector kernels need of every width. */
static enum status check_widths(const struct graph *g, struct why *ret_why)
{
    if (g->hidden % ACT_BLOCK != 0)
        return why_set(ret_why, STATUS_BAD_FILE, "embedding_length",
                       "embedding_length is %u: it must be a multiple of %d", g->hidden, ACT_BLOCK);
    if (g->ffn % ACT_BLOCK != 0)
        return why_set(ret_why, STATUS_BAD_FILE, "feed_forward_length",
                       "feed_forward_length is %u: it must be a multiple of %d", g->ffn, ACT_BLOCK);
    return OK;
}

enum status model_manifest(const struct graph *graph, const uint8_t checkpoint_sha256[SHA256_BYTES],
                           enum kv_type kv_type, const struct kernels *kernels,
                           struct manifest **ret_manifest, struct why *ret_why)
{
    static const char *const kv_names[KV_TYPE_COUNT] = {"f16", "f32", "int8"};
    char numerics[96];
    snprintf(numerics, sizeof numerics, "act-i8x%d chunk-%d page-%d", ACT_BLOCK, ATTEND_CHUNK,
             PAGE_TOKENS);
    struct manifest_layout layout = {.kv_type = kv_names[kv_type], .page_tokens = PAGE_TOKENS};
    struct manifest_binding binding = {.backend = isa_name(kernels->isa), .numerics = numerics};
    return manifest_new(graph, checkpoint_sha256, &layout, &binding, ret_manifest, ret_why);
}

enum status model_load(const struct gguf *gguf, enum kv_type kv_type, const struct kernels *kernels,
                       struct workers *workers, struct model **ret_model, struct why *ret_why)
{
    struct packing packing = {.gguf = gguf};
    struct model *m = mem_zalloc(1, sizeof *m);
    *ret_model = NULL;
    if (m == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the model");
    m->kv_type = kv_type;
    enum status s = graph_from_gguf(gguf, &m->graph, ret_why);
    if (s == OK)
        s = check_widths(m->graph, ret_why);
    if (s == OK) {
        m->layers = mem_zalloc(m->graph->n_layers, sizeof *m->layers);
        s = m->layers != NULL ? pack_all(&packing, m, workers, ret_why) : STATUS_NO_MEMORY;
    }
    if (s == OK)
        s = model_manifest(m->graph, packing.checkpoint_sha256, kv_type, kernels, &m->manifest,
                           ret_why);
    if (s == STATUS_NO_MEMORY)
        why_set(ret_why, s, "", "no memory for the model's weights");
    if (s != OK)
        model_free(&m);
    *ret_model = m;
    return s;
}

void model_free(struct model **model)
{
    struct model *m = *model;
    if (m == NULL)
        return;
    graph_free(&m->graph);
    manifest_free(&m->manifest);
    mem_unmap(m->weights, m->weights_bytes);
    mem_free(m->layers);
    mem_free(m);
    *model = NULL;
}
