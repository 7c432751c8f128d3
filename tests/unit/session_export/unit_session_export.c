/*
 * Sessions out of a store that is made here, so that every number in the file is known.
 *
 * usage: unit_archive GOLDEN_FOLDER; with GS_GOLDEN_UPDATE=1 in the environment the files are
 * written.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#include "server/session_export/session_export.h"
#include "server/store/rollup.h"
#include "pipeline/recording/recording.h"
#include "model/node/record.h"

#define SECOND 1000000000ll
#define BEGAN  (1700000000ll * SECOND)

static const char *golden;

struct fixture {
	char dir[64];
	struct gs_store *store;
	struct gs_store_session session;
	uint64_t seq[8]; /* of each stream */
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct gs_err err;

	strcpy(f->dir, "/tmp/unit_archive.XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	assert_int_equal(gs_store_open(f->dir, GS_STORE_WRITE, &f->store, &err), 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	static const char *const names[] = {"head.db", "head.db-wal", "head.db-shm", "lock"};
	struct fixture *f = *state;
	char path[128];

	gs_store_close(&f->store);
	for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", f->dir, names[i]);
		(void)unlink(path);
	}
	assert_int_equal(rmdir(f->dir), 0);
	free(f);
	return 0;
}

static void begin_session(struct fixture *f, uint64_t interval_ns, int64_t lasted_ns)
{
	f->session.interval_ns = interval_ns;
	strcpy(f->session.name, "test");
	strcpy(f->session.id, "0123456789abcdef0123456789abcdef");
	f->session.number = 1;
	f->session.state = GS_STORE_SESSION_STOPPED;
	f->session.start_wall_ns = BEGAN;
	f->session.end_wall_ns = BEGAN + lasted_ns;
}

static int64_t stream_of(struct fixture *f, const char *machine, const char *host, uint32_t kind)
{
	struct gs_store_node n = {.id = 0};
	struct gs_store_stream s = {.stream = kind, .kind = kind}, got;

	snprintf(n.machine_id, sizeof(n.machine_id), "%s", machine);
	snprintf(n.hostname, sizeof(n.hostname), "%s", host);
	assert_int_equal(gs_store_node(f->store, &n, &s.node), 0);
	assert_int_equal(gs_store_stream(f->store, &s, &got), 0);
	return got.id;
}

static struct gs_node_snapshot *moment(const char *host, int64_t wall_ns, unsigned n_gpus,
				       double util)
{
	struct gs_node_snapshot *n = calloc(1, sizeof(*n));
	struct gs_gpu_snapshot *g = n->gpu = calloc(1, sizeof(*g));
	struct gs_host_sample *h;

	n->host = calloc(1, sizeof(*n->host));
	h = &n->host->sample;
	*h = (struct gs_host_sample){.mem_total_bytes = 1000,
				     .mem_used_bytes = 250,
				     .mem_used_ratio = -1,
				     .root_used_ratio = 0.125};
	n->wall_ns = wall_ns;
	n->time_ns = 5000 * SECOND + (uint64_t)(wall_ns - BEGAN);
	snprintf(n->name, sizeof(n->name), "%s", host);
	g->n_gpus = n_gpus;
	g->info = calloc(n_gpus + 1, sizeof(*g->info));
	g->sample = calloc(n_gpus + 1, sizeof(*g->sample));
	for (unsigned i = 0; i < n_gpus; i++) {
		struct gs_gpu_sample *s = &g->sample[i];

		g->info[i].index = i;
		snprintf(g->info[i].uuid, sizeof(g->info[i].uuid), "GPU-%s-%u", host, i);
		snprintf(g->info[i].name, sizeof(g->info[i].name), "Test \"GPU\", %u", i);
		snprintf(g->info[i].pci_bus_id, sizeof(g->info[i].pci_bus_id), "0000:0%u:00.0", i);
		memset(s->why, GS_GPU_REASON_NOT_READ, sizeof(s->why));
		s->time_ns = n->time_ns;
		gs_gpu_set(s, GS_GPU_UTIL, util);
		gs_gpu_set(s, GS_GPU_MEM_TOTAL, 800);
		gs_gpu_set(s, GS_GPU_MEM_USED, 200);
		gs_gpu_set(s, GS_GPU_PCIE_RX_BPS, 3e9);
		gs_gpu_set(s, GS_GPU_PCIE_TX_BPS, 1e9);
		gs_gpu_set(s, GS_GPU_DRAM_ACTIVE, 0.4);
		gs_gpu_set(s, GS_GPU_POWER, 300 + i);
		gs_gpu_set(s, GS_GPU_ENERGY, (double)(wall_ns - BEGAN) / 1e9 * 100);
	}
	if (n_gpus == 2) { /* a direct link, over which 2 GB go each second */
		struct gs_gpu_link *l = &g->sample[0].link[0];

		g->sample[0].n_links = 1;
		l->present = l->up = l->have_bytes = 1;
		l->tx_bytes = l->rx_bytes = (uint64_t)(wall_ns - BEGAN + 10 * SECOND);
		strcpy(l->remote_bus_id, g->info[1].pci_bus_id);
	}
	return n;
}

