/* metrics_family.h: the pieces of Prometheus text: a family's head, a label's value, a histogram's samples. Any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_METRICS_FAMILY_H
#define FOLDKV_SERVER_METRICS_FAMILY_H

#include "server/byte_buffer.h"
#include "server/histogram.h"

struct metrics_printer {
    struct byte_buffer *out;
    bool is_openmetrics;
};

/* HELP and TYPE of prefix + name + suffix. OpenMetrics leaves a counter's _total to its samples. */
void metrics_family(const struct metrics_printer *p, const char *prefix, const char *name, const char *type,
                    const char *suffix, const char *prose);
/* The text with its quotes, backslashes and newlines made harmless. */
void metrics_label_value(struct byte_buffer *out, const char *text);
/* The samples of prefix + name + "_seconds"; labels is "" or "a=\"b\",c=\"d\"". */
void metrics_histogram(const struct metrics_printer *p, const char *prefix, const char *name,
                       const char *labels, const struct histogram *h);

#endif
