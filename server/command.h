/* command.h: the commands of the program, as the command line names them.
 *
 * Each takes the words behind its name and returns the process's exit code: 0; 1 if it failed, with one line on stderr; 2 if it was
 * called wrongly: by its words, or by a value in the environment or the configuration file. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_COMMAND_H
#define FOLDKV_SERVER_COMMAND_H

#include "config/options.h"

enum { COMMAND_DONE = 0, COMMAND_FAILED = 1, COMMAND_USAGE = 2 };

struct command {
    const char *name;
    const char *usage;   /* "serve MODEL.gguf [flags]" */
    const char *summary; /* one sentence */
    int (*run)(size_t n_words, char *const *words);
};

int serve_command(size_t n_words, char *const *words);
int inspect_command(size_t n_words, char *const *words);
int kernels_command(size_t n_words, char *const *words);
int evidence_command(size_t n_words, char *const *words);
int bench_command(size_t n_words, char *const *words);
int rollout_command(size_t n_words, char *const *words);
int audit_command(size_t n_words, char *const *words);
int publish_command(size_t n_words, char *const *words);
int evaluate_command(size_t n_words, char *const *words);
int generations_command(size_t n_words, char *const *words);
int forget_command(size_t n_words, char *const *words);
int rollback_command(size_t n_words, char *const *words);
int drain_command(size_t n_words, char *const *words);
int freeze_command(size_t n_words, char *const *words);
int fence_command(size_t n_words, char *const *words);
int purge_command(size_t n_words, char *const *words);
int help_command(size_t n_words, char *const *words);

extern const struct command commands[];
extern const size_t command_count;
/* NULL if there is none of that name. */
const struct command *command_find(const char *name);

/* "foldkv: text" on stderr; COMMAND_FAILED. */
int command_complain(const struct why *why);
/* The same; BAD_OPTION is COMMAND_USAGE. */
int command_failed(enum status s, const struct why *why);
/* "foldkv: text; usage: ..." on stderr, one line; COMMAND_USAGE. */
int command_misused(const char *name, const char *text);
/* The same where the command does not know the word: it takes wanted ("on or off"), not this. NULL: none was given. */
int command_unknown(const char *name, const char *word, const char *wanted);
/* Usage, summary and flags on stdout; extras come first, then the rows of these users
 * (options.h). */
int command_print_help(const char *name, const struct option_extra *extras, size_t n_extras,
                       unsigned users);
/* A whole number of a flag's value, least to most; BAD_OPTION. */
enum status command_number(const struct option_extra *extra, uint64_t least, uint64_t most,
                           uint64_t *ret_number, struct why *ret_why) MUST_USE;

#endif
