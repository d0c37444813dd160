/* reference_forward.c: the decoder once more, in double and in the plainest way.
 *
 * WHY     The daemon's own parts must not vouch for each other: this shares no arithmetic with
 *         them.
 * HOW     Every activation of every position is kept; attention sums over all earlier positions
 *         that the window lets it see; libm does the rest.
 */
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/reference_forward.h"

#include <math.h>

#include "config/mem.h"

struct forward {
    const struct model *model;
    uint32_t n;
    double *x, *h, *q, *k, *v, *o, *a, *b;
    float *row;
};

/* y[t][.] = W x[t] + bias */
static void multiply(struct forward *f, const struct packed_matrix *w, const float *bias,
                     const double *x, double *y)
{
    for (uint32_t r = 0; r < w->n_rows; r++) {
        packed_row(w, r, f->row);
        for (uint32_t t = 0; t < f->n; t++) {
            double sum = bias != NULL ? (double)bias[r] : 0.0;
            for (uint32_t c = 0; c < w->n_columns; c++)
                sum += (double)f->row[c] * x[(size_t)t * w->n_columns + c];
            y[(size_t)t * w->n_rows + r] = sum;
        }
    }
}

/* y = norm(x) for rows of n, or x if there is no weight. */
static void norm(const struct forward *f, const float *weight, size_t rows, uint32_t n,
                 const double *x, double *y)
{
    for (size_t t = 0; t < rows; t++) {
        double sum = 0.0;
        for (uint32_t i = 0; i < n; i++)
            sum += x[t * n + i] * x[t * n + i];
        double scale = 1.0 / sqrt(sum / n + (double)f->model->graph->rms_eps);
        for (uint32_t i = 0; i < n; i++)
            y[t * n + i] = weight != NULL ? x[t * n + i] * scale * (double)weight[i] : x[t * n + i];
    }
}

static void rotate(struct forward *f, double *x, uint32_t heads, const struct graph_layer *l)
{
    const float *factors = f->model->graph->rope_factors;
    for (uint32_t t = 0; t < f->n; t++) {
        for (uint32_t i = 0; i < heads * l->rope_dims / 2; i++) {
            uint32_t head = i / (l->rope_dims / 2), pair = i % (l->rope_dims / 2);
            double angle = t * pow(l->rope_base, -2.0 * pair / l->rope_dims);
            if (l->has_rope_factors)
                angle /= (double)factors[pair];
            bool halves = f->model->graph->rope_order == ROPE_HALVES;
            double *at = x + ((size_t)t * heads + head) * l->d_qk;
            double *a = at + (halves ? pair : 2 * pair),
                   *b = at + (halves ? pair + l->rope_dims / 2 : 2 * pair + 1);
            double first = *a * cos(angle) - *b * sin(angle),
                   second = *b * cos(angle) + *a * sin(angle);
            *a = first;
            *b = second;
        }
    }
}

static void attend_row(struct forward *f, const struct graph_layer *l, uint32_t t, uint32_t head)
{
    const double *q = f->q + ((size_t)t * l->n_query_heads + head) * l->d_qk;
    double *o = f->o + ((size_t)t * l->n_query_heads + head) * l->d_v;
    double total = 0.0;
    for (uint32_t i = 0; i < l->d_v; i++)
        o[i] = 0.0;
    for (uint32_t p = l->window > 0 && t >= l->window ? t - l->window + 1 : 0; p <= t; p++) {
        const double *k = f->k + ((size_t)p * l->n_k_heads + l->query_to_k_head[head]) * l->d_qk;
        const double *v = f->v + ((size_t)p * l->n_v_heads + l->query_to_v_head[head]) * l->d_v;
        double score = 0.0;
        for (uint32_t i = 0; i < l->d_qk; i++)
            score += q[i] * k[i];
        double weight =
            exp(score / sqrt(l->d_qk)); /* scores of small models stay far from overflow */
        total += weight;
        for (uint32_t i = 0; i < l->d_v; i++)
            o[i] += weight * v[i];
    }
    for (uint32_t i = 0; i < l->d_v; i++)
        o[i] /= total;
}

/* x += norm(h) */
static void add_to_residual(struct forward *f, const float *post_norm)
{
    uint32_t hidden = f->model->graph->hidden;
    norm(f, post_norm, f->n, hidden, f->h, f->h);
    for (size_t i = 0; i < (size_t)f->n * hidden; i++)
        f->x[i] += f->h[i];
}

static double gate(const struct forward *f, double g)
{
    if (f->model->graph->gate == GATE_SILU)
        return g / (1.0 + exp(-g));
    return 0.5 * g * (1.0 + tanh(sqrt(2.0 / acos(-1.0)) * (g + 0.044715 * g * g * g)));
}

