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
#include "core/text/text.h"

struct json {
	struct archive *a;
	struct gs_pen *pen;
	struct session_export_frames f;
	bool gswarm;
	bool any; /* something was written in this list */
};

/* --- plain values --- */

static void put_text(struct gs_pen *pen, const char *s)
{
	gs_pen_check(pen, gs_text_json(&pen->buf, s));
}

static void put_key(struct gs_pen *pen, const char *k)
{
	put_text(pen, k);
	gs_pen_puts(pen, ": ");
}

/* Six digits behind the point at most: more are noise of the arithmetic. Numbers are most of a
 * file, so they are made of two integers. */
static void put_number(struct gs_pen *pen, double v)
{
	char text[48], *p = text;
	int64_t millionths;

	if (!isfinite(v)) {
		gs_pen_puts(pen, "null");
		return;
	}
	if (fabs(v) >= 1e9) {
		if (fabs(v) >= 1e15 || v != floor(v)) {
			gs_pen_double(pen, v);
			return;
		}
		p = gs_put_i64(p, (int64_t)v);
		gs_pen_check(pen, gs_buf_put(&pen->buf, text, (size_t)(p - text)));
		return;
	}
	millionths = llround(v * 1e6);
	if (millionths < 0) {
		*p++ = '-';
		millionths = -millionths;
	}
	p = gs_put_u64(p, (uint64_t)millionths / 1000000);
	if (millionths % 1000000) {
		int64_t rest = millionths % 1000000;

		*p++ = '.';
		for (int64_t unit = 100000; rest; unit /= 10) {
			*p++ = (char)('0' + rest / unit);
			rest %= unit;
		}
	}
	gs_pen_check(pen, gs_buf_put(&pen->buf, text, (size_t)(p - text)));
}

/* A mean times a factor; in the other flavour a text of two digits behind the point. */
static void put_mean(struct json *j, const struct session_export_mean *m, double ours,
		     double theirs)
{
	double v = m && m->n ? m->sum / m->n : NAN;

	if (!j->gswarm)
		put_number(j->pen, v * ours);
	else if (isnan(v))
		gs_pen_puts(j->pen, "\"nan\"");
	else
		gs_pen_printf(j->pen, "\"%.2f\"", v * theirs);
}

static void put_comma(struct json *j, size_t i)
{
	if (i)
		gs_pen_puts(j->pen, ", ");
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
	gs_pen_printf(j->pen, ", \"%s\": [", name);
	for (size_t i = 0; i < j->f.n_gpus; i++) {
		put_comma(j, i);
		put_mean(j, value_of(j, frame, i, value), ours, theirs);
	}
	gs_pen_puts(j->pen, "]");
}

/* Both directions added up. */
static void sum_list(struct json *j, const struct session_export_frame *frame)
{
	gs_pen_puts(j->pen, ", \"dram_bandwidth\": [");
	for (size_t i = 0; i < j->f.n_gpus; i++) {
		const struct session_export_mean *rx = value_of(j, frame, i, ARCHIVE_PCIE_RX);
		const struct session_export_mean *tx = value_of(j, frame, i, ARCHIVE_PCIE_TX);
		struct session_export_mean sum = {0, 0};

		if (rx && rx->n && tx->n)
			sum = (struct session_export_mean){rx->sum / rx->n + tx->sum / tx->n, 1};
		put_comma(j, i);
		put_mean(j, &sum, 1e-9, 1.0 / 1024);
	}
	gs_pen_puts(j->pen, "]");
}

