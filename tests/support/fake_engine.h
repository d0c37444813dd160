/* fake_engine.h: what the fake engine does with a request, chosen by the request's seed.
 *
 * fake_engine.c implements sched/engine.h without a model, so that tests of the server decide how fast tokens come and which requests
 * fail. It generates the tokens 100, 101, 102, ... It is linked into a program of its own (foldkv_fake), never into foldkv. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_TESTS_FAKE_ENGINE_H
#define FOLDKV_TESTS_FAKE_ENGINE_H

enum fake_pace {
    FAKE_FAST = 1,       /* all tokens at once */
    FAKE_SLOW = 2,       /* a token every 20 ms */
    FAKE_NEVER = 3,      /* waits until it is cancelled */
    FAKE_FAIL_FIRST = 4, /* ends with a numeric error before the first token */
    FAKE_FAIL_LATER = 5  /* the same after three tokens */
};                       /* any other seed: a token a millisecond */

/* Besides: on SIGUSR1 sent by sigqueue the allocation whose number the signal carries is made to fail (mem_fail_nth), and the counter
 * foldkv_steps_total shows mem_calls(). */

#endif
