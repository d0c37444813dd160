/* router_test.c: paths and methods to routes; names in paths decoded; states of a connection. */
// SPDX-License-Identifier: Apache-2.0
#include "server/router.h"

#include "server/models_route.h"
#include "tests/support/suite_run.h"

static enum status find(const char *method, const char *path, const struct route **ret_route)
{
    struct http_head head = {.method = method};
    snprintf(head.target, sizeof head.target, "%s", path);
    head.path = head.target;
    return router_find(&head, ret_route);
}

static const struct {
    const char *method, *path;
    enum status status;
    const char *route;
} cases[] = {
    {"POST", "/v1/completions", OK, "/v1/completions"},
    {"GET", "/v1/completions", STATUS_METHOD_NOT_ALLOWED, "/v1/completions"},
    {"POST", "/v1/completions/", STATUS_NOT_FOUND, NULL},
    {"POST", "/v1/Completions", STATUS_NOT_FOUND, NULL},
    {"GET", "/v1/models", OK, "/v1/models"},
    {"HEAD", "/v1/models", OK, "/v1/models"},
    {"GET", "/v1/models/", STATUS_NOT_FOUND, NULL},
    {"GET", "/v1/models/a/b", OK, "/v1/models/"},
    {"POST", "/tokenize", OK, "/tokenize"},
    {"POST", "/detokenize", OK, "/detokenize"},
    {"GET", "/livez", OK, "/livez"},
    {"GET", "/readyz", OK, "/readyz"},
    {"GET", "/startupz", OK, "/startupz"},
    {"GET", "/health", OK, "/health"},
    {"DELETE", "/health", STATUS_METHOD_NOT_ALLOWED, "/health"},
    {"GET", "/metrics", OK, "/metrics"},
    {"GET", "/", STATUS_NOT_FOUND, NULL},
    {"GET", "", STATUS_NOT_FOUND, NULL},
    {"OPTIONS", "*", STATUS_NOT_FOUND, NULL},
};

START_TEST(finds_the_route)
{
    const struct route *route;
    ck_assert_int_eq(find(cases[_i].method, cases[_i].path, &route), cases[_i].status);
    if (cases[_i].route == NULL)
        ck_assert_ptr_null(route);
    else
        ck_assert_str_eq(route->path, cases[_i].route);
}
END_TEST

START_TEST(a_long_target_matches_nothing)
{
    struct http_head head = {.method = "GET", .is_target_long = true};
    const struct route *route;
    head.path = head.target;
    ck_assert_int_eq(router_find(&head, &route), STATUS_NOT_FOUND);
}
END_TEST

START_TEST(decodes_names_in_paths)
{
    char good[] = "a%20b%2Fc%c3%A9", plain[] = "a", cut[] = "a%2", bad[] = "%zz", nul[] = "%00";
    ck_assert(models_decode_path(good));
    ck_assert_str_eq(good, "a b/c\xc3\xa9");
    ck_assert(models_decode_path(plain));
    ck_assert(!models_decode_path(cut));
    ck_assert(!models_decode_path(bad));
    ck_assert(!models_decode_path(nul));
}
END_TEST

/* The moves of connection.def, told a second time. */
START_TEST(states_move_as_drawn)
{
    static const char *const moves[CONNECTION_STATE_COUNT] = {
        [CONNECTION_IDLE] = "head answering lingering closed",
        [CONNECTION_HEAD] = "body working answering closed",
        [CONNECTION_BODY] = "working answering closed",
        [CONNECTION_WORKING] = "answering closed",
        [CONNECTION_ANSWERING] = "idle lingering closed",
        [CONNECTION_LINGERING] = "closed",
        [CONNECTION_CLOSED] = "",
    };
    for (int from = 0; from < CONNECTION_STATE_COUNT; from++) {
        for (int to = 0; to < CONNECTION_STATE_COUNT; to++) {
            const char *name = connection_state_name((enum connection_state)to);
            bool may = connection_state_may((enum connection_state)from, (enum connection_state)to);
            ck_assert_msg(may == (strstr(moves[from], name) != NULL), "%d to %s", from, name);
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("router");
    TCase *tcase = tcase_create("router");
    tcase_set_timeout(tcase, 10);
    tcase_add_loop_test(tcase, finds_the_route, 0, (int)ARRAY_LEN(cases));
    tcase_add_test(tcase, a_long_target_matches_nothing);
    tcase_add_test(tcase, decodes_names_in_paths);
    tcase_add_test(tcase, states_move_as_drawn);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
