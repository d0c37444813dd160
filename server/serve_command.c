/* serve_command.c: `foldkv serve`: builds the parts, joins them, runs the loop, takes them apart.
 *
 * HOW     The port is taken first, so that a mistake shows before the work of loading; clients are let in last. Nothing is logged
 *         before the server is ready: until then a failure is one line and exit code 1.
 * OWNS    Service, loop, engine, tokenizer: from serve_command to its end.
 */
// SPDX-License-Identifier: Apache-2.0
#include <sched.h>
#include <sys/random.h>
#include <unistd.h>

#include "config/graph.h"
#include "sched/model.h"
#include "sched/release/releases.h"
#include "server/admin.h"
#include "server/command.h"
#include "server/listen_address.h"
#include "server/log.h"
#include "server/loop.h"
#include "server/model_file.h"
#include "server/release_stats.h"
#include "server/service_notify.h"

extern char **environ;

enum { ENCODED_MAX = 1 << 20 };

struct parts {
    struct service service;
    struct server_stats stats;
    struct release_stats release_stats;
    struct loop *loop;
    struct why admin_why; /* why there is no admin API beside a registry that takes no writes; "" */
};

/* Every core that this process may use. */
static uint32_t core_count(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    uint32_t n = (uint32_t)CPU_COUNT(&set);
    return n < 256 ? n : 256;
}

static enum status make_engine(struct parts *p, struct why *ret_why)
{
    const struct options *o = &p->service.options;
    struct engine_options e = {.n_threads =
                                   o->server_threads > 0 ? o->server_threads : core_count(),
                               .running_max = o->engine_running_max,
                               .queue_max = o->engine_queue_max,
                               .queue_tokens_max = o->engine_queue_tokens_max,
                               .prefill_chunk = o->engine_prefill_chunk,
                               .on_lane_change = releases_lane_changed,
                               .user = p->service.releases};
    TRY(engine_new(&e, &p->service.engine, ret_why));
    return engine_port_new(p->service.engine, loop_wake, p->loop, &p->service.port, ret_why);
}

/* ---- what the release side asks ---- */

static enum status encode(void *user, struct slice text, bool is_prompt, uint32_t **ret_ids,
                          uint32_t *ret_n, struct why *ret_why)
{
    const struct service *service = user;
    struct token_ids ids = {0};
    struct tokenizer_mode mode = {.add_special = is_prompt, .parse_special = is_prompt};
    token_ids_init(&ids, ENCODED_MAX);
    enum status s = tokenizer_encode(service->tokenizer, text, mode, &ids, ret_why);
    if (s != OK) {
        token_ids_release(&ids);
        return s;
    }
    *ret_ids = ids.ids;
    *ret_n = (uint32_t)ids.count;
    return OK;
}

static void on_event(void *user, bool is_bad, const char *what, const char *text)
{
    (void)user;
    log_event(is_bad ? LOG_LEVEL_WARN : LOG_LEVEL_INFO, what, "%s", text);
}

static void wake(void *user)
{
    struct parts *p = user;
    loop_wake(p->loop);
}

static void drain(void *user)
{
    struct parts *p = user;
    loop_drain(p->loop);
}

static enum status encode_for(void *user, struct slice text, bool is_prompt, uint32_t **ret_ids,
                              uint32_t *ret_n, struct why *ret_why)
{
    struct parts *p = user;
    return encode(&p->service, text, is_prompt, ret_ids, ret_n, ret_why);
}

static enum status open_releases(struct parts *p, const char *path, struct why *ret_why)
{
    const struct options *o = &p->service.options;
    const struct releases_options options = {
        .state_dir = o->release_state[0] != '\0' ? o->release_state : NULL,
        .model = path,
        .first_model = o->release_first_model[0] != '\0' ? o->release_first_model : NULL,
        .host = {.user = p,
                 .on_wake = wake,
                 .encode = encode_for,
                 .on_event = on_event,
                 .drain = drain}};
    p->service.may_pin = strcmp(o->release_pin, "on") == 0;
    p->service.release_stats = &p->release_stats;
    return releases_open(&options, &p->service.releases, ret_why);
}

static enum status ask_releases(void *user, struct admin_call *call)
{
    const struct parts *p = user;
    return releases_ask(p->service.releases, call);
}

