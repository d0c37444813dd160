/* admin_client.c: questions to a running daemon, by libcurl.
 *
 * HOW     One handle for the life of the client, so that a question that first reads the epoch uses one connection. Nothing of the
 *         environment is taken (no proxy, no redirection), and the answer is bounded.
 * NOT     Any judgement: what the daemon answered is the caller's to show.
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/admin_client.h"

#include <curl/curl.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <strings.h>
#include <sys/random.h>

#include "config/mem.h"
#include "config/text_buf.h"

enum { ANSWER_BYTES_MAX = 64 << 20, URL_MAX = 1024, KEY_MAX = 1024, PATH_MAX_BYTES = 107, CONNECT_MS = 5000 };

struct admin_client {
    CURL *curl;
    char base[URL_MAX]; /* "http://localhost" of a Unix socket */
    char socket[PATH_MAX_BYTES + 1];
    char key[KEY_MAX];
    char place[URL_MAX]; /* for errors */
    char curl_error[CURL_ERROR_SIZE];
};

/* ---- where it is ---- */

static char *dup_for_curl(const char *text)
{
    return mem_dup(text, strlen(text));
}

static enum status set_socket(struct admin_client *c, const char *folder, const char *path,
                              struct why *ret_why)
{
    int n = snprintf(c->socket, sizeof c->socket, "%s%s", folder, path);
    if (n < 1 || (size_t)n >= sizeof c->socket)
        return why_set(ret_why, STATUS_BAD_OPTION, "admin",
                       "the socket's path \"%.64s%.64s\" has %d bytes: 1 to %d are possible", folder,
                       path, n, (int)PATH_MAX_BYTES);
    snprintf(c->base, sizeof c->base, "http://localhost");
    snprintf(c->place, sizeof c->place, "%s", c->socket);
    return OK;
}

static enum status set_url(struct admin_client *c, const char *url, struct why *ret_why)
{
    size_t len = strlen(url);
    while (len > 0 && url[len - 1] == '/')
        len--;
    bool is_url = strncmp(url, "http://", 7) == 0 || strncmp(url, "https://", 8) == 0;
    if (!is_url || len >= sizeof c->base)
        return why_set(ret_why, STATUS_BAD_OPTION, "admin",
                       "--admin is \"%.200s\": give unix:PATH, http://HOST:PORT or https://HOST:PORT", url);
    snprintf(c->base, sizeof c->base, "%.*s", (int)len, url);
    snprintf(c->place, sizeof c->place, "%s", c->base);
    return OK;
}

static enum status read_key(struct admin_client *c, const char *path, struct why *ret_why)
{
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return why_set(ret_why, STATUS_IO, "admin-key-file", "--admin-key-file %.200s cannot be read: %s", path,
                       strerror(errno));
    bool is_read = fgets(c->key, sizeof c->key, file) != NULL;
    fclose(file);
    size_t len = is_read ? strcspn(c->key, "\r\n") : 0;
    c->key[len] = '\0';
    for (size_t i = 0; i < len; i++)
        if (c->key[i] <= ' ' || c->key[i] > '~')
            len = 0;
    if (len == 0 || len == sizeof c->key - 1)
        return why_set(ret_why, STATUS_BAD_OPTION, "admin-key-file",
                       "--admin-key-file %.200s: its first line must be the key, of printable ASCII without spaces, at most "
                       "%d bytes",
                       path, (int)KEY_MAX - 2);
    return OK;
}

static enum status settle_place(struct admin_client *c, const struct admin_place *place,
                                struct why *ret_why)
{
    if (place->key_path != NULL)
        TRY(read_key(c, place->key_path, ret_why));
    if (place->target != NULL && strncmp(place->target, "unix:", 5) == 0)
        return set_socket(c, "", place->target + 5, ret_why);
    if (place->target != NULL)
        return set_url(c, place->target, ret_why);
    if (place->state_dir != NULL)
        return set_socket(c, place->state_dir, "/admin.sock", ret_why);
    return why_set(ret_why, STATUS_BAD_OPTION, "admin",
                   "which daemon? Give --state DIR as to serve, or --admin unix:PATH|URL");
}

