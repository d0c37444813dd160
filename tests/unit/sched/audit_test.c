/* audit_test.c: an honest audit verifies; one that was altered anywhere does not, even with its chain made anew. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/audit.h"

#include "config/mem.h"
#include "sched/release/audit_verify.h"
#include "sched/release/registry_priv.h"
#include "tests/support/release_rig.h"
#include "tests/support/suite_run.h"

static struct registry *registry;
static struct world world;
static struct why why;

static void ok(enum status s)
{
    ck_assert_msg(s == OK, "%s", why.text);
}

static void run_rollout(const char *label, enum rig_verdict last)
{
    char id[SHA256_HEX];
    ok(rig_publish(registry, label, NULL, NULL, id, &why));
    ok(rig_start(registry, id, true, NULL, &why));
    for (int step = 1; step <= 3; step++)
        ok(rig_tick(registry, step == 3 ? last : RIG_PASS, &why));
    ok(world_recover(&world, registry, &why));
    ok(world_settle(&world, &why));
}

/* A promotion and a rollback. */
static void begin(void)
{
    char id[SHA256_HEX];
    ok(registry_open(NULL, &registry, &why));
    ok(rig_found(registry, "first", id, &why));
    run_rollout("second", RIG_PASS);
    run_rollout("third", RIG_FAIL);
}

static void end(void)
{
    registry_close(&registry);
}

START_TEST(an_honest_audit_verifies)
{
    struct audit_report report;
    ok(audit_verify(registry, &report, &why));
    ck_assert_int_ge(report.n_entries, 40);
    ck_assert_int_ge(report.n_receipts, 30);
    ck_assert_int_ge(report.n_rows, 20);
    ck_assert_uint_eq(strlen(report.head), 64);
}
END_TEST

/* Where a walk puts what it sees. */
struct seen {
    int64_t first, n;
};

static enum status count(void *user, const struct audit_entry *entry, struct why *ret_why)
{
    struct seen *seen = user;
    (void)ret_why;
    if (seen->n++ == 0)
        seen->first = entry->seq;
    return OK;
}

START_TEST(pages_of_the_audit)
{
    struct seen seen = {0};
    ok(audit_each(registry, 10, 5, count, &seen, &why));
    ck_assert_int_eq(seen.first, 11);
    ck_assert_int_eq(seen.n, 5);
}
END_TEST

static void sql(const char *statement)
{
    ck_assert_msg(sqlite3_exec(registry->db, statement, NULL, NULL, NULL) == SQLITE_OK, "%s",
                  sqlite3_errmsg(registry->db));
    ck_assert_int_ge(sqlite3_changes(registry->db), 1);
}

static void sha256_function(sqlite3_context *context, int n, sqlite3_value **values)
{
    char hex[SHA256_HEX];
    uint8_t hash[SHA256_BYTES];
    struct sha256 *sha;
    (void)n;
    ck_assert_int_eq(sha256_new(&sha), OK);
    sha256_start(sha);
    for (uint8_t i = 0; i < 2; i++)
        sha256_part(sha, (uint8_t)(i + 1), sqlite3_value_text(values[i]),
                    (size_t)sqlite3_value_bytes(values[i]));
    sha256_finish(sha, hash);
    sha256_free(&sha);
    sha256_hex(hash, hex);
    sqlite3_result_text(context, hex, -1, SQLITE_TRANSIENT);
}

/* What somebody with the file and time would do: hashes that follow again. */
static void forge_chain(void)
{
    ck_assert_int_eq(sqlite3_create_function(registry->db, "link", 2, SQLITE_UTF8, NULL,
                                             sha256_function, NULL, NULL),
                     SQLITE_OK);
    struct seen seen = {0};
    ok(audit_each(registry, 0, 100000, count, &seen, &why));
    for (int64_t i = 1; i <= seen.n; i++) {
        char statement[200];
        snprintf(statement, sizeof statement,
                 "UPDATE audit SET hash = link(coalesce((SELECT hash FROM audit WHERE seq = %d), "
                 "printf('%%064d', 0)), body) WHERE seq = %d",
                 (int)i - 1, (int)i);
        sql(statement);
    }
    ok(audit_check_chain(registry, &why));
}

static void receipt_hash(sqlite3_context *context, int n, sqlite3_value **values)
{
    char hex[SHA256_HEX];
    uint8_t hash[SHA256_BYTES];
    (void)n;
    ck_assert_int_eq(
        sha256_of(sqlite3_value_text(values[0]), (size_t)sqlite3_value_bytes(values[0]), hash), OK);
    sha256_hex(hash, hex);
    sqlite3_result_text(context, hex, -1, SQLITE_TRANSIENT);
}

/* Rewrites one receipt, and its hash wherever that stands: in rows and in the audit. Other receipts stay. */
static void forge_receipt(const char *kind, const char *from, const char *to)
{
    static const char *const tables[] = {"audit", "rollouts", "journals", "generations"};
    char statement[700];
    ck_assert_int_eq(sqlite3_create_function(registry->db, "receipt_hash", 1, SQLITE_UTF8, NULL,
                                             receipt_hash, NULL, NULL),
                     SQLITE_OK);
    snprintf(
        statement, sizeof statement,
        "CREATE TEMP TABLE forged AS SELECT key AS old, receipt_hash(replace(body, '%s', '%s')) "
        "AS new FROM receipts WHERE body LIKE '%%%s%%' AND instr(body, '%s') > 0 LIMIT 1",
        from, to, kind, from);
    ck_assert_int_eq(sqlite3_exec(registry->db, statement, NULL, NULL, NULL), SQLITE_OK);
    snprintf(statement, sizeof statement,
             "UPDATE receipts SET body = replace(body, '%s', '%s'), key = (SELECT new FROM forged) "
             "WHERE key = (SELECT old FROM forged)",
             from, to);
    sql(statement);
    for (size_t i = 0; i < ARRAY_LEN(tables); i++) {
        snprintf(statement, sizeof statement,
                 "UPDATE %s SET body = replace(body, (SELECT old FROM forged), (SELECT new FROM "
                 "forged))",
                 tables[i]);
        sql(statement);
    }
    forge_chain();
}

