/* http_fuzz.c: any bytes as a stream of HTTP requests, whole and cut in pieces.
 *
 * HOW     The first byte says how the rest is cut. Both ways must come to the same requests and the same end.
 * ALWAYS  (1) How bytes are cut changes nothing.                                       LLVMFuzzerTestOneInput
 *         (2) A body is within its maximum; a refusal has a status and a text.         note
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/http_parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

enum { BODY_MAX = 256 };

/* What a stream came to: how many requests, a checksum over their parts, and the refusal. */
struct outcome {
    uint32_t n_whole;
    uint64_t sum;
    enum status status;
};

static void add(struct outcome *o, const void *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        o->sum = (o->sum ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u; /* FNV-1a */
}

static void note(struct outcome *o, const struct http_parse *p)
{
    const struct http_head *h = &p->head;
    ASSERT(p->body.len <= BODY_MAX);
    ASSERT(h->minor_version <= 1 && (h->minor_version == 0 || h->host.has));
    ASSERT(!h->is_chunked || h->content_length == 0);
    o->n_whole++;
    add(o, h->method, strlen(h->method));
    add(o, h->path, strlen(h->path));
    add(o, h->query, strlen(h->query));
    add(o, h->host.text, strlen(h->host.text));
    add(o, h->content_type.text, strlen(h->content_type.text));
    add(o, p->body.bytes, p->body.len);
}

static void feed(struct http_parse *p, const char *bytes, size_t len, struct outcome *o)
{
    for (size_t used = 0; o->status == OK;) {
        size_t n = 0;
        enum http_event event = http_parse_feed(p, bytes + used, len - used, &n);
        ASSERT(n <= len - used);
        used += n;
        if (event == HTTP_REFUSED) {
            ASSERT(p->status != OK && p->why.text[0] != '\0');
            o->status = p->status;
        } else if (event == HTTP_WHOLE) {
            note(o, p);
            http_parse_clear(p);
        } else if (event == HTTP_MORE) {
            ASSERT(used == len);
            return;
        }
    }
}

static struct outcome run(const char *bytes, size_t len, size_t piece)
{
    struct http_parse p;
    struct outcome o = {.status = OK};
    http_parse_init(&p, BODY_MAX);
    for (size_t i = 0; i < len && o.status == OK; i += piece)
        feed(&p, bytes + i, len - i < piece ? len - i : piece, &o);
    http_parse_release(&p);
    return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    if (len < 2)
        return 0;
    struct outcome whole = run((const char *)bytes + 1, len - 1, len);
    struct outcome cut = run((const char *)bytes + 1, len - 1, (size_t)bytes[0] + 1);
    ASSERT(whole.n_whole == cut.n_whole && whole.sum == cut.sum);
    ASSERT((whole.status == OK) == (cut.status == OK));
    return 0;
}
