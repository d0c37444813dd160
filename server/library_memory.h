/* library_memory.h: libuv, Jansson and libcrypto take their memory from config/mem.h, so one counter and one injector reach all. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_LIBRARY_MEMORY_H
#define FOLDKV_SERVER_LIBRARY_MEMORY_H

#include "config/base.h"

/* Before any of the libraries has allocated: the first thing main does. False if one had allocated already. */
bool library_memory_install(void);

#endif
