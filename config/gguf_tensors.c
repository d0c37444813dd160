/* gguf_tensors.c: reads a GGUF file's tensor descriptions and ties each to its bytes.
 *
 * ALWAYS  (1) A tensor's bytes are inside the file and are no other tensor's.   place_tensors
 *         (2) Element counts and sizes are multiplied with overflow checked.    measure
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/gguf_priv.h"

#include <inttypes.h>

#include "config/ggml_type.h"
#include "config/mem.h"
#include "config/unicode.h"

/* The alignment that the file states, or the format's own. */
static enum status read_alignment(const struct gguf *gguf, uint32_t *ret, struct why *ret_why)
{
    static const char key[] = "general.alignment";
    *ret = GGUF_ALIGNMENT_DEFAULT;
    if (!gguf_has(gguf, key))
        return OK;
    TRY(gguf_u32(gguf, key, ret, ret_why));
    if (*ret < GGUF_ALIGNMENT_LEAST || *ret > GGUF_ALIGNMENT_MOST || (*ret & (*ret - 1)) != 0)
        return why_set(ret_why, STATUS_BAD_FILE, key,
                       "key \"%s\": %" PRIu32 ", must be a power of two, %d..%d", key, *ret,
                       GGUF_ALIGNMENT_LEAST, GGUF_ALIGNMENT_MOST);
    return OK;
}

/* Where a tensor lies in the data, for the overlap check. */
struct extent {
    uint64_t offset, bytes;
    size_t tensor;
};

static enum status read_dims(struct gguf_tensor *tensor, struct gguf_reader *r)
{
    TRY(gguf_reader_u32(r, "the number of dimensions", &tensor->n_dims));
    if (tensor->n_dims < 1 || tensor->n_dims > 4)
        return gguf_reader_refuse(r, "%" PRIu32 " dimensions, must be 1..4", tensor->n_dims);
    for (uint32_t i = 0; i < 4; i++)
        tensor->dims[i] = 1;
    for (uint32_t i = 0; i < tensor->n_dims; i++) {
        TRY(gguf_reader_u64(r, "a dimension", &tensor->dims[i]));
        if (tensor->dims[i] == 0)
            return gguf_reader_refuse(r, "dimension %" PRIu32 " is 0, must be at least 1", i);
    }
    return OK;
}

/* Bytes by type and dimensions; they must fit the file before they count as a size. */
static enum status measure(struct gguf_tensor *tensor, struct gguf_reader *r)
{
    const struct ggml_type *type = ggml_type_find(tensor->type);
    if (type == NULL)
        return gguf_reader_refuse(r, "tensor type %" PRIu32 " is not known", tensor->type);
    if (tensor->dims[0] % type->block_elements != 0)
        return gguf_reader_refuse(r,
                                  "rows of %" PRIu64 " elements, %s needs a multiple of %" PRIu32,
                                  tensor->dims[0], type->name, type->block_elements);
    uint64_t bytes = tensor->dims[0] / type->block_elements;
    bool is_over = __builtin_mul_overflow(bytes, (uint64_t)type->block_bytes, &bytes);
    for (uint32_t i = 1; i < 4; i++)
        is_over |= __builtin_mul_overflow(bytes, tensor->dims[i], &bytes);
    if (is_over)
        return gguf_reader_refuse(
            r,
            "%" PRIu64 " x %" PRIu64 " x %" PRIu64 " x %" PRIu64 " of %s is over 64 bits of bytes",
            tensor->dims[0], tensor->dims[1], tensor->dims[2], tensor->dims[3], type->name);
    if (bytes > r->len)
        return gguf_reader_refuse(r, "%" PRIu64 " bytes of %s, the whole file has %zu", bytes,
                                  type->name, r->len);
    tensor->bytes = (size_t)bytes;
    return OK;
}

static enum status read_tensor(struct gguf_tensor *tensor, struct extent *extent,
                               uint32_t alignment, struct gguf_reader *r)
{
    TRY(gguf_reader_string(r, "the tensor's name", &tensor->name));
    if (tensor->name.len == 0 || tensor->name.len > GGUF_TENSOR_NAME_MAX)
        return gguf_reader_refuse(r, "a name of %zu bytes, must be 1..%d", tensor->name.len,
                                  GGUF_TENSOR_NAME_MAX);
    gguf_reader_about_named(r, "tensor", tensor->name);
    if (!unicode_is_printable(tensor->name))
        return gguf_reader_refuse(r, "the name has control bytes or is not UTF-8");
    TRY(read_dims(tensor, r));
    TRY(gguf_reader_u32(r, "the type", &tensor->type));
    TRY(gguf_reader_u64(r, "the offset", &extent->offset));
    TRY(measure(tensor, r));
    if (extent->offset % alignment != 0)
        return gguf_reader_refuse(r, "offset %" PRIu64 " is no multiple of the alignment, %" PRIu32,
                                  extent->offset, alignment);
    extent->bytes = tensor->bytes;
    return OK;
}