/* The records as a batch of one sample. */
static void append(struct fixture *f, int64_t stream, struct gs_store_batch *batch,
		   const struct gs_buf *records)
{
	batch->seq = ++f->seq[stream];
	batch->n_samples = 1;
	batch->data = records->data;
	batch->bytes = records->bytes;
	batch->raw_bytes = (uint32_t)records->bytes;
	assert_int_equal(gs_store_begin(f->store), 0);
	assert_int_equal(gs_store_append(f->store, stream, batch), 0);
	assert_int_equal(gs_store_commit(f->store), 0);
}

static void put(struct fixture *f, int64_t stream, struct gs_node_snapshot *n, int64_t offset_ns)
{
	struct gs_buf b = GS_BUF_INIT(1 << 20);
	struct gs_store_batch batch = {.first_wall_ns = n->wall_ns,
				       .last_wall_ns = n->wall_ns,
				       .clock_offset_ns = offset_ns};

	assert_int_equal(gs_node_encode(&b, n), 0);
	append(f, stream, &batch, &b);
	gs_node_snapshot_free(&n);
	gs_buf_fini(&b);
}

/* The file as text; freed by the caller. */
static char *text_of(struct fixture *f, enum gs_session_export_format format,
		     struct gs_session_export_stats *ret_stats)
{
	struct gs_session_export_options o = {
		.size = sizeof(o), .store = f->store, .session = &f->session, .format = format};
	char path[] = "/tmp/unit_archive_out.XXXXXX";
	int fd = mkstemp(path);
	struct gs_err err = {{0}};
	struct stat st;
	char *text;

