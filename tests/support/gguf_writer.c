/* gguf_writer.c: makes GGUF bytes.
 *
 * WHY     The reader is tested with files that no honest writer makes, so each count, size and
 *         offset can be set apart from what is there.
 */
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/gguf_writer.h"

#include "config/mem.h"
#include "config/text_buf.h"

enum { TENSORS_MAX = 4096, KEYS_MAX = 1024, ALIGNMENT = 32, BYTES_MAX = 1 << 30 };

struct gguf_writer {
    struct gguf_writer_quirks quirks;
    struct text_buf keys[KEYS_MAX];
    size_t n_keys;
    struct gguf_writer_tensor *tensors;
    size_t n_tensors;
};

static void *must(void *p)
{
    if (p == NULL) {
        fprintf(stderr, "gguf_writer: out of memory\n");
        exit(1);
    }
    return p;
}

struct gguf_writer *gguf_writer_new(void)
{
    struct gguf_writer *w = must(mem_zalloc(1, sizeof *w));
    w->tensors = must(mem_zalloc(TENSORS_MAX, sizeof *w->tensors));
    return w;
}

void gguf_writer_free(struct gguf_writer **writer)
{
    struct gguf_writer *w = *writer;
    if (w == NULL)
        return;
    for (size_t i = 0; i < w->n_tensors; i++)
        mem_free(w->tensors[i].data);
    mem_free(w->tensors);
    for (size_t i = 0; i < w->n_keys; i++)
        text_buf_release(&w->keys[i]);
    mem_free(w);
    *writer = NULL;
}

struct gguf_writer_quirks *gguf_writer_quirks(struct gguf_writer *w)
{
    return &w->quirks;
}

static void put_u32(struct text_buf *out, uint32_t value)
{
    text_buf_add_bytes(out, (const char *)&value, sizeof value);
}

static void put_u64(struct text_buf *out, uint64_t value)
{
    text_buf_add_bytes(out, (const char *)&value, sizeof value);
}

static void put_string(struct text_buf *out, const char *text)
{
    put_u64(out, strlen(text));
    text_buf_add_bytes(out, text, strlen(text));
}

/* Room for one key more. */
static struct text_buf *next_key(struct gguf_writer *w)
{
    ASSERT(w->n_keys < KEYS_MAX);
    text_buf_init(&w->keys[w->n_keys], BYTES_MAX);
    return &w->keys[w->n_keys++];
}

static struct text_buf *last_key(struct gguf_writer *w)
{
    return &w->keys[w->n_keys - 1];
}

void gguf_writer_raw_key(struct gguf_writer *w, const void *bytes, size_t len)
{
    text_buf_add_bytes(next_key(w), bytes, len);
}

void gguf_writer_drop_key(struct gguf_writer *w, const char *key)
{
    size_t len = strlen(key);
    for (size_t i = 0; i < w->n_keys; i++) {
        struct text_buf *k = &w->keys[i];
        if (k->len < 8 + len + 4 || k->bytes[0] != (char)len || memcmp(k->bytes + 8, key, len) != 0)
            continue;
        text_buf_release(k);
        memmove(k, k + 1, (w->n_keys - i - 1) * sizeof *k);
        w->n_keys--;
        return;
    }
}

void gguf_writer_value(struct gguf_writer *w, const char *key, uint32_t type, const void *value,
                       size_t bytes)
{
    struct text_buf *out = next_key(w);
    put_string(out, key);
    put_u32(out, type);
    text_buf_add_bytes(out, value, bytes);
}

void gguf_writer_u32(struct gguf_writer *w, const char *key, uint32_t value)
{
    gguf_writer_value(w, key, GGUF_U32, &value, sizeof value);
}

void gguf_writer_f32(struct gguf_writer *w, const char *key, float value)
{
    gguf_writer_value(w, key, GGUF_F32, &value, sizeof value);
}

void gguf_writer_bool(struct gguf_writer *w, const char *key, bool value)
{
    uint8_t byte = value;
    gguf_writer_value(w, key, GGUF_BOOL, &byte, sizeof byte);
}

void gguf_writer_string(struct gguf_writer *w, const char *key, const char *value)
{
    gguf_writer_value(w, key, GGUF_STRING, NULL, 0);
    put_string(last_key(w), value);
}

void gguf_writer_array(struct gguf_writer *w, const char *key, uint32_t item_type,
                       const void *items, uint64_t count, size_t bytes)
{
    gguf_writer_value(w, key, GGUF_ARRAY, &item_type, sizeof item_type);
    put_u64(last_key(w), count);
    text_buf_add_bytes(last_key(w), items, bytes);
}

