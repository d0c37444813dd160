/* evidence_sources.h: where each kernel of this build comes from; the table is made by evidence_sources.py while building. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_EVIDENCE_SOURCES_H
#define FOLDKV_SERVER_EVIDENCE_SOURCES_H

#include "server/evidence.h"

/* The commit that was built, 40 hex digits; "" outside a git work tree. */
extern const char evidence_commit[];
/* Ends with a row whose function is NULL. */
extern const struct evidence_source evidence_sources[];

#endif
