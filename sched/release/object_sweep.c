/* object_sweep.c: the object store holds what the rows name, and nothing else.
 *
 * WHY     A checkpoint is gigabytes. A crash may fall between a copy and its row, or between a row's end and the removal
 *         of its file, so what to remove is read from the rows each time and noted nowhere.
 * HOW     The names in use are collected from the rows, then the folder is walked.
 * ALWAYS  (1) Nothing goes while the rows cannot be read to their end.              object_sweep
 * THREAD  registry
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/object_sweep.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "config/mem.h"
#include "sched/release/generation_id.h"
#include "sched/release/object_store.h"

struct names {
    size_t n, room;
    char (*at)[SHA256_HEX];
};

static enum status add(struct names *names, const char *name)
{
    if (name == NULL || !generation_id_is_hash(name))
        return OK;
    if (names->n == names->room) {
        size_t room = names->room > 0 ? 2 * names->room : 16;
        void *grown = mem_realloc(names->at, room * sizeof *names->at);
        if (grown == NULL)
            return STATUS_NO_MEMORY;
        names->at = grown;
        names->room = room;
    }
    memcpy(names->at[names->n++], name, SHA256_HEX);
    return OK;
}

static enum status see(void *user, const char *key, const struct record *body, struct why *ret_why)
{
    struct names *names = user;
    const char *object = record_text(body, "object");
    (void)key, (void)ret_why;
    if (object == NULL)
        return OK;
    TRY(add(names, object));
    return add(names, record_text(body, "evaluation_set"));
}

static bool is_in_use(const struct names *names, const char *name)
{
    for (size_t i = 0; i < names->n; i++)
        if (strcmp(names->at[i], name) == 0)
            return true;
    return false;
}

static enum status failed(const char *dir, struct why *ret_why)
{
    return why_set(ret_why, STATUS_IO, "object", "the objects of %.200s cannot be cleared: %s", dir,
                   strerror(errno));
}

static enum status clear(const char *dir, const struct names *names, struct why *ret_why)
{
    char path[OBJECT_PATH_ROOM];
    bool has_removed = false;
    enum status s = OK;
    snprintf(path, sizeof path, "%s/objects", dir);
    DIR *entries = opendir(path);
    if (entries == NULL)
        return failed(dir, ret_why);
    for (struct dirent *e; s == OK && (e = readdir(entries)) != NULL;) {
        if (!generation_id_is_hash(e->d_name) || is_in_use(names, e->d_name))
            continue; /* unfinished copies are the store's own, other files are not ours */
        if (unlinkat(dirfd(entries), e->d_name, 0) != 0)
            s = failed(dir, ret_why);
        else
            has_removed = true;
    }
    if (has_removed && fsync(dirfd(entries)) != 0 && s == OK)
        s = failed(dir, ret_why);
    closedir(entries);
    return s;
}

enum status object_sweep(struct registry *registry, const char *dir, const char *const *kept,
                         size_t n, struct why *ret_why)
{
    struct names names = {0};
    enum status s = registry_each(registry, REGISTRY_GENERATIONS, see, &names, ret_why);
    for (size_t i = 0; s == OK && i < n; i++)
        s = add(&names, kept[i]);
    if (s == OK)
        s = clear(dir, &names, ret_why);
    mem_free(names.at);
    return s;
}
