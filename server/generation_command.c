/* generation_command.c: `foldkv publish`, `generations`, `forget` and `rollback`: what is done to generations as a whole. */
// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdlib.h>

#include "config/mem.h"
#include "server/admin_line.h"
#include "server/rollout_watch.h"
#include "server/admin_show.h"

static int no_memory(void)
{
    return command_complain(&(struct why){.text = "no memory for the request, or a text that is not UTF-8"});
}

/* NULL: not given. false: no number. */
static bool page_tokens_of(const char *text, json_t **ret_number)
{
    char *end = NULL;
    *ret_number = NULL;
    if (text == NULL)
        return true;
    errno = 0;
    long long n = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0)
        return false;
    *ret_number = json_integer(n); /* which of them is possible is the daemon's to say */
    return true;
}

static int publish(struct admin_line *line)
{
    json_t *page_tokens;
    char path[ADMIN_LINE_PATH_ROOM];
    struct why why = {0};
    if (admin_line_path(line->words.positionals[0], "the model file", path, &why) != OK)
        return command_complain(&why);
    char set[ADMIN_LINE_PATH_ROOM] = "";
    const char *eval = line->own[2].ret_value;
    if (eval != NULL && admin_line_path(eval, "--eval", set, &why) != OK)
        return command_complain(&why);
    if (!page_tokens_of(line->own[3].ret_value, &page_tokens)) {
        why_set(&why, STATUS_BAD_OPTION, "page-tokens", "--page-tokens is '%.40s': a whole number is right",
                line->own[3].ret_value);
        return command_complain(&why);
    }
    char *body = admin_line_body(json_pack("{s:s, s:s*, s:s*, s:s*, s:o*}", "path", path, "name", line->own[0].ret_value,
                                           "cache_type", line->own[1].ret_value, "eval", eval != NULL ? set : NULL,
                                           "page_tokens", page_tokens));
    if (body == NULL)
        return no_memory();
    struct admin_question q = {.op = ADMIN_GENERATION_PUBLISH, .body = body};
    int code = admin_line_do(line, &q, "published");
    mem_free(body);
    return code;
}

int publish_command(size_t n_words, char *const *words)
{
    const struct option_extra own[] = {
        {.flag = "name", .metavar = "NAME", .prose = "A name for it beside its id."},
        {.flag = "cache-type",
         .metavar = "TYPE",
         .prose = "K/V type of its cache: f16, f32 or int8; the daemon's if not given."},
        {.flag = "eval",
         .metavar = "FILE",
         .prose = "The set it will be evaluated with, JSON lines; the small one that ships if not given."},
        {.flag = "page-tokens",
         .metavar = "N",
         .prose = "Tokens of a page of its cache; 64 is the one size that there is."},
    };
    struct admin_line line;
    int code;
    if (!admin_line_read(&line, "publish", n_words, words, own, ARRAY_LEN(own), &code))
        return code;
    size_t n = line.words.n_positionals;
    code = n == 1 ? publish(&line)
                  : command_unknown("publish", n > 1 ? line.words.positionals[1] : NULL, "one model file");
    admin_line_release(&line);
    return code;
}

enum { SHORT_ID = 16, CELL_ROOM = 32 };

/* null where there are none. */
static json_t *mebibytes(const json_t *object, const char *key)
{
    char text[CELL_ROOM];
    double bytes = (double)json_integer_value(json_object_get(object, key));
    if (bytes <= 0)
        return json_null();
    snprintf(text, sizeof text, "%.1f MiB", bytes / 1048576.0);
    return json_string(text);
}

/* What a person looks for; the rest is in the JSON, and in the listing of one. */
static json_t *short_row(const json_t *generation)
{
    const json_t *lane = json_object_get(generation, "lane");
    const char *id = json_string_value(json_object_get(generation, "id"));
    bool is_loading = json_is_true(json_object_get(generation, "is_loading"));
    json_t *weights = mebibytes(generation, "weights_bytes");
    char short_id[SHORT_ID + 1];
    snprintf(short_id, sizeof short_id, "%s", id != NULL ? id : "");
    return json_pack("{s:s, s:O?, s:O?, s:O?, s:o, s:o, s:s}", "id", short_id, "name",
                     json_object_get(generation, "name"), "state", json_object_get(generation, "state"), "arm",
                     json_object_get(generation, "arm"), "pool", mebibytes(lane, "cache_bytes"), "weights",
                     weights, "memory",
                     is_loading              ? "loading"
                     : json_is_object(lane)  ? "loaded"
                     : json_is_null(weights) ? "-"
                                             : "weights");
}

static int list_generations(struct admin_line *line)
{
    struct admin_question q = {.op = ADMIN_GENERATION_LIST};
    struct admin_answer answer;
    json_t *found = NULL, *rows, *one;
    size_t i;
    int code;
    if (admin_line_has(line, ADMIN_FLAG_JSON))
        return admin_line_do(line, &q, NULL);
    if (!admin_line_ask(line, &q, &answer, &found, &code))
        return code;
    rows = json_array();
    json_array_foreach(json_object_get(found, "generations"), i, one)
        if (json_array_append_new(rows, short_row(one)) != 0)
            break;
    bool is_whole = i == json_array_size(json_object_get(found, "generations"));
    if (is_whole)
        admin_show_value(rows, 0, stdout);
    json_decref(rows);
    json_decref(found);
    mem_free(answer.text);
    if (!is_whole)
        return no_memory();
    return fflush(stdout) == 0 ? COMMAND_DONE : COMMAND_FAILED;
}

int generations_command(size_t n_words, char *const *words)
{
    struct admin_line line;
    int code;
    if (!admin_line_read(&line, "generations", n_words, words, NULL, 0, &code))
        return code;
    struct admin_question q = {.op = ADMIN_GENERATION_READ};
    if (line.words.n_positionals == 1)
        q.subject = line.words.positionals[0];
    if (line.words.n_positionals > 1)
        code = command_unknown("generations", line.words.positionals[1], "one id or name at most");
    else
        code = q.subject != NULL ? admin_line_do(&line, &q, NULL) : list_generations(&line);
    admin_line_release(&line);
    return code;
}

int forget_command(size_t n_words, char *const *words)
{
    struct admin_line line;
    int code;
    if (!admin_line_read(&line, "forget", n_words, words, NULL, 0, &code))
        return code;
    size_t n = line.words.n_positionals;
    if (n == 1) {
        struct admin_question q = {.op = ADMIN_GENERATION_FORGET, .subject = line.words.positionals[0]};
        code = admin_line_do(&line, &q, "forgotten");
    } else {
        code = command_unknown("forget", n > 1 ? line.words.positionals[1] : NULL, "one generation, its id or name");
    }
    admin_line_release(&line);
    return code;
}

int rollback_command(size_t n_words, char *const *words)
{
    const struct option_extra own[] = {
        {.flag = "reason", .metavar = "TEXT", .prose = "What the audit says of it."},
    };
    struct admin_line line;
    int code;
    if (!admin_line_read(&line, "rollback", n_words, words, own, ARRAY_LEN(own), &code))
        return code;
    char *body = admin_line_body(json_pack("{s:s, s:s*}", "to", "previous", "reason", line.own[0].ret_value));
    struct admin_question q = {.op = ADMIN_ROLLBACK, .body = body};
    if (line.words.n_positionals != 0)
        code = command_unknown("rollback", line.words.positionals[0], "no words and goes to the previous generation");
    else
        code = body != NULL ? rollout_watch_answer(&line, &q, "rolled back") : no_memory();
    mem_free(body);
    admin_line_release(&line);
    return code;
}