static void put_clients(struct json *j, const struct session_export_frame *frame)
{
	static const struct session_export_client none = {.n_samples = 0};
	const struct archive *a = j->a;

	gs_pen_puts(j->pen, ", \"client_id\": [");
	for (size_t i = 0; i < a->n_nodes; i++) {
		put_comma(j, i);
		put_text(j->pen, a->node[i].client);
	}
	for (int disk = 0; disk < 2; disk++) {
		gs_pen_puts(j->pen, disk ? "], \"disk_util\": [" : "], \"dram_util\": [");
		for (size_t i = 0; i < a->n_nodes; i++) {
			const struct session_export_client *c =
				frame->client ? &frame->client[i] : &none;

			put_comma(j, i);
			put_mean(j, disk ? &c->disk : &c->memory, 100, 100);
		}
	}
	gs_pen_puts(j->pen, "], \"client_available\": [");
	for (size_t i = 0; i < a->n_nodes; i++) {
		put_comma(j, i);
		gs_pen_puts(j->pen, frame->client && frame->client[i].n_samples ? "true" : "false");
	}
	gs_pen_puts(j->pen, "]");
}

static void put_extras(struct json *j, const struct session_export_frame *frame)
{
	gs_pen_puts(j->pen, ", \"extra_metrics\": [");
	for (size_t i = 0; i < j->f.n_gpus; i++) {
		size_t n = 0;

		gs_pen_puts(j->pen, i ? ", {" : "{");
		for (size_t k = 0; k < j->f.n_fields; k++) {
			const struct session_export_mean *m =
				value_of(j, frame, i, ARCHIVE_N_VALUES + k);

			if (!m || !m->n)
				continue;
			put_comma(j, n++);
			gs_pen_puts(j->pen, "\""); /* keys are our own: nothing to escape */
			gs_pen_puts(j->pen, gs_gpu_field_info(j->f.field[k])->key);
			gs_pen_puts(j->pen, "\": ");
			put_number(j->pen, m->sum / m->n);
		}
		gs_pen_puts(j->pen, "}");
	}
	gs_pen_puts(j->pen, "]");
}

static void put_pairs(struct json *j, const struct session_export_frame *frame)
{
	size_t n = 0;

	gs_pen_puts(j->pen, ", \"gpu_bandwidth\": [");
	for (size_t i = 0; i < frame->n_pairs; i++) {
		const struct session_export_pair *p = &j->f.pair[i];

		if (!frame->pair[i].n)
			continue;
		put_comma(j, n++);
		gs_pen_puts(j->pen, "{\"id1\": ");
		put_text(j->pen, j->f.gpu[p->gpu[0]].id);
		gs_pen_puts(j->pen, ", \"id2\": ");
		put_text(j->pen, j->f.gpu[p->gpu[1]].id);
		gs_pen_puts(j->pen, ", \"utilization\": ");
		put_mean(j, &frame->pair[i], 1e-9, 1.0 / 1024);
		gs_pen_puts(j->pen, "}");
	}
	gs_pen_puts(j->pen, "]");
}

static int write_frame(void *ctx, const struct session_export_frame *frame)
{
	struct json *j = ctx;
	const struct gs_store_session *s = j->a->o->session;
	char time[ARCHIVE_TIME_BYTES];

	gs_pen_printf(j->pen, "%s\n    {\"frame_id\": %lld, \"time\": \"%s\", \"gpu_id\": [",
		      j->any ? "," : "", (long long)frame->number + 1,
		      session_export_time(
			      time, j->a->from_wall_ns + frame->number * (int64_t)j->f.interval_ns,
			      j->gswarm));
	j->any = true;
	for (size_t i = 0; i < j->f.n_gpus; i++) {
		put_comma(j, i);
		put_text(j->pen, j->f.gpu[i].id);
	}
	gs_pen_puts(j->pen, "]");
	gpu_list(j, frame, "gpu_util", ARCHIVE_UTIL, 100, 1);
	gpu_list(j, frame, "gpu_memory", ARCHIVE_MEMORY, 100, 1);
	gs_pen_puts(j->pen, ", \"available\": [");
	for (size_t i = 0; i < j->f.n_gpus; i++) {
		put_comma(j, i);
		gs_pen_puts(j->pen, i < frame->n_gpus && frame->n_samples[i] ? "true" : "false");
	}
	gs_pen_puts(j->pen, "]");
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
	gs_pen_puts(j->pen, "}");
	gs_pen_yield(j->pen);
	return j->pen->r;
}

