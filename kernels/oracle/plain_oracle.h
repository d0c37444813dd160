/* plain_oracle.h: three definitions of attention under an owner map, over plain arrays, each with a
 * receipt of what it owns and what it repeats. They agree to the last bit: for each query head they
 * do the same operations on the same numbers.
 *
 * Explicit repeat gathers K and V for every query head; owner map reads K and V of the owner;
 * grouped walks the K/V heads and serves the query heads of each. One position attends all tokens.
 * Any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_ORACLE_PLAIN_ORACLE_H
#define FOLDKV_KERNELS_ORACLE_PLAIN_ORACLE_H

#include "config/why.h"

struct oracle_plain {
    uint32_t n_query_heads, n_kv_heads;
    uint32_t n_tokens;
    uint32_t d;
    uint32_t element_bytes; /* of a stored scalar, for the receipt */
    const uint32_t *owner;  /* [n_query_heads], each under n_kv_heads */
    const double *q;        /* [n_query_heads][d] */
    const double *k;        /* [n_kv_heads][n_tokens][d] */
    const double *v;
};

/* Bytes of scalars, at element_bytes each. */
struct oracle_receipt {
    uint64_t owned_bytes;    /* K and V as stored */
    uint64_t repeated_bytes; /* K and V made anew for this call */
};

/* out is [n_query_heads][d]. NO_MEMORY leaves it as it was. */
enum status oracle_plain_repeat(const struct oracle_plain *p, double *out,
                                struct oracle_receipt *ret_receipt) MUST_USE;
void oracle_plain_owner_map(const struct oracle_plain *p, double *out,
                            struct oracle_receipt *ret_receipt);
void oracle_plain_grouped(const struct oracle_plain *p, double *out,
                          struct oracle_receipt *ret_receipt);

#endif
