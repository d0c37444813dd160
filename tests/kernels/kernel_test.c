/* kernel_test.c: the table of kernels: names, choice, masks, and the order that pick.c relies on.
 */
// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernel.h"
#include "tests/support/suite_run.h"

START_TEST(names_follow_the_grammar)
{
    struct kernel_row row = kernels_row((size_t)_i);
    char want[96];
    snprintf(want, sizeof want, "%s__%s", row.op, isa_name(row.isa));
    ck_assert_str_eq(row.function, want);
    ck_assert_ptr_null(strstr(row.op, "__"));
    for (const char *c = row.op; *c != '\0'; c++)
        ck_assert_msg((*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9') || *c == '_', "%s",
                      row.op);
    for (size_t i = 0; i < (size_t)_i; i++)
        ck_assert_msg(strcmp(kernels_row(i).function, row.function) != 0, "%s stands twice",
                      row.function);
}
END_TEST

/* pick.c keeps the last row that may run, so within an operation sets must rise, and scalar must be there. */
START_TEST(rows_rise_from_scalar)
{
    struct kernel_row row = kernels_row((size_t)_i);
    bool scalar = false;
    for (size_t i = 0; i < kernels_row_count(); i++) {
        struct kernel_row other = kernels_row(i);
        if (strcmp(other.op, row.op) != 0)
            continue;
        scalar |= other.isa == ISA_SCALAR;
        ck_assert(i == (size_t)_i || (i < (size_t)_i) == (other.isa < row.isa));
    }
    ck_assert_msg(scalar, "%s has no scalar row", row.op);
}
END_TEST

START_TEST(every_slot_is_filled_from_scalar_on)
{
    struct kernels kernels;
    kernels_pick(0, &kernels);
    ck_assert_int_eq(kernels.isa, ISA_SCALAR);
    void (*slots[sizeof kernels / sizeof(void (*)(void))])(void);
    memcpy(slots, &kernels, sizeof slots);
    for (size_t i = 0; i < offsetof(struct kernels, isa) / sizeof slots[0]; i++)
        ck_assert_msg(slots[i] != NULL, "slot %zu is empty", i);
}
END_TEST

/* For every mask: what is chosen is the highest row of the op that is in the mask and on this machine. */
START_TEST(the_highest_allowed_row_is_chosen)
{
    uint32_t mask = (uint32_t)_i;
    struct kernels kernels;
    kernels_pick(mask, &kernels);
    for (size_t i = 0; i < kernels_row_count(); i++) {
        struct kernel_row row = kernels_row(i);
        bool allowed = row.available && (row.isa == ISA_SCALAR || (mask >> row.isa & 1u) != 0);
        for (size_t j = i + 1; j < kernels_row_count(); j++) {
            struct kernel_row other = kernels_row(j);
            if (strcmp(other.op, row.op) == 0 && other.available && (mask >> other.isa & 1u) != 0)
                allowed = false; /* a higher one takes its place */
        }
        ck_assert_msg(kernels_row_is_chosen(&kernels, i) == allowed, "mask %u, %s", mask,
                      row.function);
    }
}
END_TEST

START_TEST(names_of_sets_are_checked)
{
    struct kernels kernels;
    struct why why = {0};
    ck_assert_int_eq(kernels_pick_named("avx9", &kernels, &why), STATUS_BAD_OPTION);
    ck_assert_str_eq(why.field, "kernels.isa");
    ck_assert_ptr_nonnull(strstr(why.text, "avx9"));
    ck_assert_ptr_nonnull(strstr(why.text, "scalar"));
    for (int i = 0; i < ISA_COUNT; i++) {
        enum isa isa = ISA_COUNT;
        ck_assert(isa_from_name(isa_name((enum isa)i), &isa));
        ck_assert_int_eq((int)isa, i);
        bool here = (isa_available() >> i & 1u) != 0;
        enum status s = kernels_pick_named(isa_name((enum isa)i), &kernels, &why);
        ck_assert_int_eq(s, here ? OK : STATUS_BAD_OPTION);
        ck_assert(!here || (int)kernels.isa == i);
    }
}
END_TEST

int main(void)
{
    int rows = (int)kernels_row_count();
    TCase *c = tcase_create("kernel");
    tcase_set_timeout(c, 10);
    tcase_add_loop_test(c, names_follow_the_grammar, 0, rows);
    tcase_add_loop_test(c, rows_rise_from_scalar, 0, rows);
    tcase_add_test(c, every_slot_is_filled_from_scalar_on);
    tcase_add_loop_test(c, the_highest_allowed_row_is_chosen, 0, 1 << ISA_COUNT);
    tcase_add_test(c, names_of_sets_are_checked);
    Suite *s = suite_create("kernel");
    suite_add_tcase(s, c);
    return suite_run(s);
}
