/* rollout_command.c: `foldkv rollout`: what is done to a rollout, and its flags.
 *
 * HOW     `plan` needs no daemon. All else is a call of the admin API; a rollout that is not named is the newest.
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/mem.h"
#include "server/admin_line.h"
#include "server/rollout_forecast.h"
#include "server/rollout_screen.h"
#include "server/rollout_watch.h"

enum flag { PLAN, WATCH, REASON, ERROR, GOOD, TPOT_SPREAD, TTFT_SPREAD, FLAG_COUNT };

static const struct option_extra flags[FLAG_COUNT] = {
    [PLAN] = {.flag = "plan",
              .metavar = "FILE",
              .prose = "plan, start: the plan file; without it the default plan."},
    [WATCH] = {.flag = "watch",
               .prose = "status: stay and show arms, evidence and gates until the rollout ends; exit "
                        "0 only if it ends promoted."},
    [REASON] = {.flag = "reason",
                .metavar = "TEXT",
                .prose = "pause, abort: what the audit says of it."},
    [ERROR] = {.flag = "error-ppm",
               .metavar = "N",
               .prose = "plan: stable's error rate in millionths (1000)."},
    [GOOD] = {.flag = "good-ppm",
              .metavar = "N",
              .prose = "plan: stable's share of requests within the SLO in millionths (990000)."},
    [TPOT_SPREAD] = {.flag = "tpot-spread-milli",
                     .metavar = "N",
                     .prose = "plan: standard deviation of log TPOT in thousandths (250)."},
    [TTFT_SPREAD] = {.flag = "ttft-spread-milli",
                     .metavar = "N",
                     .prose = "plan: standard deviation of log TTFT in thousandths (500)."},
};

struct deed {
    const char *name;
    int (*run)(struct admin_line *line, const struct deed *deed);
    enum admin_op op;
    size_t most; /* words behind the name */
    const char *headline;
};

/* ---- plan ---- */

static enum status read_service(const struct admin_line *line, struct rollout_service *ret_service,
                                struct why *ret_why)
{
    const struct {
        enum flag flag;
        uint64_t most;
        uint32_t *ret;
    } numbers[] = {{ERROR, 999999, &ret_service->error_ppm},
                   {GOOD, 999999, &ret_service->good_ppm},
                   {TPOT_SPREAD, 3000, &ret_service->tpot_spread_milli},
                   {TTFT_SPREAD, 3000, &ret_service->ttft_spread_milli}};
    rollout_service_defaults(ret_service);
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        const struct option_extra *extra = &line->own[numbers[i].flag];
        uint64_t number;
        if (extra->ret_value == NULL)
            continue;
        TRY(command_number(extra, 1, numbers[i].most, &number, ret_why));
        *numbers[i].ret = (uint32_t)number;
    }
    return OK;
}

static enum status read_plan(const struct admin_line *line, struct rollout_plan *ret_plan,
                             struct why *ret_why)
{
    if (line->own[PLAN].ret_value != NULL)
        return rollout_plan_read_file(line->own[PLAN].ret_value, ret_plan, ret_why);
    rollout_plan_defaults(ret_plan);
    return OK;
}

static int show_plan(struct admin_line *line, const struct deed *deed)
{
    struct rollout_plan plan;
    struct rollout_service service;
    struct why why = {0};
    (void)deed;
    enum status s = read_service(line, &service, &why);
    if (s == OK)
        s = read_plan(line, &plan, &why);
    if (s == OK)
        s = rollout_forecast_print(&plan, &service, admin_line_has(line, ADMIN_FLAG_JSON), &why);
    return s == OK ? COMMAND_DONE : command_failed(s, &why);
}

/* ---- calls ---- */

/* The plan is read here first, so that a mistake in it is shown without a daemon's help; what is sent is its canonical text. */
static int start(struct admin_line *line, const struct deed *deed)
{
    struct rollout_plan plan;
    struct why why = {0};
    uint8_t hash[SHA256_BYTES];
    char *text = NULL;
    if (line->words.n_positionals != 2)
        return command_misused("rollout", "start takes the candidate: its id or name (foldkv generations shows both)");
    if (read_plan(line, &plan, &why) != OK)
        return command_complain(&why);
    if (rollout_plan_write(&plan, &text, hash) != OK)
        return command_complain(&(struct why){.text = "no memory for the plan"});
    json_t *object = json_pack("{s:s, s:o}", "candidate", line->words.positionals[1], "plan",
                               json_loads(text, 0, NULL));
    mem_free(text);
    char *body = admin_line_body(object);
    if (body == NULL)
        return command_complain(&(struct why){.text = "no memory for the request, or a name that is not UTF-8"});
    struct admin_question q = {.op = deed->op, .body = body};
    int code = rollout_watch_answer(line, &q, deed->headline);
    mem_free(body);
    return code;
}

