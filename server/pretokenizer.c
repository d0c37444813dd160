/* pretokenizer.c: words by regular expression, with PCRE2.
 *
 * WHY     Merges were learnt inside words, so a text must be cut into the same words before it is
 *         merged.
 * HOW     One row of the table a name. The expression is matched again and again where the last
 *         word ended; text that it does not cover would be a word of its own. The text is known to
 *         be UTF-8, so PCRE2 does not check it again at every word. White space is written as
 *         [\t-\r\x{85}\p{Z}], the White_Space property: PCRE2's \s also takes U+180E.
 * NOT     PCRE2's JIT: it needs writable code pages, and takes longer to compile than most prompts
 *         take to match.
 *
 * The rows are the patterns that the vocabularies were trained with. smollm cuts out every numeral
 * before it looks for words, so that white space before a numeral ends where the text would end;
 * one expression says the same by what may follow it. Line ends after white space, \s*[\r\n]+ where
 * the pattern was first written, are said without going back, which over megabytes of spaces would
 * exceed PCRE2's limits.
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/pretokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "config/mem.h"

#define BLANK "\\t\\x{b}\\x{c}\\x{85}\\p{Z}" /* white space that ends no line */
#define SPACE "\\t-\\r\\x{85}\\p{Z}"
#define GPT2                                                                                       \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" SPACE "\\p{L}\\p{N}]+"                      \
    "|[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+"
#define SMOLLM                                                                                     \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+|\\p{N}| ?[^" SPACE "\\p{L}\\p{N}]+"                         \
    "|[" SPACE "]+(?![^" SPACE "\\p{N}])|[" SPACE "]+"
/* What differs is how many numerals make a word. */
#define CASELESS(numerals)                                                                         \
    "'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"          \
    "|" numerals "| ?[^" SPACE "\\p{L}\\p{N}]+[\\r\\n]*|(?:[" BLANK "]*+[\\r\\n]++)++"             \
    "|[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+"
#define LLAMA3                                                                                     \
    CASELESS("\\p{N}{1,3}"),                                                                       \
    {                                                                                              \
        .takes_whole_words = true, .adds_bos = true                                                \
    }
#define QWEN2 CASELESS("\\p{N}")

static const struct row {
    const char *name;
    const char *pattern;
    struct pretokenizer_traits traits;
} rows[] = {
    {"smollm", SMOLLM, {0}}, {"starcoder", SMOLLM, {0}}, {"refact", SMOLLM, {0}},
    {"exaone", SMOLLM, {0}}, {"gpt-2", GPT2, {0}},       {"gpt2", GPT2, {0}},
    {"exaone4", GPT2, {0}},  {"qwen2", QWEN2, {0}},      {"deepseek-r1-qwen", QWEN2, {0}},
    {"megrez", QWEN2, {0}},  {"llama-bpe", LLAMA3},      {"llama3", LLAMA3},
    {"llama-v3", LLAMA3},    {"falcon3", LLAMA3},
};

struct pretokenizer {
    const struct row *row;
    pcre2_general_context *memory;
    pcre2_code *code;
};

struct word_walk {
    const pcre2_code *code;
    pcre2_match_data *data;
    struct slice text;
    size_t at; /* end of the last word given */
    /* A match that waits behind a word that nothing covered; match[0] is SIZE_MAX if none does. */
    size_t match[2];
};

static const char pre_key[] = "tokenizer.ggml.pre";

static void *pcre_alloc(size_t bytes, void *user)
{
    (void)user;
    return mem_alloc(bytes);
}

static void pcre_free(void *p, void *user)
{
    (void)user;
    mem_free(p);
}

static const struct row *row_find(struct slice name)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (strlen(rows[i].name) == name.len && memcmp(rows[i].name, name.bytes, name.len) == 0)
            return &rows[i];
    return NULL;
}

static enum status refuse(struct slice name, struct why *ret_why)
{
    char names[256] = "";
    size_t len = 0;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int n = snprintf(names + len, sizeof names - len, "%s%s", i > 0 ? ", " : "", rows[i].name);
        ASSERT(n > 0 && (size_t)n < sizeof names - len);
        len += (size_t)n;
    }
    return why_set(ret_why, STATUS_BAD_FILE, pre_key,
                   "key \"%s\": '%.*s' is not served; served are %s", pre_key,
                   (int)(name.len < 64 ? name.len : 64), name.bytes, names);
}

