/* canary_rig.c: the candidate's kernels, in which faults wait; requests by arms; rounds.
 *
 * HOW     The candidate is loaded with a table of kernels whose attention looks at one word before it does what
 *         the true one does. The engine has one worker, so that kernel runs on the engine's thread: what a
 *         fault does there races with nobody.
 */
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/canary_rig.h"

#include <check.h>
#include <math.h>

#include "cache/cache_state.h"
#include "config/mem.h"
#include "sched/decoder_priv.h"
#include "sched/lane_priv.h"
#include "tests/support/small_model.h"

enum { SLICE_IDS = 16, PROMPT_IDS = 6, SCORED_IDS = 30, ANSWER_IDS = 12, PAUSE_NS = 3000000 };
/* A late start, the SLO that it misses, and of how many requests one is late. */
enum { LATE_NS = 120000000, LATE_SLO_MS = 60, LATE_TAIL = 40, LATE_FAULT = 2 };

/* ---- faults ---- */

static const char *const fault_names[FAULT_COUNT] = {
    "none",           "a NaN weight",    "scores times 1.01", "a lost page",
    "a masked kernel", "a stale plan",    "another namespace", "repeated K/V",
    "a lost slice",   "a slow prefill",  "a slow decode",     "late starts",
    "refused requests"};

static atomic_int armed; /* enum fault */
static enum fault done;  /* engine thread: has been put in */
static struct lane *victim;
static attend_chunk_fn *true_chunk;
static uint32_t heads_a_group;
static atomic_bool late[ARM_COUNT]; /* the request that the arm begins next */

const char *fault_name(enum fault fault)
{
    return fault_names[fault];
}

static void lose_slice(const struct weights *weights)
{
    const struct packed_matrix *table = &weights->embedding;
    ck_assert_int_eq(table->type, WEIGHT_F32);
    float *first = (float *)(uintptr_t)table->panels; /* the panel of ids 0 to 15 */
    for (size_t i = 0; i < table->panel_bytes / sizeof *first; i++)
        first[i] = i % 3 == 0 ? -4.0f * first[i] : 0.0f;
}

/* Once, between two layers of a step. */
static void put_in(enum fault fault)
{
    struct decoder *decoder = pass_decoder(victim->pass->pass);
    uint32_t pool = pass_pool(victim->pass->pass, victim->parts.scheduler);
    const struct weights *weights = victim->parts.model->weights;
    if (fault == FAULT_NAN_WEIGHT)
        *(float *)(uintptr_t)&weights->output_norm[3] = NAN;
    if (fault == FAULT_LOST_PAGE)
        ck_assert_uint_ne(block_store_take(&victim->parts.cache->groups[0].store, NO_PAGE), NO_PAGE);
    if (fault == FAULT_MASKED_KERNEL) {
        struct kernels scalar;
        kernels_pick(1u << ISA_SCALAR, &scalar);
        victim->pass->kernels.vector = scalar.vector;
    }
    if (fault == FAULT_STALE_PLAN)
        decoder->pools[pool].generation[0] ^= 1;
    if (fault == FAULT_OTHER_NAMESPACE) {
        cache_set_namespace_state(victim->parts.cache, NAMESPACE_DRAINING);
        cache_set_namespace_state(victim->parts.cache, NAMESPACE_FENCED);
    }
    if (fault == FAULT_LOST_SLICE)
        lose_slice(weights);
}

static void scaled(const struct attend_tile *tile, float by)
{
    float q[ATTEND_ROWS_MAX * ATTEND_Q_STRIDE];
    struct attend_tile other = *tile;
    for (uint32_t r = 0; r < tile->n_rows; r++)
        for (uint32_t i = 0; i < tile->d_qk; i++)
            q[r * ATTEND_Q_STRIDE + i] = tile->q[r * ATTEND_Q_STRIDE + i] * by;
    other.q = q;
    true_chunk(&other);
}

/* Attends a copy of the units, one for each row. */
static void repeated(const struct attend_tile *tile)
{
    uint32_t n_units = (tile->n_tokens + ATTEND_UNIT - 1) / ATTEND_UNIT;
    size_t bytes = kv_k_part_bytes(KV_F16, tile->d_qk);
    const void *k[ATTEND_CHUNK_UNITS];
    char *copy = mem_aligned(tile->n_rows * n_units * bytes);
    ck_assert_ptr_nonnull(copy);
    for (uint32_t u = 0; u < n_units; u++) {
        k[u] = copy + u * bytes;
        for (uint32_t r = 0; r < tile->n_rows; r++)
            memcpy(copy + (r * n_units + u) * bytes, tile->k_units[u], bytes);
    }
    struct attend_tile other = *tile;
    other.k_units = k;
    true_chunk(&other);
    mem_free(copy);
}

