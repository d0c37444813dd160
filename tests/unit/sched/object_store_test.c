/* object_store_test.c: bytes under their hash, pieces, and what failures leave. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/object_store.h"

#include <sys/resource.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/mem.h"
#include "tests/support/suite_run.h"
#include "tests/support/temp_dir.h"

enum { BIG = (8 << 20) + 12345 }; /* two pieces */

static char dir[TEMP_PATH_ROOM], objects[TEMP_PATH_ROOM + 16], source[TEMP_PATH_ROOM + 16];
static struct why why;

static void begin(void)
{
    temp_dir_make(dir);
    ck_assert_int_eq(object_store_open(dir, &why), OK);
    snprintf(objects, sizeof objects, "%s/objects", dir);
    snprintf(source, sizeof source, "%s/source", dir);
    char *bytes = mem_zalloc(1, BIG);
    ck_assert_ptr_nonnull(bytes);
    for (size_t i = 0; i < BIG; i += 97)
        bytes[i] = (char)(i / 97);
    temp_dir_write(dir, "source", bytes, BIG);
    mem_free(bytes);
}

static void end(void)
{
    temp_dir_remove(dir);
}

static enum status copy(char ret_hash[SHA256_HEX], int *ret_n_steps)
{
    struct object_copy *c;
    bool is_done = false;
    *ret_n_steps = 0;
    enum status s = object_copy_begin(dir, source, &c, &why);
    while (s == OK && !is_done) {
        ++*ret_n_steps;
        s = object_copy_step(c, &is_done, ret_hash, &why);
    }
    object_copy_free(&c);
    return s;
}

START_TEST(a_file_gets_its_hash_as_its_name)
{
    char expected[SHA256_HEX], hash[SHA256_HEX], kept[SHA256_HEX], path[OBJECT_PATH_ROOM];
    struct stat about;
    int n_steps;
    temp_dir_hash(dir, "source", expected);
    ck_assert(!object_store_has(dir, expected));
    ck_assert_int_eq(copy(hash, &n_steps), OK);
    ck_assert_str_eq(hash, expected);
    ck_assert_int_ge(n_steps, 2);
    ck_assert(object_store_has(dir, expected));
    temp_dir_hash(objects, hash, kept);
    ck_assert_str_eq(kept, expected);
    object_store_path(dir, hash, path);
    ck_assert_int_eq(stat(path, &about), 0);
    ck_assert_int_eq(about.st_mode & 0777, 0400);
    ck_assert_int_eq(copy(hash, &n_steps), OK); /* again */
    ck_assert_int_eq(temp_dir_count(objects), 1);
}
END_TEST

START_TEST(unfinished_copies_go)
{
    struct object_copy *c;
    bool is_done;
    char hash[SHA256_HEX];
    ck_assert_int_eq(object_copy_begin(dir, source, &c, &why), OK);
    ck_assert_int_eq(object_copy_step(c, &is_done, hash, &why), OK);
    ck_assert(!is_done);
    ck_assert_int_eq(temp_dir_count(objects), 1);
    object_copy_free(&c);
    ck_assert_int_eq(temp_dir_count(objects), 0);
    temp_dir_write(objects, ".partial-77-1", "x", 1); /* what a crash leaves */
    temp_dir_write(objects, "kept", "x", 1);
    ck_assert_int_eq(object_store_open(dir, &why), OK);
    ck_assert_int_eq(temp_dir_count(objects), 1);
}
END_TEST

START_TEST(failures_are_named_and_leave_nothing)
{
    char hash[SHA256_HEX];
    int n_steps;
    char whole[sizeof source];
    memcpy(whole, source, sizeof source);
    snprintf(source, sizeof source, "%s/none", dir);
    ck_assert_int_eq(copy(hash, &n_steps), STATUS_NOT_FOUND);
    snprintf(source, sizeof source, "%s", dir);
    ck_assert_int_eq(copy(hash, &n_steps), STATUS_BAD_REQUEST); /* a folder */
    memcpy(source, whole, sizeof source);
    /* The file system takes no more. */
    const struct rlimit small = {1 << 20, 1 << 20};
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    ck_assert_int_eq(copy(hash, &n_steps), STATUS_IO);
    ck_assert_ptr_nonnull(strstr(why.text, "cannot write a copy of"));
    ck_assert_int_eq(temp_dir_count(objects), 0);
}
END_TEST

START_TEST(memory_that_runs_out_leaves_nothing)
{
    char hash[SHA256_HEX];
    int n_steps, n_struck = 0;
    for (uint64_t n = 1; n < 20; n++) {
        mem_fail_nth(n);
        enum status s = copy(hash, &n_steps);
        bool struck = mem_failure_struck();
        mem_fail_nth(0);
        ck_assert_int_eq(s, struck ? STATUS_NO_MEMORY : OK);
        n_struck += struck;
        if (!struck)
            break;
        ck_assert_int_eq(temp_dir_count(objects), 0);
    }
    ck_assert_int_ge(n_struck, 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("object_store");
    TCase *tcase = tcase_create("object_store");
    tcase_set_timeout(tcase, 30);
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, a_file_gets_its_hash_as_its_name);
    tcase_add_test(tcase, unfinished_copies_go);
    tcase_add_test(tcase, failures_are_named_and_leave_nothing);
    tcase_add_test(tcase, memory_that_runs_out_leaves_nothing);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
