/* sha256_test.c: known hashes, framing, reuse without allocation. */
// SPDX-License-Identifier: Apache-2.0
#include "config/sha256.h"

#include <openssl/crypto.h>

#include "config/mem.h"
#include "tests/support/suite_run.h"

static void *crypto_alloc(size_t bytes, const char *file, int line)
{
    (void)file;
    (void)line;
    return mem_alloc(bytes);
}

static void *crypto_realloc(void *old, size_t bytes, const char *file, int line)
{
    (void)file;
    (void)line;
    return mem_realloc(old, bytes);
}

static void crypto_free(void *p, const char *file, int line)
{
    (void)file;
    (void)line;
    mem_free(p);
}

static const struct known {
    const char *text, *hex;
} known[] = {
    {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
};

START_TEST(known_hashes)
{
    uint8_t hash[SHA256_BYTES];
    char hex[SHA256_HEX];
    ck_assert_int_eq(sha256_of(known[_i].text, strlen(known[_i].text), hash), OK);
    sha256_hex(hash, hex);
    ck_assert_str_eq(hex, known[_i].hex);
    uint8_t back[SHA256_BYTES];
    sha256_from_hex(hex, back);
    ck_assert_mem_eq(back, hash, sizeof hash);
}
END_TEST

START_TEST(parts_are_framed)
{
    struct sha256 *sha = NULL;
    uint8_t whole[SHA256_BYTES], parts[SHA256_BYTES], other[SHA256_BYTES];
    ck_assert_int_eq(sha256_new(&sha), OK);
    static const char framed[] = "\x07\x02\0\0\0\0\0\0\0ab\x08\x01\0\0\0\0\0\0\0c";
    ck_assert_int_eq(sha256_of(framed, sizeof framed - 1, whole), OK);
    sha256_start(sha);
    sha256_part(sha, 7, "ab", 2);
    sha256_part(sha, 8, "c", 1);
    sha256_finish(sha, parts);
    ck_assert_mem_eq(whole, parts, sizeof whole);
    sha256_start(sha);
    sha256_part(sha, 7, "a", 1);
    sha256_part(sha, 8, "bc", 2);
    sha256_finish(sha, other);
    ck_assert_mem_ne(whole, other, sizeof whole);
    sha256_free(&sha);
    ck_assert_ptr_null(sha);
    sha256_free(&sha);
}
END_TEST

START_TEST(a_context_is_reused_without_allocating)
{
    struct sha256 *sha = NULL;
    uint8_t hash[SHA256_BYTES], again[SHA256_BYTES];
    ck_assert_int_eq(sha256_new(&sha), OK);
    sha256_add(sha, "abc", 3);
    sha256_finish(sha, hash);
    uint64_t calls = mem_calls();
    for (int i = 0; i < 3; i++) {
        sha256_start(sha);
        sha256_add(sha, "a", 1);
        sha256_add(sha, "bc", 2);
        sha256_finish(sha, again);
        ck_assert_mem_eq(hash, again, sizeof hash);
    }
    ck_assert_uint_eq(mem_calls(), calls);
    sha256_free(&sha);
}
END_TEST

START_TEST(memory_may_be_short)
{
    struct sha256 *sha = NULL;
    mem_fail_nth(1);
    ck_assert_int_eq(sha256_new(&sha), STATUS_NO_MEMORY);
    mem_fail_nth(0);
    ck_assert_ptr_null(sha);
}
END_TEST

int main(void)
{
    if (CRYPTO_set_mem_functions(crypto_alloc, crypto_realloc, crypto_free) != 1)
        return 1;
    Suite *suite = suite_create("sha256");
    TCase *tc = tcase_create("hashes");
    tcase_set_timeout(tc, 10);
    tcase_add_loop_test(tc, known_hashes, 0, (int)ARRAY_LEN(known));
    tcase_add_test(tc, parts_are_framed);
    tcase_add_test(tc, a_context_is_reused_without_allocating);
    tcase_add_test(tc, memory_may_be_short);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
