/* kv_store_tmpl.h: one token's K and V into its unit, as a template over lanes.h.
 *
 * K lies across the unit ([d_qk][16]), so a token's K row is a column: sixteen values are rounded
 * at once and stored apart.
 * Storing is under one part in a hundred of a prefill, so whole units are not packed specially.
 *
 * The including file defines LANES_x and ATTEND_NAME(op). */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_KV_STORE_TMPL_H
#define FOLDKV_KERNELS_KV_STORE_TMPL_H

#include "kernels/lanes.h"

#include <string.h>

#include "kernels/kernel_rows.h"

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

#endif
