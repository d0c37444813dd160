/* canonical_json.h: writes RFC 8785 JSON straight into text: sorted keys, no spaces, whole numbers
 * only.
 *
 * A value that needs a fraction is written in a unit in which it is whole (ppm, ns, micro-nats), so
 * that the same record gives the same bytes and the same hash on every machine. One owner; a value,
 * no thread of its own. key is NULL inside an array and a name in ASCII inside an object, a loan until
 * the object is closed; names rise (asserted), because their order is the writer's business, not a
 * sort's. Memory that cannot be had shows when the text is taken. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CONFIG_CANONICAL_JSON_H
#define FOLDKV_CONFIG_CANONICAL_JSON_H

#include "config/sha256.h"
#include "config/text_buf.h"

enum { CANONICAL_DEPTH_MAX = 32 };

struct canonical_json {
    struct text_buf text;
    size_t depth;
    struct canonical_level {
        const char *last_key;
        bool is_array, has_any;
    } levels[CANONICAL_DEPTH_MAX];
};

/* Nothing written yet; max is the most bytes the text may have. */
void canonical_init(struct canonical_json *json, size_t max);
void canonical_release(struct canonical_json *json);
void canonical_open_object(struct canonical_json *json, const char *key);
void canonical_close_object(struct canonical_json *json);
void canonical_open_array(struct canonical_json *json, const char *key);
void canonical_close_array(struct canonical_json *json);
/* |value| <= 2^53, asserted: beyond it RFC 8785 has no exact numbers. */
void canonical_integer(struct canonical_json *json, const char *key, int64_t value);
/* UTF-8 that ends in a NUL. */
void canonical_text(struct canonical_json *json, const char *key, const char *value);
void canonical_bool(struct canonical_json *json, const char *key, bool value);
void canonical_null(struct canonical_json *json, const char *key);
void canonical_hash(struct canonical_json *json, const char *key, const uint8_t hash[SHA256_BYTES]);
/* All levels are closed (asserted). The text is the caller's (mem_free), and the writer empty;
 * NO_MEMORY if it did not fit. ret_hash, where it is not NULL, is the SHA-256 of the text. */
enum status canonical_take(struct canonical_json *json, char **ret_text,
                           uint8_t ret_hash[SHA256_BYTES]) MUST_USE;

#endif
