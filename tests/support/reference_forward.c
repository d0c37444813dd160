/* reference_forward.c: the decoder once more, in double and in the plainest way.
 *
 * WHY     The daemon's own parts must not vouch for each other: this shares no arithmetic with
 *         them.
 * HOW     Every activation of every position is kept; attention sums over all earlier positions;
 *         libm does the rest.
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

/* y[t][.] = W x[t] */
static void multiply(struct forward *f, const struct packed_matrix *w, const double *x, double *y)
{
    for (uint32_t r = 0; r < w->n_rows; r++) {
        packed_row(w, r, f->row);
        for (uint32_t t = 0; t < f->n; t++) {
            double sum = 0.0;
            for (uint32_t c = 0; c < w->n_columns; c++)
                sum += (double)f->row[c] * x[(size_t)t * w->n_columns + c];
            y[(size_t)t * w->n_rows + r] = sum;
        }
    }
}

static void norm(struct forward *f, const float *weight)
{
    uint32_t n = f->model->graph->hidden;
    for (uint32_t t = 0; t < f->n; t++) {
        const double *x = f->x + (size_t)t * n;
        double sum = 0.0;
        for (uint32_t i = 0; i < n; i++)
            sum += x[i] * x[i];
        double scale = 1.0 / sqrt(sum / n + (double)f->model->graph->rms_eps);
        for (uint32_t i = 0; i < n; i++)
            f->h[(size_t)t * n + i] = x[i] * scale * (double)weight[i];
    }
}

static void rotate(struct forward *f, double *x, uint32_t heads, const struct graph_layer *l)
{
    for (uint32_t t = 0; t < f->n; t++) {
        for (uint32_t i = 0; i < heads * l->rope_dims / 2; i++) {
            uint32_t head = i / (l->rope_dims / 2), pair = i % (l->rope_dims / 2);
            double angle = t * pow(l->rope_base, -2.0 * pair / l->rope_dims);
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
    for (uint32_t p = 0; p <= t; p++) {
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

static void add_to_residual(struct forward *f)
{
    for (size_t i = 0; i < (size_t)f->n * f->model->graph->hidden; i++)
        f->x[i] += f->h[i];
}

static void run_layer(struct forward *f, const struct graph_layer *l, const struct layer_weights *w)
{
    norm(f, w->attn_norm);
    multiply(f, &w->q, f->h, f->q);
    multiply(f, &w->k, f->h, f->k);
    multiply(f, &w->v, f->h, f->v);
    rotate(f, f->q, l->n_query_heads, l);
    rotate(f, f->k, l->n_k_heads, l);
    for (uint32_t t = 0; t < f->n; t++)
        for (uint32_t head = 0; head < l->n_query_heads; head++)
            attend_row(f, l, t, head);
    multiply(f, &w->output, f->o, f->h);
    add_to_residual(f);
    norm(f, w->ffn_norm);
    multiply(f, &w->gate, f->h, f->a);
    multiply(f, &w->up, f->h, f->b);
    for (size_t i = 0; i < (size_t)f->n * f->model->graph->ffn; i++)
        f->a[i] = f->a[i] / (1.0 + exp(-f->a[i])) * f->b[i];
    multiply(f, &w->down, f->a, f->h);
    add_to_residual(f);
}

static void score(struct forward *f, const uint32_t *ids, double *ret_chosen)
{
    uint32_t vocab = f->model->graph->vocab;
    double *logits = mem_zalloc((size_t)f->n * vocab, sizeof *logits);
    ASSERT(logits != NULL);
    norm(f, f->model->output_norm);
    multiply(f, &f->model->output, f->h, logits);
    for (uint32_t t = 0; t + 1 < f->n; t++) {
        const double *z = logits + (size_t)t * vocab;
        double sum = 0.0;
        for (uint32_t i = 0; i < vocab; i++)
            sum += exp(z[i]);
        ret_chosen[t] = z[ids[t + 1]] - log(sum);
    }
    mem_free(logits);
}

void reference_forward(const struct model *model, const uint32_t *ids, uint32_t n,
                       double *ret_chosen)
{
    const struct graph *g = model->graph;
    const struct graph_layer *l = &g->layers[0];
    struct forward f = {.model = model, .n = n};
    uint32_t widest = g->hidden > g->ffn ? g->hidden : g->ffn;
    struct {
        double **where;
        size_t columns;
    } const buffers[] = {
        {&f.x, g->hidden},
        {&f.h, g->hidden},
        {&f.q, l->n_query_heads * l->d_qk},
        {&f.k, l->n_k_heads * l->d_qk},
        {&f.v, l->n_v_heads * l->d_v},
        {&f.o, l->n_query_heads * l->d_v},
        {&f.a, g->ffn},
        {&f.b, g->ffn},
    };
    f.row = mem_zalloc(widest + l->n_query_heads * l->d_v, sizeof *f.row);
    for (size_t i = 0; i < ARRAY_LEN(buffers); i++) {
        *buffers[i].where = mem_zalloc(n * buffers[i].columns, sizeof(double));
        ASSERT(*buffers[i].where != NULL && f.row != NULL);
    }
    for (uint32_t t = 0; t < n; t++) {
        packed_row(&model->embedding, ids[t], f.row);
        for (uint32_t i = 0; i < g->hidden; i++)
            f.x[(size_t)t * g->hidden + i] = (double)f.row[i];
    }
    for (uint32_t i = 0; i < g->n_layers; i++)
        run_layer(&f, &g->layers[i], &model->layers[i]);
    score(&f, ids, ret_chosen);
    for (size_t i = 0; i < ARRAY_LEN(buffers); i++)
        mem_free(*buffers[i].where);
    mem_free(f.row);
}
