/* generation_receipts.c: one function a receipt.
 *
 * WHY     A receipt that is copied from another proves nothing, so the cache's is made from the cache and the placement's
 *         from the maps, never from what the checkpoint says of itself.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/generation_receipts.h"

#include "cache/cache.h"
#include "config/mem.h"
#include "sched/decoder.h"
#include "sched/release/kernel_plan.h"

static void set_hash(struct record *r, const char *key, const uint8_t hash[SHA256_BYTES])
{
    char hex[SHA256_HEX];
    sha256_hex(hash, hex);
    record_set_text(r, key, hex);
}

static void begin(struct record *r, enum agreement_receipt receipt,
                  const uint8_t identity[SHA256_BYTES])
{
    record_init(r);
    record_set_text(r, "kind", agreement_receipt_text(receipt));
    set_hash(r, "identity", identity);
}

/* ---- checkpoint ---- */

static void add_tensor(struct record *receipt, const struct gguf_tensor *t, bool is_hashed)
{
    struct record one;
    char name[128], shape[96];
    record_init(&one);
    snprintf(name, sizeof name, "%.*s", (int)t->name.len, t->name.bytes);
    snprintf(shape, sizeof shape, "%llu x %llu x %llu x %llu", (unsigned long long)t->dims[0],
             (unsigned long long)t->dims[1], (unsigned long long)t->dims[2],
             (unsigned long long)t->dims[3]);
    record_set_number(&one, "bytes", (int64_t)t->bytes);
    record_set_text(&one, "name", name);
    record_set_text(&one, "shape", shape);
    record_set_number(&one, "type", t->type);
    if (is_hashed) {
        uint8_t hash[SHA256_BYTES];
        if (sha256_of(t->data, t->bytes, hash) == OK)
            set_hash(&one, "sha256", hash);
    }
    record_add_record(receipt, "tensors", &one);
    record_release(&one);
}

static void add_lineage(struct record *receipt, const char *checkpoint, const char *who)
{
    struct record arrow;
    record_init(&arrow);
    record_set_text(&arrow, "after", checkpoint);
    record_set_text(&arrow, "before", checkpoint);
    record_set_text(&arrow, "said_by", who);
    record_set_text(&arrow, "stage", "as published; no conversion by this daemon");
    record_add_record(receipt, "lineage", &arrow);
    record_release(&arrow);
}

static void write_checkpoint(const struct receipt_sources *s, const struct head_hashes *hashes,
                             const char *checkpoint, struct record *r)
{
    const struct graph *g = s->model->graph;
    begin(r, RECEIPT_CHECKPOINT, s->model->manifest->identity);
    set_hash(r, "architecture_hash", s->model->manifest->architecture_hash);
    record_set_text(r, "architecture", g->architecture);
    record_set_text(r, "checkpoint", checkpoint);
    record_set_flag(r, "has_qkv_bias", g->has_qkv_bias);
    record_set_text(r, "head_counts_hash", hashes->counts);
    record_set_text(r, "head_map_hash", hashes->maps);
    record_set_text(r, "head_widths_hash", hashes->widths);
    record_set_number(r, "layers", g->n_layers);
    record_set_text(r, "qkv_fusion_order", kernel_plan_fusion);
    record_set_text(r, "rope_coordinate_order", kernel_plan_rope(g));
    add_lineage(r, checkpoint, s->who);
    for (size_t i = 0; s->gguf != NULL && i < gguf_tensor_count(s->gguf); i++)
        add_tensor(r, gguf_tensor_at(s->gguf, i), s->hashes_tensors);
}

/* ---- cache ---- */

/* The graph as the cache's groups see it: what was allocated decides, not what was asked for. */
static enum status cache_hashes(const struct receipt_sources *s, struct head_hashes *ret)
{
    const struct cache_shape *shape = cache_shape(s->cache);
    const struct graph *g = s->model->graph;
    struct graph as_cached = *g;
    uint32_t taken[GRAPH_CACHE_GROUPS_MAX] = {0};
    struct graph_layer *seen = mem_zalloc(g->n_layers, sizeof *seen);
    if (seen == NULL)
        return STATUS_NO_MEMORY;
    for (uint32_t i = 0; i < g->n_layers; i++) {
        uint32_t group = g->layers[i].cache_group;
        seen[i] = g->layers[i];
        if (group >= shape->n_groups || taken[group]++ >= shape->groups[group].n_layers) {
            seen[i].n_k_heads = seen[i].n_v_heads = 0; /* the pool has no place for this layer */
            continue;
        }
        const struct cache_group_shape *c = &shape->groups[group];
        seen[i].n_k_heads = seen[i].n_v_heads = c->n_heads;
        seen[i].window = c->window;
        if (cache_memory(s->cache, group).page_bytes !=
            decoder_page_bytes(g, group, s->model->kv_type))
            seen[i].d_qk = seen[i].d_v = 0; /* pages of other widths or another type */
    }
    as_cached.layers = seen;
    enum status s_hash = head_hashes_of(&as_cached, ret);
    mem_free(seen);
    return s_hash;
}

