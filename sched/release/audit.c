/* audit.c: appends to the chain and walks it.
 *
 * WHY     An entry that was altered, dropped or put in later must show.
 * HOW     Each hash covers the one before, so the last hash covers all; sequence numbers have no gaps.
 * THREAD  registry
 * NOT     Whether what the entries say was right to do: audit_verify.c.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/audit.h"

#include <inttypes.h>

#include "config/mem.h"
#include "sched/release/registry_priv.h"

#define FIRST_HASH "0000000000000000000000000000000000000000000000000000000000000000"

static void chain_hash(struct sha256 *sha, const char before[SHA256_HEX], const char *text,
                       size_t len, char ret_hex[SHA256_HEX])
{
    uint8_t hash[SHA256_BYTES];
    sha256_start(sha);
    sha256_part(sha, 1, before, SHA256_HEX - 1);
    sha256_part(sha, 2, text, len);
    sha256_finish(sha, hash);
    sha256_hex(hash, ret_hex);
}

enum status audit_head(struct registry *registry, int64_t *ret_seq, char ret_hash[SHA256_HEX],
                       struct why *ret_why)
{
    sqlite3_stmt *statement = NULL;
    TRY(registry_prepare(registry, "SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1", NULL,
                         NULL, NULL, &statement, ret_why));
    int rc = sqlite3_step(statement);
    *ret_seq = rc == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : 0;
    snprintf(ret_hash, SHA256_HEX, "%s",
             rc == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 1) : FIRST_HASH);
    enum status s = rc == SQLITE_ROW || rc == SQLITE_DONE
                        ? OK
                        : registry_sql_failed(registry, "reading the audit", ret_why);
    sqlite3_finalize(statement);
    return s;
}

static enum status insert(struct registry *registry, int64_t seq, const char *hash,
                          const char *text, struct why *ret_why)
{
    char number[24];
    snprintf(number, sizeof number, "%" PRId64, seq);
    return registry_run(registry,
                        "INSERT INTO audit(seq, hash, body) VALUES(CAST(?1 AS INTEGER), ?2, ?3)",
                        number, hash, text, "writing the audit", ret_why);
}

enum status audit_append(struct registry *registry, struct record *entry, struct why *ret_why)
{
    int64_t seq = 0;
    char before[SHA256_HEX], hash[SHA256_HEX];
    struct sha256 *sha = NULL;
    TRY(audit_head(registry, &seq, before, ret_why));
    record_set_number(entry, "seq", seq + 1);
    char *text = record_print(entry);
    enum status s = text != NULL ? sha256_new(&sha) : STATUS_NO_MEMORY;
    if (s == OK) {
        chain_hash(sha, before, text, strlen(text), hash);
        s = insert(registry, seq + 1, hash, text, ret_why);
    } else {
        why_set(ret_why, s, "registry",
                "no memory for an audit entry, or its principal's name is not plain text");
    }
    sha256_free(&sha);
    mem_free(text);
    return s;
}

enum status audit_each(struct registry *registry, int64_t after, int64_t limit,
                       audit_entry_fn *on_entry, void *user, struct why *ret_why)
{
    char from[24], most[24];
    sqlite3_stmt *statement = NULL;
    enum status s = OK;
    int rc;
    snprintf(from, sizeof from, "%" PRId64, after);
    snprintf(most, sizeof most, "%" PRId64, limit);
    TRY(registry_prepare(registry,
                         "SELECT seq, hash, body FROM audit WHERE seq > CAST(?1 AS INTEGER) "
                         "ORDER BY seq LIMIT CAST(?2 AS INTEGER)",
                         from, most, NULL, &statement, ret_why));
    while (s == OK && (rc = sqlite3_step(statement)) != SQLITE_DONE) {
        if (rc != SQLITE_ROW) {
            s = registry_sql_failed(registry, "reading the audit", ret_why);
            break;
        }
        struct audit_entry entry = {.seq = sqlite3_column_int64(statement, 0),
                                    .hash = (const char *)sqlite3_column_text(statement, 1),
                                    .text = (const char *)sqlite3_column_text(statement, 2),
                                    .len = (size_t)sqlite3_column_bytes(statement, 2)};
        s = entry.hash != NULL && entry.text != NULL
                ? on_entry(user, &entry, ret_why)
                : why_set(ret_why, STATUS_NO_MEMORY, "registry", "no memory for an audit entry");
    }
    sqlite3_finalize(statement);
    return s;
}

/* Where a walk along the chain is. */
struct chain {
    struct sha256 *sha;
    int64_t seq;
    char hash[SHA256_HEX];
};

static enum status follow(void *user, const struct audit_entry *entry, struct why *ret_why)
{
    struct chain *chain = user;
    char hash[SHA256_HEX];
    if (entry->seq != chain->seq + 1)
        return why_set(ret_why, STATUS_BAD_FILE, "audit", "the audit has no entry %" PRId64,
                       chain->seq + 1);
    chain_hash(chain->sha, chain->hash, entry->text, entry->len, hash);
    if (strcmp(hash, entry->hash) != 0)
        return why_set(ret_why, STATUS_BAD_FILE, "audit",
                       "audit entry %" PRId64
                       " does not follow from the one before it: its hash is %.12s, "
                       "it must be %.12s",
                       entry->seq, entry->hash, hash);
    chain->seq = entry->seq;
    memcpy(chain->hash, hash, sizeof hash);
    return OK;
}

enum status audit_check_chain(struct registry *registry, struct why *ret_why)
{
    struct chain chain = {.hash = FIRST_HASH};
    if (sha256_new(&chain.sha) != OK)
        return why_set(ret_why, STATUS_NO_MEMORY, "registry", "no memory for a hash");
    enum status s = audit_each(registry, 0, INT64_MAX, follow, &chain, ret_why);
    sha256_free(&chain.sha);
    return s;
}
