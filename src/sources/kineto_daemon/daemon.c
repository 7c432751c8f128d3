/* The daemon's socket, its orders and its messages. */
#include "sources/kineto_daemon/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/mem.h"

#define NAME          "dynolog" /* name of the abstract socket, with its NUL */
#define MESSAGE_BYTES 4096
#define AT_ONCE       64 /* messages per call of gs_kineto_daemon_serve() */
#define ACTIVITIES    2  /* bit of request.kinds (LibkinetoTypes.h) */

/* Header of each message (dynolog, ipcfabric/FabricManager.h), in the byte order of x86-64. */
struct message_head {
	uint64_t bytes; /* that follow */
	char type[32];
};

/* Body of "ctxt": a process announces itself. */
struct context {
	int32_t gpu, pid;
	int64_t job_id;
};

/* Body of "req": a process asks for an order. Its pid and those of its parents follow, as in its pid namespace. */
struct request {
	int32_t kinds, n;
	int64_t job_id;
};

struct message {
	struct message_head head;
	union {
		struct context context;
		struct request request;
		char bytes[MESSAGE_BYTES];
	};
};

struct order {
	uint32_t pid;
	enum gs_kineto_order_state state;
	uint64_t n_heard;
	char text[GS_KINETO_TEXT_BYTES]; /* "": none */
};

struct gs_kineto_daemon {
	int fd; /* owned */
	struct order orders[GS_KINETO_ORDERS_MAX];
	size_t n_orders;
};

/* --- the socket --- */

static int bind_socket(int fd)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const int on = 1;

	memcpy(address.sun_path + 1, NAME, sizeof(NAME));
	if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0 ||
	    bind(fd, (struct sockaddr *)&address,
		 offsetof(struct sockaddr_un, sun_path) + 1 + sizeof(NAME)) < 0)
		return -errno;
	return 0;
}

/* Abstract names belong to a network namespace. A socket stays in the one in which it was created; the thread returns to its
 * own. */
static int open_socket_in(int own_fd, int other_fd, int *ret_fd)
{
	int r = 0;

	if (setns(other_fd, CLONE_NEWNET) < 0)
		return -errno;
	*ret_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (*ret_fd < 0)
		r = -errno;
	if (r == 0)
		r = bind_socket(*ret_fd);
	/* Cannot fail, as this was the thread's namespace before; running on in the other one would be worse. */
	if (setns(own_fd, CLONE_NEWNET) < 0)
		abort();
	return r;
}

static bool is_same_file(int a, int b)
{
	struct stat x, y;

	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev &&
	       x.st_ino == y.st_ino;
}

static int open_socket(uint32_t pid, int *ret_fd)
{
	GS_CLOSE int own_fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	GS_CLOSE int other_fd = -1;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/ns/net", pid);
	other_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (own_fd < 0 || other_fd < 0)
		return -errno;
	if (!is_same_file(own_fd, other_fd))
		return open_socket_in(own_fd, other_fd, ret_fd);
	*ret_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	return *ret_fd < 0 ? -errno : bind_socket(*ret_fd);
}

int gs_kineto_daemon_open(uint32_t pid, struct gs_kineto_daemon **ret_daemon, struct gs_err *err)
{
	struct gs_kineto_daemon *d = calloc(1, sizeof(*d));
	int r;

	if (!d)
		return -ENOMEM;
	d->fd = -1;
	r = open_socket(pid, &d->fd);
	if (r == 0) {
		*ret_daemon = d;
		return 0;
	}
	gs_kineto_daemon_close(&d);
	if (r == -EADDRINUSE)
		return gs_err_set(
			err, r,
			"another daemon (dynolog, or another gpuscope) already serves PyTorch's profiler there");
	return gs_err_set(err, r, "cannot serve PyTorch's profiler of process %u: %s", pid,
			  strerror(-r));
}

void gs_kineto_daemon_close(struct gs_kineto_daemon **ref)
{
	struct gs_kineto_daemon *d = *ref;

	if (!d)
		return;
	gs_close_p(&d->fd);
	free(d);
	*ref = NULL;
}

/* --- orders --- */

static struct order *find_order(struct gs_kineto_daemon *d, uint32_t pid)
{
	for (size_t i = 0; i < d->n_orders; i++)
		if (d->orders[i].pid == pid)
			return &d->orders[i];
	return NULL;
}

static const struct order *known_order(const struct gs_kineto_daemon *d, uint32_t pid)
{
	for (size_t i = 0; i < d->n_orders; i++)
		if (d->orders[i].pid == pid)
			return &d->orders[i];
	return NULL;
}

