/* evaluation_default.c: the file's bytes, put into the program by the assembler. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/evaluation_default.h"

__asm__(".section .rodata\n"
        ".globl foldkv_evaluation_set\n"
        ".globl foldkv_evaluation_set_end\n"
        "foldkv_evaluation_set:\n"
        ".incbin \"" FOLDKV_EVALUATION_SET "\"\n"
        "foldkv_evaluation_set_end:\n"
        ".byte 0\n"
        ".previous\n");

extern const char foldkv_evaluation_set[], foldkv_evaluation_set_end[];

struct slice evaluation_default_text(void)
{
    return (struct slice){foldkv_evaluation_set,
                          (size_t)(foldkv_evaluation_set_end - foldkv_evaluation_set)};
}

void evaluation_default_hash(char ret_hex[SHA256_HEX])
{
    uint8_t hash[SHA256_BYTES];
    struct slice text = evaluation_default_text();
    enum status s = sha256_of(text.bytes, text.len, hash);
    ASSERT(s == OK);
    sha256_hex(hash, ret_hex);
}
