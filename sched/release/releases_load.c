/* releases_load.c: a generation's lane: from its file to the engine, with the receipts of what was really loaded.
 *
 * HOW     The K/V type is the one under which the file has the identity of the row. Receipts are made before the engine has
 *         the lane, and held against the row before anybody is sent to it; then the evaluation is.
 *         A generation whose pool was given back, but not
 *         its weights, gets a new pool and nothing else: it needs no file, since its weights were hashed when they were packed.
 *         Otherwise they are looked for in memory by the row's hash. If they are not there, the file is hashed while it is packed
 *         and held against the row, which finds a torn or altered object; if they are, only the file's header is read, and the
 *         identity holds that to the row.
 * ALWAYS  (1) What was not loaded as its row says is let go again.                  load_view
 *         (2) A lane is never in the book without its cells.                        put_lane
 * THREAD  loader, rescue, or whoever starts
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/releases_priv.h"

#include "cache/cache.h"
#include "sched/engine.h"
#include "sched/release/generation_receipts.h"
#include "sched/release/releases_cells.h"

/* ---- one lane ---- */

static enum status make_receipts(const struct release_load *load, struct lane *lane,
                                 bool is_durable)
{
    const struct receipt_sources sources = {.gguf = load->is_new ? load->gguf : NULL,
                                            .model = lane_model(lane),
                                            .cache = lane_cache(lane),
                                            .kernels = lane_kernels(lane),
                                            .id = load->id,
                                            .who = load->who,
                                            .hashes_tensors = is_durable};
    return generation_receipts_make(&sources, load->ret_receipts);
}

static void leave_space(struct releases *r, const char *space)
{
    struct release_lane entry;
    for (uint32_t i = 0; i < RELEASE_LANES_MAX; i++)
        if (release_lanes_at(&r->lanes, i, &entry) && strcmp(entry.space, space) == 0)
            release_lanes_leave(&r->lanes, i); /* let_go frees it when its last request has ended */
}

static enum status lanes_full(struct why *ret_why)
{
    return why_set(ret_why, STATUS_NO_MEMORY, "", "%d generations are loaded already",
                   RELEASE_LANES_MAX);
}

static enum status put_lane(struct releases *r, const struct release_load *load,
                            struct lane **lane, struct why *ret_why)
{
    struct release_lane entry = {.lane = *lane, .is_control = load->is_control};
    snprintf(entry.id, sizeof entry.id, "%s", load->id);
    snprintf(entry.space, sizeof entry.space, "%s", load->space);
    entry.shape = *cache_shape(lane_cache(*lane));
    entry.cache_bytes = entry.shape.pool_bytes;
    entry.weights_bytes = lane_model(*lane)->weights->bytes;
    if (!load->is_control)
        releases_cells_restore(r, &entry);
    if (load->is_judged)
        TRY(releases_quota_candidate(r, *lane, ret_why));
    else if (load->quota_blocks > 0)
        lane_set_quota(*lane, load->quota_blocks);
    TRY(engine_add(r->terms.engine, *lane, ret_why));
    if (load->ret_receipts != NULL)
        record_set_number(&load->ret_receipts[RECEIPT_PLAN], "workspace_bytes",
                          (int64_t)lane_workspace_bytes(*lane));
    *lane = NULL;
    leave_space(r, load->space); /* a pool that was given back: the new one has its place */
    if (release_lanes_add(&r->lanes, &entry))
        return OK;
    lane_want(entry.lane, LANE_FREED);
    engine_remove(r->terms.engine, &entry.lane);
    return lanes_full(ret_why);
}

