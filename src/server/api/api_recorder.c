/*
 * Flight recorders of nodes: lists their files, downloads a file, and triggers a new one. Each request is passed to the node
 * over the stream of its samples, by a thread of its own. A file comes in chunks; the next one is requested when the client
 * has taken the previous one. Files of nodes that are away may be in a copy (api_keep.c).
 */
#include "server/api/api_int.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/mem.h"

#define ANSWER_NS  10000000000ull  /* longest wait for an answer of a node */
#define FILE_NS    600000000000ull /* longest time for a whole file */
#define FILE_MAX   (4ull << 30)
#define ASKED_MAX  3 /* requests at a time, of all clients */
#define NAME_BYTES API_RECORDER_NAME_BYTES

struct node_request {
	int64_t node;
	char name[NAME_BYTES]; /* of a file or a job; "": the list */
};

static struct node_request *parse_request(const struct gs_http_request *q,
					  struct gs_http_reply *reply)
{
	struct node_request *w = calloc(1, sizeof(*w));
	const char *name = q->param[1] ? q->param[1] : "";
	char *end;

	if (!w) {
		gs_http_error(reply, 503, "out of memory");
		return NULL;
	}
	w->node = strtoll(q->param[0], &end, 10);
	if (end == q->param[0] || *end || w->node < 1 || strlen(name) >= sizeof(w->name)) {
		gs_http_error(reply, 404, "no such node");
		free(w);
		return NULL;
	}
	strcpy(w->name, name);
	return w;
}

/* Reports why the node did not do what was asked. */
static void put_failure(struct gs_http_reply *reply, int r, const struct gs_head_answer *a)
{
	if (r == -ENOTCONN)
		gs_http_error(reply, 503, "the node is not connected to this head");
	else if (r == -ETIME)
		gs_http_error(
			reply, 504,
			"the node did not answer within 10 s; its gpuscope may be older than this head");
	else if (a->text[0])
		gs_http_error(reply, r == -ENOENT || r == -ENOTSUP ? 404 : 502, a->text);
	else
		gs_http_error(reply, 502, "the node sent an invalid answer");
}

static int ask_node(struct api_task *t, enum gs_head_question_kind kind, uint64_t offset,
		    struct gs_head_answer *a)
{
	const struct node_request *w = t->arg;
	const struct gs_head_question q = {
		.kind = kind, .name = w->name, .offset = offset, .max_bytes = GS_HEAD_ANSWER_MAX};

	return gs_head_ask(t->api->o.head, w->node, &q, ANSWER_NS, a);
}

/* --- the list --- */

bool api_recorder_name_valid(const char *name)
{
	size_t n = strlen(name);

	return n > 4 && n < NAME_BYTES && strncmp(name, "job-", 4) == 0 &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+.") ==
		       n &&
	       strcmp(name + n - 4, ".gst") == 0;
}

bool api_recorder_take_file(const json_t *file, struct api_recorder_file *ret)
{
	const char *name = json_string_value(json_object_get(file, "name"));
	const char *reason = json_string_value(json_object_get(file, "reason"));
	json_int_t bytes = json_integer_value(json_object_get(file, "bytes"));
	double time_s = json_number_value(json_object_get(file, "time"));

	if (!name || !api_recorder_name_valid(name) || bytes < 0 || !(time_s >= 0 && time_s < 9e9))
		return false;
	*ret = (struct api_recorder_file){.bytes = (uint64_t)bytes,
					  .wall_ns = (int64_t)(time_s * 1e9)};
	memcpy(ret->name, name, strlen(name) + 1);
	if (reason && strlen(reason) < sizeof(ret->reason))
		memcpy(ret->reason, reason, strlen(reason) + 1);
	return true;
}

/* "job-4711.20261129T053301.123Z.gst" is of job 4711. */
void api_recorder_put_file(struct gs_buf *b, const struct api_recorder_file *f)
{
	char job[NAME_BYTES];

	snprintf(job, sizeof(job), "%s", f->name + 4);
	for (int dots = 0; dots < 3 && strrchr(job, '.'); dots++)
		*strrchr(job, '.') = '\0';
	j_open(b, NULL, '{');
	j_text(b, "name", f->name);
	j_text(b, "job", job);
	j_text(b, "reason", f->reason);
	j_u64(b, "bytes", f->bytes);
	j_time(b, "time", f->wall_ns);
	j_close(b, '}');
}

