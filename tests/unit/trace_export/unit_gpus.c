/* Samples of GPUs on a timeline: what was read when, on which track, by readers that know nothing of
 * the writers. */
#include "trace_file.h"

#include "../tui/sample.h"
#include "model/node/record.h"
#include "model/trace/record.h"

#define WALL_MINUS_BOOT 1700000000000000000ll /* of sample.h's boot clock, as the file's */

struct stream {
	struct gs_buf buf;
};

static void put_session(struct stream *s, enum gs_session_mode mode, int64_t wall_minus_boot_ns)
{
	struct gs_rec_session *r;

	s->buf = GS_BUF_INIT(1u << 22);
	r = gs_record_put(&s->buf, GS_REC_SESSION, sizeof(*r), 0);
	assert_non_null(r);
	r->version = GS_RECORD_VERSION;
	r->mode = mode;
	r->start_ns = SAMPLE_START_NS;
	r->wall_minus_boot_ns = wall_minus_boot_ns;
}

/* A traced process. */
static void put_process(struct stream *s, uint32_t id, uint32_t pid, const char *comm)
{
	struct gs_rec_process *p;

	assert_int_equal(gs_record_put_string(&s->buf, 100 + id, comm, strlen(comm)), 0);
	p = gs_record_put(&s->buf, GS_REC_PROCESS, sizeof(*p), 0);
	assert_non_null(p);
	p->id = id;
	p->pid = pid;
	p->comm_str = 100 + id;
}

static void put_node(struct stream *s, struct gs_node_snapshot *n)
{
	assert_int_equal(gs_node_encode(&s->buf, n), 0);
	gs_node_snapshot_free(&n);
}

static struct gs_buf file_of(const struct stream *s, const char *suffix, const char **ret_empty)
{
	struct gs_export *e = NULL;
	const char *path = test_path(suffix);
	struct gs_batch batch = {s->buf.data, s->buf.bytes};
	struct gs_err err;

	assert_int_equal(gs_export_open(path, NULL, &e, &err), 0);
	assert_int_equal(gs_export_sink(e)->push(gs_export_sink(e)->ctx, &batch), 0);
	gs_export_end(e);
	if (ret_empty)
		*ret_empty = gs_export_is_empty(e);
	assert_int_equal(gs_export_close(&e, &err), 0);
	return read_all(path);
}

static unsigned count(const struct gs_buf *text, const char *what)
{
	unsigned n = 0;

	for (const char *at = (const char *)text->data; (at = strstr(at, what)); at++)
		n++;
	return n;
}

static void has(const struct gs_buf *text, const char *line)
{
	if (count(text, line) != 1)
		fail_msg("%u times: %s\nin %s", count(text, line), line, (const char *)text->data);
}

/* Two samples a second apart. In the second one the power is as old as the first, and the clocks of GPU 1
 * are throttled; an XID came between them. */
static struct stream two_samples(void)
{
	struct stream s;
	struct gs_node_snapshot *n;

	put_session(&s, GS_SESSION_SAMPLES, WALL_MINUS_BOOT - (int64_t)SAMPLE_START_NS);
	put_node(&s, sample_node(2, 1, 0));
	n = sample_node(2, 1, 1);
	gs_gpu_set_age(&n->gpu->sample[0], GS_GPU_POWER, 999000000);
	gs_gpu_set(&n->gpu->sample[1], GS_GPU_THROTTLE_REASONS, 0x24);
	n->gpu->event = calloc(1, sizeof(*n->gpu->event));
	n->gpu->n_events = 1;
	n->gpu->event->xid = 79;
	n->gpu->event->time_ns = SAMPLE_START_NS + 500000000;
	strcpy(n->gpu->event->pci_bus_id, n->gpu->info[1].pci_bus_id);
	strcpy(n->gpu->event->text, "pid 4");
	put_node(&s, n);
	n = sample_node(2, 0, 2);
	gs_gpu_set(&n->gpu->sample[1], GS_GPU_THROTTLE_REASONS,
		   1); /* idle: that holds nothing down */
	put_node(&s, n);
	return s;
}