enum status releases_load(struct releases *r, const struct release_load *load, struct why *ret_why)
{
    struct lane *lane = NULL;
    struct lane_terms terms = {.cache_bytes = load->cache_bytes,
                               .cache_type = load->kv_type,
                               .isa = r->terms.isa,
                               .stop_ids = r->terms.stop_ids,
                               .n_stop_ids = r->terms.n_stop_ids,
                               .kept = load->kept,
                               .is_urgent = load->is_urgent};
    snprintf(terms.id, sizeof terms.id, "%s", load->id);
    sha256_from_hex(load->space, terms.namespace_id);
    if (load->is_judged)
        terms.control_bytes = releases_quota_bytes(r, load->cache_bytes);
    if (load->checkpoint != NULL)
        sha256_from_hex(load->checkpoint, terms.checkpoint);
    enum status s = lane_load(load->gguf, &terms, r->terms.engine, &lane, ret_why);
    if (s == OK && load->ret_receipts != NULL)
        s = make_receipts(load, lane, r->dir[0] != '\0');
    if (s == OK)
        s = put_lane(r, load, &lane, ret_why);
    lane_free(&lane);
    return s;
}

enum status releases_check_room(struct releases *r, const struct gguf *gguf, const char *checkpoint,
                                struct why *ret_why)
{
    struct lane_terms terms = {.cache_bytes = r->terms.cache_bytes,
                               .control_bytes = releases_quota_bytes(r, r->terms.cache_bytes)};
    sha256_from_hex(checkpoint, terms.checkpoint);
    return lane_check_room(gguf, &terms, r->terms.engine, ret_why);
}

static bool has_place(struct releases *r)
{
    struct release_lane entry;
    for (uint32_t i = 0; i < RELEASE_LANES_MAX; i++)
        if (!release_lanes_at(&r->lanes, i, &entry))
            return true;
    return false;
}

/* ---- a generation ---- */

struct view_search {
    const char *id;
    struct release_view *ret;
};

void releases_read_view(const char *id, const struct record *row, struct release_view *ret)
{
    const struct {
        const char *key;
        char *to;
    } texts[] = {{"namespace", ret->space},
                 {"checkpoint", ret->checkpoint},
                 {"identity", ret->identity},
                 {"evaluation_set", ret->evaluation_set},
                 {"plan", ret->plan}};
    snprintf(ret->id, sizeof ret->id, "%s", id);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        record_copy_text(row, texts[i].key, texts[i].to, SHA256_HEX);
    ret->state = generation_state_find(record_text(row, "state"));
}

static enum status find_view(struct releases *r, struct registry *registry, void *user,
                             struct why *ret_why)
{
    struct view_search *search = user;
    struct record row;
    (void)r;
    TRY(registry_get(registry, REGISTRY_GENERATIONS, search->id, &row, ret_why));
    releases_read_view(search->id, &row, search->ret);
    record_release(&row);
    return OK;
}

enum status releases_view(struct releases *r, const char *id, struct release_view *ret_view,
                          struct why *ret_why)
{
    struct view_search search = {.id = id, .ret = ret_view};
    return releases_do(r, find_view, &search, ret_why);
}

/* The K/V type under which the file has the identity that it was registered with. */
static enum status find_kv_type(struct releases *r, const struct release_view *v,
                                const struct gguf *gguf, const char **ret_type,
                                struct why *ret_why)
{
    static const char *const types[] = {"f16", "f32", "int8"};
    struct generation_content content;
    enum status s = OK;
    *ret_type = NULL;
    for (size_t i = 0; s == OK && i < ARRAY_LEN(types) && *ret_type == NULL; i++) {
        s = generation_content_read(gguf, v->checkpoint, types[i], &r->kernels, &content, ret_why);
        if (s == OK && strcmp(content.identity, v->identity) == 0)
            *ret_type = types[i];
    }
    if (s == OK && *ret_type == NULL)
        s = why_set(ret_why, STATUS_RECEIPTS_DISAGREE, "identity",
                    "the file has identity %.16s under %s, the registry says %.16s, which it has under no K/V type",
                    content.identity, types[ARRAY_LEN(types) - 1], v->identity);
    return s;
}

/* What was loaded is the checkpoint of the row. */
static enum status check_loaded(const struct release_view *v,
                                struct record receipts[AGREEMENT_RECEIPTS], struct why *ret_why)
{
    const char *checkpoint = record_text(&receipts[RECEIPT_CHECKPOINT], "checkpoint");
    if (checkpoint == NULL || strcmp(checkpoint, v->checkpoint) == 0)
        return agreement_check(receipts, v->identity, ret_why);
    (void)why_set(ret_why, STATUS_RECEIPTS_DISAGREE, "checkpoint",
                  "the file is checkpoint %.16s, the registry says %.16s", checkpoint,
                  v->checkpoint);
    why_add_both(ret_why, "file", checkpoint, "generation", v->checkpoint);
    return STATUS_RECEIPTS_DISAGREE;
}

