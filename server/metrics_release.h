/* metrics_release.h: generations and the rollout as Prometheus text, by the rows of release_stats.def. Any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_METRICS_RELEASE_H
#define FOLDKV_SERVER_METRICS_RELEASE_H

#include "sched/release/releases.h"
#include "server/metrics_family.h"
#include "server/release_stats.h"

/* Loans. */
struct metrics_release {
    const struct releases_figures *figures;
    const struct release_stats *stats;
    const char *isa, *numerics, *plan; /* of the stable generation; isa NULL: nothing is said of kernels */
};

void metrics_release(const struct metrics_printer *p, const struct metrics_release *release);

#endif