static enum status compile(struct pretokenizer *pretokenizer, const char *pattern)
{
    int error;
    size_t offset;
    pretokenizer->memory = pcre2_general_context_create(pcre_alloc, pcre_free, NULL);
    if (pretokenizer->memory == NULL)
        return STATUS_NO_MEMORY;
    pcre2_compile_context *context = pcre2_compile_context_create(pretokenizer->memory);
    if (context == NULL)
        return STATUS_NO_MEMORY;
    pretokenizer->code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                                       PCRE2_UTF | PCRE2_UCP, &error, &offset, context);
    pcre2_compile_context_free(context);
    ASSERT(pretokenizer->code != NULL || error == PCRE2_ERROR_HEAP_FAILED);
    return pretokenizer->code != NULL ? OK : STATUS_NO_MEMORY;
}

enum status pretokenizer_new(struct slice name, struct pretokenizer **ret_pretokenizer,
                             struct why *ret_why)
{
    *ret_pretokenizer = NULL;
    const struct row *row = row_find(name);
    if (row == NULL)
        return refuse(name, ret_why);
    struct pretokenizer *pretokenizer = mem_zalloc(1, sizeof *pretokenizer);
    if (pretokenizer == NULL)
        return STATUS_NO_MEMORY;
    pretokenizer->row = row;
    enum status s = compile(pretokenizer, row->pattern);
    if (s != OK)
        pretokenizer_free(&pretokenizer);
    *ret_pretokenizer = pretokenizer;
    return s;
}

struct pretokenizer_traits pretokenizer_traits(const struct pretokenizer *pretokenizer)
{
    return pretokenizer->row->traits;
}

void pretokenizer_free(struct pretokenizer **pretokenizer)
{
    if (*pretokenizer == NULL)
        return;
    pcre2_code_free((*pretokenizer)->code);
    pcre2_general_context_free((*pretokenizer)->memory);
    mem_free(*pretokenizer);
    *pretokenizer = NULL;
}

enum status word_walk_new(const struct pretokenizer *pretokenizer, struct word_walk **ret_walk)
{
    *ret_walk = NULL;
    struct word_walk *walk = mem_zalloc(1, sizeof *walk);
    if (walk == NULL)
        return STATUS_NO_MEMORY;
    walk->code = pretokenizer->code;
    walk->data = pcre2_match_data_create(1, pretokenizer->memory);
    if (walk->data == NULL) {
        word_walk_free(&walk);
        return STATUS_NO_MEMORY;
    }
    *ret_walk = walk;
    return OK;
}

void word_walk_free(struct word_walk **walk)
{
    if (*walk == NULL)
        return;
    pcre2_match_data_free((*walk)->data);
    mem_free(*walk);
    *walk = NULL;
}

void word_walk_start(struct word_walk *walk, struct slice text)
{
    walk->text = text;
    walk->at = 0;
    walk->match[0] = SIZE_MAX;
}

/* The next non-empty match at or after walk->at into walk->match; the end of the text if there is
 * none. */
static enum status find(struct word_walk *walk)
{
    int n = pcre2_match(walk->code, (PCRE2_SPTR)walk->text.bytes, walk->text.len, walk->at,
                        PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, walk->data, NULL);
    if (n == PCRE2_ERROR_NOMATCH) {
        walk->match[0] = walk->match[1] = walk->text.len;
        return OK;
    }
    if (n < 0)
        return n == PCRE2_ERROR_NOMEMORY ? STATUS_NO_MEMORY : STATUS_INTERNAL;
    const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(walk->data);
    walk->match[0] = ends[0];
    walk->match[1] = ends[1];
    return OK;
}

enum status word_walk_next(struct word_walk *walk, struct slice *ret_word)
{
    *ret_word = (struct slice){walk->text.bytes + walk->at, 0};
    if (walk->at == walk->text.len)
        return OK;
    if (walk->match[0] == SIZE_MAX)
        TRY(find(walk));
    size_t end = walk->match[0] > walk->at ? walk->match[0] : walk->match[1];
    if (end == walk->match[1] || end == walk->text.len)
        walk->match[0] = SIZE_MAX;
    ret_word->len = end - walk->at;
    walk->at = end;
    return OK;
}
