/* vocabulary_fuzz.c: any bytes as a file with a vocabulary, by vocabulary_open.h. */
// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/vocabulary_open.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct gguf *gguf = NULL;
    struct why why = {0};
    if (gguf_parse(bytes, len, &gguf, &why) == OK)
        (void)vocabulary_open(gguf);
    gguf_free(&gguf);
    return 0;
}
