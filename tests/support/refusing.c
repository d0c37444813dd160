/* refusing.c: `refusing PROGRAM ARGUMENT...` runs a program whose calls for resources, counters, owners and new code fail with EPERM.
 *
 * WHY     deploy/foldkv.service has them refused that way, and a kernel or a container may refuse more than the unit does.
 * HOW     A seccomp filter: a jump a call to the one line that says EPERM; PROT_EXEC of mprotect, and of an mmap that is
 *         writable, are looked at as systemd's MemoryDenyWriteExecute does. Filters outlive execve.
 */
// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config/base.h"

/* systemd's @resources, @debug and @chown, as far as this architecture has them. */
static const unsigned refused[] = {
    SYS_ioprio_set,
    SYS_mbind,
    SYS_migrate_pages,
    SYS_move_pages,
    SYS_sched_setaffinity,
    SYS_sched_setattr,
    SYS_sched_setparam,
    SYS_sched_setscheduler,
    SYS_set_mempolicy,
    SYS_setpriority,
    SYS_setrlimit,
    SYS_perf_event_open,
    SYS_ptrace,
    SYS_fchown,
    SYS_fchownat,
#ifdef SYS_chown
    SYS_chown,
    SYS_lchown,
#endif
};

enum { PROT_AT = offsetof(struct seccomp_data, args) + 2 * sizeof(uint64_t), ROOM = 64 };

static struct sock_filter statement(uint16_t code, uint32_t k)
{
    return (struct sock_filter)BPF_STMT(code, k);
}

static struct sock_filter skip_unless(uint16_t test, uint32_t k, uint8_t skipped)
{
    return (struct sock_filter)BPF_JUMP((uint16_t)(BPF_JMP | test | BPF_K), k, 0, skipped);
}

static bool install(void)
{
    struct sock_filter code[ROOM];
    const uint32_t no = SECCOMP_RET_ERRNO | EPERM;
    unsigned short n = 0;
    code[n++] = statement(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        code[n++] = skip_unless(BPF_JEQ, refused[i], 1);
        code[n++] = statement(BPF_RET | BPF_K, no);
    }
    code[n++] = skip_unless(BPF_JEQ, SYS_mprotect, 3);
    code[n++] = statement(BPF_LD | BPF_W | BPF_ABS, PROT_AT);
    code[n++] = skip_unless(BPF_JSET, PROT_EXEC, 6);
    code[n++] = statement(BPF_RET | BPF_K, no);
    code[n++] = skip_unless(BPF_JEQ, SYS_mmap, 4);
    code[n++] = statement(BPF_LD | BPF_W | BPF_ABS, PROT_AT);
    code[n++] = statement(BPF_ALU | BPF_AND | BPF_K, PROT_WRITE | PROT_EXEC);
    code[n++] = skip_unless(BPF_JEQ, PROT_WRITE | PROT_EXEC, 1);
    code[n++] = statement(BPF_RET | BPF_K, no);
    code[n++] = statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    ASSERT(n <= ROOM);
    struct sock_fprog program = {.len = n, .filter = code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

int main(int argc, char **argv)
{
    if (argc < 2 || !install()) {
        perror("refusing");
        return 2;
    }
    execv(argv[1], argv + 1);
    perror(argv[1]);
    return 2;
}
