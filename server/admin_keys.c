/* admin_keys.c: keys are kept and compared as hashes.
 *
 * WHY     Whoever can read this process's memory, or time its answers, must not learn a key from it.
 * HOW     What a client sends is hashed and compared with every row, to the last byte and the last row.
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/admin_keys.h"

#include <openssl/crypto.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/mem.h"

enum { FILE_BYTES_MAX = 1 << 17 };

struct key_row {
    uint8_t hash[SHA256_BYTES];
    enum admin_role role;
    char name[ADMIN_NAME_MOST + 1];
};

struct admin_keys {
    size_t n;
    struct key_row rows[ADMIN_KEYS_MAX];
};

struct line {
    const char *word[3];
    size_t len[3];
    size_t number;
};

static enum status refuse(const struct line *line, const char *text, struct why *ret_why)
{
    return why_set(ret_why, STATUS_BAD_OPTION, "admin.keys", "admin.keys, line %zu: %s",
                   line->number, text);
}

/* The words of a line, at most four are counted. */
static size_t split(const char *text, size_t len, struct line *line)
{
    size_t n = 0;
    for (size_t i = 0; i < len && n < 4; n++) {
        while (i < len && (text[i] == ' ' || text[i] == '\t' || text[i] == '\r'))
            i++;
        size_t from = i;
        while (i < len && text[i] != ' ' && text[i] != '\t' && text[i] != '\r')
            i++;
        if (i == from)
            break;
        if (n < ARRAY_LEN(line->word)) {
            line->word[n] = text + from;
            line->len[n] = i - from;
        }
    }
    return n;
}

static bool read_hex(const char *text, uint8_t ret_hash[SHA256_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < 2 * SHA256_BYTES; i++) {
        const char *digit = text[i] != '\0' ? strchr(digits, text[i]) : NULL;
        if (digit == NULL)
            return false;
        ret_hash[i / 2] = (uint8_t)(ret_hash[i / 2] << 4 | (digit - digits));
    }
    return true;
}

static enum status read_key(const struct line *line, bool is_private, struct key_row *row,
                            struct why *ret_why)
{
    static const char scheme[] = "sha256:";
    size_t before = strlen(scheme), len = line->len[0];
    const char *text = line->word[0];
    if (len >= before && memcmp(text, scheme, before) == 0)
        return len == before + 2 * SHA256_BYTES && read_hex(text + before, row->hash)
                   ? OK
                   : refuse(line, "64 hex digits in lower case are needed behind 'sha256:'",
                            ret_why);
    if (len < ADMIN_KEY_LEAST || len > ADMIN_KEY_MOST)
        return refuse(line, "a key has 16 to 255 characters", ret_why);
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
            return refuse(line, "a key has a control character, which no request can send",
                          ret_why);
    if (!is_private)
        return refuse(line,
                      "the file holds a key as it is and others may read it: hash the key or take "
                      "their rights away",
                      ret_why);
    return sha256_of(text, len, row->hash);
}

static enum status read_role(const struct line *line, enum admin_role *ret_role,
                             struct why *ret_why)
{
    for (unsigned role = 0; role < ADMIN_ROLE_COUNT; role++) {
        const char *name = admin_role_name((enum admin_role)role);
        if (strlen(name) == line->len[1] && memcmp(name, line->word[1], line->len[1]) == 0) {
            *ret_role = (enum admin_role)role;
            return OK;
        }
    }
    return refuse(line, "the role must be view, operate or approve", ret_why);
}

static enum status read_name(const struct line *line, struct key_row *row, struct why *ret_why)
{
    snprintf(row->name, sizeof row->name, "%.*s", (int)line->len[2], line->word[2]);
    size_t good = strspn(row->name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                    "0123456789._@-");
    if (line->len[2] > ADMIN_NAME_MOST || good != line->len[2])
        return refuse(line, "a name has 1 to 64 letters, digits, and . _ @ -", ret_why);
    if (strcmp(row->name, "foldkv") == 0)
        return refuse(line, "'foldkv' is what the audit calls the daemon itself", ret_why);
    return OK;
}

