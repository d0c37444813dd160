/* Mutation of checkpoints: right files, spoilt at random by what their keys mean, through the GGUF
 * fuzz target.
 *
 * WHY     Bytes alone seldom make another key or a longer map; a fuzzer that does not know the keys
 *         stays outside the graph.
 * HOW     Each round makes a small model of one architecture, replaces one to three keys by another
 *         type or an edge of its range, spoils a tensor's shape now and then, finishes the file, and
 *         flips some bytes of every second one. The target reads the graph and the vocabulary. Rounds
 *         follow from a seed, which is printed, and taken from FOLDKV_TEST_SEED or the second
 *         argument: gguf_mutation [ROUNDS [SEED]].
 */
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/small_model.h"

#include <inttypes.h>
#include <stdlib.h>

#include "config/graph.h"
#include "config/mem.h"
#include "tests/fuzz/vocabulary_open.h"
#include "tests/support/noise.h"
#include "tests/support/seed.h"
#include "tests/support/vocabulary_keys.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

enum { ROUNDS = 4000, ROUNDS_LONG = 100000, ITEMS_MAX = 64, WORDS_MAX = SF_COUNT + 1, HEAD_BYTES = 16384 };

static const char *const architectures[] = {"llama", "qwen2", "qwen3", "gemma3", "exaone4"};

/* Tails take the architecture's name before them. */
static const char *const tails[] = {
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "vocab_size",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.layer_norm_rms_epsilon",
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "attention.causal",
    "attention.kv_lora_rank",
    "attention.dgqa",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.freq_base_swa",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "final_logit_softcapping",
    "nextn_predict_layers",
    "expert_count",
};
static const char *const whole_keys[] = {
    "general.architecture",   "general.name",    "foldkv.query_to_k_head",
    "foldkv.query_to_v_head", "foldkv.head_map",
};
/* Of the vocabulary; those that say a token are chosen as numbers, the lists as lists. */
static const char *const vocabulary_keys[] = {
    "tokenizer.ggml.model",
    "tokenizer.ggml.pre",
    "tokenizer.ggml.tokens",
    "tokenizer.ggml.token_type",
    "tokenizer.ggml.scores",
    "tokenizer.ggml.merges",
    "tokenizer.ggml.bos_token_id",
    "tokenizer.ggml.eos_token_id",
    "tokenizer.ggml.eot_token_id",
    "tokenizer.ggml.eom_token_id",
    "tokenizer.ggml.unknown_token_id",
    "tokenizer.ggml.padding_token_id",
    "tokenizer.ggml.add_bos_token",
    "tokenizer.ggml.add_eos_token",
    "tokenizer.ggml.add_space_prefix",
};
/* The keys of heads and maps are chosen as often as all others. */
static const char *const head_keys[] = {"foldkv.query_to_k_head", "foldkv.query_to_v_head"};

static const uint32_t edges[] = {0,   1,    2,       3,          4,          5,
                                 6,   15,   16,      17,         32,         255,
                                 256, 1024, 1 << 16, 0x7f800000, 0xffffffff, 0x3f800000};
static const char *const texts[] = {"none",   "linear",  "yarn", "llama", "qwen2", "qwen3",
                                    "gemma3", "exaone4", "dgqa", "mla",   "gpt2",
                                    "smollm", "default", "llama-bpe", ""};
/* What a list of tokens or merges may hold. */
static const char *const words[] = {"h",   "e",   "l",     "he",     "h e",  "l l",   "he ll",
                                    "h  e", " ",  "",      "h e l",  "q z",  "hello", "<0x41>",
                                    "<0xZZ>", "<s>", "\xff", "\xe2\x96\x81", "hell o"};

static uint32_t pick(uint64_t *seed, size_t n)
{
    return (uint32_t)noise_below(seed, (uint32_t)n);
}

static const uint32_t counts_of_layers[] = {1, 4, 2};
static const uint32_t map_of_layers[] = {0, 0, 0, 0, 3, 2, 1, 0, 1, 0, 1, 0};

