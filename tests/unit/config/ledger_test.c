/* ledger_test.c: every figure of tests/data/ledger.json, from the formulas. */
// SPDX-License-Identifier: Apache-2.0
#include "config/ledger.h"

#include <jansson.h>

#include "tests/support/suite_run.h"

static json_t *golden;

static void load(void)
{
    json_error_t error;
    golden = json_load_file(TEST_DATA "/ledger.json", 0, &error);
    ck_assert_msg(golden != NULL, "%s", error.text);
}

static void unload(void)
{
    json_decref(golden);
}

static const json_t *at(const json_t *value, const char *key)
{
    const json_t *member = json_object_get(value, key);
    ck_assert_msg(member != NULL, "no %s in the golden file", key);
    return member;
}

static uint64_t number(const json_t *value, const char *key)
{
    const json_t *member = at(value, key);
    ck_assert_msg(json_is_integer(member), "%s", key);
    return (uint64_t)json_integer_value(member);
}

static struct ledger_shape shape_of(uint64_t kv_heads)
{
    const json_t *e = at(golden, "example");
    return (struct ledger_shape){.hidden = number(e, "hidden"),
                                 .query_heads = number(e, "query_heads"),
                                 .k_heads = kv_heads,
                                 .v_heads = kv_heads,
                                 .d_qk = number(e, "d_h"),
                                 .d_v = number(e, "d_h"),
                                 .kv_bytes = number(e, "bytes_per_element")};
}

/* L layers of one shape, each its own source. */
static void repeat_layers(const struct ledger_shape *shape, uint32_t n, struct ledger_shape *layers,
                          uint32_t *source)
{
    for (uint32_t l = 0; l < n; l++) {
        layers[l] = *shape;
        source[l] = l;
    }
}

static const char *const arrangements[] = {"mha", "gqa8", "mqa"};

START_TEST(one_layer)
{
    const json_t *a = at(at(golden, "arrangements"), arrangements[_i]), *row = at(a, "per_layer");
    uint64_t T = number(at(golden, "example"), "context");
    struct ledger_shape s = shape_of(number(a, "kv_heads"));
    ck_assert_uint_eq(s.query_heads / s.k_heads, number(a, "group"));
    ck_assert_uint_eq(ledger_projection_parameters(&s), number(row, "projection_parameters"));
    ck_assert_uint_eq(ledger_projection_flops(&s, 1), number(row, "projection_flops_per_token"));
    ck_assert_uint_eq(ledger_qk_flops(&s, 1, T) + ledger_pv_flops(&s, 1, T),
                      number(row, "qk_pv_flops_at_T"));
    ck_assert_uint_eq(ledger_append_bytes(&s, 1), number(row, "append_bytes_per_token"));
    ck_assert_uint_eq(ledger_history_bytes(&s, 1, T), number(row, "history_bytes_at_T"));
    ck_assert_uint_eq(ledger_fused_width(&s), number(row, "fused_qkv_width"));
    ck_assert(ledger_intensity(&s) == json_real_value(at(row, "intensity_flop_per_byte")));
    ck_assert(ledger_intensity_repeated(&s) == 1.0);
    ck_assert_uint_eq(json_object_size(row), 7); /* every figure there is */
}
END_TEST

START_TEST(all_layers_and_sixteen_ranks)
{
    enum { L = 32, RANKS = 16 };
    const json_t *a = at(at(golden, "arrangements"), arrangements[_i]), *all = at(a, "all_layers");
    const json_t *placed = at(a, "placement_16_ranks");
    uint64_t T = number(at(golden, "example"), "context");
    struct ledger_shape s = shape_of(number(a, "kv_heads")), layers[L];
    uint32_t source[L];
    uint16_t map[32];
    repeat_layers(&s, L, layers, source);
    ck_assert_uint_eq(ledger_model_append_bytes(layers, source, L, 1),
                      number(all, "append_bytes_per_token"));
    ck_assert_uint_eq(ledger_model_resident_bytes(layers, source, L, 1, T),
                      number(all, "history_bytes_at_T"));
    ck_assert_uint_eq(ledger_model_history_bytes(layers, source, L, 1, T),
                      number(all, "history_bytes_at_T"));
    for (uint16_t head = 0; head < 32; head++)
        map[head] = (uint16_t)(head / number(a, "group"));
    struct ledger_placement p = ledger_place(map, 32, (uint32_t)s.k_heads, RANKS);
    ck_assert_uint_eq(p.replicas_most, number(placed, "replicas_per_kv_head"));
    ck_assert_uint_eq(p.replicas, s.k_heads * p.replicas_most);
    ck_assert_uint_eq(L * ledger_rank_bytes(&s, &p, 1, T), number(placed, "per_rank_bytes"));
    ck_assert_uint_eq(L * ledger_physical_bytes(&s, &p, 1, T), number(placed, "physical_bytes"));
    ck_assert_uint_eq(L * ledger_replica_append_bytes(&s, &p, 1),
                      number(placed, "replica_append_bytes_per_token"));
    ck_assert_uint_eq(L * ledger_remote_history_bytes(&s, &p, 1, T),
                      number(placed, "remote_history_bytes_if_not_replicated"));
}
END_TEST

