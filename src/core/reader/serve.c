/*
 * The reader itself: one socket, one request after another. It gives up its rights before it reads
 * the first one; what goes wrong afterwards is its end and costs the holder that request.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "core/base/clock.h"
#include "core/base/foreign.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/reader/reader_int.h"
#include "core/sandbox/sandbox.h"

#define MAX_MEMORY_BYTES (1ull << 30)
#define MAX_CPU_S        300 /* of all requests: then it is replaced */
#define MAX_FILES        512

bool gs_reader_is_called(int argc, char **argv)
{
	return argc == 3 && strcmp(argv[1], READER_ARGUMENT) == 0;
}

/* 1; 0 at the end; negative errno. fds: those that come with the first byte. */
static int receive_bytes(void *to, size_t bytes, int *fds)
{
	size_t done = 0;

	while (done < bytes) {
		struct iovec part = {(char *)to + done, bytes - done};
		char control[CMSG_SPACE(GS_READER_MAX_FDS * sizeof(int))];
		struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
		struct cmsghdr *c;
		ssize_t n;

		if (fds && done == 0) {
			m.msg_control = control;
			m.msg_controllen = sizeof(control);
		}
		n = recvmsg(READER_SOCKET, &m, MSG_CMSG_CLOEXEC);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : done ? -EPROTO : 0;
		c = m.msg_control ? CMSG_FIRSTHDR(&m) : NULL;
		if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
			memcpy(fds, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
		done += (size_t)n;
	}
	return 1;
}

static int send_all(const void *data, size_t bytes)
{
	size_t done = 0;

	while (done < bytes) {
		struct iovec part = {(char *)(uintptr_t)data + done, bytes - done};
		struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
		ssize_t n = sendmsg(READER_SOCKET, &m, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		done += (size_t)n;
	}
	return 0;
}

static int send_message(enum reader_message message, int status, const char *text,
			const struct gs_buf *answer)
{
	struct reader_reply_head head = {
		.message = message, .status = status, .text_bytes = (uint32_t)strlen(text)};
	int r;

	head.bytes = head.text_bytes + (answer ? (uint32_t)answer->bytes : 0);
	r = send_all(&head, sizeof(head));
	if (r == 0)
		r = send_all(text, head.text_bytes);
	if (r == 0 && answer)
		r = send_all(answer->data, answer->bytes);
	return r;
}

static void log_to_holder(enum gs_log_level level, enum gs_log_topic topic, const char *line)
{
	(void)send_message(READER_LOG, READER_LOG_STATUS(level, topic), line, NULL);
}

/* Time that a request may take of a processor, for a holder that has died would not end it. */
static void set_alarm(uint32_t ms)
{
	const struct itimerval limit = {.it_value = {ms / 1000, ms % 1000 * 1000}};

	setitimer(ITIMER_PROF, &limit, NULL);
}

/* What it cost, and what was left out, for the holder's guard. */
static int report_reading(struct gs_guard *guard, uint64_t read_before)
{
	uint64_t kib = (gs_guard_bytes_read(guard) - read_before) >> 10;
	int r = send_message(READER_COST, kib < INT32_MAX ? (int)kib : INT32_MAX, "", NULL);

	for (int cause = 1; r == 0 && cause < GS_REFUSED_COUNT; cause++) {
		char what[160];

		if (gs_guard_refused(guard, (enum gs_refused)cause, what, sizeof(what)))
			r = send_message(READER_REFUSED, cause, what, NULL);
	}
	return r;
}

/* The service's answer in out, or why there is none. */
static int run_service(gs_reader_serve_fn serve, void **state, struct gs_guard *guard,
		       struct gs_reader_request *request, uint32_t late_ms, struct gs_buf *out,
		       struct gs_err *err)
{
	struct gs_wire_out reply = {.buf = out};
	int r;

	/* Mostly it ends by itself, somewhat before it would be ended. */
	gs_guard_set_deadline(guard, gs_clock_mono_ns() + late_ms * 800000ull);
	set_alarm(late_ms);
	r = serve(state, request, &reply, err);
	set_alarm(0);
	if (r == -ECANCELED)
		return gs_err_set(err, -ETIME, READER_TOO_LATE, late_ms / 1000);
	if (r >= 0 && reply.r < 0)
		return gs_err_set(err, reply.r, "it contains too much for one answer");
	return r < 0 ? r : 0;
}

static int serve_one(void **states, const gs_reader_serve_fn *services, struct gs_guard *guard,
		     struct gs_buf *in, struct gs_buf *out)
{
	struct reader_request_head head;
	struct gs_reader_request request = {.fds = {-1, -1}};
	uint64_t read_before = gs_guard_bytes_read(guard);
	struct gs_err err = {{0}};
	int status, r = receive_bytes(&head, sizeof(head), request.fds);

	if (r <= 0)
		return r;
	if (head.service >= GS_READER_N_SERVICES || head.bytes > GS_READER_MAX_BYTES)
		return -EPROTO;
	gs_buf_reset(in);
	gs_buf_reset(out);
	if (head.bytes) {
		void *to = gs_buf_extend(in, head.bytes);

		if (!to)
			return -ENOMEM;
		r = receive_bytes(to, head.bytes, NULL);
		if (r <= 0)
			return r < 0 ? r : -EPROTO;
	}
	request.in = GS_WIRE_IN(in->data, in->bytes);
	status = run_service(services[head.service], &states[head.service], guard, &request,
			     head.late_ms, out, &err);
	for (unsigned i = 0; i < GS_READER_MAX_FDS; i++)
		gs_close_p(&request.fds[i]);
	r = report_reading(guard, read_before);
	if (r == 0)
		r = send_message(READER_DONE, status, status < 0 ? gs_err_text(&err, status) : "",
				 status < 0 ? NULL : out);
	return r < 0 ? r : 1;
}

int gs_reader_main(int argc, char **argv, const gs_reader_serve_fn services[GS_READER_N_SERVICES])
{
	static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};
	const struct gs_sandbox box = {.profile = GS_SANDBOX_READER,
				       .own_user = true,
				       .max_bytes = MAX_MEMORY_BYTES,
				       .max_cpu_s = MAX_CPU_S,
				       .max_files = MAX_FILES};
	GS_CLEANUP(gs_buf_fini) struct gs_buf in = GS_BUF_INIT(GS_READER_MAX_BYTES);
	GS_CLEANUP(gs_buf_fini) struct gs_buf out = GS_BUF_INIT(GS_READER_MAX_BYTES);
	void *states[GS_READER_N_SERVICES] = {NULL};
	const struct gs_guard_options limits = {.size = sizeof(limits)};
	struct gs_guard *guard = NULL;
	unsigned held;
	int r;

	/* It ends when the holder closes its end, and not before: signals to a service or a group
	 * are the holder's to answer. */
	for (size_t i = 0; i < GS_ARRAY_LEN(ignored); i++)
		signal(ignored[i], SIG_IGN);
	prctl(PR_SET_NAME, "gpuscope-reader");
	held = gs_sandbox_enter(&box);
	gs_log_take_settings(argv[2]);
	gs_log_set_sink(log_to_holder);
	r = gs_guard_new(&limits, &guard);
	gs_guard_enter(guard);
	if (r == 0)
		r = send_message(READER_HELLO, (int)held, "", NULL);
	while (r >= 0 && (r = serve_one(states, services, guard, &in, &out)) > 0)
		;
	/* Nothing to tidy up: the kernel does it at once, and a leak check would need rights. */
	_exit(r < 0);
}