/* Behind the registry, whose lock tells daemons of one folder apart. */
static enum status open_admin(struct parts *p, struct why *ret_why)
{
    const struct options *o = &p->service.options;
    const char *state_dir = o->release_state[0] != '\0' ? o->release_state : NULL;
    char address[ADMIN_ADDRESS_ROOM];
    TRY(admin_address(&p->service, state_dir, address, ret_why));
    if (address[0] == '\0')
        return OK;
    TRY(admin_new(o->admin_keys[0] != '\0' ? o->admin_keys : NULL,
                  (struct admin_side){.user = p, .ask = ask_releases}, &p->service.admin, ret_why));
    enum status s = loop_bind_admin(p->loop, address, ret_why);
    if (s == OK || o->admin_listen[0] != '\0' ||
        releases_opening_fault(p->service.releases)[0] == '\0')
        return s;
    p->admin_why = *ret_why; /* a socket in the folder that takes no writes: serving goes before asking */
    return OK;
}

static enum status start_releases(struct parts *p, const struct gguf *gguf, struct why *ret_why)
{
    const struct options *o = &p->service.options;
    struct releases_terms terms = {.engine = p->service.engine,
                                   .running_max = o->engine_running_max,
                                   .prefill_chunk = o->engine_prefill_chunk,
                                   .n_threads =
                                       o->server_threads > 0 ? o->server_threads : core_count(),
                                   .cache_bytes = o->cache_bytes,
                                   .control_bytes = o->release_control_bytes,
                                   .cache_type = o->cache_type,
                                   .isa = o->kernels_isa,
                                   .name = o->model_name,
                                   .opened = gguf};
    terms.stop_ids =
        vocabulary_stop_ids(tokenizer_vocabulary(p->service.tokenizer), &terms.n_stop_ids);
    TRY(releases_start(p->service.releases, &terms, ret_why));
    service_follow(&p->service, releases_stable(p->service.releases));
    return OK;
}

/* The operator's name, or the file's own, or the path's last part. */
static void name_model(struct service *service, const char *path)
{
    const struct model *model = lane_model(service->lane);
    const char *slash = strrchr(path, '/');
    const char *name = service->options.model_name;
    if (name[0] == '\0')
        name = model->graph->name;
    if (name[0] == '\0')
        name = slash != NULL ? slash + 1 : path;
    snprintf(service->model_name, sizeof service->model_name, "%s", name);
}

static enum status load_from(struct parts *p, const struct gguf *gguf, const char *path,
                             struct why *ret_why)
{
    TRY(why_in_file(ret_why, tokenizer_new(gguf, &p->service.tokenizer, ret_why), path));
    TRY(make_engine(p, ret_why));
    enum status s = start_releases(p, gguf, ret_why);
    return s == STATUS_BAD_FILE ? why_in_file(ret_why, s, path) : s;
}

static enum status load(struct parts *p, const char *path, struct why *ret_why)
{
    struct model_file file;
    TRY(open_releases(p, path, ret_why));
    TRY(open_admin(p, ret_why));
    path = releases_stable_file(p->service.releases);
    TRY(model_file_open(path, &file, ret_why));
    enum status s = load_from(p, file.gguf, path, ret_why);
    model_file_close(&file);
    TRY(s);
    name_model(&p->service, path);
    p->service.created_s = (int64_t)time(NULL);
    return OK;
}

static enum status start(struct parts *p, const char *path, const char **ret_url,
                         struct why *ret_why)
{
    uint64_t seeds[2];
    if (getrandom(seeds, sizeof seeds, 0) != sizeof seeds)
        return why_set(ret_why, STATUS_IO, "", "the system gives no random bytes");
    p->service.seed = seeds[0];
    p->service.next_seed = seeds[1];
    p->service.stats = &p->stats;
    TRY(loop_new(&p->service, &p->loop, ret_why));
    TRY(loop_bind(p->loop, p->service.options.server_listen, ret_why));
    TRY(load(p, path, ret_why));
    return loop_listen(p->loop, ret_url, ret_why);
}