START_TEST(pairs_of_layers_share_one_source)
{
    enum { L = 32 };
    const json_t *row = at(golden, "cla2_on_gqa8");
    uint64_t T = number(at(golden, "example"), "context");
    struct ledger_shape s = shape_of(8), layers[L];
    uint32_t own[L], shared[L];
    repeat_layers(&s, L, layers, own);
    for (uint32_t l = 0; l < L; l++)
        shared[l] = l / 2 * 2;
    ck_assert_uint_eq(ledger_producers(own, L), L);
    ck_assert_uint_eq(ledger_producers(shared, L), number(row, "producer_layers"));
    ck_assert_uint_eq(ledger_model_projection_parameters(layers, own, L),
                      number(row, "projection_parameters_before"));
    ck_assert_uint_eq(ledger_model_projection_parameters(layers, shared, L),
                      number(row, "projection_parameters_after"));
    ck_assert_uint_eq(ledger_model_resident_bytes(layers, own, L, 1, T),
                      number(row, "resident_history_before"));
    ck_assert_uint_eq(ledger_model_resident_bytes(layers, shared, L, 1, T),
                      number(row, "resident_history_after"));
    ck_assert_uint_eq(ledger_model_history_bytes(layers, own, L, 1, T),
                      number(row, "history_bytes_read_per_step_before"));
    ck_assert_uint_eq(ledger_model_history_bytes(layers, shared, L, 1, T),
                      number(row, "history_bytes_read_per_step_after"));
    ck_assert(json_is_true(at(row, "qk_pv_flops_unchanged")));
    ck_assert_uint_eq(ledger_model_attention_flops(layers, L, 1, T), L * UINT64_C(67108864));
    ck_assert_uint_eq(ledger_stage_append_bytes(&s, 16, 1), 64 << 10); /* 0x08: 16 crossings */
}
END_TEST

START_TEST(six_layers_with_three_sources)
{
    struct ledger_shape s = {.hidden = 512,
                             .query_heads = 8,
                             .k_heads = 2,
                             .v_heads = 2,
                             .d_qk = 64,
                             .d_v = 64,
                             .kv_bytes = 2};
    const uint32_t source[] = {0, 0, 2, 2, 2, 5};
    struct ledger_shape layers[6];
    uint32_t own[6];
    repeat_layers(&s, 6, layers, own);
    ck_assert_uint_eq(ledger_producers(source, 6), 3);
    ck_assert_uint_eq(ledger_model_resident_bytes(layers, source, 6, 1, 1024), 3 << 19);
    ck_assert_uint_eq(ledger_model_resident_bytes(layers, own, 6, 1, 1024), 3 << 20);
    ck_assert_uint_eq(ledger_model_history_bytes(layers, source, 6, 1, 1024), 3 << 20);
    ck_assert_uint_eq(6 * ledger_repeat_bytes(&s, 1, 1024), 12 << 20); /* MHA with 8 heads */
}
END_TEST

START_TEST(an_explicit_repeat)
{
    const json_t *row = at(golden, "repeat_fixture");
    uint64_t kv_heads = number(row, "kv_heads"), d = number(row, "d_h"), T = number(row, "tokens");
    struct ledger_shape s = {.hidden = 8,
                             .query_heads = number(row, "query_heads"),
                             .k_heads = kv_heads,
                             .v_heads = kv_heads,
                             .d_qk = d,
                             .d_v = d,
                             .kv_bytes = number(row, "bytes_per_element")};
    ck_assert_uint_eq(ledger_history_bytes(&s, 1, T), number(row, "owned_bytes"));
    ck_assert_uint_eq(ledger_repeat_bytes(&s, 1, T), number(row, "materialised_bytes"));
    ck_assert_uint_eq(LEDGER_GROUPED_TEMPORARY_BYTES, number(row, "grouped_allocated_bytes"));
}
END_TEST

