/* registry_actor.c: publishes, promotes and rolls back in a state directory, and tells over a socket what it was told is
 * durable; so that it may be killed, or its disk made to fail, at any call.
 *
 *   registry_actor DIR SCENARIO FD [SOURCE]
 *
 * HOW     It says "tid N", the thread that makes all durable calls, waits for a byte, and does the scenario step by step on
 *         that thread: the registry's own, or, for "create" and "recover", the main one. After each durable step it says
 *         "told STEP SEQ HASH": the head of the audit then. What is told must be there after any end. "failed STEP STATUS"
 *         is said of a step that did not happen; then it looks whether reading goes on and writing is refused.
 *         "recover" says "found ..." of what it finds before it carries on, "wrong ..." of each invariant that does not
 *         hold, and "settled ..." at the end.
 */
// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sched/release/audit.h"
#include "sched/release/audit_verify.h"
#include "sched/release/object_store.h"
#include "sched/release/registry_thread.h"
#include "tests/support/release_rig.h"

static int out_fd;
static const char *dir, *source;
static struct world world;
static struct journal_effects effects;

/* send, not write: the calls that are killed are those of the registry alone. */
static void say(const char *format, ...)
{
    char line[600];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    line[n] = '\n';
    if (send(out_fd, line, (size_t)n + 1, 0) < 0)
        _exit(9);
}

static void wait_for_go(void)
{
    char byte;
    say("tid %d", (int)gettid());
    if (recv(out_fd, &byte, 1, 0) != 1)
        _exit(9);
}

static void tell(struct registry *registry, const char *what)
{
    int64_t seq = 0;
    char hash[SHA256_HEX] = "";
    if (audit_head(registry, &seq, hash, NULL) == OK)
        say("told %s %" PRId64 " %s", what, seq, hash);
}

/* ---- steps: on the thread that makes durable calls ---- */

static char candidate[SHA256_HEX];

static void told_by_rig(void *user, const char *what)
{
    tell(user, what);
}

static enum status copy_object(struct why *why)
{
    struct object_copy *copy;
    char hash[SHA256_HEX];
    bool is_done = false;
    enum status s = object_copy_begin(dir, source, &copy, why);
    while (s == OK && !is_done)
        s = object_copy_step(copy, &is_done, hash, why);
    object_copy_free(&copy);
    if (s == OK)
        say("object %s", hash);
    return s;
}

static enum status do_copy(struct registry *registry, struct why *why)
{
    (void)registry;
    return copy_object(why);
}

static enum status do_found(struct registry *registry, struct why *why)
{
    char id[SHA256_HEX];
    return rig_found(registry, "first", id, why);
}

static enum status do_publish_second(struct registry *registry, struct why *why)
{
    return rig_publish(registry, "second", told_by_rig, registry, candidate, why);
}

static enum status do_publish_third(struct registry *registry, struct why *why)
{
    return rig_publish(registry, "third", told_by_rig, registry, candidate, why);
}

/* Whether anything can be written at all. */
static enum status do_probe(struct registry *registry, struct why *why)
{
    char id[SHA256_HEX];
    return rig_publish(registry, "probe", NULL, NULL, id, why);
}

static enum status find_candidate(struct registry *registry, const char *name, struct why *why)
{
    struct record row;
    TRY(release_find(registry, name, candidate, &row, why));
    record_release(&row);
    return OK;
}

static enum status start(struct registry *registry, const char *name, bool is_auto, struct why *why)
{
    TRY(find_candidate(registry, name, why));
    return rig_start(registry, candidate, is_auto, NULL, why);
}

static enum status do_start_second(struct registry *registry, struct why *why)
{
    return start(registry, "second", false, why);
}

static enum status do_start_third(struct registry *registry, struct why *why)
{
    return start(registry, "third", true, why);
}

static enum status do_propose_third(struct registry *registry, struct why *why)
{
    return start(registry, "third", false, why);
}

static enum status do_approve(struct registry *registry, struct why *why)
{
    return rig_command(registry, EVENT_APPROVE, NULL, why);
}

static enum status do_resume(struct registry *registry, struct why *why)
{
    return rig_command(registry, EVENT_RESUME, NULL, why);
}

static enum status do_abort(struct registry *registry, struct why *why)
{
    return rig_command(registry, EVENT_ABORT, "by hand", why);
}

static enum status do_pass(struct registry *registry, struct why *why)
{
    return rig_tick(registry, RIG_PASS, why);
}

static enum status do_judge_pause(struct registry *registry, struct why *why)
{
    return rig_tick(registry, RIG_PAUSE, why);
}

