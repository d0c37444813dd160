/* kernel_use_test.c: the operations of models of several kinds, and what counts as another kernel. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/kernel_use.h"

#include "tests/support/decoder_rig.h"
#include "tests/support/small_model.h"
#include "tests/support/suite_run.h"

#include "config/mem.h"

struct use_list {
    struct kernel_use uses[KERNEL_USE_MAX];
    size_t n;
    const char *names[KERNEL_USE_MAX]; /* of those that have one */
    size_t n_names;
};

/* A model of this shape under a set of kernels, and what it uses. */
static void load(struct decoder_rig *rig, const char *architecture, enum kv_type type,
                 const char *isa)
{
    struct small_model shape = small_model_default();
    struct why why = {0};
    struct gguf *gguf;
    size_t len;
    shape.architecture = architecture;
    shape.window = strcmp(architecture, "gemma3") == 0 ? 64 : 0;
    char *bytes = small_model_bytes(&shape, &len);
    ck_assert_msg(gguf_parse(bytes, len, &gguf, &why) == OK, "%s", why.text);
    decoder_rig_init(rig, gguf, type, isa, 1, 64);
    gguf_free(&gguf);
    mem_free(bytes);
}

static struct use_list list(const struct decoder_rig *rig, const struct kernels *kernels)
{
    struct use_list l = {0};
    l.n = kernel_use_list(rig->model, kernels, l.uses);
    l.n_names = kernel_use_names(rig->model, kernels, l.names);
    return l;
}

static bool has(const struct use_list *l, const char *op)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->uses[i].op, op) == 0)
            return true;
    return false;
}

START_TEST(a_model_uses_what_its_graph_has)
{
    struct decoder_rig llama, gemma;
    load(&llama, "llama", KV_F16, NULL);
    load(&gemma, "gemma3", KV_I8, NULL);
    struct use_list l = list(&llama, &llama.kernels), g = list(&gemma, &gemma.kernels);
    static const char *const both[] = {"matmul_q4_1", "matmul_q8_0", "quantise",     "rms_norm",
                                       "add",         "logits_peak", "attend_merge", "attend_finish"};
    static const char *const llamas[] = {"silu_mul", "rope_neighbours", "attend_chunk_f16",
                                         "kv_store_f16"};
    static const char *const gemmas[] = {"gelu_mul", "rope_halves", "attend_chunk_i8",
                                         "kv_store_i8", "scale"};
    static const char *const neither[] = {"matmul_f32", "matmul_q4_k", "attend_chunk_f32"};
    for (size_t i = 0; i < ARRAY_LEN(both); i++)
        ck_assert_msg(has(&l, both[i]) && has(&g, both[i]), "%s", both[i]);
    for (size_t i = 0; i < ARRAY_LEN(llamas); i++)
        ck_assert_msg(has(&l, llamas[i]) && !has(&g, llamas[i]), "%s", llamas[i]);
    for (size_t i = 0; i < ARRAY_LEN(gemmas); i++)
        ck_assert_msg(has(&g, gemmas[i]) && !has(&l, gemmas[i]), "%s", gemmas[i]);
    for (size_t i = 0; i < ARRAY_LEN(neither); i++)
        ck_assert_msg(!has(&l, neither[i]) && !has(&g, neither[i]), "%s", neither[i]);
    ck_assert_uint_eq(l.n, l.n_names);
    decoder_rig_release(&llama);
    decoder_rig_release(&gemma);
}
END_TEST

START_TEST(a_masked_set_is_a_difference)
{
    struct decoder_rig rig;
    struct kernels scalar;
    load(&rig, "llama", KV_F16, NULL);
    kernels_pick(1u << ISA_SCALAR, &scalar);
    struct use_list best = list(&rig, &rig.kernels), plain = list(&rig, &scalar);
    ck_assert_uint_eq(
        kernel_use_differences(best.uses, best.n, best.names, best.n_names), 0);
    uint32_t n = kernel_use_differences(plain.uses, plain.n, best.names, best.n_names);
    if (rig.kernels.isa != ISA_SCALAR)
        ck_assert_uint_gt(n, 5);
    else
        ck_assert_uint_eq(n, 0);
    decoder_rig_release(&rig);
}
END_TEST

static void odd_finish(uint32_t d_v, float l, const float *acc, float *out)
{
    for (uint32_t j = 0; j < d_v; j++)
        out[j] = acc[j] / l;
}

/* A kernel without a name differs from one with a name, either way round, and is itself. */
START_TEST(an_unlisted_kernel_is_a_difference_unless_it_was_planned)
{
    struct decoder_rig rig;
    load(&rig, "llama", KV_F16, NULL);
    struct kernels odd = rig.kernels;
    odd.attention.finish = odd_finish;
    struct use_list best = list(&rig, &rig.kernels), other = list(&rig, &odd);
    ck_assert_uint_eq(other.n_names + 1, other.n);
    ck_assert_uint_eq(
        kernel_use_differences(other.uses, other.n, best.names, best.n_names), 1);
    ck_assert_uint_eq(
        kernel_use_differences(best.uses, best.n, other.names, other.n_names), 1);
    ck_assert_uint_eq(
        kernel_use_differences(other.uses, other.n, other.names, other.n_names), 0);
    decoder_rig_release(&rig);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kernel_use");
    TCase *tc = tcase_create("use");
    tcase_set_timeout(tc, 30);
    tcase_add_test(tc, a_model_uses_what_its_graph_has);
    tcase_add_test(tc, a_masked_set_is_a_difference);
    tcase_add_test(tc, an_unlisted_kernel_is_a_difference_unless_it_was_planned);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
