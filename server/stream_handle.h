/* stream_handle.h: room for any stream that a client may come through: TCP or a Unix socket. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_STREAM_HANDLE_H
#define FOLDKV_SERVER_STREAM_HANDLE_H

#include <uv.h>

union stream_handle {
    uv_handle_t handle;
    uv_stream_t stream;
    uv_tcp_t tcp;
    uv_pipe_t pipe;
};

#endif