static void add_terms(const struct cache *cache, struct record *r)
{
    for (uint32_t i = 0; i < cache_groups(cache); i++) {
        struct cache_group_books books = cache_group_books(cache, i);
        struct cache_memory memory = cache_memory(cache, i);
        struct record group;
        record_init(&group);
        record_set_number(&group, "block_bytes", (int64_t)books.block_bytes);
        record_set_number(&group, "blocks", books.blocks_total);
        record_set_number(&group, "logical_bytes", (int64_t)books.expected_bytes);
        record_set_number(&group, "padding_bytes", (int64_t)books.rounding_bytes);
        record_set_number(&group, "page_bytes", (int64_t)memory.page_bytes);
        record_set_number(&group, "replicas", 1);
        record_set_number(&group, "resident_bytes", (int64_t)books.resident_bytes);
        record_add_record(r, "groups", &group);
        record_release(&group);
    }
}

static enum status write_cache(const struct receipt_sources *s, struct record *r)
{
    struct head_hashes hashes;
    const struct cache_shape *shape = cache_shape(s->cache);
    begin(r, RECEIPT_CACHE, shape->identity);
    TRY(cache_hashes(s, &hashes));
    record_set_text(r, "cache_layout", kernel_plan_layout);
    record_set_text(r, "generation", s->id);
    add_terms(s->cache, r);
    record_set_text(r, "head_counts_hash", hashes.counts);
    record_set_text(r, "head_widths_hash", hashes.widths);
    record_set_text(r, "kv_type", model_kv_type_name(s->model->kv_type));
    set_hash(r, "namespace", shape->namespace_id);
    set_hash(r, "numerics", shape->numerics);
    record_set_number(r, "page_tokens", CACHE_PAGE_TOKENS);
    record_set_text(r, "position_convention", kernel_plan_positions);
    record_set_text(r, "rope_coordinate_order", kernel_plan_rope(s->model->graph));
    record_set_text(r, "windows_hash", hashes.windows);
    return OK;
}

/* ---- plan, placement ---- */

static void write_plan(const struct receipt_sources *s, struct record *r)
{
    const struct model *m = s->model;
    char hash[SHA256_HEX] = "";
    kernel_plan_write(m->graph, m->manifest, m->kv_type, s->kernels, r);
    if (record_hash(r, hash) != OK)
        r->is_failed = true;
    record_set_text(r, "kind", agreement_receipt_text(RECEIPT_PLAN));
    set_hash(r, "identity", m->manifest->identity);
    record_set_text(r, "generation", s->id);
    set_hash(r, "namespace", cache_shape(s->cache)->namespace_id);
    record_set_text(r, "plan", hash);
}

/* Query heads whose K or V head does not exist. */
static uint64_t unowned_heads(const struct graph *g)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < g->n_layers; i++) {
        const struct graph_layer *l = &g->layers[i];
        for (uint32_t h = 0; h < l->n_query_heads; h++)
            n += l->query_to_k_head[h] >= l->n_k_heads || l->query_to_v_head[h] >= l->n_v_heads;
    }
    return n;
}

static void write_placement(const struct receipt_sources *s, const struct head_hashes *hashes,
                            struct record *r)
{
    begin(r, RECEIPT_PLACEMENT, s->model->manifest->identity);
    record_set_text(r, "head_counts_hash", hashes->counts);
    record_set_text(r, "head_map_hash", hashes->maps);
    record_set_text(r, "owners", "local");
    record_set_number(r, "ranks", 1);
    record_set_number(r, "replicas_most", 1);
    record_set_number(r, "unowned_query_heads", (int64_t)unowned_heads(s->model->graph));
}

enum status generation_receipts_make(const struct receipt_sources *s,
                                     struct record ret_receipts[AGREEMENT_RECEIPTS])
{
    struct head_hashes hashes;
    char checkpoint[SHA256_HEX];
    memset(ret_receipts, 0, AGREEMENT_RECEIPTS * sizeof *ret_receipts);
    TRY(head_hashes_of(s->model->graph, &hashes));
    sha256_hex(s->model->weights->checkpoint_sha256, checkpoint);
    write_checkpoint(s, &hashes, checkpoint, &ret_receipts[RECEIPT_CHECKPOINT]);
    TRY(write_cache(s, &ret_receipts[RECEIPT_CACHE]));
    write_plan(s, &ret_receipts[RECEIPT_PLAN]);
    write_placement(s, &hashes, &ret_receipts[RECEIPT_PLACEMENT]);
    for (int i = 0; i < AGREEMENT_RECEIPTS; i++)
        if (ret_receipts[i].is_failed)
            return STATUS_NO_MEMORY;
    return OK;
}
