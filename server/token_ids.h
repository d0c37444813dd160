/* token_ids.h: a growing array of token ids that counts on past its limit, so that an error can say
 * how many there were. In place; one thread at a time. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_TOKEN_IDS_H
#define FOLDKV_SERVER_TOKEN_IDS_H

#include "config/status.h"

/* ids is mem_alloc'd and may be taken (set it to NULL). The first min(count, limit) are there. */
struct token_ids {
    uint32_t *ids;
    size_t count, room, limit;
};

void token_ids_init(struct token_ids *ids, size_t limit);
void token_ids_release(struct token_ids *ids);
/* NO_MEMORY leaves it as it was. Past the limit only count grows. */
enum status token_ids_add(struct token_ids *ids, uint32_t id) MUST_USE;

#endif
