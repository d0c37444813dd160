/* object_store.c: copies files in under their hash.
 *
 * WHY     A generation must serve the bytes that were hashed, whatever happens to the file it came from; and a
 *         crash must leave either the whole object under its name or nothing that counts.
 * HOW     The copy is written as .partial-*, hashed as it is read back from the copy's own side of the reflink or as
 *         it passes through, synced, and renamed; then the folder is synced. Names with .partial- are removed
 *         at start.
 * ALWAYS  (1) A name of 64 hex digits holds bytes of that hash, durably.           finish
 * THREAD  registry
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/object_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/mem.h"

enum { PIECE = 8 << 20, BUFFER = 1 << 20, NAME_ROOM = 80 };
#define PARTIAL ".partial-"

struct object_copy {
    int folder, from, to;
    bool is_cloned; /* the blocks are shared already; what is left is hashing */
    bool is_named;
    struct sha256 *sha;
    char *buffer;
    char partial[NAME_ROOM];
    char source[OBJECT_PATH_ROOM];
};

static enum status failed(struct why *ret_why, const char *doing, const char *path)
{
    int error = errno;
    enum status s = STATUS_IO;
    if (error == ENOENT)
        s = STATUS_NOT_FOUND;
    else if (error == ENOSPC || error == EDQUOT || error == EROFS)
        s = STATUS_READ_ONLY;
    return why_set(ret_why, s, "path", "%s %.200s: %s", doing, path, strerror(error));
}

void object_store_path(const char *dir, const char hash[SHA256_HEX],
                       char ret_path[OBJECT_PATH_ROOM])
{
    snprintf(ret_path, OBJECT_PATH_ROOM, "%s/objects/%s", dir, hash);
}

bool object_store_has(const char *dir, const char hash[SHA256_HEX])
{
    char path[OBJECT_PATH_ROOM];
    object_store_path(dir, hash, path);
    return access(path, R_OK) == 0;
}

static enum status open_folder(const char *dir, int *ret_fd, struct why *ret_why)
{
    char path[OBJECT_PATH_ROOM];
    snprintf(path, sizeof path, "%s/objects", dir);
    *ret_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *ret_fd >= 0 ? OK : failed(ret_why, "cannot open", path);
}

static enum status make_folder(const char *dir, struct why *ret_why)
{
    char path[OBJECT_PATH_ROOM];
    snprintf(path, sizeof path, "%s/objects", dir);
    if (mkdir(path, 0700) != 0)
        return errno == EEXIST ? OK : failed(ret_why, "cannot make", path);
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok = fd >= 0 && fsync(fd) == 0;
    enum status s = ok ? OK : failed(ret_why, "cannot sync", dir);
    if (fd >= 0)
        close(fd);
    return s;
}

enum status object_store_open(const char *dir, struct why *ret_why)
{
    int fd;
    TRY(make_folder(dir, ret_why));
    TRY(open_folder(dir, &fd, ret_why));
    DIR *entries = fdopendir(fd);
    if (entries == NULL) {
        enum status s = failed(ret_why, "cannot list the objects of", dir);
        close(fd);
        return s;
    }
    for (struct dirent *e; (e = readdir(entries)) != NULL;)
        if (strncmp(e->d_name, PARTIAL, sizeof PARTIAL - 1) == 0)
            (void)unlinkat(fd, e->d_name, 0); /* one that cannot go is no object either */
    closedir(entries);
    return OK;
}

static enum status open_both(struct object_copy *c, struct why *ret_why)
{
    struct stat about;
    c->from = open(c->source, O_RDONLY | O_CLOEXEC);
    if (c->from < 0 || fstat(c->from, &about) != 0)
        return failed(ret_why, "cannot open", c->source);
    if (!S_ISREG(about.st_mode))
        return why_set(ret_why, STATUS_BAD_REQUEST, "path", "%.200s is not a file", c->source);
    snprintf(c->partial, sizeof c->partial, PARTIAL "%ld-%llx", (long)getpid(),
             (unsigned long long)about.st_ino);
    c->to = openat(c->folder, c->partial, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0400);
    if (c->to < 0)
        return failed(ret_why, "cannot make a copy of", c->source);
    c->is_cloned = ioctl(c->to, FICLONE, c->from) == 0;
    return OK;
}

enum status object_copy_begin(const char *dir, const char *source, struct object_copy **ret_copy,
                              struct why *ret_why)
{
    *ret_copy = NULL;
    struct object_copy *c = mem_zalloc(1, sizeof *c);
    if (c == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for a copy");
    c->folder = c->from = c->to = -1;
    if (snprintf(c->source, sizeof c->source, "%s", source) >= (int)sizeof c->source) {
        object_copy_free(&c);
        return why_set(ret_why, STATUS_BAD_REQUEST, "path", "the path is too long");
    }
    c->buffer = mem_alloc(BUFFER);
    enum status s = c->buffer != NULL ? sha256_new(&c->sha) : STATUS_NO_MEMORY;
    if (s != OK)
        why_set(ret_why, s, "", "no memory for a copy");
    else
        s = open_folder(dir, &c->folder, ret_why);
    if (s == OK)
        s = open_both(c, ret_why);
    if (s != OK) {
        object_copy_free(&c);
        return s;
    }
    sha256_start(c->sha);
    *ret_copy = c;
    return OK;
}

static enum status write_whole(struct object_copy *c, size_t len, struct why *ret_why)
{
    for (size_t at = 0; at < len;) {
        ssize_t n = write(c->to, c->buffer + at, len - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return failed(ret_why, "cannot write a copy of", c->source);
        at += (size_t)n;
    }
    return OK;
}

/* Gives the object its name when its bytes are durable. */
static enum status finish(struct object_copy *c, char ret_hash[SHA256_HEX], struct why *ret_why)
{
    uint8_t hash[SHA256_BYTES];
    sha256_finish(c->sha, hash);
    sha256_hex(hash, ret_hash);
    if (fsync(c->to) != 0)
        return failed(ret_why, "cannot sync a copy of", c->source);
    if (renameat(c->folder, c->partial, c->folder, ret_hash) != 0)
        return failed(ret_why, "cannot name a copy of", c->source);
    c->is_named = true;
    if (fsync(c->folder) != 0)
        return failed(ret_why, "cannot sync the folder for a copy of", c->source);
    return OK;
}

enum status object_copy_step(struct object_copy *copy, bool *ret_is_done, char ret_hash[SHA256_HEX],
                             struct why *ret_why)
{
    struct object_copy *c = copy;
    int from =
        c->is_cloned ? c->to : c->from; /* a clone is hashed from itself: the source may change */
    *ret_is_done = false;
    for (size_t done = 0; done < PIECE;) {
        ssize_t n = read(from, c->buffer, BUFFER);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return failed(ret_why, "cannot read", c->source);
        if (n == 0) {
            TRY(finish(c, ret_hash, ret_why));
            *ret_is_done = true;
            return OK;
        }
        sha256_add(c->sha, c->buffer, (size_t)n);
        if (!c->is_cloned)
            TRY(write_whole(c, (size_t)n, ret_why));
        done += (size_t)n;
    }
    return OK;
}

void object_copy_free(struct object_copy **copy)
{
    struct object_copy *c = *copy;
    if (c == NULL)
        return;
    if (c->to >= 0 && !c->is_named)
        (void)unlinkat(c->folder, c->partial, 0);
    if (c->to >= 0)
        close(c->to);
    if (c->from >= 0)
        close(c->from);
    if (c->folder >= 0)
        close(c->folder);
    sha256_free(&c->sha);
    mem_free(c->buffer);
    mem_free(c);
    *copy = NULL;
}
