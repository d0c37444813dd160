/* registry_power_test.c: power that goes at each durable call, a disk that fails or is full there, and a process that dies
 * there, through a promotion and a rollback.
 *
 * HOW     A scenario of steps runs on lossy_vfs.h. Power: at each call a copy is made of what would be left, and after the
 *         step each copy is opened, judged and carried on. Failures and deaths: the scenario runs once for each call, with
 *         that call failing, or the forked process ending there. Always: the audit verifies, what was told is in it, the
 *         world's invariants hold, an open journal ends.
 */
// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sched/release/audit.h"
#include "sched/release/audit_verify.h"
#include "tests/support/lossy_vfs.h"
#include "tests/support/release_rig.h"
#include "tests/support/seed.h"
#include "tests/support/suite_run.h"
#include "tests/support/temp_dir.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum {
    STRIDE_SHORT = 61,
    CUTS_LEAST = 20,
    CUT_EVERY = 4
}; /* each judgement costs ten times as much */
#else
enum { STRIDE_SHORT = 11, CUTS_LEAST = 80, CUT_EVERY = 1 };
#endif
/* A round makes a cut at each CUT_ROUNDS-th call, so all rounds make one at each. */
enum { CUTS_MAX = 512, CUT_ROUNDS = 3 };

/* Of the calls that fail or kill, one in so many: a prime, so that all kinds of calls come up. */
#define STRIDE                                                                                     \
    (getenv("FOLDKV_TEST_LONG") != NULL && getenv("FOLDKV_TEST_LONG")[0] != '\0' ? 1u              \
                                                                                 : STRIDE_SHORT)

static char dir[TEMP_PATH_ROOM];
static struct registry *registry;
static struct world world;
static struct why why;
static char candidate[SHA256_HEX];

/* ---- the scenario ---- */

static enum status found(void)
{
    char id[SHA256_HEX];
    TRY(rig_found(registry, "first", id, &why));
    return world_recover(&world, registry, &why);
}

/* Taken up where it stopped, when it is done again. */
static enum status publish(const char *label)
{
    return rig_publish(registry, label, NULL, NULL, candidate, &why);
}

static enum status publish_second(void)
{
    return publish("second");
}

static enum status publish_third(void)
{
    return publish("third");
}

static enum status roll_out(void)
{
    return rig_start(registry, candidate, true, NULL, &why);
}

static enum status pass(void)
{
    return rig_tick(registry, RIG_PASS, &why);
}

static enum status breach(void)
{
    world.in_flight = 2;
    snprintf(world.barred, sizeof world.barred, "%s", candidate);
    return rig_tick(registry, RIG_FAIL, &why);
}

static enum status settle(void)
{
    return world_settle(&world, &why);
}

static enum status reopen(void)
{
    registry_close(&registry);
    TRY(registry_open(dir, &registry, &why));
    return world_recover(&world, registry, &why);
}

typedef enum status step_fn(void);
static step_fn *const scenario[] = {found,  publish_second, roll_out, pass, pass,   pass,   settle,
                                    reopen, publish_third,  roll_out, pass, breach, settle, reopen};

/* ---- what must hold of a state directory ---- */

/* The last thing that somebody was told. */
struct told {
    int64_t seq;
    char hash[SHA256_HEX];
};

static void tell(struct told *told)
{
    ck_assert_int_eq(audit_head(registry, &told->seq, told->hash, &why), OK);
}

/* The entry that was told, searched. */
struct search {
    const struct told *told;
    bool is_found;
};

static enum status match(void *user, const struct audit_entry *entry, struct why *ret_why)
{
    struct search *search = user;
    (void)ret_why;
    search->is_found |=
        entry->seq == search->told->seq && strcmp(entry->hash, search->told->hash) == 0;
    return OK;
}

static void judge_state(const char *path, const struct told *told, const char *where, uint64_t n)
{
    struct registry *r = NULL;
    struct audit_report report;
    struct why bad = {0};
    struct world there;
    struct search search = {.told = told, .is_found = told->seq == 0};
    if (told->seq == 0 && access(path, F_OK) != 0)
        return;
    enum status s = registry_open(path, &r, &bad);
    ck_assert_msg(s == OK, "%s %d: %s", where, (int)n, bad.text);
    ck_assert_int_eq(audit_each(r, told->seq - 1, 1, match, &search, &bad), OK);
    ck_assert_msg(search.is_found, "%s %d: entry %d was told and is gone", where, (int)n,
                  (int)told->seq);
    ck_assert_int_eq(world_recover(&there, r, &bad), OK);
    world_check(&there);
    s = world_settle(&there, &bad);
    ck_assert_msg(s == OK && there.n_wrong == 0, "%s %d: %s %s", where, (int)n, bad.text,
                  there.wrong);
    ck_assert_msg(audit_verify(r, &report, &bad) == OK, "%s %d: %s", where, (int)n, bad.text);
    registry_close(&r);
}

/* ---- power ---- */