/* At once in memory, before anything is durable: whoever would be rolled back is barred. */
static enum status bar(struct registry *registry, struct why *why)
{
    struct projection p;
    TRY(projection_read(registry, &p, why));
    snprintf(world.barred, sizeof world.barred, "%s",
             p.candidate[0] != '\0' ? p.candidate : p.stable);
    return OK;
}

static enum status do_fail(struct registry *registry, struct why *why)
{
    TRY(bar(registry, why));
    return rig_tick(registry, RIG_FAIL, why);
}

static enum status do_rollback(struct registry *registry, struct why *why)
{
    TRY(bar(registry, why));
    return rig_roll_back(registry, "by hand", why);
}

static enum status do_block(struct registry *registry, struct why *why)
{
    world.is_pin_failing = true;
    return do_rollback(registry, why);
}

static enum status do_unblock(struct registry *registry, struct why *why)
{
    world.is_pin_failing = false;
    return do_rollback(registry, why);
}

/* UNAVAILABLE while a journal is open. */
static enum status do_settle(struct registry *registry, struct why *why)
{
    struct journal_case c;
    enum status s = journal_find_open(registry, &c, why);
    if (s == STATUS_NOT_FOUND)
        return OK;
    return s == OK && !c.is_blocked ? STATUS_UNAVAILABLE : s;
}

static enum status do_look(struct registry *registry, struct why *why)
{
    struct projection p;
    return projection_read(registry, &p, why);
}

struct step {
    const char *name;
    enum status (*run)(struct registry *registry, struct why *why);
};

enum { STEPS_MAX = 16 };
static const struct scenario {
    const char *name;
    struct step steps[STEPS_MAX];
} scenarios[] = {
    {"found", {{"found", do_found}}},
    {"publish",
     {{"copy", do_copy},
      {"publish", do_publish_second},
      {"start", do_start_second},
      {"approve", do_approve},
      {"settle", do_settle}}},
    {"promote",
     {{"pass1", do_pass},
      {"pass2", do_pass},
      {"pass3", do_pass},
      {"approve", do_approve},
      {"settle", do_settle}}},
    {"prepare", {{"publish", do_publish_third}, {"start", do_start_third}}},
    {"rollback", {{"pass1", do_pass}, {"fail", do_fail}, {"settle", do_settle}}},
    {"intent", {{"pass1", do_pass}, {"rollback", do_rollback}}}, /* and the process ends */
    {"sidelines",
     {{"start", do_propose_third},
      {"abort", do_abort},
      {"start", do_start_third},
      {"pause", do_judge_pause},
      {"resume", do_resume},
      {"block", do_block},
      {"blocked", do_settle},
      {"unblock", do_unblock},
      {"settle", do_settle}}},
    {"back", {{"rollback", do_rollback}, {"settle", do_settle}}}, /* to the previous generation */
    {"third", {{"publish", do_publish_third}}},
};

/* ---- the main thread asks the registry's ---- */

struct asked {
    struct registry_job job;
    const struct step *step;
    atomic_bool is_done;
};

static enum job_turn run_step(struct registry *registry, struct registry_job *job)
{
    struct asked *asked = (struct asked *)job;
    world.registry = registry;
    job->status = asked->step->run(registry, &job->why);
    if (job->status == OK && strcmp(asked->step->name, "look") != 0)
        tell(registry, asked->step->name);
    return JOB_DONE;
}

static enum job_turn run_hello(struct registry *registry, struct registry_job *job)
{
    (void)registry;
    wait_for_go();
    job->status = OK;
    return JOB_DONE;
}

static void ask(struct registry_port *port, struct asked *asked)
{
    struct registry_job *done;
    if (registry_port_submit(port, &asked->job) != OK)
        _exit(9);
    while ((done = registry_port_next(port)) == NULL)
        sched_yield();
}

/* A step failed: nothing is admitted, reading goes on, and writing is refused or works again. */
static int judge_failure(struct registry_thread *thread, struct registry_port *port,
                         const struct asked *failed)
{
    static const struct step look = {"look", do_look}, write = {"again", do_probe};
    struct asked reading = {.job.run = run_step, .step = &look};
    struct asked writing = {.job.run = run_step, .step = &write};
    say("failed %s %s %s", failed->step->name, status_code(failed->job.status),
        failed->job.why.text);
    ask(port, &reading);
    ask(port, &writing);
    say("after read=%s write=%s writable=%d", status_code(reading.job.status),
        status_code(writing.job.status), registry_thread_is_writable(thread));
    return 3;
}

