/*
 * The request in the other process's memory. Of two places that the interpreter changes at any moment one is the byte of bits
 * that makes it look, which is written last and alone: the word has the version of its instrumentation in the others, and a
 * version that is written back late would have it instrument a function again and again, for ever. A bit that another thread
 * sets between our reading and our writing would be lost; so all are set for which nothing happens when there is no cause. The
 * one that is not, of the collector, is set again with the next object that is made. The request for the lock is never written.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/base/foreign.h"
#include "core/base/mem.h"
#include "sources/python_attach/python_attach.h"
#include "sources/unwind/python.h"

/* Include/internal/pycore_ceval.h */
#define BREAKER_GIL_DROP 0x01
#define BREAKER_SIGNALS  0x02
#define BREAKER_CALLS    0x04
#define BREAKER_ASYNC    0x08
#define BREAKER_STOP     0x20
#define BREAKER_MERGE    0x40 /* of builds without the lock */

#define INTERPRETERS_MAX 4096u
#define CHILDREN_BYTES   65536

static int write_process(pid_t pid, uint64_t address, const void *from, size_t bytes)
{
	struct iovec local = {(void *)(uintptr_t)from, bytes},
		     remote = {(void *)(uintptr_t)address, bytes};
	ssize_t n = process_vm_writev(pid, &local, 1, &remote, 1, 0);

	if (n < 0)
		return -errno;
	return (size_t)n == bytes ? 0 : -EFAULT;
}

/* Is it still that process, with that program? In another one's memory nothing of ours may be written. */
static int check_process(const struct gs_python_attach *a)
{
	struct pollfd fd = {.fd = a->pid_fd, .events = POLLIN};
	uint64_t image = 0;

	if (poll(&fd, 1, 0) != 0 || gs_python_image(a->pid, &image) < 0 || image != a->image)
		return -ESRCH;
	return 0;
}

/* The main one is the oldest, the last of the list. */
static int find_interpreter(const struct gs_python_attach *a, uint64_t runtime,
			    uint64_t *ret_interp)
{
	uint64_t interp, id;
	int r = gs_python_peek(a->pid, runtime + a->at.runtime_interp, &interp, sizeof(interp));

	for (unsigned n = 0; r == 0 && interp && interp % 8 == 0 && n < INTERPRETERS_MAX; n++) {
		r = gs_python_peek(a->pid, interp + a->at.interp_id, &id, sizeof(id));
		if (r == 0 && id == 0) {
			*ret_interp = interp;
			return 0;
		}
		if (r == 0)
			r = gs_python_peek(a->pid, interp + a->at.interp_next, &interp,
					   sizeof(interp));
	}
	return r < 0 ? r : -EBADMSG;
}

static int find_state(struct gs_python_attach *a, uint64_t runtime, struct gs_err *err)
{
	uint64_t interp = 0, back = 0;
	int32_t enabled = 0, pending = 0;
	int r = find_interpreter(a, runtime, &interp);

	if (r == 0)
		r = gs_python_peek(a->pid, interp + a->at.interp_enabled, &enabled,
				   sizeof(enabled));
	if (r == 0 && enabled == 0)
		return gs_err_set(
			err, -ENOTSUP,
			"has Python's remote debugging (PEP 768) switched off, by PYTHON_DISABLE_REMOTE_DEBUG, -X disable-remote-debug or its build");
	if (r == 0)
		r = gs_python_peek(a->pid, interp + a->at.interp_main, &a->state, sizeof(a->state));
	if (r == 0)
		r = !a->state || a->state % 8
			    ? -EBADMSG
			    : gs_python_peek(a->pid, a->state + a->at.state_interp, &back,
					     sizeof(back));
	if (r == 0)
		r = gs_python_peek(a->pid, a->state + a->at.state_pending, &pending,
				   sizeof(pending));
	if (r == 0 && (enabled != 1 || back != interp || (pending != 0 && pending != 1)))
		r = -EBADMSG;
	return r;
}

int gs_python_attach_open(pid_t pid, uint64_t runtime, struct gs_python_attach *ret,
			  struct gs_err *err)
{
	GS_CLEANUP(gs_python_attach_close) struct gs_python_attach a = GS_PYTHON_ATTACH_INIT;
	uint8_t head[GS_PYTHON_ATTACH_BYTES];
	int r;

