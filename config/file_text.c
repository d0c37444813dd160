/* file_text.c: one bounded read. */
// SPDX-License-Identifier: Apache-2.0
#include "config/file_text.h"

#include <errno.h>
#include <stdio.h>

#include "config/mem.h"

enum status file_text_read(const char *path, const char *what, size_t most, char **ret_bytes,
                           size_t *ret_len, struct why *ret_why)
{
    *ret_bytes = NULL;
    FILE *file = fopen(path, "rbe");
    if (file == NULL)
        return why_set(ret_why, STATUS_IO, "", "%s %s cannot be opened: %s", what, path,
                       strerror(errno));
    char *bytes = mem_alloc(most + 1);
    *ret_len = bytes != NULL ? fread(bytes, 1, most + 1, file) : 0;
    enum status s = OK;
    if (bytes == NULL)
        s = why_set(ret_why, STATUS_NO_MEMORY, "", "no memory to read %s", path);
    else if (ferror(file) != 0)
        s = why_set(ret_why, STATUS_IO, "", "%s %s cannot be read: %s", what, path,
                    strerror(errno));
    fclose(file);
    if (s == OK)
        *ret_bytes = bytes;
    else
        mem_free(bytes);
    return s;
}
