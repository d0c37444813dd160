/* generation_command.c: `foldkv publish`, `generations`, `forget` and `rollback`: what is done to generations as a whole. */
// SPDX-License-Identifier: Apache-2.0
#include "config/mem.h"
#include "server/admin_line.h"

static int no_memory(void)
{
    return command_complain(&(struct why){.text = "no memory for the request, or a text that is not UTF-8"});
}

static int publish(struct admin_line *line)
{
    char path[ADMIN_LINE_PATH_ROOM];
    struct why why = {0};
    if (admin_line_path(line->words.positionals[0], "", path, &why) != OK)
        return command_complain(&why);
    char set[ADMIN_LINE_PATH_ROOM] = "";
    const char *eval = line->own[2].ret_value;
    if (eval != NULL && admin_line_path(eval, "eval", set, &why) != OK)
        return command_complain(&why);
    char *body = admin_line_body(json_pack("{s:s, s:s*, s:s*, s:s*}", "path", path, "name", line->own[0].ret_value,
                                           "cache_type", line->own[1].ret_value, "eval", eval != NULL ? set : NULL));
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
    };
    struct admin_line line;
    int code;
    if (!admin_line_read(&line, "publish", n_words, words, own, ARRAY_LEN(own), &code))
        return code;
    code = line.words.n_positionals == 1 ? publish(&line)
                                         : command_misused("publish", "publish takes one model file");
    admin_line_release(&line);
    return code;
}

int generations_command(size_t n_words, char *const *words)
{
    struct admin_line line;
    int code;
    if (!admin_line_read(&line, "generations", n_words, words, NULL, 0, &code))
        return code;
    struct admin_question q = {.op = ADMIN_GENERATION_LIST};
    if (line.words.n_positionals == 1)
        q = (struct admin_question){.op = ADMIN_GENERATION_READ, .subject = line.words.positionals[0]};
    code = line.words.n_positionals <= 1
               ? admin_line_do(&line, &q, NULL)
               : command_misused("generations", "generations takes one id or name at most");
    admin_line_release(&line);
    return code;
}

int forget_command(size_t n_words, char *const *words)
{
    struct admin_line line;
    int code;
    if (!admin_line_read(&line, "forget", n_words, words, NULL, 0, &code))
        return code;
    if (line.words.n_positionals == 1) {
        struct admin_question q = {.op = ADMIN_GENERATION_FORGET, .subject = line.words.positionals[0]};
        code = admin_line_do(&line, &q, "forgotten");
    } else {
        code = command_misused("forget", "forget takes a generation: its id or name");
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
        code = command_misused("rollback", "rollback takes no words: it goes to the previous generation");
    else
        code = body != NULL ? admin_line_do(&line, &q, "rolled back") : no_memory();
    mem_free(body);
    admin_line_release(&line);
    return code;
}
