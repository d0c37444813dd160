/* check.h: the part of Check's interface that the kernel tests use, for builds where Check cannot be had.
 *
 * WHY     The NEON kernel tests are linked statically for qemu-aarch64, and Debian's Check for arm64 comes only with a
 *         second architecture in the package manager. The test programs are the same as with Check itself.
 * Each test runs in a fork of its own with a timeout; check_small.c prints the same last line as Check does. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_TESTS_CHECK_SMALL_H
#define FOLDKV_TESTS_CHECK_SMALL_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void check_test_fn(int _i);
typedef struct check_case TCase;
typedef struct check_suite Suite;
typedef struct check_suite SRunner;

enum print_output { CK_SILENT, CK_MINIMAL, CK_NORMAL, CK_VERBOSE, CK_ENV };

#define START_TEST(name)                                                                           \
    static void name(int _i)                                                                       \
    {                                                                                              \
        (void)_i;
#define END_TEST }

TCase *tcase_create(const char *name);
void tcase_set_timeout(TCase *c, double seconds);
void check_add(TCase *c, const char *name, check_test_fn *fn, int first, int end);
#define tcase_add_test(c, fn) check_add(c, #fn, fn, 0, 1)
#define tcase_add_loop_test(c, fn, first, end) check_add(c, #fn, fn, first, end)
Suite *suite_create(const char *name);
void suite_add_tcase(Suite *s, TCase *c);
SRunner *srunner_create(Suite *s);
void srunner_run_all(SRunner *r, enum print_output how);
int srunner_ntests_failed(SRunner *r);
int srunner_ntests_run(SRunner *r);
void srunner_free(SRunner *r);

_Noreturn void check_failed(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define ck_abort_msg(...) check_failed(__FILE__, __LINE__, __VA_ARGS__)
#define ck_assert_msg(condition, ...)                                                              \
    ((condition) ? (void)0 : check_failed(__FILE__, __LINE__, __VA_ARGS__))
#define ck_assert(condition) ck_assert_msg(condition, "%s is false", #condition)
#define CHECK_COMPARE(type, a, op, b, format)                                                      \
    do {                                                                                           \
        type check_a_ = (a);                                                                       \
        type check_b_ = (b);                                                                       \
        ck_assert_msg(check_a_ op check_b_, "%s %s %s: " format " and " format, #a, #op, #b,       \
                      check_a_, check_b_);                                                         \
    } while (0)
#define ck_assert_int_eq(a, b) CHECK_COMPARE(intmax_t, a, ==, b, "%jd")
#define ck_assert_int_ne(a, b) CHECK_COMPARE(intmax_t, a, !=, b, "%jd")
#define ck_assert_int_lt(a, b) CHECK_COMPARE(intmax_t, a, <, b, "%jd")
#define ck_assert_int_le(a, b) CHECK_COMPARE(intmax_t, a, <=, b, "%jd")
#define ck_assert_int_gt(a, b) CHECK_COMPARE(intmax_t, a, >, b, "%jd")
#define ck_assert_int_ge(a, b) CHECK_COMPARE(intmax_t, a, >=, b, "%jd")
#define ck_assert_uint_eq(a, b) CHECK_COMPARE(uintmax_t, a, ==, b, "%ju")
#define ck_assert_uint_ne(a, b) CHECK_COMPARE(uintmax_t, a, !=, b, "%ju")
#define ck_assert_uint_lt(a, b) CHECK_COMPARE(uintmax_t, a, <, b, "%ju")
#define ck_assert_uint_le(a, b) CHECK_COMPARE(uintmax_t, a, <=, b, "%ju")
#define ck_assert_uint_gt(a, b) CHECK_COMPARE(uintmax_t, a, >, b, "%ju")
#define ck_assert_uint_ge(a, b) CHECK_COMPARE(uintmax_t, a, >=, b, "%ju")
#define ck_assert_double_lt(a, b) CHECK_COMPARE(double, a, <, b, "%g")
#define ck_assert_double_le(a, b) CHECK_COMPARE(double, a, <=, b, "%g")
#define ck_assert_double_gt(a, b) CHECK_COMPARE(double, a, >, b, "%g")
#define ck_assert_double_ge(a, b) CHECK_COMPARE(double, a, >=, b, "%g")
#define ck_assert_double_eq(a, b) CHECK_COMPARE(double, a, ==, b, "%g")
#define ck_assert_ptr_eq(a, b) CHECK_COMPARE(const void *, a, ==, b, "%p")
#define ck_assert_ptr_ne(a, b) CHECK_COMPARE(const void *, a, !=, b, "%p")
#define ck_assert_ptr_null(a) CHECK_COMPARE(const void *, a, ==, NULL, "%p")
#define ck_assert_ptr_nonnull(a) CHECK_COMPARE(const void *, a, !=, NULL, "%p")
#define ck_assert_mem_eq(a, b, n) ck_assert_msg(memcmp(a, b, n) == 0, "%s and %s differ", #a, #b)
#define ck_assert_mem_ne(a, b, n) ck_assert_msg(memcmp(a, b, n) != 0, "%s and %s are equal", #a, #b)
#define ck_assert_str_eq(a, b)                                                                     \
    do {                                                                                           \
        const char *check_a_ = (a), *check_b_ = (b);                                               \
        ck_assert_msg(strcmp(check_a_, check_b_) == 0, "%s is \"%s\", not \"%s\"", #a, check_a_,   \
                      check_b_);                                                                   \
    } while (0)
#define ck_assert_str_ne(a, b) ck_assert_msg(strcmp(a, b) != 0, "%s and %s are equal", #a, #b)

#endif
