/* help_command.c: what a topic prints: a command's help, or a page made from a table. */
// SPDX-License-Identifier: Apache-2.0
#include "server/command.h"

#include "config/mem.h"
#include "sched/judge/gate.h"
#include "server/metrics_text.h"

static char *metrics_page(void)
{
    struct byte_buffer text;
    byte_buffer_init(&text, 1 << 20);
    metrics_reference(&text);
    byte_buffer_append(&text, "", 1);
    if (!text.failed)
        return text.bytes;
    byte_buffer_release(&text);
    return NULL;
}

static char *errors_page(void)
{
    struct byte_buffer text;
    byte_buffer_init(&text, 1 << 16);
    byte_buffer_text(&text,
                     "# Errors\n\nA refusal is `{\"error\": {\"message\", \"type\", \"param\", \"code\"}}`: the message "
                     "says what was found and what would be right, `param` names the field, and `code` is what a program should "
                     "look at. Where the table says that a retry helps, wait for as long as the header `Retry-After` says, if "
                     "there is one.\n\nMade from `config/status.def` by `foldkv help errors`; not "
                     "edited by hand. An answer's `error.code` is "
                     "one of these.\n\n| code | HTTP | retry | meaning |\n|---|---|---|---|\n");
    for (int s = OK + 1; s < STATUS_COUNT; s++)
        byte_buffer_format(&text, "| `%s` | %d | %s | %s |\n", status_code((enum status)s),
                           status_http((enum status)s),
                           status_is_retryable((enum status)s) ? "yes" : "no",
                           status_text((enum status)s));
    byte_buffer_append(&text, "", 1);
    if (!text.failed)
        return text.bytes;
    byte_buffer_release(&text);
    return NULL;
}

static char *gates_page(void)
{
    struct byte_buffer text;
    byte_buffer_init(&text, 1 << 16);
    byte_buffer_text(&text,
                     "# Gates\n\nMade from `sched/judge/gate.def` and `sched/judge/gate_threshold.def` by "
                     "`foldkv help gates`; not edited by hand. What they are for is in "
                     "[release.md](release.md).\n\n| gate | watches | compared with | rule | "
                     "judged by | without data |\n|---|---|---|---|---|---|\n");
    for (int i = 0; i < GATE_COUNT; i++)
        byte_buffer_format(&text, "| `%s` | %s | %s | %s | %s | %s |\n", gate_rows[i].key,
                           gate_rows[i].trigger, gate_rows[i].against, gate_rows[i].rule,
                           gate_rows[i].judged == GATE_JUDGED_TEST ? "sequential test" : "bound",
                           gate_rows[i].without == GATE_WITHOUT_FAIL ? "fail" : "pause");
    byte_buffer_text(&text,
                     "\n## Thresholds\n\nKeys of a plan file's `gates` object. ppm is millionths, "
                     "ppb thousand-millionths.\n\n| gate | key | default | least | most | "
                     "unit | meaning |\n|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < gate_threshold_count; i++) {
        const struct gate_threshold_row *row = &gate_threshold_rows[i];
        byte_buffer_format(&text, "| `%s` | `%s` | %u | %u | %u | %s | %s |\n", row->gate,
                           row->name, row->value, row->least, row->most, row->unit, row->prose);
    }
    byte_buffer_append(&text, "", 1);
    if (!text.failed)
        return text.bytes;
    byte_buffer_release(&text);
    return NULL;
}

static char *options_page(void)
{
    return options_help(OPTIONS_SERVE, NULL, 0);
}

static const struct topic {
    const char *name;
    char *(*page)(void);
} topics[] = {
    {"options", options_page}, {"example", options_example}, {"reference", options_reference},
    {"metrics", metrics_page}, {"errors", errors_page},      {"gates", gates_page},
};

static int print_page(char *(*page)(void))
{
    char *text = page();
    if (text == NULL)
        return command_complain(&(struct why){.text = "no memory for the page"});
    fputs(text, stdout);
    mem_free(text);
    return COMMAND_DONE;
}

int help_command(size_t n_words, char *const *words)
{
    char *const help_flag[] = {(char[]){"--help"}};
    if (n_words > 1)
        return command_unknown("help", words[1], "one topic");
    const char *topic = n_words == 1 ? words[0] : "help";
    for (size_t i = 0; i < ARRAY_LEN(topics); i++)
        if (strcmp(topic, topics[i].name) == 0)
            return print_page(topics[i].page);
    const struct command *command = command_find(topic);
    if (command == NULL)
        return command_unknown("help", topic, "a command, or options, example, reference, metrics, errors or gates");
    if (command->run != help_command)
        return command->run(1, help_flag);
    for (size_t i = 0; i < command_count; i++)
        printf("foldkv %-42s %s\n", commands[i].usage, commands[i].summary);
    printf("\ntopics: a command, or options example reference metrics errors gates\n");
    return COMMAND_DONE;
}