	assert_true(fd >= 0);
	unlink(path);
	if (gs_session_export_write(&o, fd, ret_stats, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(fstat(fd, &st), 0);
	text = calloc(1, (size_t)st.st_size + 1);
	assert_int_equal(pread(fd, text, (size_t)st.st_size, 0), st.st_size);
	close(fd);
	return text;
}

static json_t *json_of(struct fixture *f, struct gs_session_export_stats *ret_stats)
{
	GS_FREE char *text = text_of(f, GS_SESSION_EXPORT_JSON, ret_stats);
	json_error_t error;
	json_t *doc = json_loads(text, 0, &error);

	if (!doc)
		fail_msg("line %d: %s", error.line, error.text);
	return doc;
}

static bool available(json_t *doc, size_t frame, size_t gpu)
{
	json_t *f = json_array_get(json_object_get(doc, "frames"), frame);

	return json_is_true(json_array_get(json_object_get(f, "available"), gpu));
}

static size_t n_frames(json_t *doc)
{
	return json_array_size(json_object_get(doc, "frames"));
}

/* A little sooner or later does not matter: one sample in each frame. */
static void jitter(void **state)
{
	struct fixture *f = *state;
	int64_t s = stream_of(f, "m", "host", GS_STORE_SAMPLES);
	struct gs_session_export_stats stats;
	json_t *doc;

	begin_session(f, SECOND, 200 * SECOND);
	/* The worst place of the phase, at the border between two frames. */
	for (int i = 0; i < 100; i++)
		put(f, s,
		    moment("host", BEGAN + i * SECOND + (i * 7919 % 13 - 6) * 20000000 + SECOND, 1,
			   0.5),
		    0);
	doc = json_of(f, &stats);
	assert_int_equal(stats.n_samples, 100);
	assert_int_equal(stats.n_late, 0);
	assert_int_equal(n_frames(doc), 100);
	for (size_t i = 0; i < 100; i++)
		assert_true(available(doc, i, 0));
	json_decref(doc);
}

/* A clock that is an hour wrong, and one that is not known at first. */
static void clocks(void **state)
{
	struct fixture *f = *state;
	int64_t a = stream_of(f, "a", "a", GS_STORE_SAMPLES),
		b = stream_of(f, "b", "b", GS_STORE_SAMPLES);
	struct gs_session_export_stats stats;
	json_t *doc;

	begin_session(f, SECOND, 60 * SECOND);
	for (int i = 0; i < 60; i++) {
		int64_t t = BEGAN + i * SECOND + SECOND / 4;

		put(f, a, moment("a", t, 1, 0.25), 0);
		put(f, b, moment("b", t + 3600 * SECOND, 1, 0.75), i < 2 ? 0 : -3600 * SECOND);
	}
	doc = json_of(f, &stats);
	assert_int_equal(stats.n_samples, 120);
	assert_int_equal(stats.n_late, 0);
	assert_int_equal(n_frames(doc), 60);
	for (size_t i = 0; i < 60; i++)
		assert_true(available(doc, i, 0) && available(doc, i, 1));
	json_decref(doc);
}

/* Nobody for a while: one empty frame, and the numbers tell how long. */
static void gaps(void **state)
{
	struct fixture *f = *state;
	int64_t s = stream_of(f, "m", "host", GS_STORE_SAMPLES);
	json_t *doc, *frames;

	begin_session(f, SECOND, 2000000 * SECOND);
	for (int i = 0; i < 5; i++)
		put(f, s, moment("host", BEGAN + i * SECOND, 1, 0.5), 0);
	for (int i = 1000000; i < 1000005; i++)
		put(f, s, moment("host", BEGAN + i * SECOND, 1, 0.5), 0);
	doc = json_of(f, NULL);
	frames = json_object_get(doc, "frames");
	assert_int_equal(json_array_size(frames), 11);
	assert_false(available(doc, 5, 0));
	assert_int_equal(json_integer_value(json_object_get(json_array_get(frames, 5), "frame_id")),
			 6);
	assert_int_equal(json_integer_value(json_object_get(json_array_get(frames, 6), "frame_id")),
			 1000001);
	json_decref(doc);
}

/* A node that measures less often than the session has frames, by its own --interval: what lies between its
 * samples is no gap; that it was away is one. */
static void slower_than_frames(void **state)
{
	struct fixture *f = *state;
	int64_t s = stream_of(f, "m", "host", GS_STORE_SAMPLES);
	const int jitter_ms[] = {0, 7, -6, 3, -8, 5};
	struct gs_session_export_stats stats;
	json_t *doc;

	begin_session(f, SECOND / 20, 60 * SECOND);
	for (int i = 0; i < 40; i++) {
		int64_t away = i < 30 ? 0 : 5 * SECOND;

		put(f, s,
		    moment("host",
			   BEGAN + SECOND / 50 + i * SECOND / 10 + away +
				   jitter_ms[i % 6] * SECOND / 1000,
			   1, 0.5),
		    0);
	}
	doc = json_of(f, &stats);
	assert_int_equal(stats.n_samples, 40);
	assert_int_equal(stats.n_late, 0);
	assert_int_equal(n_frames(doc), 41);
	for (size_t i = 0; i < 41; i++)
		assert_int_equal(available(doc, i, 0), i != 30);
	json_decref(doc);
}

/* Four seconds as one moment, from that second on. */
static void put_coarse(struct fixture *f, int64_t stream, int first)
{
	struct gs_rollup *four = gs_rollup_new(4 * SECOND);
	struct gs_store_batch batch = {.first_wall_ns = BEGAN + first * SECOND};
	struct gs_buf b = GS_BUF_INIT(1 << 20);

	for (int i = first; i < first + 4; i++) {
		struct gs_node_snapshot *m = moment("host", BEGAN + i * SECOND, 1, 0.5);

		assert_int_equal(gs_rollup_add(four, &m, NULL), 0);
	}
	assert_int_equal(gs_rollup_put(four, &b, &batch.last_wall_ns), 0);
	append(f, stream, &batch, &b);
	gs_rollup_free(&four);
	gs_buf_fini(&b);
}

/* What is coarse is no gap, also when what comes next is not coarse. */
static void coarse_then_fine(void **state)
{
	struct fixture *f = *state;
	int64_t s = stream_of(f, "m", "host", GS_STORE_SAMPLES);
	json_t *doc;

	begin_session(f, SECOND, 60 * SECOND);
	for (int i = 0; i < 16; i += 4)
		put_coarse(f, s, i);
	for (int i = 16; i < 24; i++)
		put(f, s, moment("host", BEGAN + i * SECOND, 1, 0.5), 0);
	doc = json_of(f, NULL);
	assert_int_equal(n_frames(doc), 4 + 8);
	for (size_t i = 0; i < 4 + 8; i++)
		assert_true(available(doc, i, 0));
	json_decref(doc);
}

/* What the arithmetic of floating point adds to a value is not written. */
static void digits(void **state)
{
	static const enum gs_session_export_format formats[] = {GS_SESSION_EXPORT_CSV,
								GS_SESSION_EXPORT_JSON};
	struct fixture *f = *state;
	struct gs_node_snapshot *n = moment("host", BEGAN + SECOND / 2, 1, 0.07 * 0.1);
	int64_t s = stream_of(f, "m", "host", GS_STORE_SAMPLES);

	gs_gpu_set(&n->gpu->sample[0], GS_GPU_POWER, 0.1 * 3);
	put(f, s, n, 0);
	begin_session(f, SECOND, SECOND);
	for (size_t i = 0; i < GS_ARRAY_LEN(formats); i++) {
		GS_FREE char *text = text_of(f, formats[i], NULL);

		assert_null(strstr(text, "0.3000000"));
		assert_null(strstr(text, "9999999"));
		assert_non_null(
			strstr(text, formats[i] == GS_SESSION_EXPORT_CSV ? ",0.007," : "0.7"));
		assert_non_null(strstr(text, "0.3"));
	}
}

/* Ten samples in a frame: their mean. */
static void means(void **state)
{
	struct fixture *f = *state;
	int64_t s = stream_of(f, "m", "host", GS_STORE_SAMPLES);
	json_t *doc, *frame;

	begin_session(f, SECOND, 30 * SECOND);
	for (int i = 0; i < 100; i++)
		put(f, s, moment("host", BEGAN + i * SECOND / 10, 1, (double)(i % 10) / 10), 0);
	doc = json_of(f, NULL);
	frame = json_array_get(json_object_get(doc, "frames"), 4);
	assert_float_equal(json_number_value(json_array_get(json_object_get(frame, "gpu_util"), 0)),
			   45, 0.01);
	json_decref(doc);
}

static int add_values(struct fixture *f, const char *kind, const char *name, const char *values)
{
	struct gs_store_annotation m = {
		.session = f->session.number, .wall_ns = BEGAN + SECOND, .values = values};

	strcpy(m.kind, kind);
	strcpy(m.name, name);
	return gs_store_annotation_add(f->store, &m);
}

static void compare(struct fixture *f, enum gs_session_export_format format, const char *name)
{
	GS_FREE char *text = text_of(f, format, NULL);
	char path[512], wanted[65536] = "";
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", golden, name);
	if (getenv("GS_GOLDEN_UPDATE")) {
		file = fopen(path, "w");
		assert_non_null(file);
		fputs(text, file);
		fclose(file);
		return;
	}
	file = fopen(path, "r");
	assert_non_null(file);
	assert_true(fread(wanted, 1, sizeof(wanted) - 1, file) > 0);
	fclose(file);
	assert_string_equal(text, wanted);
}

/* Two nodes, of which one comes later and one goes; everything that a file can have. */
static void goldens(void **state)
{
	struct fixture *f = *state;
	int64_t a = stream_of(f, "a", "alpha", GS_STORE_SAMPLES),
		b = stream_of(f, "b", "beta", GS_STORE_SAMPLES);
	struct gs_store_session real = {.interval_ns = SECOND};

	strcpy(real.name, "test");
	assert_int_equal(gs_store_session_start(f->store, &real), 0);
	begin_session(f, SECOND, 6 * SECOND);
	f->session.number = real.number;
	f->session.bandwidth = f->session.nvlink = true;
	strcpy(f->session.metrics, "power_watts,energy_joules");
	strcpy(f->session.nodes, "al*,beta");
	for (int i = 0; i < 6; i++) {
		if (i < 4)
			put(f, a, moment("alpha", BEGAN + i * SECOND + SECOND / 8, 2, 0.1 * i), 0);
		if (i >= 2)
			put(f, b, moment("beta", BEGAN + i * SECOND + SECOND / 2, 1, 0.9), 0);
	}
	assert_int_equal(add_values(f, "mark", "epoch \"1\"", "{\"loss\":0.5}"), 0);
	assert_int_equal(
		add_values(f, "request", "llama",
			   "{\"queue_time\":0.25,\"processing_time\":1.5,\"a,}\\\"b\":3.0}"),
		0);
	assert_int_equal(
		add_values(f, "request", "bert", "{\"queue_time\":1.0,\"processing_time\":2.0}"),
		0);
	assert_int_equal(
		add_values(f, "request", "llama", "{\"queue_time\":0.5,\"processing_time\":1.0}"),
		0);
	compare(f, GS_SESSION_EXPORT_JSON, "session.json");
	compare(f, GS_SESSION_EXPORT_GSWARM, "session_gswarm.json");
	compare(f, GS_SESSION_EXPORT_CSV, "session.csv");
}

/* Values of any length are whole: a line once had room for 160 bytes of them. */
static void long_values(void **state)
{
	struct fixture *f = *state;
	struct gs_store_session real = {.interval_ns = SECOND};
	char values[2048] = "{";
	json_t *doc, *other;

	strcpy(real.name, "long");
	assert_int_equal(gs_store_session_start(f->store, &real), 0);
	begin_session(f, SECOND, 2 * SECOND);
	f->session.number = real.number;
	for (int i = 0; i < 60; i++)
		sprintf(values + strlen(values), "%s\"value_%02d\":%d.5", i ? "," : "", i, i);
	strcat(values, "}");
	assert_int_equal(add_values(f, "mark", "epoch", values), 0);
	assert_int_equal(add_values(f, "request", "llama", values), 0);
	doc = json_of(f, NULL);
	assert_int_equal(json_array_size(json_object_get(doc, "annotations")), 1);
	other = json_object_get(json_array_get(json_object_get(doc, "annotations"), 0), "values");
	assert_int_equal(json_object_size(other), 60);
	other = json_array_get(json_object_get(json_object_get(doc, "request_time_info"), "llama"),
			       0);
	other = json_object_get(other, "other_times");
	assert_int_equal(json_object_size(other), 60);
	assert_true(json_real_value(json_object_get(other, "value_59")) == 59.5);
	json_decref(doc);
}

static int one_trace(void *ctx, int64_t stream, const char *name)
{
	assert_string_equal(name, "test-ev_l____-1.gst");
	*(int64_t *)ctx = stream;
	return 0;
}

static unsigned records_of(const char *path, unsigned kind)
{
	struct gs_recording_reader *reader = NULL;
	struct gs_batch batch;
	struct gs_err err;
	unsigned n = 0;

	if (gs_recording_open(path, &reader, &err) < 0)
		fail_msg("%s", err.text);
	while (gs_recording_next(reader, &batch) == 0)
		gs_records_for_each (&batch, r)
			n += r->kind == kind;
	gs_recording_reader_close(&reader);
	return n;
}

/* Moments on one line of time; a trace as its node sent it, under a name that leads nowhere. */
static void gst(void **state)
{
	struct fixture *f = *state;
	int64_t s = stream_of(f, "m", "host", GS_STORE_SAMPLES), found = 0;
	int64_t trace = stream_of(f, "e", "ev/l\n..;", GS_STORE_TRACE);
	struct gs_session_export_options o = {.size = sizeof(o),
					      .store = f->store,
					      .session = &f->session,
					      .format = GS_SESSION_EXPORT_GST};
	char path[] = "/tmp/unit_archive_gst.XXXXXX";
	struct gs_err err = {{0}};
	int fd = mkstemp(path);

	begin_session(f, SECOND, 100 * SECOND);
	for (int i = 0; i < 10; i++) {
		put(f, s, moment("host", BEGAN + i * SECOND, 1, 0.5), 0);
		put(f, trace, moment("host", BEGAN + i * SECOND, 0, 0.5), 0);
	}
	assert_int_equal(gs_session_export_write(&o, fd, NULL, &err), 0);
	assert_int_equal(records_of(path, GS_REC_HOST_SAMPLE), 10);
	assert_int_equal(records_of(path, GS_REC_SESSION), 1);
	assert_int_equal(gs_session_export_traces(&o, one_trace, &found), 0);
	assert_int_equal(found, trace);
	assert_int_equal(gs_session_export_trace(&o, found, fd, &err), 0);
	assert_int_equal(records_of(path, GS_REC_HOST_SAMPLE), 10);
	close(fd);
	unlink(path);
}

/* Of the records of the kind STRING, those with this text. */
static unsigned texts_of(const char *path, const char *wanted)
{
	struct gs_recording_reader *reader = NULL;
	struct gs_batch batch;
	struct gs_err err;
	unsigned n = 0;

	if (gs_recording_open(path, &reader, &err) < 0)
		fail_msg("%s", err.text);
	while (gs_recording_next(reader, &batch) == 0)
		gs_records_for_each (&batch, r) {
			const struct gs_rec_string *s = (const struct gs_rec_string *)r;

			n += r->kind == GS_REC_STRING && s->text_bytes == strlen(wanted) &&
			     memcmp(s->text, wanted, s->text_bytes) == 0;
		}
	gs_recording_reader_close(&reader);
	return n;
}

/* A trace's texts for each of those who may ask for it. */
static void trace_commands(void **state)
{
	struct fixture *f = *state;
	int64_t trace = stream_of(f, "m", "host", GS_STORE_TRACE);
	struct gs_session_export_options o = {
		.size = sizeof(o), .store = f->store, .session = &f->session};
	static const char *const text[] = {"train --api-key=S3CRET --rank=0",
					   "train --api-key=*** --rank=0", "void kernel<int>(int)"};
	struct gs_store_batch batch = {
		.seq = 1, .first_wall_ns = BEGAN, .last_wall_ns = BEGAN, .n_samples = 1};
	struct gs_buf b = GS_BUF_INIT(1 << 20);
	struct gs_err err = {{0}};

	begin_session(f, SECOND, 100 * SECOND);
	assert_int_equal(gs_record_put_string(&b, 1, text[0], strlen(text[0])), 0);
	assert_int_equal(gs_record_put_string(&b, 2, text[2], strlen(text[2])), 0);
	batch.data = b.data;
	batch.bytes = b.bytes;
	batch.raw_bytes = (uint32_t)b.bytes;
	assert_int_equal(gs_store_begin(f->store), 0);
	assert_int_equal(gs_store_append(f->store, trace, &batch), 0);
	assert_int_equal(gs_store_commit(f->store), 0);
	for (int scrubbed = 0; scrubbed < 2; scrubbed++) {
		char path[] = "/tmp/unit_archive_trace.XXXXXX";
		int fd = mkstemp(path);

		o.commands = scrubbed ? GS_SESSION_EXPORT_COMMANDS_SCRUBBED
				      : GS_SESSION_EXPORT_COMMANDS_STORED;
		assert_int_equal(gs_session_export_trace(&o, trace, fd, &err), 0);
		assert_int_equal(texts_of(path, text[0]), !scrubbed);
		assert_int_equal(texts_of(path, text[1]), scrubbed);
		assert_int_equal(texts_of(path, text[2]), 1);
		close(fd);
		unlink(path);
	}
	o.commands = GS_SESSION_EXPORT_COMMANDS_NONE;
	assert_int_equal(gs_session_export_trace(&o, trace, -1, &err), -EACCES);
	gs_buf_fini(&b);
}

static void names(void **state)
{
	assert_int_equal(gs_session_export_format("json"), GS_SESSION_EXPORT_JSON);
	assert_int_equal(gs_session_export_format("gst"), GS_SESSION_EXPORT_GST);
	assert_int_equal(gs_session_export_format("xml"), -1);
	assert_string_equal(gs_session_export_suffix(GS_SESSION_EXPORT_GSWARM), ".json");
}

struct told {
	struct fixture *f;
	int64_t last_ns;
	unsigned n, n_other, stop_at;
};

static int take(void *ctx, const struct gs_node_snapshot *m, const struct gs_rollup_mark *mark)
{
	struct told *t = ctx;

	assert_true(m->wall_ns >= t->last_ns);
	t->last_ns = m->wall_ns;
	t->n_other += strcmp(m->name, "other") == 0;
	return ++t->n == t->stop_at ? -ETIME : 0;
}

/* Moments by the head's clock, of all nodes or of one, until who takes them has enough. */
static void moments(void **state)
{
	struct fixture *f = *state;
	int64_t a = stream_of(f, "m", "host", GS_STORE_SAMPLES);
	int64_t b = stream_of(f, "n", "other", GS_STORE_SAMPLES);
	struct gs_store_stream s = {0};
	struct gs_session_export_options o = {
		.size = sizeof(o), .store = f->store, .session = &f->session};
	struct told t = {.f = f};
	struct gs_err err = {{0}};
	struct gs_store_node n = {.id = 0};

	begin_session(f, SECOND, 100 * SECOND);
	for (int i = 0; i < 10; i++) {
		put(f, a, moment("host", BEGAN + i * SECOND, 1, 0.5), 0);
		/* Its clock is an hour behind. */
		put(f, b, moment("other", BEGAN - 3600 * SECOND + i * SECOND, 1, 0.5),
		    3600 * SECOND);
	}
	assert_int_equal(gs_session_export_samples(&o, take, &t, NULL, &err), 0);
	assert_int_equal(t.n, 20);
	assert_int_equal(t.n_other, 10);
	t = (struct told){.f = f, .stop_at = 3};
	assert_int_equal(gs_session_export_samples(&o, take, &t, NULL, &err), -ETIME);
	assert_int_equal(t.n, 3);
	snprintf(n.machine_id, sizeof(n.machine_id), "n");
	snprintf(n.hostname, sizeof(n.hostname), "other");
	assert_int_equal(gs_store_node(f->store, &n, &s.node), 0);
	o.node = s.node;
	t = (struct told){.f = f};
	assert_int_equal(gs_session_export_samples(&o, take, &t, NULL, &err), 0);
	assert_int_equal(t.n, 10);
	assert_int_equal(t.n_other, 10);
}

/* Nobody reads any more: the error is the system's. */
static void broken_pipe(void **state)
{
	struct fixture *f = *state;
	int64_t s = stream_of(f, "m", "host", GS_STORE_SAMPLES);
	struct gs_session_export_options o = {
		.size = sizeof(o), .store = f->store, .session = &f->session};
	struct gs_err err = {{0}};
	int fds[2];

	begin_session(f, SECOND, 100 * SECOND);
	put(f, s, moment("host", BEGAN, 1, 0.5), 0);
	assert_int_equal(pipe(fds), 0);
	close(fds[0]);
	assert_int_equal(gs_session_export_write(&o, fds[1], NULL, &err), -EPIPE);
	assert_non_null(strstr(err.text, "Broken pipe"));
	close(fds[1]);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(jitter),
		TEST(clocks),
		TEST(gaps),
		TEST(slower_than_frames),
		TEST(coarse_then_fine),
		TEST(means),
		TEST(digits),
		TEST(goldens),
		TEST(long_values),
		TEST(gst),
		TEST(names),
		TEST(broken_pipe),
		TEST(moments),
		TEST(trace_commands),
#undef TEST
	};

	if (argc < 2)
		return 2;
	golden = argv[1];
	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
