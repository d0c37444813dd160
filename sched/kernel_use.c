/* kernel_use.c: from a graph's parts to the operations they need, and from those to functions.
 *
 * WHY     A kernel of the same contract gives the same bits and is allowed as a fallback; but it was not what
 *         the candidate's times and traffic were measured with, so it must be seen.
 * ALWAYS  (1) Every operation that decoder_step or the sampler calls for this model is listed.
 *                                                                                   needs
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/kernel_use.h"

#include <strings.h>

static bool has_weight(const struct model *m, enum weight_type type)
{
    if (m->weights->output.type == type)
        return true;
    for (uint32_t l = 0; l < m->graph->n_layers; l++) {
        const struct layer_weights *w = &m->weights->layers[l];
        const struct packed_matrix *const all[] = {&w->q,    &w->k,  &w->v,   &w->output,
                                                   &w->gate, &w->up, &w->down};
        for (size_t i = 0; i < ARRAY_LEN(all); i++)
            if (all[i]->type == type)
                return true;
    }
    return false;
}

static bool is_rotated(const struct graph *g)
{
    for (uint32_t l = 0; l < g->n_layers; l++)
        if (g->layers[l].is_rotated)
            return true;
    return false;
}

static bool is_op(const char *op, const char *name)
{
    return strcmp(op, name) == 0;
}

/* attend_chunk_f16, kv_store_i8: of this K/V type, or of none. */
static bool fits_kv_type(const char *op, enum kv_type type)
{
    static const char *const suffixes[KV_TYPE_COUNT] = {"_f16", "_f32", "_i8"};
    size_t len = strlen(op), end = strlen(suffixes[type]);
    return len > end && strcmp(op + len - end, suffixes[type]) == 0;
}

static bool needs(const struct model *m, const char *op)
{
    static const char *const weights[WEIGHT_TYPE_COUNT] = {
#define WEIGHT(name, text, ggml, elements, source, scale_at, least_at, packed, act) text,
#include "kernels/weight_type.def"
#undef WEIGHT
    };
    const struct graph *g = m->graph;
    for (int i = 0; i < WEIGHT_TYPE_COUNT; i++)
        if (strncmp(op, "matmul_", 7) == 0 && strcasecmp(op + 7, weights[i]) == 0)
            return has_weight(m, (enum weight_type)i);
    if (strncmp(op, "attend_chunk_", 13) == 0 || strncmp(op, "kv_store_", 9) == 0)
        return fits_kv_type(op, m->kv_type);
    if (is_op(op, "rope_halves") || is_op(op, "rope_neighbours"))
        return is_rotated(g) && is_op(op, "rope_halves") == (g->rope_order == ROPE_HALVES);
    if (is_op(op, "silu_mul") || is_op(op, "gelu_mul"))
        return is_op(op, "gelu_mul") == (g->gate == GATE_GELU);
    return !is_op(op, "scale") || g->embedding_scale != 1.0f;
}

static struct kernel_use *find_use(struct kernel_use *uses, size_t n, const char *op)
{
    for (size_t i = 0; i < n; i++)
        if (is_op(op, uses[i].op))
            return &uses[i];
    return NULL;
}

size_t kernel_use_list(const struct model *model, const struct kernels *kernels,
                       struct kernel_use ret_uses[KERNEL_USE_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < kernels_row_count(); i++) {
        struct kernel_row row = kernels_row(i);
        struct kernel_use *use = find_use(ret_uses, n, row.op);
        if (use == NULL && needs(model, row.op)) {
            ASSERT(n < KERNEL_USE_MAX);
            use = &ret_uses[n++];
            *use = (struct kernel_use){.op = row.op};
        }
        if (use != NULL && kernels_row_is_chosen(kernels, i))
            use->function = row.function;
    }
    return n;
}

size_t kernel_use_names(const struct model *model, const struct kernels *kernels,
                        const char *ret_names[KERNEL_USE_MAX])
{
    struct kernel_use uses[KERNEL_USE_MAX];
    size_t n_names = 0, n = kernel_use_list(model, kernels, uses);
    for (size_t i = 0; i < n; i++)
        if (uses[i].function != NULL)
            ret_names[n_names++] = uses[i].function;
    return n_names;
}

/* The name among functions that is of this operation; NULL if none is. */
static const char *named(const char *op, const char *const *functions, size_t n)
{
    size_t len = strlen(op);
    for (size_t i = 0; i < n; i++)
        if (strncmp(functions[i], op, len) == 0 && strncmp(functions[i] + len, "__", 2) == 0)
            return functions[i];
    return NULL;
}

uint32_t kernel_use_differences(const struct kernel_use *uses, size_t n_uses,
                                const char *const *functions, size_t n_functions)
{
    uint32_t n = 0;
    for (size_t i = 0; i < n_uses; i++) {
        const char *planned = named(uses[i].op, functions, n_functions);
        const char *used = uses[i].function;
        n += planned == NULL || used == NULL ? planned != used : strcmp(planned, used) != 0;
    }
    return n;
}
