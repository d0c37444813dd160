/* bench_serve.c: load scenarios and their figures.
 *
 * WHY     Claims about serving are ratios between servers under one client; this is the client.
 * HOW     Prompts are random token ids from a seed, so that two servers of one model see the same
 *         work. Scenarios:
 *             streams  N clients send their requests one after the other, all at once
 *             prefix   one after the other, prompts that share their first tokens (the first one
 *                      warms the cache, uncounted)
 *             intrude  N clients decode; then one long prompt arrives: their longest gap, before
 *                      and after
 *         Figures are medians and extremes over all tokens of a run. Tokens that come in one event,
 *         since the others have no text of their own, have equal parts of its gap.
 * NOT     Comparing: tests/bench runs two servers in turn and divides.
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/bench_serve.h"

#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <poll.h>

#include "config/mem.h"
#include "sched/clock.h"
#include "server/load_stream.h"

enum {
    STREAMS_MAX = 256,
    TOKENS_MAX = 1 << 20,
    ID_LEAST = 1000, /* below it a vocabulary keeps its marks and bytes */
    VOCAB = 41000,
    VOCAB_MAX = 1000000,
    WAIT_MS = 120000
};

enum scenario { SCENARIO_STREAMS, SCENARIO_PREFIX, SCENARIO_INTRUDE };

struct bench_plan {
    struct load_target target;
    enum scenario scenario;
    uint32_t streams, rounds, prompt_tokens, max_tokens, shared_tokens, intruder_tokens, vocab;
    uint64_t seed;
    bool is_json;
};

/* Durations in nanoseconds, sorted when a figure is asked for. */
struct samples {
    uint64_t *ns;
    size_t n, room;
};

struct bench_run {
    const struct bench_plan *plan;
    struct load_stream *streams[STREAMS_MAX + 1];
    uint32_t rounds_left[STREAMS_MAX + 1];
    struct samples first, gaps, gaps_before;
    uint64_t tokens, cached_tokens, prompt_tokens, requests;
    uint64_t intruder_start_ns;
    uint64_t intruder_first_ns;
    uint32_t *ids;
    uint64_t random;
};

const char *bench_serve_help(void)
{
    return "usage: foldkv bench serve --url http://127.0.0.1:PORT [options]\n"
           "  --scenario streams|prefix|intrude   what to do (default streams)\n"
           "  --streams N          clients at once, 1 to 256 (default 8)\n"
           "  --rounds N           requests each client sends, 1 to 100000 (default 1)\n"
           "  --prompt-tokens N    tokens of a prompt, 1 to 1048576 (default 450)\n"
           "  --shared-tokens N    leading tokens that all prompts share, 0 to 1048576 (default "
           "0)\n"
           "  --max-tokens N       tokens of an answer, 1 to 1048576 (default 128)\n"
           "  --intruder-tokens N  tokens of the long prompt of scenario intrude, 1 to 1048576 "
           "(default 3000)\n"
           "  --seed N             prompts follow from it (default 1)\n"
           "  --model NAME         the request's model; the server's own if not given\n"
           "  --vocab N            token ids below N, 2 to 1000000 (default 41000)\n"
           "  --json               figures as one JSON object\n";
}

/* ---- samples ---- */

static enum status samples_add(struct samples *s, uint64_t ns)
{
    if (s->n == s->room) {
        size_t room = s->room == 0 ? 1024 : 2 * s->room;
        uint64_t *grown = mem_realloc(s->ns, room * sizeof *grown);
        if (grown == NULL)
            return STATUS_NO_MEMORY;
        s->ns = grown;
        s->room = room;
    }
    s->ns[s->n++] = ns;
    return OK;
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* The q-quantile in milliseconds; 0 without samples. */
static double samples_ms(struct samples *s, double q)
{
    if (s->n == 0)
        return 0.0;
    qsort(s->ns, s->n, sizeof *s->ns, by_size);
    return (double)s->ns[(size_t)(q * (double)(s->n - 1))] / 1e6;
}

/* ---- prompts ---- */

/* SplitMix64: enough to make prompts that share nothing by accident. */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static void make_prompt(struct bench_run *run, uint32_t n)
{
    uint64_t shared = run->plan->seed;
    uint32_t vocab = run->plan->vocab, least = vocab > 2 * ID_LEAST ? ID_LEAST : vocab / 2;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t r =
            i < run->plan->shared_tokens ? next_random(&shared) : next_random(&run->random);
        run->ids[i] = least + (uint32_t)(r % (vocab - least));
    }
}