START_TEST(the_tiled_graph)
{
    const json_t *row = at(golden, "optai");
    uint64_t kv_heads = number(row, "kv_heads"), d = number(row, "d_h"), T = number(row, "context"),
             L = number(row, "layers");
    struct ledger_shape s = {.hidden = 2048,
                             .query_heads = number(row, "query_heads"),
                             .k_heads = kv_heads,
                             .v_heads = kv_heads,
                             .d_qk = d,
                             .d_v = d,
                             .kv_bytes = 2};
    ck_assert_uint_eq(ledger_history_bytes(&s, 1, T) / 2, number(row, "kv_tensor_bytes"));
    ck_assert_uint_eq(ledger_repeat_bytes(&s, 1, T) / 2, number(row, "tiled_tensor_bytes"));
    ck_assert_uint_eq(L * ledger_history_bytes(&s, 1, T), number(row, "cache_bytes"));
    ck_assert_uint_eq(L * ledger_append_bytes(&s, 1), number(row, "append_bytes_per_token"));
    ck_assert_uint_eq(L * 2, number(row, "tile_ops"));
    ck_assert_uint_eq(L * ledger_repeat_bytes(&s, 1, T),
                      number(row, "tile_bytes_written_per_token"));
}
END_TEST

START_TEST(mha_and_mqa_are_the_endpoints)
{
    struct ledger_shape mha = shape_of(32), mqa = shape_of(1);
    uint64_t d = mha.hidden;
    ck_assert_uint_eq(ledger_projection_parameters(&mha), 4 * d * d);
    ck_assert_uint_eq(ledger_projection_parameters(&mqa) * 32, 2 * d * d * 33);
    ck_assert_uint_eq(ledger_history_bytes(&mha, 1, 4096),
                      32 * ledger_history_bytes(&mqa, 1, 4096));
    ck_assert_uint_eq(ledger_qk_flops(&mha, 1, 4096), ledger_qk_flops(&mqa, 1, 4096));
}
END_TEST

START_TEST(k_and_v_keep_their_own_counts_and_widths)
{
    struct ledger_shape s = {.hidden = 10,
                             .query_heads = 6,
                             .k_heads = 3,
                             .v_heads = 2,
                             .d_qk = 5,
                             .d_v = 7,
                             .kv_bytes = 4};
    ck_assert_uint_eq(ledger_projection_parameters(&s), 10 * (6 * 5 + 3 * 5 + 2 * 7 + 6 * 7));
    ck_assert_uint_eq(ledger_append_bytes(&s, 11), 11 * (3 * 5 + 2 * 7) * 4);
    ck_assert_uint_eq(ledger_fused_width(&s), 6 * 5 + 3 * 5 + 2 * 7);
    ck_assert_uint_eq(ledger_qk_flops(&s, 2, 9), 2 * 2 * 9 * 6 * 5);
    ck_assert_uint_eq(ledger_pv_flops(&s, 2, 9), 2 * 2 * 9 * 6 * 7);
}
END_TEST

START_TEST(an_uneven_map_is_placed_by_its_entries)
{
    const uint16_t map[] = {0, 1, 0, 1, 0, 0, 0, 2};
    struct ledger_placement p = ledger_place(map, 8, 3, 4);
    ck_assert_uint_eq(p.replicas, 4 + 2 + 1);
    ck_assert_uint_eq(p.replicas_most, 4);
    ck_assert_uint_eq(p.rank_heads_most, 2);
}
END_TEST

