/* rollout_screen.h: a rollout's status (sched/release/rollout_status.h) for a person: where it stands, arms, gates. Any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_ROLLOUT_SCREEN_H
#define FOLDKV_SERVER_ROLLOUT_SCREEN_H

#include <jansson.h>
#include <stdio.h>

#include "sched/judge/rollout.h"

/* has_colour: verdicts in colour, for terminals. */
void rollout_screen_print(const json_t *status, bool has_colour, FILE *out);
/* A list of {gate, verdict, figures}. */
void rollout_screen_gates(const json_t *gates, bool has_colour, FILE *out);
/* The state that it is in; ROLLOUT_STATE_COUNT if the status names none that is known. */
enum rollout_state rollout_screen_state(const json_t *status);
/* The text member, or "". */
const char *rollout_screen_text(const json_t *object, const char *key);

#endif
