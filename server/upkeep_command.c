/* upkeep_command.c: `foldkv drain`, `freeze`, `fence` and `purge`: what is done to a running daemon as a whole.
 *
 * HOW     Each is one call of the admin API: a row says how many words it takes and how they become the call's subject or body.
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/mem.h"
#include "server/admin_line.h"

struct deed {
    const char *name;
    enum admin_op op;
    size_t least, most; /* words */
    const char *needs;  /* what it takes, for one that called it wrongly */
    const char *headline;
};

enum { DRAIN, FREEZE, FENCE, PURGE };

static const struct deed deeds[] = {
    [DRAIN] = {"drain", ADMIN_DRAIN, 0, 0, "no words", "draining"},
    [FREEZE] = {"freeze", ADMIN_FREEZE, 1, 1, "one word, on or off", NULL},
    [FENCE] = {"fence", ADMIN_NAMESPACE_FENCE, 1, 1, "one namespace, its 64 hex digits", "fenced"},
    [PURGE] = {"purge", ADMIN_CACHE_PURGE, 0, 1, "one generation at most, its id or name", "purged"},
};

static int ask(struct admin_line *line, const struct deed *deed, const char *subject, json_t *object)
{
    struct admin_question q = {.op = deed->op, .subject = subject};
    char *body = NULL;
    if (object != NULL && (body = admin_line_body(object)) == NULL)
        return command_complain(&(struct why){.text = "no memory for the request, or a text that is not UTF-8"});
    q.body = body;
    int code = admin_line_do(line, &q, deed->headline);
    mem_free(body);
    return code;
}

static int run(const struct deed *deed, size_t n_words, char *const *words)
{
    struct admin_line line;
    int code;
    if (!admin_line_read(&line, deed->name, n_words, words, NULL, 0, &code))
        return code;
    size_t n = line.words.n_positionals;
    const char *word = n > 0 ? line.words.positionals[0] : NULL;
    bool is_on = word != NULL && strcmp(word, "on") == 0;
    if (n < deed->least || n > deed->most ||
        (deed->op == ADMIN_FREEZE && !is_on && strcmp(word, "off") != 0))
        code = command_unknown(deed->name, n > 0 ? line.words.positionals[n > deed->most ? deed->most : 0] : NULL,
                               deed->needs);
    else if (deed->op == ADMIN_FREEZE)
        code = ask(&line, deed, NULL, json_pack("{s:b}", "frozen", is_on));
    else if (deed->op == ADMIN_CACHE_PURGE && word != NULL)
        code = ask(&line, deed, NULL, json_pack("{s:s}", "generation", word));
    else
        code = ask(&line, deed, word, NULL);
    admin_line_release(&line);
    return code;
}

int drain_command(size_t n_words, char *const *words)
{
    return run(&deeds[DRAIN], n_words, words);
}

int freeze_command(size_t n_words, char *const *words)
{
    return run(&deeds[FREEZE], n_words, words);
}

int fence_command(size_t n_words, char *const *words)
{
    return run(&deeds[FENCE], n_words, words);
}

int purge_command(size_t n_words, char *const *words)
{
    return run(&deeds[PURGE], n_words, words);
}
