/* releases_store.c: a file that a generation is made of is put where it stays: in the object store, or, without one, it stays
 * where it is and its path is remembered. By its hash it is found again.
 *
 * THREAD  loader, or whoever starts; releases_find_file and releases_keep_path: any
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/releases_priv.h"

#include "config/mem.h"
#include "sched/release/object_store.h"
#include "sched/release/object_sweep.h"

enum status releases_find_file(struct releases *r, const char *hash,
                               char ret_path[RELEASES_PATH_ROOM], struct why *ret_why)
{
    if (r->dir[0] != '\0' && object_store_has(r->dir, hash)) {
        object_store_path(r->dir, hash, ret_path);
        return OK;
    }
    bool is_found = false;
    pthread_mutex_lock(&r->lock);
    for (const struct release_path *p = r->paths; p != NULL && !is_found; p = p->next)
        if (strcmp(p->hash, hash) == 0) {
            snprintf(ret_path, RELEASES_PATH_ROOM, "%s", p->path);
            is_found = true;
        }
    pthread_mutex_unlock(&r->lock);
    return is_found ? OK
                    : why_set(ret_why, STATUS_NOT_FOUND, "object",
                              "the file %.16s of the generation is not there any more", hash);
}

enum status releases_keep_path(struct releases *r, const char *hash, const char *path)
{
    struct release_path *p = mem_zalloc(1, sizeof *p);
    if (p == NULL)
        return STATUS_NO_MEMORY;
    snprintf(p->hash, sizeof p->hash, "%s", hash);
    snprintf(p->path, sizeof p->path, "%s", path);
    pthread_mutex_lock(&r->lock);
    p->next = r->paths;
    r->paths = p;
    pthread_mutex_unlock(&r->lock);
    return OK;
}

struct copying {
    struct registry_job job; /* first */
    const char *dir, *path;
    struct object_copy *copy;
    char *ret_hash;
};

/* A piece at a time, so that a rollback need not wait for a checkpoint. */
static enum job_turn copy_piece(struct registry *registry, struct registry_job *job)
{
    struct copying *c = (struct copying *)job;
    bool is_done = false;
    (void)registry;
    job->status = OK;
    if (c->copy == NULL)
        job->status = object_copy_begin(c->dir, c->path, &c->copy, &job->why);
    if (job->status == OK)
        job->status = object_copy_step(c->copy, &is_done, c->ret_hash, &job->why);
    if (job->status == OK && !is_done)
        return JOB_AGAIN;
    object_copy_free(&c->copy);
    return JOB_DONE;
}

static enum status copy_object(struct releases *r, const char *path, char ret_hash[SHA256_HEX],
                               struct why *ret_why)
{
    struct copying c = {
        .job.run = copy_piece, .dir = r->dir, .path = path, .ret_hash = ret_hash};
    releases_do_job(r, &c.job);
    if (c.job.status != OK)
        *ret_why = c.job.why;
    return c.job.status;
}

static enum status hash_file(const char *path, char ret_hash[SHA256_HEX], struct why *ret_why)
{
    enum { PIECE = 1 << 20 };
    static _Thread_local unsigned char piece[PIECE];
    uint8_t hash[SHA256_BYTES];
    struct sha256 *sha = NULL;
    FILE *file = fopen(path, "rbe");
    if (file == NULL)
        return why_set(ret_why, STATUS_IO, "path", "%s cannot be read", path);
    enum status s = sha256_new(&sha);
    if (s == OK) {
        sha256_start(sha);
        for (size_t n; (n = fread(piece, 1, sizeof piece, file)) > 0;)
            sha256_add(sha, piece, n);
        sha256_finish(sha, hash);
        sha256_hex(hash, ret_hash);
        if (ferror(file))
            s = why_set(ret_why, STATUS_IO, "path", "%s cannot be read to its end", path);
    }
    sha256_free(&sha);
    fclose(file);
    return s;
}

enum status releases_store(struct releases *r, const char *path, char ret_hash[SHA256_HEX],
                           struct why *ret_why)
{
    if (r->dir[0] != '\0')
        return copy_object(r, path, ret_hash, ret_why);
    TRY(hash_file(path, ret_hash, ret_why));
    return releases_keep_path(r, ret_hash, path);
}

void releases_sweep_rows(struct releases *r, struct registry *registry)
{
    char kept[ARRAY_LEN(r->kept_objects)][SHA256_HEX];
    const char *const names[] = {kept[0], kept[1]};
    struct why why = {0};
    if (r->dir[0] == '\0' || registry_fault(registry) != NULL)
        return;
    pthread_mutex_lock(&r->lock);
    memcpy(kept, r->kept_objects, sizeof kept);
    pthread_mutex_unlock(&r->lock);
    if (object_sweep(registry, r->dir, names, ARRAY_LEN(names), &why) != OK)
        releases_say(r, true, "registry", "%s", why.text);
}

static enum status sweep(struct releases *r, struct registry *registry, void *user,
                         struct why *ret_why)
{
    (void)user, (void)ret_why;
    releases_sweep_rows(r, registry);
    return OK;
}

void releases_sweep(struct releases *r)
{
    enum status s = releases_do(r, sweep, NULL, NULL);
    ASSERT(s == OK);
}

enum status releases_own_set(char ret_hash[SHA256_HEX], struct why *ret_why)
{
    struct evaluation_set *set = NULL;
    TRY(evaluation_set_shipped(&set, ret_why));
    sha256_hex(set->hash, ret_hash);
    evaluation_set_free(&set);
    return OK;
}
