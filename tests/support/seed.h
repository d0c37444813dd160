/* seed.h: one seed a test run: FOLDKV_TEST_SEED if it is set, else a new one. A program prints it before its suite runs. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_TESTS_SEED_H
#define FOLDKV_TESTS_SEED_H

#include <stdint.h>
#include <stdlib.h>
#include <time.h>

/* The same in every fork of a program whose main has called it once. */
static inline uint64_t test_seed(void)
{
    static uint64_t seed;
    const char *given = getenv("FOLDKV_TEST_SEED");
    if (seed == 0 && given != NULL)
        seed = strtoull(given, NULL, 0);
    if (seed == 0) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        seed = (uint64_t)now.tv_sec * 1000003u ^ (uint64_t)now.tv_nsec;
    }
    return seed;
}

#endif
