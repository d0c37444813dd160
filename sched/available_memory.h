/* available_memory.h: how much memory the system could give now. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_AVAILABLE_MEMORY_H
#define FOLDKV_SCHED_AVAILABLE_MEMORY_H

#include "config/base.h"

/* Bytes: the kernel's own estimate (MemAvailable), within the control group's limit if there is
 * one; free pages where neither can be read. */
uint64_t available_memory_bytes(void);
/* Tests: from now on that many, UINT64_MAX: what there really is. Any thread. */
void available_memory_pretend(uint64_t bytes);

#endif
