/*
 * Exports of sessions over gRPC. Making the file and sending it are two threads with a pipe
 * between: what the peer does not take yet stops the one that makes it, and nothing is held in
 * between.
 */
#include "server/head/head_int.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "server/session_export/session_export.h"
#include "gpuscope.pb-c.h"

#define EXPORTS_MAX 8
#define PART_BYTES  65536
#define PATIENCE_S  120

struct export
{
	struct gs_head *head;
	struct gs_grpc_call *call; /* referenced */
	struct gs_store *store;    /* of the thread that makes */
	struct gs_store_session session;
	struct gs_session_export_options o;
	int64_t trace;       /* 0: the samples */
	unsigned n_left_out; /* traces that the caller may not see */
	int pipe[2];
	int made; /* what making said */
	struct gs_err err;
};

/* One lock for all: they wake seldom. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t woken = PTHREAD_COND_INITIALIZER;
static uint64_t n_wakes;

void head_export_wake(struct gs_grpc_call *call)
{
	pthread_mutex_lock(&lock);
	n_wakes++;
	pthread_cond_broadcast(&woken);
	pthread_mutex_unlock(&lock);
}

static void *make_export(void *arg)
{
	struct export *e = arg;

	e->made = e->trace ? gs_session_export_trace(&e->o, e->trace, e->pipe[1], &e->err)
			   : gs_session_export_write(&e->o, e->pipe[1], NULL, &e->err);
	gs_close_p(&e->pipe[1]);
	return NULL;
}

/* Waits while the peer does not read. -EPIPE: it is gone. */
static int send_message(struct export *e, const Gpuscope__V1__ExportPart *m)
{
	uint8_t out[PART_BYTES + 512];
	struct timespec until;
	size_t n;
	int r;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE_S;
	n = gpuscope__v1__export_part__get_packed_size(m);
	if (n > sizeof(out))
		return -EINVAL;
	gpuscope__v1__export_part__pack(m, out);
	for (;;) {
		uint64_t before;
		bool late = false;

		pthread_mutex_lock(&lock);
		before = n_wakes;
		pthread_mutex_unlock(&lock);
		r = gs_grpc_call_send(e->call, out, n);
		if (r != -ENOBUFS)
			return r;
		pthread_mutex_lock(&lock);
		while (n_wakes == before && !late)
			late = pthread_cond_timedwait(&woken, &lock, &until) == ETIMEDOUT;
		pthread_mutex_unlock(&lock);
		if (late)
			return gs_err_set(&e->err, -ETIMEDOUT,
					  "export aborted: the client read nothing for %d s",
					  PATIENCE_S);
	}
}

static int send_part(struct export *e, const void *data, size_t bytes, const char *file)
{
	Gpuscope__V1__ExportPart m = GPUSCOPE__V1__EXPORT_PART__INIT;

	m.data = (ProtobufCBinaryData){.data = (uint8_t *)data, .len = bytes};
	m.file = (char *)file;
	return send_message(e, &m);
}

/* How many traces the caller was not given, and how to get them. */
static int send_left_out(struct export *e)
{
	Gpuscope__V1__ExportPart m = GPUSCOPE__V1__EXPORT_PART__INIT;

	m.traces_left_out = e->n_left_out;
	return e->n_left_out ? send_message(e, &m) : 0;
}

/* One file; 0 or a negative errno with e->err. */
static int send_file(struct export *e, const char *name)
{
	static const size_t bytes = PART_BYTES;
	GS_FREE uint8_t *part = malloc(bytes);
	pthread_t maker;
	int r = 0;
	ssize_t n;

	if (!part || pipe2(e->pipe, O_CLOEXEC) < 0)
		return part ? -errno : -ENOMEM;
	r = -pthread_create(&maker, NULL, make_export, e);
	if (r < 0) {
		gs_close_p(&e->pipe[0]);
		gs_close_p(&e->pipe[1]);
		return r;
	}
	r = send_part(e, "", 0, name);
	while (r == 0 && (n = read(e->pipe[0], part, bytes)) != 0)
		r = n < 0 ? -errno : send_part(e, part, (size_t)n, "");
	gs_close_p(&e->pipe[0]); /* a thread that still writes finds that it is no longer read */
	pthread_join(maker, NULL);
	return r < 0 ? r : e->made;
}

