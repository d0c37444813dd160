/* gguf.c: opens, checks and closes a GGUF file.
 *
 * WHY     A checkpoint comes from elsewhere: no byte of it is believed before it is checked against
 *         the bytes that are there.
 * HOW     The file is mapped and parsed once: header, keys (gguf_keys.c), tensors (gguf_tensors.c),
 *         names (gguf_names.c). Views point into the mapping, so a model costs the memory of its
 *         records only.
 * ALWAYS  (1) A gguf exists only if the whole file was found right.   parse
 * OWNS    The mapping, from gguf_open to gguf_free. It must not be cut short by others meanwhile.
 * THREAD  any, read-only after opening
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/gguf.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/gguf_priv.h"
#include "config/mem.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "numbers are read as they lie in the file");

enum {
    VERSION = 3,
    KEY_BYTES_LEAST = 8 + 1 + 4 + 1, /* name length, name, type, value */
    TENSOR_BYTES_LEAST =
        8 + 1 + 4 + 8 + 4 + 8, /* name length, name, n_dims, one dim, type, offset */
};

static enum status check_version(struct gguf_reader *r, uint32_t version)
{
    if (version == VERSION)
        return OK;
    if (version == 1 || version == 2)
        return gguf_reader_refuse(r, "GGUF version %" PRIu32 " is not served, version %d is needed",
                                  version, VERSION);
    if ((version & 0xffff) == 0 && version != 0)
        return gguf_reader_refuse(
            r, "a big-endian file (version %" PRIu32 " swapped), little-endian is needed",
            __builtin_bswap32(version));
    return gguf_reader_refuse(r, "GGUF version %" PRIu32 ", version %d is needed", version,
                              VERSION);
}

/* The counts must be possible in the bytes left before anything is allocated for them. */
static enum status read_counts(struct gguf_reader *r, uint64_t *ret_tensors, uint64_t *ret_keys)
{
    TRY(gguf_reader_u64(r, "the tensor count", ret_tensors));
    TRY(gguf_reader_u64(r, "the key count", ret_keys));
    if (*ret_tensors > GGUF_TENSORS_MAX)
        return gguf_reader_refuse(r, "%" PRIu64 " tensors, at most %d are served", *ret_tensors,
                                  GGUF_TENSORS_MAX);
    if (*ret_keys > GGUF_KEYS_MAX)
        return gguf_reader_refuse(r, "%" PRIu64 " keys, at most %d are served", *ret_keys,
                                  GGUF_KEYS_MAX);
    uint64_t least = *ret_tensors * TENSOR_BYTES_LEAST + *ret_keys * KEY_BYTES_LEAST;
    if (least > gguf_reader_left(r))
        return gguf_reader_refuse(r,
                                  "%" PRIu64 " keys and %" PRIu64 " tensors need at least %" PRIu64
                                  " bytes, the file has %zu left",
                                  *ret_keys, *ret_tensors, least, gguf_reader_left(r));
    return OK;
}

static enum status parse(struct gguf *gguf, struct why *ret_why)
{
    struct gguf_reader r = {.bytes = gguf->bytes, .len = gguf->len, .why = ret_why};
    uint32_t version = 0;
    uint64_t n_tensors = 0, n_keys = 0;
    const uint8_t *magic = NULL;
    gguf_reader_about(&r, "header", 0, 0);
    TRY(gguf_reader_bytes(&r, "the magic", 4, &magic));
    if (memcmp(magic, "GGUF", 4) != 0)
        return gguf_reader_refuse(
            &r, "starts with bytes %02x %02x %02x %02x, a GGUF file starts with \"GGUF\"", magic[0],
            magic[1], magic[2], magic[3]);
    TRY(gguf_reader_u32(&r, "the version", &version));
    TRY(check_version(&r, version));
    TRY(read_counts(&r, &n_tensors, &n_keys));
    TRY(gguf_keys_read(gguf, &r, (size_t)n_keys));
    return gguf_tensors_read(gguf, &r, (size_t)n_tensors);
}

