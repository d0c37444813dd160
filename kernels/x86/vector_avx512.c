/* vector_avx512.c: element-wise operations and the reading of logits, AVX-512. */
// SPDX-License-Identifier: Apache-2.0
#define LANES_AVX512 1
#define VECTOR_NAME(op) op##__avx512

#include "kernels/vector_tmpl.h"
