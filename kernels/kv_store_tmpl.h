/* kv_store_tmpl.h: one token's K and V into its unit, as a template over lanes.h.
 *
 * K lies across the unit ([d_qk][16]), so a token's K row is a column: sixteen values are rounded
 * at once and stored apart; int8 has quads of four columns, and of four tokens of V (attention.h).
 * Storing is under one part in a hundred of a prefill, so whole units are not packed specially.
 *
 * The including file defines LANES_x and ATTEND_NAME(op). */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_KV_STORE_TMPL_H
#define FOLDKV_KERNELS_KV_STORE_TMPL_H

#include "kernels/lanes.h"

#include <string.h>

#include "kernels/kernel_rows.h"
#include "kernels/quantise_scale.h"

void ATTEND_NAME(kv_store_f16)(uint32_t d_qk, uint32_t d_v, uint32_t token, const float *k,
                               const float *v, void *k_part, void *v_part)
{
    uint16_t *k_column = (uint16_t *)k_part + token;
    for (uint32_t i = 0; i < d_qk; i += 16) {
        uint16_t rounded[16];
        v16_store_f16(rounded, v16_load(k + i));
        for (uint32_t lane = 0; lane < 16; lane++)
            k_column[(size_t)(i + lane) * ATTEND_UNIT] = rounded[lane];
    }
    uint16_t *v_row = (uint16_t *)v_part + (size_t)token * d_v;
    for (uint32_t j = 0; j < d_v; j += 16)
        v16_store_f16(v_row + j, v16_load(v + j));
}

void ATTEND_NAME(kv_store_f32)(uint32_t d_qk, uint32_t d_v, uint32_t token, const float *k,
                               const float *v, void *k_part, void *v_part)
{
    float *k_column = (float *)k_part + token;
    for (uint32_t i = 0; i < d_qk; i++)
        k_column[(size_t)i * ATTEND_UNIT] = k[i];
    memcpy((float *)v_part + (size_t)token * d_v, v, d_v * sizeof *v);
}

/* The scale of a row, and its numbers as whole floats in -127..127. */
LANES_INLINE float store_round(uint32_t d, const float *from, float *ret_whole)
{
    v16 top = v16_zero();
    for (uint32_t i = 0; i < d; i += 16)
        top = v16_magnitude(top, v16_load(from + i));
    struct quantise_scale scale = quantise_scale(v16_fold_magnitude(top), QUANTISE_BYTE);
    v16 inverse = v16_set1(scale.inverse);
    for (uint32_t i = 0; i < d; i += 16)
        v16_store(ret_whole + i,
                  scale.flat ? v16_zero()
                             : v16_from_int(v16_round(v16_mul(v16_load(from + i), inverse))));
    return scale.d;
}

void ATTEND_NAME(kv_store_i8)(uint32_t d_qk, uint32_t d_v, uint32_t token, const float *k,
                              const float *v, void *k_part, void *v_part)
{
    float whole[ATTEND_WIDTH_MAX];
    float scale = store_round(d_qk, k, whole);
    uint8_t *k_bytes = (uint8_t *)k_part + (size_t)4 * token;
    for (uint32_t i = 0; i < d_qk; i++)
        k_bytes[(size_t)(i / 4 * 4) * ATTEND_UNIT + i % 4] = (uint8_t)((int32_t)whole[i] + 128);
    memcpy((char *)k_part + (size_t)ATTEND_UNIT * d_qk + token * sizeof scale, &scale,
           sizeof scale);
    scale = store_round(d_v, v, whole);
    int8_t *v_bytes = (int8_t *)v_part + (size_t)(token / 4 * 4) * d_v + token % 4;
    for (uint32_t j = 0; j < d_v; j++)
        v_bytes[(size_t)4 * j] = (int8_t)(int32_t)whole[j];
    memcpy((char *)v_part + (size_t)ATTEND_UNIT * d_v + token * sizeof scale, &scale, sizeof scale);
}

#endif
