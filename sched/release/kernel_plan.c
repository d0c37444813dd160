/* kernel_plan.c: the plan from graph, manifest and kernels.
 *
 * HOW     Every op of the kernel table is named with the function that serves it; one that is not in the table (a test's
 *         own) is "unnamed", so that it cannot pass for another.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/kernel_plan.h"

#include <inttypes.h>

#include "sched/backend_revision.h"

const char kernel_plan_layout[] = "head-major pages of 64 tokens, units of 16, K before V";
const char kernel_plan_positions[] = "absolute, rotated before it is stored";
const char kernel_plan_fusion[] = "separate";

const char *kernel_plan_rope(const struct graph *graph)
{
    return graph->rope_order == ROPE_HALVES ? "halves" : "neighbours";
}

static void add_numbers(struct sha256 *sha, uint8_t tag, uint32_t a, uint32_t b)
{
    const uint32_t numbers[] = {a, b};
    sha256_part(sha, tag, numbers, sizeof numbers);
}

static void add_layer(struct sha256 *sha, const struct graph_layer *l, int which)
{
    switch (which) {
    case 0:
        add_numbers(sha, 'C', l->n_k_heads, l->n_v_heads);
        break;
    case 1:
        add_numbers(sha, 'W', l->d_qk, l->d_v);
        break;
    case 2:
        sha256_part(sha, 'K', l->query_to_k_head, l->n_query_heads * sizeof(uint16_t));
        sha256_part(sha, 'V', l->query_to_v_head, l->n_query_heads * sizeof(uint16_t));
        break;
    default:
        add_numbers(sha, 'S', l->window, 0);
    }
}

enum status head_hashes_of(const struct graph *graph, struct head_hashes *ret_hashes)
{
    char *const hex[] = {ret_hashes->counts, ret_hashes->widths, ret_hashes->maps,
                         ret_hashes->windows};
    struct sha256 *sha;
    TRY(sha256_new(&sha));
    for (int which = 0; which < (int)ARRAY_LEN(hex); which++) {
        uint8_t hash[SHA256_BYTES];
        sha256_start(sha);
        for (uint32_t i = 0; i < graph->n_layers; i++)
            add_layer(sha, &graph->layers[i], which);
        sha256_finish(sha, hash);
        sha256_hex(hash, hex[which]);
    }
    sha256_free(&sha);
    return OK;
}

static void add_kernels(const struct kernels *kernels, struct record *plan)
{
    char op[96] = "", unnamed[128];
    bool is_named = true;
    for (size_t i = 0; i <= kernels_row_count(); i++) {
        bool is_end = i == kernels_row_count();
        if (is_end || strcmp(kernels_row(i).op, op) != 0) {
            snprintf(unnamed, sizeof unnamed, "%s__unnamed", op);
            if (!is_named)
                record_add_text(plan, "kernels", unnamed);
            if (is_end)
                return;
            snprintf(op, sizeof op, "%s", kernels_row(i).op);
            is_named = false;
        }
        if (!is_named && kernels_row_is_chosen(kernels, i)) {
            record_add_text(plan, "kernels", kernels_row(i).function);
            is_named = true;
        }
    }
}

static void add_hash(struct record *plan, const char *key, const uint8_t hash[SHA256_BYTES])
{
    char hex[SHA256_HEX];
    sha256_hex(hash, hex);
    record_set_text(plan, key, hex);
}

static void add_layers(const struct graph *graph, struct record *plan)
{
    for (uint32_t i = 0; i < graph->n_groups; i++) {
        const struct graph_group *g = &graph->groups[i];
        const struct graph_layer *l = &graph->layers[g->layers[0]];
        struct record group;
        record_init(&group);
        record_set_number(&group, "d_qk", g->d_qk);
        record_set_number(&group, "d_v", g->d_v);
        record_set_number(&group, "kv_heads", g->n_heads);
        record_set_number(&group, "layers", g->n_layers);
        record_set_number(&group, "query_heads", l->n_query_heads);
        record_set_number(&group, "window", g->window);
        record_add_record(plan, "groups", &group);
        record_release(&group);
    }
}

void kernel_plan_write(const struct graph *graph, const struct manifest *manifest,
                       enum kv_type kv_type, const struct kernels *kernels, struct record *ret_plan)
{
    struct head_hashes hashes = {0};
    record_init(ret_plan);
    if (head_hashes_of(graph, &hashes) != OK)
        ret_plan->is_failed = true;
    add_hash(ret_plan, "architecture_hash", manifest->architecture_hash);
    add_hash(ret_plan, "binding_hash", manifest->binding_hash);
    record_set_text(ret_plan, "accumulator_dtype", model_sum_type_name);
    record_set_text(ret_plan, "backend", isa_name(kernels->isa));
    record_set_text(ret_plan, "backend_revision", backend_revision);
    record_set_text(ret_plan, "cache_layout", kernel_plan_layout);
    add_layers(graph, ret_plan);
    record_set_text(ret_plan, "head_counts_hash", hashes.counts);
    record_set_text(ret_plan, "head_map_hash", hashes.maps);
    record_set_text(ret_plan, "head_widths_hash", hashes.widths);
    add_kernels(kernels, ret_plan);
    record_set_text(ret_plan, "kv_type", model_kv_type_name(kv_type));
    record_set_text(ret_plan, "mask", "causal, by loop bound");
    record_set_text(ret_plan, "mode", "grouped, each page read once a group");
    record_set_number(ret_plan, "page_tokens", PAGE_TOKENS);
    record_set_number(ret_plan, "partition_tokens", ATTEND_CHUNK);
    record_set_text(ret_plan, "position_convention", kernel_plan_positions);
    record_set_text(ret_plan, "q_dtype", model_query_type_name(kv_type));
    record_set_text(ret_plan, "qkv_fusion_order", kernel_plan_fusion);
    record_set_text(ret_plan, "query_length", "any, in rows of one step");
    record_set_text(ret_plan, "rope_coordinate_order", kernel_plan_rope(graph));
    record_set_text(ret_plan, "windows_hash", hashes.windows);
}

enum status kernel_plan_hash(const struct graph *graph, const struct manifest *manifest,
                             enum kv_type kv_type, const struct kernels *kernels,
                             char ret_hex[SHA256_HEX])
{
    struct record plan;
    kernel_plan_write(graph, manifest, kv_type, kernels, &plan);
    enum status s = record_hash(&plan, ret_hex);
    record_release(&plan);
    return s;
}
