/* rollout_watch.c: the state of a rollout, redrawn.
 *
 * HOW     Each second the whole status is asked for. On a terminal it replaces what stood there; into a file or a pipe it is
 *         written when something that a person acts on has changed: state, step, reason or a gate's verdict.
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/rollout_watch.h"

#include <time.h>
#include <unistd.h>

#include "config/mem.h"
#include "sched/rollout.h"
#include "server/admin_show.h"

enum { CHANGES_ROOM = 512 };

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

static bool is_state(const json_t *status, enum rollout_state state)
{
    return strcmp(text_of(status, "state"), rollout_state_name(state)) == 0;
}

static bool has_ended(const json_t *status)
{
    return is_state(status, ROLLOUT_PROMOTED) || is_state(status, ROLLOUT_ROLLED_BACK) ||
           is_state(status, ROLLOUT_BLOCKED) || is_state(status, ROLLOUT_REJECTED);
}

/* What a person acts on, as one text to compare. */
static void digest(const json_t *status, char ret_digest[CHANGES_ROOM])
{
    size_t len = (size_t)snprintf(ret_digest, CHANGES_ROOM, "%s %lld %s", text_of(status, "state"),
                                  (long long)json_integer_value(json_object_get(status, "step")),
                                  text_of(status, "reason"));
    const json_t *gates = json_object_get(status, "gates");
    size_t i;
    json_t *gate;
    json_array_foreach(gates, i, gate)
        if (len < CHANGES_ROOM)
            len += (size_t)snprintf(ret_digest + len, CHANGES_ROOM - len, " %.12s", text_of(gate, "verdict"));
}

static void show(const struct admin_line *line, const struct admin_answer *answer, const json_t *status)
{
    if (admin_line_has(line, ADMIN_FLAG_JSON))
        printf("%s%s", answer->text, answer->text[answer->len - 1] == '\n' ? "" : "\n");
    else
        admin_show_value(status, 0, stdout);
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
            show(line, &answer, status);
        bool is_over = has_ended(status) || fflush(stdout) != 0;
        code = is_state(status, ROLLOUT_PROMOTED) ? COMMAND_DONE : COMMAND_FAILED;
        memcpy(before, now, sizeof before);
        json_decref(status);
        mem_free(answer.text);
        if (is_over)
            return code;
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
    show(line, &answer, status);
    json_decref(status);
    mem_free(answer.text);
    return fflush(stdout) == 0 ? COMMAND_DONE : COMMAND_FAILED;
}
