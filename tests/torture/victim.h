/* victim.h: the server under torture, and what must hold when it is over: everyone else served, nothing lost. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_TESTS_VICTIM_H
#define FOLDKV_TESTS_VICTIM_H

#include "tests/support/daemon.h"
#include "tests/support/fake_engine.h"
#include "tests/support/peer.h"

/* The program with the fake engine (FOLDKV_TEST_FAKE), ready. flags as for daemon_start. With FOLDKV_TEST_TRANSPORT=unix it
 * listens on a Unix socket. */
struct daemon *victim_start(const char *const flags[]);
/* The text of a POST /v1/completions, head and body, into text[size]; more is put into the JSON, e.g. ",\"stream\":true". */
size_t victim_request(enum fake_pace pace, uint32_t max_tokens, const char *more, char *text,
                      size_t size);
/* Sends one. */
void victim_ask(struct peer *peer, enum fake_pace pace, uint32_t max_tokens, const char *more);
/* Another client is served now: a completion comes back whole. */
void victim_require_service(struct daemon *daemon);
/* Waits until no request runs or waits and no connection but the asking one is open; then the books must balance. */
void victim_require_rest(struct daemon *daemon);
/* The number of descriptors at rest is what it was; then stops it and requires exit code 0. */
void victim_stop(struct daemon **daemon, int descriptors);

#endif
