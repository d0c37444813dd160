/* token_scores.c: four lists that grow by one a token.
 *
 * HOW     Offsets come from the same character-by-character reading that makes the text, so a token
 *         that ends inside a character counts it for the token that completes it, and broken bytes
 *         count as the U+FFFD they are shown as.
 * NOT     A list a chunk with offsets of its own: offsets run on through the whole stream, as
 *         clients add chunks up.
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/token_scores.h"

#include <float.h>
#include <jansson.h>
#include <math.h>

#include "config/mem.h"
#include "server/text_hold.h"

/* bytes:\xNN for every byte of the longest token, or the token itself. */
enum { NAME_BYTES_MAX = 6 + 4 * TOKEN_BYTES_MAX };

struct token_scores {
    const struct tokenizer *tokenizer; /* outlives this */
    struct text_hold hold;
    struct byte_buffer text;         /* what one token gave, cleared for each */
    struct byte_buffer name;         /* the token's name, cleared for each */
    struct token_scores_start place; /* of the next token */
    size_t n_pending;
    json_t *tokens, *logprobs, *top, *offsets;
};

static void clear_lists(struct token_scores *scores)
{
    json_decref(scores->tokens);
    json_decref(scores->logprobs);
    json_decref(scores->top);
    json_decref(scores->offsets);
    scores->tokens = scores->logprobs = scores->top = scores->offsets = NULL;
}

static bool make_lists(struct token_scores *scores)
{
    scores->tokens = json_array();
    scores->logprobs = json_array();
    scores->top = json_array();
    scores->offsets = json_array();
    scores->n_pending = 0;
    return scores->tokens != NULL && scores->logprobs != NULL && scores->top != NULL &&
           scores->offsets != NULL;
}

enum status token_scores_new(const struct tokenizer *tokenizer, struct token_scores_start start,
                             struct token_scores **ret_scores)
{
    *ret_scores = NULL;
    struct token_scores *scores = mem_zalloc(1, sizeof *scores);
    if (scores == NULL)
        return STATUS_NO_MEMORY;
    scores->tokenizer = tokenizer;
    scores->place = start;
    byte_buffer_init(&scores->text, NAME_BYTES_MAX);
    byte_buffer_init(&scores->name, NAME_BYTES_MAX);
    if (!make_lists(scores)) {
        token_scores_free(&scores);
        return STATUS_NO_MEMORY;
    }
    *ret_scores = scores;
    return OK;
}

void token_scores_free(struct token_scores **scores)
{
    if (*scores == NULL)
        return;
    clear_lists(*scores);
    byte_buffer_release(&(*scores)->text);
    byte_buffer_release(&(*scores)->name);
    mem_free(*scores);
    *scores = NULL;
}

/* The name by which a token is listed; empty if memory lacked. */
static struct slice name_of(struct token_scores *scores, uint32_t id)
{
    struct slice piece = tokenizer_piece(scores->tokenizer, id);
    if (unicode_is_valid(piece))
        return piece;
    byte_buffer_clear(&scores->name);
    byte_buffer_text(&scores->name, "bytes:");
    for (size_t i = 0; i < piece.len; i++)
        byte_buffer_format(&scores->name, "\\x%02x", (uint8_t)piece.bytes[i]);
    return (struct slice){scores->name.bytes, scores->name.failed ? 0 : scores->name.len};
}

/* JSON has no infinity; the least float is as impossible. */
static json_t *real_of(float logprob)
{
    return json_real(isfinite(logprob) ? (double)logprob : -(double)FLT_MAX);
}

/* False if memory lacked. A name that is there keeps the first, greater, value. */
static bool add_top(struct token_scores *scores, json_t *object, uint32_t id, float logprob)
{
    struct slice name = name_of(scores, id);
    if (name.len == 0)
        return false;
    if (json_object_getn(object, name.bytes, name.len) != NULL)
        return true;
    return json_object_setn_new(object, name.bytes, name.len, real_of(logprob)) == 0;
}

/* The alternatives and the chosen token; null for the first token of a prompt, which nothing
 * predicted. */
static json_t *top_of(struct token_scores *scores, const struct token_output *output)
{
    if (!output->has_logprob)
        return json_null();
    json_t *object = json_object();
    bool is_made = object != NULL;
    for (uint32_t i = 0; is_made && i < output->n_top; i++)
        is_made = add_top(scores, object, output->top[i].id, output->top[i].logprob);
    is_made = is_made && add_top(scores, object, output->id, output->logprob);
    if (is_made)
        return object;
    json_decref(object);
    return NULL;
}

/* A control token that the model gives is no part of the text; one in the prompt is, where the
 * prompt is echoed, unless encoding put it there. */
static struct slice text_of(struct token_scores *scores, const struct token_output *output)
{
    struct slice text = tokenizer_text(scores->tokenizer, output->id, &scores->place.is_inside);
    bool is_control =
        vocabulary_kind(tokenizer_vocabulary(scores->tokenizer), output->id) == TOKEN_CONTROL;
    bool is_silent = scores->place.n_silent > 0 || (is_control && !output->is_prompt);
    scores->place.n_silent -= scores->place.n_silent > 0;
    return is_silent ? (struct slice){"", 0} : text;
}

enum status token_scores_add(struct token_scores *scores, const struct token_output *output)
{
    json_t *logprob = output->has_logprob ? real_of(output->logprob) : json_null();
    struct slice name = name_of(scores, output->id);
    bool is_added = name.len > 0 &&
                    json_array_append_new(scores->tokens, json_stringn(name.bytes, name.len)) == 0;
    is_added = json_array_append_new(scores->logprobs, logprob) == 0 && is_added;
    is_added = is_added && json_array_append_new(scores->top, top_of(scores, output)) == 0 &&
               json_array_append_new(scores->offsets,
                                     json_integer((json_int_t)scores->place.offset)) == 0;
    byte_buffer_clear(&scores->text);
    struct slice text = text_of(scores, output);
    text_hold_push(&scores->hold, text.bytes, text.len, &scores->text);
    if (!is_added || scores->text.failed)
        return STATUS_NO_MEMORY;
    scores->place.offset += character_count((struct slice){scores->text.bytes, scores->text.len});
    scores->n_pending++;
    return OK;
}

enum status token_scores_take(struct token_scores *scores, json_t **ret_object)
{
    *ret_object = json_pack("{s:O, s:O, s:O, s:O}", "tokens", scores->tokens, "token_logprobs",
                            scores->logprobs, "top_logprobs", scores->top, "text_offset",
                            scores->offsets);
    clear_lists(scores);
    if (make_lists(scores) && *ret_object != NULL)
        return OK;
    json_decref(*ret_object);
    *ret_object = NULL;
    return STATUS_NO_MEMORY;
}

size_t token_scores_pending(const struct token_scores *scores)
{
    return scores->n_pending;
}
