/* gguf_bad_test.c: every way a GGUF file can lie is refused by name.
 *
 * HOW     A row makes a right file, spoils one thing, and states what the refusal must say. The
 *         right file itself is parsed first, so that a row can fail for its own reason only.
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/gguf.h"

#include "config/ggml_type.h"
#include "config/mem.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/suite_run.h"

static const uint64_t dims_64x4[] = {64, 4};

/* Three keys and two tensors, all in order. */
static struct gguf_writer *right_file(void)
{
    struct gguf_writer *w = gguf_writer_new();
    gguf_writer_string(w, "general.architecture", "llama");
    gguf_writer_u32(w, "a.number", 7);
    gguf_writer_strings(w, "a.list", (const char *const[]){"one", "", "three"}, 3);
    gguf_writer_tensor(w, "first.weight", GGML_F32, 2, dims_64x4, NULL, 1024);
    gguf_writer_tensor(w, "second.weight", GGML_Q4_1, 2, dims_64x4, NULL, 160);
    return w;
}

static struct gguf_writer_tensor *second(struct gguf_writer *w)
{
    return gguf_writer_find(w, "second.weight");
}

static struct gguf_writer_quirks *quirks(struct gguf_writer *w)
{
    return gguf_writer_quirks(w);
}

static void put64(char *at, uint64_t value)
{
    memcpy(at, &value, sizeof value);
}

/* A key "k" whose bytes behind the name are given. */
static void raw_key(struct gguf_writer *w, const void *behind, size_t len)
{
    char bytes[128] = {0};
    put64(bytes, 1);
    bytes[8] = 'k';
    ASSERT(len <= sizeof bytes - 9);
    memcpy(bytes + 9, behind, len);
    gguf_writer_raw_key(w, bytes, 9 + len);
}

/* A string value, or an array of type with count, whose 64-bit length is the given one. */
static void long_string(struct gguf_writer *w, uint64_t len)
{
    char behind[12] = {GGUF_STRING};
    put64(behind + 4, len);
    raw_key(w, behind, sizeof behind);
}

static void long_array(struct gguf_writer *w, char type, uint64_t count)
{
    char behind[16] = {GGUF_ARRAY, 0, 0, 0, type};
    put64(behind + 8, count);
    raw_key(w, behind, sizeof behind);
}

static void long_name(struct gguf_writer *w, uint64_t len)
{
    char bytes[16] = {0};
    put64(bytes, len);
    bytes[8] = 'k';
    gguf_writer_raw_key(w, bytes, sizeof bytes);
}

static void alignment(struct gguf_writer *w, uint32_t value)
{
    gguf_writer_u32(w, "general.alignment", value);
    quirks(w)->alignment = value > 0 && value <= 4096 ? value : 0;
}

static void tensor(struct gguf_writer *w, const char *name, uint32_t type, uint64_t a, uint64_t b,
                   uint64_t c, uint64_t d)
{
    gguf_writer_tensor(w, name, type, 4, (const uint64_t[]){a, b, c, d}, NULL, 0);
}

#define SPOIL(name, what)                                                                          \
    static void name(struct gguf_writer *w)                                                        \
    {                                                                                              \
        what;                                                                                      \
    }

SPOIL(magic, memcpy(quirks(w)->magic, "GGML", 4))
SPOIL(version_0, quirks(w)->has_version = true)
SPOIL(version_1, (quirks(w)->has_version = true, quirks(w)->version = 1))
SPOIL(version_2, (quirks(w)->has_version = true, quirks(w)->version = 2))
SPOIL(version_4, (quirks(w)->has_version = true, quirks(w)->version = 4))
SPOIL(big_endian, (quirks(w)->has_version = true, quirks(w)->version = 3u << 24))
SPOIL(keys_31, (quirks(w)->has_n_keys = true, quirks(w)->n_keys = UINT64_C(1) << 31))
SPOIL(keys_61, (quirks(w)->has_n_keys = true, quirks(w)->n_keys = UINT64_C(1) << 61))
SPOIL(keys_64, (quirks(w)->has_n_keys = true, quirks(w)->n_keys = UINT64_MAX))
SPOIL(keys_65536, (quirks(w)->has_n_keys = true, quirks(w)->n_keys = 65536))
SPOIL(keys_0, quirks(w)->has_n_keys = true)
SPOIL(keys_4, (quirks(w)->has_n_keys = true, quirks(w)->n_keys = 4))
SPOIL(tensors_31, (quirks(w)->has_n_tensors = true, quirks(w)->n_tensors = UINT64_C(1) << 31))
SPOIL(tensors_61, (quirks(w)->has_n_tensors = true, quirks(w)->n_tensors = UINT64_C(1) << 61))
SPOIL(tensors_64, (quirks(w)->has_n_tensors = true, quirks(w)->n_tensors = UINT64_MAX))
SPOIL(tensors_65536, (quirks(w)->has_n_tensors = true, quirks(w)->n_tensors = 65536))
SPOIL(tensors_3, (quirks(w)->has_n_tensors = true, quirks(w)->n_tensors = 3))