/* --- summaries --- */

static double percentile_of(const struct session_export_gpu *g, double share)
{
	uint64_t upto = 0;

	for (size_t i = 0; i < GS_ARRAY_LEN(g->hist); i++) {
		upto += g->hist[i];
		if (g->util.n && (double)upto >= share * (double)g->util.n)
			return (double)i;
	}
	return NAN;
}

static void put_value(struct gs_pen *pen, const char *k, double v)
{
	gs_pen_puts(pen, ", ");
	put_key(pen, k);
	put_number(pen, v);
}

static double mean_of(const struct session_export_mean *m)
{
	return m->n ? m->sum / m->n : NAN;
}

static double known_or_nan(const struct session_export_mean *m, double v)
{
	return m->n ? v : NAN;
}

static void put_device(struct json *j, const struct session_export_gpu *g)
{
	struct gs_pen *pen = j->pen;

	put_key(pen, g->id);
	gs_pen_puts(pen, "{\"avg_gpu_util\": ");
	put_mean(j, &g->util, 100, 1);
	gs_pen_puts(pen, ", \"avg_gpu_memory\": ");
	put_mean(j, &g->memory, 100, 1);
	if (j->gswarm) {
		gs_pen_puts(pen, "}");
		return;
	}
	put_value(pen, "p50_gpu_util", percentile_of(g, 0.5));
	put_value(pen, "p95_gpu_util", percentile_of(g, 0.95));
	put_value(pen, "max_gpu_util", known_or_nan(&g->util, g->util_max * 100));
	put_value(pen, "max_gpu_memory", known_or_nan(&g->memory, g->memory_max * 100));
	put_value(pen, "avg_dram_active", mean_of(&g->dram) * 100);
	put_value(pen, "avg_power_watts", mean_of(&g->power));
	put_value(pen, "max_power_watts", known_or_nan(&g->power, g->power_max));
	put_value(pen, "max_temperature_celsius",
		  known_or_nan(&g->temperature, g->temperature_max));
	put_value(pen, "energy_joules", gs_energy_joules(&g->energy));
	gs_pen_printf(pen, ", \"samples\": %llu, \"frames\": %llu, \"uuid\": ",
		      (unsigned long long)g->n_samples, (unsigned long long)g->n_frames);
	put_text(pen, g->uuid);
	gs_pen_puts(pen, "}");
}

static void put_client(struct json *j, size_t i)
{
	const struct session_export_node *n = &j->a->node[i];
	struct gs_pen *pen = j->pen;

	put_key(pen, n->client);
	gs_pen_puts(pen, "{\"avg_dram_util\": ");
	put_mean(j, &j->f.client[i].memory, 100, 100);
	gs_pen_puts(pen, ", \"avg_disk_util\": ");
	put_mean(j, &j->f.client[i].disk, 100, 100);
	if (!j->gswarm)
		gs_pen_printf(pen,
			      ", \"samples\": %llu, \"lost_samples\": %llu, \"missed_samples\": "
			      "%llu",
			      (unsigned long long)n->n_samples, (unsigned long long)n->lost_samples,
			      (unsigned long long)n->missed_samples);
	gs_pen_puts(pen, "}");
}

static void put_summaries(struct json *j)
{
	gs_pen_puts(j->pen, "  \"summary_by_device\": {");
	for (size_t i = 0; i < j->f.n_gpus; i++) {
		gs_pen_puts(j->pen, i ? ",\n    " : "\n    ");
		put_device(j, &j->f.gpu[i]);
		gs_pen_yield(j->pen);
	}
	gs_pen_puts(j->pen, "\n  },\n  \"summary_by_client\": {");
	for (size_t i = 0; i < j->a->n_nodes; i++) {
		gs_pen_puts(j->pen, i ? ",\n    " : "\n    ");
		put_client(j, i);
		gs_pen_yield(j->pen);
	}
	gs_pen_puts(j->pen, "\n  },\n");
}

