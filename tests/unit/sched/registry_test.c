/* registry_test.c: what is durable, what is refused on opening and left as it was, and memory that runs out. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/registry.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include "config/mem.h"
#include "sched/release/answer.h"
#include "sched/release/audit_verify.h"
#include "tests/support/release_rig.h"
#include "tests/support/suite_run.h"
#include "tests/support/temp_dir.h"

static char dir[TEMP_PATH_ROOM];
static struct why why;

static void begin(void)
{
    temp_dir_make(dir);
    why = (struct why){0};
}

static void end(void)
{
    temp_dir_remove(dir);
}

static struct registry *open_dir(void)
{
    struct registry *r = NULL;
    enum status s = registry_open(dir, &r, &why);
    ck_assert_msg(s == OK, "%s", why.text);
    return r;
}

/* A registry with one founded generation, closed again. */
static void found_one(char ret_id[SHA256_HEX])
{
    struct registry *r = open_dir();
    ck_assert_int_eq(rig_found(r, "first", ret_id, &why), OK);
    registry_close(&r);
}

START_TEST(rows_outlive_the_process)
{
    char id[SHA256_HEX], first[SHA256_HEX];
    struct projection p;
    found_one(first);
    struct registry *r = open_dir();
    ck_assert(registry_is_durable(r));
    ck_assert_int_eq(rig_publish(r, "second", NULL, NULL, id, &why), OK);
    registry_close(&r);
    r = open_dir();
    struct record row;
    char found[SHA256_HEX];
    ck_assert_int_eq(release_find(r, "second", found, &row, &why), OK);
    ck_assert_str_eq(found, id);
    ck_assert_str_eq(record_text(&row, "state"), "warmed");
    record_release(&row);
    ck_assert_int_eq(projection_read(r, &p, &why), OK);
    ck_assert_str_eq(p.stable, first);
    ck_assert(p.is_writable);
    ck_assert_int_eq(p.epoch, 1);
    registry_close(&r);
}
END_TEST

START_TEST(one_without_a_dir_is_the_same_but_for_that)
{
    struct registry *r = NULL;
    struct audit_report report;
    char id[SHA256_HEX];
    ck_assert_int_eq(registry_open(NULL, &r, &why), OK);
    ck_assert(!registry_is_durable(r));
    ck_assert_int_eq(rig_found(r, "first", id, &why), OK);
    ck_assert_int_eq(audit_verify(r, &report, &why), OK);
    ck_assert_int_eq(report.n_entries, 1);
    registry_close(&r);
}
END_TEST

/* Opening is refused with one line that holds the words, and no byte of the file changes. */
static void refused(const char *words)
{
    char before[SHA256_HEX], after[SHA256_HEX];
    struct registry *r = NULL;
    temp_dir_hash(dir, "registry.sqlite", before);
    int n = temp_dir_count(dir);
    enum status s = registry_open(dir, &r, &why);
    ck_assert_int_ne(s, OK);
    ck_assert_ptr_null(r);
    ck_assert_msg(strstr(why.text, words) != NULL, "'%s' lacks '%s'", why.text, words);
    ck_assert_ptr_null(strchr(why.text, '\n'));
    temp_dir_hash(dir, "registry.sqlite", after);
    ck_assert_str_eq(before, after);
    ck_assert_int_eq(temp_dir_count(dir), n);
}

