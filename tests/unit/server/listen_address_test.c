/* listen_address_test.c: addresses in and out; what is no address is refused with the value in the text. */
// SPDX-License-Identifier: Apache-2.0
#include "server/listen_address.h"

#include "tests/support/suite_run.h"

static const struct {
    const char *text, *printed; /* NULL: refused */
} cases[] = {
    {"127.0.0.1:8080", "127.0.0.1:8080"},
    {"0.0.0.0:0", "0.0.0.0:0"},
    {"localhost:1", "127.0.0.1:1"},
    {"[::1]:65535", "[::1]:65535"},
    {"[::]:80", "[::]:80"},
    {"unix:/run/foldkv/admin.sock", "unix:/run/foldkv/admin.sock"},
    {"unix:a b:c", "unix:a b:c"},
    {"unix:", NULL},
    {"8080", NULL},
    {":8080", NULL},
    {"127.0.0.1", NULL},
    {"127.0.0.1:", NULL},
    {"127.0.0.1:65536", NULL},
    {"127.0.0.1:-1", NULL},
    {"127.0.0.1:+1", NULL},
    {"127.0.0.1:0x10", NULL},
    {"127.0.0.1:123456", NULL},
    {"127.0.0:80", NULL},
    {"example.org:80", NULL},
    {"::1:80", NULL},
    {"[::1:80", NULL},
    {"[::1]80", NULL},
    {"[127.0.0.1]:80", NULL},
    {"[]:80", NULL},
    {"", NULL},
};

START_TEST(parses_and_prints)
{
    struct sockaddr_storage address;
    struct why why = {0};
    char text[LISTEN_ADDRESS_TEXT];
    enum status s = listen_address_parse("server.listen", cases[_i].text, &address, &why);
    if (cases[_i].printed == NULL) {
        ck_assert_msg(s == STATUS_BAD_OPTION, "'%s' was taken", cases[_i].text);
        ck_assert_ptr_nonnull(strstr(why.text, cases[_i].text));
        ck_assert_str_eq(why.field, "server.listen");
        return;
    }
    ck_assert_int_eq(s, OK);
    listen_address_print(&address, text);
    ck_assert_str_eq(text, cases[_i].printed);
}
END_TEST

START_TEST(a_long_host_is_refused)
{
    char text[300];
    struct sockaddr_storage address;
    memset(text, '1', sizeof text);
    memcpy(text + sizeof text - 4, ":80", 4);
    ck_assert_int_eq(listen_address_parse("server.listen", text, &address, NULL),
                     STATUS_BAD_OPTION);
}
END_TEST

START_TEST(a_path_has_a_limit)
{
    char text[300];
    struct sockaddr_storage address;
    struct why why = {0};
    memset(text, 'p', sizeof text);
    memcpy(text, "unix:", 5);
    text[5 + 107] = '\0';
    ck_assert_int_eq(listen_address_parse("admin.listen", text, &address, NULL), OK);
    text[5 + 107] = 'p';
    text[5 + 108] = '\0';
    ck_assert_int_eq(listen_address_parse("admin.listen", text, &address, &why), STATUS_BAD_OPTION);
    ck_assert_str_eq(why.field, "admin.listen");
}
END_TEST

START_TEST(knows_what_is_local)
{
    static const struct {
        const char *text;
        bool is_local;
    } places[] = {{"127.0.0.1:1", true}, {"127.9.9.9:1", true}, {"[::1]:1", true},
                  {"unix:a", true},      {"0.0.0.0:1", false},  {"[::]:1", false},
                  {"10.0.0.1:1", false}};
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        struct sockaddr_storage address;
        ck_assert_int_eq(listen_address_parse("server.listen", places[i].text, &address, NULL), OK);
        ck_assert_msg(listen_address_is_local(&address) == places[i].is_local, "%s",
                      places[i].text);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("listen_address");
    TCase *tcase = tcase_create("listen_address");
    tcase_set_timeout(tcase, 10);
    tcase_add_loop_test(tcase, parses_and_prints, 0, (int)ARRAY_LEN(cases));
    tcase_add_test(tcase, a_long_host_is_refused);
    tcase_add_test(tcase, a_path_has_a_limit);
    tcase_add_test(tcase, knows_what_is_local);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
