/*
 * The holder's side: a reader for files of root, some for those of users whose files were read
 * last, one each, deadlines, and what becomes of a reader that is late, dead or lies.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/foreign.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/reader/reader_int.h"
#include "core/sandbox/sandbox.h"

#define LATE_MS  10000
#define TRIES    16  /* readers that may die of one request, within its time */
#define SLICE_MS 100 /* between two questions whether to stop */
#define CHUNK    (64u << 10)

enum { OF_ROOT, OF_OTHERS, N_WORKERS = OF_OTHERS + 3 };

struct worker {
	struct gs_sandbox_child process;
	uid_t owner;   /* whose files it reads; from OF_OTHERS on */
	uint64_t used; /* when, in requests */
};

struct gs_reader {
	struct gs_reader_options options;
	struct worker workers[N_WORKERS];
	struct worker *last;                /* who answered */
	void *states[GS_READER_N_SERVICES]; /* of options.here */
	unsigned generation, held;
	uint32_t owner; /* gs_reader_set_owner() */
	bool has_said_held;
	struct gs_reader_stats stats;
};

static int start_worker(struct gs_reader *reader, struct worker *w, struct gs_err *err)
{
	char log[GS_LOG_SETTINGS_BYTES];
	const struct gs_sandbox_program program = {.name = "reader",
						   .arguments = {READER_ARGUMENT, log}};

	gs_log_put_settings(log);
	*w = (struct worker){0};
	reader->generation++;
	return gs_sandbox_start_child(&program, &w->process, err);
}

int gs_reader_new(const struct gs_reader_options *options, struct gs_reader **ret_reader,
		  struct gs_err *err)
{
	GS_CLEANUP(gs_reader_free) struct gs_reader *reader = calloc(1, sizeof(*reader));
	int r;

	if (!reader)
		return -ENOMEM;
	reader->options = *options;
	if (!reader->options.late_ms)
		reader->options.late_ms = LATE_MS;
	for (unsigned i = 0; i < N_WORKERS; i++)
		reader->workers[i].process = GS_SANDBOX_NO_CHILD;
	r = options->here ? 0 : start_worker(reader, &reader->workers[OF_ROOT], err);
	if (r < 0)
		return r;
	*ret_reader = gs_take(reader);
	return 0;
}

void gs_reader_free(struct gs_reader **ref)
{
	struct gs_reader *reader = *ref;

	if (!reader)
		return;
	if (reader->stats.n_requests)
		gs_log(GS_LOG_INFO, GS_LOG_PROCESSES,
		       "reader of %s: %llu requests, %llu late, %llu died, %llu replaced",
		       reader->options.name, (unsigned long long)reader->stats.n_requests,
		       (unsigned long long)reader->stats.n_late,
		       (unsigned long long)reader->stats.n_died,
		       (unsigned long long)reader->stats.n_replaced);
	for (unsigned i = 0; i < N_WORKERS; i++)
		(void)gs_sandbox_end_child(&reader->workers[i].process);
	free(reader);
	*ref = NULL;
}

void gs_reader_set_owner(struct gs_reader *reader, uint32_t uid)
{
	reader->owner = uid;
}

unsigned gs_reader_generation(const struct gs_reader *reader)
{
	return reader->generation;
}

unsigned gs_reader_held(const struct gs_reader *reader)
{
	return reader->held;
}

const struct gs_reader_stats *gs_reader_stats(const struct gs_reader *reader)
{
	return &reader->stats;
}

/* ---- bytes, by a deadline ---- */

struct exchange {
	struct gs_reader *reader;
	int fd;
	uid_t owner;     /* of the file */
	uint64_t end_ns; /* monotonic */
};

/* 0; -ETIME, -ECANCELED. */
static int await_socket(const struct exchange *x, short events)
{
	for (;;) {
		struct pollfd p = {.fd = x->fd, .events = events};
		uint64_t now = gs_clock_mono_ns();
		uint64_t left_ms = now < x->end_ns ? (x->end_ns - now) / 1000000 + 1 : 0;

		if (!left_ms)
			return -ETIME;
		if (gs_guard_stopped())
			return -ECANCELED;
		if (left_ms > SLICE_MS)
			left_ms = SLICE_MS;
		if (poll(&p, 1, (int)left_ms) > 0)
			return 0;
	}
}

