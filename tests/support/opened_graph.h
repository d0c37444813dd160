/* opened_graph.h: what a writer makes, parsed, and the graph of it or the refusal. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_TESTS_OPENED_GRAPH_H
#define FOLDKV_TESTS_OPENED_GRAPH_H

#include "config/graph.h"
#include "tests/support/gguf_writer.h"

struct opened_graph {
    char *bytes;
    struct gguf *gguf;
    struct graph *graph; /* NULL if refused */
    enum status status;
    struct why why;
};

/* Takes the writer. The file itself must parse; its graph need not. */
struct opened_graph opened_graph_of(struct gguf_writer *writer);
void opened_graph_close(struct opened_graph *opened);

#endif
