/* vocabulary.c: what each token is, read once from the file's arrays and kept small.
 *
 * HOW     All pieces lie in one blob, in the order of the ids; a piece is where its offset says, up
 *         to the next one's. A normal token is spelt in the byte alphabet, or with U+2581 for the
 *         space, and stands for those bytes; one that leaves the spelling (padding that a converter
 *         added; a space as it is) can never come out of merging and stands for what is written, as
 *         control and user-defined ones do.
 * ALWAYS  Every id that is handed out is below the count.                                read_id
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/vocabulary.h"

#include "config/mem.h"
#include "server/byte_text.h"

enum { STOP_IDS_MAX = 8, KIND_MASK = 7, IS_TEXT = 8, IS_END = 16 };

struct vocabulary {
    uint32_t n_tokens;
    uint32_t *offsets; /* [n_tokens + 1] */
    uint8_t *kinds;    /* [n_tokens], with IS_TEXT and IS_END */
    enum spelling spelling;
    char *blob;
    int64_t bos, eos, eot, eom, unknown;
    bool adds_bos, adds_eos;
    uint32_t stop_ids[STOP_IDS_MAX];
    uint32_t n_stop_ids;
};

static const char type_key[] = "tokenizer.ggml.token_type";
static const char tokens_key[] = "tokenizer.ggml.tokens";

static bool is_integer_type(enum gguf_type type)
{
    return type != GGUF_STRING && type != GGUF_ARRAY && type != GGUF_BOOL && type != GGUF_F32 &&
           type != GGUF_F64;
}

static enum status check_kinds(const struct gguf *gguf, uint32_t n_tokens, struct why *ret_why)
{
    enum gguf_type type;
    size_t count;
    TRY(gguf_array(gguf, type_key, &type, &count, ret_why));
    if (!is_integer_type(type))
        return why_set(ret_why, STATUS_BAD_FILE, type_key,
                       "key \"%s\": an array of type %d; integers are needed", type_key, (int)type);
    if (count != n_tokens)
        return why_set(ret_why, STATUS_BAD_FILE, type_key,
                       "key \"%s\": %zu kinds for %u tokens; one each is needed", type_key, count,
                       n_tokens);
    return OK;
}

