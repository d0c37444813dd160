/* gguf_reader.c: checked reads from untrusted bytes.
 *
 * ALWAYS  (1) A length is compared with the bytes left before anything is added to it.
 *         gguf_reader_bytes
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/gguf_reader.h"

#include <inttypes.h>
#include <stdarg.h>

void gguf_reader_about(struct gguf_reader *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(r->subject, sizeof r->subject, format, args);
    va_end(args);
    r->field[0] = '\0';
}

void gguf_reader_about_named(struct gguf_reader *r, const char *kind, struct slice name)
{
    int shown = name.len > 80 ? 80 : (int)name.len;
    snprintf(r->field, sizeof r->field, "%.*s", shown, name.bytes);
    snprintf(r->subject, sizeof r->subject, "%s \"%.*s\"", kind, shown, name.bytes);
}

size_t gguf_reader_left(const struct gguf_reader *r)
{
    return r->len - r->at;
}

enum status gguf_reader_refuse(struct gguf_reader *r, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return why_set(r->why, STATUS_BAD_FILE, r->field, "%s: %s", r->subject, text);
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
