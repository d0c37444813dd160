/* Pool size test: a table of options and memories, and what each comes to. */
// SPDX-License-Identifier: Apache-2.0
#include "cache/pool_size.h"

#include "tests/support/suite_run.h"

#define MIB (1024u * 1024u)
#define GIB (1024ull * MIB)

static const struct {
    uint64_t option, available, block, context; /* a context of so many bytes */
    enum status status;
    uint64_t bytes;
} rows[] = {
    {0, 4 * GIB, MIB, 128ull * MIB, OK, GIB},                   /* a quarter */
    {0, 64 * GIB, MIB, 128ull * MIB, OK, 2 * GIB},              /* at most 2 GiB */
    {0, 400ull * MIB, MIB, 128ull * MIB, OK, 128ull * MIB},     /* never less than a context */
    {0, 128ull * MIB, MIB, 128ull * MIB, OK, 128ull * MIB},     /* all there is */
    {0, 64 * GIB, 40ull * MIB, 5 * GIB, OK, 5 * GIB},           /* a context of more than 2 GiB */
    {0, 128ull * MIB - 1, MIB, 128ull * MIB, STATUS_NO_MEMORY, 0}, /* not even a context */
    {0, GIB, UINT64_MAX / 2, UINT64_MAX, STATUS_NO_MEMORY, 0},     /* its size overflows */
    /* given: less than a context is the operator's choice */
    {5ull * MIB + 7, GIB, MIB, 128ull * MIB, OK, 5ull * MIB + 7},
    {MIB, GIB, MIB, 128ull * MIB, OK, MIB},
    {MIB - 1, GIB, MIB, 128ull * MIB, STATUS_CACHE_TOO_SMALL, 0},
    {GIB, GIB, MIB, 128ull * MIB, OK, GIB},
    {GIB + 1, GIB, MIB, 128ull * MIB, STATUS_BAD_OPTION, 0},
};

START_TEST(each_row)
{
    struct why why = {0};
    size_t bytes;
    const struct pool_size_limits limits = {.option_bytes = rows[_i].option,
                                            .available_bytes = rows[_i].available,
                                            .block_bytes = rows[_i].block,
                                            .context_bytes = rows[_i].context,
                                            .context = 8192};
    ck_assert_int_eq(pool_size(&limits, &bytes, &why), rows[_i].status);
    ck_assert_uint_eq(bytes, rows[_i].bytes);
    ck_assert_str_eq(why.field, rows[_i].status == OK ? "" : "cache.bytes");
    ck_assert_int_eq(why.text[0] == '\0', rows[_i].status == OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pool_size");
    TCase *tcase = tcase_create("all");
    tcase_set_timeout(tcase, 10);
    tcase_add_loop_test(tcase, each_row, 0, (int)ARRAY_LEN(rows));
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
