/* canonical_json_test.c: the bytes of RFC 8785, and what the writer refuses to write. */
// SPDX-License-Identifier: Apache-2.0
#include "config/canonical_json.h"

#include <signal.h>

#include "config/mem.h"
#include "tests/support/suite_run.h"

START_TEST(the_bytes_are_those_of_the_standard)
{
    struct canonical_json json;
    uint8_t hash[SHA256_BYTES], again[SHA256_BYTES];
    char *text;
    canonical_init(&json, 4096);
    canonical_open_object(&json, NULL);
    canonical_open_array(&json, "a");
    canonical_integer(&json, NULL, -1);
    canonical_integer(&json, NULL, (int64_t)1 << 53);
    canonical_open_object(&json, NULL);
    canonical_close_object(&json);
    canonical_close_array(&json);
    canonical_bool(&json, "b", true);
    canonical_text(&json, "c", "\"\\/\b\t\n\f\r\x01\x1f\u20ac");
    canonical_close_object(&json);
    ck_assert_int_eq(canonical_take(&json, &text, hash), OK);
    ck_assert_str_eq(text, "{\"a\":[-1,9007199254740992,{}],\"b\":true,"
                           "\"c\":\"\\\"\\\\/\\b\\t\\n\\f\\r\\u0001\\u001f\u20ac\"}");
    ck_assert_int_eq(sha256_of(text, strlen(text), again), OK);
    ck_assert_mem_eq(hash, again, SHA256_BYTES);
    mem_free(text);
}
END_TEST

START_TEST(text_over_the_maximum_is_a_failure)
{
    struct canonical_json json;
    char *text;
    canonical_init(&json, 8);
    canonical_text(&json, NULL, "longer than eight");
    ck_assert_int_eq(canonical_take(&json, &text, NULL), STATUS_NO_MEMORY);
    canonical_release(&json);
}
END_TEST

/* 0: a key out of order; 1: the same key twice; 2: a key in an array; 3: an open bracket; 4: a number
 * that is not exact. Each is our own mistake and aborts. */
START_TEST(mistakes_abort)
{
    struct canonical_json json;
    char *text;
    canonical_init(&json, 4096);
    canonical_open_object(&json, NULL);
    canonical_integer(&json, "b", 1);
    if (_i == 0)
        canonical_integer(&json, "a", 1);
    if (_i == 1)
        canonical_integer(&json, "b", 1);
    canonical_open_array(&json, "c");
    if (_i == 2)
        canonical_integer(&json, "d", 1);
    if (_i == 4)
        canonical_integer(&json, NULL, ((int64_t)1 << 53) + 1);
    if (canonical_take(&json, &text, NULL) == OK)
        mem_free(text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("canonical_json");
    TCase *tc = tcase_create("canonical_json");
    tcase_add_test(tc, the_bytes_are_those_of_the_standard);
    tcase_add_test(tc, text_over_the_maximum_is_a_failure);
    tcase_add_loop_test_raise_signal(tc, mistakes_abort, SIGABRT, 0, 5);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
