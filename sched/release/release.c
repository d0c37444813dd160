/* release.c: generations from their registration to their warming.
 *
 * HOW     Each call reads the rows, begins a change, writes the rows as they shall be and commits; whether that
 *         may be is the rules' business (release_rules.h).
 * ALWAYS  (1) A generation registered again never gets a namespace that it had before: registering again
 *             raises the epoch, which is in the namespace's hash.                     register_row
 * THREAD  registry
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/release.h"

#include "sched/release/agreement.h"
#include "sched/release/generation_id.h"

enum { NAME_BYTES_MAX = 127 };

enum status release_route(struct registry *registry, struct record *ret_route, struct why *ret_why)
{
    return registry_get(registry, REGISTRY_ROUTES, RELEASE_ROUTE, ret_route, ret_why);
}

enum status release_namespace_of(struct registry *registry, const char *id,
                                 char ret_namespace[SHA256_HEX], struct why *ret_why)
{
    struct record row;
    ret_namespace[0] = '\0';
    if (id[0] == '\0')
        return OK;
    TRY(registry_get(registry, REGISTRY_GENERATIONS, id, &row, ret_why));
    record_copy_text(&row, "namespace", ret_namespace, SHA256_HEX);
    record_release(&row);
    return OK;
}

/* A search for the generation of a name. */
struct search {
    const char *name;
    char id[SHA256_HEX];
};

static enum status match_name(void *user, const char *key, const struct record *body,
                              struct why *ret_why)
{
    struct search *search = user;
    const char *name = record_text(body, "name");
    (void)ret_why;
    if (name != NULL && strcmp(name, search->name) == 0)
        snprintf(search->id, sizeof search->id, "%s", key);
    return OK;
}

static enum status find_name(struct registry *r, const char *name, char ret_id[SHA256_HEX],
                             struct why *ret_why)
{
    struct search search = {.name = name};
    TRY(registry_each(r, REGISTRY_GENERATIONS, match_name, &search, ret_why));
    memcpy(ret_id, search.id, SHA256_HEX);
    return OK;
}

enum status release_find(struct registry *registry, const char *id_or_name, char ret_id[SHA256_HEX],
                         struct record *ret_generation, struct why *ret_why)
{
    ret_id[0] = '\0';
    *ret_generation = (struct record){0};
    if (generation_id_is_hash(id_or_name))
        memcpy(ret_id, id_or_name, SHA256_HEX);
    else
        TRY(find_name(registry, id_or_name, ret_id, ret_why));
    enum status s = registry_get(registry, REGISTRY_GENERATIONS, ret_id, ret_generation, NULL);
    if (s == STATUS_NOT_FOUND)
        why_set(ret_why, s, "generation", "there is no generation '%.64s'", id_or_name);
    else if (s != OK)
        why_set(ret_why, s, "generation", "generation '%.64s' cannot be read", id_or_name);
    return s;
}

static enum status check_content(const struct release_content *c, struct why *ret_why)
{
    const struct {
        const char *field, *value;
    } hashes[] = {{"checkpoint", c->checkpoint},
                  {"identity", c->identity},
                  {"plan", c->plan},
                  {"evaluation_set", c->evaluation_set},
                  {"object", c->object}};
    for (size_t i = 0; i < ARRAY_LEN(hashes); i++)
        if (!generation_id_is_hash(hashes[i].value) && (i < 4 || hashes[i].value != NULL))
            return why_set(ret_why, STATUS_BAD_REQUEST, hashes[i].field,
                           "%s is '%.80s': 64 hex digits are needed", hashes[i].field,
                           hashes[i].value != NULL ? hashes[i].value : "");
    if (c->name == NULL)
        return OK;
    size_t len = strlen(c->name);
    if (len == 0 || len > NAME_BYTES_MAX || generation_id_is_hash(c->name))
        return why_set(ret_why, STATUS_BAD_REQUEST, "name",
                       "a name has 1 to %d bytes and is not a hash; this one has %zu",
                       NAME_BYTES_MAX, len);
    for (const char *p = c->name; *p != '\0'; p++)
        if ((unsigned char)*p < 0x21 || *p == 0x7f)
            return why_set(ret_why, STATUS_BAD_REQUEST, "name",
                           "a name has no spaces or control characters");
    return OK;
}

static void put_namespace_row(struct change *change, const char *key, const char *id,
                              const char *role, const char *state)
{
    struct record row;
    record_init(&row);
    record_set_text(&row, "generation", id);
    record_set_text(&row, "role", role);
    record_set_text(&row, "state", state);
    change_put(change, REGISTRY_NAMESPACES, key, &row);
    record_release(&row);
}

