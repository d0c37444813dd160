/* bench_command.c: `foldkv bench`: which measurement, and its flags. */
// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <sched.h>

#include "config/mem.h"
#include "kernels/bench/bench.h"
#include "kernels/bench/bench_attention.h"
#include "kernels/bench/bench_bandwidth.h"
#include "sched/model.h"
#include "server/bench_serve.h"
#include "server/command.h"

extern char **environ;

enum flag {
    JSON,
    CONTEXT,
    SEQUENCES,
    ROWS,
    HEADS,
    GROUP,
    WIDTH,
    LAYERS,
    ROUNDS,
    SCATTERED,
    COLUMNS,
    BYTES,
    TYPE,
    FLAG_COUNT
};

enum { ATTENTION = 1, GEMV = 2, GEMM = 4, PRODUCTS = GEMV | GEMM, ALL = ATTENTION | PRODUCTS };
enum { MIB = 1 << 20, PROSE_ROOM = 200 };

/* A flag of these measurements: a number from least to most, and fallback if it is not given (0: as the
 * prose says); with most 0 it is no number. */
struct bench_flag {
    enum flag flag;
    unsigned of;
    const char *name, *metavar, *prose;
    uint64_t least, most, fallback;
};

static const struct bench_flag flags[] = {
    {JSON, ALL, "json", NULL, "Figures as JSON.", 0, 0, 0},
    {CONTEXT, ATTENTION, "context", "N", "Tokens a sequence holds", 1, 1 << 22, 32768},
    {SEQUENCES, ATTENTION, "sequences", "N", "Sequences decoded together", 1, 1024, 1},
    {ROWS, ATTENTION, "rows", "N", "Query rows a sequence", 1, 8192, 1},
    {HEADS, ATTENTION, "kv-heads", "N", "K/V heads", 1, 64, 3},
    {GROUP, ATTENTION, "group", "N", "Query heads a K/V head", 1, 16, 3},
    {WIDTH, ATTENTION, "width", "N", "Width of a head, a multiple of 16", 16, 256, 64},
    {LAYERS, ATTENTION, "layers", "N",
     "Layers, each with K/V of its own, as many as make 1 GiB if not given", 1, 4096, 0},
    {ROUNDS, ATTENTION, "rounds", "N",
     "Rounds in which all variants alternate; medians are printed", 1, BENCH_ROUNDS_MAX, 7},
    {SCATTERED, ATTENTION, "scattered", NULL, "Pages in random order instead of one run.", 0, 0, 0},
    {ROWS, PRODUCTS, "rows", "N", "Rows of the matrix", 1, MIB, 4096},
    {COLUMNS, PRODUCTS, "columns", "N", "Columns of the matrix, a multiple of 32", 32, MIB, 2048},
    {BYTES, GEMV, "bytes", "N", "Bytes of distinct weights, at least one matrix", MIB,
     (uint64_t)64 << 30, 1024 * MIB},
    {BYTES, GEMM, "bytes", "N", "Bytes of distinct weights, at least one matrix", MIB,
     (uint64_t)64 << 30, 128 * MIB},
    {ROUNDS, PRODUCTS, "rounds", "N", "Rounds; medians are printed", 1, BENCH_ROUNDS_MAX, 9},
    {TYPE, PRODUCTS, "type", "NAME", "This weight type alone (Q4_1, F16, ...); all if not given.",
     0, 0, 0},
};

/* What was asked for, beside the option table's --threads, --isa and --cache-type. */
struct bench_line {
    struct options options;
    struct options_line words;
    size_t n; /* the measurement's flags */
    struct option_extra extras[FLAG_COUNT];
    const struct bench_flag *rows[FLAG_COUNT];
    char prose[FLAG_COUNT][PROSE_ROOM];
    const char *values[FLAG_COUNT]; /* NULL: not given */
    uint64_t numbers[FLAG_COUNT];
};

/* The flags that these measurements have. */
static void line_init(struct bench_line *line, unsigned of)
{
    *line = (struct bench_line){0};
    for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
        const struct bench_flag *row = &flags[i];
        if ((row->of & of) == 0)
            continue;
        char *prose = line->prose[line->n], fallback[40] = "";
        if (row->fallback != 0)
            snprintf(fallback, sizeof fallback, "; %" PRIu64 " if not given", row->fallback);
        if (row->most == 0)
            snprintf(prose, PROSE_ROOM, "%s", row->prose);
        else
            snprintf(prose, PROSE_ROOM, "%s: %" PRIu64 " to %" PRIu64 "%s.", row->prose, row->least,
                     row->most, fallback);
        line->rows[line->n] = row;
        line->extras[line->n++] =
            (struct option_extra){.flag = row->name, .metavar = row->metavar, .prose = prose};
    }
}

static enum status read_line(unsigned users, size_t n_words, char *const *words,
                             struct bench_line *line, struct why *ret_why)
{
    TRY(options_load(users, n_words, words, environ, line->extras, line->n, &line->options,
                     &line->words, ret_why));
    for (size_t i = 0; i < line->n; i++) {
        const struct bench_flag *row = line->rows[i];
        line->values[row->flag] = line->extras[i].ret_value;
        line->numbers[row->flag] = row->fallback;
        if (line->extras[i].ret_value != NULL && row->most != 0)
            TRY(command_number(&line->extras[i], row->least, row->most, &line->numbers[row->flag],
                               ret_why));
    }
    return OK;
}

