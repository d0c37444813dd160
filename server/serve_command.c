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
#include "server/command.h"
#include "server/log.h"
#include "server/loop.h"
#include "server/service_notify.h"

extern char **environ;

struct parts {
    struct service service;
    struct server_stats stats;
    struct loop *loop;
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
                               .prefill_chunk = o->engine_prefill_chunk};
    TRY(engine_new(&e, &p->service.engine, ret_why));
    return engine_port_new(p->service.engine, loop_wake, p->loop, &p->service.port, ret_why);
}

static enum status make_lane(struct parts *p, const struct gguf *gguf, struct why *ret_why)
{
    const struct options *o = &p->service.options;
    struct lane_terms terms = {.cache_bytes = o->cache_bytes,
                               .cache_type = o->cache_type,
                               .isa = o->kernels_isa};
    terms.stop_ids =
        vocabulary_stop_ids(tokenizer_vocabulary(p->service.tokenizer), &terms.n_stop_ids);
    struct lane *lane;
    TRY(lane_load(gguf, &terms, p->service.engine, &lane, ret_why));
    enum status s = engine_add(p->service.engine, lane, ret_why);
    if (s == OK)
        p->service.lane = lane;
    else
        lane_free(&lane);
    return s;
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
    char hex[SHA256_HEX];
    sha256_hex(model->manifest->identity, hex);
    snprintf(service->generation, sizeof service->generation, "%.16s", hex);
}

static enum status load(struct parts *p, const char *path, struct why *ret_why)
{
    struct gguf *gguf = NULL;
    TRY(gguf_open(path, &gguf, ret_why));
    enum status s = tokenizer_new(gguf, &p->service.tokenizer, ret_why);
    if (s == OK)
        s = make_engine(p, ret_why);
    if (s == OK)
        s = make_lane(p, gguf, ret_why);
    gguf_free(&gguf);
    if (s != OK)
        return s;
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

static void announce(const struct parts *p, const char *url)
{
    const struct service *s = &p->service;
    printf("ready %s\n", url);
    fflush(stdout);
    log_event(LOG_LEVEL_INFO, "ready",
              "%s serves %s, generation %s, context %u, pages for %llu tokens", url, s->model_name,
              s->generation, lane_context(s->lane),
              (unsigned long long)lane_pool_tokens(s->lane));
    if (!service_notify("READY=1"))
        log_event(LOG_LEVEL_WARN, "notify", "the service manager could not be told");
}

/* The engine first: it wakes the loop until its thread has ended. */
static void parts_release(struct parts *p)
{
    engine_free(&p->service.engine);
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
    if (options_load(n_words, words, environ, NULL, 0, &parts.service.options, &line, &why) != OK)
        return command_complain(&why);
    if (line.is_help)
        return command_print_help("serve", NULL, 0, true);
    if (line.n_positionals != 1)
        return command_misused("serve", "serve takes one model file");
    log_init(parts.service.options.server_log_format, parts.service.options.server_log_level,
             STDERR_FILENO);
    return run(&parts, line.positionals[0]);
}