static void run_attention(struct forward *f, const struct graph_layer *l,
                          const struct layer_weights *w)
{
    norm(f, w->attn_norm, f->n, f->model->graph->hidden, f->x, f->h);
    multiply(f, &w->q, w->q_bias, f->h, f->q);
    multiply(f, &w->k, w->k_bias, f->h, f->k);
    multiply(f, &w->v, w->v_bias, f->h, f->v);
    norm(f, w->q_norm, (size_t)f->n * l->n_query_heads, l->d_qk, f->q, f->q);
    norm(f, w->k_norm, (size_t)f->n * l->n_k_heads, l->d_qk, f->k, f->k);
    if (l->is_rotated) {
        rotate(f, f->q, l->n_query_heads, l);
        rotate(f, f->k, l->n_k_heads, l);
    }
    for (uint32_t t = 0; t < f->n; t++)
        for (uint32_t head = 0; head < l->n_query_heads; head++)
            attend_row(f, l, t, head);
    multiply(f, &w->output, NULL, f->o, f->h);
    add_to_residual(f, w->post_attn_norm);
}

static void run_ffn(struct forward *f, const struct layer_weights *w)
{
    norm(f, w->ffn_norm, f->n, f->model->graph->hidden, f->x, f->h);
    multiply(f, &w->gate, NULL, f->h, f->a);
    multiply(f, &w->up, NULL, f->h, f->b);
    for (size_t i = 0; i < (size_t)f->n * f->model->graph->ffn; i++)
        f->a[i] = gate(f, f->a[i]) * f->b[i];
    multiply(f, &w->down, NULL, f->a, f->h);
    add_to_residual(f, w->post_ffn_norm);
}

static void score(struct forward *f, const uint32_t *ids, double *ret_chosen)
{
    uint32_t vocab = f->model->graph->vocab;
    double *logits = mem_zalloc((size_t)f->n * vocab, sizeof *logits);
    ASSERT(logits != NULL);
    norm(f, f->model->weights->output_norm, f->n, f->model->graph->hidden, f->x, f->h);
    multiply(f, &f->model->weights->output, NULL, f->h, logits);
    for (uint32_t t = 0; t + 1 < f->n; t++) {
        const double *z = logits + (size_t)t * vocab;
        double sum = 0.0;
        for (uint32_t i = 0; i < vocab; i++)
            sum += exp(z[i]);
        ret_chosen[t] = z[ids[t + 1]] - log(sum);
    }
    mem_free(logits);
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static void take_buffers(struct forward *f)
{
    const struct graph *g = f->model->graph;
    size_t q = 0, k = 0, v = 0, o = 0;
    for (uint32_t i = 0; i < g->n_layers; i++) {
        const struct graph_layer *l = &g->layers[i];
        q = larger(q, (size_t)l->n_query_heads * l->d_qk);
        k = larger(k, (size_t)l->n_k_heads * l->d_qk);
        v = larger(v, (size_t)l->n_v_heads * l->d_v);
        o = larger(o, (size_t)l->n_query_heads * l->d_v);
    }
    const struct {
        double **where;
        size_t columns;
    } buffers[] = {
        {&f->x, g->hidden}, {&f->h, g->hidden}, {&f->q, q},      {&f->k, k},
        {&f->v, v},         {&f->o, o},         {&f->a, g->ffn}, {&f->b, g->ffn},
    };
    f->row = mem_zalloc(larger(larger(g->hidden, g->ffn), o), sizeof *f->row);
    ASSERT(f->row != NULL);
    for (size_t i = 0; i < ARRAY_LEN(buffers); i++) {
        *buffers[i].where = mem_zalloc(f->n * buffers[i].columns, sizeof(double));
        ASSERT(*buffers[i].where != NULL);
    }
}

void reference_forward(const struct model *model, const uint32_t *ids, uint32_t n,
                       double *ret_chosen)
{
    const struct graph *g = model->graph;
    struct forward f = {.model = model, .n = n};
    take_buffers(&f);
    for (uint32_t t = 0; t < n; t++) {
        packed_row(&model->weights->embedding, ids[t], f.row);
        for (uint32_t i = 0; i < g->hidden; i++)
            f.x[(size_t)t * g->hidden + i] = (double)f.row[i] * (double)g->embedding_scale;
    }
    for (uint32_t i = 0; i < g->n_layers; i++) {
        run_attention(&f, &g->layers[i], &model->weights->layers[i]);
        run_ffn(&f, &model->weights->layers[i]);
    }
    score(&f, ids, ret_chosen);
    double *const buffers[] = {f.x, f.h, f.q, f.k, f.v, f.o, f.a, f.b};
    for (size_t i = 0; i < ARRAY_LEN(buffers); i++)
        mem_free(buffers[i]);
    mem_free(f.row);
}
