/* pass.c: the members of a pass and its step.
 *
 * WHY     At decode a step lives from the bytes of the weights. Lanes of one checkpoint that each
 *         walked through them would share the memory's bandwidth; in one walk they share the bytes.
 * HOW     A step:
 *             each scheduler: end what was cancelled, admit -> each: plan rows, behind those of the
 *             one before -> decoder -> each: commit                                     pass_step
 *             each: wanted rows -> logits of all together -> sample and score -> each: push, ends
 *             pass_deliver (pass_emit.c)
 *         Room for prompt rows is one for all, by one pace. It is offered first to the scheduler
 *         whose oldest unfinished prompt has waited longest, so that prompts go by age across lanes
 *         and none starves. A step that the machine held up goes on without its prompt rows, unless
 *         the one before did.
 * ALWAYS  (1) Decode rows always have a place: running_max bounds what all may run.     pass_join
 *         (2) A pool that is not the one admitted fails its own requests alone.       plan_rows
 * OWNS    The decoder and the arrays of a step. Schedulers are their lanes'.
 * THREAD  engine
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/pass.h"

#include <math.h>

#include "config/mem.h"
#include "sched/pass_priv.h"

/* How many times faster quantised products are than attention in f32, with all that is neither
 * counted to the products: what weighs the two in a row's cost. Too large, and prompts are held back
 * the more the longer they are. */
enum { PRODUCT_SPEED = 3 };

/* The context at which attention costs a row as much as its products do. */
static double doubling_tokens(const struct graph *g)
{
    double products = 0.0, attention_a_token = 0.0;
    for (uint32_t i = 0; i < g->n_layers; i++) {
        const struct graph_layer *l = &g->layers[i];
        double heads = (double)(l->n_query_heads + l->n_k_heads) * l->d_qk +
                       (double)(l->n_query_heads + l->n_v_heads) * l->d_v;
        products += g->hidden * (heads + 3.0 * g->ffn);
        attention_a_token += (double)l->n_query_heads * (l->d_qk + l->d_v);
    }
    return products / attention_a_token / PRODUCT_SPEED;
}

static uint32_t rows_max(const struct pass *p)
{
    return p->limits.prefill_chunk + p->limits.running_max;
}

static enum status take_arrays(struct pass *p)
{
    size_t sequences = (size_t)p->limits.running_max * p->model->graph->n_groups;
    p->rows.ids = mem_zalloc(rows_max(p), sizeof *p->rows.ids);
    p->rows.sequences = mem_zalloc(sequences, sizeof *p->rows.sequences);
    p->rows.n_asked = mem_zalloc(p->limits.running_max, sizeof *p->rows.n_asked);
    p->wanted.rows = mem_zalloc(rows_max(p), sizeof *p->wanted.rows);
    if (p->rows.ids == NULL || p->rows.sequences == NULL || p->rows.n_asked == NULL ||
        p->wanted.rows == NULL)
        return STATUS_NO_MEMORY;
    return pass_emit_init(p);
}

static enum status make_decoder(struct pass *p, struct why *ret_why)
{
    struct decoder_limits limits = {
        .rows_max = rows_max(p),
        .sequences_max = p->limits.running_max,
        .logit_rows_max = PASS_LOGIT_ROWS,
        .context_max = p->limits.context_max,
    };
    return decoder_new(p->model, p->kernels, p->workers, &limits, &p->decoder, ret_why);
}

