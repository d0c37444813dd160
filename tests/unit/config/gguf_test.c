/* gguf_test.c: what a right GGUF file gives: values, arrays, tensors, and an end to every
 * allocation. */
// SPDX-License-Identifier: Apache-2.0
#include "config/gguf.h"

#include <unistd.h>

#include "config/ggml_type.h"
#include "config/gguf_hash.h"
#include "config/mem.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/suite_run.h"

static char *bytes;
static struct gguf *gguf;

/* Parses what w writes; the writer is done with. */
static void open_file(struct gguf_writer *w)
{
    size_t len = 0;
    struct why why = {0};
    bytes = gguf_writer_finish(w, &len);
    gguf_writer_free(&w);
    ck_assert_msg(gguf_parse(bytes, len, &gguf, &why) == OK, "%s", why.text);
}

static void close_file(void)
{
    gguf_free(&gguf);
    ck_assert_ptr_null(gguf);
    mem_free(bytes);
    bytes = NULL;
}

static bool is_text(struct slice s, const char *text)
{
    return s.len == strlen(text) && memcmp(s.bytes, text, s.len) == 0;
}

static const struct integer_row {
    enum gguf_type type;
    unsigned char bits[8];
    bool fits;
    uint32_t value;
    const char *says;
} integer_rows[] = {
    {GGUF_U8, {200}, true, 200, ""},
    {GGUF_I8, {100}, true, 100, ""},
    {GGUF_I8, {0xff}, false, 0, "-1 is below 0"},
    {GGUF_U16, {0, 0x80}, true, 32768, ""},
    {GGUF_I16, {0, 0x80}, false, 0, "-32768 is below 0"},
    {GGUF_U32, {0xff, 0xff, 0xff, 0xff}, true, UINT32_MAX, ""},
    {GGUF_I32, {5}, true, 5, ""},
    {GGUF_I32, {0, 0, 0, 0x80}, false, 0, "-2147483648 is below 0"},
    {GGUF_U64, {0xff, 0xff, 0xff, 0xff}, true, UINT32_MAX, ""},
    {GGUF_U64, {0, 0, 0, 0, 1}, false, 0, "4294967296 is over 4294967295"},
    {GGUF_U64,
     {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
     false,
     0,
     "18446744073709551615 is over"},
    {GGUF_I64, {9}, true, 9, ""},
    {GGUF_I64, {0, 0, 0, 0, 0, 0, 0, 0x80}, false, 0, "-9223372036854775808 is below 0"},
    {GGUF_F32, {0}, false, 0, "an f32 found, an integer is needed"},
    {GGUF_F64, {0}, false, 0, "an f64 found, an integer is needed"},
    {GGUF_BOOL, {1}, false, 0, "a bool found, an integer is needed"},
};

START_TEST(integers_of_every_type)
{
    static const size_t sizes[GGUF_TYPE_COUNT] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    const struct integer_row *row = &integer_rows[_i];
    struct gguf_writer *w = gguf_writer_new();
    gguf_writer_value(w, "k", row->type, row->bits, sizes[row->type]);
    gguf_writer_array(w, "list", row->type, row->bits, 1, sizes[row->type]);
    open_file(w);
    uint32_t value = 0;
    struct why why = {0};
    enum status s = gguf_u32(gguf, "k", &value, &why);
    ck_assert_int_eq(s, row->fits ? OK : STATUS_BAD_FILE);
    if (row->fits) {
        ck_assert_uint_eq(value, row->value);
        ck_assert_int_eq(gguf_array_int(gguf, "list", 0), row->value);
    } else {
        ck_assert_str_eq(why.field, "k");
        ck_assert_msg(strstr(why.text, row->says) != NULL, "%s", why.text);
    }
    close_file();
}
END_TEST

START_TEST(values_and_their_types)
{
    struct gguf_writer *w = gguf_writer_new();
    gguf_writer_f32(w, "real", 0.5f);
    gguf_writer_bool(w, "yes", true);
    gguf_writer_bool(w, "no", false);
    gguf_writer_string(w, "text", "h\xc3\xa9");
    gguf_writer_string(w, "empty", "");
    open_file(w);
    float real = 0;
    bool yes = false, no = true;
    struct slice text, empty;
    struct why why;
    ck_assert_int_eq(gguf_f32(gguf, "real", &real, &why), OK);
    ck_assert(real == 0.5f);
    ck_assert_int_eq(gguf_bool(gguf, "yes", &yes, &why), OK);
    ck_assert_int_eq(gguf_bool(gguf, "no", &no, &why), OK);
    ck_assert(yes && !no);
    ck_assert_int_eq(gguf_string(gguf, "text", &text, &why), OK);
    ck_assert(is_text(text, "h\xc3\xa9"));
    ck_assert_int_eq(gguf_string(gguf, "empty", &empty, &why), OK);
    ck_assert_uint_eq(empty.len, 0);
    ck_assert(gguf_has(gguf, "real") && !gguf_has(gguf, "rea") && !gguf_has(gguf, "real2") &&
              !gguf_has(gguf, ""));
    ck_assert_int_eq(gguf_f32(gguf, "text", &real, &why), STATUS_BAD_FILE);
    ck_assert_str_eq(why.text, "key \"text\": a string found, an f32 is needed");
    ck_assert_int_eq(gguf_bool(gguf, "real", &yes, &why), STATUS_BAD_FILE);
    ck_assert_int_eq(gguf_string(gguf, "real", &text, &why), STATUS_BAD_FILE);
    ck_assert_int_eq(gguf_string(gguf, "gone", &text, &why), STATUS_BAD_FILE);
    ck_assert_str_eq(why.text, "key \"gone\": absent, a string is needed");
    ck_assert_uint_eq(gguf_key_count(gguf), 5);
    ck_assert(is_text(gguf_key_at(gguf, 3), "text"));
    close_file();
}
END_TEST

START_TEST(arrays_are_random_access)
{
    enum { N = 5000 };
    char(*texts)[16] = mem_zalloc(N, sizeof *texts);
    const char **list = mem_zalloc(N, sizeof *list);
    ck_assert(texts != NULL && list != NULL);
    for (int i = 0; i < N; i++) {
        snprintf(texts[i], sizeof texts[i], "%.*d", i % 9, i);
        list[i] = texts[i];
    }
    struct gguf_writer *w = gguf_writer_new();
    gguf_writer_strings(w, "texts", list, N);
    gguf_writer_strings(w, "none", NULL, 0);
    gguf_writer_array(w, "ints", GGUF_I32, (const int32_t[]){-3, 4, 5}, 3, 12);
    gguf_writer_array(w, "reals", GGUF_F32, (const float[]){1.5f, -2.0f}, 2, 8);
    open_file(w);
    enum gguf_type type;
    size_t count = 0;
    struct why why;
    ck_assert_int_eq(gguf_array(gguf, "texts", &type, &count, &why), OK);
    ck_assert(type == GGUF_STRING && count == N);
    for (size_t i = N; i-- > 0;)
        ck_assert(is_text(gguf_array_string(gguf, "texts", i), texts[i]));
    ck_assert_int_eq(gguf_array(gguf, "none", &type, &count, &why), OK);
    ck_assert(type == GGUF_STRING && count == 0);
    ck_assert_int_eq(gguf_array(gguf, "ints", &type, &count, &why), OK);
    ck_assert(type == GGUF_I32 && count == 3);
    ck_assert_int_eq(gguf_array_int(gguf, "ints", 0), -3);
    ck_assert_int_eq(gguf_array_int(gguf, "ints", 2), 5);
    ck_assert(gguf_array_f32(gguf, "reals", 1) == -2.0f);
    close_file();
    mem_free(texts);
    mem_free(list);
}
END_TEST

START_TEST(an_array_index_past_the_end_aborts)
{
    struct gguf_writer *w = gguf_writer_new();
    gguf_writer_array(w, "ints", GGUF_I32, (const int32_t[]){1}, 1, 4);
    open_file(w);
    ck_assert_int_eq(gguf_array_int(gguf, "ints", 1), 0);
}
END_TEST

START_TEST(tensors_are_found_with_their_bytes)
{
    static const uint32_t alignments[] = {8, 32, 64, 4096};
    uint32_t alignment = alignments[_i];
    char name[32];
    struct gguf_writer *w = gguf_writer_new();
    gguf_writer_u32(w, "general.alignment", alignment);
    gguf_writer_quirks(w)->alignment = alignment;
    for (uint32_t i = 0; i < 300; i++) {
        float values[3] = {(float)i, (float)i + 0.5f, -1.0f};
        snprintf(name, sizeof name, "t.%u", i * 7919 % 300);
        gguf_writer_tensor(w, name, GGML_F32, 1, (const uint64_t[]){3}, values, sizeof values);
    }
    open_file(w);
    ck_assert_uint_eq(gguf_tensor_count(gguf), 300);
    for (uint32_t i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "t.%u", i * 7919 % 300);
        const struct gguf_tensor *t = gguf_tensor_find(gguf, name);
        ck_assert(t != NULL && t == gguf_tensor_at(gguf, i) && is_text(t->name, name));
        ck_assert(t->n_dims == 1 && t->dims[0] == 3 && t->dims[1] == 1 && t->dims[3] == 1 &&
                  t->bytes == 12);
        ck_assert_uint_eq((size_t)((const char *)t->data - bytes) % alignment, 0);
        float first;
        memcpy(&first, t->data, sizeof first);
        ck_assert(first == (float)i);
    }
    ck_assert_ptr_null(gguf_tensor_find(gguf, "t.300"));
    close_file();
}
END_TEST

