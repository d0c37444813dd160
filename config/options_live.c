/* options_live.c: what of newly read options may hold at once.
 *
 * WHY     Most options shape memory and threads at start; taking one half way would be worse than to say that it waits.
 * HOW     Row by row: equal ones are passed over, LIVE ones are copied, and each difference is told.
 */
// SPDX-License-Identifier: Apache-2.0
#include "config/options_priv.h"

void options_take_live(struct options *options, const struct options *fresh, option_change_fn *tell,
                       void *user)
{
    for (size_t i = 0; i < option_count; i++) {
        const struct option *option = &option_rows[i];
        char before[OPTION_TEXT_MAX], after[OPTION_TEXT_MAX];
        option_get_text(options, option, before);
        option_get_text(fresh, option, after);
        if (strcmp(before, after) == 0)
            continue;
        bool is_live = option->change == OPTION_LIVE;
        if (is_live) {
            enum status s = option_set(options, option, (struct slice){after, strlen(after)},
                                       option->key, NULL);
            ASSERT(s == OK); /* it was checked when it was read */
        }
        tell(user, option->key, before, after, is_live);
    }
}
