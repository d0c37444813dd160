/* service_notify.h: tells a service manager, if one asks by NOTIFY_SOCKET, how the server is ("READY=1", "STOPPING=1"). Any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_SERVICE_NOTIFY_H
#define FOLDKV_SERVER_SERVICE_NOTIFY_H

#include "config/base.h"

/* False if a manager asked and could not be told. */
bool service_notify(const char *state);

#endif
