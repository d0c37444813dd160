/* plain_oracle.c: attention under an owner map, written three ways without pages, lanes or threads.
 *
 * WHY     That the three give one result is the meaning of an owner map; that only one of them
 *         makes new K/V is the reason to serve from the map.
 * NOT     Speed, and traffic inside the machine: a receipt counts what the function itself makes.
 * THREAD  any
 */
// SPDX-License-Identifier: Apache-2.0
#include "kernels/oracle/plain_oracle.h"

#include <math.h>
#include <string.h>

#include "config/mem.h"
#include "kernels/elementary.h"

static size_t head_scalars(const struct oracle_plain *p)
{
    return (size_t)p->n_tokens * p->d;
}

static struct oracle_receipt receipt_of(const struct oracle_plain *p, uint64_t repeated_scalars)
{
    return (struct oracle_receipt){
        .owned_bytes = 2 * (uint64_t)p->n_kv_heads * head_scalars(p) * p->element_bytes,
        .repeated_bytes = repeated_scalars * p->element_bytes,
    };
}

static double score(const struct oracle_plain *p, const double *q, const double *k)
{
    double sum = 0;
    for (uint32_t i = 0; i < p->d; i++)
        sum += q[i] * k[i];
    return sum / sqrt((double)p->d);
}

/* One query head over one K head and one V head. */
static void attend_one(const struct oracle_plain *p, const double *q, const double *k,
                       const double *v, double *out)
{
    double top = -INFINITY;
    for (uint32_t t = 0; t < p->n_tokens; t++)
        top = fmax(top, score(p, q, k + (size_t)t * p->d));
    double sum = 0;
    memset(out, 0, p->d * sizeof *out);
    for (uint32_t t = 0; t < p->n_tokens; t++) {
        double weight = elementary_exp(score(p, q, k + (size_t)t * p->d) - top);
        sum += weight;
        for (uint32_t i = 0; i < p->d; i++)
            out[i] += weight * v[(size_t)t * p->d + i];
    }
    for (uint32_t i = 0; i < p->d; i++)
        out[i] /= sum;
}

static double *gather(const struct oracle_plain *p, const double *from)
{
    double *to = mem_zalloc(p->n_query_heads * head_scalars(p), sizeof *to);
    for (uint32_t h = 0; to != NULL && h < p->n_query_heads; h++)
        memcpy(to + h * head_scalars(p), from + p->owner[h] * head_scalars(p),
               head_scalars(p) * sizeof *to);
    return to;
}

enum status oracle_plain_repeat(const struct oracle_plain *p, double *out,
                                struct oracle_receipt *ret_receipt)
{
    double *k = gather(p, p->k);
    double *v = gather(p, p->v);
    enum status s = k != NULL && v != NULL ? OK : STATUS_NO_MEMORY;
    for (uint32_t h = 0; s == OK && h < p->n_query_heads; h++)
        attend_one(p, p->q + (size_t)h * p->d, k + h * head_scalars(p), v + h * head_scalars(p),
                   out + (size_t)h * p->d);
    *ret_receipt = receipt_of(p, 2 * (uint64_t)p->n_query_heads * head_scalars(p));
    mem_free(v);
    mem_free(k);
    return s;
}

static void attend_owned(const struct oracle_plain *p, uint32_t h, double *out)
{
    size_t at = p->owner[h] * head_scalars(p);
    attend_one(p, p->q + (size_t)h * p->d, p->k + at, p->v + at, out + (size_t)h * p->d);
}

void oracle_plain_owner_map(const struct oracle_plain *p, double *out,
                            struct oracle_receipt *ret_receipt)
{
    for (uint32_t h = 0; h < p->n_query_heads; h++)
        attend_owned(p, h, out);
    *ret_receipt = receipt_of(p, 0);
}

void oracle_plain_grouped(const struct oracle_plain *p, double *out,
                          struct oracle_receipt *ret_receipt)
{
    for (uint32_t kv_head = 0; kv_head < p->n_kv_heads; kv_head++)
        for (uint32_t h = 0; h < p->n_query_heads; h++)
            if (p->owner[h] == kv_head)
                attend_owned(p, h, out);
    *ret_receipt = receipt_of(p, 0);
}
