/* log.h: the only logger: one line an event on stderr, as text or as JSON.
 *
 * Prompts, answers and keys are never logged. Any thread; a line is written by one write call. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_LOG_H
#define FOLDKV_SERVER_LOG_H

#include "config/base.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* Until it is called: text, info, to standard error. format is "text" or "json", level "error" to "debug"; another word is a
 * mistake of ours (the option table has checked them). */
void log_init(const char *format, const char *level, int descriptor);
/* From now on. Any thread. */
void log_set_level(const char *level);
bool log_is_on(enum log_level level);
/* event is a fixed word ("listening"); the text is one line: control bytes and bad UTF-8 are replaced by '?'. */
void log_event(enum log_level level, const char *event, const char *format, ...) PRINTF_LIKE(3, 4);

#endif