SPOIL(key_name_0, long_name(w, 0))
SPOIL(key_name_1000000, long_name(w, 1000000))
SPOIL(key_name_63, long_name(w, UINT64_C(1) << 63))
SPOIL(key_name_64, long_name(w, UINT64_MAX))
SPOIL(key_name_control, gguf_writer_u32(w, "a\nb", 1))
SPOIL(key_name_bytes, gguf_writer_u32(w, "a\xff", 1))
SPOIL(key_type_13, raw_key(w, "\x0d\0\0\0\0\0\0\0", 8))
SPOIL(key_type_max, raw_key(w, "\xff\xff\xff\xff\0\0\0\0", 8))
SPOIL(key_twice, gguf_writer_u32(w, "a.number", 7))
SPOIL(key_bool_2, raw_key(w, "\x07\0\0\0\x02", 5))
SPOIL(string_1000000, long_string(w, 1000000))
SPOIL(string_1g, long_string(w, UINT64_C(1) << 30))
SPOIL(string_63, long_string(w, UINT64_C(1) << 63))
SPOIL(string_64, long_string(w, UINT64_MAX))
SPOIL(array_nested, long_array(w, GGUF_ARRAY, 1))
SPOIL(array_type_13, long_array(w, 13, 1))
SPOIL(array_u8_1g, long_array(w, GGUF_U8, UINT64_C(1) << 30))
SPOIL(array_u8_64, long_array(w, GGUF_U8, UINT64_MAX))
SPOIL(array_f64_61, long_array(w, GGUF_F64, (UINT64_C(1) << 61) + 1))
SPOIL(array_string_31, long_array(w, GGUF_STRING, UINT64_C(1) << 31))
SPOIL(array_string_64, long_array(w, GGUF_STRING, UINT64_MAX))
SPOIL(array_bool_2, gguf_writer_array(w, "k", GGUF_BOOL, "\1\0\2", 3, 3))
SPOIL(array_string_item, gguf_writer_array(w, "k", GGUF_STRING, "\0\0\0\0\0\0\0\x80", 1, 8))

SPOIL(alignment_0, alignment(w, 0))
SPOIL(alignment_1, alignment(w, 1))
SPOIL(alignment_3, alignment(w, 3))
SPOIL(alignment_4, alignment(w, 4))
SPOIL(alignment_48, alignment(w, 48))
SPOIL(alignment_8192, alignment(w, 8192))
SPOIL(alignment_31, alignment(w, UINT32_C(1) << 31))
SPOIL(alignment_63, gguf_writer_value(w, "general.alignment", GGUF_U64, "\0\0\0\0\0\0\0\x80", 8))
SPOIL(alignment_text, gguf_writer_string(w, "general.alignment", "32"))
SPOIL(alignment_other, gguf_writer_u32(w, "general.alignment", 4096))

SPOIL(name_0, (second(w)->name_len = 0, second(w)->name[0] = '\0'))
SPOIL(name_64, tensor(w, "a123456789b123456789c123456789d123456789e123456789f123456789g123",
                      GGML_F32, 1, 1, 1, 1))
