/*
 * The documented JSON of gswarm-profiler: frames, summaries, times of requests. Ours has numbers,
 * percent and GB/s and more keys; the other flavour has what old scripts parse: texts, shares,
 * KiB/s.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "server/session_export/session_export_int.h"
#include "core/text/doc.h"
#include "core/text/put.h"

struct json {
	struct archive *a;
	struct gs_doc doc;
	struct session_export_frames f;
	bool gswarm;
};

/* --- plain values --- */

/* A number times a factor; in the other flavour a text of two digits after the point. */
static void put_number(struct json *j, const char *key, double v, double ours, double theirs)
{
	char text[512] = "nan";

	if (!j->gswarm) {
		gs_doc_put_double(&j->doc, key, v * ours);
		return;
	}
	if (!isnan(v))
		snprintf(text, sizeof(text), "%.2f", v * theirs);
	gs_doc_put_word(&j->doc, key, text);
}

static void put_mean(struct json *j, const char *key, const struct session_export_mean *m,
		     double ours, double theirs)
{
	put_number(j, key, m && m->n ? m->sum / m->n : NAN, ours, theirs);
}

static void put_time(struct json *j, const char *key, int64_t wall_ns)
{
	char time[ARCHIVE_TIME_BYTES];

	gs_doc_put_word(&j->doc, key, session_export_time(time, wall_ns, j->gswarm));
}

/* --- a frame --- */

static const struct session_export_mean *
value_of(const struct json *j, const struct session_export_frame *frame, size_t gpu, size_t value)
{
	return gpu < frame->n_gpus ? &frame->value[gpu * j->f.n_values + value] : NULL;
}

static void gpu_list(struct json *j, const struct session_export_frame *frame, const char *name,
		     enum session_export_value value, double ours, double theirs)
{
	gs_doc_begin_flat_list(&j->doc, name);
	for (size_t i = 0; i < j->f.n_gpus; i++)
		put_mean(j, NULL, value_of(j, frame, i, value), ours, theirs);
	gs_doc_end(&j->doc);
}

/* Both directions added up. */
static void sum_list(struct json *j, const struct session_export_frame *frame)
{
	gs_doc_begin_flat_list(&j->doc, "dram_bandwidth");
	for (size_t i = 0; i < j->f.n_gpus; i++) {
		const struct session_export_mean *rx = value_of(j, frame, i, ARCHIVE_PCIE_RX);
		const struct session_export_mean *tx = value_of(j, frame, i, ARCHIVE_PCIE_TX);
		struct session_export_mean sum = {0, 0};

		if (rx && rx->n && tx->n)
			sum = (struct session_export_mean){rx->sum / rx->n + tx->sum / tx->n, 1};
		put_mean(j, NULL, &sum, 1e-9, 1.0 / 1024);
	}
	gs_doc_end(&j->doc);
}

static void put_clients(struct json *j, const struct session_export_frame *frame)
{
	static const struct session_export_client none = {.n_samples = 0};
	const struct archive *a = j->a;

	gs_doc_begin_flat_list(&j->doc, "client_id");
	for (size_t i = 0; i < a->n_nodes; i++)
		gs_doc_put_word(&j->doc, NULL, a->node[i].client);
	gs_doc_end(&j->doc);
	for (int disk = 0; disk < 2; disk++) {
		gs_doc_begin_flat_list(&j->doc, disk ? "disk_util" : "dram_util");
		for (size_t i = 0; i < a->n_nodes; i++) {
			const struct session_export_client *c =
				frame->client ? &frame->client[i] : &none;

			put_mean(j, NULL, disk ? &c->disk : &c->memory, 100, 100);
		}
		gs_doc_end(&j->doc);
	}
	gs_doc_begin_flat_list(&j->doc, "client_available");
	for (size_t i = 0; i < a->n_nodes; i++)
		gs_doc_put_bool(&j->doc, NULL, frame->client && frame->client[i].n_samples);
	gs_doc_end(&j->doc);
}

static void put_extras(struct json *j, const struct session_export_frame *frame)
{
	gs_doc_begin_flat_list(&j->doc, "extra_metrics");
	for (size_t i = 0; i < j->f.n_gpus; i++) {
		gs_doc_begin_flat(&j->doc, NULL);
		for (size_t k = 0; k < j->f.n_fields; k++) {
			const struct session_export_mean *m =
				value_of(j, frame, i, ARCHIVE_N_VALUES + k);

			if (m && m->n)
				gs_doc_put_double(&j->doc, gs_gpu_field_info(j->f.field[k])->key,
						  m->sum / m->n);
		}
		gs_doc_end(&j->doc);
	}
	gs_doc_end(&j->doc);
}

