/* attention_schedule_test.c: every row of every head is in one tile, every chunk in one share, and
 * the shares are even. */
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention.h"

#include <signal.h>

#include "config/mem.h"
#include "kernels/attention_priv.h"
#include "kernels/kernel.h"
#include "tests/support/noise.h"
#include "tests/support/seed.h"
#include "tests/support/suite_run.h"

enum { SEQUENCES_MAX = 32, ROWS_MAX = 3000, CONTEXT = 8192, RUNS_MAX = CONTEXT / PAGE_TOKENS };

struct world {
    struct attention_plan *plan;
    struct attention_sequence sequences[SEQUENCES_MAX];
    uint32_t n_sequences;
    struct page_run runs[SEQUENCES_MAX][RUNS_MAX];
};

static struct attention_plan *new_plan(uint32_t n_kv_heads, uint32_t group, uint32_t n_threads)
{
    static uint16_t owner[256];
    static struct kernels kernels;
    for (uint32_t h = 0; h < n_kv_heads * group; h++)
        owner[h] = (uint16_t)(h / group);
    kernels_pick(1u << ISA_SCALAR, &kernels);
    struct attention_shape shape = {
        .n_query_heads = n_kv_heads * group,
        .n_kv_heads = n_kv_heads,
        .d_qk = 16,
        .d_v = 16,
        .scale = 1,
        .query_to_k_head = owner,
        .query_to_v_head = owner,
        .n_threads = n_threads,
        .rows_max = ROWS_MAX,
        .sequences_max = SEQUENCES_MAX,
        .context_max = CONTEXT,
    };
    struct attention_plan *plan = NULL;
    ck_assert_int_eq((int)attention_plan_new(&shape, &kernels.attention, &plan, NULL), OK);
    return plan;
}

static void add_sequence(struct world *w, uint32_t first_position, uint32_t n_rows, uint64_t *seed)
{
    uint32_t i = w->n_sequences++;
    uint32_t pages = (first_position + n_rows + PAGE_TOKENS - 1) / PAGE_TOKENS;
    uint32_t row = i == 0 ? 0 : w->sequences[i - 1].row_first + w->sequences[i - 1].n_rows;
    w->sequences[i] = (struct attention_sequence){.runs = w->runs[i],
                                                  .first_position = first_position,
                                                  .n_rows = n_rows,
                                                  .row_first = row};
    for (uint32_t page = 0; page < pages;) {
        uint32_t n = 1 + noise_below(seed, 5);
        n = n < pages - page ? n : pages - page;
        w->runs[i][w->sequences[i].n_runs++] = (struct page_run){1000 * (i + 1) + 2 * page, n};
        page += n;
    }
}

static bool cut_is_before(const struct attention_cut *a, const struct attention_cut *b)
{
    return a->tile < b->tile || (a->tile == b->tile && a->chunk < b->chunk);
}

/* Tiles: each pair of each group and sequence once, in order, sizes within one of each other. */
static void check_tiles(const struct world *w)
{
    const struct attention_plan *plan = w->plan;
    uint32_t t = 0;
    for (uint32_t g = 0; g < plan->n_groups; g++)
        for (uint32_t i = 0; i < w->n_sequences; i++) {
            const struct attention_sequence *s = &w->sequences[i];
            uint32_t pairs = s->n_rows * plan->groups[g].n_heads;
            uint32_t least = UINT32_MAX, most = 0, n = 0;
            for (uint32_t at = 0; at < pairs; t++, n++) {
                const struct attention_tile *tile = &plan->tiles[t];
                ck_assert_uint_lt(t, plan->n_tiles);
                ck_assert(tile->group == g && tile->sequence == i && tile->pair_first == at);
                at += tile->n_rows;
                uint32_t last_row = (at - 1) / plan->groups[g].n_heads;
                ck_assert_uint_eq(tile->n_tokens, s->first_position + last_row + 1);
                ck_assert_uint_eq(tile->n_chunks,
                                  (tile->n_tokens + ATTEND_CHUNK - 1) / ATTEND_CHUNK);
                least = tile->n_rows < least ? tile->n_rows : least;
                most = tile->n_rows > most ? tile->n_rows : most;
            }
            ck_assert(pairs == 0 || (most <= ATTEND_ROWS_MAX && most - least <= 1));
            ck_assert_uint_eq(n, (pairs + ATTEND_ROWS_MAX - 1) / ATTEND_ROWS_MAX);
        }
    ck_assert_uint_eq(t, plan->n_tiles);
}

