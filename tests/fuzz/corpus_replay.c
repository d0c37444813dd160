/* Corpus replay: runs a fuzz target over every file of its corpus, without a fuzzer.
 *
 * WHY     What a fuzzer once found is a plain test from then on, in every build and under every
 *         sanitizer.
 * HOW     corpus_replay FOLDER: each file is given to the target in a buffer of its exact size. No
 *         file is a failure.
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/mem.h"

#include <dirent.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

enum { FILE_BYTES_MAX = 1 << 24, PATH_BYTES = 4096 };

/* False if the file cannot be read whole. */
static bool replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0)
        return false;
    long len = ftell(file);
    if (len < 0 || len > FILE_BYTES_MAX || fseek(file, 0, SEEK_SET) != 0)
        return false;
    uint8_t *bytes = mem_alloc((size_t)len);
    ASSERT(bytes != NULL);
    bool is_read = fread(bytes, 1, (size_t)len, file) == (size_t)len;
    fclose(file);
    if (is_read)
        (void)LLVMFuzzerTestOneInput(bytes, (size_t)len);
    mem_free(bytes);
    return is_read;
}

int main(int argc, char **argv)
{
    DIR *folder = argc == 2 ? opendir(argv[1]) : NULL;
    if (folder == NULL) {
        fprintf(stderr, "usage: %s FOLDER (that can be read)\n", argv[0]);
        return 2;
    }
    int n = 0;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        if (entry->d_name[0] == '.')
            continue;
        char path[PATH_BYTES];
        snprintf(path, sizeof path, "%s/%s", argv[1], entry->d_name);
        if (!replay_file(path)) {
            fprintf(stderr, "%s cannot be read\n", path);
            return 1;
        }
        n++;
    }
    closedir(folder);
    printf("%d files\n", n);
    return n > 0 ? 0 : 1;
}
