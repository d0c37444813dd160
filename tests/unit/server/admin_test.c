/* admin_test.c: the admin listener over Unix and TCP: every route, every role, every refusal; calls that outlive their clients. */
// SPDX-License-Identifier: Apache-2.0
#include "server/admin.h"

#include <stdio.h>
#include <unistd.h>

#include "sched/release/change.h"
#include "tests/support/admin_host.h"
#include "tests/support/daemon.h"
#include "tests/support/suite_run.h"

#define KEY_VIEW "key-of-the-viewer"
#define KEY_OPERATE "key-of-the-operator"
#define KEY_APPROVE "key-of-the-approver"
#define KEYS KEY_VIEW " view vera\n" KEY_OPERATE " operate oscar\n" KEY_APPROVE " approve alice\n"
#define MUTATION "Idempotency-Key: k1\r\nIf-Match: \"7\"\r\n"

static const char *const role_keys[] = {KEY_VIEW, KEY_OPERATE, KEY_APPROVE};
static const char *const role_owners[] = {"vera", "oscar", "alice"};

static void end(void)
{
    admin_host_stop();
}

static void on_unix(void)
{
    admin_host_start(NULL);
}

static void on_tcp(void)
{
    admin_host_start(KEYS);
}

/* The row's path with subject "x". */
static void path_of(const struct admin_route *row, char *ret_path, size_t room)
{
    const char *hole = strstr(row->path, "{id}");
    if (hole == NULL)
        snprintf(ret_path, room, "%s", row->path);
    else
        snprintf(ret_path, room, "%.*sx%s", (int)(hole - row->path), row->path, hole + 4);
}

static struct reply ask_row(const struct admin_route *row, const char *authorization)
{
    char path[256], headers[512];
    bool is_change = row->epoch != ADMIN_EPOCH_NONE;
    path_of(row, path, sizeof path);
    snprintf(headers, sizeof headers, "%s%s", authorization, is_change ? MUTATION : "");
    return admin_host_ask(row->method, path, headers, is_change ? "{\"b\":1, \"a\":[]}" : NULL);
}

static void require_header(const struct reply *r, const char *name, const char *value)
{
    char found[256] = "(absent)";
    bool is_there = reply_header(r, name, found, sizeof found);
    ck_assert_msg(value == NULL ? !is_there : strcmp(found, value) == 0, "%s is %s", name, found);
}

static void require_error(struct reply *r, int status, const char *code)
{
    char text[64];
    snprintf(text, sizeof text, "\"code\":\"%s\"", code);
    ck_assert_msg(r->status == status && r->body != NULL && strstr(r->body, text) != NULL,
                  "%d %s instead of %d %s", r->status, r->body != NULL ? r->body : "", status,
                  code);
    reply_release(r);
}

static uint32_t asked(void)
{
    struct admin_call call;
    char body[8];
    return admin_host_asked(&call, body, sizeof body);
}

static void wait_for(uint32_t (*count)(void), uint32_t wanted)
{
    for (int polls = 0; count() != wanted; polls++) {
        ck_assert_int_lt(polls, daemon_seconds(1000));
        usleep(10000);
    }
}

START_TEST(every_call_gets_through)
{
    for (unsigned op = 0; op < ADMIN_OP_COUNT; op++) {
        const struct admin_route *row = admin_route((enum admin_op)op);
        bool is_change = row->epoch != ADMIN_EPOCH_NONE;
        struct admin_call call;
        char body[256], who[64];
        snprintf(who, sizeof who, "uid:%lu", (unsigned long)getuid());
        admin_host_reply(&(struct admin_reply){.text = "{\"x\":1}\n", .epoch = 8});
        struct reply r = ask_row(row, "");
        ck_assert_msg(r.status == 200, "%s: %d %s", row->key, r.status, r.body);
        ck_assert_str_eq(r.body, "{\"x\":1}\n");
        require_header(&r, "etag", "\"8\"");
        require_header(&r, "cache-control", "no-store");
        require_header(&r, "idempotent-replayed", NULL);
        reply_release(&r);
        ck_assert_uint_eq(admin_host_asked(&call, body, sizeof body), op + 1);
        ck_assert_int_eq(call.op, op);
        ck_assert_str_eq(call.subject, strstr(row->path, "{id}") != NULL ? "x" : "");
        ck_assert_str_eq(call.who, who);
        ck_assert_int_eq(call.role, ADMIN_ROLE_APPROVE);
        ck_assert_str_eq(call.idempotency_key, is_change ? "k1" : "");
        ck_assert_str_eq(body, is_change ? "{\"a\":[],\"b\":1}" : "");
        ck_assert_int_eq(call.epoch_expected, is_change ? 7 : EPOCH_ANY);
        ck_assert(!call.is_dry_run);
    }
}
END_TEST

