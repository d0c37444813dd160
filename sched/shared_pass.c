/* shared_pass.c: which lanes may compute together, and how long their pass lives.
 *
 * WHY     Same weights and kernels, whatever the K/V types: then a step of both reads each weight once and gives
 *         each the bits that it would get alone. Anything else that differs keeps them apart.
 * OWNS    The pass; a hold on the model.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/shared_pass.h"

#include "config/mem.h"
#include "sched/clock.h"

static uint64_t clock_ns(void *user)
{
    (void)user;
    return clock_now_ns();
}

enum status shared_pass_new(const struct lane_parts *parts, const struct lane_limits *limits,
                            struct workers *workers, struct shared_pass **ret_shared,
                            struct why *ret_why)
{
    *ret_shared = NULL;
    struct shared_pass *shared = mem_zalloc(1, sizeof *shared);
    if (shared == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the steps");
    shared->model = model_hold(parts->model);
    shared->kernels = parts->kernels;
    shared->n_seats = 1;
    struct pass_limits pass_limits = {
        .running_max = limits->running_max * PASS_SCHEDULERS_MAX,
        .prefill_chunk = limits->prefill_chunk,
        .context_max = parts->context_max,
        .is_paced = true,
        .clock_ns = clock_ns,
    };
    enum status s =
        pass_new(shared->model, &shared->kernels, workers, &pass_limits, &shared->pass, ret_why);
    if (s != OK)
        shared_pass_free(&shared);
    *ret_shared = shared;
    return s;
}

void shared_pass_free(struct shared_pass **shared)
{
    struct shared_pass *p = *shared;
    *shared = NULL;
    if (p == NULL)
        return;
    pass_free(&p->pass);
    model_free(&p->model);
    mem_free(p);
}

/* The isa comes last, and there may be padding behind it. */
static bool kernels_agree(const struct kernels *a, const struct kernels *b)
{
    return memcmp(a, b, offsetof(struct kernels, isa)) == 0 && a->isa == b->isa;
}

bool shared_pass_suits(const struct shared_pass *shared, const struct lane_parts *parts)
{
    const struct model *own = shared->model, *its = parts->model;
    return shared->n_seats < PASS_SCHEDULERS_MAX && own->weights == its->weights &&
           memcmp(own->manifest->architecture_hash, its->manifest->architecture_hash,
                  sizeof own->manifest->architecture_hash) == 0 &&
           kernels_agree(&shared->kernels, &parts->kernels);
}
