/* mem.c: counted memory with one failure injector.
 *
 * WHY     Every allocation must be seen to fail once; a steady step must be seen to make none.
 * HOW     Atomics: calls made, bytes asked for, and the call number that shall fail. Libraries are handed the
 *         same functions.
 * ALWAYS  (1) Every path to the system allocator counts exactly once.   mem_may
 * THREAD  any
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/mem.h"

#include <stdatomic.h>
#include <sys/mman.h>

enum { HUGE_PAGE = 2 << 20, VECTOR_ALIGN = 64 };

static atomic_uint_fast64_t calls;
static atomic_uint_fast64_t asked;   /* bytes */
static atomic_uint_fast64_t fail_at; /* 0: disarmed */
static atomic_bool struck;
static atomic_uint_fast64_t mapped;
static _Thread_local _Atomic uint64_t *watch;

static bool mem_may(size_t bytes)
{
    atomic_fetch_add_explicit(&asked, bytes, memory_order_relaxed);
    if (watch != NULL)
        atomic_fetch_add_explicit(watch, 1, memory_order_relaxed);
    uint64_t n = atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed) + 1;
    if (n != atomic_load_explicit(&fail_at, memory_order_relaxed))
        return true;
    atomic_store(&struck, true);
    return false;
}

void *mem_alloc(size_t bytes)
{
    return mem_may(bytes) ? malloc(bytes ? bytes : 1) : NULL;
}

void *mem_zalloc(size_t count, size_t size)
{
    size_t bytes = 0;
    bool fits = !__builtin_mul_overflow(count, size, &bytes);
    if (!mem_may(fits ? bytes : 0) || !fits)
        return NULL;
    return calloc(bytes ? bytes : 1, 1);
}

void *mem_realloc(void *old, size_t bytes)
{
    return mem_may(bytes) ? realloc(old, bytes ? bytes : 1) : NULL;
}

void mem_free(void *p)
{
    free(p);
}

char *mem_dup(const char *text, size_t len)
{
    char *copy = len < SIZE_MAX ? mem_alloc(len + 1) : NULL;
    if (copy == NULL)
        return NULL;
    memcpy(copy, text, len);
    copy[len] = '\0';
    return copy;
}

void *mem_aligned(size_t bytes)
{
    if (!mem_may(bytes) || bytes > SIZE_MAX - VECTOR_ALIGN)
        return NULL;
    size_t rounded = (bytes + VECTOR_ALIGN - 1) / VECTOR_ALIGN * VECTOR_ALIGN;
    rounded = rounded ? rounded : VECTOR_ALIGN;
    void *p = aligned_alloc(VECTOR_ALIGN, rounded);
    if (p != NULL)
        memset(p, 0, rounded);
    return p;
}

size_t mem_map_rounded(size_t bytes)
{
    return (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
}

/* Gives back the head and tail of an over-long mapping so that what stays is aligned. */
static char *trim_to_alignment(char *raw, size_t raw_bytes, size_t bytes)
{
    size_t head = (size_t)(-(uintptr_t)raw) % HUGE_PAGE;
    if (head != 0)
        munmap(raw, head);
    if (raw_bytes - head - bytes != 0)
        munmap(raw + head + bytes, raw_bytes - head - bytes);
    return raw + head;
}

void *mem_map(size_t bytes)
{
    if (!mem_may(bytes) || bytes == 0 || bytes > SIZE_MAX - 2 * (size_t)HUGE_PAGE)
        return NULL;
    bytes = mem_map_rounded(bytes);
    size_t raw_bytes = bytes + HUGE_PAGE;
    char *raw = mmap(NULL, raw_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED)
        return NULL;
    char *p = trim_to_alignment(raw, raw_bytes, bytes);
    (void)madvise(p, bytes, MADV_HUGEPAGE); /* advice only: without huge pages all still works */
    atomic_fetch_add(&mapped, bytes);
    return p;
}

void mem_unmap(void *p, size_t bytes)
{
    if (p == NULL)
        return;
    bytes = mem_map_rounded(bytes);
    munmap(p, bytes);
    atomic_fetch_sub(&mapped, bytes);
}

uint64_t mem_calls(void)
{
    return atomic_load(&calls);
}

_Atomic uint64_t *mem_watch_thread(_Atomic uint64_t *counter)
{
    _Atomic uint64_t *before = watch;
    watch = counter;
    return before;
}

uint64_t mem_asked_bytes(void)
{
    return atomic_load(&asked);
}

uint64_t mem_mapped_bytes(void)
{
    return atomic_load(&mapped);
}

void mem_fail_nth(uint64_t n)
{
    atomic_store(&struck, false);
    atomic_store(&fail_at, n == 0 ? 0 : atomic_load(&calls) + n);
}

bool mem_failure_struck(void)
{
    return atomic_load(&struck);
}
