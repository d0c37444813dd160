/* log.c: formats a line in a fixed buffer and writes it whole.
 *
 * HOW     why_set makes the text printable; JSON needs only the quote and the backslash escaped after that.
 * ALWAYS  (1) One event is one line and one write, so lines of two threads never mix.  log_event
 * THREAD  any; form and descriptor are written once, before the threads start
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <unistd.h>

#include "config/why.h"

static const char *const level_names[] = {"error", "warn", "info", "debug"};

static struct {
    atomic_int level;
    bool is_json;
    int descriptor;
} settings = {.level = LOG_LEVEL_INFO, .descriptor = STDERR_FILENO};

void log_set_level(const char *level)
{
    size_t i = 0;
    while (i < ARRAY_LEN(level_names) && strcmp(level_names[i], level) != 0)
        i++;
    ASSERT(i < ARRAY_LEN(level_names));
    atomic_store(&settings.level, (int)i);
}

void log_init(const char *format, const char *level, int descriptor)
{
    log_set_level(level);
    settings.is_json = strcmp(format, "json") == 0;
    settings.descriptor = descriptor;
}

bool log_is_on(enum log_level level)
{
    return (int)level <= atomic_load(&settings.level);
}

/* "2026-01-31T23:59:59.123Z" */
static void timestamp(char text[32])
{
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    size_t n = strftime(text, 32, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(text + n, 32 - n, ".%03dZ", (int)(now.tv_nsec / 1000000));
}

static void escape(const char *text, char *escaped, size_t size)
{
    size_t n = 0;
    for (; *text != '\0' && n + 2 < size; text++) {
        if (*text == '"' || *text == '\\')
            escaped[n++] = '\\';
        escaped[n++] = *text;
    }
    escaped[n] = '\0';
}

void log_event(enum log_level level, const char *event, const char *format, ...)
{
    if (!log_is_on(level))
        return;
    char text[384], when[32], line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    struct why printable;
    (void)why_set(&printable, OK, "", "%s", text);
    timestamp(when);
    int n;
    if (settings.is_json) {
        char escaped[2 * sizeof printable.text];
        escape(printable.text, escaped, sizeof escaped);
        n = snprintf(line, sizeof line,
                     "{\"time\":\"%s\",\"level\":\"%s\",\"event\":\"%s\",\"text\":\"%s\"}\n", when,
                     level_names[level], event, escaped);
    } else {
        n = snprintf(line, sizeof line, "%s %-5s %s: %s\n", when, level_names[level], event,
                     printable.text);
    }
    ASSERT(n > 0 && (size_t)n < sizeof line);
    ssize_t written = write(settings.descriptor, line, (size_t)n);
    (void)written; /* a logger that cannot write has nobody to tell */
}
