/* releases_evaluation_plan.c: what a body asks for, the set, and the two lanes as the plan of an evaluation.
 *
 * THREAD  loader
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/releases_priv.h"

#include "config/mem.h"
#include "sched/lane_collector.h"
#include "sched/release/kernel_plan.h"

static enum status encode(void *user, struct slice text, bool is_start, uint32_t **ret_ids,
                          uint32_t *ret_n, struct why *ret_why)
{
    struct releases *r = user;
    return r->host.encode(r->host.user, text, is_start, ret_ids, ret_n, ret_why);
}

static enum status read_set(struct releases *r, const char *hash, struct evaluation_set **ret_set,
                            struct why *ret_why)
{
    char own[SHA256_HEX], path[RELEASES_PATH_ROOM];
    TRY(releases_own_set(own, ret_why));
    if (strcmp(own, hash) == 0)
        return evaluation_set_shipped(ret_set, ret_why);
    TRY(releases_find_file(r, hash, path, ret_why));
    return evaluation_set_read_file(path, ret_set, ret_why);
}

/* A set that the body names must be the one that the generation was registered with. */
static enum status check_named_set(const char *path, const char *registered, struct why *ret_why)
{
    struct evaluation_set *set = NULL;
    char hash[SHA256_HEX];
    if (path == NULL)
        return OK;
    TRY(evaluation_set_read_file(path, &set, ret_why));
    sha256_hex(set->hash, hash);
    evaluation_set_free(&set);
    if (strcmp(hash, registered) == 0)
        return OK;
    (void)why_set(ret_why, STATUS_RECEIPTS_DISAGREE, "set",
                  "the set has hash %.16s, the generation was published with %.16s: publish it "
                  "with this set to have it evaluated with it",
                  hash, registered);
    why_add_both(ret_why, "set", hash, "generation", registered);
    return STATUS_RECEIPTS_DISAGREE;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* With the plan that it is loaded with, which need not be the one that it was registered with. */
static enum status side_of(const struct lane *lane, struct evaluation_side *ret_side)
{
    const struct model *m = lane_model(lane);
    char hex[SHA256_HEX];
    uint8_t plan[SHA256_BYTES];
    TRY(kernel_plan_hash(m->graph, m->manifest, m->kv_type, lane_kernels(lane), hex));
    sha256_from_hex(hex, plan);
    return evaluation_side_of(m, plan, ret_side);
}

static enum status fill_terms(struct releases *r, const struct lane *candidate,
                              const struct lane *baseline, const char *set_hash, const char *body,
                              struct evaluation_terms *terms, struct why *ret_why)
{
    char *path = NULL;
    const struct evaluation_room room = {
        .context = least(lane_context(candidate), lane_context(baseline)),
        .running_max = r->terms.running_max,
        .prefill_chunk = r->terms.prefill_chunk};
    TRY(side_of(candidate, &terms->candidate));
    TRY(side_of(baseline, &terms->baseline));
    sha256_from_hex(r->tokenizer, terms->tokenizer);
    terms->vocab = lane_model(candidate)->graph->vocab;
    terms->encode = encode;
    terms->encode_user = r;
    evaluation_terms_defaults(&room, terms);
    TRY(evaluation_terms_read(terms, (struct slice){body, strlen(body)}, &path, ret_why));
    enum status status = evaluation_matrix_fits(&terms->matrix, &room, ret_why);
    if (status == OK)
        status = check_named_set(path, set_hash, ret_why);
    mem_free(path);
    return status;
}

enum status releases_evaluation_plan(struct releases *r, const char *set_hash,
                                     const struct lane *candidate, const struct lane *baseline,
                                     const char *body, struct evaluation_plan **ret_plan,
                                     struct why *ret_why)
{
    struct evaluation_host host;
    struct evaluation_set *set = NULL;
    struct lane_evidence evidence;
    struct evaluation_terms *terms = mem_zalloc(1, sizeof *terms);
    if (terms == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for an evaluation");
    evaluation_host_read(isa_name(lane_kernels(candidate)->isa), r->terms.n_threads, &host);
    lane_collector_copy(lane_evidence_collector(candidate), &evidence);
    terms->host = &host;
    terms->hardware_traffic_is_measurable = evidence.host_has_counters;
    enum status status = read_set(r, set_hash, &set, ret_why);
    terms->set = set;
    if (status == OK)
        status = fill_terms(r, candidate, baseline, set_hash, body, terms, ret_why);
    if (status == OK)
        status = evaluation_plan_new(terms, ret_plan, ret_why);
    evaluation_set_free(&set);
    mem_free(terms);
    return status;
}
