/* lanes_probe.h: the operations of lanes.h behind function pointers, one table an instruction set, so that one test can hold
 * them together. Arrays of sixteen. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_TESTS_LANES_PROBE_H
#define FOLDKV_TESTS_LANES_PROBE_H

#include <stdbool.h>
#include <stdint.h>

enum { LANES = 16 };

struct lanes_probe {
    void (*load_f16)(const uint16_t *p, float *out);
    void (*load_bf16)(const uint16_t *p, float *out);
    void (*store_f16)(const float *v, uint16_t *out);
    void (*fma)(const float *a, const float *b, const float *c, float *out);
    void (*add)(const float *a, const float *b, float *out);
    void (*sub)(const float *a, const float *b, float *out);
    void (*mul)(const float *a, const float *b, float *out);
    void (*div)(const float *a, const float *b, float *out);
    void (*max)(const float *a, const float *b, float *out);
    void (*sqrt)(const float *a, float *out);
    void (*exp)(const float *a, float *out);
    void (*keep)(const float *a, int n, float *out);
    bool (*any_gt)(const float *a, const float *b);
    float (*fold_max)(const float *a);
    float (*fold_add)(const float *a);
};

extern const struct lanes_probe lanes_probe__scalar, lanes_probe__avx2, lanes_probe__avx512, lanes_probe__neon;

#endif