static bool set_up_curl(struct admin_client *c, uint32_t timeout_s)
{
    c->curl = curl_easy_init();
    if (c->curl == NULL)
        return false;
    bool is_set = curl_easy_setopt(c->curl, CURLOPT_NOSIGNAL, 1L) == CURLE_OK;
    is_set &= curl_easy_setopt(c->curl, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK;
    is_set &= curl_easy_setopt(c->curl, CURLOPT_PROXY, "") == CURLE_OK;
    is_set &= curl_easy_setopt(c->curl, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS) == CURLE_OK;
    is_set &= curl_easy_setopt(c->curl, CURLOPT_TIMEOUT, (long)timeout_s) == CURLE_OK;
    is_set &= curl_easy_setopt(c->curl, CURLOPT_ERRORBUFFER, c->curl_error) == CURLE_OK;
    if (c->socket[0] != '\0')
        is_set &= curl_easy_setopt(c->curl, CURLOPT_UNIX_SOCKET_PATH, c->socket) == CURLE_OK;
    return is_set;
}

enum status admin_client_new(const struct admin_place *place, struct admin_client **ret_client,
                             struct why *ret_why)
{
    struct admin_client *c = mem_zalloc(1, sizeof *c);
    *ret_client = c;
    if (c == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the client");
    enum status s = settle_place(c, place, ret_why);
    if (s == OK && curl_global_init_mem(CURL_GLOBAL_DEFAULT, mem_alloc, mem_free, mem_realloc, dup_for_curl,
                                        mem_zalloc) != CURLE_OK)
        s = why_set(ret_why, STATUS_NO_MEMORY, "", "the HTTP client did not start");
    if (s == OK && !set_up_curl(c, place->timeout_s))
        s = why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the HTTP client");
    if (s != OK)
        admin_client_free(ret_client);
    return s;
}

void admin_client_free(struct admin_client **client)
{
    struct admin_client *c = *client;
    *client = NULL;
    if (c == NULL)
        return;
    if (c->curl != NULL) {
        curl_easy_cleanup(c->curl);
        curl_global_cleanup();
    }
    explicit_bzero(c->key, sizeof c->key);
    mem_free(c);
}

/* ---- one exchange ---- */

/* What comes in while an answer is read. */
struct incoming {
    struct text_buf text;
    int64_t epoch;
};

static size_t take_body(char *bytes, size_t size, size_t n, void *user)
{
    struct incoming *in = user;
    text_buf_add_bytes(&in->text, bytes, size * n);
    return in->text.is_failed ? 0 : size * n;
}

/* ETag: "7" */
static size_t take_header(char *bytes, size_t size, size_t n, void *user)
{
    struct incoming *in = user;
    char line[64];
    snprintf(line, sizeof line, "%.*s", (int)(size * n), bytes);
    if (strncasecmp(line, "etag:", 5) == 0) {
        const char *digits = line + 5 + strspn(line + 5, " \t\"");
        in->epoch = *digits >= '0' && *digits <= '9' ? strtoll(digits, NULL, 10) : -1;
    }
    return size * n;
}

static bool add_header(struct curl_slist **headers, const char *name, const char *value)
{
    char line[KEY_MAX + 64];
    snprintf(line, sizeof line, "%s: %s", name, value);
    struct curl_slist *more = curl_slist_append(*headers, line);
    *headers = more != NULL ? more : *headers;
    return more != NULL;
}

/* The path of a question, its subject escaped. */
static enum status write_url(const struct admin_client *c, const struct admin_question *q,
                             char ret_url[URL_MAX * 2], struct why *ret_why)
{
    const char *path = admin_route(q->op)->path, *hole = strstr(path, "{id}");
    char *subject = NULL;
    if (hole != NULL) {
        ASSERT(q->subject != NULL);
        subject = curl_easy_escape(c->curl, q->subject, (int)strlen(q->subject));
        if (subject == NULL)
            return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the address");
    }
    int n = hole == NULL ? snprintf(ret_url, URL_MAX * 2, "%s%s", c->base, path)
                         : snprintf(ret_url, URL_MAX * 2, "%s%.*s%s%s", c->base, (int)(hole - path),
                                    path, subject, hole + 4);
    curl_free(subject);
    if (n > 0 && n < URL_MAX && q->op == ADMIN_AUDIT_LIST)
        n += snprintf(ret_url + n, (size_t)(URL_MAX * 2 - n), "?after=%" PRId64 "&limit=%" PRId64,
                      q->after, q->limit);
    else if (n > 0 && n < URL_MAX && q->is_dry_run)
        n += snprintf(ret_url + n, (size_t)(URL_MAX * 2 - n), "?dry_run=all");
    return n > 0 && n < URL_MAX * 2
               ? OK
               : why_set(ret_why, STATUS_BAD_OPTION, "id",
                         "the id or name \"%.64s\" has %zu bytes: fewer than %d are possible", q->subject,
                         strlen(q->subject), ADMIN_SUBJECT_ROOM);
}

/* key is "" for a question that changes nothing. */
static struct curl_slist *write_headers(const struct admin_client *c, const char *key,
                                        const char *epoch)
{
    struct curl_slist *headers = NULL;
    char bearer[KEY_MAX + 16], match[64];
    bool is_done = add_header(&headers, "Accept", "application/json");
    if (c->key[0] != '\0') {
        snprintf(bearer, sizeof bearer, "Bearer %s", c->key);
        is_done &= add_header(&headers, "Authorization", bearer);
    }
    if (key[0] != '\0') {
        snprintf(match, sizeof match, strcmp(epoch, "*") == 0 ? "%s" : "\"%s\"", epoch);
        is_done &= add_header(&headers, "Content-Type", "application/json");
        is_done &= add_header(&headers, "Idempotency-Key", key);
        is_done &= add_header(&headers, "If-Match", match);
    }
    if (is_done)
        return headers;
    curl_slist_free_all(headers);
    return NULL;
}

static CURLcode perform(struct admin_client *c, const char *method, const char *url,
                        const char *body, struct curl_slist *headers, struct incoming *in)
{
    bool is_get = strcmp(method, "GET") == 0;
    text_buf_release(&in->text);
    text_buf_init(&in->text, ANSWER_BYTES_MAX);
    in->epoch = -1;
    c->curl_error[0] = '\0';
    CURLcode code = curl_easy_setopt(c->curl, CURLOPT_URL, url);
    if (code == CURLE_OK)
        code = is_get ? curl_easy_setopt(c->curl, CURLOPT_HTTPGET, 1L)
                      : curl_easy_setopt(c->curl, CURLOPT_COPYPOSTFIELDS, body);
    if (code == CURLE_OK)
        code = curl_easy_setopt(c->curl, CURLOPT_CUSTOMREQUEST, is_get ? NULL : method);
    const struct {
        CURLoption option;
        void *value;
    } data[] = {{CURLOPT_HTTPHEADER, headers}, {CURLOPT_WRITEDATA, in}, {CURLOPT_HEADERDATA, in}};
    for (size_t i = 0; i < ARRAY_LEN(data) && code == CURLE_OK; i++)
        code = curl_easy_setopt(c->curl, data[i].option, data[i].value);
    if (code == CURLE_OK)
        code = curl_easy_setopt(c->curl, CURLOPT_WRITEFUNCTION, take_body);
    if (code == CURLE_OK)
        code = curl_easy_setopt(c->curl, CURLOPT_HEADERFUNCTION, take_header);
    return code == CURLE_OK ? curl_easy_perform(c->curl) : code;
}

/* It may have been heard: only the same key may be sent again. */
static bool is_broken(CURLcode code)
{
    return code == CURLE_GOT_NOTHING || code == CURLE_RECV_ERROR || code == CURLE_SEND_ERROR ||
           code == CURLE_PARTIAL_FILE;
}

/* A refusal as the daemon worded it, and its own status. */
static enum status refusal(const struct admin_answer *answer, struct why *ret_why)
{
    json_t *root = answer->text != NULL ? json_loadb(answer->text, answer->len, 0, NULL) : NULL;
    const json_t *error = json_object_get(root, "error");
    const char *message = json_string_value(json_object_get(error, "message"));
    const char *code = json_string_value(json_object_get(error, "code"));
    const char *param = json_string_value(json_object_get(error, "param"));
    enum status status = STATUS_INTERNAL;
    for (int s = OK + 1; s < STATUS_COUNT && code != NULL; s++)
        if (strcmp(status_code((enum status)s), code) == 0)
            status = (enum status)s;
    if (message != NULL && code != NULL)
        status = why_set(ret_why, status, param != NULL ? param : "", "%s (%s)", message, code);
    else
        status = why_set(ret_why, STATUS_INTERNAL, "",
                         "an answer of HTTP status %d that is not the admin API's", answer->http);
    json_decref(root);
    return status;
}

/* What curl says of a socket names a host that there is not; the system's word is better. */
static enum status unreachable(const struct admin_client *c, CURLcode code, struct why *ret_why)
{
    long number = 0;
    const char *text = c->curl_error[0] != '\0' ? c->curl_error : curl_easy_strerror(code);
    if (code == CURLE_COULDNT_CONNECT && curl_easy_getinfo(c->curl, CURLINFO_OS_ERRNO, &number) == CURLE_OK &&
        number != 0)
        text = strerror((int)number);
    return why_set(ret_why, STATUS_UNAVAILABLE, "admin", "nobody answers at %.128s: %.128s", c->place, text);
}

static enum status take_answer(struct admin_client *c, CURLcode code, struct incoming *in,
                               struct admin_answer *ret_answer, struct why *ret_why)
{
    long http = 0;
    if (code != CURLE_OK)
        return unreachable(c, code, ret_why);
    if (curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &http) != CURLE_OK)
        http = 0;
    ret_answer->http = (int)http;
    ret_answer->epoch = in->epoch;
    ret_answer->len = in->text.len;
    if (in->text.len > 0 && (ret_answer->text = text_buf_take(&in->text)) == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the answer");
    return http >= 200 && http < 300 ? OK : refusal(ret_answer, ret_why);
}

static enum status exchange(struct admin_client *c, const struct admin_question *q,
                            const char *key, const char *epoch, struct admin_answer *ret_answer,
                            struct why *ret_why)
{
    char url[URL_MAX * 2];
    struct incoming in = {0};
    TRY(write_url(c, q, url, ret_why));
    struct curl_slist *headers = write_headers(c, key, epoch);
    if (headers == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the headers");
    const char *method = admin_route(q->op)->method, *body = q->body != NULL ? q->body : "{}";
    CURLcode code = perform(c, method, url, body, headers, &in);
    if (is_broken(code))
        code = perform(c, method, url, body, headers, &in);
    enum status s = take_answer(c, code, &in, ret_answer, ret_why);
    text_buf_release(&in.text);
    curl_slist_free_all(headers);
    return s;
}

static enum status read_epoch(struct admin_client *c, char ret_epoch[32], struct why *ret_why)
{
    const struct admin_question q = {.op = ADMIN_GENERATION_LIST};
    struct admin_answer answer = {.epoch = -1};
    enum status s = exchange(c, &q, "", "", &answer, ret_why);
    mem_free(answer.text);
    if (s == OK && answer.epoch < 0)
        s = why_set(ret_why, STATUS_INTERNAL, "", "the daemon did not name the release epoch");
    snprintf(ret_epoch, 32, "%" PRId64, answer.epoch);
    return s;
}

enum status admin_client_ask(struct admin_client *c, const struct admin_question *q,
                             struct admin_answer *ret_answer, struct why *ret_why)
{
    *ret_answer = (struct admin_answer){.epoch = -1};
    enum admin_epoch kind = admin_route(q->op)->epoch;
    char key[33] = "", epoch[32] = "*";
    uint64_t random[2];
    if (kind == ADMIN_EPOCH_NONE)
        return exchange(c, q, "", "", ret_answer, ret_why);
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return why_set(ret_why, STATUS_IO, "", "the system gives no random bytes");
    snprintf(key, sizeof key, "%016" PRIx64 "%016" PRIx64, random[0], random[1]);
    if (q->epoch != NULL)
        snprintf(epoch, sizeof epoch, "%.31s", q->epoch);
    else if (kind == ADMIN_EPOCH_MATCH)
        TRY(read_epoch(c, epoch, ret_why));
    return exchange(c, q, key, epoch, ret_answer, ret_why);
}
