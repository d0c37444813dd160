/* metrics_family.c: the pieces of Prometheus text 0.0.4 and of OpenMetrics 1.0. */
// SPDX-License-Identifier: Apache-2.0
#include "server/metrics_family.h"

#include <inttypes.h>

void metrics_family(const struct metrics_printer *p, const char *prefix, const char *name, const char *type,
                    const char *suffix, const char *prose)
{
    const char *end = p->is_openmetrics && strcmp(suffix, "_total") == 0 ? "" : suffix;
    byte_buffer_format(p->out, "# HELP %s%s%s %s\n# TYPE %s%s%s %s\n", prefix, name, end, prose,
                       prefix, name, end, type);
}

void metrics_label_value(struct byte_buffer *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            byte_buffer_text(out, "\\");
        byte_buffer_append(out, *text == '\n' ? " " : text, 1);
    }
}

void metrics_histogram(const struct metrics_printer *p, const char *prefix, const char *name,
                       const char *labels, const struct histogram *h)
{
    bool has_labels = labels[0] != '\0';
    const char *comma = has_labels ? "," : "", *open = has_labels ? "{" : "", *close = has_labels ? "}" : "";
    uint64_t below = 0;
    for (size_t i = 0; i < HISTOGRAM_BOUNDS; i++) {
        below += h->buckets[i];
        byte_buffer_format(p->out, "%s%s_seconds_bucket{%s%sle=\"%g\"} %" PRIu64 "\n", prefix, name, labels,
                           comma, histogram_bounds[i], below);
    }
    byte_buffer_format(p->out,
                       "%s%s_seconds_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n%s%s_seconds_sum%s%s%s %.9g\n"
                       "%s%s_seconds_count%s%s%s %" PRIu64 "\n",
                       prefix, name, labels, comma, h->count, prefix, name, open, labels, close, h->sum_s, prefix,
                       name, open, labels, close, h->count);
}
