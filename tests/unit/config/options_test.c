/* options_test.c: the readers' own ways, the order among them, and the texts made from the
 * table. */
// SPDX-License-Identifier: Apache-2.0
#include "config/options.h"

#include <unistd.h>

#include "config/mem.h"
#include "tests/support/suite_run.h"

enum { KIB = 1024 };

static struct options options;
static struct options_line line;
static struct why why;

static void start(void)
{
    options_defaults(&options);
    memset(&why, 0, sizeof why);
}

#define FLAGS(...) read_words((char *const[]){__VA_ARGS__, NULL}, NULL, 0)

static enum status read_words(char *const *words, struct option_extra *extras, size_t n_extras)
{
    size_t n = 0;
    while (words[n] != NULL)
        n++;
    return options_read_flags(OPTIONS_SERVE, &options, n, words, extras, n_extras, &line, &why);
}

static enum status read_file_text(const char *text)
{
    return options_read_text(&options, (struct slice){text, strlen(text)}, "a.conf", &why);
}

static void says(const char *text)
{
    ck_assert_msg(strstr(why.text, text) != NULL, "\"%s\" lacks \"%s\"", why.text, text);
}

static const struct size_row {
    const char *text;
    uint64_t bytes; /* 0: refused */
} size_rows[] = {
    {"1024", KIB},
    {"2048B", 2 * KIB},
    {"1KiB", KIB},
    {"3MiB", 3 * KIB *KIB},
    {"1GiB", KIB *KIB *KIB},
    {"0TiB", 0},
    {"2GB", 0},
    {"1G", 0},
    {"1kib", 0},
    {"1 KiB", 0},
    {"KiB", 0},
    {"-1KiB", 0},
    {"1.5MiB", 0},
    {"18446744073709551615TiB", 0},
    {"16777217TiB", 0},
    {"1KiBx", 0},
    {"2GiB", 0},
};

START_TEST(sizes)
{
    const struct size_row *row = &size_rows[_i];
    enum status s = FLAGS("--server-body-bytes-max", (char *)(uintptr_t)row->text);
    ck_assert_int_eq(s, row->bytes != 0 ? OK : STATUS_BAD_OPTION);
    ck_assert_uint_eq(options.server_body_bytes_max, row->bytes != 0 ? row->bytes : 8 * KIB * KIB);
    if (s != OK)
        says("--server-body-bytes-max: \"");
}
END_TEST

START_TEST(flags_and_positionals)
{
    ck_assert_int_eq(
        FLAGS("model.gguf", "--threads", "3", "--cache-bytes=2GiB", "-", "--", "--threads"), OK);
    ck_assert_uint_eq(options.server_threads, 3);
    ck_assert_uint_eq(options.cache_bytes, UINT64_C(2) << 30);
    ck_assert_uint_eq(line.n_positionals, 3);
    ck_assert_str_eq(line.positionals[0], "model.gguf");
    ck_assert_str_eq(line.positionals[1], "-");
    ck_assert_str_eq(line.positionals[2], "--threads");
    ck_assert(line.config_path == NULL && !line.is_help);
    ck_assert_int_eq(FLAGS("--threads", "1", "--threads=2"), OK);
    ck_assert_uint_eq(options.server_threads, 2);
    ck_assert_int_eq(FLAGS("--model-name="), OK);
    ck_assert_str_eq(options.model_name, "");
}
END_TEST

START_TEST(flags_that_are_wrong)
{
    ck_assert_int_eq(FLAGS("--thread", "3"), STATUS_BAD_OPTION);
    says("--thread: no such option");
    ck_assert_int_eq(FLAGS("--threads"), STATUS_BAD_OPTION);
    says("--threads: a value must follow: 0..256 threads");
    ck_assert_int_eq(FLAGS("--threads", "257"), STATUS_BAD_OPTION);
    says("--threads: \"257\" is out of range; server.threads takes 0..256 threads");
    ck_assert_str_eq(why.field, "server.threads");
    ck_assert_int_eq(FLAGS("-t"), STATUS_BAD_OPTION);
    says("-t: no such option");
    ck_assert_int_eq(FLAGS("--"), OK);
    ck_assert_int_eq(FLAGS("--=x"), STATUS_BAD_OPTION);
    ck_assert_int_eq(FLAGS("1", "2", "3", "4", "5", "6", "7", "8", "9"), STATUS_BAD_OPTION);
    says("\"9\": more than 8 arguments");
    ck_assert_int_eq(FLAGS("--cache-type", "f64"), STATUS_BAD_OPTION);
    says("\"f64\" is not a choice; cache.type takes f16|f32");
}
END_TEST

