/* quant_groups.h: what the NEON and dot-product tiles share before they say how four rows' sums are made:
 *     group_sums(type, w, q): four rows' sums of (w - offset) * q over 16 columns; w holds four quads. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_ARM_QUANT_GROUPS_H
#define FOLDKV_KERNELS_ARM_QUANT_GROUPS_H

#include "kernels/matmul_quant_tmpl.h"

enum { GROUP_ROWS = 4, GROUPS = PANEL_ROWS / GROUP_ROWS };

QUANT_INLINE int32x4_t group_sums(const enum weight_type type, const int8x16_t w[4], int8x16_t q);

#endif
