/* generation_content.h: what a checkpoint would be as a generation, read from its file before it is loaded. Any
 * thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_GENERATION_CONTENT_H
#define FOLDKV_SCHED_GENERATION_CONTENT_H

#include "sched/model.h"

/* All in hex. */
struct generation_content {
    char checkpoint[SHA256_HEX]; /* of the file's bytes */
    char identity[SHA256_HEX];   /* I */
    char plan[SHA256_HEX];       /* kernel_plan.h */
    char tokenizer[SHA256_HEX];  /* over tokenizer.* */
};

/* checkpoint: the file's hash, if it is known already; NULL: it is read through. BAD_FILE and
 * BAD_OPTION as the graph and the kernels say. */
enum status generation_content_read(const struct gguf *gguf, const char *checkpoint,
                                    const char *kv_type, const struct kernels *kernels,
                                    struct generation_content *ret_content,
                                    struct why *ret_why) MUST_USE;
/* tokenizer alone. */
enum status generation_content_tokenizer(const struct gguf *gguf,
                                         char ret_hex[SHA256_HEX]) MUST_USE;

#endif
