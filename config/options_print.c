/* options_print.c: the option table as text: help, example file, reference page, dump, fuzzer's
 * dictionary.
 *
 * WHY     Each is a walk over the same rows, so none can fall behind; a test compares the two that
 *         are committed.
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/options_priv.h"

#include "config/mem.h"
#include "config/text_buf.h"

enum { TEXT_MAX = 1 << 20, COLUMN = 100 };

/* Adds prose wrapped at COLUMN, each line behind indent. */
static void add_wrapped(struct text_buf *out, const char *indent, const char *prose)
{
    size_t column = 0;
    for (const char *word = prose; *word != '\0';) {
        size_t len = strcspn(word, " ");
        if (column == 0 || column + 1 + len > COLUMN) {
            text_buf_add(out, "%s%s", column == 0 ? "" : "\n", indent);
            column = strlen(indent);
        } else {
            text_buf_add(out, " ");
            column++;
        }
        text_buf_add_bytes(out, word, len);
        column += len;
        word += len;
        word += strspn(word, " ");
    }
    text_buf_add(out, "\n");
}

static bool needs_quotes(const char *text)
{
    size_t len = strlen(text);
    return len == 0 || text[0] == ' ' || text[len - 1] == ' ' || strpbrk(text, "#\"\\") != NULL;
}

static void add_setting(struct text_buf *out, const struct option *option, const char *value)
{
    text_buf_add(out, "%s = ", option->key);
    if (option->type != OPTION_STRING || !needs_quotes(value)) {
        text_buf_add(out, "%s\n", value);
        return;
    }
    text_buf_add(out, "\"");
    for (const char *p = value; *p != '\0'; p++)
        text_buf_add(out, *p == '"' || *p == '\\' ? "\\%c" : "%c", *p);
    text_buf_add(out, "\"\n");
}

char *options_dump(const struct options *options)
{
    struct text_buf out;
    text_buf_init(&out, TEXT_MAX);
    for (size_t i = 0; i < option_count; i++) {
        char value[OPTION_TEXT_MAX];
        option_get_text(options, &option_rows[i], value);
        add_setting(&out, &option_rows[i], value);
    }
    return text_buf_take(&out);
}

static const char *metavar_of(const struct option *option)
{
    return option->type == OPTION_SIZE     ? "SIZE"
           : option->type == OPTION_U32    ? "N"
           : option->type == OPTION_CHOICE ? option->unit
                                           : "TEXT";
}

static void add_flag_help(struct text_buf *out, const struct option *option)
{
    char name[OPTION_NAME_MAX], range[OPTION_TEXT_MAX], value[OPTION_TEXT_MAX];
    struct options defaults;
    options_defaults(&defaults);
    option_flag_name(option, name);
    option_range_text(option, range);
    option_get_text(&defaults, option, value);
    text_buf_add(out, "  --%s %s", option->flag[0] != '\0' ? option->flag : name,
                 metavar_of(option));
    if (option->flag[0] != '\0')
        text_buf_add(out, ", --%s %s", name, metavar_of(option));
    text_buf_add(out, "\n");
    add_wrapped(out, "        ", option->prose);
    text_buf_add(out, "        Default %s", value[0] != '\0' ? value : "empty");
    if (option->type == OPTION_U32 || option->type == OPTION_SIZE)
        text_buf_add(out, "; %s", range);
    text_buf_add(out, ".\n");
}

char *options_help(unsigned users, const struct option_extra *extras, size_t n_extras)
{
    struct text_buf out;
    text_buf_init(&out, TEXT_MAX);
    for (size_t i = 0; i < n_extras; i++) {
        bool has_value = extras[i].metavar != NULL;
        text_buf_add(&out, "  --%s%s%s\n", extras[i].flag, has_value ? " " : "",
                     has_value ? extras[i].metavar : "");
        add_wrapped(&out, "        ", extras[i].prose);
    }
    if (users != 0) {
        text_buf_add(&out, "  --config FILE\n");
        add_wrapped(
            &out, "        ",
            "File of `section.name = value` lines; FOLDKV_CONFIG names it too. With a - before it, "
            "it need not exist.");
    }
    text_buf_add(&out, "  --help, -h\n        This text.\n");
    for (size_t i = 0; i < option_count; i++)
        if ((option_rows[i].users & users) != 0)
            add_flag_help(&out, &option_rows[i]);
    return text_buf_take(&out);
}