static int act(const struct scenario *scenario)
{
    struct registry_thread *thread;
    struct registry_port *port;
    struct why why = {0};
    const struct registry_thread_options options = {
        .dir = dir, .effects = &effects, .queue_max = 4};
    if (registry_thread_new(&options, 1000, &thread, &why) != OK ||
        registry_port_new(thread, NULL, NULL, &port) != OK) {
        say("refused %s", why.text);
        return 4;
    }
    struct asked hello = {.job.run = run_hello};
    world.in_flight = 2;
    world.drain_turns = 2;
    ask(port, &hello);
    for (const struct step *step = scenario->steps; step->name != NULL; step++) {
        struct asked asked = {.job.run = run_step, .step = step};
        do
            ask(port, &asked);
        while (asked.job.status == STATUS_UNAVAILABLE && registry_thread_is_writable(thread));
        if (asked.job.status != OK)
            return judge_failure(thread, port, &asked);
    }
    bool has_ended = strcmp(scenario->name, "intent") != 0;
    if (has_ended)
        registry_thread_free(&thread);
    say(world.n_wrong == 0 ? "done" : "wrong %s", world.wrong);
    return world.n_wrong == 0 ? 0 : 5;
}

/* ---- recovery ---- */

static enum status say_generation(void *user, const char *key, const struct record *body,
                                  struct why *why)
{
    (void)why;
    say("%s generation %.8s %s", (const char *)user, key, record_text(body, "state"));
    return OK;
}

static enum status say_rollout(void *user, const char *key, const struct record *body,
                               struct why *why)
{
    int64_t step = 0;
    (void)why, (void)key;
    const struct record now = record_child(body, "now");
    (void)record_number(&now, "step", &step);
    say("%s rollout %s %" PRId64, (const char *)user, record_text(&now, "state"), step);
    return OK;
}

static enum status say_journal(void *user, const char *key, const struct record *body,
                               struct why *why)
{
    int64_t step = 0;
    (void)why, (void)key;
    (void)record_number(body, "step", &step);
    say("%s journal %s %" PRId64 " %s", (const char *)user, record_text(body, "kind"), step,
        record_text(body, "state"));
    return OK;
}

static enum status say_entry(void *user, const struct audit_entry *entry, struct why *why)
{
    (void)user, (void)why;
    say("entry %" PRId64 " %s", entry->seq, entry->hash);
    return OK;
}

static enum status say_all(struct registry *registry, const char *when, struct why *why)
{
    TRY(registry_each(registry, REGISTRY_GENERATIONS, say_generation, (void *)(uintptr_t)when,
                      why));
    TRY(registry_each(registry, REGISTRY_ROLLOUTS, say_rollout, (void *)(uintptr_t)when, why));
    return registry_each(registry, REGISTRY_JOURNALS, say_journal, (void *)(uintptr_t)when, why);
}

static enum status settle(struct registry *registry, struct why *why)
{
    struct audit_report report;
    struct journal_case c;
    TRY(audit_verify(registry, &report, why));
    TRY(audit_each(registry, 0, 100000, say_entry, NULL, why));
    TRY(say_all(registry, "found", why));
    TRY(world_recover(&world, registry, why));
    world_check(&world);
    enum status s = journal_find_open(registry, &c, why);
    if (s == OK && c.is_blocked) /* the person that it waits for */
        TRY(rig_roll_back(registry, "again", why));
    TRY(world_settle(&world, why));
    TRY(audit_verify(registry, &report, why));
    return say_all(registry, "settled", why);
}

static int recover(void)
{
    struct registry *registry = NULL;
    struct why why = {0};
    wait_for_go();
    enum status s = registry_open(dir, &registry, &why);
    if (s == OK)
        s = object_store_open(dir, &why);
    if (s == OK)
        s = settle(registry, &why);
    registry_close(&registry);
    if (s != OK)
        say("refused %s", why.text);
    else
        say(world.n_wrong == 0 ? "done" : "wrong %s", world.wrong);
    return s != OK ? 4 : world.n_wrong == 0 ? 0 : 5;
}

static int create(void)
{
    struct registry *registry = NULL;
    struct why why = {0};
    wait_for_go();
    enum status s = registry_open(dir, &registry, &why);
    if (s == OK)
        s = do_found(registry, &why);
    if (s == OK)
        tell(registry, "found");
    registry_close(&registry);
    if (s != OK)
        say("failed create %s %s", status_code(s), why.text);
    else
        say("done");
    return s == OK ? 0 : 3;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    dir = argv[1];
    out_fd = (int)strtol(argv[3], NULL, 10);
    source = argc > 4 ? argv[4] : argv[0];
    world_effects(&world, &effects);
    if (strcmp(argv[2], "recover") == 0)
        return recover();
    if (strcmp(argv[2], "create") == 0)
        return create();
    for (size_t i = 0; i < ARRAY_LEN(scenarios); i++)
        if (strcmp(scenarios[i].name, argv[2]) == 0)
            return act(&scenarios[i]);
    return 2;
}
