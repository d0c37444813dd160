/* request.h: one completion from submission to its last token, as both threads see it.
 *
 * The loop thread makes a request, fills its parameters and submits it; from then until
 * request_is_done the engine owns all but the output ring's read side and the cancel flag. Outputs
 * go into a preallocated ring that never fills (it has room for every token the request may give),
 * so the engine never waits. The loop frees it after it has seen done. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_REQUEST_H
#define FOLDKV_SCHED_REQUEST_H

#include "config/status.h"

enum { TOP_LOGPROBS_MAX = 20 };

struct sampling {
    float temperature; /* 0: greedy */
    float top_p;       /* 1: off */
    float min_p;       /* 0: off */
    uint32_t top_k;    /* 0: off */
    uint64_t seed;
};

struct request_params {
    uint32_t *ids;       /* mem_alloc'd; the request takes it */
    uint32_t n_ids;      /* >= 1 */
    uint32_t max_tokens; /* 0: score the prompt only */
    struct sampling sampling;
    int32_t logprobs;     /* -1: none; 0..20: the chosen token's and that many alternatives */
    bool prompt_logprobs; /* score prompt tokens too (echo with logprobs): no cache hit is taken */
    bool ignore_eos;
    uint8_t salt[32]; /* prefix-cache salt; has_salt false: none */
    bool has_salt;
};

struct token_logprob {
    uint32_t id;
    float logprob;
};

/* One output: a prompt position's score or a generated token. With logprobs < 0 only id is
 * meaningful. */
struct token_output {
    uint32_t id;
    bool
        is_prompt; /* scores prompt token id; the first prompt token comes with has_logprob false */
    bool has_logprob;
    float logprob;
    uint32_t n_top; /* greatest first, ties by lowest id */
    struct token_logprob top[TOP_LOGPROBS_MAX];
};

enum finish_reason { FINISH_NONE, FINISH_STOP, FINISH_LENGTH, FINISH_CANCELLED, FINISH_ERROR };

/* When things happened, CLOCK_MONOTONIC; 0: not yet. */
struct request_times {
    uint64_t submitted_ns;
    uint64_t started_ns; /* first taken into the batch */
    uint64_t first_output_ns;
    uint64_t last_output_ns;
    uint64_t done_ns;
    /* On the lane's own clock, which stands still during steps of lanes that it shares no pass with:
     * what a model takes, not what others beside it do. */
    uint64_t ttft_own_ns; /* submission to first output */
    uint64_t tpot_own_ns; /* (last - first) / (n - 1) of n >= 2 generated tokens */
};

struct request;

/* Takes params->ids (NULL afterwards) on success. user is handed back by request_user. NO_MEMORY.
 * Loop thread. */
enum status request_new(struct request_params *params, void *user,
                        struct request **ret_request) MUST_USE;
/* A new one that asks for the same, of one that ended without an output. NO_MEMORY. Loop thread. */
enum status request_again(const struct request *done, struct request **ret_request) MUST_USE;
/* Only a request that was never submitted or is done. Takes NULL. Loop thread. */
void request_free(struct request **request);
void *request_user(const struct request *request);

/* The next output, or false if there is none now. Loop thread. */
bool request_next(struct request *request, struct token_output *ret_output);
/* True once the engine has let go of it; every output is then in the ring. It becomes true only as
 * engine_next_ready hands the request out, so a done request is in no queue. The two below may be
 * called only after that. */
bool request_is_done(const struct request *request);
enum finish_reason request_finish_reason(const struct request *request);
/* Why it failed, for FINISH_ERROR. */
enum status request_error(const struct request *request);
/* Prompt tokens that were found in the cache; valid once the first output is there. */
uint32_t request_cached_tokens(const struct request *request);
uint32_t request_prompt_tokens(const struct request *request);
/* Only after done. */
struct request_times request_times(const struct request *request);

#endif