enum status pass_new(const struct model *model, const struct kernels *kernels,
                     struct workers *workers, const struct pass_limits *limits,
                     struct pass **ret_pass, struct why *ret_why)
{
    ASSERT(limits->running_max > 0 && limits->prefill_chunk > 0);
    *ret_pass = NULL;
    struct pass *p = mem_zalloc(1, sizeof *p);
    if (p == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the steps");
    p->model = model;
    p->kernels = kernels;
    p->workers = workers;
    p->limits = *limits;
    p->n_threads = workers_count(workers);
    pace_init(&p->pace, doubling_tokens(model->graph));
    enum status s = make_decoder(p, ret_why);
    if (s == OK && take_arrays(p) != OK)
        s = why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the rows of a step");
    if (s != OK)
        pass_free(&p);
    *ret_pass = p;
    return s;
}

void pass_free(struct pass **pass)
{
    struct pass *p = *pass;
    if (p == NULL)
        return;
    while (p->n_schedulers > 0)
        pass_leave(p, p->schedulers[p->n_schedulers - 1]);
    pass_emit_release(p);
    mem_free(p->wanted.rows);
    mem_free(p->rows.n_asked);
    mem_free(p->rows.sequences);
    mem_free(p->rows.ids);
    decoder_free(&p->decoder);
    mem_free(p);
    *pass = NULL;
}

/* ---- members ---- */

static uint32_t running_most(const struct pass *p)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < p->n_schedulers; i++)
        most += scheduler_running_max(p->schedulers[i]);
    return most;
}

static enum status check_member(const struct pass *p, const struct scheduler *s,
                                struct why *ret_why)
{
    const struct model *own = p->model, *its = scheduler_model(s);
    if (own->weights != its->weights || memcmp(own->manifest->architecture_hash,
                                               its->manifest->architecture_hash,
                                               sizeof own->manifest->architecture_hash) != 0)
        return why_set(ret_why, STATUS_STALE_PLAN, "",
                       "the lane's weights or architecture are not those of the pass it would join");
    if (running_most(p) + scheduler_running_max(s) > p->limits.running_max)
        return why_set(ret_why, STATUS_UNAVAILABLE, "",
                       "%u requests may run in a step already and the lane may run %u more: all "
                       "together there is room for %u",
                       running_most(p), scheduler_running_max(s), p->limits.running_max);
    return OK;
}

enum status pass_join(struct pass *p, struct scheduler *scheduler,
                      const struct decoder_memory *memory, struct why *ret_why)
{
    uint32_t pool;
    TRY(check_member(p, scheduler, ret_why));
    TRY(decoder_attach(p->decoder, memory, &pool, ret_why));
    scheduler_enter(scheduler, p->decoder, pool);
    p->schedulers[p->n_schedulers++] = scheduler;
    return OK;
}

void pass_leave(struct pass *p, struct scheduler *scheduler)
{
    uint32_t i = 0;
    while (i < p->n_schedulers && p->schedulers[i] != scheduler)
        i++;
    ASSERT(i < p->n_schedulers);
    memmove(&p->schedulers[i], &p->schedulers[i + 1],
            (p->n_schedulers - i - 1) * sizeof p->schedulers[0]);
    p->n_schedulers--;
    decoder_detach(p->decoder, pass_pool(p, scheduler));
    scheduler_leave(scheduler);
}

uint32_t pass_active(const struct pass *p)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n_schedulers; i++)
        n += scheduler_active(p->schedulers[i]);
    return n;
}

uint32_t pass_schedulers(const struct pass *p)
{
    return p->n_schedulers;
}

struct decoder *pass_decoder(struct pass *p)
{
    return p->decoder;
}

uint32_t pass_pool(const struct pass *p, const struct scheduler *scheduler)
{
    ASSERT(scheduler->decoder == p->decoder);
    return scheduler->pool;
}

/* ---- the step ---- */

/* Those whose oldest unfinished prompt is older come first. Insertion: they are few, and mostly in
 * order. */
static void order_by_age(struct pass *p)
{
    uint64_t ages[PASS_SCHEDULERS_MAX];
    for (uint32_t i = 0; i < p->n_schedulers; i++) {
        struct scheduler *s = p->schedulers[i];
        uint64_t age = scheduler_oldest_prompt_ns(s);
        uint32_t at = i;
        for (; at > 0 && ages[at - 1] > age; at--) {
            ages[at] = ages[at - 1];
            p->schedulers[at] = p->schedulers[at - 1];
        }
        ages[at] = age;
        p->schedulers[at] = s;
    }
}

static uint32_t decoding(const struct pass *p)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n_schedulers; i++)
        n += scheduler_decoding(p->schedulers[i]);
    return n;
}