START_TEST(every_tensor_type_has_its_size)
{
    static const struct ggml_type types[] = {
#define GGML_TYPE(name, id, elements, bytes) {id, #name, elements, bytes},
#include "config/ggml_type.def"
#undef GGML_TYPE
    };
    struct gguf_writer *w = gguf_writer_new();
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        gguf_writer_tensor(w, types[i].name, types[i].id, 2, (const uint64_t[]){512, 3}, NULL,
                           512 / types[i].block_elements * types[i].block_bytes * 3);
    open_file(w);
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        ck_assert_uint_eq(gguf_tensor_find(gguf, types[i].name)->bytes,
                          512 / types[i].block_elements * types[i].block_bytes * 3);
        ck_assert_str_eq(ggml_type_find(types[i].id)->name, types[i].name);
    }
    close_file();
}
END_TEST

START_TEST(a_file_is_hashed_once)
{
    uint8_t first[SHA256_BYTES], second[SHA256_BYTES];
    size_t len = 0;
    struct gguf_writer *w = gguf_writer_new();
    gguf_writer_u32(w, "k", 3);
    char *written = gguf_writer_finish(w, &len);
    gguf_writer_free(&w);
    ck_assert_int_eq(gguf_parse(written, len, &gguf, NULL), OK);
    gguf_hash_stop(gguf); /* before it was taken */
    ck_assert_int_eq(gguf_hash_file(gguf, first), STATUS_UNAVAILABLE);
    gguf_free(&gguf);
    ck_assert_int_eq(gguf_parse(written, len, &gguf, NULL), OK);
    ck_assert_int_eq(gguf_hash_file(gguf, first), OK);
    gguf_hash_stop(gguf); /* after that it changes nothing */
    written[len - 1] ^= 1; /* who asks again would see it */
    ck_assert_int_eq(gguf_hash_file(gguf, second), OK);
    ck_assert_mem_eq(first, second, SHA256_BYTES);
    gguf_free(&gguf);
    mem_free(written);
}
END_TEST

