/* token_ids.c: ids in one array that doubles up to its limit.
 *
 * WHY     A prompt that is too long must be refused with its true length, without keeping all of
 *         it.
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/token_ids.h"

#include "config/mem.h"

enum { ROOM_MIN = 64 };

void token_ids_init(struct token_ids *ids, size_t limit)
{
    *ids = (struct token_ids){.limit = limit};
}

void token_ids_release(struct token_ids *ids)
{
    mem_free(ids->ids);
    token_ids_init(ids, ids->limit);
}

static enum status grow(struct token_ids *ids)
{
    size_t room = ids->room < ROOM_MIN ? ROOM_MIN : ids->room * 2;
    room = room < ids->limit ? room : ids->limit;
    size_t bytes;
    if (__builtin_mul_overflow(room, sizeof ids->ids[0], &bytes))
        return STATUS_NO_MEMORY;
    uint32_t *grown = mem_realloc(ids->ids, bytes);
    if (grown == NULL)
        return STATUS_NO_MEMORY;
    ids->ids = grown;
    ids->room = room;
    return OK;
}

enum status token_ids_add(struct token_ids *ids, uint32_t id)
{
    if (ids->count < ids->limit) {
        if (ids->count == ids->room)
            TRY(grow(ids));
        ids->ids[ids->count] = id;
    }
    ids->count++;
    return OK;
}