static bool is_prefill_of(const struct attend_tile *tile)
{
    return tile->n_rows > heads_a_group;
}

static void begin_late(const struct attend_tile *tile, enum arm arm)
{
    if (is_prefill_of(tile) && atomic_exchange(&late[arm], false))
        nanosleep(&(struct timespec){.tv_nsec = LATE_NS}, NULL);
}

static void control_chunk(const struct attend_tile *tile)
{
    begin_late(tile, ARM_CONTROL);
    true_chunk(tile);
}

static void chunk(const struct attend_tile *tile)
{
    enum fault fault = (enum fault)atomic_load_explicit(&armed, memory_order_acquire);
    bool is_prefill = is_prefill_of(tile);
    begin_late(tile, ARM_CANARY);
    if (fault != done)
        put_in(fault);
    done = fault;
    if ((fault == FAULT_SLOW_PREFILL && is_prefill) || (fault == FAULT_SLOW_DECODE && !is_prefill))
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    if (fault == FAULT_SCALED_SCORES)
        scaled(tile, 1.01f);
    else if (fault == FAULT_REPEATED_KV)
        repeated(tile);
    else
        true_chunk(tile);
}

void canary_rig_break(struct canary_rig *rig, enum fault fault)
{
    if (fault == FAULT_REFUSED_REQUESTS)
        lane_want(rig->arms[ARM_CANARY], LANE_CLOSED);
    else
        atomic_store_explicit(&armed, (int)fault, memory_order_release);
}

/* ---- lanes ---- */

static const uint32_t split_k_map[] = {0, 1, 2, 0, 1, 2}, split_v_map[] = {0, 0, 1, 1, 2, 2};
static const uint32_t even_map[] = {0, 0, 1, 1, 2, 2};

/* Stable's checkpoint, or the candidate's. */
static char *checkpoint(bool is_candidate, bool has_split_maps, size_t *ret_len)
{
    struct small_model shape = small_model_default();
    shape.kv_heads = 3;
    shape.head_type = 0; /* F32 */
    shape.has_output = true;
    shape.k_map = has_split_maps ? split_k_map : even_map;
    shape.v_map = has_split_maps ? split_v_map : even_map;
    shape.n_k_map = shape.n_v_map = 6;
    struct gguf_writer *writer = small_model_writer(&shape);
    float *norm = (float *)(void *)gguf_writer_find(writer, "output_norm.weight")->data;
    norm[0] *= is_candidate ? 1.0001f : 1.0f;
    char *bytes = gguf_writer_finish(writer, ret_len);
    gguf_writer_free(&writer);
    return bytes;
}

static struct lane *add_lane(struct canary_rig *rig, enum arm arm, bool has_split_maps)
{
    struct kernels kernels;
    struct lane_terms terms = lane_rig_terms();
    struct why why = {0};
    struct lane *lane;
    struct gguf *gguf;
    size_t len;
    char *bytes = checkpoint(arm == ARM_CANARY, has_split_maps, &len);
    ck_assert_msg(gguf_parse(bytes, len, &gguf, &why) == OK, "%s", why.text);
    snprintf(terms.id, sizeof terms.id, "%s", arm_name(arm));
    terms.namespace_id[0] = (uint8_t)(arm + 1);
    kernels_pick(isa_available(), &kernels);
    true_chunk = kernels.attention.chunk[KV_F16];
    if (arm == ARM_CANARY)
        kernels.attention.chunk[KV_F16] = chunk;
    if (arm == ARM_CONTROL)
        kernels.attention.chunk[KV_F16] = control_chunk;
    terms.kernels = &kernels;
    enum status s = lane_load(gguf, &terms, rig->lanes.engine, &lane, &why);
    ck_assert_msg(s == OK, "%s: %s", status_code(s), why.text);
    if (arm == ARM_CANARY)
        victim = lane;
    s = engine_add(rig->lanes.engine, lane, &why);
    ck_assert_msg(s == OK, "%s: %s", status_code(s), why.text);
    gguf_free(&gguf);
    mem_free(bytes);
    return lane;
}

/* ---- the rollout ---- */

static bool lanes_of(void *user, const struct release_rollout *rollout,
                     struct lane_evidence *ret_candidate, struct lane_evidence *ret_baseline)
{
    struct canary_rig *rig = user;
    ck_assert_str_eq(rollout->candidate, rig->candidate_id);
    lane_collector_copy(lane_evidence_collector(rig->arms[ARM_CANARY]), ret_candidate);
    lane_collector_copy(lane_evidence_collector(rig->arms[ARM_CONTROL]), ret_baseline);
    return true;
}

