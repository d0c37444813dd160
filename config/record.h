/* record.h: a small JSON object in canonical form (RFC 8785), and its hash: what receipts, rows and
 * audit entries are made of.
 *
 * What may be in one is what canonical_json.h writes: texts (UTF-8 without NUL), numbers that are whole
 * and exact, flags, null, lists and objects of these to a depth of 32; keys are ASCII. A failed addition sticks and shows when the record is
 * printed. A record that record_child or record_item gives is a loan of its parent's part: it is not
 * released, and lasts as long as the parent stays as it is. One owner, any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CONFIG_RECORD_H
#define FOLDKV_CONFIG_RECORD_H

#include "config/sha256.h"
#include "config/why.h"

struct record {
    void *json; /* NULL: there is none */
    bool is_failed;
};

enum { RECORD_BYTES_MAX = 16 << 20 };

/* An empty object; without memory it is failed. */
void record_init(struct record *r);
/* Takes a zeroed, failed or released record too. */
void record_release(struct record *r);

/* Each sets the member, in place of one of the same key. A NULL text is null. */
void record_set_text(struct record *r, const char *key, const char *text);
void record_set_number(struct record *r, const char *key, int64_t number);
void record_set_flag(struct record *r, const char *key, bool flag);
/* A copy; a child that there is not becomes null. */
void record_set_record(struct record *r, const char *key, const struct record *child);
/* Each appends to the list of that key, which is made with the first item. */
void record_add_text(struct record *r, const char *key, const char *text);
void record_add_record(struct record *r, const char *key, const struct record *item);
void record_copy(const struct record *from, struct record *ret_copy);

/* The canonical text (mem_free); NULL if an addition failed, it is too deep or too long, or
 * memory cannot be had. */
char *record_print(const struct record *r) MUST_USE;
/* SHA-256 of the canonical text, in hex. NO_MEMORY. */
enum status record_hash(const struct record *r, char ret_hex[SHA256_HEX]) MUST_USE;
/* An object in canonical form and nothing else; BAD_FILE says what is not. */
enum status record_read(const char *text, size_t len, struct record *ret_record,
                        struct why *ret_why) MUST_USE;
/* The same, but spaces and the order of keys are as the writer liked. */
enum status record_read_loose(const char *text, size_t len, struct record *ret_record,
                              struct why *ret_why) MUST_USE;

/* NULL, false or a record without json where there is no such member of that type. */
const char *record_text(const struct record *r, const char *key);
/* The same; "" where record_text has NULL. */
const char *record_text_or_empty(const struct record *r, const char *key);
/* That, copied into room bytes; what does not fit is cut off. */
void record_copy_text(const struct record *r, const char *key, char *ret_text, size_t room);
bool record_number(const struct record *r, const char *key, int64_t *ret_number);
bool record_flag(const struct record *r, const char *key);
struct record record_child(const struct record *r, const char *key);
bool record_has(const struct record *r, const char *key);
size_t record_list_count(const struct record *r, const char *key);
struct record record_item(const struct record *r, const char *key, size_t i);
const char *record_item_text(const struct record *r, const char *key, size_t i);
/* Keys in the order of the object: the first after NULL, NULL after the last. key is one that this
 * gave. */
const char *record_next_key(const struct record *r, const char *key);
/* True also if neither is there. */
bool record_is_equal(const struct record *a, const struct record *b);
/* True if both have the member and it is equal. */
bool record_is_shared(const struct record *a, const struct record *b, const char *key);
/* The member as canonical text, cut to fit: for a person. "none" if it is not there. */
void record_show(const struct record *r, const char *key, char *ret_text, size_t room);

#endif
