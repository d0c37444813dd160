/* releases_publish.c: from a file to a generation that is loaded and has its four receipts.
 *
 * HOW     Refusals first: the file is read as a checkpoint where it lies, its tokenizer held against stable's, its name and
 *         content against the rows, its bytes against the memory, before a byte is copied. Then it is copied, registered
 *         by what it is, loaded, and its receipts are made. What cannot be loaded is rejected, with the reason in its row;
 *         copies of what was refused are removed.
 * THREAD  loader
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/releases_priv.h"

#include "cache/cache.h"
#include "config/mem.h"
#include "sched/evaluate/evaluation_set.h"

struct publication {
    const char *path, *name, *cache_type, *eval;
    const struct change_terms *terms;
    struct generation_content content;
    char set[SHA256_HEX];
    char id[SHA256_HEX];
    bool is_new;
};

static enum status bad_field(struct why *ret_why, const char *field, const char *right)
{
    return why_set(ret_why, STATUS_BAD_REQUEST, field, "%s: %s", field, right);
}

/* A page has the one size that the cache is built with. */
static enum status check_page(const struct record *body, struct why *ret_why)
{
    int64_t tokens = 0;
    char found[32];
    if (!record_has(body, "page_tokens") ||
        (record_number(body, "page_tokens", &tokens) && tokens == CACHE_PAGE_TOKENS))
        return OK;
    record_show(body, "page_tokens", found, sizeof found);
    return why_set(ret_why, STATUS_BAD_REQUEST, "page_tokens",
                   "page_tokens is %s: pages have %d tokens, no other size is possible", found,
                   CACHE_PAGE_TOKENS);
}

static enum status check_cache_type(const char *name, struct why *ret_why)
{
    enum kv_type type;
    if (model_kv_type(name, &type, NULL) == OK)
        return OK;
    return why_set(ret_why, STATUS_BAD_REQUEST, "cache_type",
                   "cache_type is \"%s\": f16, f32 or int8 is right", name);
}

static enum status read_body(const struct record *body, const char *default_type,
                             struct publication *p, struct why *ret_why)
{
    static const char *const known[] = {"path", "name", "cache_type", "eval", "page_tokens"};
    for (const char *key = NULL; (key = record_next_key(body, key)) != NULL;) {
        bool is_known = false;
        for (size_t i = 0; i < ARRAY_LEN(known); i++)
            is_known |= strcmp(known[i], key) == 0;
        if (!is_known)
            return bad_field(ret_why, key,
                             "unknown; path, name, cache_type, page_tokens and eval are known");
        bool is_text = strcmp(key, "page_tokens") != 0;
        if (is_text && record_has(body, key) && record_text(body, key) == NULL)
            return bad_field(ret_why, key, "a text is right");
    }
    TRY(check_page(body, ret_why));
    p->path = record_text(body, "path");
    p->name = record_text(body, "name");
    p->eval = record_text(body, "eval");
    p->cache_type = record_text(body, "cache_type");
    if (p->path == NULL || p->path[0] != '/' || strlen(p->path) >= RELEASES_PATH_ROOM)
        return bad_field(ret_why, "path", "the whole path of a file is right");
    if (p->eval != NULL && (p->eval[0] != '/' || strlen(p->eval) >= RELEASES_PATH_ROOM))
        return bad_field(ret_why, "eval", "the whole path of a file is right");
    if (p->cache_type == NULL)
        p->cache_type = default_type;
    return check_cache_type(p->cache_type, ret_why);
}

/* What is wrong with a file that a client named is the client's to hear. */
static enum status as_request(enum status s, const char *field, struct why *why)
{
    struct why said = *why;
    if (s != STATUS_BAD_FILE && s != STATUS_IO && s != STATUS_NOT_FOUND && s != STATUS_BAD_OPTION)
        return s;
    return why_set(why, STATUS_BAD_REQUEST, field, "%s: %s", field, said.text);
}

static enum status check_tokenizer(struct releases *r, const struct gguf *gguf,
                                   struct why *ret_why)
{
    char hash[SHA256_HEX];
    TRY(generation_content_tokenizer(gguf, hash));
    if (strcmp(hash, r->tokenizer) == 0)
        return OK;
    (void)why_set(ret_why, STATUS_RECEIPTS_DISAGREE, "tokenizer",
                  "the file has another tokenizer: tokenizer.* has hash %.16s, stable's has %.16s",
                  hash, r->tokenizer);
    why_add_both(ret_why, "candidate", hash, "stable", r->tokenizer);
    return STATUS_RECEIPTS_DISAGREE;
}