static void json_of_samples(void **state)
{
	struct stream s = two_samples();
	const char *empty = "";
	struct gs_buf json = file_of(&s, ".json", &empty);

	assert_null(empty);
	has(&json, "\"pid\":4194305,\"tid\":4194305,\"args\":{\"name\":\"GPU 0: NVIDIA H100 80GB "
		   "HBM3\",\"source\":\"device\"}}");
	has(&json, "\"name\":\"GPU 1: NVIDIA H100 80GB HBM3\"");
	/* GPU i at moment t: (13 i + 7 t) % 101. */
	has(&json, "{\"ph\":\"C\",\"cat\":\"gpu\",\"name\":\"utilization\",\"ts\":1000000000.000,"
		   "\"pid\":4194305,\"args\":{\"percent\":0}}");
	has(&json, "{\"ph\":\"C\",\"cat\":\"gpu\",\"name\":\"utilization\",\"ts\":1001000000.000,"
		   "\"pid\":4194306,\"args\":{\"percent\":20}}");
	has(&json,
	    "\"name\":\"memory "
	    "used\",\"ts\":1001000000.000,\"pid\":4194306,\"args\":{\"bytes\":11811160064}}");
	has(&json, "\"name\":\"SM "
		   "clock\",\"ts\":1000000000.000,\"pid\":4194305,\"args\":{\"megahertz\":1980}}");
	has(&json, "\"name\":\"temperature\",\"ts\":1002000000.000,\"pid\":4194306,\"args\":{"
		   "\"celsius\":41}}");
	/* Read once, 1 ms after the sample before: the same reading. */
	assert_int_equal(count(&json, "\"name\":\"power\""), 5);
	has(&json,
	    "\"name\":\"power\",\"ts\":1002000000.000,\"pid\":4194305,\"args\":{\"watts\":100}}");
	has(&json, "{\"ph\":\"X\",\"cat\":\"gpu\",\"name\":\"power cap, "
		   "heat\",\"ts\":1001000000.000,\"dur\":1000000.000,\"pid\":4194306,");
	has(&json, "\"name\":\"XID 79: GPU has fallen off the "
		   "bus\",\"ts\":1000500000.000,\"pid\":4194306,");
	has(&json, "\"args\":{\"detail\":\"pid 4\"}");
	/* A process that is gone has nothing any more. */
	has(&json,
	    "\"name\":\"memory of python0 "
	    "(100)\",\"ts\":1001000000.000,\"pid\":4194305,\"args\":{\"bytes\":1073741824}}");
	has(&json, "\"name\":\"memory of python0 "
		   "(100)\",\"ts\":1002000000.000,\"pid\":4194305,\"args\":{\"bytes\":0}}");
	gs_buf_fini(&json);
	gs_buf_fini(&s.buf);
}

