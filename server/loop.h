/* loop.h: the loop thread: listener, signals, timers, the engine's wake-ups, and the end in good order. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_LOOP_H
#define FOLDKV_SERVER_LOOP_H

#include "server/service.h"

struct loop;

/* Makes libuv's loop and sets service->uv. service must outlive it; its options are settled. NO_MEMORY or IO. */
enum status loop_new(struct service *service, struct loop **ret_loop, struct why *ret_why) MUST_USE;
/* Also closes what loop_bind opened, if loop_run was never reached. */
void loop_free(struct loop **loop);
/* HOST:PORT, [IPV6]:PORT or unix:PATH; HOST is a number or "localhost". Takes the address without listening. BAD_OPTION, or IO if the
 * address is taken. */
enum status loop_bind(struct loop *loop, const char *address, struct why *ret_why) MUST_USE;
/* The same for the admin API, whose calls go to service->admin. A Unix socket is its owner's alone. */
enum status loop_bind_admin(struct loop *loop, const char *address, struct why *ret_why) MUST_USE;
/* Where the admin API is; NULL if it was not bound. As long as the loop. */
const char *loop_admin_url(const struct loop *loop);
/* Clients may connect; service->engine and tokenizer must be there. *ret_url, valid as long as the loop, is http://HOST:PORT or unix:PATH. */
enum status loop_listen(struct loop *loop, const char **ret_url, struct why *ret_why) MUST_USE;
/* The engine's on_wake; user is the loop. Any thread, from loop_new to loop_free. */
void loop_wake(void *user);
/* Begins the end, as SIGTERM does. Loop thread; user is the loop. */
void loop_drain(void *user);
/* Runs until a signal and what it asks for are done. True if all ended in good order. */
bool loop_run(struct loop *loop);

#endif
