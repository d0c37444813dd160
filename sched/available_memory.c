/* available_memory.c: /proc/meminfo and the control group, read once at start.
 *
 * WHY     The page pool's default is a share of what is there; in a container the machine's figure
 *         would promise too much.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/available_memory.h"

#include <stdatomic.h>
#include <unistd.h>

static _Atomic uint64_t pretended = UINT64_MAX;

/* The number behind the first line that starts with key; key may be empty. */
static bool read_number(const char *path, const char *key, uint64_t *ret)
{
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    char line[128];
    bool found = false;
    while (!found && fgets(line, sizeof line, file) != NULL) {
        char *end = line;
        bool is_line = strncmp(line, key, strlen(key)) == 0;
        *ret = is_line ? strtoull(line + strlen(key), &end, 10) : 0;
        found = is_line && end != line + strlen(key); /* "max" is no number */
    }
    fclose(file);
    return found;
}

/* What the control group still allows; UINT64_MAX without a limit. */
static uint64_t group_left(void)
{
    uint64_t most, used;
    if (!read_number("/sys/fs/cgroup/memory.max", "", &most) ||
        !read_number("/sys/fs/cgroup/memory.current", "", &used))
        return UINT64_MAX;
    return most > used ? most - used : 0;
}

uint64_t available_memory_bytes(void)
{
    uint64_t kib, bytes = atomic_load(&pretended);
    if (bytes != UINT64_MAX)
        return bytes;
    if (read_number("/proc/meminfo", "MemAvailable:", &kib))
        bytes = kib * 1024;
    else
        bytes = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t group = group_left();
    return group < bytes ? group : bytes;
}

void available_memory_pretend(uint64_t bytes)
{
    atomic_store(&pretended, bytes);
}
