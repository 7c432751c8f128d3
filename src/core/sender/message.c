/* Messages between a holder and its sender, by a deadline. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/sender/sender.h"

#define SLICE_MS 100 /* between two looks at stop */
#define CHUNK    (64u << 10)

struct message_head {
	uint32_t bytes, kind; /* bytes that follow */
};

size_t gs_sender_begin(struct gs_wire_out *out)
{
	const struct message_head none = {0};
	size_t at = out->buf->bytes;

	gs_wire_put(out, &none, sizeof(none));
	return at;
}

void gs_sender_close(struct gs_wire_out *out, size_t at, uint32_t kind)
{
	struct message_head head = {.kind = kind};

	if (out->r < 0) { /* half a message is none */
		out->buf->bytes = at;
		return;
	}
	head.bytes = (uint32_t)(out->buf->bytes - at - sizeof(head));
	memcpy(out->buf->data + at, &head, sizeof(head));
}

static int await_socket(int fd, short events, const struct gs_sender_wait *w)
{
	for (;;) {
		struct pollfd p = {.fd = fd, .events = events};
		uint64_t now = gs_clock_mono_ns(), left_ms;

		if (w->stop && atomic_load(w->stop))
			return -ECANCELED;
		if (now >= w->until_ns)
			return -ETIME;
		left_ms = (w->until_ns - now) / 1000000 + 1;
		if (left_ms > SLICE_MS && w->stop)
			left_ms = SLICE_MS;
		if (poll(&p, 1, left_ms < INT32_MAX ? (int)left_ms : -1) > 0)
			return 0;
	}
}

int gs_sender_send(int fd, struct gs_buf *out, int pass_fd, const struct gs_sender_wait *w)
{
	size_t done = 0;
	int r = 0;

	while (r == 0 && done < out->bytes) {
		char control[CMSG_SPACE(sizeof(int))] = {0};
		struct iovec part = {out->data + done, out->bytes - done};
		struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
		struct cmsghdr *c = (void *)control;
		ssize_t n;

		if (pass_fd >= 0 && done == 0) {
			m.msg_control = control;
			m.msg_controllen = sizeof(control);
			*c = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)),
					      .cmsg_level = SOL_SOCKET,
					      .cmsg_type = SCM_RIGHTS};
			memcpy(CMSG_DATA(c), &pass_fd, sizeof(int));
		}
		n = sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n >= 0)
			done += (size_t)n;
		else if (errno == EAGAIN)
			r = await_socket(fd, POLLOUT, w);
		else if (errno != EINTR)
			r = errno == ECONNRESET ? -EPIPE : -errno;
	}
	/* Tokens may have been in it. */
	if (out->data)
		explicit_bzero(out->data, out->bytes);
	gs_buf_reset(out);
	return r;
}

static int receive_bytes(int fd, void *to, size_t bytes, int *ret_fd,
			 const struct gs_sender_wait *w)
{
	size_t done = 0;

	while (done < bytes) {
		char control[CMSG_SPACE(sizeof(int))];
		struct iovec part = {(char *)to + done, bytes - done};
		struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
		struct cmsghdr *c;
		ssize_t n;
		int r;

		/* Without room for them the kernel drops any that come. */
		if (ret_fd && *ret_fd < 0) {
			m.msg_control = control;
			m.msg_controllen = sizeof(control);
		}
		n = recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		c = n > 0 && m.msg_control ? CMSG_FIRSTHDR(&m) : NULL;
		if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
			memcpy(ret_fd, CMSG_DATA(c), sizeof(int));
		if (n > 0) {
			done += (size_t)n;
			continue;
		}
		if (n == 0 || errno == ECONNRESET)
			return -EPIPE;
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
		r = await_socket(fd, POLLIN, w);
		if (r < 0)
			return r;
	}
	return 0;
}

int gs_sender_receive(int fd, struct gs_buf *in, size_t max_bytes, uint32_t *ret_kind, int *ret_fd,
		      const struct gs_sender_wait *w)
{
	struct message_head head;
	int r;

	if (ret_fd)
		*ret_fd = -1;
	gs_buf_reset(in);
	r = receive_bytes(fd, &head, sizeof(head), ret_fd, w);
	if (r == 0 && head.bytes > max_bytes)
		r = -EBADMSG;
	/* Room is made for what has come, not for what was announced. */
	while (r == 0 && in->bytes < head.bytes) {
		size_t n = head.bytes - in->bytes < CHUNK ? head.bytes - in->bytes : CHUNK;
		void *at = gs_buf_extend(in, n);

		r = at ? receive_bytes(fd, at, n, NULL, w) : -ENOMEM;
	}
	*ret_kind = head.kind;
	if (r < 0 && ret_fd)
		gs_close_p(ret_fd);
	return r;
}
