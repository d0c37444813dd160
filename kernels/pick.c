/* pick.c: kernels.def read as a table, and the choice of one kernel an operation.
 *
 * WHY     One place decides what code runs, so that a test or an option can hide an instruction set from all of it.
 * HOW     A row names the slot it fills as an offset into struct kernels. Rows stand in rising order within an
 *         operation, so the last one that may run stays.
 * ALWAYS  (1) A kernel is never picked on a machine that lacks its features.   row_may_run
 *         (2) Every slot is filled: each operation has a scalar row.           kernels_pick
 * THREAD  any; pure but for reading the processor's features
 */
// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernel.h"

#include "kernels/cpu_features.h"
#include "kernels/kernel_rows.h"

typedef void any_kernel_fn(void);

enum op_id {
#define OP(op, member, type) OP_##op,
#include "kernels/kernels.def"
    OP_COUNT
};

struct op_row {
    const char *name;
    size_t offset; /* of its slot in struct kernels */
};

struct pick_row {
    enum op_id op;
    enum isa isa;
    const char *function_name;
    any_kernel_fn *function;
    uint32_t features;
};

static const struct op_row ops[] = {
#define OP(op, member, type) {#op, offsetof(struct kernels, member)},
#include "kernels/kernels.def"
};

static const struct pick_row rows[] = {
#define KERNEL(op, isa, function, features)                                                        \
    {OP_##op, ISA_##isa, #function, (any_kernel_fn *)function, features},
#include "kernels/kernels.def"
};

static const char *const isa_names[ISA_COUNT] = {"scalar", "avx2", "avx512", "neon", "dotprod"};

static const uint32_t isa_features[ISA_COUNT] = {
    CPU_NONE, CPU_FOR_AVX2, CPU_FOR_AVX512, CPU_FOR_NEON, CPU_FOR_DOTPROD,
};

void kernel_numerics(uint32_t contract, char ret_text[KERNEL_NUMERICS_ROOM])
{
    int n = snprintf(ret_text, KERNEL_NUMERICS_ROOM,
                     "contract-%u act-i8x%d chunk-%d step-%d page-%d", contract, ACT_BLOCK,
                     ATTEND_CHUNK, ATTEND_STEP, PAGE_TOKENS);
    ASSERT(n < KERNEL_NUMERICS_ROOM);
}

const char *isa_name(enum isa isa)
{
    ASSERT(isa < ISA_COUNT);
    return isa_names[isa];
}

bool isa_from_name(const char *name, enum isa *ret_isa)
{
    for (int i = 0; i < ISA_COUNT; i++)
        if (strcmp(name, isa_names[i]) == 0) {
            *ret_isa = (enum isa)i;
            return true;
        }
    return false;
}

uint32_t isa_available(void)
{
    uint32_t features = cpu_features();
    uint32_t available = 0;
    for (int i = 0; i < ISA_COUNT; i++)
        if ((features & isa_features[i]) == isa_features[i])
            available |= 1u << i;
    return available;
}

static bool row_may_run(const struct pick_row *row, uint32_t features)
{
    return (features & row->features) == row->features;
}

void kernels_pick(uint32_t mask, struct kernels *ret_kernels)
{
    uint32_t features = cpu_features();
    mask |= 1u << ISA_SCALAR;
    memset(ret_kernels, 0, sizeof *ret_kernels);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct pick_row *row = &rows[i];
        if ((mask >> row->isa & 1u) == 0 || !row_may_run(row, features))
            continue;
        memcpy((char *)ret_kernels + ops[row->op].offset, &row->function, sizeof row->function);
        if (row->isa > ret_kernels->isa)
            ret_kernels->isa = row->isa;
    }
}

enum status kernels_pick_named(const char *name, struct kernels *ret_kernels, struct why *ret_why)
{
    enum isa isa = ISA_SCALAR;
    uint32_t available = isa_available();
    char have[96] = "";
    size_t len = 0;
    for (int i = 0; i < ISA_COUNT; i++)
        if ((available >> i & 1u) != 0)
            len += (size_t)snprintf(have + len, sizeof have - len, " %s", isa_names[i]);
    if (!isa_from_name(name, &isa))
        return why_set(ret_why, STATUS_BAD_OPTION, "kernels.isa",
                       "kernels.isa: '%s' is no instruction set; this machine has:%s", name, have);
    if ((available >> isa & 1u) == 0)
        return why_set(ret_why, STATUS_BAD_OPTION, "kernels.isa",
                       "kernels.isa: this machine has no %s; it has:%s", name, have);
    kernels_pick((2u << isa) - 1, ret_kernels);
    return OK;
}

size_t kernels_row_count(void)
{
    return ARRAY_LEN(rows);
}

struct kernel_row kernels_row(size_t i)
{
    ASSERT(i < ARRAY_LEN(rows));
    return (struct kernel_row){
        .op = ops[rows[i].op].name,
        .function = rows[i].function_name,
        .isa = rows[i].isa,
        .available = row_may_run(&rows[i], cpu_features()),
    };
}

bool kernels_row_is_chosen(const struct kernels *kernels, size_t i)
{
    ASSERT(i < ARRAY_LEN(rows));
    any_kernel_fn *held;
    memcpy(&held, (const char *)kernels + ops[rows[i].op].offset, sizeof held);
    return held == rows[i].function;
}
