/* cache_check.h: walks a whole cache and compares every record with every other. Slow; for tests
 * and debugging. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CACHE_CACHE_CHECK_H
#define FOLDKV_CACHE_CACHE_CHECK_H

struct cache;

/* NULL, or the numbered invariant that does not hold. Allocates nothing, changes nothing but the
 * hash context. Engine thread. */
const char *cache_check(const struct cache *cache);

#endif
