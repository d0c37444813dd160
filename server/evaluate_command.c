/* evaluate_command.c: `foldkv evaluate`: starts a candidate's evaluation, shows how far it is, and waits for the verdict.
 *
 * HOW     The daemon goes on by itself: who interrupts this command interrupts nothing, --follow comes back to what runs, and
 *         --cancel ends it.
 */
// SPDX-License-Identifier: Apache-2.0
#include <time.h>
#include <unistd.h>

#include "config/mem.h"
#include "server/admin_line.h"
#include "server/rollout_screen.h"

enum flag { SET, TERMS, FOLLOW, CANCEL, FLAG_COUNT };
enum { TERMS_BYTES_MAX = 1 << 16, POLL_MS = 300 };

static const struct option_extra flags[FLAG_COUNT] = {
    [SET] = {.flag = "set",
             .metavar = "FILE",
             .prose = "Require this evaluation set: the one that the generation was published with."},
    [TERMS] = {.flag = "terms",
               .metavar = "FILE",
               .prose = "JSON with matrix, thresholds, repetitions, repetitions_max, warmup_runs; each has a default."},
    [FOLLOW] = {.flag = "follow", .prose = "Start nothing: show the evaluation that runs, or ran last."},
    [CANCEL] = {.flag = "cancel", .prose = "End the evaluation that runs, without a verdict."},
};

static json_t *read_terms(const char *path, struct why *ret_why)
{
    json_error_t error = {.line = -1};
    json_t *terms = path != NULL ? json_load_file(path, JSON_REJECT_DUPLICATES, &error) : json_object();
    if (json_is_object(terms))
        return terms;
    if (terms != NULL)
        (void)why_set(ret_why, STATUS_BAD_OPTION, "terms", "--terms %.128s: a JSON object is needed", path);
    else if (error.line > 0)
        (void)why_set(ret_why, STATUS_BAD_OPTION, "terms", "--terms %.128s: line %d: %.100s; a JSON object is needed",
                      path, error.line, error.text);
    else
        (void)why_set(ret_why, STATUS_BAD_OPTION, "terms", "--terms %.128s: %s", path,
                      path != NULL ? error.text : "no memory");
    json_decref(terms);
    return NULL;
}

static char *write_body(const struct admin_line *line, struct why *ret_why)
{
    char path[ADMIN_LINE_PATH_ROOM] = "";
    const char *set = line->own[SET].ret_value;
    if (set != NULL && admin_line_path(set, "--set", path, ret_why) != OK)
        return NULL;
    json_t *body = read_terms(line->own[TERMS].ret_value, ret_why);
    if (body == NULL)
        return NULL;
    bool is_set = set == NULL || json_object_set_new(body, "set", json_string(path)) == 0;
    char *text = admin_line_body(body);
    if (text != NULL && is_set)
        return text;
    mem_free(text);
    (void)why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the request, or a path that is not UTF-8");
    return NULL;
}

/* One line that is written over on a terminal. */
static void show_progress(const json_t *found)
{
    const json_t *p = json_object_get(found, "progress"), *cell = json_object_get(p, "cell");
    fprintf(stderr, "\r\033[K%s: %lld of at most %lld requests, repetition %lld, context %lld, %lld active",
            rollout_screen_text(p, "stage"), (long long)json_integer_value(json_object_get(p, "requests_done")),
            (long long)json_integer_value(json_object_get(p, "requests_most")),
            (long long)json_integer_value(json_object_get(p, "repetition")),
            (long long)json_integer_value(json_object_get(cell, "context")),
            (long long)json_integer_value(json_object_get(cell, "active_requests")));
    fflush(stderr);
}

/* Measured, every gate passed, and warmed. */
static bool has_passed(const json_t *found)
{
    const char *state = rollout_screen_text(found, "state");
    bool is_behind = strcmp(state, "evaluated") != 0 && strcmp(state, "ready") != 0 && strcmp(state, "rejected") != 0;
    return is_behind && json_is_true(json_object_get(json_object_get(found, "evaluation"), "passes"));
}

static long long axis_value(const json_t *matrix, const char *axis, size_t i)
{
    return (long long)json_integer_value(json_array_get(json_object_get(matrix, axis), i));
}

/* Cells are numbered query lengths quickest, contexts slowest. */
static void show_failed_cells(const json_t *receipt)
{
    const json_t *matrix = json_object_get(receipt, "matrix");
    size_t n_queries = json_array_size(json_object_get(matrix, "query_lengths")),
           n_active = json_array_size(json_object_get(matrix, "active_requests")), i;
    json_t *failure;
    json_array_foreach(json_object_get(receipt, "cells_failed"), i, failure) {
        size_t cell = (size_t)json_integer_value(json_object_get(failure, "cell"));
        if (n_queries == 0 || n_active == 0)
            return;
        printf("failed      context %lld, %lld active, query %lld: %s\n",
               axis_value(matrix, "contexts", cell / n_queries / n_active),
               axis_value(matrix, "active_requests", cell / n_queries % n_active),
               axis_value(matrix, "query_lengths", cell % n_queries), rollout_screen_text(failure, "why"));
    }
}

static void show_failed_gates(const json_t *receipt)
{
    size_t i;
    json_t *gate;
    json_array_foreach(json_object_get(receipt, "gates"), i, gate)
        if (strcmp(rollout_screen_text(gate, "verdict"), "pass") != 0)
            printf("not passed  gate %s: %s (%s)\n", rollout_screen_text(gate, "gate"),
                   rollout_screen_text(gate, "verdict"), rollout_screen_text(gate, "figures"));
}