static enum status read_kinds(struct vocabulary *v, const struct gguf *gguf, struct why *ret_why)
{
    if (!gguf_has(gguf, type_key)) {
        memset(v->kinds, TOKEN_NORMAL, v->n_tokens);
        return OK;
    }
    TRY(check_kinds(gguf, v->n_tokens, ret_why));
    for (uint32_t id = 0; id < v->n_tokens; id++) {
        int64_t kind = gguf_array_int(gguf, type_key, id);
        if (kind < TOKEN_NORMAL || kind > TOKEN_BYTE)
            return why_set(ret_why, STATUS_BAD_FILE, type_key,
                           "key \"%s\": token %u is of kind %lld; %d to %d are known", type_key, id,
                           (long long)kind, TOKEN_NORMAL, TOKEN_BYTE);
        v->kinds[id] = (uint8_t)kind;
    }
    return OK;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte that "<0x41>" means, or -1 for any other spelling. */
static int byte_token(struct slice text)
{
    if (text.len != 6 || memcmp(text.bytes, "<0x", 3) != 0 || text.bytes[5] != '>')
        return -1;
    int high = hex_digit(text.bytes[3]), low = hex_digit(text.bytes[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* The bytes of text with U+2581 for its spaces. False if it has a space as it is. */
static bool spaces_decode(struct slice text, char *ret_bytes, size_t *ret_len)
{
    static const char mark[] = "\xe2\x96\x81"; /* U+2581 */
    size_t len = 0;
    for (size_t at = 0; at < text.len;) {
        if (text.bytes[at] == ' ')
            return false;
        bool is_mark =
            text.len - at >= sizeof mark - 1 && memcmp(text.bytes + at, mark, sizeof mark - 1) == 0;
        ret_bytes[len++] = is_mark ? ' ' : text.bytes[at];
        at += is_mark ? sizeof mark - 1 : 1;
    }
    *ret_len = len;
    return true;
}

static enum status spell_byte(struct slice text, uint32_t id, char *ret_byte, struct why *ret_why)
{
    int byte = byte_token(text);
    if (byte < 0)
        return why_set(
            ret_why, STATUS_BAD_FILE, tokens_key,
            "key \"%s\": token %u is a byte token spelt '%.*s'; <0x00> to <0xFF> are right",
            tokens_key, id, (int)(text.len < 64 ? text.len : 64), text.bytes);
    *ret_byte = (char)byte;
    return OK;
}

/* The bytes of one token, into ret_bytes[text.len]. */
static enum status spell(struct vocabulary *v, uint32_t id, struct slice text, char *ret_bytes,
                         size_t *ret_len, struct why *ret_why)
{
    *ret_len = 1;
    if (v->kinds[id] == TOKEN_BYTE)
        return spell_byte(text, id, ret_bytes, ret_why);
    bool is_text = v->kinds[id] == TOKEN_NORMAL || v->kinds[id] == TOKEN_UNUSED;
    if (is_text)
        is_text = v->spelling == SPELLING_SPACES ? spaces_decode(text, ret_bytes, ret_len)
                                                 : byte_text_decode(text, ret_bytes, ret_len);
    if (is_text) {
        v->kinds[id] |= IS_TEXT;
        return OK;
    }
    memcpy(ret_bytes, text.bytes, text.len);
    *ret_len = text.len;
    return OK;
}

static enum status read_pieces(struct vocabulary *v, const struct token_index *index,
                               struct why *ret_why)
{
    size_t len = 0;
    for (uint32_t id = 0; id < v->n_tokens; id++)
        len += token_index_text(index, id).len;
    if (len > UINT32_MAX)
        return why_set(ret_why, STATUS_BAD_FILE, tokens_key,
                       "key \"%s\": %zu bytes of spellings; at most %u are served", tokens_key, len,
                       UINT32_MAX);
    v->blob = mem_alloc(len);
    if (v->blob == NULL)
        return STATUS_NO_MEMORY;
    uint32_t at = 0;
    for (uint32_t id = 0; id < v->n_tokens; id++) {
        size_t n;
        v->offsets[id] = at;
        TRY(spell(v, id, token_index_text(index, id), v->blob + at, &n, ret_why));
        at += (uint32_t)n;
    }
    v->offsets[v->n_tokens] = at;
    return OK;
}

/* otherwise, where there is such a token, if the key is absent. */
static enum status read_id(const struct vocabulary *v, const struct gguf *gguf, const char *key,
                           int64_t otherwise, int64_t *ret_id, struct why *ret_why)
{
    *ret_id = otherwise < v->n_tokens ? otherwise : TOKEN_NONE;
    if (!gguf_has(gguf, key))
        return OK;
    uint32_t id;
    TRY(gguf_u32(gguf, key, &id, ret_why));
    if (id >= v->n_tokens)
        return why_set(ret_why, STATUS_BAD_FILE, key,
                       "key \"%s\": %u is no token; the file has %u, from 0", key, id, v->n_tokens);
    *ret_id = id;
    return OK;
}

/* Whether the file wants a token at an end of a text; that token must then be named. */
static enum status read_adds(const struct gguf *gguf, const char *key, bool otherwise, int64_t id,
                             const char *id_key, bool *ret_adds, struct why *ret_why)
{
    *ret_adds = otherwise && id != TOKEN_NONE;
    if (!gguf_has(gguf, key))
        return OK;
    TRY(gguf_bool(gguf, key, ret_adds, ret_why));
    if (*ret_adds && id == TOKEN_NONE)
        return why_set(ret_why, STATUS_BAD_FILE, key,
                       "key \"%s\": true, but %s is absent; one of them must change", key, id_key);
    return OK;
}

static enum status read_special(struct vocabulary *v, const struct gguf *gguf,
                                const struct vocabulary_rules *rules, struct why *ret_why)
{
    static const char bos[] = "tokenizer.ggml.bos_token_id", eos[] = "tokenizer.ggml.eos_token_id";
    int64_t padding; /* read for its range only: nothing here pads */
    const struct {
        const char *key;
        int64_t otherwise, *id;
    } ids[] = {
        {bos, rules->bos, &v->bos},
        {eos, rules->eos, &v->eos},
        {"tokenizer.ggml.unknown_token_id", rules->unknown, &v->unknown},
        {"tokenizer.ggml.eot_token_id", TOKEN_NONE, &v->eot},
        {"tokenizer.ggml.eom_token_id", TOKEN_NONE, &v->eom},
        {"tokenizer.ggml.padding_token_id", TOKEN_NONE, &padding},
    };
    for (size_t i = 0; i < ARRAY_LEN(ids); i++)
        TRY(read_id(v, gguf, ids[i].key, ids[i].otherwise, ids[i].id, ret_why));
    TRY(read_adds(gguf, "tokenizer.ggml.add_bos_token", rules->adds_bos, v->bos, bos, &v->adds_bos,
                  ret_why));
    return read_adds(gguf, "tokenizer.ggml.add_eos_token", false, v->eos, eos, &v->adds_eos,
                     ret_why);
}

/* Keeps the list ascending and without repeats. */
static void add_stop(struct vocabulary *v, int64_t id)
{
    if (id == TOKEN_NONE)
        return;
    uint32_t at = 0;
    while (at < v->n_stop_ids && v->stop_ids[at] < id)
        at++;
    if (at < v->n_stop_ids && v->stop_ids[at] == id)
        return;
    ASSERT(v->n_stop_ids < STOP_IDS_MAX);
    memmove(&v->stop_ids[at + 1], &v->stop_ids[at], (v->n_stop_ids - at) * sizeof v->stop_ids[0]);
    v->stop_ids[at] = (uint32_t)id;
    v->n_stop_ids++;
}

/* Files give some end tokens another kind. Spelt in a text they are taken for control tokens all the
 * same, as llama.cpp takes them, so that the same text makes the same tokens there and here. What such
 * a token stands for is not touched: "</s>" also ends struck-out HTML, and a model may write it. */
static void mark_ends(struct vocabulary *v, const struct token_index *index)
{
    static const char *const ends[] = {
        "<|eot_id|>",
        "<|im_end|>",
        "<|end|>",
        "<|return|>",
        "<|call|>",
        "<|calls|>",
        "<|flush|>",
        "<end_of_turn>",
        "<|endoftext|>",
        "</s>",
        "<|eom_id|>",
        "<EOT>",
        "_<EOT>",
        "[EOT]",
        "[EOS]",
        "<|end_of_text|>",
        "<eos>",
        "<end_of_utterance>",
        "<turn|>",
        "<|tool_response>",
        "<\xef\xbd\x9c"
        "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>",
        "[e~[",
    };
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        int64_t id = token_index_find(index, (struct slice){ends[i], strlen(ends[i])});
        if (id != TOKEN_NONE)
            v->kinds[id] |= IS_END;
    }
}

/* Files often name only one end token where a chat model uses two; these spellings end a turn
 * wherever they are control tokens. */
static void collect_stops(struct vocabulary *v, const struct token_index *index)
{
    static const char *const turn_ends[] = {"<|im_end|>", "<end_of_turn>", "<|eot_id|>"};
    add_stop(v, v->eos);
    add_stop(v, v->eot);
    add_stop(v, v->eom);
    for (size_t i = 0; i < ARRAY_LEN(turn_ends); i++) {
        struct slice text = {turn_ends[i], strlen(turn_ends[i])};
        int64_t id = token_index_find(index, text);
        if (id != TOKEN_NONE && vocabulary_kind(v, (uint32_t)id) == TOKEN_CONTROL)
            add_stop(v, id);
    }
}

static enum status fill(struct vocabulary *v, const struct gguf *gguf,
                        const struct token_index *index, const struct vocabulary_rules *rules,
                        struct why *ret_why)
{
    v->kinds = mem_alloc(v->n_tokens);
    v->offsets = mem_alloc(((size_t)v->n_tokens + 1) * sizeof v->offsets[0]);
    if (v->kinds == NULL || v->offsets == NULL)
        return STATUS_NO_MEMORY;
    TRY(read_kinds(v, gguf, ret_why));
    TRY(read_pieces(v, index, ret_why));
    TRY(read_special(v, gguf, rules, ret_why));
    mark_ends(v, index);
    collect_stops(v, index);
    return OK;
}

enum status vocabulary_new(const struct gguf *gguf, const struct token_index *index,
                           const struct vocabulary_rules *rules, struct vocabulary **ret_vocabulary,
                           struct why *ret_why)
{
    *ret_vocabulary = NULL;
    struct vocabulary *v = mem_zalloc(1, sizeof *v);
    if (v == NULL)
        return STATUS_NO_MEMORY;
    v->n_tokens = token_index_count(index);
    v->spelling = rules->spelling;
    enum status s = fill(v, gguf, index, rules, ret_why);
    if (s != OK)
        vocabulary_free(&v);
    *ret_vocabulary = v;
    return s;
}

void vocabulary_free(struct vocabulary **vocabulary)
{
    struct vocabulary *v = *vocabulary;
    if (v == NULL)
        return;
    mem_free(v->offsets);
    mem_free(v->kinds);
    mem_free(v->blob);
    mem_free(v);
    *vocabulary = NULL;
}

uint32_t vocabulary_count(const struct vocabulary *vocabulary)
{
    return vocabulary->n_tokens;
}

struct slice vocabulary_piece(const struct vocabulary *vocabulary, uint32_t id)
{
    ASSERT(id < vocabulary->n_tokens);
    uint32_t from = vocabulary->offsets[id];
    return (struct slice){vocabulary->blob + from, vocabulary->offsets[id + 1] - from};
}

enum token_kind vocabulary_kind(const struct vocabulary *vocabulary, uint32_t id)
{
    ASSERT(id < vocabulary->n_tokens);
    return (enum token_kind)(vocabulary->kinds[id] & KIND_MASK);
}

bool vocabulary_is_text(const struct vocabulary *vocabulary, uint32_t id)
{
    ASSERT(id < vocabulary->n_tokens);
    return (vocabulary->kinds[id] & IS_TEXT) != 0;
}

enum token_search vocabulary_search(const struct vocabulary *vocabulary, uint32_t id)
{
    enum token_kind kind = vocabulary_kind(vocabulary, id);
    if ((vocabulary->kinds[id] & IS_END) != 0 || kind == TOKEN_CONTROL || kind == TOKEN_UNKNOWN)
        return SEARCH_SPECIAL;
    return kind == TOKEN_USER_DEFINED ? SEARCH_ALWAYS : SEARCH_NEVER;
}

int64_t vocabulary_bos(const struct vocabulary *vocabulary)
{
    return vocabulary->bos;
}

int64_t vocabulary_eos(const struct vocabulary *vocabulary)
{
    return vocabulary->eos;
}

int64_t vocabulary_unknown(const struct vocabulary *vocabulary)
{
    return vocabulary->unknown;
}

bool vocabulary_adds_bos(const struct vocabulary *vocabulary)
{
    return vocabulary->adds_bos;
}

bool vocabulary_adds_eos(const struct vocabulary *vocabulary)
{
    return vocabulary->adds_eos;
}

const uint32_t *vocabulary_stop_ids(const struct vocabulary *vocabulary, uint32_t *ret_count)
{
    *ret_count = vocabulary->n_stop_ids;
    return vocabulary->stop_ids;
}
