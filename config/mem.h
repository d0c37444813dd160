/* mem.h: the only way to memory. Counts, and can fail the n-th call, so that one injector
 * reaches every library.
 *
 * A steady decode step allocates nothing; mem_calls() is how a test knows. Any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CONFIG_MEM_H
#define FOLDKV_CONFIG_MEM_H

#include "config/base.h"

/* Like malloc, calloc, realloc and free; NULL when memory cannot be had (or the injector says
 * so). */
void *mem_alloc(size_t bytes) MUST_USE;
void *mem_zalloc(size_t count, size_t size) MUST_USE;
void *mem_realloc(void *old, size_t bytes) MUST_USE;
void mem_free(void *p);
/* A copy of the first len bytes of text with a NUL behind; NULL when memory cannot be had. */
char *mem_dup(const char *text, size_t len) MUST_USE;
/* Zeroed, 64-byte aligned memory for arrays that vector code reads; free with mem_free. */
void *mem_aligned(size_t bytes) MUST_USE;

/* A big mapping, 2 MiB-aligned and in huge pages where the system gives them; zeroed. bytes is
 * rounded up to 2 MiB. NULL on failure. Counted in mem_mapped_bytes(). */
void *mem_map(size_t bytes) MUST_USE;
void mem_unmap(void *p, size_t bytes);
size_t mem_map_rounded(size_t bytes);

/* Allocation calls so far (alloc, zalloc, realloc, dup, aligned, map). */
uint64_t mem_calls(void);
/* From now on this thread's calls are counted into *counter too; NULL: no longer. Returns what was
 * there before. */
_Atomic uint64_t *mem_watch_thread(_Atomic uint64_t *counter);
/* Bytes those calls asked for so far; freeing takes nothing off. */
uint64_t mem_asked_bytes(void);
uint64_t mem_mapped_bytes(void);
/* Makes the n-th call from now return NULL (1 = the next); 0 disarms. True if it has struck
 * since it was armed. */
void mem_fail_nth(uint64_t n);
bool mem_failure_struck(void);

#endif