static void announce_admin(const struct parts *p)
{
    struct sockaddr_storage address;
    const char *url = loop_admin_url(p->loop), *set = p->service.options.admin_listen;
    if (p->admin_why.text[0] != '\0')
        log_event(LOG_LEVEL_WARN, "admin",
                  "there is no admin API: %s; --admin-listen can name a place that can be written",
                  p->admin_why.text);
    if (url == NULL)
        return;
    log_event(LOG_LEVEL_INFO, "admin", "the admin API is at %s", url);
    if (set[0] != '\0' && listen_address_parse("admin.listen", set, &address, NULL) == OK &&
        !listen_address_is_local(&address))
        log_event(LOG_LEVEL_WARN, "admin",
                  "keys and answers are readable on their way to %s: let "
                  "something that speaks TLS stand in front of it",
                  url);
}

/* What code runs: settled now, for as long as the process lives. */
static void announce_kernels(const struct service *s)
{
    char sets[128] = "";
    size_t at = 0;
    for (int isa = 0; isa < ISA_COUNT; isa++)
        if ((isa_available() >> isa & 1u) != 0)
            at += (size_t)snprintf(sets + at, sizeof sets - at, "%s%s", at > 0 ? " " : "",
                                   isa_name((enum isa)isa));
    log_event(LOG_LEVEL_INFO, "kernels", "instruction set %s%s (this machine has: %s), plan %s, %s",
              s->isa, s->options.kernels_isa[0] != '\0' ? ", as kernels.isa asks" : "", sets,
              s->plan, s->numerics);
}

static void announce(const struct parts *p, const char *url)
{
    const struct service *s = &p->service;
    printf("ready %s\n", url);
    fflush(stdout);
    log_event(LOG_LEVEL_INFO, "ready",
              "%s serves %s, generation %s, context %u, pages for %llu tokens", url, s->model_name,
              s->generation, lane_context(s->lane), (unsigned long long)lane_pool_tokens(s->lane));
    announce_kernels(s);
    if (s->options.release_state[0] == '\0')
        log_event(LOG_LEVEL_INFO, "registry",
                  "generations are kept in memory: a restart knows its model file alone (--state "
                  "DIR keeps them)");
    if (releases_opening_fault(s->releases)[0] != '\0')
        log_event(LOG_LEVEL_WARN, "registry",
                  "%s; the stable generation is served alone, and changes of the release are answered "
                  "503, until it does",
                  releases_opening_fault(s->releases));
    announce_admin(p);
    if (!service_notify("READY=1"))
        log_event(LOG_LEVEL_WARN, "notify", "the service manager could not be told");
}

/* Whoever wakes the loop before the loop. */
static void parts_release(struct parts *p)
{
    releases_stop(p->service.releases);
    engine_free(&p->service.engine);
    releases_free(&p->service.releases);
    admin_free(&p->service.admin);
    loop_free(&p->loop);
    tokenizer_free(&p->service.tokenizer);
}

static int run(struct parts *p, const char *path)
{
    const char *url;
    struct why why = {0};
    if (start(p, path, &url, &why) != OK) {
        parts_release(p);
        return command_complain(&why);
    }
    announce(p, url);
    if (!loop_run(p->loop)) {
        log_event(LOG_LEVEL_ERROR, "stuck", "requests did not end; leaving them");
        _exit(COMMAND_FAILED); /* joining a thread that hangs would hang us too */
    }
    log_event(LOG_LEVEL_INFO, "stopped", "all requests ended");
    parts_release(p);
    return COMMAND_DONE;
}

int serve_command(size_t n_words, char *const *words)
{
    static struct parts parts; /* the loop's handles point into it; one a process */
    struct options_line line;
    struct why why = {0};
    enum status loaded =
        options_load(OPTIONS_SERVE, n_words, words, environ, NULL, 0, &parts.service.options, &line, &why);
    if (loaded != OK)
        return command_failed(loaded, &why);
    if (line.is_help)
        return command_print_help("serve", NULL, 0, OPTIONS_SERVE);
    bool has_model = parts.service.options.release_state[0] != '\0' ||
                     parts.service.options.release_first_model[0] != '\0';
    if (line.n_positionals > 1 || (line.n_positionals == 0 && !has_model))
        return command_unknown("serve", line.n_positionals > 1 ? line.positionals[1] : NULL, "one model file, or --state DIR");
    parts.service.n_words = n_words;
    parts.service.words = words;
    log_init(parts.service.options.server_log_format, parts.service.options.server_log_level,
             STDERR_FILENO);
    return run(&parts, line.n_positionals == 1 ? line.positionals[0] : NULL);
}
