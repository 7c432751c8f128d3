/*
 * The holder's side: requests go to senders. Each serves one URL at a time and is kept for the next
 * request of the same URL, so that a server which breaks into one gets the token that it was sent
 * anyway, and no other.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "net/http_client/http_client_int.h"

#define IDLE_MAX     8
#define CA_MAX_BYTES (4u << 20)
#define HELLO_NS     60000000000ull /* libcurl and what it needs from a slow disk */
#define LATE_NS      5000000000ull  /* more than the request's own time */
#define URL_BYTES    700

struct http_client_sender {
	struct gs_sandbox_child process;
	bool is_ready;       /* its first message was read */
	char url[URL_BYTES]; /* that it served; "" none yet */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of idle */
static struct http_client_sender idle[IDLE_MAX];         /* pid 0: no sender */

static void put_idle(struct http_client_sender *s)
{
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < IDLE_MAX && s->process.pid; i++)
		if (!idle[i].process.pid) {
			idle[i] = *s;
			s->process = GS_SANDBOX_NO_CHILD;
		}
	pthread_mutex_unlock(&lock);
	(void)gs_sandbox_end_child(&s->process);
}

/* One that has served this URL or none, and that still lives. */
static bool take_idle(const char *url, struct http_client_sender *ret)
{
	bool found = false;

	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < IDLE_MAX && !found; i++) {
		struct http_client_sender *s = &idle[i];
		char why[80];
		int status;

		if (!s->process.pid || (s->url[0] && strcmp(s->url, url) != 0))
			continue;
		if (waitpid(s->process.pid, &status, WNOHANG) == 0) {
			*ret = *s;
			found = true;
		} else {
			gs_close_p(&s->process.fd);
			gs_log(GS_LOG_INFO, GS_LOG_HTTP,
			       "a process that sends %s while it was idle",
			       gs_sender_lost(-EPIPE, status, why, sizeof(why)));
		}
		s->process.pid = 0;
	}
	pthread_mutex_unlock(&lock);
	return found;
}

static int end_lost(struct http_client_sender *s, int r, struct gs_err *err)
{
	char why[80];

	return gs_err_set(err, r == -ETIME || r == -EBADMSG ? r : -EIO, "the process that sends %s",
			  gs_sender_lost(r, gs_sandbox_end_child(&s->process), why, sizeof(why)));
}

/* The first message of a sender: it has given up its rights and has libcurl. */
static int await_hello(struct http_client_sender *s, struct gs_err *err)
{
	const struct gs_sender_wait wait = {.until_ns = gs_clock_mono_ns() + HELLO_NS};
	GS_CLEANUP(gs_buf_fini) struct gs_buf in = GS_BUF_INIT(4096);
	const char *why_not = NULL;
	uint32_t kind, held;
	int r = gs_sender_receive(s->process.fd, &in, in.max_bytes, &kind, NULL, &wait);

	if (r == 0) {
		struct gs_wire_in w = GS_WIRE_IN(in.data, in.bytes);

		held = gs_wire_u32(&w);
		why_not = gs_wire_line(&w);
		if (kind != FETCH_HELLO || !gs_wire_is_done(&w) || !why_not ||
		    !gs_sandbox_trusts_child("sends", held, GS_LOG_HTTP))
			r = -EBADMSG;
	}
	if (r < 0)
		return end_lost(s, r, err);
	s->is_ready = true;
	if (!why_not[0])
		return 0;
	(void)gs_sandbox_end_child(&s->process);
	return gs_err_set(err, -ENOENT, "%s", why_not);
}

/* One that serves this URL from now on; "" none yet. */
static int get_sender(const char *url, struct http_client_sender *ret, struct gs_err *err)
{
	int r = 0;

	if (strlen(url) >= sizeof(ret->url))
		return gs_err_set(err, -EINVAL, "the URL is longer than %d bytes", URL_BYTES - 1);
	if (!take_idle(url, ret)) {
		*ret = (struct http_client_sender){.url = ""};
		r = gs_sender_start(FETCH_WORK, NULL, 0, &ret->process, err);
	}
	if (r == 0 && !ret->is_ready)
		r = await_hello(ret, err);
	if (r == 0)
		snprintf(ret->url, sizeof(ret->url), "%s", url);
	return r;
}

void gs_http_client_begin(void)
{
	struct http_client_sender s = {.url = ""};

	if (gs_sender_start(FETCH_WORK, NULL, 0, &s.process, NULL) == 0)
		put_idle(&s);
}

int gs_http_client_load(struct gs_err *err)
{
	struct http_client_sender s;
	int r = get_sender("", &s, err);

	if (r == 0)
		put_idle(&s);
	return r;
}

