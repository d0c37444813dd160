/* log_test.c: one line an event, printable, and parsable when it is JSON. */
// SPDX-License-Identifier: Apache-2.0
#include "server/log.h"

#include <jansson.h>
#include <unistd.h>

#include "tests/support/suite_run.h"

static char line[4096];

/* Logs through a pipe and returns what came out. */
static const char *logged(const char *format, const char *level, enum log_level event_level,
                          const char *text)
{
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    log_init(format, level, ends[1]);
    log_event(event_level, "test", "%s", text);
    close(ends[1]);
    ssize_t n = read(ends[0], line, sizeof line - 1);
    ck_assert_int_ge(n, 0);
    line[n] = '\0';
    close(ends[0]);
    return line;
}

START_TEST(text_is_one_printable_line)
{
    const char *out = logged("text", "info", LOG_LEVEL_WARN, "a\nb\x1b[31m\xff");
    ck_assert_ptr_nonnull(strstr(out, " warn  test: a?b?[31m?\n"));
    ck_assert_ptr_eq(strchr(out, '\n'), out + strlen(out) - 1);
}
END_TEST

START_TEST(json_is_json)
{
    const char *out = logged("json", "debug", LOG_LEVEL_DEBUG, "say \"\\\" \xc3\xa9");
    json_t *object = json_loads(out, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_ptr_nonnull(object);
    ck_assert_str_eq(json_string_value(json_object_get(object, "level")), "debug");
    ck_assert_str_eq(json_string_value(json_object_get(object, "event")), "test");
    ck_assert_str_eq(json_string_value(json_object_get(object, "text")), "say \"\\\" \xc3\xa9");
    ck_assert_uint_eq(strlen(json_string_value(json_object_get(object, "time"))), 24);
    json_decref(object);
}
END_TEST

START_TEST(longest_text_fits)
{
    char text[1000];
    memset(text, '"', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    json_t *object = json_loads(logged("json", "info", LOG_LEVEL_ERROR, text), 0, NULL);
    ck_assert_ptr_nonnull(object);
    json_decref(object);
}
END_TEST

START_TEST(level_holds)
{
    ck_assert_str_eq(logged("text", "warn", LOG_LEVEL_INFO, "hidden"), "");
    ck_assert(log_is_on(LOG_LEVEL_ERROR) && !log_is_on(LOG_LEVEL_DEBUG));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("log");
    TCase *tcase = tcase_create("log");
    tcase_set_timeout(tcase, 10);
    tcase_add_test(tcase, text_is_one_printable_line);
    tcase_add_test(tcase, json_is_json);
    tcase_add_test(tcase, longest_text_fits);
    tcase_add_test(tcase, level_holds);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
