/* guard.h: memory that ends exactly where an unreadable page begins, so that one byte too many is a signal. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_TESTS_GUARD_H
#define FOLDKV_TESTS_GUARD_H

#include <stddef.h>

/* bytes of zeroed memory whose end meets the guard page; a page before it cannot be read either. Freed by guard_free with
 * the same size. Ends the test on failure. */
void *guard_alloc(size_t bytes);
void guard_free(void *p, size_t bytes);

#endif
