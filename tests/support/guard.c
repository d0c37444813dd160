/* guard.c: a mapping with an unreadable page at each side.
 *
 * HOW     The run of bytes is pushed against the upper guard; its start is then aligned as its size is, which for
 *         floats means four bytes: an unaligned start for free.
 */
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/guard.h"

#include <check.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static size_t inner_bytes(size_t bytes)
{
    return (bytes + page_bytes() - 1) / page_bytes() * page_bytes();
}

void *guard_alloc(size_t bytes)
{
    size_t page = page_bytes();
    size_t inner = inner_bytes(bytes);
    char *map = mmap(NULL, inner + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(map, MAP_FAILED);
    if (inner != 0)
        ck_assert_int_eq(mprotect(map + page, inner, PROT_READ | PROT_WRITE), 0);
    return map + page + inner - bytes;
}

void guard_free(void *p, size_t bytes)
{
    size_t page = page_bytes();
    size_t inner = inner_bytes(bytes);
    ck_assert_int_eq(munmap((char *)p + bytes - inner - page, inner + 2 * page), 0);
}
