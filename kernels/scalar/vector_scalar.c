/* vector_scalar.c: element-wise operations and the reading of logits, in plain C: the definition. */
// SPDX-License-Identifier: Apache-2.0
#define LANES_SCALAR 1
#define VECTOR_NAME(op) op##__scalar

#include "kernels/vector_tmpl.h"
