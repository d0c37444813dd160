/* audit_command.c: `foldkv audit list` and `foldkv audit verify`: the audit of a state directory.
 *
 * HOW     The registry is opened for reading only, so both work beside the daemon that has it locked.
 */
// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>

#include "sched/audit.h"
#include "sched/audit_verify.h"
#include "server/command.h"

extern char **environ;

enum { LIST_MAX_DEFAULT = 1000 };

static enum status print_entry(void *user, const struct audit_entry *entry, struct why *ret_why)
{
    (void)user;
    /* The entry's own text, so that who has it can hash it again. */
    if (printf("{\"hash\":\"%s\",\"entry\":%.*s}\n", entry->hash, (int)entry->len, entry->text) < 0)
        return why_set(ret_why, STATUS_IO, "", "the list cannot be written");
    return OK;
}

static int list(struct registry *registry, const struct option_extra *after,
                const struct option_extra *limit, struct why *why)
{
    uint64_t first = 0, most = LIST_MAX_DEFAULT;
    if (after->ret_value != NULL && command_number(after, 0, INT64_MAX / 2, &first, why) != OK)
        return command_complain(why);
    if (limit->ret_value != NULL && command_number(limit, 1, 1000000, &most, why) != OK)
        return command_complain(why);
    if (audit_each(registry, (int64_t)first, (int64_t)most, print_entry, NULL, why) != OK)
        return command_complain(why);
    return COMMAND_DONE;
}

static int verify(struct registry *registry, bool is_json, struct why *why)
{
    struct audit_report report;
    if (audit_verify(registry, &report, why) != OK)
        return command_complain(why);
    if (is_json)
        printf("{\"entries\":%" PRId64 ",\"epoch\":%" PRId64
               ",\"head\":\"%s\",\"receipts\":%" PRId64 ",\"rows\":%" PRId64
               ",\"verified\":true}\n",
               report.n_entries, report.epoch, report.head, report.n_receipts, report.n_rows);
    else
        printf("verified: %" PRId64 " entries, %" PRId64 " receipts, %" PRId64
               " rows, release epoch %" PRId64 "\nhead: %s\n",
               report.n_entries, report.n_receipts, report.n_rows, report.epoch, report.head);
    return COMMAND_DONE;
}

int audit_command(size_t n_words, char *const *words)
{
    struct option_extra extras[] = {
        {.flag = "state",
         .metavar = "DIR",
         .prose = "The state directory that serve was started with."},
        {.flag = "after", .metavar = "SEQ", .prose = "list: only entries behind this one."},
        {.flag = "limit",
         .metavar = "N",
         .prose = "list: at most so many entries; 1000 if not given."},
        {.flag = "json", .prose = "verify: one JSON object instead of text."},
    };
    struct options options;
    struct options_line line;
    struct registry *registry = NULL;
    struct why why = {0};
    if (options_load(n_words, words, environ, extras, ARRAY_LEN(extras), &options, &line, &why) !=
        OK)
        return command_complain(&why);
    if (line.is_help)
        return command_print_help("audit", extras, ARRAY_LEN(extras), false);
    bool is_list = line.n_positionals == 1 && strcmp(line.positionals[0], "list") == 0;
    bool is_verify = line.n_positionals == 1 && strcmp(line.positionals[0], "verify") == 0;
    if (!is_list && !is_verify)
        return command_misused("audit", "audit takes list or verify");
    if (extras[0].ret_value == NULL)
        return command_misused("audit", "--state DIR is needed");
    int code = registry_open_reader(extras[0].ret_value, &registry, &why) == OK
                   ? (is_list ? list(registry, &extras[1], &extras[2], &why)
                              : verify(registry, extras[3].ret_value != NULL, &why))
                   : command_complain(&why);
    registry_close(&registry);
    return code;
}