int gs_kineto_daemon_order(struct gs_kineto_daemon *d, uint32_t pid, const char *text)
{
	struct order *o = find_order(d, pid);

	if (strlen(text) >= sizeof(o->text))
		return -E2BIG;
	if (!o && d->n_orders == GS_KINETO_ORDERS_MAX)
		return -ENOSPC;
	if (!o) {
		o = &d->orders[d->n_orders++];
		o->pid = pid;
	}
	o->state = GS_KINETO_WAITS;
	snprintf(o->text, sizeof(o->text), "%s", text);
	return 0;
}

enum gs_kineto_order_state gs_kineto_daemon_state(const struct gs_kineto_daemon *d, uint32_t pid)
{
	const struct order *o = known_order(d, pid);

	return o ? o->state : GS_KINETO_WAITS;
}

uint64_t gs_kineto_daemon_n_received(const struct gs_kineto_daemon *d, uint32_t pid)
{
	const struct order *o = known_order(d, pid);

	return o ? o->n_heard : 0;
}

/* --- messages --- */

struct sender {
	struct sockaddr_un address;
	socklen_t address_bytes;
	uint32_t pid; /* in our pid namespace; 0: unknown */
};

/* Sends an answer of the same type as the question. False: it could not be sent, as the profiler waits no longer (50 ms); it
 * asks again. */
static bool send_answer(const struct gs_kineto_daemon *d, const struct sender *to, const char *type,
			const void *data, size_t bytes)
{
	struct message_head head = {.bytes = bytes};
	struct iovec parts[] = {{&head, sizeof(head)}, {(void *)(uintptr_t)data, bytes}};
	struct msghdr m = {.msg_name = (void *)(uintptr_t)&to->address,
			   .msg_namelen = to->address_bytes,
			   .msg_iov = parts,
			   .msg_iovlen = GS_ARRAY_LEN(parts)};

	snprintf(head.type, sizeof(head.type), "%s", type);
	return sendmsg(d->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)(sizeof(head) + bytes);
}

/* Answers a message; malformed ones and those of unknown senders are dropped. True: an order was taken. */
static bool answer_message(struct gs_kineto_daemon *d, const struct message *m, size_t bytes,
			   const struct sender *from)
{
	struct order *o = find_order(d, from->pid);
	const int32_t one = 1;
	bool takes;

	if (bytes < sizeof(m->head) || m->head.bytes != bytes - sizeof(m->head) || !from->pid)
		return false;
	if (o)
		o->n_heard++;
	if (strncmp(m->head.type, "ctxt", sizeof(m->head.type)) == 0 &&
	    m->head.bytes >= sizeof(m->context)) {
		(void)send_answer(d, from, "ctxt", &one, sizeof(one));
		return false;
	}
	if (strncmp(m->head.type, "req", sizeof(m->head.type)) != 0 ||
	    m->head.bytes < sizeof(m->request))
		return false;
	takes = o && o->state == GS_KINETO_WAITS && o->text[0] && m->request.kinds & ACTIVITIES;
	if (!send_answer(d, from, "req", takes ? o->text : "", takes ? strlen(o->text) : 0))
		return false;
	if (takes)
		o->state = GS_KINETO_TAKEN;
	return takes;
}

/* Reads and answers one message. 1: an order was taken; 0: it was another message; -EAGAIN: there is none; or another
 * negative errno. */
static int take_message(struct gs_kineto_daemon *d)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(struct ucred))];
	} control;
	struct sender from = {0};
	struct message message;
	struct iovec whole = {&message, sizeof(message)};
	struct msghdr m = {.msg_name = &from.address,
			   .msg_namelen = sizeof(from.address),
			   .msg_iov = &whole,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(d->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	struct cmsghdr *c;
	struct ucred who;

	if (n < 0)
		return -errno;
	c = CMSG_FIRSTHDR(&m);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_CREDENTIALS) {
		memcpy(&who, CMSG_DATA(c), sizeof(who));
		from.pid = (uint32_t)who.pid;
	}
	from.address_bytes = m.msg_namelen;
	if (m.msg_flags & MSG_TRUNC || from.address_bytes <= offsetof(struct sockaddr_un, sun_path))
		return 0;
	return answer_message(d, &message, (size_t)n, &from);
}

int gs_kineto_daemon_serve(struct gs_kineto_daemon *d, int timeout_ms)
{
	uint64_t end_ns = gs_clock_mono_ns() + (uint64_t)timeout_ms * 1000000u, now_ns;
	unsigned n = 0;

	while ((now_ns = gs_clock_mono_ns()) < end_ns && n++ < AT_ONCE) {
		struct pollfd fd = {.fd = d->fd, .events = POLLIN};
		int r = poll(&fd, 1, (int)((end_ns - now_ns) / 1000000u) + 1);

		if (r < 0 && errno != EINTR)
			return -errno;
		r = r > 0 ? take_message(d) : 0;
		if (r < 0 && r != -EAGAIN && r != -EINTR && r != -ECONNREFUSED)
			return r;
		if (r > 0)
			return 0;
	}
	return 0;
}