char *options_example(void)
{
    struct text_buf out;
    text_buf_init(&out, TEXT_MAX);
    text_buf_add(&out,
                 "# foldkv.conf: every option with its default. Made from config/options.def.\n");
    text_buf_add(&out, "# A flag beats an environment variable, which beats this file, which beats "
                       "the default.\n");
    for (size_t i = 0; i < option_count; i++) {
        char range[OPTION_TEXT_MAX];
        option_range_text(&option_rows[i], range);
        text_buf_add(&out, "\n");
        add_wrapped(&out, "# ", option_rows[i].prose);
        text_buf_add(&out, "# Takes %s.\n# ", range);
        add_setting(&out, &option_rows[i], option_rows[i].value);
    }
    return text_buf_take(&out);
}

static void add_reference_row(struct text_buf *out, const struct option *option)
{
    char flag[OPTION_NAME_MAX], variable[OPTION_NAME_MAX], range[OPTION_TEXT_MAX];
    option_flag_name(option, flag);
    option_environment_name(option, variable);
    option_range_text(option, range);
    text_buf_add(out, "\n## %s\n\n%s\n\n", option->key, option->prose);
    text_buf_add(out, "- flag `--%s`", flag);
    if (option->flag[0] != '\0' && strcmp(option->flag, flag) != 0)
        text_buf_add(out, " or `--%s`", option->flag);
    text_buf_add(out, ", environment `%s`\n", variable);
    if (option->value[0] != '\0')
        text_buf_add(out, "- default `%s`\n", option->value);
    else
        text_buf_add(out, "- default empty\n");
    text_buf_add(out, "- takes %s\n", range);
    text_buf_add(out, "- %s\n",
                 option->change == OPTION_LIVE ? "read again on SIGHUP" : "read at start");
}

char *options_reference(void)
{
    struct text_buf out;
    text_buf_init(&out, TEXT_MAX);
    text_buf_add(&out, "# Options\n\nWhat `foldkv serve` can be told. The other commands take "
                       "those of these flags that "
                       "`foldkv help COMMAND` lists.\n\nMade from `config/options.def`; a test "
                       "holds the two together.\n\n");
    text_buf_add(
        &out,
        "A flag beats an environment variable, which beats the file that `--config` or "
        "`FOLDKV_CONFIG`\n"
        "names, which beats the default. Of a flag given twice the last holds; in a file a key "
        "stands once.\n"
        "Sizes are bytes, or a number with `KiB`, `MiB`, `GiB` or `TiB` directly behind it. An "
        "option or an\n"
        "environment variable that starts with `FOLDKV_` and is not known is an error, and so is a "
        "value out\n"
        "of range: nothing is moved to the nearest value.\n\n"
        "A file has one `section.name = value` a line; `#` starts a comment. A value with `#`, a "
        "quote or\n"
        "blanks at its ends stands in double quotes. `deploy/foldkv.conf` lists every option.\n\n"
        "On SIGHUP the daemon reads all of them again. Those that say so below hold from then on, "
        "and the log says which "
        "changed;\n"
        "another one that changed is named there as waiting for a restart. If anything does not "
        "read well, nothing changes.\n");
    for (size_t i = 0; i < option_count; i++)
        add_reference_row(&out, &option_rows[i]);
    return text_buf_take(&out);
}

char *options_dictionary(void)
{
    struct text_buf out;
    text_buf_init(&out, TEXT_MAX);
    for (size_t i = 0; i < option_count; i++) {
        char flag[OPTION_NAME_MAX], variable[OPTION_NAME_MAX];
        option_flag_name(&option_rows[i], flag);
        option_environment_name(&option_rows[i], variable);
        text_buf_add(&out, "\"%s\"\n\"--%s\"\n\"%s=\"\n", option_rows[i].key, flag, variable);
    }
    text_buf_add(&out, "\"KiB\"\n\"MiB\"\n\"GiB\"\n\"TiB\"\n");
    return text_buf_take(&out);
}
