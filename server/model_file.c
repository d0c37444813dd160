/* model_file.c: a file and the thread that hashes it.
 *
 * WHY     The hash of the whole file is a good part of a start, and so is the tokenizer; neither needs the other, nor more
 *         than one processor.
 * THREAD  whoever starts, and one that ends by itself
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/model_file.h"

#include "config/gguf_hash.h"

/* What it finds stays with the opened file; why it found nothing, whoever asks next is told. */
static void *hash_ahead(void *arg)
{
    uint8_t hash[SHA256_BYTES];
    enum status s = gguf_hash_file(arg, hash);
    return s == OK ? arg : NULL;
}

enum status model_file_open(const char *path, struct model_file *ret_file, struct why *ret_why)
{
    *ret_file = (struct model_file){0};
    TRY(gguf_open(path, &ret_file->gguf, ret_why));
    ret_file->has_hasher = pthread_create(&ret_file->hasher, NULL, hash_ahead, ret_file->gguf) == 0;
    return OK;
}

void model_file_close(struct model_file *file)
{
    gguf_hash_stop(file->gguf);
    if (file->has_hasher)
        pthread_join(file->hasher, NULL);
    gguf_free(&file->gguf);
}
