/* evaluation_terms.c: what an evaluation is asked for: defaults, what a body changes, and what both sides and
 * the host are.
 *
 * HOW     Contexts of the default matrix are the room's whole context, its geometric middle and the least in
 *         which a chunk and an answer fit; an operator who serves less asks for less. Its queries reach to the longest
 *         one that a step can hold, so that whoever passes it whole serves whatever fits the context.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/evaluate/evaluation_plan.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "cache/block.h"
#include "config/mem.h"
#include "sched/backend_revision.h"

enum { CONTEXT_STEP = 64, ANSWER_LEAST = 2, SET_PATH_MAX = 4095 };

static void axis_add(struct matrix_axis *axis, uint32_t value)
{
    if (value >= 1 && (axis->n == 0 || axis->values[axis->n - 1] < value))
        axis->values[axis->n++] = value;
}

void evaluation_matrix_default(const struct evaluation_room *room,
                               struct evaluation_matrix *ret_matrix)
{
    struct evaluation_matrix matrix = {0};
    uint32_t chunk = room->prefill_chunk;
    if (room->context > ANSWER_LEAST && chunk > room->context - ANSWER_LEAST)
        chunk = room->context - ANSWER_LEAST;
    uint32_t least = (2 * chunk + CONTEXT_STEP - 1) / CONTEXT_STEP * CONTEXT_STEP;
    if (least < room->context) {
        uint32_t middle = (uint32_t)sqrt((double)least * room->context);
        axis_add(&matrix.contexts, least);
        axis_add(&matrix.contexts, middle / CONTEXT_STEP * CONTEXT_STEP);
    }
    axis_add(&matrix.contexts, room->context);
    axis_add(&matrix.active_requests, 1);
    axis_add(&matrix.active_requests, (uint32_t)sqrt((double)room->running_max));
    axis_add(&matrix.active_requests, room->running_max);
    axis_add(&matrix.query_lengths, 1);
    axis_add(&matrix.query_lengths, chunk);
    *ret_matrix = matrix;
}

static enum status axis_fits(const struct matrix_axis *axis, const char *key, uint32_t most,
                             const char *bound, struct why *ret_why)
{
    char field[64];
    uint32_t i = axis->n - 1; /* values rise */
    if (axis->values[i] <= most)
        return OK;
    while (i > 0 && axis->values[i - 1] > most)
        i--;
    snprintf(field, sizeof field, "matrix.%s[%" PRIu32 "]", key, i);
    (void)why_set(ret_why, STATUS_BAD_REQUEST, field, "%s is %" PRIu32 ": at most %" PRIu32 ", %s",
                  field, axis->values[i], most, bound);
    why_add_number(ret_why, "value", axis->values[i]);
    why_add_number(ret_why, "most", most);
    return STATUS_BAD_REQUEST;
}

enum status evaluation_matrix_fits(const struct evaluation_matrix *matrix,
                                   const struct evaluation_room *room, struct why *ret_why)
{
    TRY(axis_fits(&matrix->active_requests, "active_requests", room->running_max,
                  "which engine.running_max lets run at once", ret_why));
    TRY(axis_fits(&matrix->contexts, "contexts", room->context,
                  "the context that candidate and baseline can hold", ret_why));
    return axis_fits(&matrix->query_lengths, "query_lengths", room->prefill_chunk,
                     "the rows of a step that engine.prefill_chunk allows", ret_why);
}

void evaluation_terms_defaults(const struct evaluation_room *room, struct evaluation_terms *terms)
{
    evaluation_matrix_default(room, &terms->matrix);
    terms->warmup_runs = 1;
    terms->repetitions = 1;
    terms->repetitions_max = 0;
    gate_thresholds_defaults(&terms->thresholds);
}

static enum status read_count(const struct document_value *root, const char *key, uint64_t least,
                              uint64_t most, uint32_t *ret_number, struct why *ret_why)
{
    const struct document_value *value = document_find(root, key);
    uint64_t number = *ret_number;
    if (value != NULL)
        TRY(document_number(value, key, least, most, &number, ret_why));
    *ret_number = (uint32_t)number;
    return OK;
}

static enum status read_root(const struct document_value *root, struct evaluation_terms *terms,
                             const char **ret_path, struct why *ret_why)
{
    static const char *const keys[] = {"matrix", "repetitions", "repetitions_max",
                                       "set",    "thresholds",  "warmup_runs"};
    const struct document_value *value;
    TRY(document_object(root, "the body", ret_why));
    TRY(document_known(root, "", keys, ARRAY_LEN(keys), ret_why));
    if ((value = document_find(root, "matrix")) != NULL)
        TRY(evaluation_matrix_read(value, &terms->matrix, ret_why));
    TRY(read_count(root, "repetitions", 1, EVALUATION_REPETITIONS_MAX, &terms->repetitions,
                   ret_why));
    TRY(read_count(root, "repetitions_max", terms->repetitions, EVALUATION_REPETITIONS_MAX,
                   &terms->repetitions_max, ret_why));
    TRY(read_count(root, "warmup_runs", 0, EVALUATION_WARMUP_MAX, &terms->warmup_runs, ret_why));
    if ((value = document_find(root, "thresholds")) != NULL)
        TRY(gate_thresholds_read(&terms->thresholds, value, "thresholds", ret_why));
    if ((value = document_find(root, "set")) != NULL)
        TRY(document_text(value, "set", 1, SET_PATH_MAX, ret_path, ret_why));
    return OK;
}

