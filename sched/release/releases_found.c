/* releases_found.c: the first generation of an empty registry: stable at once, with receipts of what was really loaded.
 *
 * THREAD  whoever starts
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/releases_priv.h"

#include "sched/release/generation_id.h"
#include "sched/release/agreement.h"

struct founding {
    struct generation_content content;
    char id[SHA256_HEX], space[SHA256_HEX], set[SHA256_HEX];
    const char *name;
    bool has_object;
    struct record receipts[AGREEMENT_RECEIPTS];
};

static void give_receipts(void *user, const char *id, const char *name_space,
                          struct record ret_receipts[AGREEMENT_RECEIPTS])
{
    struct founding *f = user;
    ASSERT(strcmp(id, f->id) == 0 && strcmp(name_space, f->space) == 0);
    for (int i = 0; i < AGREEMENT_RECEIPTS; i++) {
        ret_receipts[i] = f->receipts[i];
        f->receipts[i] = (struct record){0};
    }
}

static enum status found(struct releases *r, struct registry *registry, void *user,
                         struct why *ret_why)
{
    struct founding *f = user;
    char id[SHA256_HEX];
    const struct change_terms terms = {
        .who = "foldkv", .at_us = releases_now_us(), .epoch_expected = EPOCH_ANY};
    const struct release_content content = {.checkpoint = f->content.checkpoint,
                                            .identity = f->content.identity,
                                            .plan = f->content.plan,
                                            .evaluation_set = f->set,
                                            .name = f->name,
                                            .object = f->has_object ? f->content.checkpoint : NULL};
    (void)r;
    return release_found(registry, &terms, &content, give_receipts, f, id, ret_why);
}

/* A name that people may use; one that the registry would refuse is left out. */
static const char *usable_name(const char *name)
{
    if (name == NULL || name[0] == '\0' || strlen(name) > 127 || generation_id_is_hash(name))
        return NULL;
    for (const char *p = name; *p != '\0'; p++)
        if ((unsigned char)*p < 0x21 || *p == 0x7f)
            return NULL;
    return name;
}

static enum status read_content(struct releases *r, struct founding *f, struct why *ret_why)
{
    char hash[SHA256_HEX] = "";
    if (r->dir[0] != '\0') {
        TRY(releases_store(r, r->stable_file, hash, ret_why));
        TRY(releases_find_file(r, hash, r->stable_file, ret_why));
        TRY(releases_open_stable(r, ret_why));
        f->has_object = true;
    }
    TRY(generation_content_read(r->terms.opened, f->has_object ? hash : NULL, r->terms.cache_type,
                                &r->kernels, &f->content, ret_why));
    return f->has_object ? OK : releases_keep_path(r, f->content.checkpoint, r->stable_file);
}

/* Reads the file once: what is loaded is what was hashed. */
static enum status load_first(struct releases *r, struct founding *f, struct why *ret_why)
{
    TRY(read_content(r, f, ret_why));
    TRY(releases_own_set(f->set, ret_why));
    generation_id_of(f->content.identity, f->content.plan, f->set, f->id);
    generation_id_namespace(f->id, 1, "", f->space);
    const struct release_load load = {.id = f->id,
                                      .space = f->space,
                                      .gguf = r->terms.opened,
                                      .kv_type = r->terms.cache_type,
                                      .cache_bytes = r->terms.cache_bytes,
                                      .checkpoint = f->content.checkpoint,
                                      .is_new = true,
                                      .ret_receipts = f->receipts,
                                      .who = "foldkv"};
    return releases_load(r, &load, ret_why);
}

enum status releases_found(struct releases *r, struct why *ret_why)
{
    struct founding f = {.name = usable_name(r->terms.name)};
    enum status s = load_first(r, &f, ret_why);
    if (s == OK)
        s = releases_do(r, found, &f, ret_why);
    for (int i = 0; i < AGREEMENT_RECEIPTS; i++)
        record_release(&f.receipts[i]);
    return s;
}
