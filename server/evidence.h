/* evidence.h: M5.7's ladder of evidence (0x0A): six rungs from "the boundary takes it" to "the whole load gains by it", each
 * proven, unproven or not measurable here, for one kernel of one backend.
 *
 * A rung rests on those below it: one that is said to be proven above one that is not is an error, whoever says it. Plain data;
 * any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_EVIDENCE_H
#define FOLDKV_SERVER_EVIDENCE_H

#include "config/text_buf.h"
#include "config/why.h"

enum evidence_rung {
    EVIDENCE_API,
    EVIDENCE_SOURCE,
    EVIDENCE_PARITY,
    EVIDENCE_ALLOCATION,
    EVIDENCE_TRAFFIC,
    EVIDENCE_SLO,
    EVIDENCE_RUNGS
};

enum evidence_state { EVIDENCE_UNPROVEN, EVIDENCE_PROVEN, EVIDENCE_NOT_MEASURABLE };

/* What was found for one rung. */
struct evidence_finding {
    enum evidence_state state;
    char text[240]; /* how it is known, or why it is not */
    const char *
        test; /* the test that proves it in every build, as `meson test` names it; "" if none does */
};

/* Where a kernel comes from, as the build saw it. */
struct evidence_source {
    const char *function;
    const char *file;         /* from the root of the tree */
    const char *sha256;       /* of the file, in hex */
    const char *parts_sha256; /* of the names and hashes of what it includes of ours, in hex */
    unsigned n_parts;
    bool is_committed; /* the file and its parts are as the commit has them */
};

struct evidence_ladder {
    const char *backend; /* "avx512" */
    const char *kernel;  /* "attend_chunk_f16__avx512" */
    bool is_chosen;      /* a plain start would run it */
    struct evidence_source source;
    const char *commit; /* "" if the build knew none */
    struct evidence_finding rungs[EVIDENCE_RUNGS];
};

const char *evidence_rung_name(enum evidence_rung rung);
const char *evidence_state_name(enum evidence_state state);

/* What was found of a rung. */
void evidence_find(struct evidence_ladder *ladder, enum evidence_rung rung,
                   enum evidence_state state, const char *test, const char *format, ...)
    PRINTF_LIKE(5, 6);
/* Says of every rung that was proven above one that was not that it held but does not count. */
void evidence_withhold(struct evidence_ladder *ladder);
/* BAD_FILE naming kernel and rung if one is proven above one that is not, or says nothing of how it is known. */
enum status evidence_check(const struct evidence_ladder *ladder, struct why *ret_why) MUST_USE;

/* One JSON object. */
void evidence_add_json(struct text_buf *out, const struct evidence_ladder *ladder);
/* One line of text, and one more for each rung that is not proven, unless the ladder before it (NULL: there is none) had the same
 * to say. */
void evidence_add_text(struct text_buf *out, const struct evidence_ladder *ladder,
                       const struct evidence_ladder *before);

#endif