static void put_pairs(struct json *j, const struct session_export_frame *frame)
{
	gs_doc_begin_flat_list(&j->doc, "gpu_bandwidth");
	for (size_t i = 0; i < frame->n_pairs; i++) {
		const struct session_export_pair *p = &j->f.pair[i];

		if (!frame->pair[i].n)
			continue;
		gs_doc_begin_flat(&j->doc, NULL);
		gs_doc_put_word(&j->doc, "id1", j->f.gpu[p->gpu[0]].id);
		gs_doc_put_word(&j->doc, "id2", j->f.gpu[p->gpu[1]].id);
		put_mean(j, "utilization", &frame->pair[i], 1e-9, 1.0 / 1024);
		gs_doc_end(&j->doc);
	}
	gs_doc_end(&j->doc);
}

static int write_frame(void *ctx, const struct session_export_frame *frame)
{
	struct json *j = ctx;
	const struct gs_store_session *s = j->a->o->session;

	gs_doc_begin_flat(&j->doc, NULL);
	gs_doc_put_u64(&j->doc, "frame_id", (uint64_t)frame->number + 1);
	put_time(j, "time", j->a->from_wall_ns + frame->number * (int64_t)j->f.interval_ns);
	gs_doc_begin_flat_list(&j->doc, "gpu_id");
	for (size_t i = 0; i < j->f.n_gpus; i++)
		gs_doc_put_word(&j->doc, NULL, j->f.gpu[i].id);
	gs_doc_end(&j->doc);
	gpu_list(j, frame, "gpu_util", ARCHIVE_UTIL, 100, 1);
	gpu_list(j, frame, "gpu_memory", ARCHIVE_MEMORY, 100, 1);
	gs_doc_begin_flat_list(&j->doc, "available");
	for (size_t i = 0; i < j->f.n_gpus; i++)
		gs_doc_put_bool(&j->doc, NULL, i < frame->n_gpus && frame->n_samples[i]);
	gs_doc_end(&j->doc);
	if (!j->gswarm)
		gpu_list(j, frame, "value_age_seconds", ARCHIVE_AGE, 1, 1);
	put_clients(j, frame);
	if (s->bandwidth) {
		sum_list(j, frame);
		gpu_list(j, frame, "dram_bandwidth_rx", ARCHIVE_PCIE_RX, 1e-9, 1.0 / 1024);
		gpu_list(j, frame, "dram_bandwidth_tx", ARCHIVE_PCIE_TX, 1e-9, 1.0 / 1024);
		gpu_list(j, frame, "dram_active", ARCHIVE_DRAM, 100, 1);
	}
	if (s->nvlink) {
		gpu_list(j, frame, "nvlink_rx", ARCHIVE_NVLINK_RX, 1e-9, 1.0 / 1024);
		gpu_list(j, frame, "nvlink_tx", ARCHIVE_NVLINK_TX, 1e-9, 1.0 / 1024);
	}
	if (s->bandwidth || s->nvlink)
		put_pairs(j, frame);
	if (!j->gswarm || s->metrics[0])
		put_extras(j, frame);
	gs_doc_end(&j->doc);
	return j->doc.pen->r;
}

/* --- summaries --- */

static void put_device(struct json *j, const struct session_export_gpu *g)
{
	const struct gs_session_export_sums *s = &g->sums;
	struct gs_doc *doc = &j->doc;

	gs_doc_begin_flat(doc, g->id);
	put_number(j, "avg_gpu_util", gs_bucket_mean(&s->util), 100, 1);
	put_number(j, "avg_gpu_memory", gs_bucket_mean(&s->memory), 100, 1);
	if (!j->gswarm) {
		gs_doc_put_double(doc, "p50_gpu_util", gs_session_export_sums_util(s, 0.5));
		gs_doc_put_double(doc, "p95_gpu_util", gs_session_export_sums_util(s, 0.95));
		gs_doc_put_double(doc, "max_gpu_util", gs_bucket_max(&s->util) * 100);
		gs_doc_put_double(doc, "max_gpu_memory", gs_bucket_max(&s->memory) * 100);
		gs_doc_put_double(doc, "avg_dram_active", gs_bucket_mean(&s->dram) * 100);
		gs_doc_put_double(doc, "avg_power_watts", gs_bucket_mean(&s->power));
		gs_doc_put_double(doc, "max_power_watts", gs_bucket_max(&s->power));
		gs_doc_put_double(doc, "max_temperature_celsius", gs_bucket_max(&s->temperature));
		gs_doc_put_double(doc, "energy_joules", gs_energy_joules(&s->energy));
		gs_doc_put_u64(doc, "samples", s->n_samples);
		gs_doc_put_u64(doc, "frames", g->n_frames);
		gs_doc_put_word(doc, "uuid", g->uuid);
	}
	gs_doc_end(doc);
}

