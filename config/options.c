/* options.c: the option table as data, the defaults, and the order in which the readers are asked.
 *
 * WHY     A setting exists once, in options.def; nothing here names one.
 * HOW     Each source is read over the one before it: default, file, environment, flag. The flags
 *         are read twice, since they may name the file that comes before them.
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/options.h"

#include "config/options_priv.h"

const struct option option_rows[] = {
#define OPTION(section, name, type, value, least, most, unit, change, flag, users, prose)          \
    {#section "." #name,                                                                           \
     OPTION_##type,                                                                                \
     value,                                                                                        \
     least,                                                                                        \
     most,                                                                                         \
     unit,                                                                                         \
     OPTION_##change,                                                                              \
     flag,                                                                                         \
     users,                                                                                        \
     prose,                                                                                        \
     offsetof(struct options, section##_##name)},
#include "config/options.def"
#undef OPTION
};
const size_t option_count = ARRAY_LEN(option_rows);

void option_environment_name(const struct option *option, char ret_name[OPTION_NAME_MAX])
{
    int len = snprintf(ret_name, OPTION_NAME_MAX, "FOLDKV_%s", option->key);
    ASSERT(len > 0 && len < OPTION_NAME_MAX);
    for (char *p = ret_name; *p != '\0'; p++)
        *p = *p == '.' ? '_' : *p >= 'a' && *p <= 'z' ? (char)(*p - 'a' + 'A') : *p;
}

void option_flag_name(const struct option *option, char ret_name[OPTION_NAME_MAX])
{
    int len = snprintf(ret_name, OPTION_NAME_MAX, "%s", option->key);
    ASSERT(len > 0 && len < OPTION_NAME_MAX);
    for (char *p = ret_name; *p != '\0'; p++)
        *p = *p == '.' || *p == '_' ? '-' : *p;
}

const struct option *option_find(struct slice key)
{
    for (size_t i = 0; i < option_count; i++) {
        const char *name = option_rows[i].key;
        if (strlen(name) == key.len && memcmp(name, key.bytes, key.len) == 0)
            return &option_rows[i];
    }
    return NULL;
}

void options_defaults(struct options *ret_options)
{
    memset(ret_options, 0, sizeof *ret_options);
    for (size_t i = 0; i < option_count; i++) {
        struct slice value = {option_rows[i].value, strlen(option_rows[i].value)};
        enum status s = option_set(ret_options, &option_rows[i], value, "options.def", NULL);
        ASSERT(s == OK);
    }
}

static const char *config_path_of(const struct options_line *line, char *const *environment)
{
    static const char name[] = "FOLDKV_CONFIG=";
    if (line->config_path != NULL)
        return line->config_path;
    for (; environment != NULL && *environment != NULL; environment++) {
        if (strncmp(*environment, name, sizeof name - 1) == 0 &&
            (*environment)[sizeof name - 1] != '\0')
            return *environment + sizeof name - 1;
    }
    return NULL;
}

enum status options_load(unsigned users, size_t n_words, char *const *words, char *const *environment,
                         struct option_extra *extras, size_t n_extras, struct options *ret_options,
                         struct options_line *ret_line, struct why *ret_why)
{
    options_defaults(ret_options);
    TRY(options_read_flags(users, ret_options, n_words, words, extras, n_extras, ret_line, ret_why));
    if (ret_line->is_help)
        return OK;
    const char *config_path = users != 0 ? config_path_of(ret_line, environment) : NULL;
    options_defaults(ret_options);
    if (config_path != NULL)
        TRY(options_read_file(ret_options, config_path, ret_why));
    TRY(options_read_environment(ret_options, environment, ret_why));
    TRY(options_read_flags(users, ret_options, n_words, words, extras, n_extras, ret_line, ret_why));
    ret_line->config_path = config_path;
    return OK;
}
