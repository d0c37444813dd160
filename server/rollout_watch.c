/* rollout_watch.c: a rollout's status, asked for again and again.
 *
 * HOW     Each second the whole status is asked for. On a terminal it replaces what stood there; into a file or a pipe it is
 *         written when something that a person acts on has changed: state, step, reason or a gate's verdict.
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/rollout_watch.h"

#include <time.h>
#include <unistd.h>

#include "config/mem.h"
#include "server/rollout_screen.h"

enum { CHANGES_ROOM = 512, ROLLBACK_POLL_NS = 50000000 };

static bool has_ended(enum rollout_state state)
{
    return state == ROLLOUT_PROMOTED || state == ROLLOUT_ROLLED_BACK || state == ROLLOUT_BLOCKED ||
           state == ROLLOUT_REJECTED || state == ROLLOUT_STATE_COUNT;
}

/* What a person acts on, as one text to compare. */
static void digest(const json_t *status, char ret_digest[CHANGES_ROOM])
{
    const json_t *now = json_object_get(status, "now"), *gates = json_object_get(status, "gates");
    size_t i, len = (size_t)snprintf(ret_digest, CHANGES_ROOM, "%.32s %lld %.32s", rollout_screen_text(now, "state"),
                                     (long long)json_integer_value(json_object_get(now, "step")),
                                     rollout_screen_text(now, "reason"));
    json_t *gate;
    json_array_foreach(gates, i, gate)
        if (len < CHANGES_ROOM)
            len += (size_t)snprintf(ret_digest + len, CHANGES_ROOM - len, " %.12s",
                                    rollout_screen_text(gate, "verdict"));
}

static void show(const struct admin_line *line, const struct admin_answer *answer, const json_t *status,
                 bool is_terminal)
{
    if (admin_line_has(line, ADMIN_FLAG_JSON))
        printf("%s\n", answer->text != NULL ? answer->text : "{}");
    else
        rollout_screen_print(status, is_terminal, stdout);
}

static int watch(struct admin_line *line, struct admin_question *q)
{
    char before[CHANGES_ROOM] = "", now[CHANGES_ROOM];
    bool is_terminal = isatty(STDOUT_FILENO) == 1 && !admin_line_has(line, ADMIN_FLAG_JSON);
    for (;;) {
        struct admin_answer answer;
        json_t *status = NULL;
        int code;
        if (!admin_line_ask(line, q, &answer, &status, &code))
            return code;
        digest(status, now);
        if (is_terminal)
            printf("\033[H\033[2J");
        if (is_terminal || strcmp(before, now) != 0)
            show(line, &answer, status, is_terminal);
        enum rollout_state state = rollout_screen_state(status);
        memcpy(before, now, sizeof before);
        json_decref(status);
        mem_free(answer.text);
        if (fflush(stdout) != 0 || has_ended(state))
            return state == ROLLOUT_PROMOTED ? COMMAND_DONE : COMMAND_FAILED;
        (void)nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    }
}

int rollout_watch(struct admin_line *line, const char *id, bool is_live)
{
    struct admin_question q = {.op = ADMIN_ROLLOUT_READ, .subject = id};
    struct admin_answer answer;
    json_t *status = NULL;
    int code;
    if (is_live)
        return watch(line, &q);
    if (!admin_line_ask(line, &q, &answer, &status, &code))
        return code;
    show(line, &answer, status, false);
    json_decref(status);
    mem_free(answer.text);
    return fflush(stdout) == 0 ? COMMAND_DONE : COMMAND_FAILED;
}

/* Asks until the rollback that has begun is over. False: printed, *ret_code. */
static bool await_rollback(struct admin_line *line, struct admin_answer *answer, json_t **status, int *ret_code)
{
    while (rollout_screen_state(*status) == ROLLOUT_ROLLING_BACK) {
        char id[ADMIN_SUBJECT_ROOM];
        snprintf(id, sizeof id, "%s", rollout_screen_text(*status, "id"));
        struct admin_question q = {.op = ADMIN_ROLLOUT_READ, .subject = id};
        json_decref(*status);
        mem_free(answer->text);
        *status = NULL;
        (void)nanosleep(&(struct timespec){.tv_nsec = ROLLBACK_POLL_NS}, NULL);
        if (!admin_line_ask(line, &q, answer, status, ret_code))
            return false;
    }
    return true;
}

int rollout_watch_answer(struct admin_line *line, struct admin_question *q, const char *headline)
{
    struct admin_answer answer;
    json_t *status = NULL;
    int code;
    if (!admin_line_ask(line, q, &answer, &status, &code) || !await_rollback(line, &answer, &status, &code))
        return code;
    bool is_blocked = rollout_screen_state(status) == ROLLOUT_BLOCKED;
    if (!is_blocked && !admin_line_has(line, ADMIN_FLAG_JSON))
        printf("%s%s\n", headline, q->is_dry_run ? " (a dry run: nothing was changed)" : "");
    if (!q->is_dry_run || admin_line_has(line, ADMIN_FLAG_JSON))
        show(line, &answer, status, false);
    if (is_blocked)
        fprintf(stderr, "foldkv: the rollback is blocked: %s\n", rollout_screen_text(status, "note"));
    json_decref(status);
    mem_free(answer.text);
    return fflush(stdout) == 0 && !is_blocked ? COMMAND_DONE : COMMAND_FAILED;
}
