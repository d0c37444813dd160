/* inspect_command.c: `foldkv inspect`: the report of config/inspection.h for the options that serve would take. */
// SPDX-License-Identifier: Apache-2.0
#include "config/inspection.h"
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
    struct slice bytes = gguf_bytes(s->gguf);
    if (sha256_of(bytes.bytes, bytes.len, sha256) != OK)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory to hash %s", path);
    return model_manifest(s->graph, sha256, s->kv_type, &s->kernels, &s->manifest, ret_why);
}

static void subject_release(struct subject *s)
{
    manifest_free(&s->manifest);
    graph_free(&s->graph);
    gguf_free(&s->gguf);
}

static int print_report(const struct subject *s, const struct options *options, bool is_json)
{
    struct inspection inspection = {.gguf = s->gguf,
                                    .graph = s->graph,
                                    .manifest = s->manifest,
                                    .kv_type = options->cache_type,
                                    .kv_bytes = s->kv_type == KV_F16 ? 2 : 4};
    char *text = is_json ? inspection_json(&inspection) : inspection_text(&inspection);
    if (text == NULL)
        return command_complain(&(struct why){.text = "no memory for the report"});
    fputs(text, stdout);
    mem_free(text);
    return COMMAND_DONE;
}

int inspect_command(size_t n_words, char *const *words)
{
    struct option_extra extras[] = {{.flag = "json", .prose = "One JSON object instead of text."}};
    struct options options;
    struct options_line line;
    struct subject subject = {0};
    struct why why = {0};
    if (options_load(n_words, words, environ, extras, ARRAY_LEN(extras), &options, &line, &why) !=
        OK)
        return command_complain(&why);
    if (line.is_help)
        return command_print_help("inspect", extras, ARRAY_LEN(extras), true);
    if (line.n_positionals != 1)
        return command_misused("inspect", "inspect takes one model file");
    int code = subject_init(&subject, line.positionals[0], &options, &why) == OK
                   ? print_report(&subject, &options, extras[0].ret_value != NULL)
                   : command_complain(&why);
    subject_release(&subject);
    return code;
}