START_TEST(a_window_bounds_what_is_read_and_pinned)
{
    /* gemma3-270m: 1 head of 256, window 512 */
    struct ledger_shape s = {.hidden = 640,
                             .query_heads = 4,
                             .k_heads = 1,
                             .v_heads = 1,
                             .d_qk = 256,
                             .d_v = 256,
                             .kv_bytes = 2,
                             .window = 512};
    struct ledger_shape all = s;
    all.window = 0;
    ck_assert_uint_eq(ledger_history_bytes(&s, 1, 512), ledger_history_bytes(&all, 1, 512));
    ck_assert_uint_eq(ledger_history_bytes(&s, 3, 16384), 3 * 512 * 1024);
    ck_assert_uint_eq(ledger_qk_flops(&s, 1, 16384), ledger_qk_flops(&all, 1, 512));
    ck_assert_uint_eq(ledger_pv_flops(&s, 1, 16384), ledger_pv_flops(&all, 1, 512));
    ck_assert_uint_eq(ledger_repeat_bytes(&s, 1, 16384), ledger_repeat_bytes(&all, 1, 512));
    ck_assert_uint_eq(ledger_append_bytes(&s, 1), 1024);
    ck_assert_uint_eq(ledger_pinned_pages(&all, 16384, 64), 256);
    ck_assert_uint_eq(ledger_pinned_pages(&s, 16384, 64), 8);
    ck_assert_uint_eq(ledger_pinned_bytes(&s, 16384, 64), 8 * 64 * 1024);
    for (uint64_t tokens = 0; tokens < 2000; tokens++) {
        uint64_t p = tokens - 1, seen = p + 1 > 512 ? p - 512 + 1 : 0;
        uint64_t pages = tokens == 0 ? 0 : p / 64 - seen / 64 + 1;
        ck_assert_uint_eq(ledger_pinned_pages(&s, tokens, 64), pages);
        ck_assert_uint_eq(ledger_pinned_pages(&all, tokens, 64), (tokens + 63) / 64);
    }
}
END_TEST

START_TEST(scales_are_a_term_of_their_own)
{
    struct ledger_shape f16 = shape_of(8), i8 = f16;
    i8.kv_bytes = 1;
    i8.kv_scale_bytes = 4;
    struct ledger_shape layers[2] = {i8, i8};
    const uint32_t own[] = {0, 1}, shared[] = {0, 0};
    ck_assert_uint_eq(ledger_history_bytes(&i8, 1, 4096) * 2, ledger_history_bytes(&f16, 1, 4096));
    ck_assert_uint_eq(ledger_scale_bytes(&i8, 1, 4096), 4096 * 16 * 4);
    ck_assert_uint_eq(ledger_scale_bytes(&f16, 1, 4096), 0);
    ck_assert_uint_eq(ledger_page_bytes(&i8, 64), 64 * (256 + 8));
    ck_assert_uint_eq(ledger_page_bytes(&f16, 64), 64 * 512);
    ck_assert_uint_eq(ledger_pinned_bytes(&i8, 4096, 64),
                      ledger_history_bytes(&i8, 1, 4096) + ledger_scale_bytes(&i8, 1, 4096));
    ck_assert_uint_eq(ledger_model_pinned_bytes(layers, own, 2, 65, 64),
                      2 * ledger_pinned_bytes(&i8, 65, 64));
    ck_assert_uint_eq(ledger_model_pinned_bytes(layers, shared, 2, 65, 64),
                      ledger_pinned_bytes(&i8, 65, 64));
    ck_assert_uint_eq(ledger_model_scale_bytes(layers, own, 2, 3, 10),
                      6 * ledger_scale_bytes(&i8, 1, 10));
    ck_assert(ledger_intensity(&i8) == 2.0 * 4 / 1);
}
END_TEST

START_TEST(an_overflow_aborts)
{
    struct ledger_shape s = shape_of(8);
    ck_assert_uint_eq(ledger_history_bytes(&s, UINT64_MAX, 2), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ledger");
    TCase *tc = tcase_create("golden");
    tcase_set_timeout(tc, 10);
    tcase_add_checked_fixture(tc, load, unload);
    tcase_add_loop_test(tc, one_layer, 0, 3);
    tcase_add_loop_test(tc, all_layers_and_sixteen_ranks, 0, 3);
    tcase_add_test(tc, pairs_of_layers_share_one_source);
    tcase_add_test(tc, six_layers_with_three_sources);
    tcase_add_test(tc, an_explicit_repeat);
    tcase_add_test(tc, the_tiled_graph);
    tcase_add_test(tc, mha_and_mqa_are_the_endpoints);
    tcase_add_test(tc, k_and_v_keep_their_own_counts_and_widths);
    tcase_add_test(tc, an_uneven_map_is_placed_by_its_entries);
    tcase_add_test(tc, a_window_bounds_what_is_read_and_pinned);
    tcase_add_test(tc, scales_are_a_term_of_their_own);
    tcase_add_test_raise_signal(tc, an_overflow_aborts, 6 /* SIGABRT */);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
