/* vector_avx2.c: element-wise operations and the reading of logits, AVX2. */
// SPDX-License-Identifier: Apache-2.0
#define LANES_AVX2 1
#define VECTOR_NAME(op) op##__avx2

#include "kernels/vector_tmpl.h"
