/* reload.h: SIGHUP: the options are read again, and those hold that can without a restart. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_RELOAD_H
#define FOLDKV_SERVER_RELOAD_H

#include "server/service.h"

/* Reads what serve read at its start (file, environment, flags) and takes the LIVE rows that changed;
 * each change is logged, also one that waits for a restart. Bad options change nothing. Loop. */
void reload(struct service *service);

#endif