static enum status read_line(struct admin_keys *keys, const struct line *line, size_t n_words,
                             bool is_private, struct why *ret_why)
{
    if (n_words != ARRAY_LEN(line->word))
        return refuse(line, "three words are needed: KEY ROLE NAME", ret_why);
    if (keys->n == ADMIN_KEYS_MAX)
        return refuse(line, "there are more than 256 keys", ret_why);
    struct key_row *row = &keys->rows[keys->n];
    TRY(read_key(line, is_private, row, ret_why));
    TRY(read_role(line, &row->role, ret_why));
    TRY(read_name(line, row, ret_why));
    for (size_t i = 0; i < keys->n; i++)
        if (memcmp(keys->rows[i].hash, row->hash, SHA256_BYTES) == 0)
            return refuse(line, "this key was there before", ret_why);
    keys->n++;
    return OK;
}

enum status admin_keys_parse(const char *text, size_t len, bool is_private,
                             struct admin_keys **ret_keys, struct why *ret_why)
{
    struct line line = {.number = 0};
    enum status s = OK;
    *ret_keys = mem_zalloc(1, sizeof **ret_keys);
    if (*ret_keys == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "admin.keys", "no memory for the keys");
    for (size_t i = 0; i < len && s == OK;) {
        const char *end = memchr(text + i, '\n', len - i);
        size_t line_len = end != NULL ? (size_t)(end - text) - i : len - i;
        line.number++;
        size_t n = split(text + i, line_len, &line);
        if (n > 0 && line.word[0][0] != '#')
            s = read_line(*ret_keys, &line, n, is_private, ret_why);
        i += line_len + 1;
    }
    if (s == OK && (*ret_keys)->n == 0)
        s = why_set(ret_why, STATUS_BAD_OPTION, "admin.keys", "admin.keys: the file has no key");
    if (s != OK)
        admin_keys_free(ret_keys);
    return s;
}

static enum status read_file(int fd, const char *path, char *text, size_t *ret_len,
                             struct why *ret_why)
{
    size_t len = 0;
    for (ssize_t n = 1; n != 0 && len < FILE_BYTES_MAX;) {
        n = read(fd, text + len, FILE_BYTES_MAX - len);
        if (n < 0 && errno != EINTR)
            return why_set(ret_why, STATUS_IO, "admin.keys", "admin.keys is '%.200s': %s", path,
                           strerror(errno));
        len += n > 0 ? (size_t)n : 0;
    }
    if (len == FILE_BYTES_MAX)
        return why_set(ret_why, STATUS_BAD_OPTION, "admin.keys",
                       "admin.keys is '%.200s': over 128 KiB", path);
    *ret_len = len;
    return OK;
}

enum status admin_keys_read(const char *path, struct admin_keys **ret_keys, struct why *ret_why)
{
    struct stat file;
    size_t len = 0;
    char *text = mem_alloc(FILE_BYTES_MAX);
    *ret_keys = NULL;
    if (text == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "admin.keys", "no memory for the keys");
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    enum status s = OK;
    if (fd < 0 || fstat(fd, &file) != 0)
        s = why_set(ret_why, STATUS_IO, "admin.keys", "admin.keys is '%.200s': %s", path,
                    strerror(errno));
    else if (!S_ISREG(file.st_mode) || (file.st_mode & 022) != 0)
        s = why_set(ret_why, STATUS_BAD_OPTION, "admin.keys",
                    "admin.keys is '%.200s': a plain file is needed to which nobody else may write",
                    path);
    if (s == OK)
        s = read_file(fd, path, text, &len, ret_why);
    if (s == OK)
        s = admin_keys_parse(text, len, (file.st_mode & 044) == 0, ret_keys, ret_why);
    if (fd >= 0)
        close(fd);
    OPENSSL_cleanse(text, FILE_BYTES_MAX);
    mem_free(text);
    return s;
}

void admin_keys_free(struct admin_keys **keys)
{
    mem_free(*keys);
    *keys = NULL;
}

bool admin_keys_find(const struct admin_keys *keys, const char *key, size_t len,
                     const char **ret_name, enum admin_role *ret_role)
{
    uint8_t hash[SHA256_BYTES];
    bool is_found = false;
    if (sha256_of(key, len, hash) != OK)
        return false;
    for (size_t i = 0; i < keys->n; i++) {
        if (CRYPTO_memcmp(hash, keys->rows[i].hash, sizeof hash) != 0)
            continue;
        is_found = true;
        *ret_name = keys->rows[i].name;
        *ret_role = keys->rows[i].role;
    }
    return is_found;
}