static const char *verdict_of(const json_t *found)
{
    const char *ended = rollout_screen_text(found, "ended");
    if (has_passed(found))
        return "passed: it may be rolled out";
    if (ended[0] != '\0')
        return ended;
    return json_is_object(json_object_get(found, "evaluation"))
               ? "not passed"
               : "the run said nothing of it; the daemon's log has the reason";
}

static void show_verdict(const json_t *found)
{
    const json_t *receipt = json_object_get(found, "evaluation"), *cells = json_object_get(receipt, "cells");
    size_t i, n_passed = 0;
    json_t *cell;
    json_array_foreach(cells, i, cell)
        n_passed += json_is_true(cell);
    rollout_screen_gates(json_object_get(receipt, "gates"), false, stdout);
    printf("\ncells       %zu of %zu passed\n", n_passed, json_array_size(cells));
    show_failed_cells(receipt);
    if (!has_passed(found))
        show_failed_gates(receipt);
    printf("manifest    %s\ngeneration  %s\nstate       %s\n%s\n", rollout_screen_text(receipt, "manifest_sha256"),
           rollout_screen_text(found, "id"), rollout_screen_text(found, "state"), verdict_of(found));
}

/* Until the evaluation is over. */
static int follow(struct admin_line *line, const char *id)
{
    struct admin_question q = {.op = ADMIN_EVALUATION_READ, .subject = id};
    bool is_terminal = isatty(STDERR_FILENO) == 1;
    for (;;) {
        struct admin_answer answer;
        json_t *found = NULL;
        int code;
        if (!admin_line_ask(line, &q, &answer, &found, &code))
            return code;
        bool is_running = json_is_true(json_object_get(found, "is_running"));
        if (is_running && is_terminal)
            show_progress(found);
        if (!is_running && is_terminal)
            fprintf(stderr, "\r\033[K");
        if (!is_running && admin_line_has(line, ADMIN_FLAG_JSON))
            printf("%s\n", answer.text);
        else if (!is_running)
            show_verdict(found);
        code = has_passed(found) ? COMMAND_DONE : COMMAND_FAILED;
        json_decref(found);
        mem_free(answer.text);
        if (!is_running)
            return fflush(stdout) == 0 ? code : COMMAND_FAILED;
        (void)nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000L}, NULL);
    }
}

/* Until it does not run any more. Not cancelled: it had ended by itself. */
static int await_cancelled(struct admin_line *line, const char *id)
{
    struct admin_question q = {.op = ADMIN_EVALUATION_READ, .subject = id};
    for (bool is_running = true, has_ended = false;;) {
        struct admin_answer answer;
        json_t *found = NULL;
        int code;
        if (!admin_line_ask(line, &q, &answer, &found, &code))
            return code;
        is_running = json_is_true(json_object_get(found, "is_running"));
        has_ended = has_passed(found);
        if (!is_running && admin_line_has(line, ADMIN_FLAG_JSON))
            printf("%s\n", answer.text);
        else if (!is_running && !has_ended)
            printf("cancelled\ngeneration  %s\nstate       %s\n", rollout_screen_text(found, "id"),
                   rollout_screen_text(found, "state"));
        json_decref(found);
        mem_free(answer.text);
        if (!is_running && has_ended)
            return command_complain(&(struct why){.text = "--cancel came too late: the evaluation has passed"});
        if (!is_running)
            return fflush(stdout) == 0 ? COMMAND_DONE : COMMAND_FAILED;
        (void)nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000L}, NULL);
    }
}

static int cancel(struct admin_line *line, const char *id)
{
    struct admin_question q = {.op = ADMIN_EVALUATION_CANCEL, .subject = id};
    struct admin_answer answer = {0};
    int code;
    if (admin_line_has(line, ADMIN_FLAG_DRY_RUN))
        return admin_line_do(line, &q, "can be cancelled");
    if (!admin_line_ask(line, &q, &answer, NULL, &code))
        return code;
    mem_free(answer.text);
    return await_cancelled(line, id);
}

static int evaluate(struct admin_line *line)
{
    struct why why = {0};
    struct admin_answer answer = {0};
    const char *id = line->words.positionals[0];
    int code;
    if (line->own[CANCEL].ret_value != NULL)
        return cancel(line, id);
    if (line->own[FOLLOW].ret_value != NULL)
        return follow(line, id);
    char *body = write_body(line, &why);
    if (body == NULL)
        return command_complain(&why);
    struct admin_question q = {.op = ADMIN_GENERATION_EVALUATE, .subject = id, .body = body};
    if (admin_line_has(line, ADMIN_FLAG_DRY_RUN))
        code = admin_line_do(line, &q, "can be evaluated");
    else
        code = admin_line_ask(line, &q, &answer, NULL, &code) ? follow(line, id) : code;
    mem_free(answer.text);
    mem_free(body);
    return code;
}

int evaluate_command(size_t n_words, char *const *words)
{
    struct admin_line line;
    int code;
    if (!admin_line_read(&line, "evaluate", n_words, words, flags, FLAG_COUNT, &code))
        return code;
    code = line.words.n_positionals == 1
               ? evaluate(&line)
               : command_unknown("evaluate", line.words.n_positionals > 1 ? line.words.positionals[1] : NULL,
                                 "one generation, its id or name");
    admin_line_release(&line);
    return code;
}
