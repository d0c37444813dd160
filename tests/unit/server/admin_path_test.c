/* admin_path_test.c: every row of the table is found by its path and by no other row's; what is no path is nobody's. */
// SPDX-License-Identifier: Apache-2.0
#include "server/admin_path.h"

#include "tests/support/suite_run.h"

enum { PATH_ROOM = 512 };

/* The pattern with subject in place of {id}. */
static void fill(const char *pattern, const char *subject, char ret_path[PATH_ROOM])
{
    const char *hole = strstr(pattern, "{id}");
    int before = hole != NULL ? (int)(hole - pattern) : (int)strlen(pattern);
    snprintf(ret_path, PATH_ROOM, "%.*s%s%s", before, pattern, hole != NULL ? subject : "",
             hole != NULL ? hole + 4 : "");
}

START_TEST(every_row_is_found)
{
    const struct admin_route *row = admin_route((enum admin_op)_i);
    char path[PATH_ROOM], subject[ADMIN_SUBJECT_ROOM];
    bool has_hole = strstr(row->path, "{id}") != NULL;
    enum admin_op op = ADMIN_OP_COUNT;
    fill(row->path, "an-id.7", path);
    ck_assert_int_eq(admin_path_find(row->method, path, &op, subject, NULL), OK);
    ck_assert_int_eq((int)op, _i);
    ck_assert_str_eq(subject, has_hole ? "an-id.7" : "");
    ck_assert_int_eq(admin_path_find("DELETE", path, &op, subject, NULL),
                     STATUS_METHOD_NOT_ALLOWED);
    if (strcmp(row->method, "GET") == 0)
        ck_assert_int_eq(admin_path_find("HEAD", path, &op, subject, NULL), OK);
    else
        ck_assert_int_eq(admin_path_find("HEAD", path, &op, subject, NULL) == OK,
                         admin_path_find("GET", path, &op, subject, NULL) == OK);
}
END_TEST

/* No two rows take the same request. */
START_TEST(rows_do_not_overlap)
{
    for (unsigned a = 0; a < ADMIN_OP_COUNT; a++) {
        for (unsigned b = 0; b < a; b++) {
            const struct admin_route *one = admin_route((enum admin_op)a),
                                     *other = admin_route((enum admin_op)b);
            ck_assert_msg(strcmp(one->path, other->path) != 0 ||
                              strcmp(one->method, other->method) != 0,
                          "%s and %s", one->key, other->key);
        }
    }
}
END_TEST

static const struct {
    const char *path, *subject; /* of GET; subject NULL: BAD_REQUEST, "404": NOT_FOUND */
} cases[] = {
    {"/admin/v1/generations/a%20b", "a b"},
    {"/admin/v1/generations/a%3Ab%2Fc", "a:b/c"},
    {"/admin/v1/generations/%c3%a9", "\xc3\xa9"},
    {"/admin/v1/generations/..", ".."},
    {"/admin/v1/generations/%41", "A"},
    {"/admin/v1/generations/%", NULL},
    {"/admin/v1/generations/%4", NULL},
    {"/admin/v1/generations/%zz", NULL},
    {"/admin/v1/generations/%00", NULL},
    {"/admin/v1/generations/%0a", NULL},
    {"/admin/v1/generations/%ff", NULL},
    {"/admin/v1/generations/", "404"},
    {"/admin/v1/generations/a/", "404"},
    {"/admin/v1/generations/a/evaluation/", "404"},
    {"/admin/v1/generations//evaluation", "404"},
    {"/admin/v1/generations/a:", "404"},
    {"/admin/v1/generations/a:b", "404"},
    {"/admin/v1/Generations", "404"},
    {"/admin/v1", "404"},
    {"/admin/v1/", "404"},
    {"/admin/v2/generations", "404"},
    {"//admin/v1/generations", "404"},
    {"/v1/completions", "404"},
    {"/livez", "404"},
    {"*", "404"},
    {"", "404"},
};

START_TEST(subjects_are_decoded)
{
    enum admin_op op = ADMIN_OP_COUNT;
    char subject[ADMIN_SUBJECT_ROOM];
    struct why why = {0};
    enum status s = admin_path_find("GET", cases[_i].path, &op, subject, &why);
    if (cases[_i].subject == NULL) {
        ck_assert_int_eq(s, STATUS_BAD_REQUEST);
        ck_assert_str_eq(why.field, "id");
    } else if (strcmp(cases[_i].subject, "404") == 0) {
        ck_assert_int_eq(s, STATUS_NOT_FOUND);
    } else {
        ck_assert_int_eq(s, OK);
        ck_assert_int_eq(op, ADMIN_GENERATION_READ);
        ck_assert_str_eq(subject, cases[_i].subject);
    }
}
END_TEST

START_TEST(a_subject_has_a_limit)
{
    static const char before[] = "/admin/v1/generations/";
    char path[PATH_ROOM], subject[ADMIN_SUBJECT_ROOM];
    enum admin_op op;
    for (size_t n = ADMIN_SUBJECT_ROOM - 1; n <= ADMIN_SUBJECT_ROOM; n++) {
        memset(path, 'x', sizeof path);
        memcpy(path, before, strlen(before));
        path[strlen(before) + n] = '\0';
        ck_assert_int_eq(admin_path_find("GET", path, &op, subject, NULL),
                         n < ADMIN_SUBJECT_ROOM ? OK : STATUS_BAD_REQUEST);
    }
}
END_TEST

START_TEST(tells_the_methods)
{
    char text[ADMIN_PATH_ALLOWED];
    admin_path_allowed("/admin/v1/generations", text);
    ck_assert_str_eq(text, "POST, GET, HEAD");
    admin_path_allowed("/admin/v1/freeze", text);
    ck_assert_str_eq(text, "PUT");
    admin_path_allowed("/admin/v1/generations/x", text);
    ck_assert_str_eq(text, "GET, HEAD");
    admin_path_allowed("/nowhere", text);
    ck_assert_str_eq(text, "");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("admin_path");
    TCase *tcase = tcase_create("admin_path");
    tcase_set_timeout(tcase, 10);
    tcase_add_loop_test(tcase, every_row_is_found, 0, ADMIN_OP_COUNT);
    tcase_add_test(tcase, rows_do_not_overlap);
    tcase_add_loop_test(tcase, subjects_are_decoded, 0, (int)ARRAY_LEN(cases));
    tcase_add_test(tcase, a_subject_has_a_limit);
    tcase_add_test(tcase, tells_the_methods);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
