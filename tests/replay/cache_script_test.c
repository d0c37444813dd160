/* Cache scripts: scenarios for the cache as text, one file each in tests/replay/cache.
 *
 * WHY     A story that went wrong once is easier to read, and to keep, as a script than as a
 *         program.
 * HOW     One command a line, # starts a comment. Tokens are written as ranges, 1-64,7,7,100-120.
 *         The whole cache is checked after each line. A line that does not come out as it says
 *         fails with its number.
 *
 *   pool BLOCKS SEQUENCES [WINDOW...]          first; contexts hold 1024 tokens, appends 256. With
 *   windows there is a group for each (0: none) and memory for BLOCKS blocks of every group
 *   open NAME TOKENS [salt=S] [noreuse] [late] [-> reused=N copied=N from=NAME.I | STATUS]   late:
 *   the copy is not done yet moved NAME
 *   stage NAME N [-> STATUS]     commit NAME TOKENS     abort NAME     run NAME TOKENS: stage and
 *   commit close NAME | drop NAME
 *   state draining|fenced|freed     purge
 *   expect free=N used=N cached=N shared=N evicted=N spans:NAME=N length:NAME=N  any of them; of one
 *   group: used.GROUP=N (as free, cached, shared, evicted, total), first.GROUP:NAME=N its table's
 *   first block
 */
// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>

#include "cache/cache_check.h"
#include "tests/support/cache_fixture.h"
#include "tests/support/suite_run.h"

enum { CONTEXT = 1024, APPEND_MAX = 256, SEQUENCES_MAX = 8, LINE_BYTES = 512, SCRIPTS_MAX = 64 };

struct named {
    char name[16]; /* "": free */
    struct sequence *sequence;
};

static struct {
    const char *path;
    int line;
    char *rest; /* of the line */
    struct cache *cache;
    struct named named[SEQUENCES_MAX];
} script;

static char *paths[SCRIPTS_MAX];
static int n_paths;

#define FAIL(...)                                                                                  \
    do {                                                                                           \
        printf("%s:%d: ", script.path, script.line);                                               \
        printf(__VA_ARGS__);                                                                       \
        putchar('\n');                                                                             \
        fflush(stdout);                                                                            \
        ck_abort_msg("see above");                                                                 \
    } while (0)

/* The next word of the line, or NULL. */
static char *word(void)
{
    return strtok_r(NULL, " \t\n", &script.rest);
}

static char *need_word(void)
{
    char *w = word();
    if (w == NULL)
        FAIL("a word is missing");
    return w;
}

static struct named *find_named(const char *name)
{
    for (int i = 0; i < SEQUENCES_MAX; i++)
        if (strcmp(script.named[i].name, name) == 0)
            return &script.named[i];
    FAIL("there is no sequence '%s'", name);
}

static uint32_t number(const char *text)
{
    char *end;
    unsigned long n = strtoul(text, &end, 10);
    if (end == text || *end != '\0')
        FAIL("'%s' is no number", text);
    return (uint32_t)n;
}

static uint32_t tokens(char *text, uint32_t ids[CONTEXT])
{
    uint32_t n = 0;
    char *rest = NULL;
    for (char *part = strtok_r(text, ",", &rest); part != NULL; part = strtok_r(NULL, ",", &rest)) {
        char *dash = strchr(part, '-');
        if (dash != NULL)
            *dash = '\0';
        uint32_t first = number(part), last = dash != NULL ? number(dash + 1) : first;
        for (uint32_t id = first; id <= last; id++) {
            if (n == CONTEXT)
                FAIL("more than %d tokens", CONTEXT);
            ids[n++] = id;
        }
    }
    return n;
}

static void check_status(enum status got, const char *want)
{
    if (strcmp(status_code(got), want) != 0)
        FAIL("wanted %s, got %s", want, status_code(got));
}

/* "from=NAME.I": page I of that sequence. */
static void check_from(const struct cache_move *move, char *text)
{
    char *dot = strchr(text, '.');
    if (dot == NULL)
        FAIL("from=NAME.I is needed");
    *dot = '\0';
    uint32_t page = cache_fixture_page(find_named(text)->sequence, number(dot + 1));
    if (page != move->from_page[0])
        FAIL("copied from page %u, wanted %u", move->from_page[0], page);
}

