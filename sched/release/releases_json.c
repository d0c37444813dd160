/* releases_json.c: generations, rollouts and the audit as the admin API tells them.
 *
 * THREAD  registry, but for releases_tell_generation
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/releases_priv.h"

#include "config/mem.h"
#include "config/text_buf.h"
#include "sched/release/agreement.h"
#include "sched/release/audit.h"

enum { AUDIT_TEXT_MAX = 64 << 20 };

/* ---- one generation ---- */

/* Of a lane that is held. */
static void add_held_lane(const struct release_lane *entry, struct record *json)
{
    struct record lane;
    struct engine_stats stats;
    record_set_number(json, "weights_bytes", (int64_t)entry->weights_bytes);
    if (lane_wanted(entry->lane) >= LANE_FREED) {
        record_set_text(json, "lane", NULL);
        return;
    }
    lane_stats_copy(entry->lane, &stats);
    record_init(&lane);
    record_set_number(&lane, "cache_bytes", (int64_t)entry->cache_bytes);
    record_set_number(&lane, "context", lane_context(entry->lane));
    record_set_number(&lane, "in_flight", lane_in_flight(entry->lane));
    record_set_flag(&lane, "is_open", lane_wanted(entry->lane) == LANE_OPEN);
    record_set_number(&lane, "pool_tokens", (int64_t)lane_pool_tokens(entry->lane));
    record_set_number(&lane, "quota_tokens", (int64_t)lane_blocks(entry->lane) * CACHE_PAGE_TOKENS);
    record_set_number(&lane, "requests_admitted", (int64_t)stats.requests_admitted);
    record_set_number(&lane, "weights_bytes", (int64_t)entry->weights_bytes);
    record_set_number(&lane, "weights_holders", weights_holders(lane_model(entry->lane)->weights));
    record_set_record(json, "lane", &lane);
    record_release(&lane);
}

static void add_lane(struct releases *r, const char *id, struct record *json)
{
    struct release_lane entry;
    if (release_lanes_keep_id(&r->lanes, id, &entry)) {
        add_held_lane(&entry, json);
        release_lanes_give(&r->lanes, entry.place);
    } else {
        record_set_number(json, "weights_bytes", 0);
        record_set_text(json, "lane", NULL);
    }
}

static enum status add_receipts(struct registry *registry, const struct record *row,
                                struct record *json, struct why *ret_why)
{
    struct record named = record_child(row, "receipts"), bodies;
    record_init(&bodies);
    enum status s = OK;
    for (const char *kind = NULL; s == OK && (kind = record_next_key(&named, kind)) != NULL;) {
        struct record body = {0};
        const char *hash = record_text(&named, kind);
        s = registry_get(registry, REGISTRY_RECEIPTS, hash != NULL ? hash : "", &body, ret_why);
        if (s == OK)
            record_set_record(&bodies, kind, &body);
        record_release(&body);
    }
    record_set_record(json, "receipt_bodies", &bodies);
    record_release(&bodies);
    return s;
}

static const char *arm_of(const struct projection *p, const char *id)
{
    if (strcmp(p->stable, id) == 0)
        return arm_name(ARM_STABLE);
    return strcmp(p->candidate, id) == 0 ? arm_name(ARM_CANARY) : NULL;
}

static void write_generation(struct releases *r, const char *id, const struct record *row,
                             struct record *ret_json)
{
    struct projection p;
    char loading[SHA256_HEX];
    pthread_mutex_lock(&r->lock);
    p = r->route;
    memcpy(loading, r->loading, sizeof loading);
    pthread_mutex_unlock(&r->lock);
    record_copy(row, ret_json);
    record_set_text(ret_json, "id", id);
    record_set_text(ret_json, "arm", arm_of(&p, id));
    record_set_flag(ret_json, "is_loading", strcmp(loading, id) == 0);
    record_set_flag(ret_json, "is_previous", strcmp(p.previous, id) == 0);
    add_lane(r, id, ret_json);
}

enum status releases_json_generation(struct releases *r, struct registry *registry, const char *id,
                                     bool is_whole, struct record *ret_json, struct why *ret_why)
{
    struct record row;
    char whole_id[SHA256_HEX];
    TRY(releases_find_generation(registry, id, whole_id, &row, ret_why));
    write_generation(r, whole_id, &row, ret_json);
    enum status s = is_whole ? add_receipts(registry, &row, ret_json, ret_why) : OK;
    record_release(&row);
    return s;
}

struct telling {
    const char *id;
    struct record json;
    int64_t epoch;
};

static enum status tell(struct releases *r, struct registry *registry, void *user,
                        struct why *ret_why)
{
    struct telling *t = user;
    TRY(registry_epoch(registry, &t->epoch, ret_why));
    return releases_json_generation(r, registry, t->id, false, &t->json, ret_why);
}

void releases_tell_generation(struct releases *r, struct admin_call *call, const char *id)
{
    struct telling t = {.id = id};
    call->status = releases_do(r, tell, &t, &call->why);
    call->epoch = t.epoch;
    if (call->status == OK && (call->text = record_print(&t.json)) == NULL)
        call->status = STATUS_NO_MEMORY;
    record_release(&t.json);
}

/* ---- lists ---- */

struct listing {
    struct releases *releases;
    const char *key;
    struct record json;
};

static enum status print_list(struct listing *list, enum status s, char **ret_text)
{
    if (s == OK && (*ret_text = record_print(&list->json)) == NULL)
        s = STATUS_NO_MEMORY;
    record_release(&list->json);
    return s;
}