static void bar(void *user, const char *candidate, bool is_barred)
{
    struct canary_rig *rig = user;
    rig->n_bars += is_barred;
    snprintf(rig->world.barred, sizeof rig->world.barred, "%s", is_barred ? candidate : "");
}

static void open_rollout(struct canary_rig *rig)
{
    struct why why = {0};
    struct rollout_plan plan;
    const struct rollout_driver_options options = {.lanes = lanes_of, .bar = bar, .user = rig};
    const struct change_terms terms = rig_terms(rig->now_us);
    rollout_plan_defaults(&plan);
    plan.n_steps = 1;
    plan.steps[0] = (struct rollout_step){2500, 100, 86400};
    plan.auto_approve = true;
    if (rig->has_late_tail) {
        plan.thresholds.goodput_slo_ttft_ms = LATE_SLO_MS;
        plan.thresholds.ttft_p99_eps_ppm = 1000000; /* how late a sleep ends is the machine's affair */
    }
    enum status s = registry_open(NULL, &rig->registry, &why);
    s = s == OK ? rig_found(rig->registry, "stable", rig->stable_id, &why) : s;
    s = s == OK ? rig_publish(rig->registry, "candidate", NULL, NULL, rig->candidate_id, &why) : s;
    s = s == OK ? world_recover(&rig->world, rig->registry, &why) : s;
    s = s == OK ? rollout_driver_new(&options, &rig->driver, &why) : s;
    s = s == OK ? rollout_driver_start(rig->driver, rig->registry, &terms, rig->candidate_id, &plan,
                                       rig->key, &why)
                : s;
    ck_assert_msg(s == OK, "%s: %s", status_code(s), why.text);
}

/* ---- fixed prompts ---- */

static uint64_t take_scores(struct request *r, uint32_t first)
{
    struct token_output output;
    double nats = 0.0;
    for (uint32_t i = 0; request_next(r, &output); i++)
        nats -= output.is_prompt && output.has_logprob && i >= first ? (double)output.logprob : 0.0;
    return (uint64_t)(nats * 1e6);
}

/* A line of a slice on a lane, in micro-nats; false if the lane gave none. */
static bool score(struct canary_rig *rig, struct lane *lane, int slice, uint64_t *ret_unats)
{
    struct request_params params = {.n_ids = PROMPT_IDS + SCORED_IDS,
                                    .sampling = {.top_p = 1.0f},
                                    .logprobs = 0,
                                    .prompt_logprobs = true,
                                    .ids = mem_zalloc(PROMPT_IDS + SCORED_IDS, sizeof(uint32_t))};
    for (uint32_t i = 0; i < params.n_ids; i++)
        params.ids[i] = slice == 0 ? i * 7 % SLICE_IDS : SLICE_IDS + i * 31 % 200;
    struct request *request;
    ck_assert_int_eq(request_new(&params, NULL, &request), OK);
    if (engine_submit(rig->lanes.port, lane, &request, NULL) != OK) {
        request_free(&request);
        return false;
    }
    *ret_unats = 0;
    for (;;) {
        struct request *r = engine_next_ready(rig->lanes.port);
        if (r == NULL) {
            doorbell_wait(&rig->lanes.bell, 100000000);
            continue;
        }
        *ret_unats += take_scores(r, PROMPT_IDS);
        if (!request_is_done(r))
            continue;
        bool is_good = request_finish_reason(r) != FINISH_ERROR;
        request_free(&r);
        return is_good;
    }
}

static void score_baseline(struct canary_rig *rig)
{
    static const char *const names[] = {"code", "prose"};
    for (int i = 0; i < 2; i++) {
        struct quality_slice *slice = &rig->baseline[i];
        *slice = (struct quality_slice){.n_tokens = SCORED_IDS};
        snprintf(slice->name, sizeof slice->name, "%s", names[i]);
        ck_assert(score(rig, rig->arms[ARM_STABLE], i, &slice->baseline_unats));
        ck_assert_uint_gt(slice->baseline_unats, 1000000);
    }
}

static void run_canary(struct canary_rig *rig)
{
    struct quality_slice slices[2];
    for (int i = 0; i < 2; i++) {
        slices[i] = rig->baseline[i];
        if (!score(rig, rig->arms[ARM_CANARY], i, &slices[i].candidate_unats))
            return;
    }
    ck_assert(rollout_driver_quality(rig->driver, slices, 2));
}

/* ---- rounds ---- */

