/* inspect_command.c: `foldkv inspect`: the report of config/inspection.h, or with --ledger that of config/ledger_report.h, for
 * the options that serve would take. */
// SPDX-License-Identifier: Apache-2.0
#include "config/gguf_hash.h"
#include "config/inspection.h"
#include "config/ledger_report.h"
#include "config/mem.h"
#include "kernels/kernel.h"
#include "sched/model.h"
#include "server/command.h"

extern char **environ;

/* All that a report is made of. */
struct subject {
    struct gguf *gguf;
    struct graph *graph;
    struct manifest *manifest;
    struct kernels kernels;
    enum kv_type kv_type;
};

static enum status pick_kernels(const struct options *options, struct kernels *ret_kernels,
                                struct why *ret_why)
{
    if (options->kernels_isa[0] != '\0')
        return kernels_pick_named(options->kernels_isa, ret_kernels, ret_why);
    kernels_pick(UINT32_MAX, ret_kernels);
    return OK;
}

static enum status subject_init(struct subject *s, const char *path, const struct options *options,
                                struct why *ret_why)
{
    uint8_t sha256[SHA256_BYTES];
    TRY(pick_kernels(options, &s->kernels, ret_why));
    TRY(model_kv_type(options->cache_type, &s->kv_type, ret_why));
    TRY(gguf_open(path, &s->gguf, ret_why));
    TRY(graph_from_gguf(s->gguf, &s->graph, ret_why));
    if (gguf_hash_file(s->gguf, sha256) != OK)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory to hash %s", path);
    return model_manifest(s->graph, sha256, s->kv_type, &s->kernels, &s->manifest, ret_why);
}

static void subject_release(struct subject *s)
{
    manifest_free(&s->manifest);
    graph_free(&s->graph);
    gguf_free(&s->gguf);
}

/* Bytes of an element of K or V, and of the scale that a token's row of one head has. */
static const struct {
    uint32_t element, scale;
} kv_bytes[KV_TYPE_COUNT] = {[KV_F16] = {2, 0}, [KV_F32] = {4, 0}, [KV_I8] = {1, 4}};

/* The seed's running length, or the whole context if that is less. */
enum { LEDGER_TOKENS = 4096 };

static char *ledger_of(const struct subject *s, const struct options *options, bool is_json)
{
    uint32_t context = s->graph->context;
    struct ledger_report report = {.graph = s->graph,
                                   .kv_type = options->cache_type,
                                   .kv_bytes = kv_bytes[s->kv_type].element,
                                   .kv_scale_bytes = kv_bytes[s->kv_type].scale,
                                   .page_tokens = PAGE_TOKENS,
                                   .tokens = context < LEDGER_TOKENS ? context : LEDGER_TOKENS};
    return is_json ? ledger_report_json(&report) : ledger_report_text(&report);
}

static char *report_of(const struct subject *s, const struct options *options, bool is_json)
{
    struct inspection inspection = {.gguf = s->gguf,
                                    .graph = s->graph,
                                    .manifest = s->manifest,
                                    .kv_type = options->cache_type,
                                    .kv_bytes = kv_bytes[s->kv_type].element,
                                    .kv_scale_bytes = kv_bytes[s->kv_type].scale,
                                    .page_tokens = PAGE_TOKENS};
    return is_json ? inspection_json(&inspection) : inspection_text(&inspection);
}

static int print_report(char *text)
{
    if (text == NULL)
        return command_complain(&(struct why){.text = "no memory for the report"});
    fputs(text, stdout);
    mem_free(text);
    return COMMAND_DONE;
}

int inspect_command(size_t n_words, char *const *words)
{
    struct option_extra extras[] = {
        {.flag = "json", .prose = "One JSON object instead of text."},
        {.flag = "ledger", .prose = "The byte and FLOP tables: as it is, as MHA, as MQA."},
    };
    struct options options;
    struct options_line line;
    struct subject subject = {0};
    struct why why = {0};
    enum status s = options_load(OPTIONS_INSPECT, n_words, words, environ, extras, ARRAY_LEN(extras), &options,
                                 &line, &why);
    if (s != OK)
        return command_failed(s, &why);
    if (line.is_help)
        return command_print_help("inspect", extras, ARRAY_LEN(extras), OPTIONS_INSPECT);
    if (line.n_positionals != 1)
        return command_unknown("inspect", line.n_positionals > 1 ? line.positionals[1] : NULL, "one model file");
    bool is_json = extras[0].ret_value != NULL;
    int code = COMMAND_DONE;
    s = subject_init(&subject, line.positionals[0], &options, &why);
    if (s == STATUS_BAD_FILE)
        (void)why_in_file(&why, s, line.positionals[0]);
    if (s != OK)
        code = command_complain(&why);
    else if (extras[1].ret_value != NULL)
        code = print_report(ledger_of(&subject, &options, is_json));
    else
        code = print_report(report_of(&subject, &options, is_json));
    subject_release(&subject);
    return code;
}