/* In rows' arithmetic: what takes less than a token's way from memory takes that. */
static uint64_t token_cost(const struct attention_tile *tile)
{
    return tile->n_rows < 4 ? 5u : tile->n_rows + 1u;
}

static uint64_t cost_until(const struct attention_plan *plan, const struct attention_cut *cut)
{
    uint64_t cost = 0;
    for (uint32_t t = 0; t < cut->tile; t++)
        cost += plan->tiles[t].n_tokens * token_cost(&plan->tiles[t]);
    if (cut->chunk > 0)
        cost += cut->chunk * ATTEND_CHUNK * token_cost(&plan->tiles[cut->tile]);
    return cost;
}

static void check_cuts(const struct world *w)
{
    const struct attention_plan *plan = w->plan;
    uint32_t n = plan->n_threads;
    ck_assert(plan->cuts[0].tile == 0 && plan->cuts[0].chunk == 0);
    ck_assert(plan->cuts[n].tile == plan->n_tiles && plan->cuts[n].chunk == 0);
    double share = (double)cost_until(plan, &plan->cuts[n]) / n;
    for (uint32_t i = 1; i < n; i++) {
        const struct attention_cut *cut = &plan->cuts[i];
        ck_assert(!cut_is_before(cut, cut - 1));
        ck_assert(cut->tile == plan->n_tiles ? cut->chunk == 0
                                             : cut->chunk < plan->tiles[cut->tile].n_chunks);
        double off =
            (double)cost_until(plan, cut) - share * i; /* a chunk, and the tiles' own weight */
        ck_assert_msg(off * off <= 10000.0 * 10000.0 + 0.01 * share * share * n, "cut %u is %g off",
                      i, off);
        if (cut->chunk == 0)
            continue;
        const struct attention_sequence *s = &w->sequences[plan->tiles[cut->tile].sequence];
        uint32_t page = cut->at.page;
        for (uint32_t run = 0; run < cut->at.run; run++)
            page += s->runs[run].n_pages;
        ck_assert_uint_eq(page, cut->chunk * (ATTEND_CHUNK / PAGE_TOKENS));
        ck_assert_uint_lt(cut->at.page, s->runs[cut->at.run].n_pages);
    }
}

static void schedule_and_check(struct world *w)
{
    uint64_t calls = mem_calls();
    attention_schedule(w->plan, w->sequences, w->n_sequences);
    ck_assert_uint_eq(mem_calls(), calls);
    check_tiles(w);
    check_cuts(w);
}

START_TEST(random_steps_are_covered_once)
{
    uint64_t seed = test_seed() + (uint64_t)_i;
    for (int round = 0; round < 30; round++) {
        struct world w = {.plan = new_plan(1 + noise_below(&seed, 8), 1 + noise_below(&seed, 30),
                                           1 + noise_below(&seed, 9))};
        uint32_t n = noise_below(&seed, SEQUENCES_MAX + 1);
        for (uint32_t i = 0; i < n; i++)
            add_sequence(&w, noise_below(&seed, CONTEXT - 90),
                         noise_below(&seed, 3) == 0 ? noise_below(&seed, 90) : 1, &seed);
        schedule_and_check(&w);
        attention_plan_free(&w.plan);
    }
}
END_TEST

START_TEST(one_long_prompt_is_covered_once)
{
    uint64_t seed = test_seed();
    struct world w = {.plan = new_plan(3, 3, 4)};
    add_sequence(&w, 4000, ROWS_MAX, &seed);
    schedule_and_check(&w);
    attention_plan_free(&w.plan);
}
END_TEST

START_TEST(an_empty_step_gives_every_thread_nothing)
{
    struct world w = {.plan = new_plan(2, 2, 3)};
    schedule_and_check(&w);
    ck_assert_uint_eq(w.plan->n_tiles, 0);
    attention_plan_free(&w.plan);
}
END_TEST

START_TEST(pages_that_do_not_cover_the_rows_are_our_mistake)
{
    uint64_t seed = 1;
    struct world w = {.plan = new_plan(2, 2, 1)};
    add_sequence(&w, 640, 1, &seed);
    w.sequences[0].n_runs--;
    attention_schedule(w.plan, w.sequences, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("attention_schedule");
    printf("seed %llu\n", (unsigned long long)test_seed());
    TCase *tc = tcase_create("schedule");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, random_steps_are_covered_once, 0, 8);
    tcase_add_test(tc, one_long_prompt_is_covered_once);
    tcase_add_test(tc, an_empty_step_gives_every_thread_nothing);
    tcase_add_test_raise_signal(tc, pages_that_do_not_cover_the_rows_are_our_mistake, SIGABRT);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
