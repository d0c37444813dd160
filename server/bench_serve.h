/* bench_serve.h: `foldkv bench serve`: drives a running server, ours or any other that speaks
 * OpenAI's completions. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_BENCH_SERVE_H
#define FOLDKV_SERVER_BENCH_SERVE_H

#include "config/why.h"

/* Arguments behind `bench serve`; help text in bench_serve_help. Prints figures on out, as JSON
 * with --json. BAD_OPTION for a usage error; IO or INTERNAL if the server failed a request. */
enum status bench_serve(int argc, char **argv, FILE *out, struct why *ret_why) MUST_USE;
const char *bench_serve_help(void);

#endif
