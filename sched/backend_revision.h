/* backend_revision.h: which sources compute: a SHA-256 in hex over the kernels, the graph and the decoder's step, taken
 * when the program is built. Equal sources, equal revision, whoever builds them and where; any change of them another,
 * so that a plan of another build does not pass for this one's. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SCHED_BACKEND_REVISION_H
#define FOLDKV_SCHED_BACKEND_REVISION_H

extern const char backend_revision[];

#endif