static struct cuts {
    char top[TEMP_PATH_ROOM];
    int n;
    uint64_t seed, total, round;
} cuts;

static void cut_path(int i, char ret_path[TEMP_PATH_ROOM + 32])
{
    snprintf(ret_path, TEMP_PATH_ROOM + 32, "%s/%d", cuts.top, i);
}

static int on_power(void *user, uint64_t n, enum lossy_call call)
{
    char path[TEMP_PATH_ROOM + 32];
    (void)user, (void)call;
    if (cuts.n == CUTS_MAX || n % (CUT_ROUNDS * CUT_EVERY) != cuts.round)
        return SQLITE_OK;
    cut_path(cuts.n++, path);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    lossy_vfs_cut(dir, path, (enum lossy_loss)(n / (CUT_ROUNDS * CUT_EVERY) % LOSSY_LOSSES),
                  cuts.seed + n);
    return SQLITE_OK;
}

static void judge_cuts(const struct told *told, uint64_t step)
{
    char path[TEMP_PATH_ROOM + 32];
    for (int i = 0; i < cuts.n; i++) {
        cut_path(i, path);
        judge_state(path, told, "power gone in step", step);
        temp_dir_remove(path);
    }
    cuts.total += (uint64_t)cuts.n;
    cuts.n = 0;
}

START_TEST(power_may_go_at_any_call)
{
    struct told told = {0};
    cuts.round = (uint64_t)_i % CUT_ROUNDS;
    cuts.seed = test_seed() + (uint64_t)_i;
    temp_dir_make(cuts.top);
    lossy_vfs_begin(on_power, NULL);
    ck_assert_int_eq(registry_open(dir, &registry, &why), OK);
    for (size_t i = 0; i < ARRAY_LEN(scenario); i++) {
        lossy_vfs_quiet(false);
        enum status s = scenario[i]();
        ck_assert_msg(s == OK, "step %d: %s", (int)i, why.text);
        lossy_vfs_quiet(true);
        judge_cuts(&told, i);
        tell(&told);
    }
    registry_close(&registry);
    temp_dir_remove(cuts.top);
    ck_assert_msg(cuts.total >= CUTS_LEAST, "only %d calls", (int)cuts.total);
}
END_TEST

/* ---- a disk that fails, or is full ---- */

static struct failing {
    uint64_t at;
    int code; /* 0: die there */
    bool is_lasting;
    bool has_struck;
} failing;

static int on_failing(void *user, uint64_t n, enum lossy_call call)
{
    (void)user;
    if (n < failing.at || (n > failing.at && !failing.is_lasting))
        return SQLITE_OK;
    failing.has_struck = true;
    if (failing.code == 0)
        raise(SIGKILL);
    if (failing.code == SQLITE_FULL)
        return call == LOSSY_SYNC || call == LOSSY_DELETE ? SQLITE_OK : SQLITE_FULL;
    static const int codes[] = {[LOSSY_WRITE] = SQLITE_IOERR_WRITE,
                                [LOSSY_TRUNCATE] = SQLITE_IOERR_TRUNCATE,
                                [LOSSY_SYNC] = SQLITE_IOERR_FSYNC,
                                [LOSSY_DELETE] = SQLITE_IOERR_DELETE};
    return codes[call];
}

static void read_only_but_readable(void)
{
    struct projection p;
    const struct change_terms terms = rig_terms(9);
    ck_assert_ptr_nonnull(registry_fault(registry));
    ck_assert_int_eq(projection_read(registry, &p, &why), OK);
    ck_assert(!p.is_writable);
    ck_assert(!p.is_candidate_admitted);
    if (p.stable[0] != '\0')
        ck_assert_int_eq(
            release_move_generation(registry, &terms, p.stable, GENERATION_REJECTED, NULL, &why),
            STATUS_READ_ONLY);
}

/* Runs the scenario until a step fails; false if none did. */
static bool run_until_failure(struct told *told)
{
    if (registry_open(dir, &registry, &why) != OK)
        return true;
    for (size_t i = 0; i < ARRAY_LEN(scenario); i++) {
        enum status s = scenario[i]();
        if (s == OK) {
            lossy_vfs_quiet(true);
            tell(told);
            lossy_vfs_quiet(false);
            continue;
        }
        ck_assert_msg(failing.has_struck, "step %d: %s", (int)i, why.text);
        if (registry == NULL) /* it could not be opened again */
            return true;
        ck_assert_msg(s == STATUS_READ_ONLY, "call %d, step %d: %s: %s", (int)failing.at, (int)i,
                      status_code(s), why.text);
        if (failing.code != SQLITE_FULL)
            read_only_but_readable();
        return true;
    }
    return false;
}

static void begin_run(void)
{
    temp_dir_make(dir);
    registry = NULL;
    world = (struct world){0};
}