static void put_client(struct json *j, size_t i)
{
	const struct session_export_node *n = &j->a->node[i];

	gs_doc_begin_flat(&j->doc, n->client);
	put_mean(j, "avg_dram_util", &j->f.client[i].memory, 100, 100);
	put_mean(j, "avg_disk_util", &j->f.client[i].disk, 100, 100);
	if (!j->gswarm) {
		gs_doc_put_u64(&j->doc, "samples", n->n_samples);
		gs_doc_put_u64(&j->doc, "lost_samples", n->lost_samples);
		gs_doc_put_u64(&j->doc, "missed_samples", n->missed_samples);
	}
	gs_doc_end(&j->doc);
}

static void put_summaries(struct json *j)
{
	gs_doc_begin_map(&j->doc, "summary_by_device");
	for (size_t i = 0; i < j->f.n_gpus; i++)
		put_device(j, &j->f.gpu[i]);
	gs_doc_end(&j->doc);
	gs_doc_begin_map(&j->doc, "summary_by_client");
	for (size_t i = 0; i < j->a->n_nodes; i++)
		put_client(j, i);
	gs_doc_end(&j->doc);
}

/* --- marks and requests --- */

struct requests {
	struct json *j;
	struct gs_map seen; /* applications that are written already */
	const char *app;    /* the one that is written now; NULL: find the next */
	char name[256];
};

/* The members of a flat object of numbers without blanks, as this program stored it: those with the
 * two names of their own, or all others. */
static void put_times(struct gs_doc *doc, const char *values, bool want_own)
{
	static const char *const own[] = {"\"queue_time\":", "\"processing_time\":"};

	for (const char *p = values + 1; *p && *p != '}';) {
		const char *end = p;
		bool quoted = false, is_own = false;

		for (; *end && (quoted || (*end != ',' && *end != '}')); end++) {
			if (*end == '\\' && end[1])
				end++;
			else if (*end == '"')
				quoted = !quoted;
		}
		for (size_t i = 0; i < GS_ARRAY_LEN(own); i++)
			is_own |= strncmp(p, own[i], strlen(own[i])) == 0;
		if (is_own == want_own)
			gs_doc_put_spelled(doc, NULL, p, (size_t)(end - p));
		p = *end == ',' ? end + 1 : end;
	}
}

/* {"queue_time": 1, "processing_time": 2, "other": 3} as the values stand there; the first two keep
 * their names, all others go into other_times. */
static void put_request(struct gs_doc *doc, const char *values)
{
	gs_doc_begin_flat(doc, NULL);
	put_times(doc, values, true);
	gs_doc_begin_flat(doc, "other_times");
	put_times(doc, values, false);
	gs_doc_end(doc);
	gs_doc_end(doc);
}

static int each_request(void *ctx, const struct gs_store_annotation *m)
{
	struct requests *q = ctx;
	uint64_t hash = gs_hash_bytes(m->name, strlen(m->name)), zero;

	if (strcmp(m->kind, "request") != 0)
		return 0;
	if (!q->app) {
		if (gs_map_get(&q->seen, hash, &zero))
			return 0;
		snprintf(q->name, sizeof(q->name), "%s", m->name);
		q->app = q->name;
		return gs_map_put(&q->seen, hash, 1) < 0 ? -ENOMEM : 1;
	}
	if (strcmp(q->app, m->name) == 0)
		put_request(&q->j->doc, m->values);
	return q->j->doc.pen->r;
}

static int put_requests(struct json *j)
{
	struct requests q = {.j = j, .seen = GS_MAP_INIT(1u << 20)};
	const int64_t session = j->a->o->session->number;
	int r;

	gs_doc_begin_map(&j->doc, "request_time_info");
	while ((r = gs_store_annotations(j->a->o->store, session, each_request, &q)) == 1) {
		gs_doc_begin_list(&j->doc, q.app, 1);
		r = gs_store_annotations(j->a->o->store, session, each_request, &q);
		gs_doc_end(&j->doc);
		if (r < 0)
			break;
		q.app = NULL;
	}
	gs_doc_end(&j->doc);
	gs_map_fini(&q.seen);
	return r;
}

static int each_mark(void *ctx, const struct gs_store_annotation *m)
{
	struct json *j = ctx;

	if (strcmp(m->kind, "request") == 0)
		return 0;
	gs_doc_begin_flat(&j->doc, NULL);
	put_time(j, "time", m->wall_ns);
	gs_doc_put_word(&j->doc, "name", m->name);
	gs_doc_put_spelled(&j->doc, "values", m->values, strlen(m->values));
	gs_doc_end(&j->doc);
	return j->doc.pen->r;
}