void gguf_writer_strings(struct gguf_writer *w, const char *key, const char *const *values,
                         size_t count)
{
    gguf_writer_array(w, key, GGUF_STRING, NULL, count, 0);
    for (size_t i = 0; i < count; i++)
        put_string(last_key(w), values[i]);
}

struct gguf_writer_tensor *gguf_writer_tensor(struct gguf_writer *w, const char *name,
                                              uint32_t type, uint32_t n_dims, const uint64_t *dims,
                                              const void *data, size_t bytes)
{
    ASSERT(w->n_tensors < TENSORS_MAX && n_dims <= ARRAY_LEN(w->tensors->dims));
    struct gguf_writer_tensor *t = &w->tensors[w->n_tensors++];
    *t = (struct gguf_writer_tensor){
        .name_len = strlen(name), .n_dims = n_dims, .type = type, .bytes = bytes};
    ASSERT(t->name_len < sizeof t->name);
    memcpy(t->name, name, t->name_len + 1);
    memcpy(t->dims, dims, n_dims * sizeof *dims);
    t->data = must(mem_zalloc(bytes, 1));
    if (data != NULL)
        memcpy(t->data, data, bytes);
    return t;
}

struct gguf_writer_tensor *gguf_writer_find(struct gguf_writer *w, const char *name)
{
    for (size_t i = 0; i < w->n_tensors; i++) {
        if (strcmp(w->tensors[i].name, name) == 0)
            return &w->tensors[i];
    }
    fprintf(stderr, "gguf_writer: no tensor %s\n", name);
    exit(1);
}

void gguf_writer_drop(struct gguf_writer *w, const char *name)
{
    struct gguf_writer_tensor *t = gguf_writer_find(w, name);
    size_t behind = w->n_tensors - (size_t)(t - w->tensors) - 1;
    mem_free(t->data);
    memmove(t, t + 1, behind * sizeof *t);
    w->n_tensors--;
}

static void put_tensor(struct text_buf *out, const struct gguf_writer_tensor *t)
{
    put_u64(out, t->name_len);
    text_buf_add_bytes(out, t->name, strlen(t->name));
    put_u32(out, t->n_dims);
    for (uint32_t d = 0; d < t->n_dims && d < ARRAY_LEN(t->dims); d++)
        put_u64(out, t->dims[d]);
    put_u32(out, t->type);
    put_u64(out, t->offset);
}

static void pad(struct text_buf *out, uint32_t alignment)
{
    while (out->len % alignment != 0)
        text_buf_add_bytes(out, "", 1);
}

/* Places the tensors one behind the other. */
static void set_offsets(struct gguf_writer *w, uint32_t alignment)
{
    uint64_t at = 0;
    for (size_t i = 0; i < w->n_tensors; i++) {
        if (!w->tensors[i].has_offset)
            w->tensors[i].offset = at;
        at += (w->tensors[i].bytes + alignment - 1) / alignment * alignment;
    }
}

char *gguf_writer_finish(struct gguf_writer *w, size_t *ret_len)
{
    const struct gguf_writer_quirks *q = &w->quirks;
    uint32_t alignment = q->alignment != 0 ? q->alignment : ALIGNMENT;
    struct text_buf out;
    text_buf_init(&out, BYTES_MAX);
    set_offsets(w, alignment);
    text_buf_add_bytes(&out, q->magic[0] != '\0' ? q->magic : "GGUF", 4);
    put_u32(&out, q->has_version ? q->version : 3);
    put_u64(&out, q->has_n_tensors ? q->n_tensors : w->n_tensors);
    put_u64(&out, q->has_n_keys ? q->n_keys : w->n_keys);
    for (size_t i = 0; i < w->n_keys; i++)
        text_buf_add_bytes(&out, w->keys[i].bytes, w->keys[i].len);
    for (size_t i = 0; i < w->n_tensors; i++)
        put_tensor(&out, &w->tensors[i]);
    for (size_t i = 0; i < w->n_tensors; i++) {
        pad(&out, alignment);
        text_buf_add_bytes(&out, w->tensors[i].data, w->tensors[i].bytes);
    }
    *ret_len = out.len;
    char *text = must(text_buf_take(&out));
    char *exact = must(mem_alloc(*ret_len));
    memcpy(exact, text, *ret_len);
    mem_free(text);
    return exact;
}
