/* metrics_route.c: gathers what a scrape shows: counters, and what /proc says of the process. */
// SPDX-License-Identifier: Apache-2.0
#include "server/metrics_route.h"

#include <dirent.h>
#include <sys/stat.h>

#include "server/metrics_text.h"
#include "server/response.h"

enum { TEXT_MAX = 1 << 20, PAGE_TOKENS = 64 };

static uint64_t resident_bytes(void)
{
    size_t bytes = 0;
    return uv_resident_set_memory(&bytes) == 0 ? bytes : 0;
}

/* Newer kernels give the number as the folder's size; with older ones the entries are counted. */
static uint32_t open_descriptors(void)
{
    struct stat folder;
    if (stat("/proc/self/fd", &folder) == 0 && folder.st_size > 0)
        return (uint32_t)folder.st_size;
    DIR *dir = opendir("/proc/self/fd");
    uint32_t n = 0;
    if (dir == NULL)
        return 0;
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;)
        n += entry->d_name[0] != '.';
    closedir(dir);
    return n > 0 ? n - 1 : 0; /* the directory itself */
}

void metrics_answer(struct connection *c)
{
    const struct service *service = connection_service(c);
    struct engine_stats engine;
    struct byte_buffer text;
    bool is_openmetrics =
        strstr(connection_head(c)->accept.text, "application/openmetrics-text") != NULL;
    struct metrics_about about = {.model_name = service->model_name,
                                  .generation = service->generation,
                                  .page_tokens = PAGE_TOKENS,
                                  .process_start_s = (uint64_t)service->created_s,
                                  .resident_bytes = resident_bytes(),
                                  .open_descriptors = open_descriptors()};
    static struct releases_figures figures; /* the loop's alone, and large */
    const struct metrics_release release = {.figures = &figures,
                                            .stats = service->release_stats,
                                            .isa = service->isa,
                                            .numerics = service->numerics,
                                            .plan = service->plan};
    releases_figures(service->releases, &figures);
    about.release = &release;
    byte_buffer_init(&text, TEXT_MAX);
    engine_stats_copy(service->engine, &engine);
    engine_stats_measure(service->engine, &engine);
    metrics_text(&engine, service->stats, &about, is_openmetrics, &text);
    if (text.failed)
        response_error(c, STATUS_NO_MEMORY, NULL);
    else
        response_whole(c, HTTP_STATUS_OK,
                       is_openmetrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                      : "text/plain; version=0.0.4; charset=utf-8",
                       text.bytes, text.len);
    byte_buffer_release(&text);
}