struct keep {
    const struct release_view *view;
    const struct change_terms *terms;
    struct record *receipts;
};

/* A registered generation gets its receipts and is ready; one whose kernels have changed since gets its new plan, unless the
 * registry takes no writes: it serves, and the next start keeps the plan. */
static enum status keep_receipts(struct releases *r, struct registry *registry, void *user,
                                 struct why *ret_why)
{
    struct keep *k = user;
    char hash[SHA256_HEX];
    struct record row;
    bool is_new = k->view->state == GENERATION_LOADING;
    (void)r;
    TRY(registry_get(registry, REGISTRY_GENERATIONS, k->view->id, &row, ret_why));
    struct record named = record_child(&row, "receipts");
    enum status s = OK;
    for (int i = 0; s == OK && i < AGREEMENT_RECEIPTS; i++) {
        const char *kind = agreement_receipt_text((enum agreement_receipt)i);
        const char *old = record_text(&named, kind);
        s = record_hash(&k->receipts[i], hash);
        bool is_same = old != NULL && strcmp(old, hash) == 0;
        bool has_changed = i == RECEIPT_PLAN && !is_same && registry_fault(registry) == NULL;
        if (s == OK && (is_new || has_changed))
            s = release_receipt(registry, k->terms, k->view->id, kind, &k->receipts[i], hash,
                                ret_why);
    }
    record_release(&row);
    if (s == OK && is_new)
        s = release_move_generation(registry, k->terms, k->view->id, GENERATION_READY, NULL,
                                    ret_why);
    return s;
}

struct move {
    const struct change_terms *terms;
    const char *id, *reason;
    enum generation_state to;
};

static enum status move(struct releases *r, struct registry *registry, void *user,
                        struct why *ret_why)
{
    struct move *m = user;
    (void)r;
    return release_move_generation(registry, m->terms, m->id, m->to, m->reason, ret_why);
}

enum status releases_move(struct releases *r, const struct change_terms *terms, const char *id,
                          enum generation_state to, const char *reason, struct why *ret_why)
{
    struct move m = {terms, id, reason, to};
    return releases_do(r, move, &m, ret_why);
}

static void note_loading(struct releases *r, const char *id)
{
    pthread_mutex_lock(&r->lock);
    snprintf(r->loading, sizeof r->loading, "%s", id);
    pthread_mutex_unlock(&r->lock);
}

static enum status load_view(struct releases *r, const struct change_terms *terms,
                             struct release_view *v, const struct gguf *gguf,
                             const struct lane *kept, struct why *ret_why)
{
    struct record receipts[AGREEMENT_RECEIPTS] = {0};
    struct release_load load = {.id = v->id,
                                .space = v->space,
                                .gguf = gguf,
                                .checkpoint = v->checkpoint,
                                .kept = kept,
                                .is_urgent = true,
                                .is_new = v->state == GENERATION_LOADING,
                                .is_judged = v->state <= GENERATION_CANARY,
                                .cache_bytes = r->terms.cache_bytes,
                                .ret_receipts = receipts,
                                .who = terms->who};
    if (kept == NULL)
        TRY(find_kv_type(r, v, gguf, &load.kv_type, ret_why));
    note_loading(r, v->id);
    enum status s = releases_load(r, &load, ret_why);
    note_loading(r, "");
    bool is_loaded = s == OK;
    if (s == OK)
        s = check_loaded(v, receipts, ret_why);
    if (s == OK) {
        struct keep keep = {v, terms, receipts};
        s = releases_do(r, keep_receipts, &keep, ret_why);
    }
    if (s == OK)
        s = releases_stale_settle(r, terms, v->id, ret_why);
    for (int i = 0; i < AGREEMENT_RECEIPTS; i++)
        record_release(&receipts[i]);
    if (s != OK && is_loaded)
        leave_space(r, v->space);
    return s;
}

