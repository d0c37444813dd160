/* options_env.c: options from the environment.
 *
 * WHY     A misspelt variable that does nothing is a setting the operator believes in: names with
 *         our prefix must be known.
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/options_priv.h"

static const char prefix[] = "FOLDKV_";
static const char test_prefix[] = "FOLDKV_TEST_";
static const char config_name[] = "FOLDKV_CONFIG";

static const struct option *find_variable(const char *name, size_t len)
{
    for (size_t i = 0; i < option_count; i++) {
        char known[OPTION_NAME_MAX];
        option_environment_name(&option_rows[i], known);
        if (strlen(known) == len && memcmp(known, name, len) == 0)
            return &option_rows[i];
    }
    return NULL;
}

static enum status read_variable(struct options *options, const char *variable, struct why *ret_why)
{
    size_t len = strcspn(variable, "=");
    if (variable[len] == '\0' || strncmp(variable, test_prefix, sizeof test_prefix - 1) == 0)
        return OK;
    if (len == sizeof config_name - 1 && memcmp(variable, config_name, len) == 0)
        return OK; /* options_load has taken it */
    const struct option *option = find_variable(variable, len);
    char where[OPTION_NAME_MAX];
    snprintf(where, sizeof where, "%.*s", len > 80 ? 80 : (int)len, variable);
    if (option == NULL)
        return why_set(ret_why, STATUS_BAD_OPTION, where,
                       "environment variable %s: no such option; see `foldkv help options`", where);
    const char *value = variable + len + 1;
    return option_set(options, option, (struct slice){value, strlen(value)}, where, ret_why);
}

enum status options_read_environment(struct options *options, char *const *environment,
                                     struct why *ret_why)
{
    for (; environment != NULL && *environment != NULL; environment++) {
        if (strncmp(*environment, prefix, sizeof prefix - 1) == 0)
            TRY(read_variable(options, *environment, ret_why));
    }
    return OK;
}
