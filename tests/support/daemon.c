/* daemon.c: fork, exec, the ready line, and the verdict at the end.
 *
 * WHY     What a user gets is the binary: its one line on stdout, its exit code, its descriptors, its stderr.
 * HOW     stdout is a pipe that is read with a deadline; stderr is an unlinked temporary file that can be read at any time.
 * ALWAYS  (1) The daemon is killed if the test's process dies.                  child_become
 *         (2) A sanitizer's words on stderr fail the test, whatever it asserts.  require_clean
 * OWNS    One child process and its two descriptors, from start to free.
 */
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/daemon.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "config/mem.h"
#include "tests/support/peer.h"

enum { ARGUMENTS_MAX = 40, READY_SECONDS = 120, STOP_SECONDS = 60 };

struct daemon {
    pid_t pid;
    int out;   /* read end of its stdout */
    FILE *err; /* its stderr, shared file offset apart */
    int port;
    bool is_reaped;
    int exit_code;
    char url[192];
    char *err_text;
};

static const char *required_path(const char *variable)
{
    const char *path = getenv(variable);
    ck_assert_msg(path != NULL && path[0] != '\0', "%s is not set", variable);
    ck_assert_msg(access(path, R_OK) == 0, "%s: cannot read %s", variable, path);
    return path;
}

const char *daemon_binary(void)
{
    return required_path("FOLDKV_TEST_BINARY");
}

const char *daemon_model(void)
{
    return required_path("FOLDKV_TEST_MODEL");
}

int daemon_seconds(int seconds)
{
    const char *slowness = getenv("FOLDKV_TEST_SLOWNESS");
    long factor = slowness != NULL ? strtol(slowness, NULL, 10) : 1;
    return seconds * (factor >= 1 && factor <= 100 ? (int)factor : 1);
}

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* In the child: its descriptors, its leash, and the program. */
_Noreturn static void child_become(const char *const arguments[], int out, int err)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (dup2(out, STDOUT_FILENO) < 0 || dup2(err, STDERR_FILENO) < 0)
        _exit(126);
    execv(arguments[0], (char *const *)(uintptr_t)arguments);
    _exit(127);
}

static void spawn(struct daemon *d, const char *const arguments[])
{
    int ends[2];
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    d->err = tmpfile();
    ck_assert_ptr_nonnull(d->err);
    fflush(NULL);
    d->pid = fork();
    ck_assert_int_ge(d->pid, 0);
    if (d->pid == 0)
        child_become(arguments, ends[1], fileno(d->err));
    close(ends[1]);
    d->out = ends[0];
}

/* One line of stdout without its newline; fails the test at the deadline or at the end of file. */
static void read_ready_line(struct daemon *d, char *line, size_t size)
{
    uint64_t deadline = now_ms() + (uint64_t)daemon_seconds(READY_SECONDS) * 1000;
    size_t len = 0;
    while (len == 0 || line[len - 1] != '\n') {
        struct pollfd poll_out = {.fd = d->out, .events = POLLIN};
        ck_assert_msg(now_ms() < deadline, "no ready line in time; stderr:\n%s", daemon_stderr(d));
        if (poll(&poll_out, 1, 100) <= 0)
            continue;
        ck_assert_msg(len + 1 < size, "the ready line is too long");
        ssize_t n = read(d->out, line + len, 1);
        ck_assert_msg(n == 1, "the daemon ended before it was ready; stderr:\n%s",
                      daemon_stderr(d));
        len++;
    }
    line[len - 1] = '\0';
}

struct daemon *daemon_start_program(const char *const arguments[])
{
    struct daemon *d = mem_zalloc(1, sizeof *d);
    ck_assert_ptr_nonnull(d);
    spawn(d, arguments);
    char line[192];
    read_ready_line(d, line, sizeof line);
    int used = 0;
    if (strncmp(line, "ready unix:", 11) == 0) {
        peer_use_path(line + 11);
        snprintf(d->url, sizeof d->url, "%s", line + 6);
        return d;
    }
    ck_assert_msg(sscanf(line, "ready http://127.0.0.1:%d%n", &d->port, &used) == 1 &&
                      line[used] == '\0',
                  "the ready line is '%s'", line);
    ck_assert_int_gt(d->port, 0);
    snprintf(d->url, sizeof d->url, "http://127.0.0.1:%d", d->port);
    return d;
}

struct daemon *daemon_start(const char *model, const char *const flags[])
{
    const char *arguments[ARGUMENTS_MAX] = {daemon_binary(), "serve",
                                            model != NULL ? model : daemon_model(), "--listen",
                                            "127.0.0.1:0"};
    size_t n = 5;
    for (size_t i = 0; flags != NULL && flags[i] != NULL; i++) {
        ck_assert_uint_lt(n + 1, ARRAY_LEN(arguments));
        arguments[n++] = flags[i];
    }
    return daemon_start_program(arguments);
}

