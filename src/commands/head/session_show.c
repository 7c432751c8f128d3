/* Sessions and a head as tables and as JSON. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/fmt.h"
#include "core/base/vec.h"
#include "commands/head/session.h"
#include "core/text/doc.h"
#include "core/text/text.h"

static const char *state_name(const Gpuscope__V1__Session *s)
{
	return gs_store_session_state_name((unsigned)s->state);
}

static const char *format_time(char out[32], int64_t wall_ns)
{
	time_t s = (time_t)(wall_ns / 1000000000);
	struct tm tm;

	localtime_r(&s, &tm);
	strftime(out, 32, "%Y-%m-%d %H:%M:%S", &tm);
	return out;
}

/* A text of a node or head in a column: what steers a terminal is made visible. */
static void put_cell(struct gs_pen *pen, const char *text, int width)
{
	size_t columns = gs_text_columns(text);

	gs_pen_check(pen, gs_text_line(&pen->buf, text));
	gs_pen_printf(pen, "%*s", columns < (size_t)width ? width - (int)columns : 0, "");
}

/* Of a column that has this text too. */
static int wider_of(int width, const char *text)
{
	size_t columns = gs_text_columns(text);

	return columns > (size_t)width ? (int)columns : width;
}

/* What a session asks for beside the usual values. */
static const char *name_extras(const Gpuscope__V1__Session *s)
{
	if (s->bandwidth)
		return s->nvlink ? "bandwidth, NVLink" : "bandwidth";
	return s->nvlink ? "NVLink" : "-";
}

static void put_table(struct gs_pen *pen, Gpuscope__V1__Session *const *s, size_t n)
{
	int width = 4;

	for (size_t i = 0; i < n; i++)
		width = wider_of(width, s[i]->name);
	if (!n) {
		gs_pen_puts(pen, "no sessions\n");
		return;
	}
	gs_pen_printf(pen, "%-*s  %-11s  %-19s  %9s  %8s  %10s  %5s  %6s  WITH\n", width, "NAME",
		      "STATE", "STARTED", "DURATION", "INTERVAL", "SAMPLES", "NODES", "LOST");
	for (size_t i = 0; i < n; i++) {
		int64_t end = s[i]->end_wall_ns ? s[i]->end_wall_ns : (int64_t)gs_clock_wall_ns();
		char began[32], lasted[GS_FMT_BYTES], every[GS_FMT_BYTES], samples[GS_FMT_BYTES];

		put_cell(pen, s[i]->name, width);
		gs_pen_printf(pen, "  %-11s  %-19s  %9s  %8s  %10s  %5llu  %6llu  %s\n",
			      state_name(s[i]), format_time(began, s[i]->start_wall_ns),
			      gs_fmt_ns(lasted, end > s[i]->start_wall_ns
							? (uint64_t)(end - s[i]->start_wall_ns)
							: 0),
			      gs_fmt_ns(every, s[i]->interval_ns),
			      gs_fmt_count(samples, s[i]->sample_count),
			      (unsigned long long)s[i]->node_count,
			      (unsigned long long)s[i]->lost_samples, name_extras(s[i]));
	}
}

static void put_list(struct gs_doc *d, const char *key, char *const *part, size_t n)
{
	gs_doc_begin_list(d, key, n);
	for (size_t i = 0; i < n; i++)
		gs_doc_put_text(d, NULL, part[i]);
	gs_doc_end(d);
}

static void doc_sessions(struct gs_doc *d, const char *key, Gpuscope__V1__Session *const *s,
			 size_t n)
{
	gs_doc_begin_list(d, key, n);
	for (size_t i = 0; i < n; i++) {
		gs_doc_begin_map(d, NULL);
		gs_doc_put_text(d, "id", s[i]->id);
		gs_doc_put_text(d, "name", s[i]->name);
		gs_doc_put_text(d, "state", state_name(s[i]));
		gs_doc_put_time(d, "start_time", s[i]->start_wall_ns);
		if (s[i]->end_wall_ns)
			gs_doc_put_time(d, "end_time", s[i]->end_wall_ns);
		else
			gs_doc_put_null(d, "end_time");
		gs_doc_put_double(d, "interval_seconds", (double)s[i]->interval_ns / 1e9);
		gs_doc_put_bool(d, "bandwidth", s[i]->bandwidth);
		gs_doc_put_bool(d, "nvlink", s[i]->nvlink);
		put_list(d, "metrics", s[i]->metrics, s[i]->n_metrics);
		put_list(d, "nodes", s[i]->nodes, s[i]->n_nodes);
		put_list(d, "report_metrics", s[i]->report_metrics, s[i]->n_report_metrics);
		gs_doc_put_u64(d, "samples", s[i]->sample_count);
		gs_doc_put_u64(d, "nodes_delivering", s[i]->node_count);
		gs_doc_put_u64(d, "lost_samples", s[i]->lost_samples);
		gs_doc_put_u64(d, "annotations", s[i]->annotation_count);
		gs_doc_end(d);
	}
	gs_doc_end(d);
}

