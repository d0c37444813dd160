/* vocabulary_open.h: what must hold of a vocabulary that is taken. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_TESTS_VOCABULARY_OPEN_H
#define FOLDKV_TESTS_VOCABULARY_OPEN_H

#include "config/gguf.h"

/* Opens the file's vocabulary: refused with a reason, or taken, and then every token has its bytes and a text makes tokens of
 * the vocabulary. Aborts otherwise. True if it was taken. */
bool vocabulary_open(const struct gguf *gguf);

#endif
