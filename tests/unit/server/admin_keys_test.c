/* admin_keys_test.c: keys as they are and hashed, roles, and files that are no files of keys. */
// SPDX-License-Identifier: Apache-2.0
#include "server/admin_keys.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/suite_run.h"

#define PLAIN "a-key-of-16-bytes"
/* SHA-256 of "another-key-of-24-bytes-" */
static char hashed[SHA256_HEX];
static const char hashed_key[] = "another-key-of-24-bytes-";

static void begin(void)
{
    uint8_t hash[SHA256_BYTES];
    ck_assert_int_eq(sha256_of(hashed_key, strlen(hashed_key), hash), OK);
    sha256_hex(hash, hashed);
}

static enum status parse(const char *text, bool is_private, struct admin_keys **keys,
                         struct why *why)
{
    return admin_keys_parse(text, strlen(text), is_private, keys, why);
}

START_TEST(finds_owner_and_role)
{
    struct admin_keys *keys;
    char text[512];
    const char *name;
    enum admin_role role;
    snprintf(text, sizeof text,
             "# who may\n\n" PLAIN " view  ada\r\n\tsha256:%s approve grace@example.org\n", hashed);
    ck_assert_int_eq(parse(text, true, &keys, NULL), OK);
    ck_assert(admin_keys_find(keys, PLAIN, strlen(PLAIN), &name, &role));
    ck_assert_str_eq(name, "ada");
    ck_assert_int_eq(role, ADMIN_ROLE_VIEW);
    ck_assert(admin_keys_find(keys, hashed_key, strlen(hashed_key), &name, &role));
    ck_assert_str_eq(name, "grace@example.org");
    ck_assert_int_eq(role, ADMIN_ROLE_APPROVE);
    ck_assert(!admin_keys_find(keys, PLAIN, strlen(PLAIN) - 1, &name, &role));
    ck_assert(!admin_keys_find(keys, PLAIN "x", strlen(PLAIN) + 1, &name, &role));
    ck_assert(!admin_keys_find(keys, hashed, strlen(hashed), &name, &role));
    ck_assert(!admin_keys_find(keys, "", 0, &name, &role));
    admin_keys_free(&keys);
}
END_TEST

static const struct {
    const char *text, *said;
} cases[] = {
    {"", "no key"},
    {"# only this\n", "no key"},
    {PLAIN, "three words"},
    {PLAIN " view", "three words"},
    {PLAIN " view ada lovelace", "three words"},
    {"short view ada", "16 to 255"},
    {PLAIN "\x01 view ada", "control character"},
    {PLAIN "\x7f view ada", "control character"},
    {PLAIN " root ada", "view, operate or approve"},
    {PLAIN " View ada", "view, operate or approve"},
    {PLAIN " view ad:a", "letters"},
    {PLAIN " view foldkv", "daemon itself"},
    {PLAIN " view "
           "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
     "letters"},
    {"sha256:00 view ada", "64 hex digits"},
    {"sha256:00000000000000000000000000000000000000000000000000000000000000zz view ada",
     "64 hex digits"},
    {"sha256:000000000000000000000000000000000000000000000000000000000000000A view ada",
     "64 hex digits"},
    {"# one\n" PLAIN " view ada\n" PLAIN " approve ada\n", "line 3: this key was there"},
};

START_TEST(refuses_with_the_line)
{
    struct admin_keys *keys;
    struct why why = {0};
    ck_assert_int_eq(parse(cases[_i].text, true, &keys, &why), STATUS_BAD_OPTION);
    ck_assert_msg(strstr(why.text, cases[_i].said) != NULL, "'%s' does not say '%s'", why.text,
                  cases[_i].said);
    ck_assert_str_eq(why.field, "admin.keys");
    ck_assert_msg(strstr(why.text, PLAIN) == NULL, "a refusal shows the key");
    ck_assert_ptr_null(keys);
}
END_TEST

START_TEST(there_are_at_most_256)
{
    static char text[ADMIN_KEYS_MAX * 64 + 64];
    struct admin_keys *keys;
    struct why why = {0};
    size_t n = 0;
    for (int i = 0; i < ADMIN_KEYS_MAX; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "key-number-%08d view n%d\n", i, i);
    ck_assert_int_eq(parse(text, true, &keys, NULL), OK);
    admin_keys_free(&keys);
    snprintf(text + n, sizeof text - n, "key-number-%08d view n\n", ADMIN_KEYS_MAX);
    ck_assert_int_eq(parse(text, true, &keys, &why), STATUS_BAD_OPTION);
    ck_assert_ptr_nonnull(strstr(why.text, "line 257"));
}
END_TEST

static void write_file(const char *path, const char *text, mode_t mode)
{
    int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    ck_assert_int_eq(fchmod(fd, mode), 0);
    close(fd);
}

START_TEST(the_files_rights_count)
{
    char path[] = "/tmp/foldkv-keys-XXXXXX", text[256];
    struct admin_keys *keys;
    struct why why = {0};
    close(mkstemp(path));
    write_file(path, PLAIN " view ada\n", 0600);
    ck_assert_int_eq(admin_keys_read(path, &keys, NULL), OK);
    admin_keys_free(&keys);
    write_file(path, PLAIN " view ada\n", 0644);
    ck_assert_int_eq(admin_keys_read(path, &keys, &why), STATUS_BAD_OPTION);
    ck_assert_ptr_nonnull(strstr(why.text, "others may read it"));
    snprintf(text, sizeof text, "sha256:%s view ada\n", hashed);
    write_file(path, text, 0644);
    ck_assert_int_eq(admin_keys_read(path, &keys, NULL), OK);
    admin_keys_free(&keys);
    write_file(path, text, 0660);
    ck_assert_int_eq(admin_keys_read(path, &keys, &why), STATUS_BAD_OPTION);
    ck_assert_ptr_nonnull(strstr(why.text, "nobody else may write"));
    unlink(path);
    ck_assert_int_eq(admin_keys_read(path, &keys, &why), STATUS_IO);
    ck_assert_int_eq(admin_keys_read("/tmp", &keys, &why), STATUS_BAD_OPTION);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("admin_keys");
    TCase *tcase = tcase_create("admin_keys");
    tcase_set_timeout(tcase, 10);
    tcase_add_checked_fixture(tcase, begin, NULL);
    tcase_add_test(tcase, finds_owner_and_role);
    tcase_add_loop_test(tcase, refuses_with_the_line, 0, (int)ARRAY_LEN(cases));
    tcase_add_test(tcase, there_are_at_most_256);
    tcase_add_test(tcase, the_files_rights_count);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
