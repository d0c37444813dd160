/* completion_priv.h: the completion itself, for completion*.c alone. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_COMPLETION_PRIV_H
#define FOLDKV_SERVER_COMPLETION_PRIV_H

#include "sched/release/releases.h"
#include "server/completion.h"
#include "server/completion_request.h"
#include "server/text_hold.h"
#include "server/token_scores.h"

enum { COMPLETION_MAGIC = 0x636f6d70, COMPLETION_ID_BYTES = 160, COMPLETION_TEXT_MAX = 64 << 20 };

struct completion_wish {
    bool stream, include_usage, continuous_usage;
};

struct completion {
    uint32_t magic;
    struct service *service;
    struct connection *connection; /* NULL once the client has left or was answered */
    struct completion *previous, *next;
    uv_work_t work;
    bool is_busy;      /* on the stack or with a worker: not to be freed */
    bool is_submitted; /* the engine had it: request is freed only when done */

    struct byte_buffer body;
    struct completion_request
        *asked;                  /* from parsing to submission: a large body is not kept longer */
    struct completion_wish wish; /* what of it the answer needs */
    struct token_ids ids;
    enum status status; /* of parsing, encoding, submitting */
    struct why why;

    uint32_t context;             /* of stable, when it came */
    struct release_choice choice; /* where it goes */
    bool has_choice;              /* to be ended with releases_end */
    struct request *request;
    struct stop_match *stops;
    struct text_hold hold;
    bool is_inside; /* the next token, as in tokenizer_text */
    struct token_scores *scores; /* NULL: none asked for */
    struct byte_buffer raw;      /* whole characters, before stop strings */
    struct byte_buffer text;     /* what may go out: all of it, or since the last event */
    bool is_begun;               /* the answer's first byte is out */
    bool is_stopped;             /* a stop string matched */
    bool is_shut_down;           /* cancelled because the server ends */

    char id[COMPLETION_ID_BYTES];
    int64_t created_s;
    uint32_t n_prompt;
    uint32_t n_generated;
    uint64_t arrived_ns, submitted_ns, first_ns, last_ns;
};

/* completion_prepare.c. Any thread: body to checked fields and tokens; the outcome in status and why. */
void completion_prepare(struct completion *k);
/* Loop: to the engine. On failure the status and why say why and nothing is submitted. */
enum status completion_submit(struct completion *k) MUST_USE;

/* completion_route.c. Loop: chooses where it goes; tells the connection. */
enum status completion_choose(struct completion *k) MUST_USE;
/* Gives request to the chosen generation's engine, or to another that may have it. On failure it is the caller's. */
enum status completion_hand_over(struct completion *k, struct request **request) MUST_USE;
/* Its generation closed before it had begun: it goes elsewhere. False: it cannot. */
bool completion_go_elsewhere(struct completion *k);
/* It is over: what came of it is counted for its arm. */
void completion_end_choice(struct completion *k);

/* completion_stream.c. Takes outputs as far as there is room; true if it is over and the client has its answer. */
bool completion_pump(struct completion *k);

/* completion.c. The client gets an error instead of an answer, or at its end; *not* a free. */
void completion_fail(struct completion *k, enum status status, const struct why *why);

#endif
