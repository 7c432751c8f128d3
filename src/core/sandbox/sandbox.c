/*
 * The steps, in the only order that works: what needs a capability comes before the capabilities
 * go, and the filter of system calls, which forbids all of these, is last.
 */
#include "core/sandbox/sandbox.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/sandbox/sandbox_int.h"

/* Numbers of users that nothing gives out: systemd, which has the longest list of who gives out
 * which (UIDS-GIDS.md), ends the range of containers at 0x6fffffff and uses nothing from there to
 * 0x7ffe0000. With the process id added, each process is a user that is shared with no other
 * ("nobody" is shared with NFS and with others that had the same idea). */
#define OWN_USER_BASE 0x70000000u
#define OVERFLOW_USER 65534u

static bool limit_to(int resource, uint64_t most)
{
	const struct rlimit limit = {most, most};

	return setrlimit((__rlimit_resource_t)resource, &limit) == 0;
}

static bool set_limits(const struct gs_sandbox *s)
{
	bool all = limit_to(RLIMIT_CORE, 0);

	/* The shadow of a sanitizer is some terabytes of address space. */
#ifndef GS_SANITIZER
	if (s->max_bytes)
		all &= limit_to(RLIMIT_AS, s->max_bytes);
#endif
	if (s->max_cpu_s)
		all &= limit_to(RLIMIT_CPU, s->max_cpu_s);
	if (s->max_files)
		all &= limit_to(RLIMIT_NOFILE, s->max_files);
	return all;
}

static bool become_user(uid_t id)
{
	return setresgid(id, id, id) == 0 && setresuid(id, id, id) == 0;
}

/* A user namespace may not know the number; "nobody" it mostly does. */
static bool leave_user(void)
{
	if (setgroups(0, NULL) < 0)
		return false;
	return become_user(OWN_USER_BASE + (uid_t)getpid()) || become_user(OVERFLOW_USER);
}

static bool clear_capabilities(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	const struct __user_cap_data_struct none[2] = {{0}};

	return syscall(SYS_capset, &head, none) == 0;
}

/* While CAP_SETPCAP is there. */
static bool bound_capabilities(void)
{
	bool all = true;

	for (unsigned cap = 0; cap < 64 && prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++) {
		/* Without CAP_SETPCAP the bound stays; no_new_privs sees to it then that nothing
		 * is gained by starting a program. */
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 && errno != EPERM)
			all = false;
		(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_LOWER, cap, 0, 0);
	}
	return all;
}

unsigned gs_sandbox_enter(const struct gs_sandbox *s)
{
	bool bounded = bound_capabilities();
	unsigned held = 0;

	/* Landlock and seccomp both ask for it. */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
		held |= GS_SANDBOX_NO_NEW_PRIVS;
	if (sandbox_restrict_paths(s) == 0)
		held |= GS_SANDBOX_LANDLOCK;
	if (set_limits(s))
		held |= GS_SANDBOX_LIMITS;
	if (s->own_user && leave_user())
		held |= GS_SANDBOX_USER;
	if (bounded && clear_capabilities())
		held |= GS_SANDBOX_CAPABILITIES;
	/* No core file, and no other process of the same user reads this one's memory. */
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	if (gs_sandbox_filter_syscalls(s->profile) == 0)
		held |= GS_SANDBOX_SECCOMP;
	return held;
}

const char *gs_sandbox_names(unsigned bits, char *text, size_t bytes)
{
	static const char *const names[] = {"own user", "no capabilities", "no_new_privs",
					    "limits",   "Landlock",        "seccomp"};
	size_t at = 0;

	if (bytes)
		*text = 0;
	for (unsigned i = 0; i < GS_ARRAY_LEN(names) && at < bytes; i++) {
		int n = 0;

		if (bits >> i & 1)
			n = snprintf(text + at, bytes - at, "%s%s", at ? ", " : "", names[i]);
		at += n > 0 ? (size_t)n : 0;
	}
	return text;
}