/* Everything follows from everything, but for what the receipts themselves say. */
static const struct forgery {
    const char *kind, *from, *to, *words;
} forgeries[] = {
    {"foldkv.rollout_decision", "\"action\":\"begin_step\"", "\"action\":\"move\"",
     "the receipt does not follow from its evidence and plan"},
    {"foldkv.rollout_decision", "\"worst_ppb\":10000000", "\"worst_ppb\":500",
     "the receipt does not follow from its evidence and plan"},
    {"foldkv.rollout_decision", "\"event\":\"tick\"", "\"event\":\"pause\"",
     "the receipt does not follow from its evidence and plan"},
    {"foldkv.rollout_decision", "\"state\":\"promoting\",\"step\":2},\"at_ms\"",
     "\"state\":\"promoted\",\"step\":2},\"at_ms\"", "does not stand where its decision put it"},
    {"foldkv.rollout_plan", "\"min_requests\":100", "\"min_requests\":101",
     "the receipt does not follow from its evidence and plan"},
    {"foldkv.evaluation_receipt", "\"requests\":6000", "\"requests\":6001",
     "the receipt does not follow from its evidence and thresholds"},
    {"foldkv.evaluation_manifest", "\"repetitions\":1,", "\"repetitions\":2,",
     "the evaluation was run under another manifest"},
};

START_TEST(receipts_that_do_not_follow_are_found)
{
    struct audit_report report;
    const struct forgery *f = &forgeries[_i];
    forge_receipt(f->kind, f->from, f->to);
    ck_assert_int_eq(audit_verify(registry, &report, &why), STATUS_BAD_FILE);
    ck_assert_msg(strstr(why.text, f->words) != NULL, "'%s' lacks '%s'", why.text, f->words);
}
END_TEST

static const struct tamper {
    const char *sql, *words;
    bool is_forged;
} tampers[] = {
    {"UPDATE audit SET body = replace(body, 'tester', 'nobody') WHERE seq = 5",
     "audit entry 5 does not follow", false},
    {"DELETE FROM audit WHERE seq = 7", "the audit has no entry 7", false},
    {"DELETE FROM audit WHERE seq = (SELECT max(seq) FROM audit)", "is not as the audit left it",
     false},
    {"UPDATE audit SET hash = upper(hash) WHERE seq = 3", "audit entry 3 does not follow", false},
    /* Rows and receipts that no longer follow from an honest chain. */
    {"UPDATE generations SET body = replace(body, '\"rolled_back\"', '\"warmed\"')",
     "is not as the audit left it", false},
    {"UPDATE routes SET body = json_set(body, '$.weight_bp', 100)",
     "routes/route is not as the audit left it", false},
    {"UPDATE receipts SET body = replace(body, '\"worst_ppb\":10000000', '\"worst_ppb\":500') "
     "WHERE "
     "body LIKE '%\"worst_ppb\":10000000%'",
     "it was altered", false},
    {"DELETE FROM receipts WHERE body LIKE '%RETAIN%'", "there is no receipts/", false},
    {"INSERT INTO receipts VALUES('00', '{}')", "receipts/00 is in no audit entry", false},
    {"DELETE FROM journal_steps WHERE key LIKE '%.04'", "is not as the audit left it", false},
    /* A decision that its evidence does not bear, under a chain that somebody made anew. */
    {"UPDATE audit SET body = replace(body, '\"state\":\"evaluated\"', '\"state\":\"warmed\"') "
     "WHERE body LIKE '%release.evaluated%'",
     "audit entry", true},
    {"UPDATE audit SET body = json_remove(body, '$.receipts') WHERE body LIKE '%rollout.tick%'",
     "audit entry", true},
    {"UPDATE audit SET body = json_set(body, '$.epoch', 99) WHERE seq = 4",
     "it is of epoch 1, not 99", true},
    {"UPDATE audit SET body = json_set(body, '$.who', json('null')) WHERE seq = 4",
     "does not say who did what", true},
};

START_TEST(what_was_altered_does_not_verify)
{
    struct audit_report report;
    sql(tampers[_i].sql);
    if (tampers[_i].is_forged)
        forge_chain();
    ck_assert_int_eq(audit_verify(registry, &report, &why), STATUS_BAD_FILE);
    ck_assert_msg(strstr(why.text, tampers[_i].words) != NULL, "'%s' lacks '%s'", why.text,
                  tampers[_i].words);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("audit");
    TCase *tcase = tcase_create("audit");
    tcase_set_timeout(tcase, 30);
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, an_honest_audit_verifies);
    tcase_add_test(tcase, pages_of_the_audit);
    tcase_add_loop_test(tcase, what_was_altered_does_not_verify, 0, (int)ARRAY_LEN(tampers));
    tcase_add_loop_test(tcase, receipts_that_do_not_follow_are_found, 0, (int)ARRAY_LEN(forgeries));
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