START_TEST(results_have_their_numbers)
{
    static const int codes[] = {200, 201, 202};
    for (int i = 0; i < 3; i++) {
        admin_host_reply(
            &(struct admin_reply){.text = "{}", .result = (enum admin_result)i, .is_repeat = true});
        struct reply r = admin_host_ask("POST", "/admin/v1/generations", MUTATION, "{}");
        ck_assert_int_eq(r.status, codes[i]);
        require_header(&r, "idempotent-replayed", "true");
        require_header(&r, "content-type", "application/json");
        reply_release(&r);
    }
}
END_TEST

START_TEST(a_dry_run_is_one)
{
    struct admin_call call;
    char body[8];
    struct reply r = admin_host_ask("POST", "/admin/v1/rollback?dry_run=all",
                                    "Idempotency-Key: k\r\nIf-Match: *\r\n", "{}");
    ck_assert_int_eq(r.status, 200);
    reply_release(&r);
    (void)admin_host_asked(&call, body, sizeof body);
    ck_assert(call.is_dry_run);
    ck_assert_int_eq(call.epoch_expected, EPOCH_ANY);
}
END_TEST

START_TEST(the_payload_is_what_was_sent)
{
    static const struct {
        const char *path, *body;
        bool is_same;
    } cases[] = {{"/admin/v1/generations/x:forget", "{}", true},
                 {"/admin/v1/generations/%78:forget", "{}", true},
                 {"/admin/v1/generations/x:forget?dry_run=all", "{}", true},
                 {"/admin/v1/generations/x:forget", "{ }", false},
                 {"/admin/v1/generations/y:forget", "{}", false},
                 {"/admin/v1/generations/x:evaluate", "{}", false}};
    char first[SHA256_HEX] = "", body[8];
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct admin_call call;
        struct reply r = admin_host_ask("POST", cases[i].path, MUTATION, cases[i].body);
        ck_assert_int_eq(r.status, 200);
        reply_release(&r);
        (void)admin_host_asked(&call, body, sizeof body);
        ck_assert_uint_eq(strlen(call.payload_hash), SHA256_HEX - 1);
        if (i == 0)
            snprintf(first, sizeof first, "%s", call.payload_hash);
        ck_assert_msg((strcmp(first, call.payload_hash) == 0) == cases[i].is_same, "%s",
                      cases[i].path);
    }
}
END_TEST

/* ---- refusals ---- */

