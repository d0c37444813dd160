/* arm_test.c: the hash's bytes, who stays together, and what raising a weight may do. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/judge/arm.h"

#include "tests/support/suite_run.h"

enum { PEOPLE = 20000 };

static struct slice slice_of(const char *text)
{
    return (struct slice){text, strlen(text)};
}

static struct sha256 *sha;

static void setup(void)
{
    ck_assert_int_eq(sha256_new(&sha), OK);
}

static void teardown(void)
{
    sha256_free(&sha);
}

static uint32_t bucket_of_user(const char *salt, int i)
{
    char user[32];
    snprintf(user, sizeof user, "user-%d", i);
    struct arm_session session = {.user = slice_of(user), .connection = slice_of("x")};
    return arm_bucket(sha, slice_of(salt), &session);
}

/* The formula by hand: len(salt) salt len(key) key, the key being its kind and its value. */
START_TEST(the_bucket_is_the_documented_hash)
{
    static const char framed[] = "\4\0\0\0\0\0\0\0salt\6\0\0\0\0\0\0\0ualice";
    uint8_t hash[SHA256_BYTES];
    ck_assert_int_eq(sha256_of(framed, sizeof framed - 1, hash), OK);
    uint64_t first = 0;
    for (int i = 0; i < 8; i++)
        first = first * 256 + hash[i];
    struct arm_session session = {.user = slice_of("alice")};
    ck_assert_uint_eq(arm_bucket(sha, slice_of("salt"), &session), first % 10000);
    ck_assert_uint_eq(first % 10000, arm_bucket(sha, slice_of("salt"), &session));
}
END_TEST

/* Whatever stands behind the first key that is there does not count. */
START_TEST(the_first_key_decides)
{
    struct arm_session all = {slice_of("p"), slice_of("s"), slice_of("u"),
                              slice_of("c"), slice_of("a"), slice_of("n")};
    struct slice *keys[] = {&all.session_id, &all.user, &all.prompt_cache_key, &all.api_key,
                            &all.connection};
    for (size_t first = 0; first < ARRAY_LEN(keys); first++) {
        uint32_t bucket = arm_bucket(sha, slice_of("salt"), &all);
        for (size_t later = first + 1; later < ARRAY_LEN(keys); later++) {
            struct slice kept = *keys[later];
            *keys[later] = slice_of("another");
            ck_assert_uint_eq(arm_bucket(sha, slice_of("salt"), &all), bucket);
            *keys[later] = kept;
        }
        struct slice kept = *keys[first];
        *keys[first] = slice_of("another");
        ck_assert_uint_ne(arm_bucket(sha, slice_of("salt"), &all), bucket);
        *keys[first] = kept;
        if (first == 0) { /* a session belongs to its principal */
            all.principal = slice_of("q");
            ck_assert_uint_ne(arm_bucket(sha, slice_of("salt"), &all), bucket);
        }
        *keys[first] = (struct slice){0};
    }
}
END_TEST

START_TEST(kinds_and_frames_do_not_meet)
{
    struct arm_session user = {.user = slice_of("same")}, key = {.api_key = slice_of("same")};
    ck_assert_uint_ne(arm_bucket(sha, slice_of("s"), &user), arm_bucket(sha, slice_of("s"), &key));
    struct arm_session ab = {slice_of("a"), slice_of("bc"), {0}, {0}, {0}, {0}};
    struct arm_session abc = {slice_of("ab"), slice_of("c"), {0}, {0}, {0}, {0}};
    ck_assert_uint_ne(arm_bucket(sha, slice_of("s"), &ab), arm_bucket(sha, slice_of("s"), &abc));
}
END_TEST

START_TEST(raising_the_weight_only_adds_people)
{
    static const uint32_t weights[] = {0, 1, 50, 100, 500, 501, 2500, 9500};
    for (uint32_t bucket = 0; bucket < ARM_BUCKETS; bucket++) {
        enum arm before = ARM_STABLE;
        for (size_t i = 0; i < ARRAY_LEN(weights); i++) {
            enum arm now = arm_of_bucket(bucket, weights[i], 500);
            ck_assert(before == ARM_STABLE || now == before);
            before = now;
        }
    }
}
END_TEST

START_TEST(buckets_give_exact_shares)
{
    static const uint32_t weights[] = {0, 1, 100, 500, 2500, 9500};
    for (size_t i = 0; i < ARRAY_LEN(weights); i++) {
        uint32_t n[ARM_COUNT] = {0};
        for (uint32_t bucket = 0; bucket < ARM_BUCKETS; bucket++)
            n[arm_of_bucket(bucket, weights[i], 500)]++;
        ck_assert_uint_eq(n[ARM_CANARY], weights[i]);
        ck_assert_uint_eq(n[ARM_CONTROL], arm_control_bp(weights[i], 500));
    }
    ck_assert_uint_eq(arm_of_bucket(9499, 9500, 500), ARM_CANARY);
    ck_assert_uint_eq(arm_of_bucket(9500, 9500, 500), ARM_CONTROL);
}
END_TEST

/* People's shares are those of the weights within five standard deviations, and another salt draws
 * other people. */
START_TEST(people_are_spread_evenly)
{
    uint32_t canary = 0, control = 0, both = 0, tenths[10] = {0};
    for (int i = 0; i < PEOPLE; i++) {
        uint32_t bucket = bucket_of_user("one", i);
        enum arm arm = arm_of_bucket(bucket, 500, 500);
        tenths[bucket / 1000]++;
        canary += arm == ARM_CANARY;
        control += arm == ARM_CONTROL;
        both += arm == ARM_CANARY && arm_of_bucket(bucket_of_user("two", i), 500, 500) == arm;
    }
    ck_assert_uint_ge(canary, 1000 - 155); /* sqrt(20000 * .05 * .95) = 30.8 */
    ck_assert_uint_le(canary, 1000 + 155);
    ck_assert_uint_ge(control, 1000 - 155);
    ck_assert_uint_le(control, 1000 + 155);
    ck_assert_uint_le(both, 50 + 36); /* 5 % of 5 %: 50, and 7.05 */
    for (size_t i = 0; i < 10; i++) { /* sqrt(20000 * .1 * .9) = 42.4 */
        ck_assert_uint_ge(tenths[i], 2000 - 212);
        ck_assert_uint_le(tenths[i], 2000 + 212);
    }
}
END_TEST

/* Metric labels and a header carry them. */
START_TEST(arms_have_names)
{
    ck_assert_str_eq(arm_name(ARM_STABLE), "stable");
    ck_assert_str_eq(arm_name(ARM_CONTROL), "control");
    ck_assert_str_eq(arm_name(ARM_CANARY), "canary");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("arm");
    TCase *tc = tcase_create("arm");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, the_bucket_is_the_documented_hash);
    tcase_add_test(tc, the_first_key_decides);
    tcase_add_test(tc, kinds_and_frames_do_not_meet);
    tcase_add_test(tc, raising_the_weight_only_adds_people);
    tcase_add_test(tc, buckets_give_exact_shares);
    tcase_add_test(tc, people_are_spread_evenly);
    tcase_add_test(tc, arms_have_names);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