enum status evaluation_terms_read(struct evaluation_terms *terms, struct slice body,
                                  char **ret_set_path, struct why *ret_why)
{
    struct document *document = NULL;
    struct evaluation_terms read = *terms;
    const char *path = NULL;
    *ret_set_path = NULL;
    TRY(document_parse(body, "the body", &document, ret_why));
    enum status s = read_root(document_root(document), &read, &path, ret_why);
    if (s == OK && path != NULL && (*ret_set_path = mem_dup(path, strlen(path))) == NULL)
        s = why_set(ret_why, STATUS_NO_MEMORY, "set", "no memory for the path of the set");
    document_free(&document);
    if (s == OK)
        *terms = read;
    return s;
}

/* ---- the sides ---- */

/* The head maps of all layers, in order. */
static enum status hash_head_maps(const struct graph *graph, uint8_t ret_hash[SHA256_BYTES])
{
    struct sha256 *sha = NULL;
    TRY(sha256_new(&sha));
    sha256_start(sha);
    for (uint32_t i = 0; i < graph->n_layers; i++) {
        const struct graph_layer *layer = &graph->layers[i];
        sha256_part(sha, 1, layer->query_to_k_head, layer->n_query_heads * sizeof(uint16_t));
        sha256_part(sha, 2, layer->query_to_v_head, layer->n_query_heads * sizeof(uint16_t));
    }
    sha256_finish(sha, ret_hash);
    sha256_free(&sha);
    return OK;
}

enum status evaluation_side_of(const struct model *model, const uint8_t kernel_plan[SHA256_BYTES],
                               struct evaluation_side *ret_side)
{
    *ret_side = (struct evaluation_side){.backend_revision = backend_revision,
                                         .q_dtype = model_query_type_name(model->kv_type),
                                         .kv_dtype = model_kv_type_name(model->kv_type),
                                         .accumulator_dtype = model_sum_type_name,
                                         .page_tokens = CACHE_PAGE_TOKENS,
                                         .tensor_parallel_degree = 1};
    memcpy(ret_side->checkpoint, model->weights->checkpoint_sha256, SHA256_BYTES);
    memcpy(ret_side->architecture, model->manifest->architecture_hash, SHA256_BYTES);
    memcpy(ret_side->identity, model->manifest->identity, SHA256_BYTES);
    memcpy(ret_side->kernel_plan, kernel_plan, SHA256_BYTES);
    return hash_head_maps(model->graph, ret_side->head_map);
}

/* ---- the host ---- */

/* The value of a line "key : value" of /proc/cpuinfo, without its newline; NULL if it is another key's. */
static const char *cpuinfo_value(char *line, const char *key)
{
    char *colon = strchr(line, ':');
    if (colon == NULL || strncmp(line, key, strlen(key)) != 0)
        return NULL;
    char *value = colon + 1 + strspn(colon + 1, " \t");
    value[strcspn(value, "\n")] = '\0';
    return value;
}

/* The processor's name, and how many sockets there are (at least 1). */
static void read_cpuinfo(char *ret_name, size_t room, uint32_t *ret_sockets)
{
    uint64_t seen = 0;
    char line[512];
    snprintf(ret_name, room, "a processor without a name");
    FILE *file = fopen("/proc/cpuinfo", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        const char *value = cpuinfo_value(line, "model name");
        if (value != NULL)
            snprintf(ret_name, room, "%s", value);
        else if ((value = cpuinfo_value(line, "physical id")) != NULL)
            seen |= UINT64_C(1) << (strtoul(value, NULL, 10) & 63);
    }
    if (file != NULL)
        fclose(file);
    *ret_sockets = seen != 0 ? (uint32_t)__builtin_popcountll(seen) : 1;
}

void evaluation_host_read(const char *isa, uint32_t n_threads, struct evaluation_host *ret_host)
{
    char name[96];
    uint32_t sockets;
    read_cpuinfo(name, sizeof name, &sockets);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    snprintf(ret_host->hardware, sizeof ret_host->hardware, "%s, %" PRIu32 " threads, %s", name,
             n_threads, isa);
    snprintf(ret_host->topology, sizeof ret_host->topology, "%" PRIu32 " sockets, %ld processors",
             sockets, online > 0 ? online : 1);
}
