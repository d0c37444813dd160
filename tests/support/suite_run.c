/* suite_run.c: runs one Check suite.
 *
 * WHY     Each test program's main is the same five lines; here they are once.
 */
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/suite_run.h"

int suite_run(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    int n_run = srunner_ntests_run(runner);
    srunner_free(runner);
    return n_failed == 0 && n_run > 0 ? 0 : 1;
}