/* The file's content without its name, where one is wanted: a descriptor, or -1. */
static int open_authorities(const char *path, int *ret_fd, struct gs_err *err)
{
	GS_CLOSE int from = -1, to = -1;
	char part[16384];
	size_t all = 0;
	ssize_t n = 0;

	*ret_fd = -1;
	if (!path || !path[0])
		return 0;
	from = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	to = memfd_create("authorities", MFD_CLOEXEC);
	if (from < 0 || to < 0)
		return gs_err_set(err, -errno, "cannot read the certificates %s: %s", path,
				  strerror(errno));
	while ((n = read(from, part, sizeof(part))) > 0 && all <= CA_MAX_BYTES) {
		if (write(to, part, (size_t)n) != n)
			return gs_err_set(err, -ENOMEM, "no memory for the certificates %s", path);
		all += (size_t)n;
	}
	if (n < 0)
		return gs_err_set(err, -errno, "cannot read the certificates %s: %s", path,
				  strerror(errno));
	if (n > 0)
		return gs_err_set(err, -EFBIG, "the certificates %s are larger than %u MiB", path,
				  CA_MAX_BYTES >> 20);
	*ret_fd = gs_take_fd(&to);
	return 0;
}

/* What comes back until it is done. Negative: the sender is not to be kept. */
static int receive_answer(struct http_client_sender *s, const struct gs_http_client_http *q,
			  const struct gs_sender_wait *wait, struct http_client_result *ret)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf in = GS_BUF_INIT(FETCH_DATA_MAX);

	for (;;) {
		uint32_t kind;
		int r = gs_sender_receive(s->process.fd, &in, in.max_bytes, &kind, NULL, wait);
		struct gs_wire_in w = GS_WIRE_IN(in.data, in.bytes);

		if (r < 0)
			return r;
		if (kind == FETCH_DONE)
			return http_client_take_result(&w, ret) ? 0 : -EBADMSG;
		if (kind != FETCH_DATA || !q)
			return -EBADMSG;
		/* What has no room is dropped: no caller reads that far. */
		if (q->take && q->take(q->take_ctx, in.data, in.bytes) < 0)
			return -ECANCELED;
		if (!q->take && q->answer)
			(void)gs_buf_put(q->answer, in.data, in.bytes);
	}
}

/* Send what is in out and take the answer. */
static int exchange_messages(const char *url, struct gs_wire_out *out, const char *ca_file,
			     uint64_t timeout_ns, const atomic_bool *stop,
			     const struct gs_http_client_http *q, struct http_client_result *ret,
			     struct gs_err *err)
{
	struct gs_sender_wait wait = {
		.until_ns = timeout_ns ? gs_clock_mono_ns() + timeout_ns + LATE_NS : UINT64_MAX,
		.stop = stop};
	struct http_client_sender s = {.process.fd = -1};
	GS_CLOSE int ca = -1;
	int r = out->r < 0 ? out->r : open_authorities(ca_file, &ca, err);

	if (r == 0)
		r = get_sender(url, &s, err);
	if (r < 0)
		return r;
	r = gs_sender_send(s.process.fd, out->buf, ca, &wait);
	/* It may have said something before it ended. */
	if (r == 0 || r == -EPIPE)
		r = receive_answer(&s, q, &wait, ret);
	if (r == -ECANCELED) {
		(void)gs_sandbox_end_child(&s.process);
		return gs_err_set(err, r, "stopped");
	}
	if (r < 0)
		return end_lost(&s, r, err);
	put_idle(&s);
	if (ret->r < 0 && err)
		*err = ret->err;
	return ret->r;
}

int gs_http_client_http(const struct gs_http_client_http *q, long *ret_status,
			uint64_t *ret_retry_after_ns, struct gs_err *err)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf request = GS_BUF_INIT(GS_SENDER_MAX_BYTES);
	struct gs_wire_out out = {&request, 0};
	struct http_client_result result = {0};
	size_t at = gs_sender_begin(&out);
	int r;

	http_client_put_http(&out, q,
			     q->take     ? UINT64_MAX
			     : q->answer ? q->answer->max_bytes - q->answer->bytes
					 : 0);
	gs_sender_close(&out, at, FETCH_HTTP);
	r = exchange_messages(q->url, &out, q->ca_file, q->timeout_ns, q->stop, q, &result, err);
	*ret_status = result.status;
	if (ret_retry_after_ns)
		*ret_retry_after_ns = result.retry_after_ns;
	return r;
}

int gs_http_client_mail(const struct gs_http_client_mail *m, long *ret_status, struct gs_err *err)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf request = GS_BUF_INIT(GS_SENDER_MAX_BYTES);
	struct gs_wire_out out = {&request, 0};
	struct http_client_result result = {0};
	size_t at = gs_sender_begin(&out);
	int r;

	http_client_put_mail(&out, m);
	gs_sender_close(&out, at, FETCH_MAIL);
	r = exchange_messages(m->url, &out, m->ca_file, m->timeout_ns, m->stop, NULL, &result, err);
	*ret_status = result.status;
	return r;
}
