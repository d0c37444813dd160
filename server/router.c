/* router.c: the table of routes. */
// SPDX-License-Identifier: Apache-2.0
#include "server/router.h"

#include "server/completion.h"
#include "server/health.h"
#include "server/metrics_route.h"
#include "server/models_route.h"
#include "server/tokenize_route.h"

static const struct route routes[] = {
    {"/v1/completions", true, completion_answer},
    {"/v1/models", false, models_answer},
    {"/v1/models/", false, models_answer_one},
    {"/tokenize", true, tokenize_answer},
    {"/detokenize", true, detokenize_answer},
    {"/livez", false, health_livez},
    {"/readyz", false, health_readyz},
    {"/startupz", false, health_startupz},
    {"/health", false, health_readyz},
    {"/metrics", false, metrics_answer},
};

static bool is_path_of(const char *path, const struct route *route)
{
    size_t len = strlen(route->path);
    if (route->path[len - 1] == '/')
        return strncmp(path, route->path, len) == 0 && path[len] != '\0';
    return strcmp(path, route->path) == 0;
}

enum status router_find(const struct http_head *head, const struct route **ret_route)
{
    *ret_route = NULL;
    for (size_t i = 0; i < ARRAY_LEN(routes) && !head->is_target_long; i++) {
        if (!is_path_of(head->path, &routes[i]))
            continue;
        *ret_route = &routes[i];
        bool is_post = strcmp(head->method, "POST") == 0;
        bool is_get = strcmp(head->method, "GET") == 0 || strcmp(head->method, "HEAD") == 0;
        return (routes[i].takes_json ? is_post : is_get) ? OK : STATUS_METHOD_NOT_ALLOWED;
    }
    return STATUS_NOT_FOUND;
}

static enum status find(const struct connection *c, const struct route **ret_route,
                        struct why *ret_why)
{
    (void)ret_why; /* the status says it all */
    return router_find(connection_head(c), ret_route);
}

static const char *allowed(const struct connection *c)
{
    const struct route *route = NULL;
    enum status s = router_find(connection_head(c), &route);
    ASSERT(s == STATUS_METHOD_NOT_ALLOWED);
    return route->takes_json ? "POST" : "GET, HEAD";
}

const struct router router_inference = {.find = find, .allowed = allowed};