static uint32_t thread_count(const struct options *options)
{
    cpu_set_t set;
    if (options->server_threads > 0 || sched_getaffinity(0, sizeof set, &set) != 0)
        return options->server_threads > 0 ? options->server_threads : 1;
    return (uint32_t)CPU_COUNT(&set);
}

static enum status measure_attention(const struct bench_line *line, struct why *ret_why)
{
    const uint64_t *n = line->numbers;
    struct bench_attention_options o = {.n_threads = thread_count(&line->options),
                                        .isa = line->options.kernels_isa,
                                        .context = (uint32_t)n[CONTEXT],
                                        .sequences = (uint32_t)n[SEQUENCES],
                                        .rows = (uint32_t)n[ROWS],
                                        .n_kv_heads = (uint32_t)n[HEADS],
                                        .group = (uint32_t)n[GROUP],
                                        .d = (uint32_t)n[WIDTH],
                                        .layers = (uint32_t)n[LAYERS],
                                        .rounds = (uint32_t)n[ROUNDS],
                                        .scattered = line->values[SCATTERED] != NULL};
    TRY(model_kv_type(line->options.cache_type, &o.type, ret_why));
    return bench_attention(&o, stdout, line->values[JSON] != NULL, ret_why);
}

static struct bench_options product_options(const struct bench_line *line)
{
    const uint64_t *n = line->numbers;
    return (struct bench_options){.n_threads = thread_count(&line->options),
                                  .isa = line->options.kernels_isa,
                                  .n_columns = (uint32_t)n[COLUMNS],
                                  .n_rows = (uint32_t)n[ROWS],
                                  .bytes = (size_t)n[BYTES],
                                  .rounds = (uint32_t)n[ROUNDS],
                                  .type = line->values[TYPE]};
}

static enum status measure_gemv(const struct bench_line *line, struct why *ret_why)
{
    struct bench_options o = product_options(line);
    return bench_gemv(&o, stdout, line->values[JSON] != NULL, ret_why);
}

static enum status measure_gemm(const struct bench_line *line, struct why *ret_why)
{
    struct bench_options o = product_options(line);
    return bench_gemm(&o, stdout, line->values[JSON] != NULL, ret_why);
}

static const struct measurement {
    const char *name;
    unsigned bit, users;
    enum status (*measure)(const struct bench_line *line, struct why *ret_why);
} measurements[] = {{"attention", ATTENTION, OPTIONS_ATTENTION, measure_attention},
                    {"gemv", GEMV, OPTIONS_BENCH, measure_gemv},
                    {"gemm", GEMM, OPTIONS_BENCH, measure_gemm}};

static int print_flags(const struct measurement *m, const struct bench_line *line)
{
    char *text = options_help(m->users, line->extras, line->n);
    if (text == NULL)
        return command_complain(&(struct why){.text = "no memory for the help text"});
    printf("usage: foldkv bench %s [flags]\n\n%s", m->name, text);
    mem_free(text);
    return COMMAND_DONE;
}

static int print_help(void)
{
    struct bench_line line;
    printf("Measures kernels, or with serve a running server.\n");
    for (size_t i = 0; i < ARRAY_LEN(measurements); i++) {
        line_init(&line, measurements[i].bit);
        printf("\n");
        if (print_flags(&measurements[i], &line) != COMMAND_DONE)
            return COMMAND_FAILED;
    }
    printf("\n%s", bench_serve_help());
    return COMMAND_DONE;
}

static int run(const struct measurement *m, size_t n_words, char *const *words)
{
    struct bench_line line;
    struct why why = {0};
    line_init(&line, m->bit);
    enum status s = read_line(m->users, n_words, words, &line, &why);
    if (s != OK)
        return command_failed(s, &why);
    if (line.words.is_help)
        return print_flags(m, &line);
    if (line.words.n_positionals > 0)
        return command_unknown("bench", line.words.positionals[0], "flags alone behind its measurement");
    s = m->measure(&line, &why);
    return s == OK ? COMMAND_DONE : command_failed(s, &why);
}

static int run_serve(int n_words, char **words)
{
    struct why why = {0};
    for (int i = 0; i < n_words; i++) {
        if (strcmp(words[i], "--help") == 0 || strcmp(words[i], "-h") == 0) {
            fputs(bench_serve_help(), stdout);
            return COMMAND_DONE;
        }
    }
    enum status s = bench_serve(n_words, words, stdout, &why);
    return s == OK ? COMMAND_DONE : command_failed(s, &why);
}

int bench_command(size_t n_words, char *const *words)
{
    if (n_words == 0)
        return command_unknown("bench", NULL, "a measurement");
    if (strcmp(words[0], "--help") == 0 || strcmp(words[0], "-h") == 0)
        return print_help();
    if (strcmp(words[0], "serve") == 0)
        return run_serve((int)n_words - 1, (char **)(uintptr_t)(words + 1));
    for (size_t i = 0; i < ARRAY_LEN(measurements); i++)
        if (strcmp(words[0], measurements[i].name) == 0)
            return run(&measurements[i], n_words - 1, words + 1);
    return command_unknown("bench", words[0], "a measurement first");
}
