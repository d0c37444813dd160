/* tokenizer_fuzz.c: any bytes as a text: refused where they stop to be UTF-8, else encoded, and the tokens give the
 * text back.
 *
 * HOW     The first byte picks one of four vocabularies, all with a token for every byte, and the mode. For those with
 *         scores U+2581 in a text is a space, and comes back as one.
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/mem.h"
#include "server/character.h"
#include "server/tokenizer.h"
#include "tests/support/vocabulary_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

enum { VOCABULARIES = 4, PARSES_SPECIAL = 4 };

static struct tokenizer *tokenizers[VOCABULARIES];

static struct tokenizer *tokenizer_of(unsigned n)
{
    static struct vocabulary_file file;
    if (tokenizers[n] != NULL)
        return tokenizers[n];
    if (n < 2)
        vocabulary_file_init(&file);
    else
        vocabulary_file_init_spm(&file);
    if (n == 1)
        file.pre = "llama-bpe";
    file.add_space_prefix = n == 3;
    char *bytes;
    struct gguf *gguf = vocabulary_file_gguf(&file, &bytes);
    ASSERT(tokenizer_new(gguf, &tokenizers[n], NULL) == OK);
    gguf_free(&gguf);
    mem_free(bytes);
    return tokenizers[n];
}

/* text with every U+2581 a space. */
static size_t with_spaces(struct slice text, char *ret_text)
{
    size_t len = 0;
    for (size_t at = 0; at < text.len; len++) {
        bool is_mark = text.len - at >= 3 && memcmp(text.bytes + at, "\xe2\x96\x81", 3) == 0;
        ret_text[len] = is_mark ? ' ' : text.bytes[at];
        at += is_mark ? 3 : 1;
    }
    return len;
}

static void check_back(const struct tokenizer *tokenizer, const struct token_ids *ids, struct slice text, bool is_spm)
{
    struct byte_buffer back;
    char *expected = mem_alloc(text.len + 1);
    ASSERT(expected != NULL);
    memcpy(expected, text.bytes, text.len);
    size_t n = is_spm ? with_spaces(text, expected) : text.len;
    byte_buffer_init(&back, text.len + 1);
    ASSERT(tokenizer_decode(tokenizer, ids->ids, ids->count, &back, NULL) == OK);
    ASSERT(back.len == n && (n == 0 || memcmp(back.bytes, expected, n) == 0));
    byte_buffer_release(&back);
    mem_free(expected);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    if (len == 0)
        return 0;
    unsigned which = bytes[0] % VOCABULARIES;
    const struct tokenizer *tokenizer = tokenizer_of(which);
    struct slice text = {(const char *)bytes + 1, len - 1};
    struct token_ids ids;
    struct why why = {0};
    token_ids_init(&ids, 2 * len + 2);
    enum status s = tokenizer_encode(
        tokenizer, text, (struct tokenizer_mode){.parse_special = (bytes[0] & PARSES_SPECIAL) != 0}, &ids, &why);
    bool is_text = character_whole_bytes(text) == text.len;
    ASSERT(is_text ? s == OK : s == STATUS_BAD_REQUEST && why.text[0] != '\0');
    if (s == OK)
        check_back(tokenizer, &ids, text, which >= 2);
    token_ids_release(&ids);
    return 0;
}
