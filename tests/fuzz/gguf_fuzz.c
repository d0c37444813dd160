/* gguf_fuzz.c: any bytes as a GGUF file: refused with a reason, or taken with every view inside the
 * bytes.
 *
 * HOW     A file that is taken has each of its tensors and arrays read from end to end, then its
 *         graph made, so that a view that leaves the buffer is seen by the sanitizer.
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/graph.h"

#include "config/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static volatile uint8_t sink;

static void touch(const void *p, size_t len)
{
    const uint8_t *b = p;
    for (size_t i = 0; i < len; i += i + 64 < len ? 64 : 1)
        sink ^= b[i];
}

static void read_array(const struct gguf *gguf, const char *key)
{
    enum gguf_type type;
    size_t count = 0;
    if (gguf_array(gguf, key, &type, &count, NULL) != OK)
        return;
    for (size_t i = 0; i < count; i++) {
        if (type == GGUF_STRING) {
            struct slice s = gguf_array_string(gguf, key, i);
            touch(s.bytes, s.len);
        } else if (type == GGUF_F32) {
            float value = gguf_array_f32(gguf, key, i);
            touch(&value, sizeof value);
        } else if (type != GGUF_F64 && type != GGUF_BOOL) {
            sink ^= (uint8_t)gguf_array_int(gguf, key, i);
        }
    }
}

static void read_value(const struct gguf *gguf, const char *key)
{
    uint32_t number;
    float real;
    bool flag;
    struct slice text;
    unsigned taken = 0;
    taken += gguf_u32(gguf, key, &number, NULL) == OK;
    taken += gguf_f32(gguf, key, &real, NULL) == OK;
    taken += gguf_bool(gguf, key, &flag, NULL) == OK;
    if (gguf_string(gguf, key, &text, NULL) == OK) {
        touch(text.bytes, text.len);
        taken++;
    }
    ASSERT(taken <= 1 && gguf_has(gguf, key));
    read_array(gguf, key);
}

static void read_all(const struct gguf *gguf)
{
    char name[256];
    for (size_t i = 0; i < gguf_key_count(gguf); i++) {
        struct slice key = gguf_key_at(gguf, i);
        if (key.len >= sizeof name)
            continue;
        memcpy(name, key.bytes, key.len);
        name[key.len] = '\0';
        read_value(gguf, name);
    }
    for (size_t i = 0; i < gguf_tensor_count(gguf); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(gguf, i);
        memcpy(name, t->name.bytes, t->name.len);
        name[t->name.len] = '\0';
        ASSERT(gguf_tensor_find(gguf, name) == t);
        touch(t->data, t->bytes);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct gguf *gguf = NULL;
    struct graph *graph = NULL;
    struct why why = {0};
    enum status s = gguf_parse(bytes, len, &gguf, &why);
    ASSERT((s == OK) == (gguf != NULL) &&
           (s == OK || (s == STATUS_BAD_FILE && why.text[0] != '\0')));
    if (s != OK)
        return 0;
    read_all(gguf);
    s = graph_from_gguf(gguf, &graph, &why);
    ASSERT((s == OK) == (graph != NULL) && (s == OK || why.text[0] != '\0'));
    graph_free(&graph);
    gguf_free(&gguf);
    return 0;
}