static enum status see_generation(void *user, const char *key, const struct record *body,
                                  struct why *ret_why)
{
    struct listing *list = user;
    struct record one;
    (void)ret_why;
    write_generation(list->releases, key, body, &one);
    record_add_record(&list->json, "generations", &one);
    record_release(&one);
    return OK;
}

enum status releases_json_generations(struct releases *r, struct registry *registry,
                                      char **ret_text, struct why *ret_why)
{
    struct listing list = {.releases = r};
    record_init(&list.json);
    record_set_flag(&list.json, "is_durable", registry_is_durable(registry));
    enum status s =
        registry_each(registry, REGISTRY_GENERATIONS, see_generation, &list, ret_why);
    return print_list(&list, s, ret_text);
}

static enum status see_rollout(void *user, const char *key, const struct record *body,
                               struct why *ret_why)
{
    struct listing *list = user;
    struct record one, now = record_child(body, "now");
    (void)ret_why;
    record_init(&one);
    record_set_text(&one, "id", key);
    record_set_text(&one, "baseline", record_text(body, "baseline"));
    record_set_text(&one, "candidate", record_text(body, "candidate"));
    record_set_text(&one, "note", record_text(body, "note"));
    record_set_record(&one, "now", &now);
    record_set_text(&one, "state", record_text(&now, "state"));
    record_add_record(&list->json, "rollouts", &one);
    record_release(&one);
    return OK;
}

enum status releases_json_rollouts(struct registry *registry, char **ret_text,
                                   struct why *ret_why)
{
    static const char none[] = "{\"rollouts\":[]}";
    struct listing list = {0};
    record_init(&list.json);
    enum status s = registry_each(registry, REGISTRY_ROLLOUTS, see_rollout, &list, ret_why);
    if (s == OK && !record_has(&list.json, "rollouts")) {
        record_release(&list.json);
        *ret_text = mem_dup(none, sizeof none - 1);
        return *ret_text != NULL ? OK : STATUS_NO_MEMORY;
    }
    return print_list(&list, s, ret_text);
}

/* ---- an evaluation ---- */

static char *print_progress(struct releases *r)
{
    struct evaluator_progress progress;
    struct canonical_json json;
    char *text = NULL;
    evaluator_progress(r->evaluator, &progress);
    canonical_init(&json, 1 << 16);
    canonical_open_object(&json, NULL);
    evaluator_progress_write(&progress, "progress", &json);
    canonical_close_object(&json);
    return canonical_take(&json, &text, NULL) == OK ? text : NULL;
}

static enum status add_progress(struct releases *r, struct record *json, struct why *ret_why)
{
    struct record whole;
    char *text = print_progress(r);
    if (text == NULL)
        return STATUS_NO_MEMORY;
    enum status s = record_read(text, strlen(text), &whole, ret_why);
    mem_free(text);
    TRY(s);
    struct record progress = record_child(&whole, "progress");
    record_set_record(json, "progress", &progress);
    record_release(&whole);
    return OK;
}

static void add_receipt(struct registry *registry, const struct record *row, const char *kind,
                        struct record *json)
{
    struct record named = record_child(row, "receipts"), body;
    struct why unheard;
    const char *hash = record_text(&named, kind);
    if (hash == NULL || registry_get(registry, REGISTRY_RECEIPTS, hash, &body, &unheard) != OK) {
        record_set_text(json, kind, NULL);
        return;
    }
    record_set_record(json, kind, &body);
    record_release(&body);
}

enum status releases_json_evaluation(struct releases *r, struct registry *registry, const char *id,
                                     char **ret_text, struct why *ret_why)
{
    static const char *const kinds[] = {"evaluation", "evaluation_manifest", "warming"};
    struct record row, json;
    TRY(registry_get(registry, REGISTRY_GENERATIONS, id, &row, ret_why));
    record_init(&json);
    pthread_mutex_lock(&r->lock);
    bool is_running = strcmp(r->evaluated, id) == 0, is_unsaid = strcmp(r->unsaid, id) == 0;
    record_set_text(&json, "ended", is_unsaid ? r->unsaid_why.text : NULL);
    pthread_mutex_unlock(&r->lock);
    record_set_text(&json, "id", id);
    record_set_flag(&json, "is_running", is_running);
    record_set_text(&json, "state", record_text(&row, "state"));
    record_set_text(&json, "progress", NULL);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        add_receipt(registry, &row, kinds[i], &json);
    enum status s = is_running && r->evaluator != NULL ? add_progress(r, &json, ret_why) : OK;
    if (s == OK && (*ret_text = record_print(&json)) == NULL)
        s = STATUS_NO_MEMORY;
    record_release(&json);
    record_release(&row);
    return s;
}

/* ---- audit ---- */

static enum status see_entry(void *user, const struct audit_entry *entry, struct why *ret_why)
{
    struct text_buf *text = user;
    (void)ret_why;
    text_buf_add(text, "{\"entry\":");
    text_buf_add_bytes(text, entry->text, entry->len);
    text_buf_add(text, ",\"hash\":\"%s\",\"seq\":%lld}\n", entry->hash, (long long)entry->seq);
    return OK;
}

enum status releases_json_audit(struct registry *registry, int64_t after, int64_t limit,
                                char **ret_text, struct why *ret_why)
{
    struct text_buf text;
    text_buf_init(&text, AUDIT_TEXT_MAX);
    text_buf_add(&text, "%s", "");
    enum status s = audit_each(registry, after, limit, see_entry, &text, ret_why);
    if (s == OK) {
        *ret_text = text_buf_take(&text);
        s = *ret_text != NULL ? OK : STATUS_NO_MEMORY;
    }
    text_buf_release(&text);
    return s;
}
