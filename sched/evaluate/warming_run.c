/* warming_run.c: the fixed prompts once more, in the candidate's own namespace, before its first client.
 *
 * WHY     A client's first request should find memory that the system has given and prefixes of the set in
 *         the cache; and somebody must have looked that no page of the baseline's can be found there.
 * HOW     Shared pages are counted from the two caches as allocated: pages of the candidate's pool that
 *         lie in memory of the baseline's, group by group.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/evaluate/evaluation_run.h"

#include "cache/cache.h"
#include "sched/lane.h"

enum { RECEIPT_BYTES_MAX = 4096, WINDOW = 4 };

struct warming {
    uint64_t n_tokens, n_cached, n_failed, shared_pages;
};

/* Pages of a that overlap memory of b: an address range of each head of each layer would say the same, since pools
 * are one mapping. */
static uint64_t overlap(const struct cache_memory *a, const struct cache_memory *b)
{
    const char *from = a->base > b->base ? a->base : b->base;
    const char *a_end = a->base + a->bytes, *b_end = b->base + b->bytes;
    const char *end = a_end < b_end ? a_end : b_end;
    return from < end ? ((uint64_t)(end - from) + a->page_bytes - 1) / a->page_bytes : 0;
}

static uint64_t shared_pages(const struct lane *candidate, const struct lane *baseline)
{
    uint64_t n = 0;
    uint32_t n_groups, n_others;
    const struct cache_memory *pool = lane_pool(candidate, &n_groups);
    const struct cache_memory *other = lane_pool(baseline, &n_others);
    for (uint32_t i = 0; i < n_groups; i++)
        for (uint32_t j = 0; j < n_others; j++)
            n += overlap(&pool[i], &other[j]);
    return n;
}

static enum status warm(struct evaluation_run *run, uint32_t first, uint32_t n,
                        struct flight flights[WINDOW], struct why *ret_why)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct planned_item *item = &run->plan->items[first + i];
        struct flight_terms terms = {.ids = item->ids, .n_ids = item->n_ids, .max_tokens = 1};
        TRY(evaluation_run_submit(run, SIDE_CANDIDATE, &terms, &flights[i], ret_why));
    }
    for (uint32_t i = 0; i < n; i++)
        while (!flights[i].is_done)
            TRY(evaluation_run_wait(run, ret_why));
    return OK;
}

static enum status warm_all(struct evaluation_run *run, struct warming *warming,
                            struct why *ret_why)
{
    for (uint32_t first = 0; first < run->plan->n_items; first += WINDOW) {
        struct flight flights[WINDOW] = {0};
        uint32_t left = run->plan->n_items - first, n = left < WINDOW ? left : WINDOW;
        enum status s = warm(run, first, n, flights, ret_why);
        evaluation_run_land(run, flights, WINDOW);
        for (uint32_t i = 0; s == OK && i < n; i++) {
            s = evaluation_run_note(run, SIDE_CANDIDATE, &flights[i], false, ret_why);
            warming->n_failed += flights[i].reason == FINISH_ERROR;
            warming->n_tokens += flights[i].n_prompt;
            warming->n_cached += flights[i].cached_tokens;
        }
        TRY(s);
    }
    return OK;
}

static enum status write(const struct evaluation_run *run, const struct warming *warming,
                         char **ret_receipt, uint8_t ret_hash[SHA256_BYTES])
{
    struct canonical_json json;
    canonical_init(&json, RECEIPT_BYTES_MAX);
    canonical_open_object(&json, NULL);
    canonical_hash(&json, "baseline_namespace", lane_namespace(run->lanes[SIDE_BASELINE]));
    canonical_integer(&json, "cached_tokens", (int64_t)warming->n_cached);
    canonical_integer(&json, "failed", (int64_t)warming->n_failed);
    canonical_text(&json, "kind", "warming");
    canonical_hash(&json, "namespace", lane_namespace(run->lanes[SIDE_CANDIDATE]));
    canonical_integer(&json, "prompts", run->plan->n_items);
    canonical_hash(&json, "prompts_sha256", run->plan->prompts_hash);
    canonical_text(&json, "schema", "foldkv.warming_receipt/1");
    canonical_integer(&json, "shared_pages", (int64_t)warming->shared_pages);
    canonical_integer(&json, "tokens", (int64_t)warming->n_tokens);
    canonical_close_object(&json);
    return canonical_take(&json, ret_receipt, ret_hash);
}

enum status warming_run(struct evaluation_run *run, char **ret_receipt,
                        uint8_t ret_hash[SHA256_BYTES], bool *ret_passes, struct why *ret_why)
{
    struct warming warming = {0};
    const struct lane *candidate = run->lanes[SIDE_CANDIDATE],
                      *baseline = run->lanes[SIDE_BASELINE];
    run->progress =
        (struct evaluator_progress){.stage = EVALUATOR_WARMING, .n_most = run->plan->n_items};
    run->on_progress(run->user, &run->progress);
    if (memcmp(lane_namespace(candidate), lane_namespace(baseline), SHA256_BYTES) == 0)
        return why_set(
            ret_why, STATUS_RECEIPTS_DISAGREE, "namespace",
            "candidate and baseline have the same namespace: pages of one could be read by "
            "the other");
    TRY(warm_all(run, &warming, ret_why));
    warming.shared_pages = shared_pages(candidate, baseline);
    *ret_passes = warming.shared_pages == 0 && warming.n_failed == 0;
    if (write(run, &warming, ret_receipt, ret_hash) != OK)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the warming's receipt");
    return OK;
}
