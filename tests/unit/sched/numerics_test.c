/* numerics_test.c: the version of the arithmetic parts the pages, namespaces and plans of two versions, and nothing else. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/model.h"

#include "cache/chain_key.h"
#include "config/mem.h"
#include "config/record.h"
#include "sched/lane_parts.h"
#include "sched/release/kernel_plan.h"
#include "tests/support/opened_graph.h"
#include "tests/support/small_model.h"
#include "tests/support/suite_run.h"

/* What a version of the arithmetic makes of one model. */
struct version {
    struct manifest *manifest;
    uint8_t namespace_id[SHA256_BYTES], key[SHA256_BYTES];
    char plan[SHA256_HEX];
};

static const uint8_t checkpoint[SHA256_BYTES] = {7};

static void make_key(const struct manifest *m, uint8_t ret_key[SHA256_BYTES])
{
    struct chain_scope scope = {.cache_group = 0};
    struct sha256 *sha;
    memcpy(scope.identity, m->identity, SHA256_BYTES);
    memcpy(scope.numerics, m->binding_hash, SHA256_BYTES);
    ck_assert_int_eq(sha256_new(&sha), OK);
    chain_key_root(sha, &scope, (struct slice){0}, ret_key);
    sha256_free(&sha);
}

static struct version version_of(const struct graph *graph, const struct kernels *kernels,
                                 uint32_t contract)
{
    struct version v;
    struct record plan;
    char numerics[KERNEL_NUMERICS_ROOM];
    struct manifest_layout layout = {.kv_type = "f16", .page_tokens = PAGE_TOKENS};
    struct manifest_binding binding = {.backend = isa_name(kernels->isa), .numerics = numerics};
    kernel_numerics(contract, numerics);
    ck_assert_int_eq(manifest_new(graph, checkpoint, &layout, &binding, &v.manifest, NULL), OK);
    ck_assert_int_eq(lane_parts_namespace(v.manifest, v.namespace_id), OK);
    make_key(v.manifest, v.key);
    kernel_plan_write(graph, v.manifest, KV_F16, kernels, &plan);
    ck_assert_int_eq(record_hash(&plan, v.plan), OK);
    record_release(&plan);
    return v;
}

START_TEST(another_version_shares_nothing)
{
    struct small_model shape = small_model_default();
    struct opened_graph opened = opened_graph_of(small_model_writer(&shape));
    struct kernels kernels;
    struct manifest *ours;
    kernels_pick(UINT32_MAX, &kernels);
    struct version now = version_of(opened.graph, &kernels, KERNEL_CONTRACT),
                   next = version_of(opened.graph, &kernels, KERNEL_CONTRACT + 1);
    ck_assert_int_eq(model_manifest(opened.graph, checkpoint, KV_F16, &kernels, &ours, NULL), OK);
    ck_assert_str_eq(ours->binding_json, now.manifest->binding_json); /* a model has this version */
    ck_assert_mem_eq(next.manifest->identity, now.manifest->identity, SHA256_BYTES);
    ck_assert_mem_ne(next.manifest->binding_hash, now.manifest->binding_hash, SHA256_BYTES);
    ck_assert_mem_ne(next.namespace_id, now.namespace_id, SHA256_BYTES);
    ck_assert_mem_ne(next.key, now.key, SHA256_BYTES);
    ck_assert_str_ne(next.plan, now.plan); /* and with it a generation's id */
    manifest_free(&ours);
    manifest_free(&now.manifest);
    manifest_free(&next.manifest);
    opened_graph_close(&opened);
}
END_TEST

/* A constant here that changes without the version is found by this line: raise KERNEL_CONTRACT when what it decides is a bit. */
START_TEST(what_decides_a_bit_is_named)
{
    char text[KERNEL_NUMERICS_ROOM];
    kernel_numerics(KERNEL_CONTRACT, text);
    ck_assert_str_eq(text, "contract-3 act-i8x16 chunk-256 step-64 page-64");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("numerics");
    TCase *tc = tcase_create("numerics");
    tcase_set_timeout(tc, 30);
    suite_add_tcase(suite, tc);
    tcase_add_test(tc, another_version_shares_nothing);
    tcase_add_test(tc, what_decides_a_bit_is_named);
    return suite_run(suite);
}