static void sql(const char *statement)
{
    char path[TEMP_PATH_ROOM + 32];
    sqlite3 *db;
    snprintf(path, sizeof path, "%s/registry.sqlite", dir);
    ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(db, statement, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

START_TEST(a_newer_version_is_refused)
{
    char id[SHA256_HEX];
    found_one(id);
    sql("PRAGMA user_version=3");
    refused("has schema 3 and was written by a newer foldkv; this one reads schema 2");
}
END_TEST

START_TEST(another_programs_database_is_refused)
{
    char id[SHA256_HEX];
    found_one(id);
    sql("PRAGMA application_id=7");
    refused("is another program's database");
}
END_TEST

START_TEST(what_is_no_database_is_refused)
{
    char id[SHA256_HEX];
    static const char text[] =
        "this is no database, though it is longer than a header of one hundred bytes "
        "would be, so that only its first bytes tell";
    found_one(id);
    temp_dir_write(dir, "registry.sqlite", text, sizeof text);
    refused("is corrupt: it is no SQLite file");
    temp_dir_write(dir, "registry.sqlite", "", 0);
    refused("is corrupt");
}
END_TEST

START_TEST(a_damaged_page_is_refused)
{
    char id[SHA256_HEX], path[TEMP_PATH_ROOM + 32], junk[3000];
    found_one(id);
    snprintf(path, sizeof path, "%s/registry.sqlite", dir);
    memset(junk, 0xa5, sizeof junk);
    int fd = open(path, O_WRONLY);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pwrite(fd, junk, sizeof junk, 4096), (ssize_t)sizeof junk);
    close(fd);
    refused("is corrupt");
}
END_TEST

START_TEST(a_broken_chain_is_refused)
{
    char id[SHA256_HEX];
    found_one(id);
    sql("UPDATE audit SET body = replace(body, 'tester', 'nobody') WHERE seq = 1");
    refused("audit entry 1 does not follow");
}
END_TEST

START_TEST(a_locked_registry_is_refused)
{
    char id[SHA256_HEX];
    found_one(id);
    char path[TEMP_PATH_ROOM + 32];
    snprintf(path, sizeof path, "%s/lock", dir);
    int fd = open(path, O_RDWR);
    ck_assert_int_eq(flock(fd, LOCK_EX | LOCK_NB), 0);
    refused("is locked by another daemon");
    close(fd);
}
END_TEST

START_TEST(a_reader_reads_beside_the_owner_and_changes_nothing)
{
    char id[SHA256_HEX], again[SHA256_HEX];
    struct audit_report report;
    struct registry *reader = NULL, *r = open_dir();
    ck_assert_int_eq(rig_found(r, "first", id, &why), OK);
    ck_assert_int_eq(registry_open_reader(dir, &reader, &why), OK);
    ck_assert_int_eq(audit_verify(reader, &report, &why), OK);
    ck_assert_int_eq(rig_found(reader, "second", again, &why), STATUS_ILLEGAL_MOVE);
    const struct change_terms terms = rig_terms(5);
    ck_assert_int_eq(release_move_generation(reader, &terms, id, GENERATION_REJECTED, NULL, &why),
                     STATUS_READ_ONLY);
    registry_close(&reader);
    ck_assert_int_eq(rig_publish(r, "second", NULL, NULL, id, &why), OK);
    registry_close(&r);
    char none[TEMP_PATH_ROOM + 8];
    snprintf(none, sizeof none, "%s/none", dir);
    ck_assert_int_eq(registry_open_reader(none, &reader, &why), STATUS_NOT_FOUND);
}
END_TEST

/* From here on no file can be written that is as large as SQLite's index of a log, or again. Check's own are smaller. */
static void let_write(bool may_write)
{
    struct rlimit limit;
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = may_write ? limit.rlim_max : 16384;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

START_TEST(where_nothing_can_be_written_it_is_read_until_it_can)
{
    char first[SHA256_HEX], second[SHA256_HEX];
    struct projection p;
    struct audit_report report;
    struct registry *r = open_dir(), *other = NULL;
    ck_assert_int_eq(rig_found(r, "first", first, &why), OK);
    ck_assert_int_eq(rig_publish(r, "second", NULL, NULL, second, &why), OK);
    ck_assert_int_eq(rig_start(r, second, true, NULL, &why), OK);
    ck_assert_int_eq(rig_roll_back(r, NULL, &why), OK); /* decided and not carried out */
    registry_close(&r);
    int n = temp_dir_count(dir);
    let_write(false);
    r = open_dir();
    ck_assert_ptr_nonnull(registry_fault(r));
    ck_assert_ptr_nonnull(strstr(registry_fault(r), "the registry takes no writes"));
    ck_assert_int_eq(projection_read(r, &p, &why), OK);
    ck_assert_str_eq(p.stable, first);
    ck_assert_str_eq(p.barred, second);
    ck_assert(!p.is_writable && !p.is_candidate_admitted);
    ck_assert_int_eq(audit_verify(r, &report, &why), OK);
    ck_assert_int_eq(registry_open(dir, &other, &why), STATUS_UNAVAILABLE); /* locked all the same */
    const struct change_terms terms = rig_terms(5);
    ck_assert_int_eq(release_move_generation(r, &terms, second, GENERATION_REJECTED, NULL, &why),
                     STATUS_READ_ONLY);
    ck_assert_str_eq(why.text, registry_fault(r));
    registry_probe(r);
    ck_assert_ptr_nonnull(registry_fault(r));
    let_write(true);
    registry_probe(r);
    ck_assert_ptr_null(registry_fault(r));
    ck_assert_int_eq(rig_publish(r, "third", NULL, NULL, second, &why), OK);
    registry_close(&r);
    ck_assert_int_eq(temp_dir_count(dir), n);
    sql("UPDATE audit SET body = replace(body, 'tester', 'nobody') WHERE seq = 1");
    let_write(false);
    refused("audit entry 1 does not follow");
}
END_TEST

START_TEST(terms_are_kept)
{
    char id[SHA256_HEX];
    struct record answer;
    struct registry *r = open_dir();
    ck_assert_int_eq(rig_found(r, "first", id, &why), OK);
    ck_assert_int_eq(rig_publish(r, "second", NULL, NULL, id, &why), OK);
    struct rollout_plan plan;
    struct rollout_decision decision;
    struct release_rollout active;
    char rollout[REGISTRY_KEY_ROOM];
    rig_plan(false, &plan);
    struct change_terms terms = rig_terms(6);
    terms.epoch_expected = 7;
    ck_assert_int_eq(release_rollout_start(r, &terms, id, &plan, rollout, &decision, &why),
                     STATUS_EPOCH_MISMATCH);
    ck_assert_str_eq(why.text, "the release epoch is 1, the request expects 7");
    terms.epoch_expected = 1;
    terms.is_dry_run = true;
    ck_assert_int_eq(release_rollout_start(r, &terms, id, &plan, rollout, &decision, &why), OK);
    ck_assert_int_eq(release_rollout_find_active(r, &active, &why), STATUS_NOT_FOUND);
    terms.is_dry_run = false;
    terms.answer_key = "key";
    terms.answer_payload = "payload hash";
    ck_assert_int_eq(answer_find(r, "key", "payload hash", &answer, &why), STATUS_NOT_FOUND);
    ck_assert_int_eq(release_rollout_start(r, &terms, id, &plan, rollout, &decision, &why), OK);
    ck_assert_int_eq(answer_find(r, "key", "payload hash", &answer, &why), OK);
    ck_assert_str_eq(record_text(&answer, "subject"), rollout);
    ck_assert_str_eq(record_text(&answer, "what"), "rollout.start");
    record_release(&answer);
    ck_assert_int_eq(answer_find(r, "key", "another", &answer, &why), STATUS_KEY_REUSED);
    ck_assert_int_eq(answer_forget(r, 6, &why), OK);
    ck_assert_int_eq(answer_find(r, "key", "another", &answer, &why), STATUS_KEY_REUSED);
    ck_assert_int_eq(answer_forget(r, 7, &why), OK);
    ck_assert_int_eq(answer_find(r, "key", "payload hash", &answer, &why), STATUS_NOT_FOUND);
    registry_close(&r);
}
END_TEST

/* All of a publish, with the n-th allocation failing: told as such, and the registry is whole afterwards. */
START_TEST(memory_that_runs_out_changes_nothing_by_half)
{
    int n_struck = 0;
    for (uint64_t n = 1; n < 100000; n = n + 1 + n / 25) {
        struct registry *r = NULL;
        struct audit_report report;
        char id[SHA256_HEX];
        mem_fail_nth(n);
        enum status s = registry_open(NULL, &r, &why);
        if (s == OK)
            s = rig_found(r, "first", id, &why);
        if (s == OK)
            s = rig_publish(r, "second", NULL, NULL, id, &why);
        bool struck = mem_failure_struck();
        mem_fail_nth(0);
        if (r != NULL)
            ck_assert_msg(audit_verify(r, &report, &why) == OK, "allocation %d: %s", (int)n,
                          why.text);
        registry_close(&r);
        if (!struck)
            break;
        n_struck++;
    }
    ck_assert_int_ge(n_struck, 50);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("registry");
    TCase *tcase = tcase_create("registry");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, rows_outlive_the_process);
    tcase_add_test(tcase, one_without_a_dir_is_the_same_but_for_that);
    tcase_add_test(tcase, a_newer_version_is_refused);
    tcase_add_test(tcase, another_programs_database_is_refused);
    tcase_add_test(tcase, what_is_no_database_is_refused);
    tcase_add_test(tcase, a_damaged_page_is_refused);
    tcase_add_test(tcase, a_broken_chain_is_refused);
    tcase_add_test(tcase, a_locked_registry_is_refused);
    tcase_add_test(tcase, a_reader_reads_beside_the_owner_and_changes_nothing);
    tcase_add_test(tcase, where_nothing_can_be_written_it_is_read_until_it_can);
    tcase_add_test(tcase, terms_are_kept);
    tcase_add_test(tcase, memory_that_runs_out_changes_nothing_by_half);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
