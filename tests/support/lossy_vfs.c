/* lossy_vfs.c: a shim over SQLite's own file layer.
 *
 * HOW     For each path: the bytes as of the last sync, and a list of writes and truncations since. A sync applies the
 *         list. A cut applies a part of it to a copy. Shared memory and locks are the layer's below: they do not
 *         outlive a power loss.
 * NOT     The ways in which a folder's entries are lost: a file that was never synced is not there after a cut, a deletion
 *         is there if it was asked to be durable or chance has it.
 */
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/lossy_vfs.h"

#include <check.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/mem.h"

enum { FILES_MAX = 16, SECTOR = 512, PATH_ROOM = 600 };

struct pending {
    struct pending *next;
    int64_t offset; /* a write; or the size of a truncation */
    int len;        /* -1: a truncation */
    char bytes[];
};

/* What is known of a path. */
struct tracked {
    char path[PATH_ROOM];
    char *synced;
    int64_t len;
    struct pending *first, **last;
    bool is_there;   /* its name is durable */
    bool is_deleted; /* but its deletion may not be */
};

/* An open file, with the layer below's own file behind it. */
struct lossy_file {
    sqlite3_file base;
    struct tracked *tracked;
    sqlite3_file *below;
};

static sqlite3_vfs lossy, *under;
static struct tracked files[FILES_MAX];
static uint64_t n_events;
static lossy_event_fn *event_fn;
static void *event_user;
static bool quiet;

static int event(enum lossy_call call)
{
    if (quiet)
        return SQLITE_OK;
    n_events++;
    return event_fn != NULL ? event_fn(event_user, n_events, call) : SQLITE_OK;
}

static void forget_pending(struct tracked *t)
{
    for (struct pending *p; (p = t->first) != NULL;) {
        t->first = p->next;
        mem_free(p);
    }
    t->last = &t->first;
}

static void forget(struct tracked *t)
{
    forget_pending(t);
    mem_free(t->synced);
    *t = (struct tracked){0};
}

static void apply_bytes(char **image, int64_t *len, int64_t at, const char *bytes, int64_t n)
{
    if (at + n > *len) {
        *image = mem_realloc(*image, (size_t)(at + n));
        ck_assert_ptr_nonnull(*image);
        memset(*image + *len, 0, (size_t)(at + n - *len));
        *len = at + n;
    }
    memcpy(*image + at, bytes, (size_t)n);
}

static void apply(char **image, int64_t *len, const struct pending *p)
{
    if (p->len >= 0)
        apply_bytes(image, len, p->offset, p->bytes, p->len);
    else if (p->offset < *len)
        *len = p->offset;
}

static void sync_tracked(struct tracked *t)
{
    for (const struct pending *p = t->first; p != NULL; p = p->next)
        apply(&t->synced, &t->len, p);
    forget_pending(t);
    t->is_there = true;
}

static void note(struct tracked *t, int64_t offset, const void *bytes, int len)
{
    if (t == NULL)
        return;
    struct pending *p = mem_alloc(sizeof *p + (len > 0 ? (size_t)len : 0));
    ck_assert_ptr_nonnull(p);
    *p = (struct pending){.offset = offset, .len = len};
    if (len > 0)
        memcpy(p->bytes, bytes, (size_t)len);
    *t->last = p;
    t->last = &p->next;
}

static struct tracked *find(const char *path)
{
    for (int i = 0; i < FILES_MAX; i++)
        if (strcmp(files[i].path, path) == 0)
            return &files[i];
    return NULL;
}

/* A file that is there already, and that nobody opened through this layer, counts as durable. */
static void import(struct tracked *t)
{
    char piece[4096];
    int fd = open(t->path, O_RDONLY);
    for (ssize_t n; fd >= 0 && (n = read(fd, piece, sizeof piece)) > 0;)
        apply_bytes(&t->synced, &t->len, t->len, piece, n);
    if (fd >= 0)
        close(fd);
    t->is_there = t->len > 0;
}

