/* reload.c: the options once more.
 *
 * WHY     A limit is found wrong under load, when a restart is what nobody wants.
 * HOW     The whole line is read as at the start, so a flag still beats the file. What the loop reads from the service's options
 *         at each use holds from the next use on; the log and the engine's queue are told.
 * ALWAYS  (1) Options that do not read well, or do not go together, change nothing.   reload
 * THREAD  loop
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/reload.h"

#include "server/log.h"

extern char **environ;

static void tell(void *user, const char *key, const char *before, const char *after, bool is_taken)
{
    (void)user;
    if (is_taken)
        log_event(LOG_LEVEL_INFO, "reload", "%s: %s is %s now", key, before, after);
    else
        log_event(LOG_LEVEL_WARN, "reload", "%s: stays \"%.100s\"; \"%.100s\" needs a restart", key,
                  before, after);
}

void reload(struct service *service)
{
    struct options fresh;
    struct options_line line;
    struct why why = {0};
    enum status s = options_load(OPTIONS_SERVE, service->n_words, service->words, environ, NULL, 0,
                                 &fresh, &line, &why);
    if (s == OK)
        s = engine_set_queue(service->engine, fresh.engine_queue_max, fresh.engine_queue_tokens_max,
                             &why);
    if (s != OK) {
        log_event(LOG_LEVEL_WARN, "reload", "all options stay as they are: %s", why.text);
        return;
    }
    log_event(LOG_LEVEL_INFO, "reload", "options read again; file: %s",
              line.config_path != NULL ? line.config_path : "none (--config)");
    options_take_live(&service->options, &fresh, tell, NULL);
    log_set_level(service->options.server_log_level);
}