static void generation_row(const struct release_content *c, const char *space, int64_t epoch,
                           enum generation_state state, struct record *ret_row)
{
    struct record receipts;
    record_init(&receipts);
    record_init(ret_row);
    record_set_text(ret_row, "checkpoint", c->checkpoint);
    record_set_text(ret_row, "evaluation_set", c->evaluation_set);
    record_set_text(ret_row, "identity", c->identity);
    record_set_text(ret_row, "name", c->name);
    record_set_text(ret_row, "namespace", space);
    record_set_text(ret_row, "object", c->object);
    record_set_text(ret_row, "plan", c->plan);
    record_set_text(ret_row, "reason", NULL);
    record_set_record(ret_row, "receipts", &receipts);
    record_set_number(ret_row, "registered_epoch", epoch);
    record_set_text(ret_row, "state", generation_state_text(state));
    record_release(&receipts);
}

static void found_rows(struct change *change, const struct release_content *content, const char *id,
                       release_receipts_fn *make_receipts, void *user)
{
    char space[SHA256_HEX], hash[SHA256_HEX];
    struct record row, named, route, receipts[AGREEMENT_RECEIPTS] = {0};
    int64_t epoch = change_raise_epoch(change);
    generation_id_namespace(id, epoch, "", space);
    generation_row(content, space, epoch, GENERATION_STABLE, &row);
    make_receipts(user, id, space, receipts);
    record_init(&named);
    for (int i = 0; i < AGREEMENT_RECEIPTS; i++) {
        change_receipt(change, &receipts[i], hash);
        record_set_text(&named, agreement_receipt_text((enum agreement_receipt)i), hash);
        record_release(&receipts[i]);
    }
    record_set_record(&row, "receipts", &named);
    change_put(change, REGISTRY_GENERATIONS, id, &row);
    put_namespace_row(change, space, id, "generation", "open");
    record_init(&route);
    static const char *const none[] = {
        "barred", "candidate", "control_namespace", "pinned", "previous", "rollout", "salt"};
    for (size_t i = 0; i < ARRAY_LEN(none); i++)
        record_set_text(&route, none[i], NULL);
    record_set_text(&route, "stable", id);
    record_set_number(&route, "cap_bp", 0);
    record_set_number(&route, "weight_bp", 0);
    change_put(change, REGISTRY_ROUTES, RELEASE_ROUTE, &route);
    record_release(&row);
    record_release(&named);
    record_release(&route);
}

enum status release_found(struct registry *registry, const struct change_terms *terms,
                          const struct release_content *content, release_receipts_fn *make_receipts,
                          void *user, char ret_id[SHA256_HEX], struct why *ret_why)
{
    struct change *change;
    struct record route = {0};
    TRY(check_content(content, ret_why));
    enum status s = release_route(registry, &route, NULL);
    record_release(&route);
    if (s == OK)
        return why_set(ret_why, STATUS_ILLEGAL_MOVE, "route",
                       "the registry has a stable generation already");
    generation_id_of(content->identity, content->plan, content->evaluation_set, ret_id);
    TRY(change_begin(registry, terms, "release.found", &change, ret_why));
    found_rows(change, content, ret_id, make_receipts, user);
    change_subject(change, ret_id);
    return change_commit(&change, ret_why);
}

/* Whether a row that is there may be registered anew. */
static bool is_over(const struct record *row)
{
    enum generation_state state = generation_state_find(record_text(row, "state"));
    return state != GENERATION_STATE_COUNT && generation_may_move(state, GENERATION_REGISTERED);
}

static enum status register_row(struct registry *r, const struct change_terms *terms,
                                const struct release_content *content, const char *id,
                                bool is_again, struct why *ret_why)
{
    struct change *change;
    char space[SHA256_HEX];
    struct record row;
    int64_t epoch = 0;
    TRY(change_begin(r, terms, "release.register", &change, ret_why));
    enum status s = registry_epoch(r, &epoch, ret_why);
    if (s != OK) {
        change_abort(&change);
        return s;
    }
    if (is_again)
        epoch = change_raise_epoch(change);
    generation_id_namespace(id, epoch, "", space);
    generation_row(content, space, epoch, GENERATION_REGISTERED, &row);
    change_put(change, REGISTRY_GENERATIONS, id, &row);
    put_namespace_row(change, space, id, "generation", "open");
    change_subject(change, id);
    record_release(&row);
    return change_commit(&change, ret_why);
}

/* The content is there already: its name stays, so another one is not taken in silence. */
static enum status compare_name(const struct release_content *content, const char *id,
                                const char *name, struct why *ret_why)
{
    if (content->name == NULL || (name != NULL && strcmp(content->name, name) == 0))
        return OK;
    return why_set(ret_why, STATUS_NAME_TAKEN, "name",
                   "this content is generation %.16s already, %s%s%s: it is not named '%.64s' as well",
                   id, name != NULL ? "named '" : "without a name", name != NULL ? name : "",
                   name != NULL ? "'" : "", content->name);
}