static const struct {
    const char *method, *path, *headers, *body;
    int status;
    const char *code;
} refusals[] = {
    {"GET", "/admin/v1/nothing", "", NULL, 404, "not_found"},
    {"GET", "/v1/models", "", NULL, 404, "not_found"},
    {"POST", "/v1/completions", "", "{\"prompt\":\"x\"}", 404, "not_found"},
    {"GET", "/metrics", "", NULL, 404, "not_found"},
    {"GET", "/livez", "", NULL, 404, "not_found"},
    {"DELETE", "/admin/v1/generations", "", NULL, 405, "method_not_allowed"},
    {"POST", "/admin/v1/generations", "If-Match: \"1\"\r\n", "{}", 400, "invalid_request"},
    {"POST", "/admin/v1/generations", "Idempotency-Key: k\r\n", "{}", 428, "precondition_required"},
    {"POST", "/admin/v1/generations", "Idempotency-Key: k\r\nIf-Match: *\r\n", "{}", 400,
     "invalid_request"},
    {"POST", "/admin/v1/generations", MUTATION "Idempotency-Key: k2\r\n", "{}", 400,
     "invalid_request"},
    {"POST", "/admin/v1/generations", MUTATION, "[]", 400, "invalid_request"},
    {"POST", "/admin/v1/generations", MUTATION, "{\"a\":1,\"a\":2}", 400, "invalid_request"},
    {"POST", "/admin/v1/generations", MUTATION, "{\"a\":1} x", 400, "invalid_request"},
    {"POST", "/admin/v1/generations", MUTATION, "{\"a\":\"\\u0000\"}", 400, "invalid_request"},
    {"POST", "/admin/v1/generations", MUTATION, "{\"a\":", 400, "invalid_request"},
    {"POST", "/admin/v1/generations?dry_run=1", MUTATION, "{}", 400, "invalid_request"},
    {"GET", "/admin/v1/generations?dry_run=all", "", NULL, 400, "invalid_request"},
    {"GET", "/admin/v1/generations/%00", "", NULL, 400, "invalid_request"},
    {"GET", "/admin/v1/audit?limit=0", "", NULL, 400, "invalid_request"},
    {"GET", "/admin/v1/audit", "", "{}", 400, "invalid_request"},
};

START_TEST(is_refused_before_it_is_asked)
{
    struct reply r = admin_host_ask(refusals[_i].method, refusals[_i].path, refusals[_i].headers,
                                    refusals[_i].body);
    if (refusals[_i].status == 405)
        require_header(&r, "allow", "POST, GET, HEAD");
    require_error(&r, refusals[_i].status, refusals[_i].code);
    ck_assert_uint_eq(asked(), 0);
}
END_TEST

START_TEST(bodies_have_a_type_and_a_limit)
{
    struct reply r =
        admin_host_ask("POST", "/admin/v1/rollback",
                       MUTATION "Content-Type: text/plain\r\nContent-Length: 2\r\n", NULL);
    require_error(&r, 415, "unsupported_media_type");
    char headers[256];
    snprintf(headers, sizeof headers,
             MUTATION "Content-Type: application/json\r\nContent-Length: %d\r\n",
             ADMIN_BODY_BYTES_MAX + 1);
    r = admin_host_ask("POST", "/admin/v1/rollback", headers, NULL);
    require_error(&r, 413, "payload_too_large");
    ck_assert_uint_eq(asked(), 0);
    r = admin_host_ask("POST", "/admin/v1/rollback", MUTATION, NULL); /* none at all is fine */
    ck_assert_int_eq(r.status, 200);
    reply_release(&r);
}
END_TEST

START_TEST(what_the_side_says_is_told)
{
    admin_host_reply(&(struct admin_reply){.status = STATUS_RECEIPTS_DISAGREE,
                                           .why = "checkpoint says \"a\", cache says \"b\"",
                                           .text = "{\"cache\":\"b\",\"checkpoint\":\"a\"}",
                                           .epoch = 9});
    struct reply r = admin_host_ask("POST", "/admin/v1/generations", MUTATION, "{}");
    ck_assert_ptr_nonnull(strstr(r.body, "\"detail\":{\"cache\":\"b\",\"checkpoint\":\"a\"}}}"));
    ck_assert_ptr_nonnull(strstr(r.body, "checkpoint says \\\"a\\\""));
    require_header(&r, "etag", "\"9\"");
    require_error(&r, 409, "receipts_disagree");
    admin_host_reply(
        &(struct admin_reply){.status = STATUS_READ_ONLY, .why = "the disk is full", .epoch = 9});
    r = admin_host_ask("POST", "/admin/v1/generations", MUTATION, "{}");
    require_header(&r, "retry-after", "1");
    require_error(&r, 503, "registry_read_only");
    admin_host_reply(
        &(struct admin_reply){.status = STATUS_EPOCH_MISMATCH, .why = "it is 9", .epoch = 9});
    r = admin_host_ask("POST", "/admin/v1/generations", MUTATION, "{}");
    require_header(&r, "etag", "\"9\"");
    require_error(&r, 412, "epoch_mismatch");
    admin_host_refuse(STATUS_QUEUE_FULL);
    r = admin_host_ask("POST", "/admin/v1/generations", MUTATION, "{}");
    require_error(&r, 429, "queue_full");
}
END_TEST