static enum status check_set(struct publication *p, struct why *ret_why)
{
    struct evaluation_set *set = NULL;
    TRY(releases_own_set(p->set, ret_why));
    if (p->eval == NULL)
        return OK;
    TRY(as_request(evaluation_set_read_file(p->eval, &set, ret_why), "eval", ret_why));
    sha256_hex(set->hash, p->set);
    evaluation_set_free(&set);
    return OK;
}

static enum status put_generation(struct releases *r, struct registry *registry, void *user,
                                  struct why *ret_why)
{
    struct publication *p = user;
    const struct release_content content = {.checkpoint = p->content.checkpoint,
                                            .identity = p->content.identity,
                                            .plan = p->content.plan,
                                            .evaluation_set = p->set,
                                            .name = p->name,
                                            .object = r->dir[0] != '\0' ? p->content.checkpoint
                                                                        : NULL};
    return release_register(registry, p->terms, &content, p->id, &p->is_new, ret_why);
}

/* Read where it lies, through to its hash, and held against rows and memory as they are. */
static enum status check_content(struct releases *r, struct publication *p, const struct gguf *gguf,
                                 struct why *ret_why)
{
    struct change_terms terms = *p->terms;
    TRY(as_request(generation_content_read(gguf, NULL, p->cache_type, &r->kernels, &p->content, ret_why),
                   "path", ret_why));
    terms.is_dry_run = true;
    const struct change_terms *own = p->terms;
    p->terms = &terms;
    enum status s = releases_do(r, put_generation, p, ret_why);
    p->terms = own;
    TRY(s);
    return p->is_new ? releases_check_room(r, gguf, p->content.checkpoint, ret_why) : OK;
}

static enum status check_file(struct releases *r, struct publication *p, struct why *ret_why)
{
    struct gguf *gguf = NULL;
    struct graph *graph = NULL;
    TRY(as_request(gguf_open(p->path, &gguf, ret_why), "path", ret_why));
    enum status s = as_request(graph_from_gguf(gguf, &graph, ret_why), "path", ret_why);
    if (s == OK)
        s = check_tokenizer(r, gguf, ret_why);
    if (s == OK)
        s = check_content(r, p, gguf, ret_why);
    graph_free(&graph);
    gguf_free(&gguf);
    return s;
}

/* NULL: none any more. */
static void keep_objects(struct releases *r, const struct publication *p)
{
    pthread_mutex_lock(&r->lock);
    snprintf(r->kept_objects[0], SHA256_HEX, "%s", p != NULL ? p->content.checkpoint : "");
    snprintf(r->kept_objects[1], SHA256_HEX, "%s", p != NULL ? p->set : "");
    pthread_mutex_unlock(&r->lock);
}

static enum status keep_file(struct releases *r, const char *path, const char *field,
                             const char *hash, struct why *ret_why)
{
    char found[SHA256_HEX];
    TRY(as_request(releases_store(r, path, found, ret_why), field, ret_why));
    if (strcmp(found, hash) == 0)
        return OK;
    return why_set(ret_why, STATUS_BAD_REQUEST, field, "%s: the file changed meanwhile", field);
}

static enum status register_it(struct releases *r, struct release_work *work,
                               struct publication *p)
{
    struct admin_call *call = work->call;
    struct why *why = &call->why;
    if (p->eval != NULL)
        TRY(keep_file(r, p->eval, "eval", p->set, why));
    TRY(keep_file(r, p->path, "path", p->content.checkpoint, why));
    TRY(releases_do(r, put_generation, p, why));
    struct change_terms next = {
        .who = call->who, .at_us = releases_now_us(), .epoch_expected = EPOCH_ANY};
    struct release_lane entry;
    if (!p->is_new && release_lanes_find_id(&r->lanes, p->id, &entry))
        return OK;
    return releases_bring_up(r, &next, p->id, NULL, why);
}

static enum status publish(struct releases *r, struct release_work *work, struct publication *p)
{
    struct admin_call *call = work->call;
    struct why *why = &call->why;
    p->terms = &work->terms;
    TRY(read_body(&call->body, r->terms.cache_type, p, why));
    TRY(check_set(p, why));
    TRY(check_file(r, p, why));
    if (call->is_dry_run)
        return OK;
    keep_objects(r, p);
    enum status s = register_it(r, work, p);
    keep_objects(r, NULL);
    if (s != OK)
        releases_sweep(r); /* its copies, unless another generation has them too */
    return s;
}

void releases_publish(struct releases *r, struct release_work *work)
{
    struct admin_call *call = work->call;
    struct publication p = {0};
    call->status = publish(r, work, &p);
    if (call->status != OK || call->is_dry_run)
        return; /* a dry run is answered as one by whoever asked for it */
    call->result = p.is_new ? ADMIN_RESULT_CREATED : ADMIN_RESULT_OK;
    releases_tell_generation(r, call, p.id);
}
