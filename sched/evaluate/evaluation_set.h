/* evaluation_set.h: the fixed prompts that a candidate's quality is scored on: JSON lines of
 * {"slice", "prompt", "continuation"}.
 *
 * Slices are the protected parts: each is judged for itself. The set's hash is that of its file's bytes, so a
 * changed blank is another set. One owner; read-only once made, then any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_EVALUATION_SET_H
#define FOLDKV_SCHED_EVALUATION_SET_H

#include "config/sha256.h"
#include "sched/judge/gate_evidence.h"

enum {
    EVALUATION_SET_BYTES_MAX = 16 << 20,
    EVALUATION_LINES_MAX = 65536,
    EVALUATION_TEXT_MAX = 65536
};

struct evaluation_item {
    uint32_t slice; /* index into the slices */
    const char *prompt, *continuation;
};

struct evaluation_set {
    uint32_t n_items, n_slices;
    struct evaluation_item *items;                       /* in the order of the file */
    char slices[QUALITY_SLICES_MAX][SLICE_NAME_MAX + 1]; /* names rise */
    uint8_t hash[SHA256_BYTES];
    char *texts; /* what the items point into */
};

/* BAD_REQUEST names line, field, value and what is right: not JSON, unknown or missing member, a
 * slice's name, an empty or overlong text, the same prompt and continuation twice, no line at all,
 * too many slices. NO_MEMORY. A blank line is refused too. */
enum status evaluation_set_parse(struct slice text, struct evaluation_set **ret_set,
                                 struct why *ret_why) MUST_USE;
/* Also IO. */
enum status evaluation_set_read_file(const char *path, struct evaluation_set **ret_set,
                                     struct why *ret_why) MUST_USE;
void evaluation_set_free(struct evaluation_set **set);

#endif