START_TEST(flags_of_one_command)
{
    struct option_extra extras[] = {{"json", NULL, "Prints JSON.", NULL},
                                    {"streams", "N", "Streams.", NULL}};
    ck_assert_int_eq(read_words((char *const[]){"--json", "--streams", "8", "x", NULL}, extras, 2),
                     OK);
    ck_assert_str_eq(extras[0].ret_value, "");
    ck_assert_str_eq(extras[1].ret_value, "8");
    ck_assert_uint_eq(line.n_positionals, 1);
    ck_assert_int_eq(read_words((char *const[]){"--json=1", NULL}, extras, 2), STATUS_BAD_OPTION);
    says("--json: takes no value, found \"1\"");
    ck_assert_int_eq(read_words((char *const[]){"--streams", NULL}, extras, 2), STATUS_BAD_OPTION);
    char *help = options_help(OPTIONS_SERVE, extras, 2);
    ck_assert(help != NULL && strstr(help, "--streams N") != NULL &&
              strstr(help, "--cache-bytes SIZE") != NULL);
    mem_free(help);
}
END_TEST

START_TEST(help_is_asked_for_before_all_else)
{
    ck_assert_int_eq(FLAGS("--nonsense", "--help"), OK);
    ck_assert(line.is_help);
    ck_assert_int_eq(FLAGS("-h"), OK);
    ck_assert(line.is_help);
    ck_assert_int_eq(FLAGS("--", "--help"), OK);
    ck_assert(!line.is_help && line.n_positionals == 1);
    ck_assert_int_eq(options_load(OPTIONS_SERVE, 1, (char *const[]){"--help"},
                                  (char *const[]){"FOLDKV_NONSENSE=1", NULL}, NULL, 0, &options,
                                  &line, &why),
                     OK);
}
END_TEST

START_TEST(files)
{
    ck_assert_int_eq(
        read_file_text("# all\n\n  server.threads=2 # two\r\n\tmodel.name =  my model \n"
                       "server.listen = [::1]:80#80\ncache.bytes = 1GiB"),
        OK);
    ck_assert_uint_eq(options.server_threads, 2);
    ck_assert_str_eq(options.model_name, "my model");
    ck_assert_str_eq(options.server_listen, "[::1]:80#80");
    ck_assert_uint_eq(options.cache_bytes, 1 << 30);
    ck_assert_int_eq(read_file_text("model.name = \" a \\\"b\\\\ # c \" # and so on"), OK);
    ck_assert_str_eq(options.model_name, " a \"b\\ # c ");
    ck_assert_int_eq(read_file_text("model.name ="), OK);
    ck_assert_str_eq(options.model_name, "");
    ck_assert_int_eq(read_file_text(""), OK);
}
END_TEST

static const struct bad_text {
    const char *text, *says;
} bad_texts[] = {
    {"server.threads = 1\nserver.threads = 2", "a.conf:2: server.threads stands already in line 1"},
    {"\n\nserver.thread = 1", "a.conf:3: \"server.thread\": no such option"},
    {"server.threads", "a.conf:1: \"server.threads\" is not `section.name = value`"},
    {"server.threads = ", "a.conf:1: \"\" is not a number"},
    {"server.threads = 300", "a.conf:1: \"300\" is out of range"},
    {"model.name = \"a", "the quoted value does not end well"},
    {"model.name = \"a\\n\"", "the quoted value does not end well"},
    {"model.name = \"a\" b", "the quoted value does not end well"},
    {"model.name = \"a\\", "the quoted value does not end well"},
    {"model.name = \xff", "a.conf:1: not UTF-8 text"},
    {"# \xc3\n", "a.conf:1: not UTF-8 text"},
    {"model.name = a\x01", "control bytes"},
    {"= 3", "\"\": no such option"},
    {"[server]", "is not `section.name = value`"},
};