/* --- the whole --- */

static void list_of(struct json *j, const char *k, const char *commas)
{
	char part[256];

	gs_doc_begin_flat_list(&j->doc, k);
	for (const char *p = commas; *p;) {
		size_t bytes = strcspn(p, ",");

		snprintf(part, sizeof(part), "%.*s", (int)bytes, p);
		gs_doc_put_word(&j->doc, NULL, part);
		p += bytes + (p[bytes] == ',');
	}
	gs_doc_end(&j->doc);
}

static void put_head(struct json *j)
{
	static const char *const percent[] = {"gpu_util", "gpu_memory", "dram_active", "dram_util",
					      "disk_util"};
	static const char *const gigabytes[] = {"dram_bandwidth",    "dram_bandwidth_rx",
						"dram_bandwidth_tx", "nvlink_rx",
						"nvlink_tx",         "gpu_bandwidth"};
	const struct gs_store_session *s = j->a->o->session;
	struct gs_doc *doc = &j->doc;

	gs_doc_put_word(doc, "session_name", s->name);
	gs_doc_put_word(doc, "session_id", s->id);
	put_time(j, "start_time", s->start_wall_ns);
	if (s->end_wall_ns)
		put_time(j, "end_time", s->end_wall_ns);
	else
		gs_doc_put_null(doc, "end_time");
	if (j->gswarm)
		return;
	gs_doc_put_word(doc, "state", gs_store_session_state_name(s->state));
	gs_doc_put_double(doc, "interval_seconds", (double)j->f.interval_ns / 1e9);
	list_of(j, "nodes", s->nodes);
	list_of(j, "metrics", s->metrics);
	list_of(j, "report_metrics", s->report_metrics);
	gs_doc_begin_flat(doc, "units");
	for (size_t i = 0; i < GS_ARRAY_LEN(percent); i++)
		gs_doc_put_word(doc, percent[i], "percent");
	for (size_t i = 0; i < GS_ARRAY_LEN(gigabytes); i++)
		gs_doc_put_word(doc, gigabytes[i], "GB/s");
	gs_doc_end(doc);
}

static void put_account(struct gs_doc *doc, const struct archive *a)
{
	gs_doc_begin_flat(doc, "account");
	gs_doc_put_u64(doc, "samples", a->stats.n_samples);
	gs_doc_put_u64(doc, "frames", a->stats.n_frames);
	gs_doc_put_u64(doc, "late_samples", a->stats.n_late);
	gs_doc_put_u64(doc, "damaged_batches", a->stats.n_damaged);
	gs_doc_put_u64(doc, "downsampled_samples", a->stats.n_coarse);
	gs_doc_put_u64(doc, "downsampled_from", a->stats.n_coarse_of);
	gs_doc_put_double(doc, "downsampled_interval_seconds", (double)a->stats.coarse_ns / 1e9);
	gs_doc_end(doc);
}

int session_export_json(struct archive *a, struct gs_pen *pen)
{
	struct json j = {.a = a,
			 .doc = {.ops = &gs_doc_json, .pen = pen},
			 .gswarm = a->o->format == GS_SESSION_EXPORT_GSWARM};
	struct session_export_sink sink = {.snapshot = session_export_frames_sample,
					   .passed = session_export_frames_passed,
					   .ctx = &j.f};
	int r;

	j.f.write = write_frame;
	j.f.ctx = &j;
	r = session_export_frames_open(&j.f, a);
	gs_doc_begin_map(&j.doc, NULL);
	if (!j.gswarm)
		gs_doc_put_version(&j.doc);
	if (r == 0) {
		put_head(&j);
		gs_doc_begin_list(&j.doc, "frames", 1);
		r = session_export_read(a, &sink);
	}
	if (r == 0)
		r = session_export_frames_end(&j.f);
	if (r == 0) {
		gs_doc_end(&j.doc);
		put_summaries(&j);
		r = put_requests(&j);
	}
	if (r == 0) {
		gs_doc_begin_list(&j.doc, "annotations", 1);
		r = gs_store_annotations(a->o->store, a->o->session->number, each_mark, &j);
		gs_doc_end(&j.doc);
	}
	if (r == 0 && !j.gswarm)
		put_account(&j.doc, a);
	if (r == 0) {
		gs_doc_end(&j.doc);
		gs_pen_puts(pen, "\n");
	}
	session_export_frames_close(&j.f);
	return r;
}
