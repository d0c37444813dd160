/* options_rows_test.c: every row of options.def through every reader: least, most, one below, one
 * above, and back out.
 *
 * HOW     The walk reads the table itself, so a new option is tested the moment it is a row.
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/options.h"

#include <inttypes.h>

#include "config/mem.h"
#include "config/options_priv.h"
#include "tests/support/suite_run.h"

enum { TEXT = 2 * OPTION_TEXT_MAX, READERS = 4, ROWS_MAX = 128 };

/* Sets the row to value by one of the readers: the file, the environment, the long flag, the
 * short one with "=". */
static enum status set_by(int reader, struct options *options, const struct option *row,
                          const char *value, struct why *why)
{
    char name[OPTION_NAME_MAX], line[TEXT];
    struct options_line rest;
    if (reader == 0) {
        snprintf(line, sizeof line, "%s = \"%s\"\n", row->key, value);
        return options_read_text(options, (struct slice){line, strlen(line)}, "test.conf", why);
    }
    if (reader == 1) {
        option_environment_name(row, name);
        snprintf(line, sizeof line, "%s=%s", name, value);
        return options_read_environment(options, (char *const[]){line, NULL}, why);
    }
    option_flag_name(row, name);
    const char *flag = reader == 3 && row->flag[0] != '\0' ? row->flag : name;
    if (reader == 2) {
        snprintf(line, sizeof line, "--%s", flag);
        return options_read_flags(OPTIONS_SERVE, options, 2, (char *const[]){line, (char *)(uintptr_t)value}, NULL,
                                  0, &rest, why);
    }
    snprintf(line, sizeof line, "--%s=%s", flag, value);
    return options_read_flags(OPTIONS_SERVE, options, 1, (char *const[]){line}, NULL, 0, &rest, why);
}

/* Reads options out and in again. */
static void check_round_trip(const struct options *options)
{
    struct options again;
    struct why why = {0};
    char *text = options_dump(options);
    ck_assert_ptr_nonnull(text);
    options_defaults(&again);
    ck_assert_msg(options_read_text(&again, (struct slice){text, strlen(text)}, "dump", &why) == OK,
                  "%s", why.text);
    ck_assert_mem_eq(options, &again, sizeof again);
    mem_free(text);
}

static void check_taken(const struct option *row, const char *value)
{
    for (int reader = 0; reader < READERS; reader++) {
        struct options options;
        struct why why = {0};
        char text[OPTION_TEXT_MAX];
        options_defaults(&options);
        ck_assert_msg(set_by(reader, &options, row, value, &why) == OK, "%s", why.text);
        if (row->type == OPTION_STRING || row->type == OPTION_CHOICE) {
            option_get_text(&options, row, text);
            ck_assert_str_eq(text, value);
        } else {
            uint64_t wanted = strtoull(value, NULL, 10), wide = 0;
            memcpy(&wide, (char *)&options + row->offset, row->type == OPTION_SIZE ? 8 : 4);
            ck_assert_uint_eq(wide, wanted);
        }
        check_round_trip(&options);
    }
}

static void check_refused(const struct option *row, const char *value)
{
    for (int reader = 0; reader < READERS; reader++) {
        struct options options, before;
        struct why why = {0};
        options_defaults(&options);
        before = options;
        ck_assert_msg(set_by(reader, &options, row, value, &why) == STATUS_BAD_OPTION,
                      "%s took \"%s\"", row->key, value);
        bool is_line_refused = reader == 0 && strstr(why.text, "not UTF-8 text") !=
                                                  NULL; /* before any key of it is read */
        ck_assert_str_eq(why.field, is_line_refused ? "" : row->key);
        ck_assert_msg(is_line_refused || strstr(why.text, row->key) != NULL, "%s", why.text);
        ck_assert_mem_eq(&options, &before,
                         sizeof before); /* nothing is moved to the nearest value */
    }
}

static void walk_number(const struct option *row)
{
    char value[32];
    const uint64_t right[] = {row->least, row->most, row->least + (row->most - row->least) / 3};
    for (size_t i = 0; i < ARRAY_LEN(right); i++) {
        snprintf(value, sizeof value, "%" PRIu64, right[i]);
        check_taken(row, value);
    }
    if (row->least > 0) {
        snprintf(value, sizeof value, "%" PRIu64, row->least - 1);
        check_refused(row, value);
    }
    snprintf(value, sizeof value, "%" PRIu64, row->most + 1);
    check_refused(row, value);
    static const char *const wrong[] = {"",
                                        "-1",
                                        "+1",
                                        "1.5",
                                        "x",
                                        "0x10",
                                        "1 2",
                                        "18446744073709551616",
                                        "4294967296000000000000"};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        check_refused(row, wrong[i]);
}

static void walk_text(const struct option *row)
{
    char value[TEXT];
    memset(value, 'a', sizeof value);
    value[row->most] = '\0';
    check_taken(row, value);
    value[row->least] = '\0';
    check_taken(row, value);
    memset(value, 'b', sizeof value);
    value[row->most + 1] = '\0';
    check_refused(row, value);
    if (row->least > 0) {
        value[row->least - 1] = '\0';
        check_refused(row, value);
    }
    check_taken(row, "h\xc3\xa9 # x");
    check_refused(row, "a\xff");
    check_refused(row, "a\tb");
}

static void walk_choice(const struct option *row)
{
    char words[TEXT];
    snprintf(words, sizeof words, "%s", row->unit);
    for (char *word = words, *end = words; end != NULL; word = end + 1) {
        end = strchr(word, '|');
        if (end != NULL)
            *end = '\0';
        check_taken(row, word);
        if (end == NULL)
            break;
    }
    check_refused(row, "");
    check_refused(row, row->unit);
    check_refused(row, "other");
}

START_TEST(a_row)
{
    const struct option *row = &option_rows[_i];
    switch (row->type) {
    case OPTION_U32:
    case OPTION_SIZE:
        walk_number(row);
        break;
    case OPTION_STRING:
        walk_text(row);
        break;
    case OPTION_CHOICE:
        walk_choice(row);
        break;
    }
}
END_TEST

START_TEST(rows_are_well_made)
{
    struct options options;
    options_defaults(&options);
    check_round_trip(&options);
    ck_assert_uint_le(option_count, ROWS_MAX);
    for (size_t i = 0; i < option_count; i++) {
        const struct option *row = &option_rows[i];
        ck_assert_msg(row->prose[0] >= 'A' && row->prose[strlen(row->prose) - 1] == '.', "%s",
                      row->key);
        ck_assert_msg(row->unit[0] != '\0' && row->least <= row->most, "%s", row->key);
        ck_assert_msg(row->type == OPTION_SIZE || row->most <= UINT32_MAX, "%s", row->key);
        ck_assert_msg(row->type != OPTION_STRING || row->most < OPTION_TEXT_MAX, "%s", row->key);
        for (size_t other = 0; other < i; other++) {
            ck_assert_str_ne(row->key, option_rows[other].key);
            ck_assert(row->flag[0] == '\0' || strcmp(row->flag, option_rows[other].flag) != 0);
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("options_rows");
    TCase *tc = tcase_create("walk");
    tcase_set_timeout(tc, 30);
    tcase_add_test(tc, rows_are_well_made);
    tcase_add_loop_test(tc, a_row, 0, (int)option_count);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