START_TEST(files_that_are_wrong)
{
    ck_assert_int_eq(read_file_text(bad_texts[_i].text), STATUS_BAD_OPTION);
    says(bad_texts[_i].says);
}
END_TEST

START_TEST(a_nul_in_a_file_is_refused)
{
    const char text[] = "model.name = a\0b\n";
    ck_assert_int_eq(
        options_read_text(&options, (struct slice){text, sizeof text - 1}, "a.conf", &why),
        STATUS_BAD_OPTION);
}
END_TEST

START_TEST(the_environment)
{
    ck_assert_int_eq(options_read_environment(
                         &options,
                         (char *const[]){"PATH=/bin", "FOLDKV_TEST_MODEL=x", "FOLDKV_CONFIG=y",
                                         "FOLDKV_ENGINE_PREFILL_CHUNK=16", NULL},
                         &why),
                     OK);
    ck_assert_uint_eq(options.engine_prefill_chunk, 16);
    ck_assert_int_eq(
        options_read_environment(&options, (char *const[]){"FOLDKV_CACHE_BYTE=1", NULL}, &why),
        STATUS_BAD_OPTION);
    says("environment variable FOLDKV_CACHE_BYTE: no such option");
    ck_assert_int_eq(
        options_read_environment(&options, (char *const[]){"FOLDKV_CACHE_BYTES=much", NULL}, &why),
        STATUS_BAD_OPTION);
    says("FOLDKV_CACHE_BYTES: \"much\" is not a size");
    ck_assert_int_eq(options_read_environment(&options, NULL, &why), OK);
}
END_TEST

/* A file with text; its path is made in path. */
static void write_file(char *path, const char *text, size_t len)
{
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, len), (ssize_t)len);
    close(fd);
}

START_TEST(a_flag_beats_environment_beats_file_beats_default)
{
    char path[] = "/tmp/foldkv-options-test-XXXXXX", variable[64];
    const char text[] = "server.threads = 1\nengine.queue_max = 1\nengine.running_max = 1\n";
    write_file(path, text, sizeof text - 1);
    char *const environment[] = {"FOLDKV_SERVER_THREADS=2", "FOLDKV_ENGINE_QUEUE_MAX=2", NULL};
    char *const words[] = {"serve.gguf", "--config", path, "--threads", "3"};
    ck_assert_msg(options_load(OPTIONS_SERVE, 5, words, environment, NULL, 0, &options, &line, &why) == OK, "%s",
                  why.text);
    ck_assert_uint_eq(options.server_threads, 3);
    ck_assert_uint_eq(options.engine_queue_max, 2);
    ck_assert_uint_eq(options.engine_running_max, 1);
    ck_assert_uint_eq(options.engine_prefill_chunk, 512);
    ck_assert_str_eq(line.config_path, path);
    snprintf(variable, sizeof variable, "FOLDKV_CONFIG=%s", path);
    ck_assert_int_eq(
        options_load(OPTIONS_SERVE, 1, words, (char *const[]){variable, NULL}, NULL, 0, &options, &line, &why),
        OK);
    ck_assert_uint_eq(options.server_threads, 1);
    ck_assert_int_eq(options_load(OPTIONS_SERVE, 1, words, environment, NULL, 0, &options, &line, &why), OK);
    ck_assert_uint_eq(options.engine_running_max, 64);
    unlink(path);
    ck_assert_int_eq(options_load(OPTIONS_SERVE, 5, words, environment, NULL, 0, &options, &line, &why),
                     STATUS_IO);
    says("No such file");
}
END_TEST

START_TEST(a_file_behind_a_dash_may_be_absent)
{
    char path[] = "/tmp/foldkv-options-test-XXXXXX", optional[64];
    const char text[] = "server.threads = none\n";
    write_file(path, text, sizeof text - 1);
    snprintf(optional, sizeof optional, "-%s", path);
    ck_assert_int_eq(options_read_file(&options, optional, &why), STATUS_BAD_OPTION);
    unlink(path);
    ck_assert_int_eq(options_read_file(&options, optional, &why), OK);
    ck_assert_int_eq(options_read_file(&options, "-", &why), STATUS_IO);
}
END_TEST

