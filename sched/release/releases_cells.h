/* releases_cells.h: what an evaluation found, read back from the registry: the cells that a generation may serve, and the
 * baseline's sums that its quality is held against. Loader, or whoever starts. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_RELEASES_CELLS_H
#define FOLDKV_SCHED_RELEASES_CELLS_H

#include "sched/evaluate/evaluation_receipt.h"

struct release_lane;
struct releases;

/* NOT_FOUND for a generation without an evaluation. */
enum status releases_evaluation_read(struct releases *r, const char *id,
                                     struct evaluation_result *ret_result,
                                     struct why *ret_why) MUST_USE;
/* Before a generation's lane is in the book: its cells, if it has an evaluation; one that was founded serves everywhere. */
void releases_cells_restore(struct releases *r, struct release_lane *entry);

#endif