/* The rollout that is meant: the second word, or the newest there is. False: printed, *ret_code. */
static bool find_rollout(struct admin_line *line, char ret_id[ADMIN_SUBJECT_ROOM], int *ret_code)
{
    struct admin_question q = {.op = ADMIN_ROLLOUT_LIST};
    struct admin_answer answer;
    json_t *json = NULL;
    if (line->words.n_positionals == 2) {
        snprintf(ret_id, ADMIN_SUBJECT_ROOM, "%s", line->words.positionals[1]);
        return true;
    }
    if (!admin_line_ask(line, &q, &answer, &json, ret_code))
        return false;
    const json_t *list = json_object_get(json, "rollouts");
    size_t n = json_array_size(list);
    snprintf(ret_id, ADMIN_SUBJECT_ROOM, "%s",
             n > 0 ? rollout_screen_text(json_array_get(list, n - 1), "id") : "");
    json_decref(json);
    mem_free(answer.text);
    if (n == 0)
        *ret_code = command_complain(
            &(struct why){.text = "there is no rollout yet: foldkv rollout start CANDIDATE begins one"});
    return n > 0;
}

static int act(struct admin_line *line, const struct deed *deed)
{
    char id[ADMIN_SUBJECT_ROOM], *body = NULL;
    int code;
    bool has_reason = line->own[REASON].ret_value != NULL;
    if (has_reason && deed->op != ADMIN_ROLLOUT_PAUSE && deed->op != ADMIN_ROLLOUT_ABORT)
        return command_misused("rollout", "--reason belongs to pause and abort");
    if (!find_rollout(line, id, &code))
        return code;
    if (has_reason && (body = admin_line_body(json_pack("{s:s}", "reason", line->own[REASON].ret_value))) == NULL)
        return command_complain(&(struct why){.text = "--reason: the text is not UTF-8"});
    struct admin_question q = {.op = deed->op, .subject = id, .body = body};
    code = rollout_watch_answer(line, &q, deed->headline);
    mem_free(body);
    return code;
}

static int show_list(struct admin_line *line, const struct deed *deed)
{
    struct admin_question q = {.op = deed->op};
    return admin_line_do(line, &q, NULL);
}

static int show_status(struct admin_line *line, const struct deed *deed)
{
    char id[ADMIN_SUBJECT_ROOM];
    int code;
    (void)deed;
    if (!find_rollout(line, id, &code))
        return code;
    return rollout_watch(line, id, line->own[WATCH].ret_value != NULL);
}

static const struct deed deeds[] = {
    {"plan", show_plan, ADMIN_OP_COUNT, 0, NULL},
    {"start", start, ADMIN_ROLLOUT_START, 1, "started"},
    {"status", show_status, ADMIN_ROLLOUT_READ, 1, NULL},
    {"list", show_list, ADMIN_ROLLOUT_LIST, 0, NULL},
    {"approve", act, ADMIN_ROLLOUT_APPROVE, 1, "approved"},
    {"pause", act, ADMIN_ROLLOUT_PAUSE, 1, "paused"},
    {"resume", act, ADMIN_ROLLOUT_RESUME, 1, "resumed"},
    {"promote", act, ADMIN_ROLLOUT_PROMOTE, 1, "taken"},
    {"abort", act, ADMIN_ROLLOUT_ABORT, 1, "aborted"},
};

int rollout_command(size_t n_words, char *const *words)
{
    struct admin_line line;
    int code;
    if (!admin_line_read(&line, "rollout", n_words, words, flags, FLAG_COUNT, &code))
        return code;
    const char *word = line.words.n_positionals > 0 ? line.words.positionals[0] : NULL;
    code = -1;
    for (size_t i = 0; word != NULL && i < ARRAY_LEN(deeds) && code < 0; i++)
        if (strcmp(word, deeds[i].name) == 0)
            code = line.words.n_positionals - 1 > deeds[i].most
                       ? command_unknown("rollout", line.words.positionals[deeds[i].most + 1],
                                         deeds[i].most > 0 ? "one id behind its word" : "nothing behind its word")
                       : deeds[i].run(&line, &deeds[i]);
    if (code < 0)
        code = command_unknown("rollout", word, "a word of its usage");
    admin_line_release(&line);
    return code;
}
