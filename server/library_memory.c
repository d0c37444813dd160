/* library_memory.c: hands the libraries our allocator. */
// SPDX-License-Identifier: Apache-2.0
#include "server/library_memory.h"

#include <openssl/crypto.h>
#include <uv.h>

#include "config/mem.h"
#include "server/json_memory.h"
#include "server/json_memory.h"

static void *crypto_alloc(size_t bytes, const char *file, int line)
{
    (void)file, (void)line;
    return mem_alloc(bytes);
}

static void *crypto_realloc(void *old, size_t bytes, const char *file, int line)
{
    (void)file, (void)line;
    return mem_realloc(old, bytes);
}

static void crypto_free(void *p, const char *file, int line)
{
    (void)file, (void)line;
    mem_free(p);
}

bool library_memory_install(void)
{
    json_memory_install();
    return uv_replace_allocator(mem_alloc, mem_realloc, mem_zalloc, mem_free) == 0 &&
           CRYPTO_set_mem_functions(crypto_alloc, crypto_realloc, crypto_free) == 1;
}