static void sink(struct extent *heap, size_t root, size_t count)
{
    for (;;) {
        size_t child = 2 * root + 1;
        if (child >= count)
            return;
        if (child + 1 < count && heap[child].offset < heap[child + 1].offset)
            child++;
        if (heap[root].offset >= heap[child].offset)
            return;
        struct extent kept = heap[root];
        heap[root] = heap[child];
        heap[child] = kept;
        root = child;
    }
}

static void sort_by_offset(struct extent *extents, size_t count)
{
    for (size_t root = count / 2; root-- > 0;)
        sink(extents, root, count);
    for (size_t end = count; end-- > 1;) {
        struct extent kept = extents[0];
        extents[0] = extents[end];
        extents[end] = kept;
        sink(extents, 0, end);
    }
}

/* Gives each tensor its bytes, which start at data in the file. */
static enum status place_tensors(struct gguf *gguf, struct extent *extents, size_t data,
                                 struct gguf_reader *r)
{
    sort_by_offset(extents, gguf->n_tensors);
    size_t room = gguf->len - data;
    for (size_t i = 0; i < gguf->n_tensors; i++) {
        const struct extent *e = &extents[i];
        struct gguf_tensor *tensor = &gguf->tensors[e->tensor];
        gguf_reader_about_named(r, "tensor", tensor->name);
        if (e->offset > room || e->bytes > room - e->offset)
            return gguf_reader_refuse(
                r, "%" PRIu64 " bytes at offset %" PRIu64 ", the file has %zu bytes of data",
                e->bytes, e->offset, room);
        if (i > 0 && e->offset < extents[i - 1].offset + extents[i - 1].bytes) {
            const struct slice *other = &gguf->tensors[extents[i - 1].tensor].name;
            return gguf_reader_refuse(r, "offset %" PRIu64 " lies inside tensor \"%.*s\"",
                                      e->offset, (int)other->len, other->bytes);
        }
        tensor->data = gguf->bytes + data + e->offset;
    }
    return OK;
}

static enum status check_unique(const struct gguf *gguf, struct gguf_reader *r)
{
    gguf_names_sort(gguf->tensors_sorted, gguf->n_tensors);
    const struct slice *twice = gguf_names_twice(gguf->tensors_sorted, gguf->n_tensors);
    if (twice == NULL)
        return OK;
    gguf_reader_about_named(r, "tensor", *twice);
    return gguf_reader_refuse(r, "stands twice, must stand once");
}

/* The descriptions, then the data that starts at the next aligned offset. */
static enum status read_all(struct gguf *gguf, struct extent *extents, struct gguf_reader *r)
{
    uint32_t alignment = 0;
    TRY(read_alignment(gguf, &alignment, r->why));
    for (size_t i = 0; i < gguf->n_tensors; i++) {
        gguf_reader_about(r, "tensor", i + 1, gguf->n_tensors);
        extents[i].tensor = i;
        TRY(read_tensor(&gguf->tensors[i], &extents[i], alignment, r));
        gguf->tensors_sorted[i] = &gguf->tensors[i].name;
    }
    TRY(check_unique(gguf, r));
    size_t padding = (alignment - r->at % alignment) % alignment;
    gguf_reader_about(r, "tensor data", 0, 0);
    if (gguf->n_tensors > 0 && padding > gguf_reader_left(r))
        return gguf_reader_refuse(r, "the file ends at %zu, before its data's start at %zu", r->len,
                                  r->at + padding);
    return gguf->n_tensors > 0 ? place_tensors(gguf, extents, r->at + padding, r) : OK;
}

enum status gguf_tensors_read(struct gguf *gguf, struct gguf_reader *r, size_t n_tensors)
{
    gguf->n_tensors = n_tensors;
    gguf->tensors = mem_zalloc(gguf->n_tensors, sizeof *gguf->tensors);
    gguf->tensors_sorted = mem_zalloc(gguf->n_tensors, sizeof(struct slice *));
    struct extent *extents = mem_zalloc(gguf->n_tensors, sizeof *extents);
    enum status s;
    if (gguf->tensors == NULL || gguf->tensors_sorted == NULL || extents == NULL)
        s = gguf_reader_no_memory(r, n_tensors, "tensors");
    else
        s = read_all(gguf, extents, r);
    mem_free(extents);
    return s;
}