int daemon_port(const struct daemon *d)
{
    return d->port;
}

pid_t daemon_pid(const struct daemon *d)
{
    return d->pid;
}

const char *daemon_url(const struct daemon *d)
{
    return d->url;
}

int daemon_descriptors(const struct daemon *d)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd", (int)d->pid);
    DIR *dir = opendir(path);
    ck_assert_msg(dir != NULL, "%s: %s", path, strerror(errno));
    int n = 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

uint64_t daemon_resident_bytes(const struct daemon *d)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/statm", (int)d->pid);
    FILE *f = fopen(path, "r");
    ck_assert_msg(f != NULL, "%s: %s", path, strerror(errno));
    unsigned long long size = 0, resident = 0;
    ck_assert_int_eq(fscanf(f, "%llu %llu", &size, &resident), 2);
    fclose(f);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* The whole of f, which another process may still append to. */
static char *file_text(FILE *f)
{
    off_t size = lseek(fileno(f), 0, SEEK_END);
    ck_assert_int_ge(size, 0);
    char *text = mem_zalloc(1, (size_t)size + 1);
    ck_assert_ptr_nonnull(text);
    ssize_t n = pread(fileno(f), text, (size_t)size, 0);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

const char *daemon_stderr(struct daemon *d)
{
    mem_free(d->err_text);
    d->err_text = file_text(d->err);
    return d->err_text;
}

void daemon_signal(struct daemon *d, int signal)
{
    ck_assert_msg(!d->is_reaped, "the daemon has already ended");
    ck_assert_int_eq(kill(d->pid, signal), 0);
}

static int code_of(int wait_status)
{
    return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

/* True if it ended before the deadline. */
static bool reap_until(struct daemon *d, uint64_t deadline)
{
    while (!d->is_reaped) {
        int wait_status = 0;
        pid_t pid = waitpid(d->pid, &wait_status, WNOHANG);
        ck_assert_int_ge(pid, 0);
        if (pid == d->pid) {
            d->is_reaped = true;
            d->exit_code = code_of(wait_status);
        } else if (now_ms() >= deadline) {
            return false;
        } else {
            usleep(5000);
        }
    }
    return true;
}

int daemon_wait(struct daemon *d, int seconds)
{
    if (!reap_until(d, now_ms() + (uint64_t)daemon_seconds(seconds) * 1000)) {
        kill(d->pid, SIGKILL);
        ck_abort_msg("the daemon did not end within %d s; stderr:\n%s", daemon_seconds(seconds),
                     daemon_stderr(d));
    }
    return d->exit_code;
}

static void require_clean(const char *err)
{
    static const char *const words[] = {
        "AddressSanitizer",           "LeakSanitizer",  "ThreadSanitizer", "MemorySanitizer",
        "UndefinedBehaviorSanitizer", "runtime error:", "assertion failed"};
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        ck_assert_msg(strstr(err, words[i]) == NULL, "stderr has '%s':\n%s", words[i], err);
}

void daemon_free(struct daemon **daemon)
{
    struct daemon *d = *daemon;
    *daemon = NULL;
    if (d == NULL)
        return;
    ck_assert_msg(d->is_reaped, "the daemon still runs");
    require_clean(daemon_stderr(d));
    char rest;
    ck_assert_msg(read(d->out, &rest, 1) == 0,
                  "the daemon wrote more than its ready line to stdout");
    close(d->out);
    fclose(d->err);
    mem_free(d->err_text);
    mem_free(d);
}

void daemon_stop(struct daemon **daemon)
{
    daemon_signal(*daemon, SIGTERM);
    int code = daemon_wait(*daemon, STOP_SECONDS);
    ck_assert_msg(code == 0, "exit code %d; stderr:\n%s", code, daemon_stderr(*daemon));
    daemon_free(daemon);
}

struct command_result command_run(const char *const arguments[], int seconds)
{
    struct daemon d = {0};
    FILE *out = tmpfile();
    d.err = tmpfile();
    ck_assert_msg(out != NULL && d.err != NULL, "no temporary file");
    fflush(NULL);
    d.pid = fork();
    ck_assert_int_ge(d.pid, 0);
    if (d.pid == 0)
        child_become(arguments, fileno(out), fileno(d.err));
    struct command_result result = {
        .exit_code = daemon_wait(&d, seconds), .out = file_text(out), .err = file_text(d.err)};
    mem_free(d.err_text);
    fclose(out);
    fclose(d.err);
    require_clean(result.err);
    return result;
}

void command_result_release(struct command_result *result)
{
    mem_free(result->out);
    mem_free(result->err);
    *result = (struct command_result){0};
}