/* --- marks and requests --- */

struct requests {
	struct json *j;
	struct gs_map seen; /* applications that are written already */
	const char *app;    /* the one that is written now; NULL: find the next */
	char name[256];
	bool any;
};

/* {"queue_time": 1, "processing_time": 2, "other": 3} as the values stand there; the first two keep
 * their names, all others go into other_times. */
static void put_request(struct gs_pen *pen, const char *values)
{
	static const char *const own[] = {"\"queue_time\":", "\"processing_time\":"};
	size_t n_other = 0;
	char rest[8192];
	size_t at = 0;

	gs_pen_puts(pen, "{");
	/* The store has it as a flat object of numbers without blanks, made by this program. */
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
		if (is_own)
			gs_pen_printf(pen, "%.*s, ", (int)(end - p), p);
		else if (at + (size_t)(end - p) + 2 < sizeof(rest))
			at += (size_t)snprintf(rest + at, sizeof(rest) - at, "%s%.*s",
					       n_other++ ? ", " : "", (int)(end - p), p);
		p = *end == ',' ? end + 1 : end;
	}
	rest[at] = 0;
	gs_pen_printf(pen, "\"other_times\": {%s}}", rest);
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
	if (strcmp(q->app, m->name) == 0) {
		gs_pen_puts(q->j->pen, q->any ? ",\n      " : "\n      ");
		q->any = true;
		put_request(q->j->pen, m->values);
		gs_pen_yield(q->j->pen);
	}
	return q->j->pen->r;
}

static int put_requests(struct json *j)
{
	struct requests q = {.j = j, .seen = GS_MAP_INIT(1u << 20)};
	const int64_t session = j->a->o->session->number;
	bool first = true;
	int r;

	gs_pen_puts(j->pen, "  \"request_time_info\": {");
	while ((r = gs_store_annotations(j->a->o->store, session, each_request, &q)) == 1) {
		gs_pen_puts(j->pen, first ? "\n    " : ",\n    ");
		put_key(j->pen, q.app);
		gs_pen_puts(j->pen, "[");
		q.any = first = false;
		r = gs_store_annotations(j->a->o->store, session, each_request, &q);
		if (r < 0)
			break;
		gs_pen_puts(j->pen, "\n    ]");
		q.app = NULL;
	}
	gs_map_fini(&q.seen);
	gs_pen_puts(j->pen, first ? "}" : "\n  }");
	return r;
}

static int each_mark(void *ctx, const struct gs_store_annotation *m)
{
	struct json *j = ctx;
	char time[ARCHIVE_TIME_BYTES];

	if (strcmp(m->kind, "request") == 0)
		return 0;
	gs_pen_printf(j->pen, "%s\n    {\"time\": \"%s\", \"name\": ", j->any ? "," : "",
		      session_export_time(time, m->wall_ns, j->gswarm));
	j->any = true;
	put_text(j->pen, m->name);
	gs_pen_printf(j->pen, ", \"values\": %s}", m->values);
	gs_pen_yield(j->pen);
	return j->pen->r;
}

/* --- the whole --- */

static void list_of(struct json *j, const char *k, const char *commas)
{
	char part[256];
	size_t n = 0;

	gs_pen_printf(j->pen, "  \"%s\": [", k);
	for (const char *p = commas; *p; n++) {
		size_t bytes = strcspn(p, ",");

		snprintf(part, sizeof(part), "%.*s", (int)bytes, p);
		put_comma(j, n);
		put_text(j->pen, part);
		p += bytes + (p[bytes] == ',');
	}
	gs_pen_puts(j->pen, "],\n");
}

