/* append.h: new K/V enters a sequence as one transaction.
 *
 *   (closed) --append_open--> open --append_commit | append_abort | sequence_close--> (closed)
 *
 * Between open and its end the caller writes rows into the reserved places. Engine thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CACHE_APPEND_H
#define FOLDKV_CACHE_APPEND_H

#include "config/status.h"

struct sequence;

/* Reserves pages for n >= 1 more tokens (within context_max and append_max) in every group, evicting
 * cached blocks if it must. CACHE_FULL leaves every group as it was. */
enum status append_open(struct sequence *sequence, uint32_t n) MUST_USE;
/* The first n of the staged rows become visible, with ids[n], the tokens at their positions; the
 * places of the others are given back. Full blocks and the partial tail enter the index. A full
 * block whose key is there already keeps the old block: the sequence exchanges its own page for
 * that one. */
void append_commit(struct sequence *sequence, const uint32_t *ids, uint32_t n);
/* The staged rows never were. */
void append_abort(struct sequence *sequence);

#endif
