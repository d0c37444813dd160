/* health.c: what is alive, what is ready, and why not.
 *
 * WHY     Alive and ready are two things: a server that drains is alive; one whose engine hangs is not, however well it answers.
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/health.h"

#include "sched/release/releases.h"
#include "server/response.h"

/* A step over the longest prefill chunk on a slow machine stays well below this; a hang does not. */
#define ENGINE_SILENT_NS_MAX 60000000000u

static bool is_engine_alive(const struct service *service)
{
    uint64_t now = uv_hrtime(), progress = engine_progress_ns(service->engine);
    return now < progress || now - progress < ENGINE_SILENT_NS_MAX;
}

struct check {
    const char *name;
    bool is_good;
};

/* "ok", or with verbose a line a check; 503 if one is bad. */
static void answer(struct connection *c, const struct check *checks, size_t n)
{
    const char *query = connection_head(c)->query;
    bool is_verbose = strcmp(query, "verbose") == 0 || strncmp(query, "verbose=", 8) == 0;
    char text[256];
    size_t len = 0;
    bool is_good = true;
    for (size_t i = 0; i < n; i++) {
        is_good = is_good && checks[i].is_good;
        if (is_verbose || !checks[i].is_good)
            len += (size_t)snprintf(text + len, sizeof text - len, "%s: %s\n", checks[i].name,
                                    checks[i].is_good ? "ok" : "no");
    }
    if (is_good)
        len += (size_t)snprintf(text + len, sizeof text - len, "ok\n");
    ASSERT(len < sizeof text);
    response_whole(c, is_good ? HTTP_STATUS_OK : HTTP_STATUS_SERVICE_UNAVAILABLE,
                   "text/plain; charset=utf-8", text, len);
}

void health_livez(struct connection *c)
{
    struct check checks[] = {{"loop", true}, {"engine", is_engine_alive(connection_service(c))}};
    answer(c, checks, ARRAY_LEN(checks));
}

void health_readyz(struct connection *c)
{
    const struct service *service = connection_service(c);
    struct check checks[] = {{"model loaded", true},
                             {"engine", is_engine_alive(service)},
                             {"generation", service->releases == NULL || releases_is_serving(service->releases)},
                             {"accepting requests", service->is_ready}};
    answer(c, checks, ARRAY_LEN(checks));
}

void health_startupz(struct connection *c)
{
    struct check checks[] = {{"model loaded", true}};
    answer(c, checks, ARRAY_LEN(checks));
}