/* Copies the known fields of the node's document, which is untrusted. False: it is malformed. */
static bool put_list(struct gs_buf *b, const struct gs_head_answer *a)
{
	json_t *whole = json_loadb((const char *)a->data.data, a->data.bytes, 0, NULL), *entry;
	struct api_recorder_file f;
	size_t i;

	if (!json_is_object(whole)) {
		json_decref(whole);
		return false;
	}
	j_open(b, NULL, '{');
	j_bool(b, "enabled", json_is_true(json_object_get(whole, "enabled")));
	j_bool(b, "connected", true);
	j_open(b, "jobs", '[');
	json_array_foreach(json_object_get(whole, "jobs"), i, entry)
	{
		const char *id = json_string_value(json_object_get(entry, "id"));
		json_int_t processes = json_integer_value(json_object_get(entry, "processes"));

		if (!id || strlen(id) >= NAME_BYTES || processes < 0)
			continue;
		j_open(b, NULL, '{');
		j_text(b, "id", id);
		j_u64(b, "processes", (uint64_t)processes);
		j_close(b, '}');
	}
	j_close(b, ']');
	j_open(b, "files", '[');
	json_array_foreach(json_object_get(whole, "files"), i, entry)
	{
		if (api_recorder_take_file(entry, &f))
			api_recorder_put_file(b, &f);
	}
	j_close(b, ']');
	j_close(b, '}');
	json_decref(whole);
	return true;
}

/* The answer for a node that has no recorder, or is away: copies of its files, if there are any. The page asks for every
 * node, so this is not an error. */
static void put_kept(struct api_task *t, struct gs_http_reply *reply, bool is_connected)
{
	const struct node_request *w = t->arg;
	struct gs_buf *b = gs_live_json(reply);
	bool has_copies;

	j_open(b, NULL, '{');
	j_bool(b, "connected", is_connected);
	j_open(b, "jobs", '[');
	j_close(b, ']');
	j_open(b, "files", '[');
	has_copies = !is_connected && api_keep_list(t->api, w->node, b);
	j_close(b, ']');
	j_bool(b, "enabled", has_copies);
	j_close(b, '}');
}

static bool is_away(int r)
{
	return r == -ENOTCONN || r == -ETIME;
}

static void make_list(struct api_task *t)
{
	struct gs_head_answer a = {.data = GS_BUF_INIT(GS_HEAD_ANSWER_MAX)};
	struct gs_http_reply reply = gs_http_reply_new(t->later);
	int r = ask_node(t, GS_HEAD_RECORDER, 0, &a);

	if (is_away(r) || r == -ENOTSUP)
		put_kept(t, &reply, !is_away(r));
	else if (r < 0)
		put_failure(&reply, r, &a);
	else if (!put_list(gs_live_json(&reply), &a))
		put_failure(&reply, -EPROTO, &a);
	gs_http_answer(&t->later, &reply);
	gs_buf_fini(&a.data);
}

GS_API_HANDLER(api_recorder)
{
	struct node_request *w = parse_request(q, reply);

	if (w)
		api_task_start_few(ctx, reply, make_list, w, ASKED_MAX);
}

/* --- a file now --- */

static void make_save(struct api_task *t)
{
	struct gs_head_answer a = {.data = GS_BUF_INIT(GS_HEAD_ANSWER_MAX)};
	struct gs_http_reply reply = gs_http_reply_new(t->later);
	int r = ask_node(t, GS_HEAD_RECORDER_SAVE, 0, &a);
	struct gs_buf *b;

	if (r < 0) {
		put_failure(&reply, r, &a);
	} else {
		b = gs_live_json(&reply);
		j_open(b, NULL, '{');
		j_bool(b, "asked", true);
		j_close(b, '}');
	}
	gs_http_answer(&t->later, &reply);
	gs_buf_fini(&a.data);
}

GS_API_HANDLER(api_recorder_save)
{
	struct node_request *w = parse_request(q, reply);

	if (w)
		api_task_start_few(ctx, reply, make_save, w, ASKED_MAX);
}

/* --- files --- */

/* A download, shared by the thread that fetches the file and the server that sends it. */
struct passing {
	atomic_uint refs;
	atomic_bool whole; /* the file is complete */
};

static void unref_passing(void *ctx)
{
	struct passing *p = ctx;

	if (--p->refs == 0)
		free(p);
}

static bool passing_whole(void *ctx)
{
	return ((struct passing *)ctx)->whole;
}

