/* options_priv.h: the option table as data, for the readers and the printers only. Read-only, so
 * any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CONFIG_OPTIONS_PRIV_H
#define FOLDKV_CONFIG_OPTIONS_PRIV_H

#include "config/options.h"

enum option_type { OPTION_U32, OPTION_SIZE, OPTION_STRING, OPTION_CHOICE };
enum option_change { OPTION_RESTART, OPTION_LIVE };

struct option {
    const char *key; /* "cache.bytes" */
    enum option_type type;
    const char *value; /* default */
    uint64_t least, most;
    const char *unit; /* of a CHOICE: its words, between bars */
    enum option_change change;
    const char *flag; /* the short spelling, or "" */
    unsigned users;   /* bits of enum options_user */
    const char *prose;
    size_t offset; /* of the member in struct options */
};

enum { OPTION_NAME_MAX = 96, OPTION_TEXT_MAX = 1024 };

extern const struct option option_rows[];
extern const size_t option_count;

/* "FOLDKV_CACHE_BYTES" and "cache-bytes". */
void option_environment_name(const struct option *option, char ret_name[OPTION_NAME_MAX]);
void option_flag_name(const struct option *option, char ret_name[OPTION_NAME_MAX]);
/* The row of a key; NULL if there is none. */
const struct option *option_find(struct slice key);

/* Checks value and stores it. where is what the person wrote it in: "--threads",
 * "FOLDKV_SERVER_THREADS", "foldkv.conf:3". */
enum status option_set(struct options *options, const struct option *option, struct slice value,
                       const char *where, struct why *ret_why) MUST_USE;
/* The stored value as option_set would take it: sizes with the largest suffix that is exact. */
void option_get_text(const struct options *options, const struct option *option,
                     char ret_text[OPTION_TEXT_MAX]);
/* "0..256 threads", "1KiB..1GiB", "f16|f32", "1..255 bytes of text". */
void option_range_text(const struct option *option, char ret_text[OPTION_TEXT_MAX]);

#endif
