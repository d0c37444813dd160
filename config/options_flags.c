/* options_flags.c: options from the command line.
 *
 * HOW     A word that starts with two dashes is a flag, until a word that is only "--"; a flag's
 *         value follows "=" or is the next word. What is left over is positional. The table's
 *         flags, the command's extras, --config and --help are known; nothing may be shortened, so
 *         that a flag added later cannot change what an old line means.
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/options_priv.h"

/* One flag as written, and the words behind it. */
struct reading {
    struct slice name;  /* without the dashes and without "=value" */
    const char *equals; /* the text after "=", or NULL */
    char *const *next;  /* the word behind, if there is one */
    size_t n_left;      /* words behind */
    bool is_next_used;
    char where[OPTION_NAME_MAX];
};

static bool slice_is(struct slice s, const char *text)
{
    return s.len == strlen(text) && memcmp(s.bytes, text, s.len) == 0;
}

static const struct option *find_flag(struct slice name)
{
    for (size_t i = 0; i < option_count; i++) {
        char known[OPTION_NAME_MAX];
        option_flag_name(&option_rows[i], known);
        if (slice_is(name, known))
            return &option_rows[i];
        if (option_rows[i].flag[0] != '\0' && slice_is(name, option_rows[i].flag))
            return &option_rows[i];
    }
    return NULL;
}

static enum status value_of(struct reading *flag, const char *kind, const char **ret_value,
                            struct why *ret_why)
{
    if (flag->equals != NULL) {
        *ret_value = flag->equals;
        return OK;
    }
    if (flag->n_left == 0)
        return why_set(ret_why, STATUS_BAD_OPTION, flag->where, "%s: a value must follow: %s",
                       flag->where, kind);
    flag->is_next_used = true;
    *ret_value = *flag->next;
    return OK;
}

static enum status read_extra(struct option_extra *extra, struct reading *flag, struct why *ret_why)
{
    if (extra->metavar != NULL)
        return value_of(flag, extra->metavar, &extra->ret_value, ret_why);
    if (flag->equals != NULL)
        return why_set(ret_why, STATUS_BAD_OPTION, flag->where,
                       "%s: takes no value, found \"%.64s\"", flag->where, flag->equals);
    extra->ret_value = "";
    return OK;
}

static enum status read_flag(unsigned users, struct options *options, struct reading *flag,
                             struct option_extra *extras, size_t n_extras,
                             struct options_line *line, struct why *ret_why)
{
    for (size_t i = 0; i < n_extras; i++) {
        if (slice_is(flag->name, extras[i].flag))
            return read_extra(&extras[i], flag, ret_why);
    }
    if (users != 0 && slice_is(flag->name, "config"))
        return value_of(flag, "the path of a file", &line->config_path, ret_why);
    const struct option *option = find_flag(flag->name);
    if (option == NULL)
        return why_set(ret_why, STATUS_BAD_OPTION, flag->where, "%s: no such option; see --help",
                       flag->where);
    if ((option->users & users) == 0)
        return why_set(ret_why, STATUS_BAD_OPTION, flag->where,
                       "%s: another command's option; see --help", flag->where);
    char range[OPTION_TEXT_MAX];
    option_range_text(option, range);
    const char *value = NULL;
    TRY(value_of(flag, range, &value, ret_why));
    return option_set(options, option, (struct slice){value, strlen(value)}, flag->where, ret_why);
}

static enum status take_positional(struct options_line *line, const char *word, struct why *ret_why)
{
    if (line->n_positionals == OPTIONS_POSITIONALS_MAX)
        return why_set(ret_why, STATUS_BAD_OPTION, "", "\"%.64s\": more than %d arguments", word,
                       (int)OPTIONS_POSITIONALS_MAX);
    line->positionals[line->n_positionals++] = word;
    return OK;
}

static bool asks_for_help(size_t n_words, char *const *words)
{
    for (size_t i = 0; i < n_words && strcmp(words[i], "--") != 0; i++) {
        if (strcmp(words[i], "--help") == 0 || strcmp(words[i], "-h") == 0)
            return true;
    }
    return false;
}

static struct reading reading_of(const char *word, char *const *next, size_t n_left)
{
    size_t len = strcspn(word + 2, "=");
    struct reading flag = {
        .name = {word + 2, len},
        .equals = word[2 + len] == '=' ? word + 2 + len + 1 : NULL,
        .next = next,
        .n_left = n_left,
    };
    snprintf(flag.where, sizeof flag.where, "--%.*s", len > 80 ? 80 : (int)len, flag.name.bytes);
    return flag;
}

enum status options_read_flags(unsigned users, struct options *options, size_t n_words,
                               char *const *words, struct option_extra *extras, size_t n_extras,
                               struct options_line *ret_line, struct why *ret_why)
{
    *ret_line = (struct options_line){.is_help = asks_for_help(n_words, words)};
    if (ret_line->is_help)
        return OK;
    bool is_over = false; /* behind "--" */
    for (size_t i = 0; i < n_words; i++) {
        const char *word = words[i];
        bool is_short = word[0] == '-' && word[1] != '-' && word[1] != '\0';
        if (!is_over && strcmp(word, "--") == 0) {
            is_over = true;
        } else if (is_over || word[0] != '-' || word[1] == '\0') {
            TRY(take_positional(ret_line, word, ret_why));
        } else if (is_short) {
            return why_set(ret_why, STATUS_BAD_OPTION, "", "%.64s: no such option; see --help",
                           word);
        } else {
            struct reading flag = reading_of(word, words + i + 1, n_words - i - 1);
            TRY(read_flag(users, options, &flag, extras, n_extras, ret_line, ret_why));
            i += flag.is_next_used;
        }
    }
    return OK;
}
