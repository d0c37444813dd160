/* service.h: what all routes share. Made by the serve command, read by routes; only the loop writes to it after start. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_SERVICE_H
#define FOLDKV_SERVER_SERVICE_H

#include <uv.h>

#include "config/options.h"
#include "sched/engine.h"
#include "server/server_stats.h"
#include "server/tokenizer.h"

struct admin;
struct completion;
struct release_stats;
struct releases;

struct service {
    struct options options;
    size_t n_words; /* serve's command line, to be read again; argv's own */
    char *const *words;
    struct engine *engine;
    struct engine_port *port; /* the loop's */
    struct releases *releases;
    struct release_stats *release_stats;
    struct lane *lane; /* stable's, as of the loop's last turn; the loop's alone */
    bool may_pin;      /* a request may name its generation */
    struct tokenizer *tokenizer;
    struct server_stats *stats;
    uv_loop_t *uv;
    char model_name[129];
    char generation[17]; /* hex of the identity's first bytes; "" if there is none to show */
    char plan[17];       /* and of its kernel plan's hash; "" if there was no memory to take it */
    const char *isa;     /* the highest instruction set that its kernels use */
    char numerics[96];   /* what decides a bit of a result beside it */
    int64_t created_s;   /* when the model was loaded */
    uint64_t seed;       /* makes the ids of two runs differ */
    uint64_t next_seed;  /* of requests that bring none */
    bool is_ready;       /* what /readyz says */
    bool is_closing;     /* no connection is kept after its answer */
    struct admin *admin; /* NULL: there is no admin listener */
    struct completion *completions; /* those that live, a list of completion.c's */
};

/* Requests go to this lane from now on, and what is told of the generation is of it. The loop, or before it starts. */
void service_follow(struct service *service, struct lane *stable);
/* The request names something else than the served name, and may: a generation, if it is one. Any thread. */
bool service_is_pin(const struct service *service, struct slice asked);
/* OK for the served name and for none (bytes NULL); for others as releases_check_pin if they may be named, else
 * MODEL_NOT_FOUND with both names. Any thread. */
enum status service_check_model(const struct service *service, struct slice asked,
                                struct why *ret_why) MUST_USE;

#endif