static struct small_model random_model(uint64_t *seed)
{
    struct small_model m = small_model_default();
    m.layers = 3;
    m.hidden = m.ffn = 32;
    m.heads = 4;
    m.kv_heads = 1u << pick(seed, 3);
    m.vocab = SF_COUNT;
    m.type = m.head_type = 0; /* F32 */
    m.seed = *seed;
    m.architecture = architectures[pick(seed, ARRAY_LEN(architectures))];
    m.window = 1 + pick(seed, 100);
    m.has_output = pick(seed, 2) == 0;
    m.has_rope_factors = pick(seed, 4) == 0;
    if (pick(seed, 3) == 0) {
        m.layer_kv_heads = counts_of_layers;
        m.k_map = map_of_layers;
        m.n_k_map = ARRAY_LEN(map_of_layers);
    }
    return m;
}

static void random_key(const struct small_model *m, uint64_t *seed, char key[96])
{
    uint32_t kind = pick(seed, 6);
    if (kind >= 4)
        snprintf(key, 96, "%s", vocabulary_keys[pick(seed, ARRAY_LEN(vocabulary_keys))]);
    else if (kind == 0)
        snprintf(key, 96, "%s", head_keys[pick(seed, ARRAY_LEN(head_keys))]);
    else if (kind == 1)
        snprintf(key, 96, "%s", whole_keys[pick(seed, ARRAY_LEN(whole_keys))]);
    else
        snprintf(key, 96, "%s.%s", m->architecture, tails[pick(seed, ARRAY_LEN(tails))]);
}

/* As many as a map for all layers or for each of them has, or about that. */
static void add_array(struct gguf_writer *w, const char *key, uint64_t *seed)
{
    static const uint32_t lengths[] = {0, 1, 3, 4, 5, 12, 13, ITEMS_MAX};
    static const enum gguf_type types[] = {GGUF_U32, GGUF_I32, GGUF_F32};
    uint32_t items[ITEMS_MAX], n = lengths[pick(seed, ARRAY_LEN(lengths))];
    for (uint32_t i = 0; i < n; i++)
        items[i] = pick(seed, 8) == 0 ? edges[pick(seed, ARRAY_LEN(edges))] : pick(seed, 4);
    gguf_writer_array(w, key, types[pick(seed, ARRAY_LEN(types))], items, n, n * sizeof *items);
}

/* As many words as there are tokens, or about that, each often one that a vocabulary could hold. */
static void add_words(struct gguf_writer *w, const char *key, uint64_t *seed)
{
    static const uint32_t lengths[] = {0, 1, 5, VF_COUNT, SF_COUNT - 1, SF_COUNT, SF_COUNT + 1};
    static struct vocabulary_file file;
    const char *list[WORDS_MAX];
    uint32_t n = lengths[pick(seed, ARRAY_LEN(lengths))];
    vocabulary_file_init_spm(&file);
    for (uint32_t i = 0; i < n; i++)
        list[i] = i < SF_COUNT && pick(seed, 16) > 0 ? file.tokens[i]
                                                     : words[pick(seed, ARRAY_LEN(words))];
    gguf_writer_strings(w, key, list, n);
}

static void spoil_key(struct gguf_writer *w, const struct small_model *m, uint64_t *seed)
{
    static const enum gguf_type types[] = {GGUF_U32, GGUF_I32, GGUF_F32};
    char key[96];
    random_key(m, seed, key);
    gguf_writer_drop_key(w, key);
    switch (pick(seed, 7)) {
    case 0:
        break;
    case 1:
        gguf_writer_string(w, key, texts[pick(seed, ARRAY_LEN(texts))]);
        break;
    case 2:
        gguf_writer_bool(w, key, pick(seed, 2) == 0);
        break;
    case 3:
        gguf_writer_value(w, key, types[pick(seed, ARRAY_LEN(types))],
                          &edges[pick(seed, ARRAY_LEN(edges))], 4);
        break;
    case 4:
        add_words(w, key, seed);
        break;
    default:
        add_array(w, key, seed);
    }
}