int session_show(Gpuscope__V1__Session *const *sessions, size_t n, bool json)
{
	struct gs_pen pen;
	struct gs_doc d = {.ops = &gs_doc_json, .pen = &pen};

	gs_pen_open(&pen, stdout);
	if (json) {
		gs_doc_begin_map(&d, NULL);
		gs_doc_put_version(&d);
		doc_sessions(&d, "sessions", sessions, n);
		gs_doc_end(&d);
		gs_pen_puts(&pen, "\n");
	} else {
		put_table(&pen, sessions, n);
	}
	return gs_pen_close(&pen);
}

/* --- a head --- */

static void nodes_table(struct gs_pen *pen, const Gpuscope__V1__HeadStatus *h)
{
	int name = 4, address = 7;

	for (size_t i = 0; i < h->n_nodes; i++) {
		name = wider_of(name, h->nodes[i]->name);
		address = wider_of(address, h->nodes[i]->address);
	}
	if (!h->n_nodes)
		gs_pen_puts(pen, "no node has sent data yet\n");
	else
		gs_pen_printf(pen, "%-*s  %-*s  %-9s  %4s  %10s  %6s  %s\n", name, "NODE", address,
			      "ADDRESS", "STATE", "GPUS", "SAMPLES", "LOST", "CLOCK AHEAD");
	for (size_t i = 0; i < h->n_nodes; i++) {
		const Gpuscope__V1__NodeInfo *n = h->nodes[i];
		char samples[GS_FMT_BYTES];

		put_cell(pen, n->name, name);
		gs_pen_puts(pen, "  ");
		put_cell(pen, n->address, address);
		gs_pen_printf(pen, "  %-9s  %4u  %10s  %6llu  %+.3f s\n",
			      n->healthy     ? "healthy"
			      : n->connected ? "silent"
					     : "away",
			      n->gpu_count, gs_fmt_count(samples, n->sample_count),
			      (unsigned long long)n->lost_samples,
			      n->clock_offset_s ? -n->clock_offset_s : 0);
	}
}

static void doc_nodes(struct gs_doc *d, const Gpuscope__V1__HeadStatus *h)
{
	gs_doc_begin_list(d, "nodes", h->n_nodes);
	for (size_t i = 0; i < h->n_nodes; i++) {
		const Gpuscope__V1__NodeInfo *n = h->nodes[i];

		gs_doc_begin_flat(d, NULL);
		gs_doc_put_text(d, "id", n->id);
		gs_doc_put_text(d, "name", n->name);
		gs_doc_put_text(d, "hostname", n->hostname);
		gs_doc_put_text(d, "address", n->address);
		gs_doc_put_bool(d, "connected", n->connected);
		gs_doc_put_bool(d, "healthy", n->healthy);
		gs_doc_put_u64(d, "gpus", n->gpu_count);
		if (n->last_wall_ns)
			gs_doc_put_time(d, "last_sample", n->last_wall_ns);
		else
			gs_doc_put_null(d, "last_sample");
		gs_doc_put_u64(d, "samples", n->sample_count);
		gs_doc_put_u64(d, "lost_samples", n->lost_samples);
		gs_doc_put_double(d, "clock_offset_seconds", n->clock_offset_s);
		gs_doc_put_text(d, "version", n->version);
		gs_doc_end(d);
	}
	gs_doc_end(d);
}

