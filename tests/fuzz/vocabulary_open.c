/* vocabulary_open.c: a vocabulary from whatever a file says of it, tried token by token and with a text. */
// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/vocabulary_open.h"

#include "server/tokenizer.h"

enum { TOKENS_MAX = 1000, TEXT_BYTES_MAX = 1 << 20 };

static const char text[] = "hello hell\n<s></s> <tool>\xc3\xa9\xe2\x96\x81w  <|im_end|>> 12 <unk>";

static void try_text(const struct tokenizer *tokenizer, struct tokenizer_mode mode)
{
    struct token_ids ids;
    struct why why = {0};
    struct byte_buffer back;
    token_ids_init(&ids, TOKENS_MAX);
    byte_buffer_init(&back, TEXT_BYTES_MAX);
    enum status s = tokenizer_encode(tokenizer, (struct slice){text, sizeof text - 1}, mode, &ids, &why);
    ASSERT(s == OK);
    ASSERT(tokenizer_decode(tokenizer, ids.ids, ids.count, &back, NULL) == OK);
    byte_buffer_release(&back);
    token_ids_release(&ids);
}

static void try_all(const struct tokenizer *tokenizer)
{
    const struct vocabulary *vocabulary = tokenizer_vocabulary(tokenizer);
    uint32_t n_stops;
    const uint32_t *stops = vocabulary_stop_ids(vocabulary, &n_stops);
    for (uint32_t i = 0; i < n_stops; i++)
        ASSERT(stops[i] < vocabulary_count(vocabulary));
    for (uint32_t id = 0; id < vocabulary_count(vocabulary); id++) {
        bool is_inside = id % 2 == 0;
        ASSERT(vocabulary_piece(vocabulary, id).len > 0);
        (void)tokenizer_text(tokenizer, id, &is_inside);
    }
    for (int mode = 0; mode < 4; mode++)
        try_text(tokenizer, (struct tokenizer_mode){.add_special = (mode & 1) != 0, .parse_special = (mode & 2) != 0});
}

bool vocabulary_open(const struct gguf *gguf)
{
    struct tokenizer *tokenizer = NULL;
    struct why why = {0};
    enum status s = tokenizer_new(gguf, &tokenizer, &why);
    ASSERT((s == OK) == (tokenizer != NULL) &&
           (s == OK || (s == STATUS_BAD_FILE && why.text[0] != '\0' && why.field[0] != '\0')));
    if (s == OK)
        try_all(tokenizer);
    tokenizer_free(&tokenizer);
    return s == OK;
}