static int send_trace(void *ctx, int64_t stream, const char *name)
{
	struct export *e = ctx;

	if (e->o.commands == GS_SESSION_EXPORT_COMMANDS_NONE) {
		e->n_left_out++;
		return 0;
	}
	e->trace = stream;
	return send_file(e, name);
}

static void export_free(struct export *e)
{
	struct gs_head *h = e->head;

	gs_store_close(&e->store);
	gs_grpc_call_unref(&e->call);
	free(e);
	pthread_mutex_lock(&h->lock);
	h->n_exports--;
	pthread_cond_broadcast(&h->more_reads);
	pthread_mutex_unlock(&h->lock);
}

static void *run_exports(void *arg)
{
	struct export *e = arg;
	char name[GS_STORE_SESSION_NAME_BYTES + 8];
	struct gs_store *lister = NULL;
	struct gs_session_export_options list = e->o;
	int r;

	snprintf(name, sizeof(name), "%s%s", e->session.name,
		 gs_session_export_suffix(e->o.format));
	r = send_file(e, name);
	if (r == 0 && e->o.format == GS_SESSION_EXPORT_GST) {
		/* Traces are listed by one connection and made by another, on its own thread. */
		r = gs_head_reader(e->head, &lister, &e->err);
		list.store = lister;
		if (r == 0)
			r = gs_session_export_traces(&list, send_trace, e);
		if (r == 0)
			r = send_left_out(e);
		gs_store_close(&lister);
	}
	if (r < 0)
		gs_grpc_call_finish(e->call, head_status_of(r), gs_err_text(&e->err, r));
	else
		gs_grpc_call_finish(e->call, GS_GRPC_OK, NULL);
	export_free(e);
	return NULL;
}

int head_export_start(struct gs_head *h, struct gs_grpc_call *call,
		      const struct gs_store_session *s, unsigned format, struct gs_err *err)
{
	struct export *e;
	pthread_t thread;
	bool full;
	int r;

	if (format > GS_SESSION_EXPORT_GST)
		return gs_err_set(err, -EINVAL, "this head knows no such format");
	e = calloc(1, sizeof(*e));
	if (!e)
		return -ENOMEM;
	pthread_mutex_lock(&h->lock);
	full = h->n_exports >= EXPORTS_MAX;
	h->n_exports += !full;
	pthread_mutex_unlock(&h->lock);
	if (full) {
		free(e);
		return gs_err_set(err, -EBUSY,
				  "%d exports are already running: wait for one to end",
				  EXPORTS_MAX);
	}
	*e = (struct export){
		.head = h, .call = gs_grpc_call_ref(call), .session = *s, .pipe = {-1, -1}};
	e->o = (struct gs_session_export_options){.size = sizeof(e->o),
						  .session = &e->session,
						  .format = (enum gs_session_export_format)format,
						  .commands = head_may_see(h, call)};
	r = gs_head_reader(h, &e->store, err);
	e->o.store = e->store;
	if (r == 0)
		r = -pthread_create(&thread, NULL, run_exports, e);
	if (r < 0) {
		export_free(e);
		return gs_err_set(err, r, "cannot begin the export: %s", strerror(-r));
	}
	pthread_detach(thread);
	return 0;
}

void head_export_stop(struct gs_head *h)
{
	pthread_mutex_lock(&h->lock);
	while (h->n_exports)
		pthread_cond_wait(&h->more_reads, &h->lock);
	pthread_mutex_unlock(&h->lock);
}