SPOIL(name_1000000, second(w)->name_len = 1000000)
SPOIL(name_63, second(w)->name_len = UINT64_C(1) << 63)
SPOIL(name_max, second(w)->name_len = UINT64_MAX)
SPOIL(name_twice, gguf_writer_tensor(w, "first.weight", GGML_F32, 2, dims_64x4, NULL, 1024))
SPOIL(name_control, second(w)->name[0] = '\x01')
SPOIL(dims_0, second(w)->n_dims = 0)
SPOIL(dims_5, second(w)->n_dims = 5)
SPOIL(dims_max, second(w)->n_dims = UINT32_MAX)
SPOIL(zero_0, tensor(w, "t", GGML_F32, 0, 1, 1, 1))
SPOIL(zero_1, tensor(w, "t", GGML_F32, 1, 0, 1, 1))
SPOIL(zero_2, tensor(w, "t", GGML_F32, 1, 1, 0, 1))
SPOIL(zero_3, tensor(w, "t", GGML_F32, 1, 1, 1, 0))
SPOIL(over_64, tensor(w, "t", GGML_F32, UINT64_C(1) << 62, 4, 1, 1))
SPOIL(over_to_0, tensor(w, "t", GGML_F32, UINT64_C(1) << 31, UINT64_C(1) << 31, 1, 1))
SPOIL(over_64_q, tensor(w, "t", GGML_Q4_0, UINT64_C(1) << 63, 2, 1, 1))
SPOIL(over_64_4d, tensor(w, "t", GGML_F16, 1 << 16, 1 << 16, 1 << 16, 1 << 16))
SPOIL(over_63, tensor(w, "t", GGML_I8, UINT64_C(1) << 63, 1, 1, 1))
SPOIL(over_file, tensor(w, "t", GGML_I8, 1000000, 1, 1, 1))
SPOIL(over_dim, tensor(w, "t", GGML_I8, UINT64_C(1) << 33, 1, 1, 1))
SPOIL(type_4, second(w)->type = 4)
SPOIL(type_36, second(w)->type = 36)
SPOIL(type_255, second(w)->type = 255)
SPOIL(type_max, second(w)->type = UINT32_MAX)
SPOIL(block_rest, second(w)->dims[0] = 63)
SPOIL(block_rest_k, (second(w)->dims[0] = 128, second(w)->type = GGML_Q4_K))
SPOIL(offset_odd, (second(w)->offset = 1025, second(w)->has_offset = true))
SPOIL(offset_max, (second(w)->offset = UINT64_MAX, second(w)->has_offset = true))
SPOIL(offset_wrap, (second(w)->offset = UINT64_MAX - 31, second(w)->has_offset = true))
SPOIL(offset_end, (second(w)->offset = 1056, second(w)->has_offset = true))
SPOIL(offset_same, (second(w)->offset = 0, second(w)->has_offset = true))
SPOIL(offset_inside, (second(w)->offset = 992, second(w)->has_offset = true))
SPOIL(more_rows, second(w)->dims[1] = 5)
SPOIL(two_huge, (tensor(w, "t", GGML_I8, UINT64_C(1) << 63, 1, 1, 1),
                 tensor(w, "u", GGML_I8, UINT64_C(1) << 63, 1, 1, 1)))

