/* base.h: what every file of the program may use: assertions, checked results, array length,
 * banned calls.
 *
 * ASSERT is for our own mistakes only: it stays on in release builds and aborts. What a file, a
 * client or the machine can cause is returned as an enum status, never asserted. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CONFIG_BASE_H
#define FOLDKV_CONFIG_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/banned.h"

#define MUST_USE __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* Prints file, line and the condition on stderr, then aborts. */
_Noreturn void base_assert_failed(const char *file, int line, const char *condition);

#define ASSERT(condition)                                                                          \
    ((condition) ? (void)0 : base_assert_failed(__FILE__, __LINE__, #condition))

/* Returns the status from the calling function if it is not OK. Only where there is nothing to
 * release. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        enum status try_status_ = (call);                                                          \
        if (try_status_ != OK)                                                                     \
            return try_status_;                                                                    \
    } while (0)

/* An unowned run of bytes; not NUL-terminated. */
struct slice {
    const char *bytes;
    size_t len;
};

#endif
