/* options_fuzz.c: any bytes as a file of options, as an environment and as a command line.
 *
 * HOW     The input is read as a file; the same bytes, cut at line ends, are variables and words.
 *         What is taken must come back out of the dump as the same settings.
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/options.h"

#include "config/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

enum { WORDS_MAX = 32 };

static void check_round_trip(const struct options *options)
{
    struct options again;
    char *text = options_dump(options);
    ASSERT(text != NULL);
    options_defaults(&again);
    enum status s = options_read_text(&again, (struct slice){text, strlen(text)}, "dump", NULL);
    ASSERT(s == OK && memcmp(options, &again, sizeof again) == 0);
    mem_free(text);
}

static void check(enum status s, const struct options *options, const struct why *why)
{
    ASSERT(s == OK || (s == STATUS_BAD_OPTION && why->text[0] != '\0'));
    if (s == OK)
        check_round_trip(options);
}

/* The lines of text as words; text is changed. */
static size_t cut(char *text, char *words[WORDS_MAX + 1])
{
    size_t n = 0;
    for (char *p = text; p != NULL && n < WORDS_MAX;) {
        words[n++] = p;
        p = strchr(p, '\n');
        if (p != NULL)
            *p++ = '\0';
    }
    words[n] = NULL;
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct options options;
    struct options_line line;
    struct why why = {0};
    struct option_extra extras[] = {{"json", NULL, "Prints JSON.", NULL},
                                    {"streams", "N", "Streams.", NULL}};
    char *words[WORDS_MAX + 1];
    options_defaults(&options);
    check(options_read_text(&options, (struct slice){(const char *)bytes, len}, "fuzz", &why),
          &options, &why);
    char *text = mem_dup((const char *)bytes, len);
    ASSERT(text != NULL);
    size_t n = cut(text, words);
    options_defaults(&options);
    check(options_read_environment(&options, words, &why), &options, &why);
    options_defaults(&options);
    check(options_read_flags(OPTIONS_SERVE, &options, n, words, extras, ARRAY_LEN(extras), &line, &why), &options,
          &why);
    mem_free(text);
    return 0;
}