/* Of a trace: times are those of its clock, and of processes only traced ones are drawn, as their own. */
static void json_of_trace(void **state)
{
	struct stream s;
	struct gs_buf json;

	put_session(&s, GS_SESSION_EVENTS, 5);
	put_process(&s, 1, 101, "trainer");
	put_node(&s, sample_node(2, 3, 0));
	json = file_of(&s, ".json", NULL);
	has(&json, "\"name\":\"GPU 1 SM "
		   "time\",\"ts\":1000000000.000,\"pid\":101,\"args\":{\"percent\":10}}");
	has(&json, "\"name\":\"GPU 1 "
		   "memory\",\"ts\":1000000000.000,\"pid\":101,\"args\":{\"bytes\":2147483648}}");
	has(&json, "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":101,");
	assert_int_equal(count(&json, "python"), 0);
	gs_buf_fini(&json);
	gs_buf_fini(&s.buf);
}

/* Nothing of it can be shown. */
static void nothing_in_csv(void **state)
{
	struct stream s = two_samples();
	const char *empty = NULL;
	struct gs_buf csv = file_of(&s, ".csv", &empty);

	assert_non_null(empty);
	gs_buf_fini(&csv);
	gs_buf_fini(&s.buf);
}

/* Only the cost of tracing is in it: that is nothing, in any format. */
static void nothing_of_counted_calls(void **state)
{
	static const char *const suffixes[] = {".json", ".pftrace", ".csv"};
	struct gs_rec_counter *c;
	struct stream s;

	put_session(&s, GS_SESSION_SUMMARY, 0);
	c = gs_record_put(&s.buf, GS_REC_COUNTER, sizeof(*c), 0);
	assert_non_null(c);
	for (size_t i = 0; i < GS_ARRAY_LEN(suffixes); i++) {
		const char *empty = NULL;
		struct gs_buf file = file_of(&s, suffixes[i], &empty);

		assert_non_null(empty);
		gs_buf_fini(&file);
	}
	gs_buf_fini(&s.buf);
}

/* --- .pftrace --- */

struct track {
	uint64_t uuid, parent;
	char name[64], unit[16], description[96];
	unsigned n_values;
	double last;
	uint64_t last_ns;
};

struct trace {
	struct track tracks[64];
	unsigned n;
};

static void copy_text(char *to, size_t bytes, struct field f)
{
	snprintf(to, bytes, "%.*s", (int)f.bytes, (const char *)f.data);
}

static struct track *track_of(struct trace *t, uint64_t uuid)
{
	for (unsigned i = 0; i < t->n; i++)
		if (t->tracks[i].uuid == uuid)
			return &t->tracks[i];
	return NULL;
}

static struct track *track_named(struct trace *t, const char *name, const char *parent)
{
	for (unsigned i = 0; i < t->n; i++) {
		struct track *of = track_of(t, t->tracks[i].parent);

		if (strcmp(t->tracks[i].name, name) == 0 &&
		    (!parent || (of && strcmp(of->name, parent) == 0)))
			return &t->tracks[i];
	}
	fail_msg("no track %s", name);
	return NULL;
}

static void take_track(struct trace *t, struct field d)
{
	struct track *k = &t->tracks[t->n++];
	struct field counter = find_field(d.data, d.bytes, 8);

	assert_true(t->n < GS_ARRAY_LEN(t->tracks));
	k->uuid = find_field(d.data, d.bytes, 1).value;
	k->parent = find_field(d.data, d.bytes, 5).value;
	assert_true(!k->parent || track_of(t, k->parent)); /* parents come first */
	copy_text(k->name, sizeof(k->name), find_field(d.data, d.bytes, 2));
	copy_text(k->description, sizeof(k->description), find_field(d.data, d.bytes, 14));
	if (counter.number)
		copy_text(k->unit, sizeof(k->unit), find_field(counter.data, counter.bytes, 6));
}

static void take_value(struct trace *t, struct field event, uint64_t time_ns)
{
	struct field v = find_field(event.data, event.bytes, 44);
	struct track *k = track_of(t, find_field(event.data, event.bytes, 11).value);

	assert_non_null(k);
	if (!v.number)
		return;
	assert_int_equal(find_field(event.data, event.bytes, 9).value, 4);
	memcpy(&k->last, &v.value, sizeof(k->last));
	k->last_ns = time_ns;
	k->n_values++;
}

static void pftrace_of_samples(void **state)
{
	struct stream s = two_samples();
	struct gs_buf file = file_of(&s, ".pftrace", NULL);
	const uint8_t *p = file.data, *end = p + file.bytes;
	struct trace t = {0};
	struct track *k;

	while (p < end) {
		struct field packet = take_field(&p, end);
		struct field track = find_field(packet.data, packet.bytes, 60);
		struct field event = find_field(packet.data, packet.bytes, 11);

		if (track.number)
			take_track(&t, track);
		if (event.number)
			take_value(&t, event, find_field(packet.data, packet.bytes, 8).value);
	}
	k = track_named(&t, "utilization", "GPU 1: NVIDIA H100 80GB HBM3");
	assert_int_equal(k->n_values, 3);
	assert_true(k->last > 26.999 && k->last < 27.001);
	assert_int_equal(k->last_ns, SAMPLE_START_NS + 2000000000);
	assert_string_equal(k->unit, "%");
	assert_non_null(strstr(k->description, "Measured by the GPU"));
	assert_int_equal(track_named(&t, "power", "GPU 0: NVIDIA H100 80GB HBM3")->n_values, 2);
	assert_string_equal(track_named(&t, "power", NULL)->unit, "W");
	k = track_named(&t, "SM time of python0 (100)", "GPU 0: NVIDIA H100 80GB HBM3");
	assert_int_equal(k->n_values, 3);
	track_named(&t, "clocks throttled", "GPU 1: NVIDIA H100 80GB HBM3");
	track_named(&t, "XIDs", "GPU 1: NVIDIA H100 80GB HBM3");
	gs_buf_fini(&file);
	gs_buf_fini(&s.buf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(json_of_samples),    cmocka_unit_test(json_of_trace),
		cmocka_unit_test(nothing_in_csv),     cmocka_unit_test(nothing_of_counted_calls),
		cmocka_unit_test(pftrace_of_samples),
	};

	return cmocka_run_group_tests(tests, NULL, remove_test_files);
}
