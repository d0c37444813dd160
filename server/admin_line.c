/* admin_line.c: the common part of the commands that ask a daemon. */
// SPDX-License-Identifier: Apache-2.0
#include "server/admin_line.h"

#include <errno.h>
#include <limits.h>

#include "config/mem.h"
#include "server/admin_show.h"

extern char **environ;

enum { TIMEOUT_S = 3600, TIMEOUT_MAX_S = 86400 };

static const struct option_extra common[ADMIN_FLAG_COUNT] = {
    [ADMIN_FLAG_STATE] = {.flag = "state",
                          .metavar = "DIR",
                          .prose = "The daemon's state directory: it is asked at DIR/admin.sock."},
    [ADMIN_FLAG_ADMIN] = {.flag = "admin",
                          .metavar = "PLACE",
                          .prose = "Where the daemon's admin API listens: unix:PATH, http://HOST:PORT or https://HOST:PORT."},
    [ADMIN_FLAG_KEY_FILE] = {.flag = "admin-key-file",
                             .metavar = "FILE",
                             .prose = "The key for that place: the file's first line."},
    [ADMIN_FLAG_JSON] = {.flag = "json", .prose = "The daemon's JSON instead of text."},
    [ADMIN_FLAG_TIMEOUT] = {.flag = "timeout",
                            .metavar = "SECONDS",
                            .prose = "Longest time for one answer; 3600 if not given."},
    [ADMIN_FLAG_DRY_RUN] = {.flag = "dry-run",
                            .prose = "Let the daemon check everything and change nothing."},
    [ADMIN_FLAG_EPOCH] = {.flag = "epoch",
                          .metavar = "N",
                          .prose = "Only if the release epoch is still N; without it, as it is now."},
};

bool admin_line_has(const struct admin_line *line, enum admin_flag flag)
{
    return line->extras[flag].ret_value != NULL;
}

static enum status connect_line(struct admin_line *line, struct why *ret_why)
{
    uint64_t timeout_s = TIMEOUT_S, epoch;
    struct admin_place place = {.target = line->extras[ADMIN_FLAG_ADMIN].ret_value,
                                .state_dir = line->extras[ADMIN_FLAG_STATE].ret_value,
                                .key_path = line->extras[ADMIN_FLAG_KEY_FILE].ret_value};
    if (admin_line_has(line, ADMIN_FLAG_TIMEOUT))
        TRY(command_number(&line->extras[ADMIN_FLAG_TIMEOUT], 1, TIMEOUT_MAX_S, &timeout_s, ret_why));
    if (admin_line_has(line, ADMIN_FLAG_EPOCH))
        TRY(command_number(&line->extras[ADMIN_FLAG_EPOCH], 0, INT64_MAX / 16, &epoch, ret_why));
    place.timeout_s = (uint32_t)timeout_s;
    return admin_client_new(&place, &line->client, ret_why);
}

bool admin_line_read(struct admin_line *line, const char *name, size_t n_words, char *const *words,
                     const struct option_extra *own, size_t n_own, int *ret_code)
{
    struct why why = {0};
    size_t n = ADMIN_FLAG_COUNT + n_own;
    ASSERT(n_own <= ADMIN_LINE_OWN_MAX);
    line->name = name;
    line->client = NULL;
    line->own = line->extras + ADMIN_FLAG_COUNT;
    line->n_own = n_own;
    memcpy(line->extras, common, sizeof common);
    if (n_own > 0)
        memcpy(line->own, own, n_own * sizeof *own);
    enum status s =
        options_load(0, n_words, words, environ, line->extras, n, &line->options, &line->words, &why);
    if (s != OK)
        *ret_code = command_failed(s, &why);
    else if (line->words.is_help)
        *ret_code = command_print_help(name, line->extras, n, 0);
    else
        return true;
    return false;
}

void admin_line_release(struct admin_line *line)
{
    admin_client_free(&line->client);
}

static bool parse(const struct admin_answer *answer, json_t **ret_json, struct why *ret_why)
{
    json_error_t error = {0};
    *ret_json = answer->len > 0 ? json_loadb(answer->text, answer->len, JSON_REJECT_DUPLICATES, &error)
                                : json_object();
    if (*ret_json == NULL)
        (void)why_set(ret_why, STATUS_INTERNAL, "", "the daemon's answer is no JSON: %s", error.text);
    return *ret_json != NULL;
}

bool admin_line_ask(struct admin_line *line, struct admin_question *q, struct admin_answer *ret_answer,
                    json_t **ret_json, int *ret_code)
{
    struct why why = {0};
    *ret_answer = (struct admin_answer){0};
    enum status s = line->client == NULL ? connect_line(line, &why) : OK;
    if (s != OK) {
        *ret_code = command_failed(s, &why);
        return false;
    }
    if (admin_route(q->op)->epoch != ADMIN_EPOCH_NONE) {
        q->is_dry_run = admin_line_has(line, ADMIN_FLAG_DRY_RUN);
        q->epoch = line->extras[ADMIN_FLAG_EPOCH].ret_value;
    }
    s = admin_client_ask(line->client, q, ret_answer, &why);
    if (s == OK && (ret_json == NULL || parse(ret_answer, ret_json, &why)))
        return true;
    if (admin_line_has(line, ADMIN_FLAG_JSON) && ret_answer->text != NULL)
        printf("%s\n", ret_answer->text);
    else if (ret_answer->text != NULL)
        admin_show_detail(ret_answer->text, ret_answer->len, stderr);
    *ret_code = command_complain(&why);
    mem_free(ret_answer->text);
    ret_answer->text = NULL;
    return false;
}

int admin_line_do(struct admin_line *line, struct admin_question *q, const char *headline)
{
    struct admin_answer answer;
    json_t *json = NULL;
    int code;
    if (!admin_line_ask(line, q, &answer, &json, &code))
        return code;
    if (admin_line_has(line, ADMIN_FLAG_JSON)) {
        printf("%s\n", answer.text != NULL ? answer.text : "{}");
    } else {
        if (headline != NULL)
            printf("%s%s\n", headline, q->is_dry_run ? " (a dry run: nothing was changed)" : "");
        admin_show_value(json, 0, stdout);
    }
    json_decref(json);
    mem_free(answer.text);
    return fflush(stdout) == 0 ? COMMAND_DONE : COMMAND_FAILED;
}

char *admin_line_body(json_t *object)
{
    char *text = json_dumps(object, JSON_COMPACT);
    json_decref(object);
    return text;
}

enum status admin_line_path(const char *path, const char *what, char ret_path[ADMIN_LINE_PATH_ROOM],
                            struct why *ret_why)
{
    _Static_assert((int)ADMIN_LINE_PATH_ROOM >= PATH_MAX, "realpath fills PATH_MAX bytes");
    if (realpath(path, ret_path) != NULL)
        return OK;
    return why_set(ret_why, STATUS_IO, what, "%s %.200s cannot be found: %s", what, path, strerror(errno));
}