static enum status start_request(struct bench_run *run, uint32_t i, uint32_t n_tokens,
                                 uint32_t max_tokens, struct why *ret_why)
{
    make_prompt(run, n_tokens);
    run->requests++;
    run->prompt_tokens += n_tokens;
    return load_stream_start(run->streams[i], &run->plan->target, run->ids, n_tokens, max_tokens,
                             ret_why);
}

/* ---- one run ---- */

static enum status collect(struct bench_run *run, const struct load_stream *s)
{
    uint32_t n = load_stream_event_count(s);
    run->tokens += load_stream_completion_tokens(s);
    run->cached_tokens += load_stream_cached_tokens(s);
    if (n > 0)
        TRY(samples_add(&run->first, load_stream_event_ns(s, 0) - load_stream_start_ns(s)));
    for (uint32_t i = 1; i < n; i++) {
        uint64_t at = load_stream_event_ns(s, i);
        bool is_before = run->plan->scenario == SCENARIO_INTRUDE &&
                         (run->intruder_start_ns == 0 || at < run->intruder_start_ns);
        bool is_after = run->intruder_first_ns != 0 && at > run->intruder_first_ns + 1000000000u;
        uint32_t n_tokens = load_stream_event_tokens(s, i);
        uint64_t gap = (at - load_stream_event_ns(s, i - 1)) / n_tokens;
        /* a gap counts to the intruder while its prompt is computed, and just behind */
        for (uint32_t k = 0; !is_after && k < n_tokens; k++)
            TRY(samples_add(is_before ? &run->gaps_before : &run->gaps, gap));
    }
    return OK;
}

/* Waits for events on streams [0, n) and advances them. */
static enum status poll_streams(struct bench_run *run, uint32_t n, struct why *ret_why)
{
    struct pollfd fds[STREAMS_MAX + 1];
    for (uint32_t i = 0; i < n; i++) {
        fds[i] = (struct pollfd){.fd = load_stream_fd(run->streams[i])};
        fds[i].events = fds[i].fd >= 0 ? load_stream_events(run->streams[i]) : 0;
    }
    int ready = poll(fds, n, WAIT_MS);
    if (ready <= 0 && errno != EINTR)
        return why_set(ret_why, STATUS_REQUEST_TIMEOUT, "url", "no event from the server for %d s",
                       WAIT_MS / 1000);
    for (uint32_t i = 0; i < n; i++)
        if (fds[i].revents != 0)
            TRY(load_stream_advance(run->streams[i], fds[i].revents, ret_why));
    return OK;
}

static enum status run_streams(struct bench_run *run, struct why *ret_why)
{
    const struct bench_plan *p = run->plan;
    uint32_t live = p->streams;
    for (uint32_t i = 0; i < p->streams; i++) {
        run->rounds_left[i] = p->rounds;
        TRY(start_request(run, i, p->prompt_tokens, p->max_tokens, ret_why));
    }
    while (live > 0) {
        TRY(poll_streams(run, p->streams, ret_why));
        for (uint32_t i = 0; i < p->streams; i++) {
            if (run->rounds_left[i] == 0 || !load_stream_is_done(run->streams[i]))
                continue;
            TRY(collect(run, run->streams[i]));
            live -= --run->rounds_left[i] == 0;
            if (run->rounds_left[i] > 0)
                TRY(start_request(run, i, p->prompt_tokens, p->max_tokens, ret_why));
        }
    }
    return OK;
}

static enum status run_prefix(struct bench_run *run, struct why *ret_why)
{
    const struct bench_plan *p = run->plan;
    for (uint32_t round = 0; round <= p->rounds; round++) {
        TRY(start_request(run, 0, p->prompt_tokens, p->max_tokens, ret_why));
        while (!load_stream_is_done(run->streams[0]))
            TRY(poll_streams(run, 1, ret_why));
        if (round > 0) /* the first one only fills the cache */
            TRY(collect(run, run->streams[0]));
    }
    return OK;
}

/* The intruder comes when every client has had this share of its answer. */
enum { INTRUDE_AFTER_EVENTS = 40 };

