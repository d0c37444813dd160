/* main.c: chooses the command.
 *
 * HOW     Libraries get our memory before they can ask for any; all else is the command's.
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/command.h"
#include "server/library_memory.h"

static int print_usage(FILE *out)
{
    fprintf(out, "usage: foldkv COMMAND ...\n\n");
    for (size_t i = 0; i < command_count; i++)
        fprintf(out, "  foldkv %-42s %s\n", commands[i].usage, commands[i].summary);
    fprintf(out, "  foldkv %-42s %s\n", "--version", "Print the version.");
    fprintf(out, "\nExit code: 0, it happened; 1, it failed; 2, it was asked for wrongly.\n");
    return out == stdout ? COMMAND_DONE : COMMAND_USAGE;
}

int main(int argc, char **argv)
{
    if (!library_memory_install())
        return command_complain(&(struct why){.text = "the libraries did not take our allocator"});
    if (argc < 2)
        return print_usage(stderr);
    bool is_version = strcmp(argv[1], "--version") == 0;
    if (argc > 2 && (is_version || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        fprintf(stderr, "foldkv: %s stands alone, found '%.64s' behind it\n", argv[1], argv[2]);
        return COMMAND_USAGE;
    }
    if (is_version) {
        printf("foldkv %s\n", FOLDKV_VERSION);
        return COMMAND_DONE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return print_usage(stdout);
    const struct command *command = command_find(argv[1]);
    if (command == NULL) {
        fprintf(stderr, "foldkv: '%.64s' is no command; see foldkv --help\n", argv[1]);
        return COMMAND_USAGE;
    }
    return command->run((size_t)argc - 2, argv + 2);
}
