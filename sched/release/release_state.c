/* release_state.c: the tables of states and steps. */
// SPDX-License-Identifier: Apache-2.0
#include "sched/release/release_state.h"

struct state_row {
    const char *text;
    uint32_t moves; /* bit (1 << state) for each state that it may go to */
};

static const struct state_row generations[GENERATION_STATE_COUNT] = {
#define TO(state) (1u << GENERATION_##state)
#define STATE(name, text, moves) [GENERATION_##name] = {(text), (moves)},
#include "sched/release/generation.def"
#undef STATE
#undef TO
};

static const struct step_row {
    enum journal_kind kind;
    const char *text;
} steps[JOURNAL_STEP_COUNT] = {
#define STEP(kind, name) [STEP_##name] = {JOURNAL_##kind, #name},
#include "sched/release/journal.def"
#undef STEP
};

static const char *const namespaces[] = {"open", "draining", "fenced", "freed"};
static const char *const kinds[] = {
    [JOURNAL_ROLLBACK] = "rollback", [JOURNAL_PROMOTION] = "promotion"};

static int find(const struct state_row *rows, int count, const char *text)
{
    int i = 0;
    while (i < count && (text == NULL || strcmp(rows[i].text, text) != 0))
        i++;
    return i;
}

const char *generation_state_text(enum generation_state state)
{
    return generations[state].text;
}

enum generation_state generation_state_find(const char *text)
{
    return (enum generation_state)find(generations, GENERATION_STATE_COUNT, text);
}

bool generation_may_move(enum generation_state from, enum generation_state to)
{
    return (generations[from].moves >> to & 1) != 0;
}

bool namespace_may_move(const char *from, const char *to)
{
    size_t n = ARRAY_LEN(namespaces), a = 0, b = 0;
    while (a < n && strcmp(namespaces[a], from) != 0)
        a++;
    while (b < n && strcmp(namespaces[b], to) != 0)
        b++;
    return a < b && b < n;
}

const char *journal_kind_text(enum journal_kind kind)
{
    return kinds[kind];
}

bool journal_kind_find(const char *text, enum journal_kind *ret_kind)
{
    for (size_t i = 0; text != NULL && i < ARRAY_LEN(kinds); i++)
        if (strcmp(kinds[i], text) == 0) {
            *ret_kind = (enum journal_kind)i;
            return true;
        }
    return false;
}

int journal_step_count(enum journal_kind kind)
{
    int count = 0;
    for (int i = 0; i < JOURNAL_STEP_COUNT; i++)
        count += steps[i].kind == kind;
    return count;
}

enum journal_step journal_step_at(enum journal_kind kind, int i)
{
    int first = kind == JOURNAL_ROLLBACK ? 0 : STEP_PIN_CANDIDATE_RELEASE;
    ASSERT(i >= 1 && i <= journal_step_count(kind));
    return (enum journal_step)(first + i - 1);
}

const char *journal_step_text(enum journal_step step)
{
    return steps[step].text;
}
