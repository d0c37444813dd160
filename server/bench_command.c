/* bench_command.c: `foldkv bench`: which measurement, and its flags. */
// SPDX-License-Identifier: Apache-2.0
#include <sched.h>

#include "kernels/bench/bench.h"
#include "kernels/bench/bench_attention.h"
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

/* What was asked for, beside the option table's --threads, --isa and --cache-type. */
struct bench_line {
    struct options options;
    struct options_line words;
    struct option_extra extras[FLAG_COUNT];
    uint64_t numbers[FLAG_COUNT]; /* 0: the measurement's own default */
};

static const struct option_extra flags[FLAG_COUNT] = {
    [JSON] = {.flag = "json", .prose = "Figures as JSON."},
    [CONTEXT] = {.flag = "context", .metavar = "N", .prose = "attention: tokens a sequence holds."},
    [SEQUENCES] = {.flag = "sequences",
                   .metavar = "N",
                   .prose = "attention: sequences decoded together."},
    [ROWS] = {.flag = "rows",
              .metavar = "N",
              .prose = "attention: query rows a sequence; gemv and gemm: rows of the matrix."},
    [HEADS] = {.flag = "kv-heads", .metavar = "N", .prose = "attention: K/V heads."},
    [GROUP] = {.flag = "group", .metavar = "N", .prose = "attention: query heads a K/V head."},
    [WIDTH] = {.flag = "width", .metavar = "N", .prose = "attention: width of a head."},
    [LAYERS] = {.flag = "layers",
                .metavar = "N",
                .prose = "attention: layers, each with K/V of its own."},
    [ROUNDS] = {.flag = "rounds",
                .metavar = "N",
                .prose = "Rounds in which all variants alternate; medians are printed."},
    [SCATTERED] = {.flag = "scattered",
                   .prose = "attention: pages in random order instead of one run."},
    [COLUMNS] = {.flag = "columns",
                 .metavar = "N",
                 .prose = "gemv and gemm: columns of the matrix."},
    [BYTES] = {.flag = "bytes",
               .metavar = "N",
               .prose = "gemv and gemm: bytes of distinct weights."},
    [TYPE] = {.flag = "type", .metavar = "NAME", .prose = "gemv and gemm: this weight type alone."},
};

static enum status read_line(size_t n_words, char *const *words, struct bench_line *line,
                             struct why *ret_why)
{
    memcpy(line->extras, flags, sizeof flags);
    TRY(options_load(n_words, words, environ, line->extras, FLAG_COUNT, &line->options,
                     &line->words, ret_why));
    for (size_t i = 0; i < FLAG_COUNT; i++) {
        uint64_t most = i == BYTES ? (uint64_t)1 << 40 : UINT32_MAX;
        if (i != TYPE && line->extras[i].ret_value != NULL && line->extras[i].metavar != NULL)
            TRY(command_number(&line->extras[i], 1, most, &line->numbers[i], ret_why));
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
                                        .scattered = line->extras[SCATTERED].ret_value != NULL};
    TRY(model_kv_type(line->options.cache_type, &o.type, ret_why));
    return bench_attention(&o, stdout, line->extras[JSON].ret_value != NULL, ret_why);
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
                                  .type = line->extras[TYPE].ret_value};
}

static enum status measure_gemv(const struct bench_line *line, struct why *ret_why)
{
    struct bench_options o = product_options(line);
    return bench_gemv(&o, stdout, line->extras[JSON].ret_value != NULL, ret_why);
}

static enum status measure_gemm(const struct bench_line *line, struct why *ret_why)
{
    struct bench_options o = product_options(line);
    return bench_gemm(&o, stdout, line->extras[JSON].ret_value != NULL, ret_why);
}

static const struct measurement {
    const char *name;
    enum status (*measure)(const struct bench_line *line, struct why *ret_why);
} measurements[] = {
    {"attention", measure_attention}, {"gemv", measure_gemv}, {"gemm", measure_gemm}};

static int print_help(void)
{
    command_print_help("bench", flags, FLAG_COUNT, false);
    printf("  --threads N, --isa NAME, --cache-type f16|f32|int8\n        As for serve.\n\n%s",
           bench_serve_help());
    return COMMAND_DONE;
}

int bench_command(size_t n_words, char *const *words)
{
    struct bench_line line = {0};
    struct why why = {0};
    if (n_words > 0 && strcmp(words[0], "serve") == 0) {
        enum status s =
            bench_serve((int)n_words - 1, (char **)(uintptr_t)(words + 1), stdout, &why);
        return s == OK ? COMMAND_DONE : command_complain(&why);
    }
    if (read_line(n_words, words, &line, &why) != OK)
        return command_complain(&why);
    if (line.words.is_help)
        return print_help();
    if (line.words.n_positionals != 1)
        return command_unknown("bench", line.words.n_positionals > 1 ? line.words.positionals[1] : NULL, "one measurement");
    for (size_t i = 0; i < ARRAY_LEN(measurements); i++)
        if (strcmp(line.words.positionals[0], measurements[i].name) == 0)
            return measurements[i].measure(&line, &why) == OK ? COMMAND_DONE
                                                              : command_complain(&why);
    return command_unknown("bench", line.words.positionals[0], "a measurement");
}