	a.pid = pid;
	a.pid_fd = (int)syscall(SYS_pidfd_open, pid, 0);
	r = a.pid_fd < 0 ? -errno : gs_python_image(pid, &a.image);
	if (r == 0)
		r = gs_python_peek(pid, runtime, head, sizeof(head));
	if (r == 0)
		r = gs_python_attach_read_offsets(head, sizeof(head), &a.at);
	if (r == -ENOENT || r == -ENOTSUP)
		return gs_err_set(
			err, -ENOTSUP,
			"runs a Python that cannot be asked to load a library while it runs (" GS_PYTHON_ATTACH_NAMES
			" can)");
	if (r == 0)
		r = find_state(&a, runtime, err);
	if (r == -EBADMSG)
		return gs_err_set(
			err, r,
			"has an interpreter whose main thread is not found: it begins or ends just now, or is not laid out as known");
	if (r == -EPERM)
		return gs_err_set(
			err, r,
			"may not be written to by this user (root can, or who has CAP_SYS_PTRACE)");
	if (r < 0)
		return r == -ENOTSUP ? r : gs_err_set(err, r, "cannot be read: %s", strerror(-r));
	*ret = a;
	a.pid_fd = -1;
	return 0;
}

void gs_python_attach_close(struct gs_python_attach *a)
{
	gs_close_p(&a->pid_fd);
}

static uint8_t breaker_with(const struct gs_python_attach *a, uint8_t bits)
{
	/* Who wants the lock asks for it each 5 ms; where none does, the thread would wait for a switch for ever. */
	bits &= (uint8_t)~BREAKER_GIL_DROP;
	return bits | BREAKER_STOP | BREAKER_SIGNALS | BREAKER_CALLS | BREAKER_ASYNC |
	       (a->at.is_free_threaded ? BREAKER_MERGE : 0);
}

int gs_python_attach_ask(const struct gs_python_attach *a, const char *path)
{
	size_t bytes = strlen(path) + 1;
	int32_t pending = 0;
	uint8_t bits;
	int r = check_process(a);

	if (bytes > a->at.path_bytes)
		return -ENAMETOOLONG;
	if (r == 0)
		r = gs_python_peek(a->pid, a->state + a->at.state_pending, &pending,
				   sizeof(pending));
	if (r == 0 && pending)
		return -EBUSY;
	if (r == 0)
		r = write_process(a->pid, a->state + a->at.state_path, path, bytes);
	pending = 1;
	if (r == 0)
		r = write_process(a->pid, a->state + a->at.state_pending, &pending,
				  sizeof(pending));
	if (r == 0)
		r = gs_python_peek(a->pid, a->state + a->at.state_breaker, &bits, sizeof(bits));
	if (r == 0) {
		bits = breaker_with(a, bits);
		r = write_process(a->pid, a->state + a->at.state_breaker, &bits, sizeof(bits));
	}
	return r;
}

int gs_python_attach_is_taken(const struct gs_python_attach *a, bool *ret_taken)
{
	int32_t pending = 0;
	int r = check_process(a);

	if (r == 0)
		r = gs_python_peek(a->pid, a->state + a->at.state_pending, &pending,
				   sizeof(pending));
	*ret_taken = r == 0 && !pending;
	return r;
}

/* The interpreter takes the mark away first, and the path after it; with no path it does nothing. So where the mark is there
 * after the path was taken away, no script is run. */
int gs_python_attach_withdraw(const struct gs_python_attach *a, bool *ret_taken)
{
	const int32_t none = 0;
	const char end = '\0';
	int r = check_process(a);

	*ret_taken = false;
	if (r == 0)
		r = write_process(a->pid, a->state + a->at.state_path, &end, 1);
	if (r == 0)
		r = gs_python_attach_is_taken(a, ret_taken);
	if (r == 0 && !*ret_taken)
		r = write_process(a->pid, a->state + a->at.state_pending, &none, sizeof(none));
	return r;
}

static void withdraw_child(const struct gs_python_attach *parent, pid_t pid, const char *path)
{
	GS_CLEANUP(gs_python_attach_close) struct gs_python_attach child = *parent;
	size_t bytes = strlen(path) + 1;
	char there[4096];
	bool taken;

	child.pid = pid;
	child.pid_fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (bytes <= sizeof(there) &&
	    gs_python_peek(pid, child.state + child.at.state_path, there, bytes) == 0 &&
	    memcmp(there, path, bytes) == 0 && gs_python_attach_is_taken(&child, &taken) == 0 &&
	    !taken)
		(void)gs_python_attach_withdraw(&child, &taken);
}

void gs_python_attach_withdraw_children(const struct gs_python_attach *a, const char *path)
{
	char name[64], *text = malloc(CHILDREN_BYTES), *at;
	FILE *f;
	size_t n = 0;

	snprintf(name, sizeof(name), "/proc/%d/task/%d/children", (int)a->pid, (int)a->pid);
	f = text ? fopen(name, "re") : NULL;
	if (f) {
		n = fread(text, 1, CHILDREN_BYTES - 1, f);
		fclose(f);
	}
	if (text)
		text[n] = '\0';
	for (at = text; at && *at && !gs_guard_stopped();) {
		char *end;
		long pid = strtol(at, &end, 10);

		if (end == at)
			break;
		withdraw_child(a, (pid_t)pid, path);
		at = end + strspn(end, " ");
	}
	free(text);
}
