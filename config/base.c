/* base.c: the end of a failed assertion.
 *
 * WHY     An assertion that stays on in release must say where and what before the process ends.
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/base.h"

#include <stdio.h>
#include <stdlib.h>

void base_assert_failed(const char *file, int line, const char *condition)
{
    fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, condition);
    abort();
}