static void cmd_open(void)
{
    uint32_t ids[CONTEXT];
    struct named *slot = find_named("");
    snprintf(slot->name, sizeof slot->name, "%s", need_word());
    uint32_t n = tokens(need_word(), ids);
    const char *salt = NULL, *want = "ok";
    char *reused = NULL, *copied = NULL, *from = NULL;
    bool may_reuse = true, is_late = false;
    for (char *w; (w = word()) != NULL;) {
        if (strncmp(w, "salt=", 5) == 0)
            salt = w + 5;
        else if (strcmp(w, "noreuse") == 0)
            may_reuse = false;
        else if (strcmp(w, "late") == 0)
            is_late = true;
        else if (strncmp(w, "reused=", 7) == 0)
            reused = w + 7;
        else if (strncmp(w, "copied=", 7) == 0)
            copied = w + 7;
        else if (strncmp(w, "from=", 5) == 0)
            from = w + 5;
        else if (strcmp(w, "->") != 0)
            want = w;
    }
    struct cache_move move;
    check_status(sequence_open(script.cache, (const uint8_t *)salt, salt != NULL ? strlen(salt) : 0,
                               ids, n, may_reuse, &slot->sequence, &move),
                 want);
    if (slot->sequence == NULL) {
        slot->name[0] = '\0';
        return;
    }
    if (reused != NULL && sequence_reused(slot->sequence) != number(reused))
        FAIL("reused %u tokens, wanted %s", sequence_reused(slot->sequence), reused);
    if (copied != NULL && move.n_tokens != number(copied))
        FAIL("copied %u tokens, wanted %s", move.n_tokens, copied);
    if (from != NULL)
        check_from(&move, from);
    if (!is_late)
        sequence_moved(slot->sequence);
}

static void stage(struct sequence *sequence, uint32_t n)
{
    const char *arrow = word();
    check_status(append_open(sequence, n), arrow != NULL ? need_word() : "ok");
}

static void cmd_stage(void)
{
    struct sequence *sequence = find_named(need_word())->sequence;
    stage(sequence, number(need_word()));
}

static void cmd_commit(void)
{
    uint32_t ids[CONTEXT];
    struct sequence *sequence = find_named(need_word())->sequence;
    append_commit(sequence, ids, tokens(need_word(), ids));
}

static void cmd_run(void)
{
    uint32_t ids[CONTEXT];
    struct sequence *sequence = find_named(need_word())->sequence;
    uint32_t n = tokens(need_word(), ids);
    stage(sequence, n);
    append_commit(sequence, ids, n);
}

static void cmd_abort(void)
{
    append_abort(find_named(need_word())->sequence);
}

static void cmd_moved(void)
{
    sequence_moved(find_named(need_word())->sequence);
}

static void close_named(bool publish)
{
    struct named *named = find_named(need_word());
    sequence_close(&named->sequence, publish);
    named->name[0] = '\0';
}

static void cmd_close(void)
{
    close_named(true);
}

static void cmd_drop(void)
{
    close_named(false);
}

static void cmd_purge(void)
{
    cache_purge(script.cache);
}

static void cmd_state(void)
{
    const char *name = need_word();
    cache_set_namespace_state(script.cache, strcmp(name, "draining") == 0 ? NAMESPACE_DRAINING
                                            : strcmp(name, "fenced") == 0 ? NAMESPACE_FENCED
                                                                          : NAMESPACE_FREED);
}

/* A group's figure, or the sum's where the group is -1. */
static uint64_t figure(const char *what, int group)
{
    struct cache_books sums = cache_books(script.cache);
    struct cache_group_books books =
        cache_group_books(script.cache, group < 0 ? 0 : (uint32_t)group);
    bool all = group < 0;
    const struct {
        const char *name;
        uint64_t value;
    } figures[] = {{"free", all ? sums.blocks_free : books.blocks_free},
                   {"used", all ? sums.blocks_used : books.blocks_used},
                   {"cached", all ? sums.blocks_cached : books.blocks_cached},
                   {"shared", all ? sums.blocks_shared : books.blocks_shared},
                   {"evicted", all ? sums.evicted_blocks : books.evicted_blocks},
                   {"total", all ? sums.blocks_total : books.blocks_total}};
    for (size_t i = 0; i < ARRAY_LEN(figures); i++)
        if (strcmp(figures[i].name, what) == 0)
            return figures[i].value;
    FAIL("nothing is called '%s'", what);
}

