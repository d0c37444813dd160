/* suite_run.h: the main function of every Check program. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_TESTS_SUITE_RUN_H
#define FOLDKV_TESTS_SUITE_RUN_H

#include <check.h>

/* Runs the suite in fork mode (CK_FORK=no overrides), prints what failed, frees it; the
 * process's exit code. */
int suite_run(Suite *suite);

#endif