static void put_head(struct json *j)
{
	const struct gs_store_session *s = j->a->o->session;
	char time[ARCHIVE_TIME_BYTES];

	gs_pen_puts(j->pen, "{\n  \"session_name\": ");
	put_text(j->pen, s->name);
	gs_pen_printf(j->pen, ",\n  \"session_id\": \"%s\",\n  \"start_time\": \"%s\",\n", s->id,
		      session_export_time(time, s->start_wall_ns, j->gswarm));
	if (s->end_wall_ns)
		gs_pen_printf(j->pen, "  \"end_time\": \"%s\",\n",
			      session_export_time(time, s->end_wall_ns, j->gswarm));
	else
		gs_pen_puts(j->pen, "  \"end_time\": null,\n");
	if (!j->gswarm) {
		gs_pen_printf(j->pen, "  \"state\": \"%s\",\n  \"interval_seconds\": ",
			      gs_store_session_state_name(s->state));
		put_number(j->pen, (double)j->f.interval_ns / 1e9);
		gs_pen_puts(j->pen, ",\n");
		list_of(j, "nodes", s->nodes);
		list_of(j, "metrics", s->metrics);
		list_of(j, "report_metrics", s->report_metrics);
		gs_pen_puts(j->pen,
			    "  \"units\": {\"gpu_util\": \"percent\", \"gpu_memory\": \"percent\", "
			    "\"dram_active\": \"percent\", \"dram_util\": \"percent\", "
			    "\"disk_util\": \"percent\", \"dram_bandwidth\": \"GB/s\", "
			    "\"dram_bandwidth_rx\": \"GB/s\", \"dram_bandwidth_tx\": \"GB/s\", "
			    "\"nvlink_rx\": \"GB/s\", \"nvlink_tx\": \"GB/s\", "
			    "\"gpu_bandwidth\": \"GB/s\"},\n");
	}
}

static void put_account(struct gs_pen *pen, const struct archive *a)
{
	gs_pen_printf(pen,
		      ",\n  \"account\": {\"samples\": %llu, \"frames\": %llu, "
		      "\"late_samples\": %llu, \"damaged_batches\": %llu, ",
		      (unsigned long long)a->stats.n_samples, (unsigned long long)a->stats.n_frames,
		      (unsigned long long)a->stats.n_late, (unsigned long long)a->stats.n_damaged);
	gs_pen_printf(pen,
		      "\"downsampled_samples\": %llu, \"downsampled_from\": %llu, "
		      "\"downsampled_interval_seconds\": %.9g}",
		      (unsigned long long)a->stats.n_coarse,
		      (unsigned long long)a->stats.n_coarse_of, (double)a->stats.coarse_ns / 1e9);
}

int session_export_json(struct archive *a, struct gs_pen *pen)
{
	struct json j = {.a = a, .pen = pen, .gswarm = a->o->format == GS_SESSION_EXPORT_GSWARM};
	struct session_export_sink sink = {.moment = session_export_frames_sample,
					   .passed = session_export_frames_passed,
					   .ctx = &j.f};
	int r;

	j.f.write = write_frame;
	j.f.ctx = &j;
	r = session_export_frames_open(&j.f, a);
	if (r == 0) {
		put_head(&j);
		gs_pen_puts(pen, "  \"frames\": [");
		r = session_export_read(a, &sink);
	}
	if (r == 0)
		r = session_export_frames_end(&j.f);
	if (r == 0) {
		gs_pen_puts(pen, "\n  ],\n");
		put_summaries(&j);
		r = put_requests(&j);
	}
	if (r == 0) {
		gs_pen_puts(pen, ",\n  \"marks\": [");
		j.any = false;
		r = gs_store_annotations(a->o->store, a->o->session->number, each_mark, &j);
		gs_pen_puts(pen, j.any ? "\n  ]" : "]");
	}
	if (r == 0 && !j.gswarm)
		put_account(pen, a);
	gs_pen_puts(pen, "\n}\n");
	session_export_frames_close(&j.f);
	return r;
}
