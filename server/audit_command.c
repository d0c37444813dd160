/* audit_command.c: `foldkv audit list` and `foldkv audit verify`: the audit of a state directory, or of a daemon elsewhere.
 *
 * HOW     The registry is opened for reading only, so both work beside the daemon that has it locked. With --admin, list asks the
 *         daemon page by page; verify needs the receipts and so the directory.
 */
// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>

#include "sched/release/audit.h"
#include "sched/release/audit_verify.h"
#include "config/mem.h"
#include "server/admin_line.h"

enum { LIST_MAX_DEFAULT = 1000, LIST_MAX = 1000000, PAGE_ENTRIES = 1000 };
enum flag { AFTER, LIMIT, FLAG_COUNT };

static const struct option_extra flags[FLAG_COUNT] = {
    [AFTER] = {.flag = "after", .metavar = "SEQ", .prose = "list: only entries behind this one."},
    [LIMIT] = {.flag = "limit", .metavar = "N", .prose = "list: at most so many entries; 1000 if not given."},
};

static enum status print_entry(void *user, const struct audit_entry *entry, struct why *ret_why)
{
    (void)user;
    /* The entry's own text, so that who has it can hash it again. */
    if (printf("{\"hash\":\"%s\",\"entry\":%.*s}\n", entry->hash, (int)entry->len, entry->text) < 0)
        return why_set(ret_why, STATUS_IO, "", "the list cannot be written");
    return OK;
}

static enum status read_range(const struct admin_line *line, uint64_t *ret_first, uint64_t *ret_most,
                              struct why *ret_why)
{
    *ret_first = 0;
    *ret_most = LIST_MAX_DEFAULT;
    if (line->own[AFTER].ret_value != NULL)
        TRY(command_number(&line->own[AFTER], 0, INT64_MAX / 16, ret_first, ret_why));
    if (line->own[LIMIT].ret_value != NULL)
        TRY(command_number(&line->own[LIMIT], 1, LIST_MAX, ret_most, ret_why));
    return OK;
}

static int list(const struct admin_line *line, struct registry *registry, struct why *why)
{
    uint64_t first, most;
    enum status s = read_range(line, &first, &most, why);
    if (s == OK)
        s = audit_each(registry, (int64_t)first, (int64_t)most, print_entry, NULL, why);
    return s == OK ? COMMAND_DONE : command_failed(s, why);
}

/* Lines of a page, and the sequence number of the last one. */
static uint64_t count_lines(const char *text, size_t len, int64_t *ret_last)
{
    uint64_t n = 0;
    for (const char *end; len > 0 && (end = memchr(text, '\n', len)) != NULL; n++) {
        size_t line_len = (size_t)(end - text) + 1;
        json_t *line = json_loadb(text, line_len, 0, NULL);
        *ret_last = json_integer_value(json_object_get(json_object_get(line, "entry"), "seq"));
        json_decref(line);
        text += line_len;
        len -= line_len;
    }
    return n;
}

static int list_from_daemon(struct admin_line *line)
{
    uint64_t first, left;
    struct why why = {0};
    enum status s = read_range(line, &first, &left, &why);
    if (s != OK)
        return command_failed(s, &why);
    int64_t after = (int64_t)first;
    while (left > 0) {
        uint64_t page = left < PAGE_ENTRIES ? left : PAGE_ENTRIES;
        struct admin_question q = {.op = ADMIN_AUDIT_LIST, .after = after, .limit = (int64_t)page};
        struct admin_answer answer;
        int code;
        if (!admin_line_ask(line, &q, &answer, NULL, &code))
            return code;
        if (answer.text != NULL)
            fputs(answer.text, stdout);
        uint64_t n = answer.text != NULL ? count_lines(answer.text, answer.len, &after) : 0;
        mem_free(answer.text);
        left = n < page ? 0 : left - n;
    }
    return fflush(stdout) == 0 ? COMMAND_DONE : COMMAND_FAILED;
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

static int read_directory(struct admin_line *line, bool is_list)
{
    struct registry *registry = NULL;
    struct why why = {0};
    const char *state = line->extras[ADMIN_FLAG_STATE].ret_value;
    if (state == NULL)
        return command_misused("audit", "--state DIR is needed");
    int code = registry_open_reader(state, &registry, &why) != OK ? command_complain(&why)
               : is_list                                           ? list(line, registry, &why)
                         : verify(registry, admin_line_has(line, ADMIN_FLAG_JSON), &why);
    registry_close(&registry);
    return code;
}

int audit_command(size_t n_words, char *const *words)
{
    struct admin_line line;
    int code;
    if (!admin_line_read(&line, "audit", n_words, words, flags, FLAG_COUNT, &code))
        return code;
    size_t n = line.words.n_positionals;
    const char *word = n > 0 ? line.words.positionals[0] : "";
    bool is_list = strcmp(word, "list") == 0, is_verify = strcmp(word, "verify") == 0;
    if (n > 1 || (!is_list && !is_verify))
        code = command_unknown("audit", n > 0 ? line.words.positionals[n > 1] : NULL, "one word, list or verify");
    else if (is_list && admin_line_has(&line, ADMIN_FLAG_ADMIN))
        code = list_from_daemon(&line);
    else
        code = read_directory(&line, is_list);
    admin_line_release(&line);
    return code;
}