static bool all_are_decoding(const struct bench_run *run)
{
    for (uint32_t i = 0; i < run->plan->streams; i++)
        if (load_stream_event_count(run->streams[i]) < INTRUDE_AFTER_EVENTS)
            return false;
    return true;
}

static enum status run_intrude(struct bench_run *run, struct why *ret_why)
{
    const struct bench_plan *p = run->plan;
    uint32_t last = p->streams;
    for (uint32_t i = 0; i < p->streams; i++)
        TRY(start_request(run, i, p->prompt_tokens, p->max_tokens, ret_why));
    bool is_over = false;
    while (!is_over) {
        TRY(poll_streams(run, last + 1, ret_why));
        if (run->intruder_start_ns == 0 && all_are_decoding(run)) {
            run->intruder_start_ns = clock_now_ns();
            TRY(start_request(run, last, p->intruder_tokens, 1, ret_why));
        }
        is_over = run->intruder_start_ns != 0 && load_stream_is_done(run->streams[last]);
        for (uint32_t i = 0; i < p->streams; i++)
            is_over = is_over && load_stream_is_done(run->streams[i]);
    }
    if (load_stream_event_count(run->streams[last]) > 0)
        run->intruder_first_ns = load_stream_event_ns(run->streams[last], 0);
    for (uint32_t i = 0; i < p->streams; i++)
        TRY(collect(run, run->streams[i]));
    return OK;
}

/* ---- figures ---- */

static void print_figures(struct bench_run *run, double seconds, FILE *out)
{
    double tokens_a_second = (double)run->tokens / seconds;
    double intruder_ms = run->intruder_first_ns
                             ? (double)(run->intruder_first_ns - run->intruder_start_ns) / 1e6
                             : 0.0;
    struct {
        const char *name, *unit;
        double value;
    } const figures[] = {
        {"requests", "", (double)run->requests},
        {"seconds", "s", seconds},
        {"completion_tokens", "", (double)run->tokens},
        {"prompt_tokens", "", (double)run->prompt_tokens},
        {"cached_tokens", "", (double)run->cached_tokens},
        {"tokens_per_second", "tokens/s", tokens_a_second},
        {"ttft_median_ms", "ms", samples_ms(&run->first, 0.5)},
        {"ttft_p90_ms", "ms", samples_ms(&run->first, 0.9)},
        {"gap_median_ms", "ms", samples_ms(&run->gaps, 0.5)},
        {"gap_p99_ms", "ms", samples_ms(&run->gaps, 0.99)},
        {"gap_longest_ms", "ms", samples_ms(&run->gaps, 1.0)},
        {"gap_before_median_ms", "ms", samples_ms(&run->gaps_before, 0.5)},
        {"intruder_ttft_ms", "ms", intruder_ms},
    };
    for (size_t i = 0; i < ARRAY_LEN(figures); i++)
        if (run->plan->is_json)
            fprintf(out, "%s\"%s\": %.4f%s", i == 0 ? "{" : ", ", figures[i].name, figures[i].value,
                    i + 1 == ARRAY_LEN(figures) ? "}\n" : "");
        else
            fprintf(out, "%-22s %12.2f %s\n", figures[i].name, figures[i].value, figures[i].unit);
}

/* ---- arguments ---- */

static enum status parse_number(const char *name, const char *text, uint64_t least, uint64_t most,
                                uint64_t *ret, struct why *ret_why)
{
    char *end;
    errno = 0;
    *ret = strtoull(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || text[0] == '-' || *ret < least || *ret > most)
        return why_set(ret_why, STATUS_BAD_OPTION, name,
                       "--%s is \"%s\": give a whole number from %llu to %llu", name, text,
                       (unsigned long long)least, (unsigned long long)most);
    return OK;
}

static enum status parse_scenario(const char *text, enum scenario *ret, struct why *ret_why)
{
    static const char *const names[] = {"streams", "prefix", "intrude"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (strcmp(text, names[i]) == 0) {
            *ret = (enum scenario)i;
            return OK;
        }
    }
    return why_set(ret_why, STATUS_BAD_OPTION, "scenario",
                   "--scenario is \"%s\": give streams, prefix or intrude", text);
}