static const struct bad_file {
    const char *name;
    void (*spoil)(struct gguf_writer *w);
    const char *field, *says;
} bad_files[] = {
#define BAD(spoil, field, says)                                                                    \
    {                                                                                              \
#spoil, spoil, field, says                                                                 \
    }
    BAD(magic, "", "starts with bytes 47 47 4d 4c"),
    BAD(version_0, "", "version 0"),
    BAD(version_1, "", "version 1 is not served"),
    BAD(version_2, "", "version 2 is not served"),
    BAD(version_4, "", "version 4"),
    BAD(big_endian, "", "big-endian"),
    BAD(keys_31, "", "2147483648 keys"),
    BAD(keys_61, "", "2305843009213693952 keys"),
    BAD(keys_64, "", "18446744073709551615 keys"),
    BAD(keys_65536, "", "65536 keys and 2 tensors need at least"),
    BAD(keys_0, "", "tensor"),
    BAD(keys_4, "", "tensor 1 of 2"),
    BAD(tensors_31, "", "2147483648 tensors"),
    BAD(tensors_61, "", "2305843009213693952 tensors"),
    BAD(tensors_64, "", "18446744073709551615 tensors"),
    BAD(tensors_65536, "", "3 keys and 65536 tensors need at least"),
    BAD(tensors_3, "", "tensor 3 of 3"),
    BAD(key_name_0, "", "key 4 of 4: a name of 0 bytes"),
    BAD(key_name_1000000, "", "needs 1000000 bytes"),
    BAD(key_name_63, "", "needs 9223372036854775808 bytes"),
    BAD(key_name_64, "", "needs 18446744073709551615 bytes"),
    BAD(key_name_control, "a?b", "control bytes"),
    BAD(key_name_bytes, "a?", "not UTF-8"),
    BAD(key_type_13, "k", "type 13, known are 0..12"),
    BAD(key_type_max, "k", "type 4294967295"),
    BAD(key_twice, "a.number", "stands twice"),
    BAD(key_bool_2, "k", "a bool is 2"),
    BAD(string_1000000, "k", "the string needs 1000000 bytes"),
    BAD(string_1g, "k", "the string needs 1073741824 bytes"),
    BAD(string_63, "k", "needs 9223372036854775808 bytes"),
    BAD(string_64, "k", "needs 18446744073709551615 bytes"),
    BAD(array_nested, "k", "array of arrays"),
    BAD(array_type_13, "k", "items of type 13"),
    BAD(array_u8_1g, "k", "an array of 1073741824 items"),
    BAD(array_u8_64, "k", "an array of 18446744073709551615 items"),
    BAD(array_f64_61, "k", "an array of 2305843009213693953 items"),
    BAD(array_string_31, "k", "an array of 2147483648 items"),
    BAD(array_string_64, "k", "an array of 18446744073709551615 items"),
    BAD(array_bool_2, "k", "a bool is 2"),
    BAD(array_string_item, "k", "needs 9223372036854775808 bytes"),
    BAD(alignment_0, "general.alignment", "0, must be a power of two, 8..4096"),
    BAD(alignment_1, "general.alignment", "1, must be"),
    BAD(alignment_3, "general.alignment", "3, must be"),
    BAD(alignment_4, "general.alignment", "4, must be"),
    BAD(alignment_48, "general.alignment", "48, must be"),
    BAD(alignment_8192, "general.alignment", "8192, must be"),
    BAD(alignment_31, "general.alignment", "2147483648, must be"),
    BAD(alignment_63, "general.alignment", "9223372036854775808 is over"),
    BAD(alignment_text, "general.alignment", "a string found"),
    BAD(alignment_other, "second.weight", "offset 1024 is no multiple of the alignment, 4096"),
    BAD(name_0, "", "tensor 2 of 2: a name of 0 bytes"),
    BAD(name_64, "", "a name of 64 bytes"),
    BAD(name_1000000, "", "needs 1000000 bytes"),
    BAD(name_63, "", "needs 9223372036854775808 bytes"),
    BAD(name_max, "", "needs 18446744073709551615 bytes"),
    BAD(name_twice, "first.weight", "stands twice"),
    BAD(name_control, "?econd.weight", "control bytes"),
    BAD(dims_0, "second.weight", "0 dimensions"),
    BAD(dims_5, "second.weight", "5 dimensions"),
    BAD(dims_max, "second.weight", "4294967295 dimensions"),
    BAD(zero_0, "t", "dimension 0 is 0"),
    BAD(zero_1, "t", "dimension 1 is 0"),
    BAD(zero_2, "t", "dimension 2 is 0"),
    BAD(zero_3, "t", "dimension 3 is 0"),
    BAD(over_64, "t", "over 64 bits"),
    BAD(over_to_0, "t", "over 64 bits"),
    BAD(over_64_q, "t", "10376293541461622784 bytes of Q4_0"),
    BAD(over_64_4d, "t", "over 64 bits"),
    BAD(over_63, "t", "9223372036854775808 bytes of I8, the whole file has"),
    BAD(over_file, "t", "1000000 bytes of I8, the whole file has"),
    BAD(over_dim, "t", "8589934592 bytes of I8"),
    BAD(type_4, "second.weight", "tensor type 4 is not known"),
    BAD(type_36, "second.weight", "tensor type 36 is not known"),
    BAD(type_255, "second.weight", "tensor type 255 is not known"),
    BAD(type_max, "second.weight", "tensor type 4294967295 is not known"),
    BAD(block_rest, "second.weight", "rows of 63 elements, Q4_1 needs a multiple of 32"),
    BAD(block_rest_k, "second.weight", "rows of 128 elements, Q4_K needs a multiple of 256"),
    BAD(offset_odd, "second.weight", "offset 1025 is no multiple of the alignment, 32"),
    BAD(offset_max, "second.weight", "offset 18446744073709551615 is no multiple"),
    BAD(offset_wrap, "second.weight", "160 bytes at offset 18446744073709551584"),
    BAD(offset_end, "second.weight", "160 bytes at offset 1056, the file has 1184"),
    BAD(offset_same, "", "lies inside tensor"),
    BAD(offset_inside, "second.weight", "offset 992 lies inside tensor \"first.weight\""),
    BAD(more_rows, "second.weight", "200 bytes at offset 1024"),
    BAD(two_huge, "t", "the whole file has"),
#undef BAD
};