START_TEST(the_audit_is_lines_with_a_next_page)
{
    admin_host_reply(&(struct admin_reply){.text = "{\"seq\":5}\n{\"seq\":6}\n", .epoch = 3});
    struct reply r = admin_host_ask("GET", "/admin/v1/audit?after=4&limit=2", "", NULL);
    ck_assert_int_eq(r.status, 200);
    ck_assert_str_eq(r.body, "{\"seq\":5}\n{\"seq\":6}\n");
    require_header(&r, "content-type", "application/jsonl");
    require_header(&r, "link", "</admin/v1/audit?after=6&limit=2>; rel=\"next\"");
    reply_release(&r);
    r = admin_host_ask("GET", "/admin/v1/audit?after=4&limit=3", "", NULL);
    require_header(&r, "link", NULL);
    reply_release(&r);
    r = admin_host_ask("HEAD", "/admin/v1/audit?after=4&limit=3", "", NULL);
    ck_assert_int_eq(r.status, 200);
    require_header(&r, "etag", "\"3\"");
    require_header(&r, "content-length", "20");
    ck_assert_uint_eq(r.body_len, 0);
    reply_release(&r);
}
END_TEST

/* ---- keys ---- */

START_TEST(nobody_is_served)
{
    static const char *const strangers[] = {
        "",
        "Authorization: Bearer \r\n",
        "Authorization: Bearer key-of-the-viewe\r\n",
        "Authorization: Bearer key-of-the-viewer1\r\n",
        "Authorization: Basic key-of-the-viewer\r\n",
        "Authorization: key-of-the-viewer\r\n",
        "X-Api-Key: key-of-the-viewer\r\n",
    };
    for (unsigned op = 0; op < ADMIN_OP_COUNT; op++) {
        struct reply r =
            ask_row(admin_route((enum admin_op)op), strangers[op % ARRAY_LEN(strangers)]);
        require_header(&r, "www-authenticate", "Bearer");
        require_error(&r, 401, "invalid_api_key");
    }
    struct reply r = admin_host_ask("GET", "/anything", "", NULL);
    require_error(&r, 401, "invalid_api_key");
    ck_assert_uint_eq(asked(), 0);
}
END_TEST

START_TEST(roles_allow_what_the_table_says)
{
    for (unsigned op = 0; op < ADMIN_OP_COUNT; op++) {
        for (unsigned role = 0; role < ADMIN_ROLE_COUNT; role++) {
            const struct admin_route *row = admin_route((enum admin_op)op);
            char authorization[128], body[8];
            struct admin_call call;
            uint32_t before = asked();
            snprintf(authorization, sizeof authorization, "Authorization: bearer %s\r\n",
                     role_keys[role]);
            struct reply r = ask_row(row, authorization);
            if (role < (unsigned)row->role) {
                ck_assert_ptr_nonnull(strstr(r.body, admin_role_name(row->role)));
                require_error(&r, 403, "forbidden");
                ck_assert_uint_eq(asked(), before);
                continue;
            }
            ck_assert_msg(r.status == 200, "%s as %s: %d", row->key, role_owners[role], r.status);
            reply_release(&r);
            ck_assert_uint_eq(admin_host_asked(&call, body, sizeof body), before + 1);
            ck_assert_str_eq(call.who, role_owners[role]);
            ck_assert_int_eq(call.role, role);
        }
    }
}
END_TEST

