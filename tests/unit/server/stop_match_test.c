/* stop_match_test.c: the automaton against a plain search, over random texts and cuts; and what is held back, byte by byte. */
// SPDX-License-Identifier: Apache-2.0
#include "config/mem.h"
#include "server/stop_match.h"
#include "tests/support/suite_run.h"

static struct slice slice_of(const char *text)
{
    return (struct slice){text, strlen(text)};
}

/* Pushes text in pieces; true if a stop string was found. */
static bool run(const struct slice *stops, size_t n_stops, struct slice text, size_t piece, struct byte_buffer *out)
{
    struct stop_match *match;
    ck_assert_int_eq(stop_match_new(stops, n_stops, &match), OK);
    bool is_stopped = false;
    for (size_t at = 0; at < text.len && !is_stopped; at += piece) {
        size_t n = at + piece < text.len ? piece : text.len - at;
        is_stopped = stop_match_push(match, (struct slice){text.bytes + at, n}, out);
    }
    if (!is_stopped)
        stop_match_flush(match, out);
    ck_assert_uint_eq(stop_match_held(match), 0);
    stop_match_free(&match);
    return is_stopped;
}

/* Where the text before the first stop string ends: the one that ends first, and of those the longest. */
static size_t expected_end(const struct slice *stops, size_t n_stops, struct slice text, bool *ret_stopped)
{
    for (size_t end = 1; end <= text.len; end++) {
        size_t longest = 0;
        for (size_t i = 0; i < n_stops; i++)
            if (stops[i].len <= end && stops[i].len > longest &&
                memcmp(text.bytes + end - stops[i].len, stops[i].bytes, stops[i].len) == 0)
                longest = stops[i].len;
        *ret_stopped = longest > 0;
        if (longest > 0)
            return end - longest;
    }
    *ret_stopped = false;
    return text.len;
}

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525 + 1013904223;
    return *state >> 16;
}

START_TEST(agrees_with_a_plain_search)
{
    uint32_t state = (uint32_t)_i * 7919 + 1;
    char bytes[64], stop_bytes[STOP_STRINGS_MAX][6];
    struct slice stops[STOP_STRINGS_MAX];
    size_t n_stops = next_random(&state) % STOP_STRINGS_MAX;
    unsigned letters = 2 + next_random(&state) % 2;
    for (size_t i = 0; i < n_stops; i++) {
        stops[i] = (struct slice){stop_bytes[i], 2 + next_random(&state) % 5};
        for (size_t k = 0; k < stops[i].len; k++)
            stop_bytes[i][k] = (char)('a' + next_random(&state) % letters);
    }
    struct slice text = {bytes, next_random(&state) % sizeof bytes};
    for (size_t i = 0; i < text.len; i++)
        bytes[i] = (char)('a' + next_random(&state) % letters);
    bool stops_expected;
    size_t end = expected_end(stops, n_stops, text, &stops_expected);
    for (size_t piece = 1; piece <= 9; piece++) {
        struct byte_buffer out;
        byte_buffer_init(&out, 1000);
        ck_assert_int_eq(run(stops, n_stops, text, piece, &out), stops_expected);
        ck_assert_uint_eq(out.len, end);
        ck_assert(end == 0 || memcmp(out.bytes, bytes, end) == 0);
        byte_buffer_release(&out);
    }
}
END_TEST

START_TEST(the_longest_partial_match_is_held)
{
    struct slice stops[] = {slice_of("<|end|>"), slice_of("\n\n"), slice_of("|e!")};
    static const struct {
        const char *push;
        size_t held, out;
    } steps[] = {{"a", 0, 1}, {"<", 1, 1}, {"|e", 3, 1}, {"x", 0, 5}, {"<|end", 5, 5}, {"|<", 1, 11}, {"\n", 1, 12}};
    struct stop_match *match;
    struct byte_buffer out;
    byte_buffer_init(&out, 100);
    ck_assert_int_eq(stop_match_new(stops, ARRAY_LEN(stops), &match), OK);
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        ck_assert(!stop_match_push(match, slice_of(steps[i].push), &out));
        ck_assert_uint_eq(stop_match_held(match), steps[i].held);
        ck_assert_uint_eq(out.len, steps[i].out);
    }
    ck_assert(stop_match_push(match, slice_of("\nrest"), &out));
    ck_assert_uint_eq(out.len, 12);
    ck_assert_mem_eq(out.bytes, "a<|ex<|end|<", 12);
    stop_match_free(&match);
    byte_buffer_release(&out);
}
END_TEST

START_TEST(sixteen_strings_of_256_bytes)
{
    static char bytes[STOP_STRINGS_MAX][STOP_BYTES_MAX];
    struct slice stops[STOP_STRINGS_MAX];
    for (size_t i = 0; i < STOP_STRINGS_MAX; i++) {
        memset(bytes[i], 'a', STOP_BYTES_MAX);
        bytes[i][STOP_BYTES_MAX - 1] = (char)('b' + i);
        stops[i] = (struct slice){bytes[i], STOP_BYTES_MAX};
    }
    char text[1000];
    memset(text, 'a', sizeof text);
    struct byte_buffer out;
    byte_buffer_init(&out, sizeof text);
    ck_assert(!run(stops, STOP_STRINGS_MAX, (struct slice){text, sizeof text}, 7, &out));
    ck_assert_uint_eq(out.len, sizeof text);
    ck_assert_mem_eq(out.bytes, text, sizeof text);
    byte_buffer_clear(&out);
    text[900] = 'q';
    ck_assert(run(stops, STOP_STRINGS_MAX, (struct slice){text, sizeof text}, 7, &out));
    ck_assert_uint_eq(out.len, 900 - (STOP_BYTES_MAX - 1));
    byte_buffer_release(&out);
}
END_TEST

START_TEST(no_memory_is_told)
{
    struct stop_match *match;
    mem_fail_nth(1);
    ck_assert_int_eq(stop_match_new(NULL, 0, &match), STATUS_NO_MEMORY);
    mem_fail_nth(0);
    ck_assert_ptr_null(match);
    stop_match_free(&match);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stop_match");
    TCase *tcase = tcase_create("stop_match");
    tcase_add_test(tcase, the_longest_partial_match_is_held);
    tcase_add_test(tcase, sixteen_strings_of_256_bytes);
    tcase_add_test(tcase, no_memory_is_told);
    tcase_add_loop_test(tcase, agrees_with_a_plain_search, 0, 500);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
