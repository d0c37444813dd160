/* rollout_watch.h: one rollout on a terminal: once, or live until it ends. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_ROLLOUT_WATCH_H
#define FOLDKV_SERVER_ROLLOUT_WATCH_H

#include "server/admin_line.h"

/* Once: DONE if it was shown. Live: every second, redrawn on a terminal, else anew at each change of state, step or verdict (with --json a line
 * each); DONE if the rollout ended promoted. */
int rollout_watch(struct admin_line *line, const char *id, bool is_live);
/* Asks for a change that is answered with the rollout's status, and shows that below the headline; where it began a rollback, once that
 * is over. The exit code; FAILED if the rollback is blocked. */
int rollout_watch_answer(struct admin_line *line, struct admin_question *question, const char *headline);

#endif