START_TEST(keys_follow_their_file)
{
    char authorization[] = "Authorization: Bearer " KEY_VIEW "\r\n";
    const struct admin_route *row = admin_route(ADMIN_GENERATION_LIST);
    struct reply r = ask_row(row, authorization);
    ck_assert_int_eq(r.status, 200);
    reply_release(&r);
    admin_host_set_keys("nonsense\n"); /* the old ones hold */
    r = ask_row(row, authorization);
    ck_assert_int_eq(r.status, 200);
    reply_release(&r);
    admin_host_set_keys(KEY_APPROVE " approve alice\n");
    r = ask_row(row, authorization);
    require_error(&r, 401, "invalid_api_key");
    r = ask_row(row, "Authorization: Bearer " KEY_APPROVE "\r\n");
    ck_assert_int_eq(r.status, 200);
    reply_release(&r);
}
END_TEST

/* ---- calls that take time ---- */

static struct peer *begin_publish(const char *key)
{
    char text[256];
    struct peer *p = admin_host_connect();
    snprintf(text, sizeof text,
             "POST /admin/v1/generations HTTP/1.1\r\nHost: a\r\nIdempotency-Key: %s\r\n"
             "If-Match: \"7\"\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
             key);
    ck_assert(peer_say(p, text));
    return p;
}

START_TEST(a_key_in_flight_is_refused)
{
    admin_host_hold(true);
    struct peer *first = begin_publish("k1");
    wait_for(admin_host_waiting, 1);
    struct reply r = admin_host_ask("POST", "/admin/v1/generations", MUTATION, "{}");
    require_header(&r, "retry-after", "1");
    require_error(&r, 409, "key_in_flight");
    r = admin_host_ask("POST", "/admin/v1/generations", MUTATION, "{\"path\":\"x\"}");
    require_error(&r, 422, "key_reused");
    struct peer *second = begin_publish("k2");
    wait_for(admin_host_waiting, 2);
    r = admin_host_ask("GET", "/admin/v1/nothing", "", NULL); /* others are served meanwhile */
    require_error(&r, 404, "not_found");
    admin_host_hold(false);
    r = peer_reply(first, 20, false);
    ck_assert_int_eq(r.status, 200);
    reply_release(&r);
    r = peer_reply(second, 20, false);
    ck_assert_int_eq(r.status, 200);
    reply_release(&r);
    ck_assert_uint_eq(asked(), 2);
    r = admin_host_ask("POST", "/admin/v1/generations", MUTATION, "{}"); /* the side's to answer */
    ck_assert_int_eq(r.status, 200);
    reply_release(&r);
    ck_assert_uint_eq(asked(), 3);
    peer_free(&first);
    peer_free(&second);
}
END_TEST

START_TEST(a_call_outlives_its_client)
{
    admin_host_hold(true);
    struct peer *leaving = begin_publish("k1"), *resetting = begin_publish("k2");
    wait_for(admin_host_waiting, 2);
    wait_for(admin_host_connections, 2);
    peer_free(&leaving);
    peer_reset(&resetting);
    wait_for(admin_host_connections, 0);
    struct reply r = admin_host_ask("POST", "/admin/v1/generations", MUTATION, "{}");
    require_error(&r, 409, "key_in_flight");
    admin_host_hold(false);
    wait_for(admin_host_waiting, 0);
    r = admin_host_ask("POST", "/admin/v1/generations", MUTATION, "{}");
    ck_assert_int_eq(r.status, 200);
    reply_release(&r);
}
END_TEST

START_TEST(shutting_down_is_told)
{
    admin_host_hold(true);
    struct peer *p = begin_publish("k1");
    wait_for(admin_host_waiting, 1);
    admin_host_cancel();
    struct reply r = peer_reply(p, 20, false);
    require_error(&r, 503, "draining");
    peer_free(&p);
}
END_TEST

START_TEST(connections_have_a_limit)
{
    struct peer *peers[ADMIN_CONNECTIONS_MAX];
    for (size_t i = 0; i < ARRAY_LEN(peers); i++)
        peers[i] = admin_host_connect();
    wait_for(admin_host_connections, ADMIN_CONNECTIONS_MAX);
    struct reply r = admin_host_ask("GET", "/admin/v1/generations", "", NULL);
    require_error(&r, 503, "unavailable");
    for (size_t i = 0; i < ARRAY_LEN(peers); i++)
        peer_free(&peers[i]);
    wait_for(admin_host_connections, 0);
    r = admin_host_ask("GET", "/admin/v1/generations", "", NULL);
    ck_assert_int_eq(r.status, 200);
    reply_release(&r);
}
END_TEST