static uint64_t value_of(char *what)
{
    char *colon = strchr(what, ':');
    if (colon != NULL)
        *colon = '\0';
    char *dot = strchr(what, '.');
    if (dot != NULL)
        *dot = '\0';
    int group = dot != NULL ? (int)number(dot + 1) : -1;
    if (group >= (int)cache_groups(script.cache))
        FAIL("there is no group %d", group);
    if (colon == NULL)
        return figure(what, group);
    const struct sequence *sequence = find_named(colon + 1)->sequence;
    uint32_t first_page, n_spans;
    (void)sequence_spans(sequence, group < 0 ? 0 : (uint32_t)group, &first_page, &n_spans);
    if (strcmp(what, "first") == 0)
        return first_page;
    return strcmp(what, "spans") == 0 ? n_spans : sequence_length(sequence);
}

static void cmd_expect(void)
{
    for (char *w; (w = word()) != NULL;) {
        char *equals = strchr(w, '=');
        if (equals == NULL)
            FAIL("'%s' is not name=number", w);
        *equals = '\0';
        char what[LINE_BYTES];
        snprintf(what, sizeof what, "%s", w);
        uint64_t got = value_of(w);
        if (got != number(equals + 1))
            FAIL("%s is %llu, wanted %s", what, (unsigned long long)got, equals + 1);
    }
}

static void cmd_pool(void)
{
    uint32_t n_blocks = number(need_word()), n_sequences = number(need_word());
    uint32_t windows[CACHE_GROUPS_MAX] = {0}, n_groups = 0;
    for (char *w; (w = word()) != NULL && n_groups < CACHE_GROUPS_MAX;)
        windows[n_groups++] = number(w);
    if (n_groups == 0)
        script.cache = cache_fixture_new(n_blocks, n_sequences, CONTEXT);
    else
        script.cache =
            cache_fixture_windows(windows, n_groups, n_blocks, n_sequences, CONTEXT, APPEND_MAX);
}

static const struct {
    const char *name;
    void (*run)(void);
} commands[] = {{"pool", cmd_pool},   {"open", cmd_open},     {"moved", cmd_moved},
                {"stage", cmd_stage}, {"commit", cmd_commit}, {"run", cmd_run},
                {"abort", cmd_abort}, {"close", cmd_close},   {"drop", cmd_drop},
                {"purge", cmd_purge}, {"state", cmd_state},   {"expect", cmd_expect}};

static void play_line(char *line)
{
    line[strcspn(line, "#")] = '\0';
    char *name = strtok_r(line, " \t\n", &script.rest);
    if (name == NULL)
        return;
    size_t i = 0;
    while (i < ARRAY_LEN(commands) && strcmp(commands[i].name, name) != 0)
        i++;
    if (i == ARRAY_LEN(commands) || (script.cache == NULL) != (i == 0))
        FAIL("'%s' is no command here", name);
    commands[i].run();
    const char *wrong = cache_check(script.cache);
    if (wrong != NULL)
        FAIL("%s", wrong);
}

START_TEST(each_script)
{
    script.path = paths[_i];
    FILE *file = fopen(script.path, "r");
    ck_assert_ptr_nonnull(file);
    char line[LINE_BYTES];
    while (fgets(line, sizeof line, file) != NULL) {
        script.line++;
        play_line(line);
    }
    ck_assert_msg(script.cache != NULL, "%s has no command", script.path);
    fclose(file);
    cache_free(&script.cache);
}
END_TEST

/* The *.txt of the folder, with their paths. */
static void list_scripts(const char *folder)
{
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        const char *dot = strrchr(entry->d_name, '.');
        if (dot == NULL || strcmp(dot, ".txt") != 0 || n_paths == SCRIPTS_MAX)
            continue;
        char path[4096];
        int len = snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        paths[n_paths++] = strndup(path, (size_t)len);
    }
    if (dir != NULL)
        closedir(dir);
}

int main(int argc, char **argv)
{
    if (argc == 2)
        list_scripts(argv[1]);
    Suite *suite = suite_create("cache_script");
    TCase *tcase = tcase_create("scripts");
    tcase_set_timeout(tcase, 30);
    tcase_add_loop_test(tcase, each_script, 0, n_paths);
    suite_add_tcase(suite, tcase);
    int result = suite_run(suite);
    for (int i = 0; i < n_paths; i++)
        free(paths[i]);
    return result;
}
