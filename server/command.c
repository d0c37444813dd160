/* command.c: the table of commands, and how they speak to the person who called them. */
// SPDX-License-Identifier: Apache-2.0
#include "server/command.h"

#include <inttypes.h>

#include "config/mem.h"

const struct command commands[] = {
    {"serve", "serve MODEL.gguf [flags]", "Serve a model over HTTP.", serve_command},
    {"inspect", "inspect MODEL.gguf [--ledger] [--json] [flags]",
     "Show a model's manifest, identity, head map, sizes and ledgers.", inspect_command},
    {"kernels", "kernels [--isa NAME]",
     "Show each operation's kernels on this machine, and which is chosen.", kernels_command},
    {"evidence", "evidence [--json]", "Run each kernel's proofs on this machine, rung by rung.",
     evidence_command},
    {"bench", "bench attention|gemv|gemm|serve [flags]", "Measure kernels, or a running server.",
     bench_command},
    {"publish", "publish MODEL.gguf --state DIR [flags]",
     "Load a new generation beside the running one, without traffic.", publish_command},
    {"evaluate", "evaluate ID --state DIR [flags]",
     "Compare a generation with stable before it gets traffic, and wait for the verdict.", evaluate_command},
    {"generations", "generations [ID] --state DIR [flags]", "Show the generations of a running daemon, or one.",
     generations_command},
    {"rollout", "rollout plan|start|status|list|approve|pause|resume|promote|abort [flags]",
     "Give a generation traffic in steps; plan shows what each step can see.", rollout_command},
    {"rollback", "rollback --state DIR [flags]", "Back to the previous generation.", rollback_command},
    {"forget", "forget ID --state DIR [flags]", "Give up a generation without traffic.", forget_command},
    {"audit", "audit list|verify --state DIR [flags]",
     "Show the audit of a state directory, or derive every decision in it again.", audit_command},
    {"drain", "drain --state DIR [flags]", "Begin a running daemon's shutdown, as SIGTERM does.", drain_command},
    {"freeze", "freeze on|off --state DIR [flags]",
     "Have a running daemon refuse every change but a rollback and an abort, or take them again.", freeze_command},
    {"fence", "fence NAMESPACE --state DIR [flags]", "Fence a cache namespace without traffic, for ever.",
     fence_command},
    {"purge", "purge [ID] --state DIR [flags]",
     "Forget cached pages that no request holds: a generation's, or all.", purge_command},
    {"help", "help [TOPIC]",
     "Explain a command, or: options, example, reference, metrics, errors, gates.", help_command},
};
const size_t command_count = ARRAY_LEN(commands);

const struct command *command_find(const char *name)
{
    for (size_t i = 0; i < command_count; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

int command_complain(const struct why *why)
{
    fprintf(stderr, "foldkv: %s\n", why->text);
    return COMMAND_FAILED;
}

int command_failed(enum status s, const struct why *why)
{
    int code = command_complain(why);
    return s == STATUS_BAD_OPTION ? COMMAND_USAGE : code;
}

int command_misused(const char *name, const char *text)
{
    fprintf(stderr, "foldkv: %s; usage: foldkv %s\n", text, command_find(name)->usage);
    return COMMAND_USAGE;
}

int command_unknown(const char *name, const char *word, const char *wanted)
{
    char text[192];
    if (word == NULL)
        snprintf(text, sizeof text, "%s takes %s", name, wanted);
    else
        snprintf(text, sizeof text, "%s takes %s, not '%.64s'", name, wanted, word);
    return command_misused(name, text);
}

int command_print_help(const char *name, const struct option_extra *extras, size_t n_extras,
                       unsigned users)
{
    const struct command *command = command_find(name);
    char *text = options_help(users, extras, n_extras);
    if (text == NULL)
        return command_complain(&(struct why){.text = "no memory for the help text"});
    printf("usage: foldkv %s\n\n%s\n\n%s", command->usage, command->summary, text);
    mem_free(text);
    return COMMAND_DONE;
}

enum status command_number(const struct option_extra *extra, uint64_t least, uint64_t most,
                           uint64_t *ret_number, struct why *ret_why)
{
    const char *text = extra->ret_value;
    size_t len = strspn(text, "0123456789");
    uint64_t number =
        len > 0 && len <= 18 && text[len] == '\0' ? strtoull(text, NULL, 10) : UINT64_MAX;
    if (number < least || number > most)
        return why_set(ret_why, STATUS_BAD_OPTION, extra->flag,
                       "--%s is '%.64s': a whole number from %" PRIu64 " to %" PRIu64 " is needed",
                       extra->flag, text, least, most);
    *ret_number = number;
    return OK;
}