/* Stable's file is open already while the release side starts. */
static enum status load_file(struct releases *r, const struct change_terms *terms,
                             struct release_view *v, const char *file, struct why *ret_why)
{
    struct gguf *gguf = NULL;
    if (r->terms.opened != NULL && strcmp(file, r->stable_file) == 0)
        return load_view(r, terms, v, r->terms.opened, NULL, ret_why);
    TRY(gguf_open(file, &gguf, ret_why));
    enum status s = load_view(r, terms, v, gguf, NULL, ret_why);
    gguf_free(&gguf);
    return s;
}

enum status releases_bring_up(struct releases *r, const struct change_terms *terms, const char *id,
                              const char *file, struct why *ret_why)
{
    struct release_view v;
    char path[RELEASES_PATH_ROOM] = "";
    struct release_lane kept;
    TRY(releases_view(r, id, &v, ret_why));
    if (release_lanes_keep_id(&r->lanes, id, &kept)) {
        enum status s = load_view(r, terms, &v, NULL, kept.lane, ret_why);
        release_lanes_give(&r->lanes, kept.place);
        return s;
    }
    if (file == NULL)
        TRY(releases_find_file(r, v.checkpoint, path, ret_why));
    if (v.state == GENERATION_REGISTERED) {
        TRY(releases_move(r, terms, id, GENERATION_LOADING, NULL, ret_why));
        v.state = GENERATION_LOADING;
    }
    enum status s = load_file(r, terms, &v, file != NULL ? file : path, ret_why);
    struct why unheard;
    if (s != OK && v.state == GENERATION_LOADING &&
        releases_move(r, terms, id, GENERATION_REJECTED, ret_why->text, &unheard) != OK)
        releases_say(r, true, "loader", "%.16s: %s", id, unheard.text);
    if (s != OK)
        releases_sweep(r);
    return s;
}

/* From the baseline's file, where its lane is not there. */
static enum status load_beside_file(struct releases *r, const struct release_view *v,
                                    struct release_load *load, struct why *ret_why)
{
    char path[RELEASES_PATH_ROOM];
    struct gguf *gguf = NULL;
    if (r->model[0] != '\0' && releases_find_file(r, v->checkpoint, path, NULL) != OK)
        snprintf(path, sizeof path, "%s", r->stable_file);
    else
        TRY(releases_find_file(r, v->checkpoint, path, ret_why));
    TRY(gguf_open(path, &gguf, ret_why));
    load->gguf = gguf;
    load->checkpoint = v->checkpoint;
    enum status s = find_kv_type(r, v, gguf, &load->kv_type, ret_why);
    if (s == OK)
        s = releases_load(r, load, ret_why);
    gguf_free(&gguf);
    return s;
}

enum status releases_load_beside(struct releases *r, const char *candidate, const char *baseline,
                                 const char *space, struct why *ret_why)
{
    struct release_view v;
    struct release_lane kept;
    struct release_load load = {.id = baseline, .space = space, .is_control = true};
    TRY(releases_quota_control(r, candidate, baseline, &load, ret_why));
    if (release_lanes_keep_id(&r->lanes, baseline, &kept)) {
        load.kept = kept.lane;
        enum status s = releases_load(r, &load, ret_why);
        release_lanes_give(&r->lanes, kept.place);
        return s;
    }
    TRY(releases_view(r, baseline, &v, ret_why));
    return load_beside_file(r, &v, &load, ret_why);
}

enum status releases_load_fits_beside(struct releases *r, const char *candidate,
                                      const char *baseline, struct why *ret_why)
{
    struct release_lane kept;
    struct release_load load = {.id = baseline};
    TRY(releases_quota_control(r, candidate, baseline, &load, ret_why));
    if (!release_lanes_keep_id(&r->lanes, baseline, &kept))
        return OK; /* nothing is known of it before it is loaded */
    const struct lane_terms terms = {.cache_bytes = load.cache_bytes, .kept = kept.lane};
    enum status s = lane_check_room(NULL, &terms, r->terms.engine, ret_why);
    release_lanes_give(&r->lanes, kept.place);
    return s == OK && !has_place(r) ? lanes_full(ret_why) : s;
}
