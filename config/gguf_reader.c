/* gguf_reader.c: checked reads from untrusted bytes.
 *
 * ALWAYS  (1) A length is compared with the bytes left before anything is added to it.
 *         gguf_reader_bytes
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/gguf_reader.h"

#include <inttypes.h>
#include <stdarg.h>

void gguf_reader_about(struct gguf_reader *r, const char *kind, size_t place, size_t count)
{
    r->kind = kind;
    r->place = place;
    r->count = count;
    r->name = (struct slice){"", 0};
}

void gguf_reader_about_named(struct gguf_reader *r, const char *kind, struct slice name)
{
    gguf_reader_about(r, kind, 0, 0);
    r->name = name;
}

size_t gguf_reader_left(const struct gguf_reader *r)
{
    return r->len - r->at;
}

/* Fails with text, behind the name of what was being read. */
static enum status fail(struct gguf_reader *r, enum status s, const char *text)
{
    char name[96];
    int shown = r->name.len > 80 ? 80 : (int)r->name.len;
    snprintf(name, sizeof name, "%.*s", shown, r->name.bytes);
    if (shown > 0)
        return why_set(r->why, s, name, "%s \"%s\": %s", r->kind, name, text);
    if (r->count > 0)
        return why_set(r->why, s, "", "%s %zu of %zu: %s", r->kind, r->place, r->count, text);
    return why_set(r->why, s, "", "%s: %s", r->kind, text);
}

enum status gguf_reader_refuse(struct gguf_reader *r, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return fail(r, STATUS_BAD_FILE, text);
}

enum status gguf_reader_no_memory(struct gguf_reader *r, size_t count, const char *something)
{
    char text[64];
    snprintf(text, sizeof text, "no memory for %zu %s", count, something);
    return fail(r, STATUS_NO_MEMORY, text);
}

enum status gguf_reader_bytes(struct gguf_reader *r, const char *what, uint64_t len,
                              const uint8_t **ret)
{
    if (len > gguf_reader_left(r))
        return gguf_reader_refuse(r,
                                  "%s needs %" PRIu64 " bytes at offset %zu, the file has %zu left",
                                  what, len, r->at, gguf_reader_left(r));
    *ret = r->bytes + r->at;
    r->at += (size_t)len;
    return OK;
}

enum status gguf_reader_u32(struct gguf_reader *r, const char *what, uint32_t *ret)
{
    const uint8_t *p = NULL;
    TRY(gguf_reader_bytes(r, what, sizeof *ret, &p));
    memcpy(ret, p, sizeof *ret);
    return OK;
}

enum status gguf_reader_u64(struct gguf_reader *r, const char *what, uint64_t *ret)
{
    const uint8_t *p = NULL;
    TRY(gguf_reader_bytes(r, what, sizeof *ret, &p));
    memcpy(ret, p, sizeof *ret);
    return OK;
}

enum status gguf_reader_string(struct gguf_reader *r, const char *what, struct slice *ret)
{
    uint64_t len = 0;
    const uint8_t *p = NULL;
    TRY(gguf_reader_u64(r, what, &len));
    TRY(gguf_reader_bytes(r, what, len, &p));
    *ret = (struct slice){(const char *)p, (size_t)len};
    return OK;
}
