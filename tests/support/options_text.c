/* options_text.c: prints what is made from the option table: `options_text
 * reference|example|help|dictionary`.
 *
 * WHY     docs/options.md and deploy/foldkv.conf are committed for readers; after a change of the
 *         table this makes them anew.
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/mem.h"
#include "config/options.h"

int main(int argc, char **argv)
{
    const char *what = argc == 2 ? argv[1] : "";
    char *text = strcmp(what, "reference") == 0    ? options_reference()
                 : strcmp(what, "example") == 0    ? options_example()
                 : strcmp(what, "help") == 0       ? options_help(OPTIONS_SERVE, NULL, 0)
                 : strcmp(what, "dictionary") == 0 ? options_dictionary()
                                                   : NULL;
    if (text == NULL) {
        fprintf(stderr, "usage: options_text reference|example|help|dictionary\n");
        return 2;
    }
    bool is_written = fputs(text, stdout) != EOF && fflush(stdout) == 0;
    mem_free(text);
    return is_written ? 0 : 1;
}
