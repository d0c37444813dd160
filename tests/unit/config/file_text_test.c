/* file_text_test.c: what is read of a file, how far, and what is said where it cannot be. */
// SPDX-License-Identifier: Apache-2.0
#include "config/file_text.h"

#include "config/mem.h"
#include "tests/support/suite_run.h"
#include "tests/support/temp_dir.h"

START_TEST(a_file_comes_whole_and_one_byte_says_that_it_is_too_long)
{
    char dir[TEMP_PATH_ROOM], path[TEMP_PATH_ROOM + 8], *bytes;
    struct why why = {0};
    size_t len;
    temp_dir_make(dir);
    temp_dir_write(dir, "a", "seven b", 7);
    snprintf(path, sizeof path, "%s/a", dir);
    for (size_t most = 5; most <= 9; most++) {
        ck_assert_int_eq(file_text_read(path, "the plan", most, &bytes, &len, &why), OK);
        ck_assert_uint_eq(len, most + 1 < 7 ? most + 1 : 7);
        ck_assert_int_eq(memcmp(bytes, "seven b", len), 0);
        mem_free(bytes);
    }
    temp_dir_remove(dir);
}
END_TEST

START_TEST(a_refusal_names_what_and_where)
{
    char *bytes;
    struct why why = {0};
    size_t len;
    ck_assert_int_eq(file_text_read("/nowhere/a", "the plan", 9, &bytes, &len, &why), STATUS_IO);
    ck_assert_str_eq(why.text, "the plan /nowhere/a cannot be opened: No such file or directory");
    ck_assert_int_eq(file_text_read("/", "the plan", 9, &bytes, &len, &why), STATUS_IO);
    ck_assert_str_eq(why.text, "the plan / cannot be read: Is a directory");
    ck_assert_ptr_null(bytes);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("file_text");
    TCase *tc = tcase_create("file_text");
    tcase_add_test(tc, a_file_comes_whole_and_one_byte_says_that_it_is_too_long);
    tcase_add_test(tc, a_refusal_names_what_and_where);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