static struct tracked *track(const char *path)
{
    struct tracked *t = find(path);
    if (t != NULL && !t->is_deleted)
        return t;
    if (t == NULL)
        t = find("");
    ck_assert_ptr_nonnull(t);
    forget(t);
    snprintf(t->path, sizeof t->path, "%s", path);
    t->last = &t->first;
    import(t);
    return t;
}

/* ---- methods ---- */

static sqlite3_file *below(sqlite3_file *file)
{
    return ((struct lossy_file *)file)->below;
}

static int on_write(sqlite3_file *file, const void *bytes, int len, sqlite3_int64 offset)
{
    int rc = event(LOSSY_WRITE);
    if (rc == SQLITE_OK)
        rc = below(file)->pMethods->xWrite(below(file), bytes, len, offset);
    if (rc == SQLITE_OK)
        note(((struct lossy_file *)file)->tracked, offset, bytes, len);
    return rc;
}

static int on_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    int rc = event(LOSSY_TRUNCATE);
    if (rc == SQLITE_OK)
        rc = below(file)->pMethods->xTruncate(below(file), size);
    if (rc == SQLITE_OK)
        note(((struct lossy_file *)file)->tracked, size, NULL, -1);
    return rc;
}

static int on_sync(sqlite3_file *file, int flags)
{
    int rc = event(LOSSY_SYNC);
    if (rc == SQLITE_OK)
        rc = below(file)->pMethods->xSync(below(file), flags);
    if (rc == SQLITE_OK && ((struct lossy_file *)file)->tracked != NULL)
        sync_tracked(((struct lossy_file *)file)->tracked);
    return rc;
}

static int on_close(sqlite3_file *file)
{
    return below(file)->pMethods->xClose(below(file));
}

static int on_read(sqlite3_file *file, void *bytes, int len, sqlite3_int64 offset)
{
    return below(file)->pMethods->xRead(below(file), bytes, len, offset);
}

static int on_size(sqlite3_file *file, sqlite3_int64 *size)
{
    return below(file)->pMethods->xFileSize(below(file), size);
}

static int on_lock(sqlite3_file *file, int lock)
{
    return below(file)->pMethods->xLock(below(file), lock);
}

static int on_unlock(sqlite3_file *file, int lock)
{
    return below(file)->pMethods->xUnlock(below(file), lock);
}

static int on_reserved(sqlite3_file *file, int *is_reserved)
{
    return below(file)->pMethods->xCheckReservedLock(below(file), is_reserved);
}

static int on_control(sqlite3_file *file, int op, void *arg)
{
    return below(file)->pMethods->xFileControl(below(file), op, arg);
}

static int on_sector_size(sqlite3_file *file)
{
    return below(file)->pMethods->xSectorSize(below(file));
}

static int on_characteristics(sqlite3_file *file)
{
    return below(file)->pMethods->xDeviceCharacteristics(below(file));
}

static int on_shm_map(sqlite3_file *file, int page, int size, int extend, void volatile **memory)
{
    return below(file)->pMethods->xShmMap(below(file), page, size, extend, memory);
}

static int on_shm_lock(sqlite3_file *file, int offset, int n, int flags)
{
    return below(file)->pMethods->xShmLock(below(file), offset, n, flags);
}

static void on_shm_barrier(sqlite3_file *file)
{
    below(file)->pMethods->xShmBarrier(below(file));
}

static int on_shm_unmap(sqlite3_file *file, int is_deleted)
{
    return below(file)->pMethods->xShmUnmap(below(file), is_deleted);
}

static const sqlite3_io_methods methods = {
    2,
    on_close,
    on_read,
    on_write,
    on_truncate,
    on_sync,
    on_size,
    on_lock,
    on_unlock,
    on_reserved,
    on_control,
    on_sector_size,
    on_characteristics,
    on_shm_map,
    on_shm_lock,
    on_shm_barrier,
    on_shm_unmap,
    NULL,
    NULL,
};

