/*
 * The system calls that a process without rights may still make: a list for each profile, made into
 * a filter of the kernel (seccomp(2)). What is not on the list answers EPERM.
 *
 * The filter is built here and not by libseccomp: gpuscope runs on x86-64 alone, the lists are of
 * some forty numbers with at most one condition on one argument each, and for that the program is a
 * load, a compare and a return by entry. The library would be one more archive in the release
 * build, and takes longer to sort its tree than the reader takes to start.
 *
 * A build with AddressSanitizer or ThreadSanitizer maps and protects memory as it likes, reads
 * /proc/self/maps, and writes its report to a descriptor: there the entries with that mark are let
 * in too. That is decided when it is compiled; a release build has no way to ask for it.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/sandbox/sandbox_int.h"

struct rule {
	int nr;
	unsigned arg;  /* 1 to 6: which argument has to satisfy (arg & mask) == value; 0 none */
	uint32_t mask; /* of its lower half */
	uint32_t value;
	int answer; /* 0: let it in; otherwise this errno, where EPERM would mislead the caller */
};

/* Not executable: a process that can write code and run it is limited by this list alone. */
#define NOT_EXECUTABLE PROT_EXEC, 0

static const struct rule reader_rules[] = {
	/* its socket, and descriptors that came over it */
	{SYS_recvmsg},
	{SYS_sendmsg},
	{SYS_read},
	{SYS_pread64},
	{SYS_lseek},
	{SYS_fstat},
	{SYS_newfstatat, 4, AT_EMPTY_PATH, AT_EMPTY_PATH}, /* glibc's fstat() */
	{SYS_close},
	/* memory */
	{SYS_brk},
	{SYS_mmap, 3, NOT_EXECUTABLE},
	{SYS_mprotect, 3, NOT_EXECUTABLE},
	{SYS_mremap},
	{SYS_munmap},
	{SYS_madvise},
	/* time, and the limits of a request */
	{SYS_clock_gettime},
	{SYS_setitimer},
	/* how glibc ends, aborts and locks */
	{SYS_exit},
	{SYS_exit_group},
	{SYS_futex},
	{SYS_getpid},
	{SYS_gettid},
	{SYS_tgkill},
	{SYS_rt_sigprocmask},
	{SYS_rt_sigaction},
	{SYS_rt_sigreturn},
	{SYS_restart_syscall},
	{SYS_getrandom},
#ifdef GS_SANITIZER
	{SYS_mmap},
	{SYS_mprotect},
	{SYS_write},
	{SYS_openat},
	{SYS_readlink},
	{SYS_readlinkat},
	{SYS_sigaltstack},
	{SYS_sched_yield},
	{SYS_sched_getaffinity},
	{SYS_prctl},
	{SYS_prlimit64},
	{SYS_ioctl},
	{SYS_clock_nanosleep},
	{SYS_nanosleep},
	{SYS_getrusage},
	{SYS_getuid},
	{SYS_geteuid},
	{SYS_pipe2},
	{SYS_dup},
#endif
};

static const struct rule printer_rules[] = {{SYS_write}, {SYS_writev}}; /* and the reader's */

/* A thread, but no process and no namespace. */
#define THREAD_MASK                                                                                \
	(CLONE_THREAD | CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |              \
	 CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)

