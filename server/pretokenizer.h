/* pretokenizer.h: cuts a text into the words inside which tokens are merged, by the pattern that
 * the vocabulary was trained with. Read-only once made, so several walks may run at a time, each on
 * its own thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_PRETOKENIZER_H
#define FOLDKV_SERVER_PRETOKENIZER_H

#include "config/why.h"

struct pretokenizer;
struct word_walk;

/* What a name says beyond its words. */
struct pretokenizer_traits {
    bool
        takes_whole_words; /* a word that is a token is that token, whatever the merges would make of it */
    bool adds_bos;         /* if the file does not say */
};

/* name is the value of tokenizer.ggml.pre. BAD_FILE lists the names served if it is not one;
 * NO_MEMORY. */
enum status pretokenizer_new(struct slice name, struct pretokenizer **ret_pretokenizer,
                             struct why *ret_why) MUST_USE;
struct pretokenizer_traits pretokenizer_traits(const struct pretokenizer *pretokenizer);
void pretokenizer_free(struct pretokenizer **pretokenizer);

/* One caller's state; used for one text after another. The pretokenizer must outlive it.
 * NO_MEMORY. */
enum status word_walk_new(const struct pretokenizer *pretokenizer,
                          struct word_walk **ret_walk) MUST_USE;
void word_walk_free(struct word_walk **walk);
/* Begins a text, which must be well-formed UTF-8 and stay until the walk ends. */
void word_walk_start(struct word_walk *walk, struct slice text);
/* The next word; *ret_word is empty at the end. The words, joined, are the text. NO_MEMORY;
 * INTERNAL if PCRE2 gave up. */
enum status word_walk_next(struct word_walk *walk, struct slice *ret_word) MUST_USE;

#endif