static int send_bytes(const struct exchange *x, const void *data, size_t bytes, const int *fds,
		      unsigned n_fds)
{
	size_t done = 0;

	while (done < bytes) {
		char control[CMSG_SPACE(GS_READER_MAX_FDS * sizeof(int))] = {0};
		struct iovec part = {(char *)(uintptr_t)data + done, bytes - done};
		struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
		ssize_t n;
		int r;

		if (n_fds && done == 0) {
			struct cmsghdr *c = (void *)control;

			m.msg_control = control;
			m.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
			*c = (struct cmsghdr){.cmsg_len = CMSG_LEN(n_fds * sizeof(int)),
					      .cmsg_level = SOL_SOCKET,
					      .cmsg_type = SCM_RIGHTS};
			memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
		}
		n = sendmsg(x->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n >= 0) {
			done += (size_t)n;
			continue;
		}
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
		r = await_socket(x, POLLOUT);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Its end is -EPIPE. */
static int receive_bytes(const struct exchange *x, void *to, size_t bytes)
{
	size_t done = 0;

	while (done < bytes) {
		/* No room for descriptors: the kernel drops any that it would send. */
		ssize_t n = recv(x->fd, (char *)to + done, bytes - done, MSG_DONTWAIT);
		int r;

		if (n > 0) {
			done += (size_t)n;
			continue;
		}
		if (n == 0 || errno == ECONNRESET)
			return -EPIPE;
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
		r = await_socket(x, POLLIN);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Room is made for what has come, not for what was announced. */
static int receive_into(const struct exchange *x, struct gs_buf *to, size_t bytes)
{
	while (bytes) {
		size_t n = bytes < CHUNK ? bytes : CHUNK;
		void *at = gs_buf_extend(to, n);
		int r = at ? receive_bytes(x, at, n) : -EBADMSG;

		if (r < 0)
			return r;
		bytes -= n;
	}
	return 0;
}

/* A line of a stranger, for a terminal. */
static void clean_text(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			*text = '?';
}

static int receive_text(const struct exchange *x, uint32_t bytes, struct gs_err *ret)
{
	int r;

	if (bytes >= sizeof(ret->text))
		return -EBADMSG;
	memset(ret->text, 0, sizeof(ret->text));
	r = receive_bytes(x, ret->text, bytes);
	clean_text(ret->text);
	return r;
}

static void take_hello(struct gs_reader *reader, unsigned held)
{
	char has[128], lacks[128];

	reader->held = held & GS_SANDBOX_ALL;
	if (reader->has_said_held)
		return;
	reader->has_said_held = true;
	gs_log(GS_LOG_INFO, GS_LOG_PROCESSES, "reader of %s: protected by %s%s%s",
	       reader->options.name, gs_sandbox_names(reader->held, has, sizeof(has)),
	       reader->held == GS_SANDBOX_ALL ? "" : "; not available here: ",
	       gs_sandbox_names(GS_SANDBOX_ALL & ~reader->held, lacks, sizeof(lacks)));
}

/* What it says until it has answered. The service's status, or why there is none. *ret_answered:
 * it is the service's. */
static int receive_answer(const struct exchange *x, struct gs_buf *reply, bool *ret_answered,
			  struct gs_err *err)
{
	for (;;) {
		struct reader_reply_head head;
		struct gs_err text;
		int r = receive_bytes(x, &head, sizeof(head));

		if (r < 0)
			return r;
		if (head.text_bytes > head.bytes)
			return -EBADMSG;
		r = receive_text(x, head.text_bytes, &text);
		if (r < 0)
			return r;
		head.bytes -= head.text_bytes;
		if (head.message == READER_DONE && head.status == 0) {
			r = receive_into(x, reply, head.bytes);
			*ret_answered = r == 0;
			return r;
		}
		if (head.bytes)
			return -EBADMSG;
		if (head.message == READER_DONE && head.status < 0 && head.status > -4096) {
			*ret_answered = true;
			return gs_err_set(err, head.status, "%s", text.text);
		}
		if (head.message == READER_HELLO)
			take_hello(x->reader, (unsigned)head.status);
		else if (head.message == READER_COST)
			(void)gs_guard_charge(x->owner, (uint64_t)(uint32_t)head.status << 10);
		else if (head.message == READER_REFUSED && head.status > 0 &&
			 head.status < GS_REFUSED_COUNT)
			gs_guard_refuse((enum gs_refused)head.status, 1, text.text);
		else if (head.message == READER_LOG && READER_LOG_IS_ONE(head.status))
			gs_log(READER_LOG_LEVEL(head.status), READER_LOG_TOPIC(head.status), "%s",
			       text.text);
		else
			return -EBADMSG;
	}
}

/* Of the reader, whether it lives or has just died. */
static uint64_t cpu_ns_of(const struct worker *w)
{
	struct timespec t = {0};
	clockid_t clock;

	if (clock_getcpuclockid(w->process.pid, &clock) != 0 || clock_gettime(clock, &t) < 0)
		return 0;
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int run_exchange(struct gs_reader *reader, struct worker *w, uid_t owner, uint64_t end_ns,
			const struct reader_request_head *h, const struct gs_buf *request,
			const int *fds, struct gs_buf *reply, bool *ret_answered,
			struct gs_err *err)
{
	const struct exchange x = {reader, w->process.fd, owner, end_ns};
	uint64_t cpu_ns = cpu_ns_of(w), after_ns;
	int r = send_bytes(&x, h, sizeof(*h), fds, h->n_fds);

	if (r == 0)
		r = send_bytes(&x, request->data, request->bytes, NULL, 0);
	/* It may have said why before it ended. */
	if (r == 0 || r == -EPIPE || r == -ECONNRESET)
		r = receive_answer(&x, reply, ret_answered, err);
	after_ns = cpu_ns_of(w);
	if (after_ns > cpu_ns)
		(void)gs_guard_charge_time(owner, after_ns - cpu_ns, NULL);
	return r;
}

/* Whose the files are: that of one who is not root, if any is. */
static int owner_of(const struct gs_reader *reader, const int *fds, unsigned n_fds,
		    uid_t *ret_owner)
{
	*ret_owner = n_fds ? 0 : reader->owner;
	for (unsigned i = 0; i < n_fds; i++) {
		struct stat st;

		if (fstat(fds[i], &st) < 0)
			return -errno;
		if (st.st_uid != 0)
			*ret_owner = st.st_uid;
	}
	return 0;
}

/* The one that reads files of this user, or else the one that was used longest ago, ended. */
static struct worker *worker_of(struct gs_reader *reader, uid_t owner)
{
	struct worker *oldest = &reader->workers[OF_OTHERS];

	for (unsigned i = OF_OTHERS; i < N_WORKERS; i++) {
		struct worker *w = &reader->workers[i];

		if (w->process.pid && w->owner == owner)
			return w;
		if (!w->process.pid || (oldest->process.pid && w->used < oldest->used))
			oldest = w;
	}
	reader->stats.n_replaced += oldest->process.pid != 0;
	(void)gs_sandbox_end_child(&oldest->process);
	return oldest;
}

/* Who is to read files of this owner, started if need be. */
static int choose_worker(struct gs_reader *reader, uid_t owner, struct worker **ret,
			 struct gs_err *err)
{
	struct worker *w = &reader->workers[OF_ROOT];

	if (owner != 0 && !reader->options.keeps_state)
		w = worker_of(reader, owner);
	*ret = w;
	if (!w->process.pid) {
		int r = start_worker(reader, w, err);

		if (r < 0)
			return r;
	}
	w->owner = owner;
	w->used = reader->stats.n_requests;
	return 0;
}

static int refuse_late(const struct gs_reader *reader, uid_t owner, struct gs_err *err)
{
	char what[64];

	snprintf(what, sizeof(what), "a file of user %u", owner);
	gs_guard_refuse(GS_REFUSED_FILE_BYTES, 1, what);
	return gs_err_set(err, -ETIME, READER_TOO_LATE, reader->options.late_ms / 1000);
}

int gs_reader_distrust(struct gs_reader *reader, struct gs_err *err)
{
	reader->stats.n_bad++;
	if (reader->last)
		(void)gs_sandbox_end_child(&reader->last->process);
	return gs_err_set(err, -EBADMSG, "refused: its contents are invalid");
}

static int serve_here(struct gs_reader *reader, enum gs_reader_service service,
		      const struct gs_buf *request, const int *fds, unsigned n_fds,
		      struct gs_buf *reply, struct gs_err *err)
{
	struct gs_reader_request asked = {.in = GS_WIRE_IN(request->data, request->bytes),
					  .fds = {-1, -1}};
	struct gs_wire_out out = {.buf = reply};
	int r;

	gs_buf_reset(reply);
	for (unsigned i = 0; i < n_fds; i++)
		asked.fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 0);
	r = reader->options.here[service](&reader->states[service], &asked, &out, err);
	for (unsigned i = 0; i < GS_READER_MAX_FDS; i++)
		gs_close_p(&asked.fds[i]);
	return r < 0 ? r : out.r;
}

int gs_reader_ask(struct gs_reader *reader, enum gs_reader_service service,
		  const struct gs_buf *request, const int *fds, unsigned n_fds,
		  struct gs_buf *reply, struct gs_err *err)
{
	const struct reader_request_head head = {.bytes = (uint32_t)request->bytes,
						 .service = (uint16_t)service,
						 .n_fds = (uint16_t)n_fds,
						 .late_ms = reader->options.late_ms};
	uint64_t end_ns = gs_clock_mono_ns() + head.late_ms * 1000000ull;
	int status = 0, r;
	char what[48];
	uid_t owner;

	if (n_fds > GS_READER_MAX_FDS || request->bytes > GS_READER_MAX_BYTES)
		return -E2BIG;
	if (reader->options.here)
		return serve_here(reader, service, request, fds, n_fds, reply, err);
	r = owner_of(reader, fds, n_fds, &owner);
	if (r == 0)
		r = gs_guard_charge(owner, 0);
	snprintf(what, sizeof(what), "a file of user %u", owner);
	if (r == 0)
		r = gs_guard_charge_time(owner, 0, what);
	if (r < 0)
		return gs_err_set(err, r, "%s", gs_foreign_reason(r));
	reader->stats.n_requests++;
	for (unsigned i = 0; i < TRIES; i++) {
		struct worker *w = &reader->workers[OF_ROOT];
		bool answered = false;

		r = choose_worker(reader, owner, &w, err);
		if (r < 0)
			return r;
		gs_buf_reset(reply);
		reader->last = w;
		r = run_exchange(reader, w, owner, end_ns, &head, request, fds, reply, &answered,
				 err);
		if (answered) {
			reader->stats.n_late += r == -ETIME;
			return r;
		}
		if (r == -EBADMSG)
			return gs_reader_distrust(reader, err);
		status = gs_sandbox_end_child(&w->process);
		if (r == -ECANCELED)
			return gs_err_set(err, r, "%s", gs_foreign_reason(r));
		if (r == -ETIME || (WIFSIGNALED(status) && WTERMSIG(status) == SIGPROF)) {
			reader->stats.n_late++;
			return refuse_late(reader, owner, err);
		}
		reader->stats.n_died++;
		gs_log(GS_LOG_INFO, GS_LOG_PROCESSES,
		       "reader of %s: killed by signal %d, restarted", reader->options.name,
		       WIFSIGNALED(status) ? WTERMSIG(status) : 0);
	}
	return gs_err_set(err, -EIO, "refused: %d processes that read it were killed by signal %d",
			  TRIES, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}