START_TEST(a_file_on_disk_opens)
{
    char path[] = "/tmp/foldkv-gguf-test-XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    size_t len = 0;
    struct why why = {0};
    struct gguf_writer *w = gguf_writer_new();
    gguf_writer_u32(w, "k", 3);
    char *written = gguf_writer_finish(w, &len);
    gguf_writer_free(&w);
    ck_assert_int_eq(gguf_open(path, &gguf, &why), STATUS_BAD_FILE);
    ck_assert_msg(strstr(why.text, path) == why.text && strstr(why.text, ": header: the file is empty") != NULL,
                  "%s", why.text);
    ck_assert_int_eq(write(fd, written, len), (ssize_t)len);
    ck_assert_int_eq(gguf_open(path, &gguf, &why), OK);
    uint8_t wanted[SHA256_BYTES], hash[SHA256_BYTES];
    ck_assert_int_eq(sha256_of(written, len, wanted), OK);
    ck_assert_int_eq(gguf_hash_file(gguf, hash), OK);
    ck_assert_mem_eq(hash, wanted, SHA256_BYTES);
    gguf_free(&gguf);
    ck_assert_int_eq(ftruncate(fd, (off_t)len - 1), 0);
    ck_assert_int_eq(gguf_open(path, &gguf, &why), STATUS_BAD_FILE);
    ck_assert_ptr_null(gguf);
    close(fd);
    unlink(path);
    ck_assert_int_eq(gguf_open(path, &gguf, &why), STATUS_IO);
    ck_assert_msg(strstr(why.text, "No such file") != NULL, "%s", why.text);
    ck_assert_int_eq(gguf_open("/tmp", &gguf, &why), STATUS_IO);
    ck_assert_str_eq(why.text, "/tmp: not a regular file");
    mem_free(written);
}
END_TEST

