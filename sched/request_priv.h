/* request_priv.h: the inside of a request, for request.c and the engine.
 *
 * Who touches what: the fields under "settled" are written by request_new and read by all; those
 * under "engine" belong to the engine thread from engine_submit on; those under "loop" to the loop
 * thread; the three atomics are how they meet.
 *
 * NEWS  The word `news` keeps a request at most once in the ready queue and makes freeing safe: the
 *       engine sets NEWS_QUEUED (and NEWS_DONE with it) in one exchange and queues the pointer only
 *       if the bit was clear; after the exchange that sets NEWS_DONE it never touches the request
 *       again. The loop learns of NEWS_DONE only in the exchange that clears NEWS_QUEUED, so a done
 *       request is in no queue when the loop frees it. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_REQUEST_PRIV_H
#define FOLDKV_SCHED_REQUEST_PRIV_H

#include <stdatomic.h>

#include "sched/request.h"

enum request_state {
#define STATE(name, moves) REQUEST_##name,
#include "sched/request.def"
#undef STATE
    REQUEST_STATE_COUNT
};

enum request_cancel { REQUEST_KEEP, REQUEST_CANCEL, REQUEST_STOP };

enum { NEWS_QUEUED = 1, NEWS_DONE = 2 };

struct engine_port;
struct lane;
struct request_slot; /* one output in the ring, private to request.c */

struct request {
    uint32_t magic;

    /* settled */
    uint32_t n_ids;
    uint32_t max_tokens;
    int32_t logprobs;
    bool prompt_logprobs;
    bool ignore_eos;
    bool has_salt;
    uint8_t salt[32];
    struct sampling sampling;
    void *user;
    uint32_t capacity; /* outputs that the ring holds: every one there can be */
    size_t slot_bytes;
    char *slots;

    /* engine */
    enum request_state state;
    uint32_t *ids; /* the prompt, then what was generated: room for n_ids + max_tokens */
    uint32_t n_generated;
    uint32_t
        computed_rows; /* positions ever computed: what is computed below it is recomputation */
    uint32_t cached_tokens; /* set before the first output */
    enum finish_reason finish_reason;
    enum status error;
    struct request_times times;
    struct sequence *sequence; /* its K/V while it runs; the engine's to open and close */
    struct request *next;      /* the engine's lists */
    struct engine_port *port;  /* where it came from and goes back to */
    struct lane *lane;         /* to its last token */
    uint64_t own_submitted_ns, own_first_ns; /* on the lane's own clock: submitted, first output, */
    uint64_t own_first_token_ns, own_last_token_ns; /* first and last generated token */

    /* where the threads meet */
    _Alignas(64) _Atomic uint32_t n_pushed; /* released by request_push */
    _Atomic uint32_t news;
    _Atomic uint32_t cancel; /* enum request_cancel, set once */

    /* loop */
    _Alignas(64) uint32_t n_taken;
    bool is_done;
};

/* Asserts that the move is one of request.def's. Engine thread. */
void request_set_state(struct request *request, enum request_state state);

/* Copies output into the ring and, if it is not a prompt's score, its id behind ids. There is
 * always room: pushing more than max_tokens (plus n_ids with prompt_logprobs) is a mistake of the
 * engine's and asserted. With logprobs < 0 only the id is kept. */
void request_push(struct request *request, const struct token_output *output);
/* True if the caller must put request into the ready queue: it has news and is not there yet.
 * Engine thread. */
bool request_announce(struct request *request) MUST_USE;
/* Ends it: moves to DONE and lets go. The result is as request_announce's; the engine may not touch
 * request afterwards, and puts the pointer alone into the queue. error is OK unless reason is
 * FINISH_ERROR. */
bool request_finish(struct request *request, enum finish_reason reason, enum status error) MUST_USE;
/* The loop has taken request out of the ready queue: what was announced is now to be seen. Loop
 * thread. */
void request_take_news(struct request *request);

/* Only the first wish counts. Loop thread. */
void request_ask(struct request *request, enum request_cancel wish);
/* What was asked. Engine thread. */
enum request_cancel request_asked(const struct request *request);

/* Outputs given so far. Engine thread. */
static inline uint32_t request_n_outputs(const struct request *request)
{
    return atomic_load_explicit(&request->n_pushed, memory_order_relaxed);
}

/* Tokens now known: the prompt and what was generated. */
static inline uint32_t request_n_tokens(const struct request *request)
{
    return request->n_ids + request->n_generated;
}

#endif
