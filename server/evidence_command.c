/* evidence_command.c: `foldkv evidence`: the ladder of every kernel of this build, climbed here and now.
 *
 * HOW     Each kernel's row is picked alone beside the scalar set. API: the dispatch takes it. Source: the build's table. Parity
 *         and allocation: an audit that runs it now; one audit serves all attention kernels of a set and a K/V type. Traffic: the
 *         machine's counter of reads that missed the last cache, if it has one. SLO: nothing that one command can run.
 * ALWAYS  (1) Nothing is said of a run that was not made in this process.   climb
 *         (2) What is printed has passed evidence_check.                    write_ladders
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/mem.h"
#include "kernels/oracle/attention_audit.h"
#include "kernels/oracle/row_audit.h"
#include "server/command.h"
#include "server/evidence_sources.h"

#if defined(__linux__)
#include <errno.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

enum { TEXT_MAX = 1 << 24 };

/* One set's attention over one K/V type, once it has been run. */
struct audited {
    bool has_run;
    enum status status;
    struct why why;
    struct attention_audit audit;
};

struct audits {
    struct audited attention[ISA_COUNT][KV_TYPE_COUNT];
    char counter[96]; /* why the counter of reads is not there; "" if it is */
};

static bool is_attention(const char *op)
{
    return strncmp(op, "attend_", 7) == 0 || strncmp(op, "kv_store_", 9) == 0;
}

/* The K/V types that an attention kernel works for, as bits: its own, or all of them. */
static uint32_t kv_types_of(const char *op)
{
    static const char *const ends[KV_TYPE_COUNT] = {
        [KV_F16] = "_f16", [KV_F32] = "_f32", [KV_I8] = "_i8"};
    size_t len = strlen(op);
    for (uint32_t type = 0; type < KV_TYPE_COUNT; type++) {
        size_t end = strlen(ends[type]);
        if (len > end && strcmp(op + len - end, ends[type]) == 0)
            return 1u << type;
    }
    return (1u << KV_TYPE_COUNT) - 1;
}

/* Opens, and closes again, a counter of reads that missed the last cache. */
static void try_counter(char text[96])
{
#if defined(__linux__)
    struct perf_event_attr attributes = {
        .type = PERF_TYPE_HW_CACHE,
        .size = sizeof attributes,
        .config = PERF_COUNT_HW_CACHE_LL | PERF_COUNT_HW_CACHE_OP_READ << 8 |
                  PERF_COUNT_HW_CACHE_RESULT_MISS << 16,
        .exclude_kernel = 1,
        .exclude_hv = 1,
    };
    int fd = (int)syscall(SYS_perf_event_open, &attributes, 0, -1, -1, 0UL);
    if (fd < 0)
        snprintf(text, 96, "no counter of reads past the last cache: %s", strerror(errno));
    else
        close(fd);
#else
    snprintf(text, 96, "this system has no interface to such a counter");
#endif
}

static void find_source(struct evidence_ladder *l)
{
    const struct evidence_source *s = evidence_sources;
    while (s->function != NULL && strcmp(s->function, l->kernel) != 0)
        s++;
    l->commit = evidence_commit;
    l->source =
        s->function != NULL ? *s : (struct evidence_source){l->kernel, "", "", "", 0, false};
    if (s->function == NULL)
        evidence_find(l, EVIDENCE_SOURCE, EVIDENCE_UNPROVEN, "",
                      "the build found the function in no object file");
    else if (evidence_commit[0] == '\0')
        evidence_find(l, EVIDENCE_SOURCE, EVIDENCE_UNPROVEN, "",
                      "built outside a git work tree: no commit to name");
    else if (!s->is_committed)
        evidence_find(l, EVIDENCE_SOURCE, EVIDENCE_UNPROVEN, "",
                      "%s or a part of it is not as commit %.12s has it", s->file, evidence_commit);
    else
        evidence_find(l, EVIDENCE_SOURCE, EVIDENCE_PROVEN, "e2e_commands",
                      "%s and %u parts, hashed while building commit %.12s", s->file, s->n_parts,
                      evidence_commit);
}

static const struct audited *audit_of(struct audits *audits, enum isa isa, enum kv_type type,
                                      const struct kernels *kernels)
{
    struct audited *a = &audits->attention[isa][type];
    if (!a->has_run)
        a->status = attention_audit_run(kernels, type, &a->audit, &a->why);
    a->has_run = true;
    return a;
}

