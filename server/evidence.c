/* evidence.c: one kernel's ladder.
 *
 * WHY     A higher rung cannot be inferred from a lower one, nor stand without it: equal outputs of code that nobody can name
 *         prove nothing.
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/evidence.h"

#include <stdarg.h>

#include "config/mem.h"

static const char *const rung_names[EVIDENCE_RUNGS] = {"api",        "source",  "parity",
                                                       "allocation", "traffic", "slo"};

static const char *const state_names[] = {"unproven", "proven", "not measurable here"};

const char *evidence_rung_name(enum evidence_rung rung)
{
    ASSERT(rung < EVIDENCE_RUNGS);
    return rung_names[rung];
}

const char *evidence_state_name(enum evidence_state state)
{
    ASSERT(state < ARRAY_LEN(state_names));
    return state_names[state];
}

void evidence_find(struct evidence_ladder *ladder, enum evidence_rung rung,
                   enum evidence_state state, const char *test, const char *format, ...)
{
    struct evidence_finding *f = &ladder->rungs[rung];
    va_list arguments;
    *f = (struct evidence_finding){.state = state, .test = test};
    va_start(arguments, format);
    vsnprintf(f->text, sizeof f->text, format, arguments);
    va_end(arguments);
}

/* The lowest rung that is not proven; EVIDENCE_RUNGS if all are. */
static int first_gap(const struct evidence_ladder *ladder)
{
    int rung = 0;
    while (rung < EVIDENCE_RUNGS && ladder->rungs[rung].state == EVIDENCE_PROVEN)
        rung++;
    return rung;
}

void evidence_withhold(struct evidence_ladder *ladder)
{
    int gap = first_gap(ladder);
    for (int rung = gap + 1; rung < EVIDENCE_RUNGS; rung++) {
        struct evidence_finding *f = &ladder->rungs[rung];
        char held[sizeof f->text];
        if (f->state != EVIDENCE_PROVEN)
            continue;
        memcpy(held, f->text, sizeof held);
        f->state = EVIDENCE_UNPROVEN;
        snprintf(f->text, sizeof f->text, "%s is not proven; held: %.180s", rung_names[gap], held);
    }
}

enum status evidence_check(const struct evidence_ladder *ladder, struct why *ret_why)
{
    int gap = first_gap(ladder);
    for (int rung = 0; rung < EVIDENCE_RUNGS; rung++) {
        const struct evidence_finding *f = &ladder->rungs[rung];
        if (f->text[0] == '\0')
            return why_set(ret_why, STATUS_BAD_FILE, ladder->kernel,
                           "kernel %s: %s is %s, and nothing says how that is known",
                           ladder->kernel, rung_names[rung], state_names[f->state]);
        if (rung > gap && f->state == EVIDENCE_PROVEN)
            return why_set(ret_why, STATUS_BAD_FILE, ladder->kernel,
                           "kernel %s: %s is said to be proven, but %s below it is %s",
                           ladder->kernel, rung_names[rung], rung_names[gap],
                           state_names[ladder->rungs[gap].state]);
    }
    return OK;
}

/* The texts are ours and printable; quotes and backslashes may come from a reason. */
static void add_string(struct text_buf *out, const char *text)
{
    text_buf_add_bytes(out, "\"", 1);
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == '"' || *p == '\\')
            text_buf_add_bytes(out, "\\", 1);
        text_buf_add_bytes(out, *p >= ' ' ? p : " ", 1);
    }
    text_buf_add_bytes(out, "\"", 1);
}

void evidence_add_json(struct text_buf *out, const struct evidence_ladder *l)
{
    text_buf_add(out, "{\"backend\":\"%s\",\"kernel\":\"%s\",\"chosen\":%s,", l->backend, l->kernel,
                 l->is_chosen ? "true" : "false");
    text_buf_add(out, "\"source\":{\"file\":");
    add_string(out, l->source.file);
    text_buf_add(out,
                 ",\"sha256\":\"%s\",\"parts\":%u,\"parts_sha256\":\"%s\",\"commit\":\"%s\",\"as_"
                 "committed\":%s},\"rungs\":[",
                 l->source.sha256, l->source.n_parts, l->source.parts_sha256, l->commit,
                 l->source.is_committed ? "true" : "false");
    for (int rung = 0; rung < EVIDENCE_RUNGS; rung++) {
        const struct evidence_finding *f = &l->rungs[rung];
        text_buf_add(out, "%s{\"rung\":\"%s\",\"state\":\"%s\",\"how\":", rung == 0 ? "" : ",",
                     rung_names[rung], state_names[f->state]);
        add_string(out, f->text);
        text_buf_add(out, ",\"test\":\"%s\"}", f->test);
    }
    text_buf_add(out, "]}");
}

void evidence_add_text(struct text_buf *out, const struct evidence_ladder *l,
                       const struct evidence_ladder *before)
{
    static const char marks[] = {'-', '+', '?'};
    text_buf_add(out, "%c %-34s %-8s", l->is_chosen ? '*' : ' ', l->kernel, l->backend);
    for (int rung = 0; rung < EVIDENCE_RUNGS; rung++)
        text_buf_add(out, " %s%c", rung_names[rung], marks[l->rungs[rung].state]);
    text_buf_add(out, "  %s %.12s\n", l->source.file, l->source.sha256);
    for (int rung = 0; rung < EVIDENCE_RUNGS; rung++) {
        const struct evidence_finding *f = &l->rungs[rung];
        bool is_new = before == NULL || strcmp(before->rungs[rung].text, f->text) != 0;
        if (f->state != EVIDENCE_PROVEN && is_new)
            text_buf_add(out, "      %-11s %s: %s\n", rung_names[rung], state_names[f->state],
                         f->text);
    }
}