void pass_add_company(const struct pass *p, struct pace_company *company)
{
    bool has_prompts = false;
    for (uint32_t i = 0; i < p->n_schedulers; i++)
        has_prompts |= scheduler_oldest_prompt_ns(p->schedulers[i]) != UINT64_MAX;
    company->n_prompting += has_prompts;
    if (decoding(p) == 0)
        return;
    company->is_unknown |= p->pace.decode_ns == 0.0;
    company->decode_ns += p->pace.decode_ns;
}

void pass_set_company(struct pass *p, const struct pace_company *company)
{
    p->company = *company;
}

static struct prompt_room prompt_room(const struct pass *p)
{
    double units = p->limits.is_paced ? pace_budget_units(&p->pace, decoding(p), &p->company)
                                      : (double)INFINITY;
    return (struct prompt_room){units > 0.0 ? p->limits.prefill_chunk : 0, units};
}

/* True if there is something to compute or to deliver. */
static bool plan_rows(struct pass *p)
{
    bool any_stale = false;
    struct step_rows *rows = &p->rows;
    rows->n_rows = rows->n_sequences = 0;
    rows->made_of = (struct pace_step){.is_in_company = p->company.decode_ns > 0.0};
    rows->room = prompt_room(p);
    for (uint32_t i = 0; i < p->n_schedulers; i++) {
        struct scheduler *s = p->schedulers[i];
        if (decoder_check(p->decoder, s->pool) == OK)
            scheduler_plan(s, rows, &p->pace);
        else
            any_stale |= scheduler_skip(s, STATUS_STALE_PLAN);
    }
    struct attention_sequence *at = rows->sequences;
    for (uint32_t g = 0; g < p->model->graph->n_groups; g++)
        for (uint32_t i = 0; i < p->n_schedulers; i++)
            at = scheduler_sequences(p->schedulers[i], g, at);
    return rows->n_rows > 0 || any_stale;
}

/* For a decoder in the middle of a step. */
static bool is_late(void *user, uint32_t n_done)
{
    struct pass *p = user;
    uint64_t elapsed_ns = p->limits.clock_ns(p->limits.clock_user) - p->started_ns;
    double share = (double)n_done / p->model->graph->n_layers;
    double end_ns = pace_end_ns(&p->pace, &p->rows.made_of, share, elapsed_ns);
    if (!pace_is_late(&p->pace, &p->rows.made_of, &p->company, end_ns))
        return false;
    p->late_end_ns = end_ns;
    return true;
}

static enum status run_decoder(struct pass *p)
{
    bool may_be_late = p->limits.clock_ns != NULL && !decoder_has_shed(p->decoder);
    struct decoder_batch batch = {.n_rows = p->rows.n_rows,
                                  .n_sequences = p->rows.n_sequences,
                                  .ids = p->rows.ids,
                                  .sequences = p->rows.sequences,
                                  .n_asked = p->rows.n_asked,
                                  .is_late = may_be_late ? is_late : NULL,
                                  .late_user = p};
    return decoder_step(p->decoder, &batch);
}

bool pass_step(struct pass *p, uint64_t now_ns)
{
    p->started_ns = now_ns;
    for (uint32_t i = 0; i < p->n_schedulers; i++)
        scheduler_begin(p->schedulers[i], now_ns);
    if (p->n_schedulers > 1)
        order_by_age(p);
    if (!plan_rows(p))
        return false;
    enum status status = p->rows.n_rows > 0 ? run_decoder(p) : OK;
    for (uint32_t i = 0; i < p->n_schedulers; i++)
        scheduler_commit(p->schedulers[i], p->rows.ids, status, decoder_has_shed(p->decoder));
    return true;
}

void pass_observe(struct pass *p, uint64_t elapsed_ns)
{
    if (decoder_has_shed(p->decoder))
        elapsed_ns = (uint64_t)p->late_end_ns; /* what all its rows would have taken */
    pace_observe(&p->pace, p->rows.made_of, elapsed_ns);
}