static const struct rule server_rules[] = {
	/* connections */
	{SYS_accept4},
	{SYS_recvfrom},
	{SYS_recvmsg},
	{SYS_sendto},
	{SYS_sendmsg},
	{SYS_read},
	{SYS_write},
	{SYS_shutdown},
	{SYS_close},
	{SYS_poll},
	{SYS_ppoll},
	{SYS_getsockname},
	{SYS_getpeername},
	{SYS_getsockopt},
	{SYS_fcntl},
	{SYS_fstat},
	{SYS_newfstatat, 4, AT_EMPTY_PATH, AT_EMPTY_PATH}, /* glibc's fstat() */
	{SYS_lseek},
	{SYS_eventfd2},
	{SYS_uname},
	/* memory */
	{SYS_brk},
	{SYS_mmap, 3, NOT_EXECUTABLE},
	{SYS_mprotect, 3, NOT_EXECUTABLE},
	{SYS_mremap},
	{SYS_munmap},
	{SYS_madvise},
	/* time */
	{SYS_clock_gettime},
	{SYS_clock_nanosleep},
	/* Threads. The flags of clone3() are in memory, where no filter sees them; glibc takes
	 * clone() where the kernel has no clone3(). */
	{SYS_clone3, .answer = ENOSYS},
	{SYS_clone, 1, THREAD_MASK, CLONE_THREAD},
	{SYS_set_robust_list},
	{SYS_rseq},
	{SYS_prctl, 1, UINT32_MAX, PR_SET_NAME},
	{SYS_sched_yield},
	/* how glibc ends, aborts and locks */
	{SYS_exit},
	{SYS_exit_group},
	{SYS_futex},
	{SYS_getpid},
	{SYS_gettid},
	{SYS_tgkill},
	{SYS_rt_sigprocmask},
	{SYS_rt_sigaction},
	{SYS_rt_sigreturn},
	{SYS_restart_syscall},
	{SYS_getrandom},
#ifdef GS_SANITIZER
	{SYS_mmap},
	{SYS_mprotect},
	{SYS_openat},
	{SYS_readlink},
	{SYS_readlinkat},
	{SYS_sigaltstack},
	{SYS_sched_getaffinity},
	{SYS_prctl},
	{SYS_prlimit64},
	{SYS_ioctl},
	{SYS_nanosleep},
	{SYS_getrusage},
	{SYS_getuid},
	{SYS_geteuid},
	{SYS_pipe2},
	{SYS_dup},
#endif
};

/* As the server's, but that connections are made. Names become addresses in the C library, which
 * reads files, asks servers and daemons, and loads libraries for that (nsswitch.conf(5)): files are
 * opened for reading, and code is mapped from files and is never writable. */
static const struct rule sender_rules[] = {
	/* connections */
	{SYS_socket, 1, UINT32_MAX, AF_INET},
	{SYS_socket, 1, UINT32_MAX, AF_INET6},
	{SYS_socket, 1, UINT32_MAX, AF_UNIX},    /* nscd, systemd-resolved, sssd */
	{SYS_socket, 1, UINT32_MAX, AF_NETLINK}, /* which kinds of addresses this host has */
	{SYS_socketpair},
	{SYS_connect},
	{SYS_bind}, /* of its netlink socket; no TCP that listens, there is no listen() */
	{SYS_setsockopt},
	{SYS_getsockopt},
	{SYS_getsockname},
	{SYS_getpeername},
	{SYS_recvfrom},
	{SYS_recvmsg},
	{SYS_sendto},
	{SYS_sendmsg},
	{SYS_sendmmsg},
	{SYS_read},
	{SYS_write},
	{SYS_writev},
	{SYS_shutdown},
	{SYS_close},
	{SYS_poll},
	{SYS_ppoll},
	{SYS_select},
	{SYS_pselect6},
	{SYS_epoll_create1},
	{SYS_epoll_ctl},
	{SYS_epoll_wait},
	{SYS_epoll_pwait},
	{SYS_eventfd2},
	{SYS_pipe2},
	{SYS_fcntl},
	{SYS_ioctl, 2, UINT32_MAX, FIONREAD}, /* of the C library, for answers of name servers */
	/* files, to read */
	{SYS_openat, 3, O_ACCMODE | O_CREAT | O_TRUNC | (O_TMPFILE & ~O_DIRECTORY), O_RDONLY},
	{SYS_fstat},
	{SYS_newfstatat},
	{SYS_statx},
	{SYS_fstatfs},
	{SYS_access},
	{SYS_faccessat},
	{SYS_faccessat2},
	{SYS_readlink},
	{SYS_readlinkat},
	{SYS_getdents64},
	{SYS_pread64},
	{SYS_lseek},
	/* memory */
	{SYS_brk},
	{SYS_mmap, 3, PROT_WRITE | PROT_EXEC, PROT_WRITE | PROT_EXEC, .answer = EPERM},
	{SYS_mmap, 3, NOT_EXECUTABLE},
	{SYS_mmap, 4, MAP_ANONYMOUS, 0},
	{SYS_mprotect, 3, NOT_EXECUTABLE},
	{SYS_mremap},
	{SYS_munmap},
	{SYS_madvise},
	/* time */
	{SYS_clock_gettime},
	{SYS_clock_getres},
	{SYS_clock_nanosleep},
	{SYS_gettimeofday},
	{SYS_time},
	/* threads, as above */
	{SYS_clone3, .answer = ENOSYS},
	{SYS_clone, 1, THREAD_MASK, CLONE_THREAD},
	{SYS_set_robust_list},
	{SYS_rseq},
	{SYS_prctl, 1, UINT32_MAX, PR_SET_NAME},
	{SYS_sched_yield},
	{SYS_sched_getaffinity},
	{SYS_prlimit64, 3, UINT32_MAX, 0}, /* to ask, as for the size of a stack */
	/* who and where */
	{SYS_uname},
	{SYS_sysinfo},
	{SYS_getpid},
	{SYS_getppid},
	{SYS_gettid},
	{SYS_getuid},
	{SYS_geteuid},
	{SYS_getgid},
	{SYS_getegid},
	/* how glibc ends, aborts and locks */
	{SYS_exit},
	{SYS_exit_group},
	{SYS_futex},
	{SYS_tgkill},
	{SYS_rt_sigprocmask},
	{SYS_rt_sigaction},
	{SYS_rt_sigreturn},
	{SYS_restart_syscall},
	{SYS_getrandom},
#ifdef GS_SANITIZER
	{SYS_mmap},
	{SYS_mprotect},
	{SYS_openat},
	{SYS_sigaltstack},
	{SYS_prctl},
	{SYS_prlimit64},
	{SYS_ioctl},
	{SYS_nanosleep},
	{SYS_getrusage},
	{SYS_dup},
#endif
};