START_TEST(a_right_file_is_taken)
{
    size_t len = 0;
    struct gguf *gguf = NULL;
    struct gguf_writer *w = right_file();
    char *bytes = gguf_writer_finish(w, &len);
    ck_assert_int_eq(gguf_parse(bytes, len, &gguf, NULL), OK);
    gguf_free(&gguf);
    mem_free(bytes);
    gguf_writer_free(&w);
}
END_TEST

START_TEST(a_bad_file_is_refused_by_name)
{
    const struct bad_file *bad = &bad_files[_i];
    size_t len = 0;
    struct gguf *gguf = NULL;
    struct why why = {0};
    struct gguf_writer *w = right_file();
    bad->spoil(w);
    char *bytes = gguf_writer_finish(w, &len);
    uint64_t calls = mem_calls();
    enum status s = gguf_parse(bytes, len, &gguf, &why);
    ck_assert_msg(s == STATUS_BAD_FILE, "%s was taken", bad->name);
    ck_assert_ptr_null(gguf);
    ck_assert_msg(strstr(why.text, bad->says) != NULL, "%s: \"%s\" lacks \"%s\"", bad->name,
                  why.text, bad->says);
    if (bad->field[0] != '\0')
        ck_assert_str_eq(why.field, bad->field);
    ck_assert_msg(mem_calls() - calls <= 8, "%s made %d allocations", bad->name,
                  (int)(mem_calls() - calls));
    mem_free(bytes);
    gguf_writer_free(&w);
}
END_TEST

START_TEST(nothing_is_allocated_for_impossible_counts)
{
    void (*const spoils[])(struct gguf_writer *) = {
        keys_31, keys_61, keys_64, keys_65536, tensors_31, tensors_61, tensors_64, tensors_65536};
    size_t len = 0;
    struct gguf *gguf = NULL;
    struct gguf_writer *w = right_file();
    spoils[_i](w);
    char *bytes = gguf_writer_finish(w, &len);
    uint64_t calls = mem_calls();
    ck_assert_int_eq(gguf_parse(bytes, len, &gguf, NULL), STATUS_BAD_FILE);
    ck_assert_uint_eq(mem_calls() - calls, 1); /* struct gguf itself */
    mem_free(bytes);
    gguf_writer_free(&w);
}
END_TEST

START_TEST(every_prefix_is_refused)
{
    size_t len = 0;
    struct gguf *gguf = NULL;
    struct gguf_writer *w = right_file();
    char *bytes = gguf_writer_finish(w, &len);
    for (size_t cut = 0; cut < len; cut++) {
        char *copy =
            mem_alloc(cut); /* of exactly that size, so that a sanitizer sees one byte too far */
        ck_assert_ptr_nonnull(copy);
        memcpy(copy, bytes, cut);
        struct why why = {0};
        ck_assert_msg(gguf_parse(copy, cut, &gguf, &why) == STATUS_BAD_FILE, "cut at %zu was taken",
                      cut);
        ck_assert(why.text[0] != '\0');
        mem_free(copy);
    }
    mem_free(bytes);
    gguf_writer_free(&w);
}
END_TEST

START_TEST(every_changed_byte_is_survived)
{
    size_t len = 0;
    struct gguf *gguf = NULL;
    struct gguf_writer *w = right_file();
    char *bytes = gguf_writer_finish(w, &len);
    size_t header = len - 1184; /* the data may be anything */
    for (size_t at = 0; at < header; at++) {
        for (unsigned value = 1; value < 256; value += 2) {
            bytes[at] = (char)((unsigned char)bytes[at] ^ value);
            if (gguf_parse(bytes, len, &gguf, NULL) == OK) {
                ck_assert_ptr_nonnull(gguf_tensor_at(gguf, 0)->data);
                gguf_free(&gguf);
            }
            bytes[at] = (char)((unsigned char)bytes[at] ^ value);
        }
    }
    mem_free(bytes);
    gguf_writer_free(&w);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gguf_bad");
    TCase *tc = tcase_create("refusals");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, a_right_file_is_taken);
    tcase_add_loop_test(tc, a_bad_file_is_refused_by_name, 0, (int)ARRAY_LEN(bad_files));
    tcase_add_loop_test(tc, nothing_is_allocated_for_impossible_counts, 0, 8);
    tcase_add_test(tc, every_prefix_is_refused);
    tcase_add_test(tc, every_changed_byte_is_survived);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
