/* check_small.c: runs each test in a fork and counts.
 *
 * HOW     An assertion that fails prints and leaves the fork with exit code 1; a signal, the alarm of the timeout included,
 *         is an error. Tests are kept in one list of a fixed size: more than that is a mistake of the program's.
 */
// SPDX-License-Identifier: Apache-2.0
#include <check.h>

#include <stdarg.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TESTS_MAX = 128, CASES_MAX = 32 };

struct check_test {
    const char *name;
    check_test_fn *fn;
    int first, end;
};

struct check_case {
    struct check_test tests[TESTS_MAX];
    int n;
    unsigned timeout_s;
};

struct check_suite {
    const char *name;
    struct check_case *cases[CASES_MAX];
    int n_cases;
    int n_run, n_failed, n_errors;
};

static void *zeroed(size_t bytes)
{
    void *p = calloc(1, bytes);
    if (p == NULL)
        abort();
    return p;
}

TCase *tcase_create(const char *name)
{
    (void)name;
    struct check_case *c = zeroed(sizeof *c);
    c->timeout_s = 4;
    return c;
}

void tcase_set_timeout(TCase *c, double seconds)
{
    const char *slowness = getenv("CK_TIMEOUT_MULTIPLIER");
    double factor = slowness != NULL ? strtod(slowness, NULL) : 1;
    c->timeout_s = (unsigned)(seconds * (factor > 1 ? factor : 1));
}

void check_add(TCase *c, const char *name, check_test_fn *fn, int first, int end)
{
    if (c->n == TESTS_MAX)
        abort();
    c->tests[c->n++] = (struct check_test){name, fn, first, end};
}

Suite *suite_create(const char *name)
{
    struct check_suite *s = zeroed(sizeof *s);
    s->name = name;
    return s;
}

void suite_add_tcase(Suite *s, TCase *c)
{
    if (s->n_cases == CASES_MAX)
        abort();
    s->cases[s->n_cases++] = c;
}

SRunner *srunner_create(Suite *s)
{
    return s;
}

static void run_one(struct check_suite *s, const struct check_case *c, const struct check_test *t,
                    int i)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(c->timeout_s);
        t->fn(i);
        fflush(NULL);
        _exit(0);
    }
    int state = 0;
    s->n_run++;
    if (pid < 0 || waitpid(pid, &state, 0) != pid || WIFSIGNALED(state)) {
        s->n_errors++;
        printf("%s:%d: signal %d\n", t->name, i, pid > 0 ? WTERMSIG(state) : 0);
    } else if (WEXITSTATUS(state) != 0) {
        s->n_failed++;
        printf("%s:%d: failed\n", t->name, i);
    }
}

void srunner_run_all(SRunner *s, enum print_output how)
{
    (void)how;
    printf("Running suite(s): %s\n", s->name);
    for (int n = 0; n < s->n_cases; n++)
        for (int t = 0; t < s->cases[n]->n; t++)
            for (int i = s->cases[n]->tests[t].first; i < s->cases[n]->tests[t].end; i++)
                run_one(s, s->cases[n], &s->cases[n]->tests[t], i);
    int bad = s->n_failed + s->n_errors;
    printf("%d%%: Checks: %d, Failures: %d, Errors: %d\n",
           s->n_run ? 100 * (s->n_run - bad) / s->n_run : 0, s->n_run, s->n_failed, s->n_errors);
}

int srunner_ntests_failed(SRunner *s)
{
    return s->n_failed + s->n_errors;
}

int srunner_ntests_run(SRunner *s)
{
    return s->n_run;
}

void srunner_free(SRunner *s)
{
    for (int n = 0; n < s->n_cases; n++)
        free(s->cases[n]);
    free(s);
}

void check_failed(const char *file, int line, const char *format, ...)
{
    va_list args;
    printf("%s:%d: ", file, line);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
    fflush(NULL);
    _exit(1);
}
