/* metrics_text.h: every counter as Prometheus text 0.0.4 or OpenMetrics 1.0, and the reference page of all of them.
 *
 * Made from server_stats.def, release_stats.def, sched/engine_stats.def and sched/group_stats.def, so that text,
 * docs and structs cannot differ. Any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_METRICS_TEXT_H
#define FOLDKV_SERVER_METRICS_TEXT_H

#include "sched/engine_stats.h"
#include "server/metrics_release.h"
#include "server/server_stats.h"

/* What the text says beside the counters. Loans. */
struct metrics_about {
    const char *model_name; /* label values are escaped */
    const char *generation;
    uint32_t page_tokens;
    uint64_t process_start_s;
    uint64_t resident_bytes;
    uint32_t open_descriptors;
    const struct metrics_release *release; /* NULL: nothing is said of generations */
};

/* text->failed tells of want of memory. */
void metrics_text(const struct engine_stats *engine, const struct server_stats *server,
                  const struct metrics_about *about, bool is_openmetrics, struct byte_buffer *text);
/* docs/metrics.md. */
void metrics_reference(struct byte_buffer *text);

#endif