static void find_both(struct evidence_ladder *l, const char *text)
{
    evidence_find(l, EVIDENCE_PARITY, EVIDENCE_UNPROVEN, "", "%s", text);
    evidence_find(l, EVIDENCE_ALLOCATION, EVIDENCE_UNPROVEN, "", "%s", text);
}

/* Adds b to a; false if b could not be run or does not hold, with the reason on the ladder. */
static bool add_audit(struct evidence_ladder *l, struct attention_audit *a, const struct audited *b)
{
    if (b->status != OK || b->audit.failed_case[0] != '\0') {
        find_both(l, "not looked at: parity does not hold");
        evidence_find(l, EVIDENCE_PARITY, EVIDENCE_UNPROVEN, "", "FAILED, run now: %s",
                      b->status != OK ? b->why.text : b->audit.failed_case);
        return false;
    }
    a->n_cases += b->audit.n_cases;
    a->error_max = b->audit.error_max > a->error_max ? b->audit.error_max : a->error_max;
    a->allocation_calls += b->audit.allocation_calls;
    a->owned_bytes += b->audit.owned_bytes;
    a->repeated_bytes += b->audit.repeated_bytes;
    return true;
}

static void find_attention(struct audits *audits, struct evidence_ladder *l,
                           const struct kernel_row *row, const struct kernels *kernels)
{
    uint32_t types = kv_types_of(row->op);
    struct attention_audit sum = {0};
    for (int type = 0; type < KV_TYPE_COUNT; type++) {
        bool is_there =
            kernels->attention.chunk[type] != NULL && kernels->attention.store[type] != NULL;
        if ((types >> type & 1u) != 0 && is_there &&
            !add_audit(l, &sum, audit_of(audits, row->isa, (enum kv_type)type, kernels)))
            return;
    }
    if (sum.n_cases == 0) {
        find_both(l, "no case runs this kernel");
        return;
    }
    evidence_find(l, EVIDENCE_PARITY, EVIDENCE_PROVEN, "attention_audit",
                  "run now, %u cases: grouped, owner map and materialised repeat bit-equal, "
                  "bit-equal to scalar, within %.1e of double",
                  sum.n_cases, sum.error_max);
    evidence_find(l, EVIDENCE_ALLOCATION,
                  sum.allocation_calls == 0 ? EVIDENCE_PROVEN : EVIDENCE_UNPROVEN,
                  "attention_audit",
                  "the counter says %llu allocations during the runs; K/V owned %llu bytes, the "
                  "repeat held %llu",
                  (unsigned long long)sum.allocation_calls, (unsigned long long)sum.owned_bytes,
                  (unsigned long long)sum.repeated_bytes);
}

static void find_row(struct evidence_ladder *l, const struct kernel_row *row,
                     const struct kernels *kernels)
{
    struct row_audit audit;
    if (!row_audit_knows(row->op)) {
        find_both(l, "no audit knows the operation");
        return;
    }
    if (row_audit_run(row->op, kernels, &audit) != OK) {
        find_both(l, "no memory for the audit");
        return;
    }
    bool holds = audit.same_as_scalar && audit.is_near;
    evidence_find(l, EVIDENCE_PARITY, holds ? EVIDENCE_PROVEN : EVIDENCE_UNPROVEN,
                  holds ? "row_audit" : "", "%srun now: %s to scalar, within %.1e of double",
                  holds ? "" : "FAILED, ", audit.same_as_scalar ? "bit-equal" : "not equal",
                  audit.error_max);
    evidence_find(l, EVIDENCE_ALLOCATION,
                  audit.allocation_calls == 0 ? EVIDENCE_PROVEN : EVIDENCE_UNPROVEN, "row_audit",
                  "the counter says %llu allocations during the run",
                  (unsigned long long)audit.allocation_calls);
}

static void find_nothing(struct evidence_ladder *l)
{
    for (int rung = 0; rung < EVIDENCE_RUNGS; rung++)
        if (rung != EVIDENCE_SOURCE)
            evidence_find(l, (enum evidence_rung)rung, EVIDENCE_NOT_MEASURABLE, "",
                          "this machine has no %s", l->backend);
}

