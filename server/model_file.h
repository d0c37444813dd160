/* model_file.h: the file that a start reads: opened once, for the tokenizer, the weights and what is registered, and hashed
 * by a thread of its own meanwhile. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_MODEL_FILE_H
#define FOLDKV_SERVER_MODEL_FILE_H

#include <pthread.h>

#include "config/gguf.h"

struct model_file {
    struct gguf *gguf;
    pthread_t hasher;
    bool has_hasher;
};

/* gguf_open's failures. Without a thread for it the file is hashed by whoever asks for the hash. */
enum status model_file_open(const char *path, struct model_file *ret_file,
                            struct why *ret_why) MUST_USE;
/* Ends the hash if it is under way: a start that failed does not wait for it. */
void model_file_close(struct model_file *file);

#endif
