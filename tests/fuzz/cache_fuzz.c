/* Cache fuzz: open, append, commit, abort, close and purge in any order, against the naive model.
 * */
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/cache_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static struct cache_model_counts counts;
    cache_model_play(bytes, len, &counts);
    return 0;
}