static int on_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *file, int flags,
                   int *ret_flags)
{
    struct lossy_file *f = (struct lossy_file *)file;
    (void)vfs;
    *f = (struct lossy_file){.below = (sqlite3_file *)(f + 1)};
    struct tracked *t = path != NULL && !quiet ? track(path) : NULL; /* before it is made */
    int rc = under->xOpen(under, path, f->below, flags, ret_flags);
    if (rc != SQLITE_OK)
        return rc;
    f->tracked = t;
    f->base.pMethods = &methods;
    return SQLITE_OK;
}

static int on_delete(sqlite3_vfs *vfs, const char *path, int is_durable)
{
    struct tracked *t = quiet ? NULL : find(path);
    (void)vfs;
    int rc = event(LOSSY_DELETE);
    if (rc == SQLITE_OK)
        rc = under->xDelete(under, path, is_durable);
    if (rc != SQLITE_OK || t == NULL)
        return rc;
    t->is_deleted = true;
    if (is_durable)
        t->is_there = false;
    return rc;
}

/* ---- for tests ---- */

void lossy_vfs_install(void)
{
    under = sqlite3_vfs_find(NULL);
    ck_assert_ptr_nonnull(under);
    lossy = *under;
    lossy.zName = "lossy";
    lossy.pNext = NULL;
    lossy.szOsFile = (int)sizeof(struct lossy_file) + under->szOsFile;
    lossy.xOpen = on_open;
    lossy.xDelete = on_delete;
    ck_assert_int_eq(sqlite3_vfs_register(&lossy, 1), SQLITE_OK);
}

void lossy_vfs_begin(lossy_event_fn *on_event, void *user)
{
    for (int i = 0; i < FILES_MAX; i++)
        forget(&files[i]);
    n_events = 0;
    quiet = false;
    event_fn = on_event;
    event_user = user;
}

void lossy_vfs_quiet(bool is_quiet)
{
    quiet = is_quiet;
}

static uint64_t next(uint64_t *seed)
{
    uint64_t x = *seed += 0x9e3779b97f4a7c15u; /* splitmix64 */
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static void apply_torn(char **image, int64_t *len, const struct pending *p, uint64_t *seed)
{
    if (p->len < 0) {
        if (next(seed) & 1)
            apply(image, len, p);
        return;
    }
    for (int64_t at = 0; at < p->len; at += SECTOR)
        if (next(seed) & 1)
            apply_bytes(image, len, p->offset + at, p->bytes + at,
                        p->len - at < SECTOR ? p->len - at : SECTOR);
}

static void cut_file(const struct tracked *t, const char *to, enum lossy_loss loss, uint64_t *seed)
{
    char path[PATH_ROOM * 2];
    int64_t len = t->len;
    bool is_gone = !t->is_there || (t->is_deleted && (loss == LOSSY_NOTHING || (next(seed) & 1)));
    if (is_gone && !(loss == LOSSY_NOTHING && !t->is_deleted && t->first != NULL))
        return;
    char *image = mem_alloc((size_t)len + 1);
    ck_assert_ptr_nonnull(image);
    if (len > 0)
        memcpy(image, t->synced, (size_t)len);
    for (const struct pending *p = t->first; p != NULL && !t->is_deleted; p = p->next) {
        if (loss == LOSSY_NOTHING || (loss == LOSSY_SOME && (next(seed) & 1)))
            apply(&image, &len, p);
        else if (loss == LOSSY_TORN)
            apply_torn(&image, &len, p, seed);
    }
    snprintf(path, sizeof path, "%s/%s", to, strrchr(t->path, '/') + 1);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, image, (size_t)len), (ssize_t)len);
    close(fd);
    mem_free(image);
}

void lossy_vfs_cut(const char *dir, const char *to, enum lossy_loss loss, uint64_t seed)
{
    size_t n = strlen(dir);
    for (int i = 0; i < FILES_MAX; i++)
        if (strncmp(files[i].path, dir, n) == 0 && files[i].path[n] == '/')
            cut_file(&files[i], to, loss, &seed);
}
