/* bench_options.c: defaults and limits of what a benchmark is asked to do.
 *
 * THREAD  any; pure
 */
// SPDX-License-Identifier: Apache-2.0
#include "kernels/bench/bench.h"

#include "kernels/bench/bench_bandwidth.h"

enum { COLUMNS = 2048, ROWS = 4096, ROUNDS = 9, SIZE_LIMIT = 1 << 20 };

static enum status check_range(const char *field, uint64_t value, uint64_t least, uint64_t most,
                               struct why *ret_why)
{
    if (value >= least && value <= most)
        return OK;
    return why_set(ret_why, STATUS_BAD_OPTION, field, "%s: %llu is not in %llu..%llu", field,
                   (unsigned long long)value, (unsigned long long)least, (unsigned long long)most);
}

static enum status refuse_type(const struct bench_options *o, struct why *ret_why)
{
    char names[160];
    size_t n = 0;
    for (int i = 0; i < WEIGHT_TYPE_COUNT; i++)
        n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", i > 0 ? ", " : "",
                              weight_type_name((enum weight_type)i));
    ASSERT(n < sizeof names);
    return why_set(ret_why, STATUS_BAD_OPTION, "type",
                   "--type: \"%.32s\" is no weight type; there are %s", o->type, names);
}

/* The types to measure, as bits. */
static enum status choose_types(struct bench_options *o, struct why *ret_why)
{
    const bool all = o->type == NULL || o->type[0] == '\0';
    o->types = 0;
    for (int i = 0; i < WEIGHT_TYPE_COUNT; i++) {
        enum weight_type type = (enum weight_type)i;
        bool fits = o->n_columns % weight_type_block(type) == 0;
        if (!all && strcmp(o->type, weight_type_name(type)) == 0 && !fits)
            return why_set(ret_why, STATUS_BAD_OPTION, "columns",
                           "columns: %u is not a multiple of %u, the block of %s", o->n_columns,
                           weight_type_block(type), weight_type_name(type));
        if (fits && (all || strcmp(o->type, weight_type_name(type)) == 0))
            o->types |= 1u << i;
    }
    return o->types != 0 ? OK : refuse_type(o, ret_why);
}

enum status bench_options_complete(const struct bench_options *given, size_t bytes_default,
                                   struct bench_options *ret, struct kernels *ret_kernels,
                                   struct why *ret_why)
{
    *ret = *given;
    ret->n_columns = given->n_columns ? given->n_columns : COLUMNS;
    ret->n_rows = given->n_rows ? given->n_rows : ROWS;
    ret->bytes = given->bytes ? given->bytes : bytes_default;
    ret->rounds = given->rounds ? given->rounds : ROUNDS;
    TRY(check_range("threads", ret->n_threads, 1, 256, ret_why));
    TRY(check_range("rounds", ret->rounds, 1, BENCH_ROUNDS_MAX, ret_why));
    TRY(check_range("rows", ret->n_rows, 1, SIZE_LIMIT, ret_why));
    TRY(check_range("columns", ret->n_columns, 1, SIZE_LIMIT, ret_why));
    TRY(check_range("bytes", ret->bytes, 1, (uint64_t)64 << 30, ret_why));
    if (ret->n_columns % 32 != 0)
        return why_set(ret_why, STATUS_BAD_OPTION, "columns", "columns: %u is not a multiple of 32",
                       ret->n_columns);
    TRY(choose_types(ret, ret_why));
    if (given->isa != NULL && given->isa[0] != '\0')
        return kernels_pick_named(given->isa, ret_kernels, ret_why);
    kernels_pick(UINT32_MAX, ret_kernels);
    return OK;
}