enum status release_register(struct registry *registry, const struct change_terms *terms,
                             const struct release_content *content, char ret_id[SHA256_HEX],
                             bool *ret_is_new, struct why *ret_why)
{
    struct record row = {0};
    char owner[SHA256_HEX] = "";
    *ret_is_new = false;
    TRY(check_content(content, ret_why));
    generation_id_of(content->identity, content->plan, content->evaluation_set, ret_id);
    if (content->name != NULL)
        TRY(find_name(registry, content->name, owner, ret_why));
    if (owner[0] != '\0' && strcmp(owner, ret_id) != 0)
        return why_set(ret_why, STATUS_NAME_TAKEN, "name",
                       "'%.64s' is the name of generation %.16s", content->name, owner);
    enum status s = registry_get(registry, REGISTRY_GENERATIONS, ret_id, &row, ret_why);
    bool is_there = s == OK, is_again = is_there && is_over(&row);
    if (s == STATUS_NOT_FOUND || is_again)
        s = OK;
    else if (s == OK)
        s = compare_name(content, ret_id, record_text(&row, "name"), ret_why);
    record_release(&row);
    TRY(s);
    if (is_there && !is_again)
        return OK;
    TRY(register_row(registry, terms, content, ret_id, is_again, ret_why));
    *ret_is_new = true;
    return OK;
}

enum status release_receipt(struct registry *registry, const struct change_terms *terms,
                            const char *id, const char *kind, const struct record *receipt,
                            char ret_hash[SHA256_HEX], struct why *ret_why)
{
    struct change *change;
    struct record row;
    TRY(registry_get(registry, REGISTRY_GENERATIONS, id, &row, ret_why));
    enum status s = change_begin(registry, terms, "release.receipt", &change, ret_why);
    if (s == OK) {
        struct record named;
        const struct record old = record_child(&row, "receipts");
        record_copy(&old, &named);
        change_receipt(change, receipt, ret_hash);
        record_set_text(&named, kind, ret_hash);
        record_set_record(&row, "receipts", &named);
        change_put(change, REGISTRY_GENERATIONS, id, &row);
        change_subject(change, id);
        record_release(&named);
        s = change_commit(&change, ret_why);
    }
    record_release(&row);
    return s;
}

enum status release_put_state(struct registry *registry, struct change *change, const char *id,
                              enum generation_state to, const char *reason, struct why *ret_why)
{
    struct record row;
    TRY(registry_get(registry, REGISTRY_GENERATIONS, id, &row, ret_why));
    if (to == GENERATION_REJECTED && generation_state_find(record_text(&row, "state")) <= GENERATION_LOADING)
        record_set_text(&row, "object", NULL); /* it never ran: its file may go */
    record_set_text(&row, "state", generation_state_text(to));
    record_set_text(&row, "reason", reason);
    change_put(change, REGISTRY_GENERATIONS, id, &row);
    record_release(&row);
    return OK;
}

enum status release_put_namespace(struct registry *registry, struct change *change, const char *key,
                                  const char *state, struct why *ret_why)
{
    struct record row;
    if (key == NULL)
        return OK;
    TRY(registry_get(registry, REGISTRY_NAMESPACES, key, &row, ret_why));
    const char *now = record_text(&row, "state");
    if (now == NULL || namespace_may_move(now, state)) {
        record_set_text(&row, "state", state);
        change_put(change, REGISTRY_NAMESPACES, key, &row);
    }
    record_release(&row);
    return OK;
}

/* Nobody reads what a rejected candidate wrote while it was warmed. */
static enum status fence_own(struct registry *r, struct change *change, const char *id,
                             struct why *ret_why)
{
    struct record row;
    TRY(registry_get(r, REGISTRY_GENERATIONS, id, &row, ret_why));
    enum status s =
        release_put_namespace(r, change, record_text(&row, "namespace"), "fenced", ret_why);
    record_release(&row);
    return s;
}

enum status release_move_generation(struct registry *registry, const struct change_terms *terms,
                                    const char *id, enum generation_state to, const char *reason,
                                    struct why *ret_why)
{
    struct change *change;
    char what[64];
    if (to == GENERATION_CANARY || to == GENERATION_STABLE || to == GENERATION_PREVIOUS ||
        to == GENERATION_ROLLED_BACK || to == GENERATION_RETIRED)
        return why_set(ret_why, STATUS_ILLEGAL_MOVE, "state",
                       "only a rollout or a journal makes a generation %s",
                       generation_state_text(to));
    snprintf(what, sizeof what, "release.%s", generation_state_text(to));
    TRY(change_begin(registry, terms, what, &change, ret_why));
    change_subject(change, id);
    enum status s = release_put_state(registry, change, id, to, reason, ret_why);
    if (s == OK && to == GENERATION_REJECTED)
        s = fence_own(registry, change, id, ret_why);
    if (s == OK)
        return change_commit(&change, ret_why);
    change_abort(&change);
    return s;
}
