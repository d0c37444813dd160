/* vector_neon.c: element-wise operations and the reading of logits, NEON. */
// SPDX-License-Identifier: Apache-2.0
#define LANES_NEON 1
#define VECTOR_NAME(op) op##__neon

#include "kernels/vector_tmpl.h"
