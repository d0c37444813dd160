/* admin_line.h: what every command that asks a running daemon has in common: its flags, its client, and how answers and
 * refusals are printed.
 *
 * Exit codes are command.h's: 0 only if it happened. With --json the daemon's own JSON is printed as it came, refusals
 * too; a refusal is one line on stderr besides. One thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_ADMIN_LINE_H
#define FOLDKV_SERVER_ADMIN_LINE_H

#include <jansson.h>

#include "server/admin_client.h"
#include "server/command.h"

enum admin_flag {
    ADMIN_FLAG_STATE,
    ADMIN_FLAG_ADMIN,
    ADMIN_FLAG_KEY_FILE,
    ADMIN_FLAG_JSON,
    ADMIN_FLAG_TIMEOUT,
    ADMIN_FLAG_DRY_RUN,
    ADMIN_FLAG_EPOCH,
    ADMIN_FLAG_COUNT
};
enum { ADMIN_LINE_OWN_MAX = 12, ADMIN_LINE_PATH_ROOM = 4096 /* PATH_MAX, which realpath needs */ };

struct admin_line {
    const char *name; /* the command's */
    struct options options;
    struct options_line words;
    struct option_extra extras[ADMIN_FLAG_COUNT + ADMIN_LINE_OWN_MAX];
    struct option_extra *own; /* the command's flags, among extras */
    size_t n_own;
    struct admin_client *client;
};

/* Reads the command line; own are the command's flags beside the common ones. True: go on. False: *ret_code is the exit
 * code (help was printed, or a refusal). */
bool admin_line_read(struct admin_line *line, const char *name, size_t n_words, char *const *words,
                     const struct option_extra *own, size_t n_own, int *ret_code);
void admin_line_release(struct admin_line *line);
bool admin_line_has(const struct admin_line *line, enum admin_flag flag);

/* Asks, with the flags' epoch and dry run where the call takes them. True: ret_answer is the daemon's, mem_free its text; ret_json its
 * JSON, json_decref, where ret_json is not NULL. False: it is printed, and *ret_code is the exit code. */
bool admin_line_ask(struct admin_line *line, struct admin_question *question,
                    struct admin_answer *ret_answer, json_t **ret_json, int *ret_code);
/* Asks and prints the answer, as JSON or for a person below the headline (NULL: none). The exit code. */
int admin_line_do(struct admin_line *line, struct admin_question *question, const char *headline);
/* The whole path of a file that the daemon is to open; what names it in the refusal ("--set"). IO. */
enum status admin_line_path(const char *path, const char *what, char ret_path[ADMIN_LINE_PATH_ROOM],
                            struct why *ret_why) MUST_USE;
/* The members as {"reason": ...}: text for a body, mem_free; NULL if memory cannot be had. Steals object. */
char *admin_line_body(json_t *object) MUST_USE;

#endif