/* The rungs that a run of this process shows. */
static void find_here(struct audits *audits, struct evidence_ladder *l,
                      const struct kernel_row *row, size_t i)
{
    struct kernels kernels;
    kernels_pick(1u << row->isa, &kernels);
    bool is_taken = kernels_row_is_chosen(&kernels, i);
    evidence_find(l, EVIDENCE_API, is_taken ? EVIDENCE_PROVEN : EVIDENCE_UNPROVEN, "kernel",
                  is_taken ? "the dispatch fills %s with it when %s is the highest set"
                           : "the dispatch does not fill %s with it on %s",
                  row->op, l->backend);
    if (is_attention(row->op))
        find_attention(audits, l, row, &kernels);
    else
        find_row(l, row, &kernels);
    evidence_find(l, EVIDENCE_TRAFFIC,
                  audits->counter[0] != '\0' ? EVIDENCE_NOT_MEASURABLE : EVIDENCE_UNPROVEN, "",
                  "%s",
                  audits->counter[0] != '\0'
                      ? audits->counter
                      : "the counter opens, but no run of this command reads past the caches");
    evidence_find(l, EVIDENCE_SLO, EVIDENCE_UNPROVEN, "",
                  "whole loads are compared by tests/bench/compare, not by this command");
}

static void climb(struct audits *audits, const struct kernels *chosen, size_t i,
                  struct evidence_ladder *l)
{
    struct kernel_row row = kernels_row(i);
    *l = (struct evidence_ladder){.backend = isa_name(row.isa),
                                  .kernel = row.function,
                                  .is_chosen = kernels_row_is_chosen(chosen, i)};
    find_source(l);
    if (row.available)
        find_here(audits, l, &row, i);
    else
        find_nothing(l);
    evidence_withhold(l);
}

/* Every kernel's ladder into out. BAD_FILE if one contradicts itself; OK with a why if a parity that was run does not hold, so that
 * what was found can be shown. */
static enum status write_ladders(struct text_buf *out, bool is_json, struct why *ret_why)
{
    struct audits audits = {0};
    struct kernels chosen;
    struct evidence_ladder ladder = {0}, before;
    const char *failed = NULL;
    kernels_pick(UINT32_MAX, &chosen);
    try_counter(audits.counter);
    for (size_t i = 0; i < kernels_row_count(); i++) {
        before = ladder;
        climb(&audits, &chosen, i, &ladder);
        TRY(evidence_check(&ladder, ret_why));
        if (strncmp(ladder.rungs[EVIDENCE_PARITY].text, "FAILED", 6) == 0)
            failed = ladder.kernel;
        if (is_json)
            text_buf_add(out, "%s", i > 0 ? "," : "");
        if (is_json)
            evidence_add_json(out, &ladder);
        else
            evidence_add_text(out, &ladder, i > 0 ? &before : NULL);
    }
    if (failed != NULL)
        why_set(ret_why, STATUS_BAD_FILE, failed, "kernel %s: parity does not hold", failed);
    return OK;
}

static int print_ladders(bool is_json)
{
    struct text_buf out;
    struct why why = {0};
    text_buf_init(&out, TEXT_MAX);
    text_buf_add(
        &out,
        is_json ? "{\"version\":\"%s\",\"commit\":\"%s\",\"kernels\":["
                : "foldkv %s, commit %s; + proven, - unproven, ? not measurable here; * chosen\n\n",
        FOLDKV_VERSION, evidence_commit[0] != '\0' || is_json ? evidence_commit : "unknown");
    enum status s = write_ladders(&out, is_json, &why);
    if (is_json)
        text_buf_add(&out, "]}\n");
    char *text = text_buf_take(&out);
    text_buf_release(&out);
    if (s == OK && text == NULL)
        why_set(&why, STATUS_NO_MEMORY, "", "no memory for the evidence");
    else if (s == OK)
        fputs(text, stdout);
    mem_free(text);
    return why.text[0] == '\0' ? COMMAND_DONE : command_complain(&why);
}

extern char **environ;

int evidence_command(size_t n_words, char *const *words)
{
    struct option_extra extras[] = {{.flag = "json", .prose = "One JSON object instead of text."}};
    struct options options;
    struct options_line line;
    struct why why = {0};
    enum status s =
        options_load(0, n_words, words, environ, extras, ARRAY_LEN(extras), &options, &line, &why);
    if (s != OK)
        return command_failed(s, &why);
    if (line.is_help)
        return command_print_help("evidence", extras, ARRAY_LEN(extras), 0);
    if (line.n_positionals > 0)
        return command_unknown("evidence", line.positionals[0], "no argument");
    return print_ladders(extras[0].ret_value != NULL);
}
