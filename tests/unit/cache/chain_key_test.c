/* Chain key test: known answers computed with another SHA-256 (Python's hashlib), and every part
 * counts. */
// SPDX-License-Identifier: Apache-2.0
#include "cache/chain_key.h"

#include "tests/support/suite_run.h"

static struct sha256 *sha;
static struct chain_scope scope;
static uint32_t ids[CACHE_PAGE_TOKENS];

static void set_up(void)
{
    ck_assert_int_eq(sha256_new(&sha), OK);
    for (uint32_t i = 0; i < SHA256_BYTES; i++) {
        scope.identity[i] = (uint8_t)i;
        scope.namespace_id[i] = (uint8_t)(32 + i);
        scope.numerics[i] = (uint8_t)(64 + i);
    }
    scope.cache_group = 7;
    for (uint32_t i = 0; i < CACHE_PAGE_TOKENS; i++)
        ids[i] = i * 3000001;
}

static void tear_down(void)
{
    sha256_free(&sha);
}

static struct slice salt_of(const char *text)
{
    return (struct slice){text, strlen(text)};
}

static void root_and_block(const char *salt, uint8_t ret_root[SHA256_BYTES],
                           uint8_t ret_block[SHA256_BYTES])
{
    chain_key_root(sha, &scope, salt_of(salt), ret_root);
    chain_key_block(sha, &scope, salt_of(salt), ret_root, ids, ret_block);
}

static void expect_hex(const uint8_t key[SHA256_BYTES], const char *want)
{
    char hex[SHA256_HEX];
    sha256_hex(key, hex);
    ck_assert_str_eq(hex, want);
}

START_TEST(known_answers)
{
    uint8_t root[SHA256_BYTES], block[SHA256_BYTES];
    root_and_block("pepper", root, block);
    expect_hex(root, "bc2ee168e96b8d621cdad2ca3bdcbd06c173f2691dbf28f1cb390b1a697787c3");
    expect_hex(block, "62cc38afb8f24e46ca4dc93658430cf0d7bbc6f1ab4587cc94536161cc37219b");
    chain_key_root(sha, &scope, (struct slice){NULL, 0}, root);
    expect_hex(root, "2f2cc4c606056f11abd403a343b061f05ca94c17bf5bd96abb53b688656950e6");
}
END_TEST

START_TEST(every_part_counts)
{
    static const char *const parts[] = {"identity", "namespace", "numerics", "group",
                                        "salt",     "parent",    "first id", "last id"};
    uint8_t root[SHA256_BYTES], block[SHA256_BYTES], other_root[SHA256_BYTES], other[SHA256_BYTES];
    root_and_block("a", root, block);
    scope.identity[31] ^= _i == 0;
    scope.namespace_id[0] ^= _i == 1;
    scope.numerics[5] ^= _i == 2;
    scope.cache_group ^= _i == 3;
    chain_key_root(sha, &scope, salt_of(_i == 4 ? "b" : "a"), other_root);
    ck_assert_msg((memcmp(root, other_root, SHA256_BYTES) != 0) == (_i < 5), "%s", parts[_i]);
    memcpy(other_root, root, SHA256_BYTES);
    other_root[9] ^= _i == 5;
    ids[0] ^= _i == 6;
    ids[CACHE_PAGE_TOKENS - 1] ^= _i == 7;
    chain_key_block(sha, &scope, salt_of(_i == 4 ? "b" : "a"), other_root, ids, other);
    ck_assert_msg(memcmp(block, other, SHA256_BYTES) != 0, "%s", parts[_i]);
}
END_TEST

START_TEST(a_part_cannot_pass_for_the_end_of_another)
{
    /* A salt that holds the bytes of a framed parent and ids is still a salt. */
    uint8_t root[SHA256_BYTES], block[SHA256_BYTES], forged[SHA256_BYTES];
    root_and_block("", root, block);
    char bytes[9 + SHA256_BYTES] = {7, SHA256_BYTES};
    memcpy(bytes + 9, root, SHA256_BYTES);
    chain_key_root(sha, &scope, (struct slice){bytes, sizeof bytes}, forged);
    ck_assert_mem_ne(forged, block, SHA256_BYTES);
    ck_assert_mem_ne(forged, root, SHA256_BYTES);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("chain_key");
    TCase *tcase = tcase_create("all");
    tcase_set_timeout(tcase, 10);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, known_answers);
    tcase_add_loop_test(tcase, every_part_counts, 0, 8);
    tcase_add_test(tcase, a_part_cannot_pass_for_the_end_of_another);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