static bool is_one(const struct small_model *m, const char *names)
{
    return strstr(names, m->architecture) != NULL;
}

static void spoil_tensor(struct gguf_writer *w, const struct small_model *m, uint64_t *seed)
{
    const struct {
        const char *name;
        bool is_there;
    } tensors[] = {
        {"blk.0.attn_k.weight", true},
        {"blk.2.attn_v.weight", true},
        {"blk.1.attn_output.weight", true},
        {"blk.0.attn_q.bias", is_one(m, "qwen2")},
        {"blk.1.attn_q_norm.weight", is_one(m, "qwen3 gemma3 exaone4")},
        {"blk.1.post_ffw_norm.weight", is_one(m, "gemma3 exaone4")},
        {"rope_freqs.weight", m->has_rope_factors},
    };
    uint32_t i = pick(seed, ARRAY_LEN(tensors));
    if (!tensors[i].is_there) {
        gguf_writer_tensor(w, tensors[i].name, 0, 1, (const uint64_t[]){8}, NULL, 32);
        return;
    }
    struct gguf_writer_tensor *t = gguf_writer_find(w, tensors[i].name);
    if (pick(seed, 3) == 0)
        t->dims[pick(seed, 2)] = edges[pick(seed, ARRAY_LEN(edges))];
    else
        memcpy(t->data, &edges[pick(seed, ARRAY_LEN(edges))], 4);
}

/* What is not spoilt yet is taken: a mutation starts inside. Only two of the architectures know
 * rotation factors. */
static void check_right(struct gguf_writer *w, const struct small_model *m)
{
    size_t len = 0;
    struct gguf *gguf = NULL;
    struct graph *graph = NULL;
    char *bytes = gguf_writer_finish(w, &len);
    ASSERT(gguf_parse(bytes, len, &gguf, NULL) == OK);
    enum status s = graph_from_gguf(gguf, &graph, NULL);
    ASSERT((s == OK) == (!m->has_rope_factors || is_one(m, "llama exaone4")));
    ASSERT(vocabulary_open(gguf));
    graph_free(&graph);
    gguf_free(&gguf);
    mem_free(bytes);
}

static void add_vocabulary(struct gguf_writer *w, const struct small_model *m, uint64_t *seed)
{
    static struct vocabulary_file file;
    if (pick(seed, 2) == 0)
        vocabulary_file_init(&file);
    else
        vocabulary_file_init_spm(&file);
    vocabulary_keys_add(w, &file, m->vocab);
}

static void round_of(uint64_t *seed)
{
    struct small_model m = random_model(seed);
    struct gguf_writer *w = small_model_writer(&m);
    size_t len = 0;
    add_vocabulary(w, &m, seed);
    check_right(w, &m);
    for (uint32_t i = pick(seed, 3) + 1; i > 0; i--)
        spoil_key(w, &m, seed);
    if (pick(seed, 4) == 0)
        spoil_tensor(w, &m, seed);
    char *bytes = gguf_writer_finish(w, &len);
    for (uint32_t i = pick(seed, 2) * pick(seed, 4); i > 0; i--)
        bytes[pick(seed, len < HEAD_BYTES ? len : HEAD_BYTES)] ^= (char)(1u << pick(seed, 8));
    (void)LLVMFuzzerTestOneInput((const uint8_t *)bytes, len);
    mem_free(bytes);
    gguf_writer_free(&w);
}

int main(int argc, char **argv)
{
    const char *is_long = getenv("FOLDKV_TEST_LONG");
    long usual = is_long != NULL && strcmp(is_long, "1") == 0 ? ROUNDS_LONG : ROUNDS;
    long rounds = argc > 1 ? strtol(argv[1], NULL, 10) : usual;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : test_seed();
    printf("%ld rounds, FOLDKV_TEST_SEED=%" PRIu64 "\n", rounds, seed);
    fflush(stdout); /* before a round can abort */
    for (long i = 0; i < rounds; i++)
        round_of(&seed);
    return rounds > 0 ? 0 : 1;
}