static void note_end(struct canary_rig *rig, enum arm arm, const struct lane_rig_answer *answer)
{
    struct request_outcome outcome = {.arm = arm, .is_error = true};
    rig->n_requests[arm]++;
    if (answer != NULL && answer->reason != FINISH_ERROR)
        outcome = (struct request_outcome){.arm = arm,
                                           .ttft_ns = answer->times.ttft_own_ns,
                                           .tpot_ns = answer->times.tpot_own_ns};
    rig->n_errors[arm] += outcome.is_error;
    rollout_driver_outcome(rig->driver, &outcome);
}

/* Whether the next requests begin late. */
static void arm_late(const struct canary_rig *rig)
{
    bool is_broken = atomic_load(&armed) == FAULT_LATE_STARTS;
    bool is_tail = rig->seed % LATE_TAIL == 0;
    if (!rig->has_late_tail)
        return;
    atomic_store(&late[ARM_CONTROL], is_tail);
    atomic_store(&late[ARM_CANARY], is_broken ? rig->seed % LATE_FAULT == 0 : is_tail);
}

/* A request to each of these arms (a bit each), together. */
static void serve_arms(struct canary_rig *rig, unsigned arms)
{
    static struct lane_rig_answer answers[ARM_COUNT];
    bool is_in[ARM_COUNT] = {false};
    uint32_t n_in = 0;
    memset(answers, 0, sizeof answers);
    arm_late(rig);
    for (int arm = 0; arm < ARM_COUNT; arm++) {
        if ((arms >> arm & 1) == 0)
            continue;
        struct request *request = lane_rig_request(rig->seed, 30 + rig->seed * 13 % 60, ANSWER_IDS,
                                                   &answers[arm]);
        is_in[arm] = lane_rig_submit(&rig->lanes, rig->arms[arm], request) == OK;
        n_in += is_in[arm];
    }
    (void)lane_rig_collect(&rig->lanes, n_in);
    for (int arm = 0; arm < ARM_COUNT; arm++)
        if ((arms >> arm & 1) != 0)
            note_end(rig, (enum arm)arm, is_in[arm] ? &answers[arm] : NULL);
    rig->seed++;
}

void canary_rig_serve(struct canary_rig *rig, enum arm arm, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        serve_arms(rig, 1u << arm);
}

void canary_rig_round(struct canary_rig *rig, uint32_t n)
{
    struct why why = {0};
    bool has_changed;
    for (uint32_t i = 0; i < n; i++)
        serve_arms(rig, (1u << ARM_COUNT) - 1);
    if (!rig->is_unscored)
        run_canary(rig);
    rig->now_us += ROLLOUT_TICK_MS * 1000;
    enum status s =
        rollout_driver_tick(rig->driver, rig->registry, rig->now_us, &has_changed, &why);
    ck_assert_msg(s == OK, "%s: %s", status_code(s), why.text);
}

void canary_rig_read(struct canary_rig *rig, struct release_rollout *ret_rollout)
{
    struct why why = {0};
    enum status s = release_rollout_read(rig->registry, rig->key, ret_rollout, &why);
    ck_assert_msg(s == OK, "%s: %s", status_code(s), why.text);
}

void canary_rig_judge(struct canary_rig *rig, enum gate gate, struct gate_judgement *ret_judgement)
{
    static struct gate_evidence evidence;
    struct release_rollout rollout;
    canary_rig_read(rig, &rollout);
    rollout_driver_copy(rig->driver, &evidence);
    gate_judge(gate, &evidence, &rollout.plan.thresholds, 1, ret_judgement);
}

void canary_rig_settle(struct canary_rig *rig)
{
    struct why why = {0};
    enum status s = world_settle(&rig->world, &why);
    ck_assert_msg(s == OK, "%s: %s", status_code(s), why.text);
    ck_assert_msg(rig->world.n_wrong == 0, "%s", rig->world.wrong);
}

/* ---- life ---- */

void canary_rig_init(struct canary_rig *rig, const struct canary_options *options)
{
    const struct engine_options engine = lane_rig_options();
    memset(rig, 0, sizeof *rig);
    atomic_store(&armed, FAULT_NONE);
    done = FAULT_NONE;
    for (int arm = 0; arm < ARM_COUNT; arm++)
        atomic_store(&late[arm], false);
    heads_a_group = 2;
    rig->now_us = 1000000;
    lane_rig_init(&rig->lanes, &engine);
    for (int arm = 0; arm < ARM_COUNT; arm++)
        rig->arms[arm] =
            add_lane(rig, (enum arm)arm, arm == ARM_CANARY && options->has_split_maps);
    rig->is_unscored = options->has_split_maps; /* other maps are another model */
    rig->has_late_tail = options->has_late_tail;
    open_rollout(rig);
    score_baseline(rig);
}

void canary_rig_release(struct canary_rig *rig)
{
    rollout_driver_free(&rig->driver);
    registry_close(&rig->registry);
    lane_rig_release(&rig->lanes);
}