/* Takes the bytes; a mapping is undone on failure, too. */
static enum status parse_new(const void *bytes, size_t len, bool is_mapped, struct gguf **ret_gguf,
                             struct why *ret_why)
{
    struct gguf *gguf = mem_zalloc(1, sizeof *gguf);
    if (gguf == NULL) {
        if (is_mapped)
            munmap((void *)(uintptr_t)bytes, len);
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory to open the file");
    }
    *gguf = (struct gguf){.bytes = bytes, .len = len, .is_mapped = is_mapped};
    pthread_mutex_init(&gguf->file_hash.lock, NULL);
    enum status s = parse(gguf, ret_why);
    if (s != OK)
        gguf_free(&gguf);
    *ret_gguf = gguf;
    return s;
}

enum status gguf_parse(const void *bytes, size_t len, struct gguf **ret_gguf, struct why *ret_why)
{
    *ret_gguf = NULL;
    return parse_new(bytes, len, false, ret_gguf, ret_why);
}

/* Maps the whole of an open file. */
static enum status map(const char *path, int fd, void **ret_bytes, size_t *ret_len, struct why *ret_why)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return why_set(ret_why, STATUS_IO, "", "%.200s: cannot be read: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return why_set(ret_why, STATUS_IO, "", "%.200s: not a regular file", path);
    if (st.st_size == 0)
        return why_set(ret_why, STATUS_BAD_FILE, "", "header: the file is empty");
    *ret_len = (size_t)st.st_size;
    *ret_bytes = mmap(NULL, *ret_len, PROT_READ, MAP_PRIVATE, fd, 0);
    if (*ret_bytes == MAP_FAILED)
        return why_set(ret_why, STATUS_IO, "", "%.200s: cannot be mapped: %s", path, strerror(errno));
    (void)madvise(*ret_bytes, *ret_len, MADV_WILLNEED); /* advice only: reading ahead starts now */
    return OK;
}

enum status gguf_open(const char *path, struct gguf **ret_gguf, struct why *ret_why)
{
    *ret_gguf = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return why_set(ret_why, STATUS_IO, "", "%.200s: cannot be opened: %s", path,
                       strerror(errno));
    void *bytes = NULL;
    size_t len = 0;
    enum status s = map(path, fd, &bytes, &len, ret_why);
    close(fd);
    if (s == OK)
        s = parse_new(bytes, len, true, ret_gguf, ret_why);
    return why_in_file(ret_why, s, path);
}

void gguf_free(struct gguf **gguf)
{
    struct gguf *g = *gguf;
    if (g == NULL)
        return;
    for (size_t i = 0; i < g->n_keys; i++) {
        mem_free(g->keys[i].offsets32);
        mem_free(g->keys[i].offsets64);
    }
    mem_free(g->keys);
    mem_free(g->keys_sorted);
    mem_free(g->tensors);
    mem_free(g->tensors_sorted);
    pthread_mutex_destroy(&g->file_hash.lock);
    if (g->is_mapped)
        munmap((void *)(uintptr_t)g->bytes, g->len);
    mem_free(g);
    *gguf = NULL;
}

size_t gguf_key_count(const struct gguf *gguf)
{
    return gguf->n_keys;
}

struct slice gguf_key_at(const struct gguf *gguf, size_t i)
{
    ASSERT(i < gguf->n_keys);
    return gguf->keys[i].name;
}

size_t gguf_tensor_count(const struct gguf *gguf)
{
    return gguf->n_tensors;
}

const struct gguf_tensor *gguf_tensor_at(const struct gguf *gguf, size_t i)
{
    ASSERT(i < gguf->n_tensors);
    return &gguf->tensors[i];
}

const struct gguf_tensor *gguf_tensor_find(const struct gguf *gguf, const char *name)
{
    struct slice wanted = {name, strlen(name)};
    const struct slice *found = gguf_names_find(gguf->tensors_sorted, gguf->n_tensors, wanted);
    if (found == NULL)
        return NULL;
    return (const struct gguf_tensor *)((const char *)found - offsetof(struct gguf_tensor, name));
}
