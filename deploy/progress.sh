# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# To be sourced: how far a command is, for those who wait for it.

# What is said beside the time: by default the last line of the command's log. A script may say something else.
progress_of() { tail -c 400 "$1" 2>/dev/null | tr '\r' '\n' | grep -v '^[[:space:]]*$' | tail -n 1 | cut -c 1-100; }

# Says it until the parent is gone or this is killed: on a terminal each second in one place, else a line every ten seconds.
progress_watch() {
    local label=$1 log=$2 parent=$3 every=10 start=$SECONDS before='' after='\n'
    [ ! -t 2 ] || every=1 before='\r\033[K' after=''
    local next=$every
    while kill -0 "$parent" 2>/dev/null; do
        sleep 1
        if [ $((SECONDS - start)) -ge "$next" ]; then
            printf "$before      %s: %s s  %s$after" "$label" $((SECONDS - start)) "$(progress_of "$log")" >&2
            next=$((SECONDS - start + every))
        fi
    done
}

# progress_run LABEL LOG COMMAND...: runs the command with all it prints in LOG; its exit code.
progress_run() {
    local label=$1 log=$2 status=0 watcher
    shift 2
    : >"$log"
    progress_watch "$label" "$log" $$ >&2 &
    watcher=$!
    "$@" >"$log" 2>&1 || status=$?
    { kill "$watcher" && wait "$watcher"; } 2>/dev/null || true
    [ ! -t 2 ] || printf '\r\033[K' >&2
    return $status
}
