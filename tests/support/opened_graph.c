/* opened_graph.c: a file in memory, parsed and read as a graph. */
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/opened_graph.h"

#include <check.h>

#include "config/mem.h"

struct opened_graph opened_graph_of(struct gguf_writer *writer)
{
    size_t len = 0;
    struct opened_graph o = {0};
    o.bytes = gguf_writer_finish(writer, &len);
    gguf_writer_free(&writer);
    ck_assert_msg(gguf_parse(o.bytes, len, &o.gguf, &o.why) == OK, "%s", o.why.text);
    o.status = graph_from_gguf(o.gguf, &o.graph, &o.why);
    return o;
}

void opened_graph_close(struct opened_graph *o)
{
    graph_free(&o->graph);
    gguf_free(&o->gguf);
    mem_free(o->bytes);
}
