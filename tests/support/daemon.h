/* daemon.h: the real binary, started for a test, watched, stopped and judged.
 *
 * The binary's path comes from FOLDKV_TEST_BINARY (meson and tests/run set it), the model's from FOLDKV_TEST_MODEL; a test that
 * needs one that is missing fails. Every call aborts the Check test with a message when the machine or the daemon disappoints it. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_TESTS_DAEMON_H
#define FOLDKV_TESTS_DAEMON_H

#include <sys/types.h>

#include "config/base.h"

struct daemon;

/* The paths; the test fails if the variable is unset or names nothing. */
const char *daemon_binary(void);
const char *daemon_model(void);
/* Seconds to multiply by FOLDKV_TEST_SLOWNESS (a whole number; for emulators and sanitizers; 1 if unset). */
int daemon_seconds(int seconds);

/* Starts `BINARY serve MODEL --listen 127.0.0.1:0 flags...` (flags ends with NULL, or is NULL) and waits for its ready line, and
 * for nothing but that line on stdout. model NULL: daemon_model(). The daemon dies with the test's process. */
struct daemon *daemon_start(const char *model, const char *const flags[]);
/* The same for any program and arguments that print the ready line; arguments[0] is the program. */
struct daemon *daemon_start_program(const char *const arguments[]);
/* 0 if it listens on a Unix socket, which peer_connect(0) then reaches. */
int daemon_port(const struct daemon *daemon);
pid_t daemon_pid(const struct daemon *daemon);
/* "http://127.0.0.1:PORT" or "unix:PATH" */
const char *daemon_url(const struct daemon *daemon);
/* Open descriptors and resident bytes, as /proc has them now. */
int daemon_descriptors(const struct daemon *daemon);
uint64_t daemon_resident_bytes(const struct daemon *daemon);
/* All it wrote to stderr so far; valid until the next call. */
const char *daemon_stderr(struct daemon *daemon);
void daemon_signal(struct daemon *daemon, int signal);
/* Waits for its end: the exit code, or 128 + signal. Fails the test after seconds (as multiplied above), then kills it. */
int daemon_wait(struct daemon *daemon, int seconds);
/* SIGTERM, waits, requires exit code 0 and a stderr free of sanitizer words; frees. */
void daemon_stop(struct daemon **daemon);
/* After daemon_wait: requires a stderr free of sanitizer words; frees. */
void daemon_free(struct daemon **daemon);

/* What a command that ends by itself left behind. */
struct command_result {
    int exit_code; /* or 128 + signal */
    char *out;     /* NUL-terminated; command_result_release frees */
    char *err;
};
/* Runs arguments (NULL-ended; [0] is the program) to its end, at most seconds. */
struct command_result command_run(const char *const arguments[], int seconds);
void command_result_release(struct command_result *result);

#endif