START_TEST(one_connection_serves_many)
{
    struct peer *p = admin_host_connect();
    for (int i = 0; i < 50; i++) {
        ck_assert(peer_say(p, "GET /admin/v1/rollouts HTTP/1.1\r\nHost: a\r\n\r\n"));
        struct reply r = peer_reply(p, 20, false);
        ck_assert_int_eq(r.status, 200);
        reply_release(&r);
    }
    ck_assert_uint_eq(asked(), 50);
    peer_free(&p);
}
END_TEST

/* ---- where it listens ---- */

static const struct {
    const char *listen, *keys, *state, *address; /* address NULL: refused */
} places[] = {
    {"", "", NULL, ""},
    {"", "", "/var/lib/foldkv", "unix:/var/lib/foldkv/admin.sock"},
    {"unix:/run/a.sock", "", "/var/lib/foldkv", "unix:/run/a.sock"},
    {"unix:/run/a.sock", "", NULL, "unix:/run/a.sock"},
    {"127.0.0.1:9", "keys", NULL, "127.0.0.1:9"},
    {"127.0.0.1:9", "", NULL, NULL},
    {"", "keys", NULL, NULL},
    {"", "keys", "/var/lib/foldkv", NULL},
    {"unix:/run/a.sock", "keys", NULL, NULL},
    {"nonsense", "keys", NULL, NULL},
    {"", "",
     "/a-folder-whose-name-is-so-long-that-no-socket-in-it-can-have-a-path-that-the-system-takes-/"
     "since-it-takes-107",
     NULL},
};

START_TEST(listens_where_it_is_locked)
{
    static struct service service;
    char address[ADMIN_ADDRESS_ROOM];
    struct why why = {0};
    snprintf(service.options.admin_listen, sizeof service.options.admin_listen, "%s",
             places[_i].listen);
    snprintf(service.options.admin_keys, sizeof service.options.admin_keys, "%s", places[_i].keys);
    enum status s = admin_address(&service, places[_i].state, address, &why);
    ck_assert_int_eq(s, places[_i].address != NULL ? OK : STATUS_BAD_OPTION);
    if (s == OK)
        ck_assert_str_eq(address, places[_i].address);
    else
        ck_assert_ptr_nonnull(strstr(why.field, "admin."));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("admin");
    TCase *local = tcase_create("unix"), *remote = tcase_create("tcp"),
          *pure = tcase_create("places");
    tcase_set_timeout(local, daemon_seconds(30));
    tcase_set_timeout(remote, daemon_seconds(30));
    tcase_add_checked_fixture(local, on_unix, end);
    tcase_add_checked_fixture(remote, on_tcp, end);
    tcase_add_test(local, every_call_gets_through);
    tcase_add_test(local, results_have_their_numbers);
    tcase_add_test(local, a_dry_run_is_one);
    tcase_add_test(local, the_payload_is_what_was_sent);
    tcase_add_loop_test(local, is_refused_before_it_is_asked, 0, (int)ARRAY_LEN(refusals));
    tcase_add_test(local, bodies_have_a_type_and_a_limit);
    tcase_add_test(local, what_the_side_says_is_told);
    tcase_add_test(local, the_audit_is_lines_with_a_next_page);
    tcase_add_test(local, a_key_in_flight_is_refused);
    tcase_add_test(local, a_call_outlives_its_client);
    tcase_add_test(local, shutting_down_is_told);
    tcase_add_test(local, connections_have_a_limit);
    tcase_add_test(local, one_connection_serves_many);
    tcase_add_test(remote, nobody_is_served);
    tcase_add_test(remote, roles_allow_what_the_table_says);
    tcase_add_test(remote, keys_follow_their_file);
    tcase_add_loop_test(pure, listens_where_it_is_locked, 0, (int)ARRAY_LEN(places));
    suite_add_tcase(suite, local);
    suite_add_tcase(suite, remote);
    suite_add_tcase(suite, pure);
    return suite_run(suite);
}