static const struct {
	const struct rule *rules;
	size_t n;
	const struct rule *more;
	size_t n_more;
} profiles[GS_SANDBOX_N_PROFILES] = {
	[GS_SANDBOX_READER] = {reader_rules, GS_ARRAY_LEN(reader_rules)},
	[GS_SANDBOX_PRINTER] = {reader_rules, GS_ARRAY_LEN(reader_rules), printer_rules,
				GS_ARRAY_LEN(printer_rules)},
	[GS_SANDBOX_SERVER] = {server_rules, GS_ARRAY_LEN(server_rules)},
	[GS_SANDBOX_SENDER] = {sender_rules, GS_ARRAY_LEN(sender_rules)},
};

#define MAX_RULES 192
#define PER_RULE  6

static const uint32_t nr_at = offsetof(struct seccomp_data, nr);
static const uint32_t arch_at = offsetof(struct seccomp_data, arch);

/* The lower half of an argument, on a little-endian machine. */
static uint32_t arg_at(unsigned arg)
{
	return (uint32_t)(offsetof(struct seccomp_data, args) + 8 * (arg - 1));
}

/* Each rule starts and, where it does not let the call in, ends with the number loaded. */
static size_t put_rule(struct sock_filter *to, const struct rule *r)
{
	const struct sock_filter allow =
		BPF_STMT(BPF_RET | BPF_K,
			 r->answer ? SECCOMP_RET_ERRNO | (uint32_t)r->answer : SECCOMP_RET_ALLOW);
	size_t n = 0;

	if (!r->arg) {
		to[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)r->nr,
						       0, 1);
		to[n++] = allow;
		return n;
	}
	to[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)r->nr, 0, 5);
	to[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, arg_at(r->arg));
	to[n++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, r->mask);
	to[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, r->value, 0, 1);
	to[n++] = allow;
	to[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, nr_at);
	return n;
}

int gs_sandbox_filter_syscalls(enum gs_sandbox_profile profile)
{
	struct sock_filter code[MAX_RULES * PER_RULE + 8];
	struct sock_fprog program = {.filter = code};
	size_t n = 0;

	if (profile >= GS_SANDBOX_N_PROFILES ||
	    profiles[profile].n + profiles[profile].n_more > MAX_RULES)
		return -EINVAL;
	/* Calls of 32-bit programs have other numbers. Those of x32 have numbers above 2^30, which
	 * no rule names. */
	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, arch_at);
	code[n++] =
		(struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, nr_at);
	for (size_t i = 0; i < profiles[profile].n; i++)
		n += put_rule(&code[n], &profiles[profile].rules[i]);
	for (size_t i = 0; i < profiles[profile].n_more; i++)
		n += put_rule(&code[n], &profiles[profile].more[i]);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
	program.len = (unsigned short)n;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0 ? -errno : 0;
}