START_TEST(a_file_has_a_limit)
{
    char path[] = "/tmp/foldkv-options-test-XXXXXX";
    size_t len = (1 << 20) + 1;
    char *text = mem_alloc(len);
    ck_assert_ptr_nonnull(text);
    memset(text, '\n', len);
    write_file(path, text, len);
    ck_assert_int_eq(options_read_file(&options, path, &why), STATUS_BAD_OPTION);
    says("more than 1048576 bytes");
    ck_assert_int_eq(truncate(path, (off_t)len - 1), 0);
    ck_assert_int_eq(options_read_file(&options, path, &why), OK);
    mem_fail_nth(1);
    ck_assert_int_eq(options_read_file(&options, path, &why), STATUS_NO_MEMORY);
    mem_fail_nth(0);
    unlink(path);
    mem_free(text);
    ck_assert_int_eq(options_read_file(&options, "/tmp", &why), STATUS_IO);
}
END_TEST

/* Fails the test if the committed file is not what the table makes. */
static void check_fresh(const char *path, char *made)
{
    static char committed[1 << 20];
    FILE *file = fopen(path, "re");
    ck_assert_msg(file != NULL, "%s cannot be read", path);
    size_t len = fread(committed, 1, sizeof committed - 1, file);
    fclose(file);
    committed[len] = '\0';
    ck_assert_ptr_nonnull(made);
    ck_assert_msg(strcmp(committed, made) == 0, "%s is stale: run options_text to make it anew",
                  path);
    mem_free(made);
}

START_TEST(committed_texts_are_fresh)
{
    check_fresh(TEST_SOURCE "/docs/options.md", options_reference());
    check_fresh(TEST_SOURCE "/deploy/foldkv.conf", options_example());
    check_fresh(TEST_SOURCE "/tests/fuzz/options_fuzz.dict", options_dictionary());
}
END_TEST

START_TEST(the_example_file_sets_the_defaults)
{
    char *text = options_example();
    ck_assert_ptr_nonnull(text);
    struct options defaults = options;
    for (char *p = text; (p = strstr(p, "\n# ")) != NULL; p++) {
        char *equals = strstr(p, " = "), *end = strchr(p + 1, '\n');
        if (equals != NULL && equals < end && strcspn(p + 3, " ") == (size_t)(equals - p - 3))
            memcpy(p, "\n  ", 3); /* the setting is no comment any more */
    }
    ck_assert_msg(read_file_text(text) == OK, "%s", why.text);
    ck_assert_mem_eq(&options, &defaults, sizeof options);
    mem_free(text);
}
END_TEST

START_TEST(texts_need_memory)
{
    char *(*const makers[])(void) = {options_example, options_reference, options_dictionary};
    for (uint64_t n = 1; n <= 3; n++) {
        for (size_t i = 0; i < ARRAY_LEN(makers); i++) {
            mem_fail_nth(n);
            ck_assert_ptr_null(makers[i]());
        }
        mem_fail_nth(n);
        ck_assert_ptr_null(options_help(OPTIONS_SERVE, NULL, 0));
    }
    mem_fail_nth(1);
    ck_assert_ptr_null(options_dump(&options));
    mem_fail_nth(0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("options");
    TCase *tc = tcase_create("readers");
    tcase_set_timeout(tc, 30);
    tcase_add_checked_fixture(tc, start, NULL);
    tcase_add_loop_test(tc, sizes, 0, (int)ARRAY_LEN(size_rows));
    tcase_add_test(tc, flags_and_positionals);
    tcase_add_test(tc, flags_that_are_wrong);
    tcase_add_test(tc, flags_of_one_command);
    tcase_add_test(tc, help_is_asked_for_before_all_else);
    tcase_add_test(tc, files);
    tcase_add_loop_test(tc, files_that_are_wrong, 0, (int)ARRAY_LEN(bad_texts));
    tcase_add_test(tc, a_nul_in_a_file_is_refused);
    tcase_add_test(tc, the_environment);
    tcase_add_test(tc, a_flag_beats_environment_beats_file_beats_default);
    tcase_add_test(tc, a_file_has_a_limit);
    tcase_add_test(tc, a_file_behind_a_dash_may_be_absent);
    tcase_add_test(tc, committed_texts_are_fresh);
    tcase_add_test(tc, the_example_file_sets_the_defaults);
    tcase_add_test(tc, texts_need_memory);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