START_TEST(every_allocation_fails_once)
{
    size_t len = 0;
    struct gguf_writer *w = gguf_writer_new();
    gguf_writer_strings(w, "texts", (const char *const[]){"a", "b"}, 2);
    gguf_writer_strings(w, "more", (const char *const[]){"c"}, 1);
    gguf_writer_tensor(w, "t", GGML_F32, 1, (const uint64_t[]){3}, NULL, 12);
    char *written = gguf_writer_finish(w, &len);
    gguf_writer_free(&w);
    uint64_t failures = 0;
    for (uint64_t n = 1;; n++) {
        struct why why = {0};
        mem_fail_nth(n);
        enum status s = gguf_parse(written, len, &gguf, &why);
        bool has_struck = mem_failure_struck();
        mem_fail_nth(0);
        if (!has_struck) {
            ck_assert_int_eq(s, OK);
            break;
        }
        failures++;
        ck_assert_int_eq(s, STATUS_NO_MEMORY);
        ck_assert_ptr_null(gguf);
        ck_assert(why.text[0] != '\0');
    }
    ck_assert_uint_eq(failures,
                      8); /* the gguf, keys and tensors with their orders, extents, two lists */
    gguf_free(&gguf);
    mem_free(written);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gguf");
    TCase *tc = tcase_create("files");
    tcase_set_timeout(tc, 30);
    tcase_add_loop_test(tc, integers_of_every_type, 0, (int)ARRAY_LEN(integer_rows));
    tcase_add_test(tc, values_and_their_types);
    tcase_add_test(tc, arrays_are_random_access);
    tcase_add_test_raise_signal(tc, an_array_index_past_the_end_aborts, 6 /* SIGABRT */);
    tcase_add_loop_test(tc, tensors_are_found_with_their_bytes, 0, 4);
    tcase_add_test(tc, every_tensor_type_has_its_size);
    tcase_add_test(tc, a_file_is_hashed_once);
    tcase_add_test(tc, a_file_on_disk_opens);
    tcase_add_test(tc, every_allocation_fails_once);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