/* Writes a chunk into the pipe, which does not block. False: the client did not take it before until_ns, or is gone. */
static bool write_piece(int fd, const uint8_t *data, size_t bytes, uint64_t until_ns)
{
	while (bytes) {
		struct pollfd p = {fd, POLLOUT, 0};
		ssize_t n = write(fd, data, bytes);
		uint64_t now = gs_clock_mono_ns();

		if (n > 0) {
			data += n;
			bytes -= (size_t)n;
			continue;
		}
		if ((n < 0 && errno != EAGAIN && errno != EINTR) || now >= until_ns)
			return false;
		(void)poll(&p, 1, (int)((until_ns - now) / 1000000 + 1));
	}
	return true;
}

/* Reads a chunk from the copy, or from the node if copy is -1. 0 or a negative errno. */
static int read_piece(struct api_task *t, int copy, uint64_t offset, struct gs_head_answer *a)
{
	struct stat st;
	ssize_t n;

	if (copy < 0)
		return ask_node(t, GS_HEAD_RECORDER_FILE, offset, a);
	gs_buf_reset(&a->data);
	if (gs_buf_reserve(&a->data, GS_HEAD_ANSWER_MAX) < 0)
		return -ENOMEM;
	n = pread(copy, a->data.data, GS_HEAD_ANSWER_MAX, (off_t)offset);
	if (n < 0 || fstat(copy, &st) < 0)
		return -errno;
	a->data.bytes = (size_t)n;
	a->total_bytes = (uint64_t)st.st_size;
	return 0;
}

/* Passes the file on, from its first chunk, which is in a, to its end. False: it is not complete, also if its size
 * changed meanwhile. */
static bool pass_file(struct api_task *t, struct gs_head_answer *a, int copy, int fd)
{
	uint64_t total = a->total_bytes, at = 0, until_ns = gs_clock_mono_ns() + FILE_NS;

	for (;;) {
		if (!write_piece(fd, a->data.data, a->data.bytes, until_ns))
			return false;
		at += a->data.bytes;
		if (at >= total)
			return at == total;
		if (read_piece(t, copy, at, a) < 0 || !a->data.bytes || a->total_bytes != total)
			return false;
	}
}

static void make_file(struct api_task *t)
{
	struct gs_head_answer a = {.data = GS_BUF_INIT(GS_HEAD_ANSWER_MAX)};
	struct gs_http_reply reply = gs_http_reply_new(t->later);
	struct passing *p = calloc(1, sizeof(*p));
	const struct node_request *w = t->arg;
	GS_CLOSE int copy = -1;
	int fds[2] = {-1, -1};
	int r = p ? read_piece(t, -1, 0, &a) : -ENOMEM;

	/* A connected node may have removed a file of which there is still a copy. */
	if (is_away(r) || r == -ENOENT)
		copy = api_keep_open(t->api, w->node, w->name);
	if (copy >= 0)
		r = read_piece(t, copy, 0, &a);
	if (r == 0 && a.total_bytes > FILE_MAX)
		r = -EFBIG;
	if (r == 0 && pipe2(fds, O_CLOEXEC) < 0)
		r = -errno;
	if (r < 0) {
		put_failure(&reply, r, &a);
		gs_http_answer(&t->later, &reply);
		free(p);
		gs_buf_fini(&a.data);
		return;
	}
	(void)fcntl(fds[1], F_SETFL, O_NONBLOCK);
	p->refs = 2;
	reply.type = "application/octet-stream";
	snprintf(reply.file_name, sizeof(reply.file_name), "%.150s", w->name);
	reply.has_source = true;
	reply.source = (struct gs_http_source){fds[0], passing_whole, unref_passing, p};
	gs_http_answer(&t->later, &reply);
	p->whole = pass_file(t, &a, copy, fds[1]); /* before the end of the pipe is seen */
	close(fds[1]);
	unref_passing(p);
	gs_buf_fini(&a.data);
}

GS_API_HANDLER(api_recorder_file)
{
	struct node_request *w;

	if (q->see != GS_HTTP_SEE_WHOLE) {
		gs_http_error(
			reply, 403,
			"recorder files contain everything that a job did: downloading them needs a token of the role control");
		return;
	}
	w = parse_request(q, reply);
	if (w && !api_recorder_name_valid(w->name)) {
		gs_http_error(reply, 404, "the node has no such file");
		free(w);
	} else if (w) {
		api_task_start_few(ctx, reply, make_file, w, ASKED_MAX);
	}
}
