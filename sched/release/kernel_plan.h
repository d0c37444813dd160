/* kernel_plan.h: how a checkpoint is computed with, as a record: kernels and the revision of their sources, maps, widths,
 * layout, types, the fixed partition of the sums (M5.7 0x06).
 *
 * Nothing in it depends on memory, threads or load, so its hash names the plan. Any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_KERNEL_PLAN_H
#define FOLDKV_SCHED_KERNEL_PLAN_H

#include "config/record.h"
#include "sched/model.h"

/* Hashes over all layers, in hex: equal lists, equal hashes. */
struct head_hashes {
    char counts[SHA256_HEX];  /* K/V heads */
    char widths[SHA256_HEX];  /* d_qk, d_v */
    char maps[SHA256_HEX];    /* owners of each query head's K and V */
    char windows[SHA256_HEX];
};
/* Of the graph: what the checkpoint says. NO_MEMORY. */
enum status head_hashes_of(const struct graph *graph, struct head_hashes *ret_hashes) MUST_USE;

extern const char kernel_plan_layout[];    /* of pages */
extern const char kernel_plan_positions[]; /* how positions enter K */
extern const char kernel_plan_fusion[];    /* order of Q, K and V in the file */
const char *kernel_plan_rope(const struct graph *graph);

/* The record is the caller's; what fails shows when it is printed or hashed. */
void kernel_plan_write(const struct graph *graph, const struct manifest *manifest,
                       enum kv_type kv_type, const struct kernels *kernels,
                       struct record *ret_plan);
/* The name of the plan that would be written. NO_MEMORY. */
enum status kernel_plan_hash(const struct graph *graph, const struct manifest *manifest,
                             enum kv_type kv_type, const struct kernels *kernels,
                             char ret_hex[SHA256_HEX]) MUST_USE;

#endif