static enum status parse_arguments(int argc, char **argv, struct bench_plan *p, struct why *ret_why)
{
    struct number_option {
        const char *name;
        uint32_t *value;
        uint32_t least, most;
    } const numbers[] = {
        {"streams", &p->streams, 1, STREAMS_MAX},
        {"rounds", &p->rounds, 1, 100000},
        {"prompt-tokens", &p->prompt_tokens, 1, TOKENS_MAX},
        {"shared-tokens", &p->shared_tokens, 0, TOKENS_MAX},
        {"max-tokens", &p->max_tokens, 1, TOKENS_MAX},
        {"intruder-tokens", &p->intruder_tokens, 1, TOKENS_MAX},
        {"vocab", &p->vocab, 2, VOCAB_MAX},
    };
    const char *url = NULL;
    for (int i = 0; i < argc; i++) {
        const char *name = strncmp(argv[i], "--", 2) == 0 ? argv[i] + 2 : "";
        if (strcmp(name, "json") == 0) {
            p->is_json = true;
            continue;
        }
        if (i + 1 == argc)
            return why_set(ret_why, STATUS_BAD_OPTION, argv[i],
                           "%s is unknown or lacks its value: see foldkv bench serve --help",
                           argv[i]);
        const char *value = argv[++i];
        const struct number_option *number = NULL;
        for (size_t k = 0; k < ARRAY_LEN(numbers); k++)
            if (strcmp(name, numbers[k].name) == 0)
                number = &numbers[k];
        uint64_t parsed;
        if (number != NULL) {
            TRY(parse_number(name, value, number->least, number->most, &parsed, ret_why));
            *number->value = (uint32_t)parsed;
        } else if (strcmp(name, "seed") == 0) {
            TRY(parse_number(name, value, 0, UINT64_MAX, &p->seed, ret_why));
        } else if (strcmp(name, "scenario") == 0) {
            TRY(parse_scenario(value, &p->scenario, ret_why));
        } else if (strcmp(name, "url") == 0) {
            url = value;
        } else if (strcmp(name, "model") == 0) {
            p->target.model = value;
        } else {
            return why_set(ret_why, STATUS_BAD_OPTION, argv[i - 1],
                           "%s is unknown: see foldkv bench serve --help", argv[i - 1]);
        }
    }
    if (url == NULL)
        return why_set(ret_why, STATUS_BAD_OPTION, "url",
                       "--url is missing: give http://127.0.0.1:PORT");
    return load_target_parse(url, &p->target, ret_why);
}

static enum status take_memory(struct bench_run *run)
{
    const struct bench_plan *p = run->plan;
    uint32_t longest =
        p->intruder_tokens > p->prompt_tokens ? p->intruder_tokens : p->prompt_tokens;
    run->ids = mem_zalloc(longest, sizeof *run->ids);
    if (run->ids == NULL)
        return STATUS_NO_MEMORY;
    for (uint32_t i = 0; i <= p->streams; i++)
        TRY(load_stream_new(p->max_tokens + 1, &run->streams[i]));
    return OK;
}

static void run_release(struct bench_run *run)
{
    for (size_t i = 0; i < ARRAY_LEN(run->streams); i++)
        load_stream_free(&run->streams[i]);
    mem_free(run->ids);
    mem_free(run->first.ns);
    mem_free(run->gaps.ns);
    mem_free(run->gaps_before.ns);
}

enum status bench_serve(int argc, char **argv, FILE *out, struct why *ret_why)
{
    static enum status (*const scenarios[])(struct bench_run *,
                                            struct why *) = {run_streams, run_prefix, run_intrude};
    struct bench_plan plan = {.streams = 8,
                              .rounds = 1,
                              .prompt_tokens = 450,
                              .max_tokens = 128,
                              .intruder_tokens = 3000,
                              .vocab = VOCAB,
                              .seed = 1};
    TRY(parse_arguments(argc, argv, &plan, ret_why));
    struct bench_run run = {.plan = &plan, .random = plan.seed * 2 + 1};
    enum status s = take_memory(&run);
    if (s != OK)
        why_set(ret_why, s, "", "no memory for %u streams", plan.streams);
    uint64_t start = clock_now_ns();
    if (s == OK)
        s = scenarios[plan.scenario](&run, ret_why);
    if (s == OK)
        print_figures(&run, (double)(clock_now_ns() - start) / 1e9, out);
    run_release(&run);
    return s;
}
