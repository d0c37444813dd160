/* kernel_rows.h: the prototypes of every kernel of kernels.def; for the files that define them and for pick.c. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_KERNEL_ROWS_H
#define FOLDKV_KERNELS_KERNEL_ROWS_H

#include "kernels/cpu_features.h"
#include "kernels/kernel.h"

#define OP(op, member, type) typedef type op##__fn;
#include "kernels/kernels.def"

#define KERNEL(op, isa, function, features) op##__fn function;
#include "kernels/kernels.def"

#endif