int session_show_head(const Gpuscope__V1__HeadStatus *h, bool json)
{
	char every[GS_FMT_BYTES], stored[GS_FMT_BYTES];
	struct gs_pen pen;
	struct gs_doc d = {.ops = &gs_doc_json, .pen = &pen};

	gs_pen_open(&pen, stdout);
	if (json) {
		gs_doc_begin_map(&d, NULL);
		gs_doc_put_version(&d);
		gs_doc_put_text(&d, "head_version", h->version);
		gs_doc_put_double(&d, "interval_seconds", (double)h->interval_ns / 1e9);
		gs_doc_put_bool(&d, "bandwidth", h->bandwidth);
		gs_doc_put_bool(&d, "nvlink", h->nvlink);
		gs_doc_put_u64(&d, "stored_bytes", h->stored_bytes);
		gs_doc_put_u64(&d, "waiting_batches", h->waiting_batches);
		gs_doc_put_text(&d, "trouble", h->trouble);
		gs_doc_put_u64(&d, "downsampled_batches_before", h->downsampled_batches_before);
		gs_doc_put_u64(&d, "downsampled_batches_after", h->downsampled_batches_after);
		gs_doc_put_u64(&d, "downsampled_bytes_before", h->downsampled_bytes_before);
		gs_doc_put_u64(&d, "downsampled_bytes_after", h->downsampled_bytes_after);
		doc_nodes(&d, h);
		doc_sessions(&d, "active", h->active, h->n_active);
		gs_doc_end(&d);
		gs_pen_puts(&pen, "\n");
		return gs_pen_close(&pen);
	}
	gs_pen_printf(
		&pen,
		"head %s: %s stored; without a session: a sample every %s, bandwidth %s, NVLink %s\n",
		h->version, gs_fmt_bytes(stored, h->stored_bytes), gs_fmt_ns(every, h->interval_ns),
		h->bandwidth ? "on" : "off", h->nvlink ? "on" : "off");
	if (h->downsampled_batches_before)
		gs_pen_printf(&pen, "downsampled since the start: %llu batches to %llu, %s saved\n",
			      (unsigned long long)h->downsampled_batches_before,
			      (unsigned long long)h->downsampled_batches_after,
			      gs_fmt_bytes(stored,
					   h->downsampled_bytes_before > h->downsampled_bytes_after
						   ? h->downsampled_bytes_before -
							     h->downsampled_bytes_after
						   : 0));
	if (h->trouble[0])
		gs_pen_printf(&pen, "TROUBLE: %s\n", h->trouble);
	gs_pen_puts(&pen, "\n");
	nodes_table(&pen, h);
	gs_pen_puts(&pen, "\nactive sessions:\n");
	put_table(&pen, h->active, h->n_active);
	return gs_pen_close(&pen);
}

/* --- a store without a head --- */

struct rows {
	struct gs_store *store;
	Gpuscope__V1__Session **session;
	size_t n;
};

static int add_session(void *ctx, const struct gs_store_session *s)
{
	struct rows *l = ctx;
	struct gs_store_tally tally = {0};
	Gpuscope__V1__Session *m;
	int r;

	if (!gs_vec_reserve_next(&l->session, l->n))
		return -ENOMEM;
	m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	gpuscope__v1__session__init(m);
	l->session[l->n++] = m;
	m->id = strdup(s->id);
	m->name = strdup(s->name);
	/* No head: what was active was interrupted. */
	m->state = s->state == GS_STORE_SESSION_ACTIVE
			   ? GPUSCOPE__V1__SESSION_STATE__SESSION_STATE_RECOVERABLE
			   : (Gpuscope__V1__SessionState)s->state;
	m->start_wall_ns = s->start_wall_ns;
	m->end_wall_ns = s->end_wall_ns;
	m->interval_ns = s->interval_ns;
	m->bandwidth = s->bandwidth;
	m->nvlink = s->nvlink;
	m->annotation_count = s->n_annotations;
	r = gs_store_session_tally(l->store, s, &tally);
	m->sample_count = tally.n_samples;
	m->node_count = tally.n_nodes;
	m->lost_samples = tally.lost_samples + tally.missed_samples;
	return r;
}

int session_show_store(const char *dir, unsigned state, bool json, struct gs_err *err)
{
	struct rows l = {0};
	int r = gs_store_open(dir, GS_STORE_READ, &l.store, err);

	if (r < 0)
		return r;
	r = gs_store_sessions(l.store, 0, state, add_session, &l);
	if (r < 0)
		(void)gs_err_set(err, r, "cannot read %s: %s", dir, gs_store_trouble(l.store));
	else
		r = session_show(l.session, l.n, json);
	for (size_t i = 0; i < l.n; i++) {
		free(l.session[i]->id);
		free(l.session[i]->name);
		free(l.session[i]);
	}
	free(l.session);
	gs_store_close(&l.store);
	return r;
}
