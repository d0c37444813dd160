/* kernels_command.c: `foldkv kernels`: each operation, its candidates here, the one chosen and why. */
// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernel.h"
#include "server/command.h"

extern char **environ;

static void print_sets(const struct kernels *kernels, bool is_masked)
{
    uint32_t available = isa_available();
    printf("instruction sets of this machine:");
    for (int i = 0; i < ISA_COUNT; i++)
        if ((available & (1u << i)) != 0)
            printf(" %s", isa_name((enum isa)i));
    printf("\nhighest in use: %s (%s)\n\n", isa_name(kernels->isa),
           is_masked ? "by --isa or kernels.isa" : "the best there is");
}

static const char *reason(const struct kernels *kernels, size_t i, bool is_masked)
{
    struct kernel_row row = kernels_row(i);
    if (kernels_row_is_chosen(kernels, i))
        return row.isa == kernels->isa ? "chosen: the highest set in use"
                                       : "chosen: the highest set in use that has this operation";
    if (!row.available)
        return "this machine has not the features";
    return is_masked && row.isa > kernels->isa ? "masked" : "a higher set is chosen";
}

int kernels_command(size_t n_words, char *const *words)
{
    struct options options;
    struct options_line line;
    struct kernels kernels;
    struct why why = {0};
    enum status s = options_load(OPTIONS_KERNELS, n_words, words, environ, NULL, 0, &options, &line, &why);
    if (s != OK)
        return command_failed(s, &why);
    if (line.is_help)
        return command_print_help("kernels", NULL, 0, OPTIONS_KERNELS);
    if (line.n_positionals > 0)
        return command_unknown("kernels", line.positionals[0], "no argument");
    bool is_masked = options.kernels_isa[0] != '\0';
    if (!is_masked)
        kernels_pick(UINT32_MAX, &kernels);
    else if (kernels_pick_named(options.kernels_isa, &kernels, &why) != OK)
        return command_complain(&why);
    print_sets(&kernels, is_masked);
    printf("  %-24s %-8s %-34s %s\n", "operation", "set", "function", "why");
    for (size_t i = 0; i < kernels_row_count(); i++) {
        struct kernel_row row = kernels_row(i);
        printf("%c %-24s %-8s %-34s %s\n", kernels_row_is_chosen(&kernels, i) ? '*' : ' ', row.op,
               isa_name(row.isa), row.function, reason(&kernels, i, is_masked));
    }
    return COMMAND_DONE;
}
