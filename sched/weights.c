/* weights.c: from a checked file to packed weights.
 *
 * WHY     Products read 16-row panels (kernels/matmul.h), so every matrix is repacked once, and the
 *         file can go.
 * HOW     One list of pieces (tensor, packed place) is laid out first, so that one mapping holds
 *         all; then every worker takes pieces of it by counter, and one of them hashes the file
 *         meanwhile. Packing is byte moves: any split gives the same.
 * OWNS    The mapping, until the last holder lets go. Nothing points into the file.
 * THREAD  The caller's, with the pool it hands in; holders any.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/weights.h"

#include <stdatomic.h>

#include "config/gguf_hash.h"
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
    const struct graph *graph;
    struct piece *pieces;
    uint32_t n_pieces;
    char *base;
    atomic_uint next_task;
    uint8_t checkpoint_sha256[SHA256_BYTES];
    enum status hash_status;
};

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

static enum status list_pieces(struct packing *p, struct weights *w, struct why *ret_why)
{
    TRY(add_matrix(p, gguf_tensor_find(p->gguf, "token_embd.weight"), &w->embedding, ret_why));
    add_vector(p, gguf_tensor_find(p->gguf, "output_norm.weight"), &w->output_norm);
    if (!p->graph->tied_output)
        TRY(add_matrix(p, gguf_tensor_find(p->gguf, "output.weight"), &w->output, ret_why));
    for (uint32_t l = 0; l < p->graph->n_layers; l++) {
        list_vectors(p, p->graph, l, &w->layers[l]);
        TRY(list_matrices(p, l, &w->layers[l], ret_why));
    }
    return OK;
}

/* Lists the pieces and gives each its place in the mapping. */
static enum status lay_out(struct packing *p, struct weights *w, struct why *ret_why)
{
    w->layers = mem_zalloc(p->graph->n_layers, sizeof *w->layers);
    p->pieces = mem_zalloc(p->graph->n_layers * PARTS_A_LAYER + PARTS_OUTSIDE, sizeof *p->pieces);
    if (w->layers == NULL || p->pieces == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the list of tensors");
    TRY(list_pieces(p, w, ret_why));
    for (uint32_t i = 0; i < p->n_pieces; i++) {
        p->pieces[i].offset = w->bytes;
        w->bytes += (p->pieces[i].bytes + PIECE_ALIGN - 1) / PIECE_ALIGN * PIECE_ALIGN;
    }
    return OK;
}

/* Takes the mapping and gives each matrix and vector its address. */
static enum status map_pieces(struct packing *p, struct weights *w, struct why *ret_why)
{
    w->mapping = mem_map(w->bytes);
    if (w->mapping == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for %zu bytes of weights",
                       w->bytes);
    p->base = w->mapping;
    for (uint32_t i = 0; i < p->n_pieces; i++) {
        struct piece *piece = &p->pieces[i];
        if (piece->matrix != NULL)
            piece->matrix->panels = p->base + piece->offset;
        else
            *piece->vector = (const float *)(const void *)(p->base + piece->offset);
    }
    if (p->graph->tied_output)
        w->output = w->embedding;
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
        if (task == 0)
            p->hash_status = gguf_hash_file(p->gguf, p->checkpoint_sha256);
        else if (!run_task(p, task - 1))
            return;
    }
}

/* ---- life ---- */

static void free_weights(struct weights *w)
{
    mem_unmap(w->mapping, w->bytes);
    mem_free(w->layers);
    mem_free(w);
}

enum status weights_bytes_of(const struct gguf *gguf, const struct graph *graph, size_t *ret_bytes,
                             struct why *ret_why)
{
    struct packing packing = {.gguf = gguf, .graph = graph};
    struct weights w = {0};
    enum status s = lay_out(&packing, &w, ret_why);
    *ret_bytes = w.bytes;
    mem_free(packing.pieces);
    mem_free(w.layers);
    return s;
}

static enum status pack(struct packing *p, struct weights *w, struct workers *workers,
                        struct why *ret_why)
{
    TRY(lay_out(p, w, ret_why));
    TRY(map_pieces(p, w, ret_why));
    workers_run(workers, pack_share, p);
    if (p->hash_status != OK)
        return why_set(ret_why, p->hash_status, "", "no memory to hash the file");
    memcpy(w->checkpoint_sha256, p->checkpoint_sha256, SHA256_BYTES);
    return OK;
}

enum status weights_pack(const struct gguf *gguf, const struct graph *graph,
                         struct workers *workers, struct weights **ret_weights, struct why *ret_why)
{
    *ret_weights = NULL;
    struct packing packing = {.gguf = gguf, .graph = graph};
    struct weights *w = mem_zalloc(1, sizeof *w);
    if (w == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the model's weights");
    enum status s = pack(&packing, w, workers, ret_why);
    mem_free(packing.pieces);
    if (s != OK) {
        free_weights(w); /* half-built ones too */
        return s;
    }
    atomic_store(&w->holders, 1);
    *ret_weights = w;
    return OK;
}

struct weights *weights_hold(struct weights *w)
{
    atomic_fetch_add(&w->holders, 1);
    return w;
}

void weights_let_go(struct weights **weights)
{
    struct weights *w = *weights;
    *weights = NULL;
    if (w != NULL && atomic_fetch_sub(&w->holders, 1) == 1)
        free_weights(w);
}

uint32_t weights_holders(const struct weights *w)
{
    return atomic_load(&w->holders);
}