static void fail_each_call(int code, uint64_t stride)
{
    int n_failures = 0;
    for (uint64_t n = 1; n < 5000; n += stride) {
        struct told told = {0};
        begin_run();
        failing = (struct failing){.at = n, .code = code};
        lossy_vfs_begin(on_failing, NULL);
        n_failures += run_until_failure(&told);
        bool struck = failing.has_struck;
        lossy_vfs_quiet(true);
        registry_close(&registry);
        judge_state(dir, &told, "disk failed at call", n);
        temp_dir_remove(dir);
        if (!struck)
            break;
    }
    temp_dir_make(dir); /* for the fixture */
    ck_assert_msg(n_failures >= 200 / STRIDE_SHORT, "only %d failures", n_failures);
}

START_TEST(the_disk_may_fail_at_any_call)
{
    temp_dir_remove(dir);
    fail_each_call(SQLITE_IOERR, STRIDE);
}
END_TEST

START_TEST(the_disk_may_be_full_at_any_call)
{
    temp_dir_remove(dir);
    fail_each_call(SQLITE_FULL, STRIDE);
}
END_TEST

/* Full for a while: the change that found it so is refused, and the same change is made when there is room. */
START_TEST(a_full_disk_may_be_over)
{
    struct projection p;
    failing = (struct failing){.at = UINT64_MAX, .code = SQLITE_FULL, .is_lasting = true};
    lossy_vfs_begin(on_failing, NULL);
    ck_assert_int_eq(registry_open(dir, &registry, &why), OK);
    for (size_t i = 0; i < 4; i++)
        ck_assert_int_eq(scenario[i](), OK);
    failing.at = 0;
    ck_assert_int_eq(pass(), STATUS_READ_ONLY);
    ck_assert_ptr_nonnull(strstr(why.text, "full"));
    ck_assert_int_eq(projection_read(registry, &p, &why), OK);
    ck_assert(!p.is_candidate_admitted);
    registry_probe(registry);
    ck_assert_ptr_nonnull(registry_fault(registry));
    failing.at = UINT64_MAX;
    registry_probe(registry);
    ck_assert_ptr_null(registry_fault(registry));
    ck_assert_int_eq(projection_read(registry, &p, &why), OK);
    ck_assert(p.is_candidate_admitted);
    ck_assert_int_eq(pass(), OK);
    registry_close(&registry);
}
END_TEST

/* ---- a process that dies ---- */

/* In the child: each step's head is told through the pipe. */
static void live(int fd)
{
    struct told told;
    for (size_t i = 0; i < ARRAY_LEN(scenario); i++) {
        if (scenario[i]() != OK)
            _exit(1);
        lossy_vfs_quiet(true);
        tell(&told);
        lossy_vfs_quiet(false);
        if (write(fd, &told, sizeof told) != sizeof told)
            _exit(2);
    }
    registry_close(&registry);
    _exit(0);
}

/* True if it died there. */
static bool die_at(uint64_t n)
{
    struct told told = {0}, next;
    int fds[2], code;
    begin_run();
    ck_assert_int_eq(pipe(fds), 0);
    failing = (struct failing){.at = n};
    pid_t child = fork();
    if (child == 0) {
        lossy_vfs_begin(on_failing, NULL);
        if (registry_open(dir, &registry, &why) != OK)
            _exit(3);
        live(fds[1]);
    }
    close(fds[1]);
    while (read(fds[0], &next, sizeof next) == sizeof next)
        told = next;
    close(fds[0]);
    ck_assert_int_eq(waitpid(child, &code, 0), child);
    bool died = WIFSIGNALED(code) && WTERMSIG(code) == SIGKILL;
    ck_assert_msg(died || (WIFEXITED(code) && WEXITSTATUS(code) == 0), "call %d: %x", (int)n, code);
    lossy_vfs_quiet(true);
    judge_state(dir, &told, "dead at call", n);
    temp_dir_remove(dir);
    return died;
}

START_TEST(the_process_may_die_at_any_call)
{
    int n_deaths = 0;
    temp_dir_remove(dir);
    for (uint64_t n = 1; die_at(n); n += STRIDE)
        n_deaths++;
    temp_dir_make(dir);
    ck_assert_msg(n_deaths >= 300 / STRIDE_SHORT, "only %d deaths", n_deaths);
}
END_TEST

static void begin(void)
{
    struct registry *first;
    temp_dir_make(dir);
    ck_assert_int_eq(registry_open(NULL, &first, &why), OK); /* SQLite is configured from here on */
    registry_close(&first);
    lossy_vfs_install();
}

static void end(void)
{
    temp_dir_remove(dir);
}

int main(void)
{
    printf("seed %llu\n", (unsigned long long)test_seed());
    Suite *suite = suite_create("registry_power");
    TCase *tcase = tcase_create("registry_power");
    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_loop_test(tcase, power_may_go_at_any_call, 0, CUT_ROUNDS);
    tcase_add_test(tcase, the_disk_may_fail_at_any_call);
    tcase_add_test(tcase, the_disk_may_be_full_at_any_call);
    tcase_add_test(tcase, a_full_disk_may_be_over);
    tcase_add_test(tcase, the_process_may_die_at_any_call);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
