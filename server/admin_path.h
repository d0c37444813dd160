/* admin_path.h: which call of the admin API a method and a path mean, by the rows of sched/release/admin_call.def. Pure; any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_ADMIN_PATH_H
#define FOLDKV_SERVER_ADMIN_PATH_H

#include "sched/release/admin_call.h"

enum { ADMIN_PATH_ALLOWED = 64 };

/* The call, and its subject with percent signs decoded ("" where the path has none). NOT_FOUND; METHOD_NOT_ALLOWED; BAD_REQUEST if
 * the subject is empty, over long or no printable text. HEAD reads what GET reads. */
enum status admin_path_find(const char *method, const char *path, enum admin_op *ret_op,
                            char ret_subject[ADMIN_SUBJECT_ROOM], struct why *ret_why) MUST_USE;
/* The methods of the path: "GET, HEAD, POST"; "" if it is nobody's. */
void admin_path_allowed(const char *path, char ret_text[ADMIN_PATH_ALLOWED]);

#endif
