/* model_file_test.c: the hash that is taken ahead is the file's, whoever asks first; a file may be closed before it is there. */
// SPDX-License-Identifier: Apache-2.0
#include "server/model_file.h"

#include "config/gguf_hash.h"
#include "config/mem.h"
#include "tests/support/small_model.h"
#include "tests/support/suite_run.h"
#include "tests/support/temp_dir.h"

static char dir[TEMP_PATH_ROOM], path[TEMP_PATH_ROOM + 16];
static uint8_t wanted[SHA256_BYTES];

static void begin(void)
{
    size_t len = 0;
    const struct small_model model = small_model_default();
    char *bytes = small_model_bytes(&model, &len);
    temp_dir_make(dir);
    temp_dir_write(dir, "m.gguf", bytes, len);
    snprintf(path, sizeof path, "%s/m.gguf", dir);
    ck_assert_int_eq(sha256_of(bytes, len, wanted), OK);
    mem_free(bytes);
}

static void end(void)
{
    temp_dir_remove(dir);
}

START_TEST(the_hash_is_the_files)
{
    uint8_t hash[SHA256_BYTES];
    for (int i = 0; i < 50; i++) {
        struct model_file file;
        struct why why = {0};
        ck_assert_msg(model_file_open(path, &file, &why) == OK, "%s", why.text);
        ck_assert_int_eq(gguf_hash_file(file.gguf, hash), OK);
        ck_assert_mem_eq(hash, wanted, sizeof hash);
        model_file_close(&file);
        ck_assert_ptr_null(file.gguf);
    }
}
END_TEST

START_TEST(a_close_ends_it)
{
    struct model_file file;
    for (int i = 0; i < 50; i++) {
        ck_assert_int_eq(model_file_open(path, &file, NULL), OK);
        model_file_close(&file);
    }
}
END_TEST

START_TEST(what_does_not_open_has_no_thread)
{
    struct model_file file;
    struct why why = {0};
    temp_dir_write(dir, "m.gguf", "GGUF", 4);
    ck_assert_int_eq(model_file_open(path, &file, &why), STATUS_BAD_FILE);
    ck_assert_msg(strstr(why.text, path) == why.text, "%s", why.text);
    ck_assert(file.gguf == NULL && !file.has_hasher);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("model_file");
    TCase *tcase = tcase_create("model_file");
    tcase_set_timeout(tcase, 20);
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, the_hash_is_the_files);
    tcase_add_test(tcase, a_close_ends_it);
    tcase_add_test(tcase, what_does_not_open_has_no_thread);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
