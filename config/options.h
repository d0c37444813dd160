/* options.h: everything an operator can set, from one table: a flag beats the environment, which
 * beats the file, which beats the default.
 *
 * struct options has one member a row of options.def, section_name; it owns nothing, so it may
 * be copied. Written at start by one thread; afterwards only by options_take_live, and a LIVE row is
 * read by that thread alone. Texts returned are the
 * caller's, freed with mem_free; NULL when memory cannot be had. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CONFIG_OPTIONS_H
#define FOLDKV_CONFIG_OPTIONS_H

#include "config/why.h"

struct options {
#define OPTION_MEMBER_U32(name, most) uint32_t name;
#define OPTION_MEMBER_SIZE(name, most) uint64_t name;
#define OPTION_MEMBER_STRING(name, most) char name[(most) + 1];
#define OPTION_MEMBER_CHOICE(name, most) char name[(most) + 1];
#define OPTION(section, name, type, value, least, most, unit, change, flag, users, prose)          \
    OPTION_MEMBER_##type(section##_##name, most)
#include "config/options.def"
#undef OPTION
#undef OPTION_MEMBER_U32
#undef OPTION_MEMBER_SIZE
#undef OPTION_MEMBER_STRING
#undef OPTION_MEMBER_CHOICE
};

/* A flag of one command, beside the table's: bench's --streams, inspect's --json. */
struct option_extra {
    const char *flag;    /* "streams", without the dashes */
    const char *metavar; /* "N": it takes a value; NULL: it is a switch */
    const char *prose;
    const char *ret_value; /* NULL: not given; a switch that is given: "" */
};

/* Who has a row as a flag: serve, inspect, kernels, bench of products, bench of attention; 0 is a
 * command that has none, and no file either. */
enum options_user {
    OPTIONS_SERVE = 1,
    OPTIONS_INSPECT = 2,
    OPTIONS_KERNELS = 4,
    OPTIONS_BENCH = 8,
    OPTIONS_ATTENTION = 16
};

enum { OPTIONS_POSITIONALS_MAX = 8 };

/* What a command line held beside options; the strings are argv's own. */
struct options_line {
    const char *positionals[OPTIONS_POSITIONALS_MAX];
    size_t n_positionals;
    const char *config_path; /* --config FILE or FOLDKV_CONFIG; NULL if neither */
    bool is_help;            /* --help or -h: nothing else of the line was judged */
};

/* Fills every member with its default. */
void options_defaults(struct options *ret_options);

/* Defaults, then the file that --config or FOLDKV_CONFIG names, then the environment
 * (FOLDKV_CACHE_BYTES), then the flags (--cache-bytes 2GiB or --cache-bytes=2GiB; of a flag
 * given twice the last holds). users is one bit, or 0. words are those after the command's name; environment is a
 * NULL-terminated environ. extras may be NULL. BAD_OPTION names the option, where it came from,
 * the value and what would be right; IO if the file cannot be read. An unknown FOLDKV_ variable
 * is BAD_OPTION, except FOLDKV_TEST_*. */
enum status options_load(unsigned users, size_t n_words, char *const *words, char *const *environment,
                         struct option_extra *extras, size_t n_extras, struct options *ret_options,
                         struct options_line *ret_line, struct why *ret_why) MUST_USE;

/* One reader each; what they do not mention stays as it is. On failure options may be partly
 * changed. A path with a - before it need not exist. */
enum status options_read_file(struct options *options, const char *path,
                              struct why *ret_why) MUST_USE;
/* The same over text in memory; origin stands in for the path in errors. */
enum status options_read_text(struct options *options, struct slice text, const char *origin,
                              struct why *ret_why) MUST_USE;
enum status options_read_environment(struct options *options, char *const *environment,
                                     struct why *ret_why) MUST_USE;
enum status options_read_flags(unsigned users, struct options *options, size_t n_words, char *const *words,
                               struct option_extra *extras, size_t n_extras,
                               struct options_line *ret_line, struct why *ret_why) MUST_USE;

/* Told of each option that differs: its values before and after, and whether it was taken. */
typedef void(option_change_fn)(void *user, const char *key, const char *before, const char *after,
                               bool is_taken);
/* Of fresh, which options_load has filled, takes the rows that may change while the program runs. */
void options_take_live(struct options *options, const struct options *fresh, option_change_fn *tell,
                       void *user);

/* The values as a file that options_read_text reads back to the same. */
char *options_dump(const struct options *options) MUST_USE;
/* The option part of --help: every flag of these users with its default, range and prose; extras
 * first. */
char *options_help(unsigned users, const struct option_extra *extras, size_t n_extras) MUST_USE;
/* deploy/foldkv.conf: each option's prose and its default, commented out. */
char *options_example(void) MUST_USE;
/* docs/options.md. */
char *options_reference(void) MUST_USE;
/* Words for a fuzzer's dictionary. */
char *options_dictionary(void) MUST_USE;

#endif
