/* Reports of jobs as they are sent to a head, and read there. */
#include "analysis/job_report/delivery.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "core/base/mem.h"
#include "analysis/job_report/compare.h"
#include "analysis/job_report/report_int.h"

#define TRIMMED_ROWS  64 /* of each table, when a report is too long */
#define TRIMMED_PIDS  1000
#define TRIMMED_RANKS 1024
#define TRIMMED_MPI   64 /* ranks; their peers: report_mpi.c */

static const char *const states[] = {
	[GS_JOB_DELIVERY_RUNNING] = "running",
	[GS_JOB_DELIVERY_FINISHED] = "finished",
	[GS_JOB_DELIVERY_PARTIAL] = "partial",
};

const char *gs_job_report_delivery_state_name(unsigned state)
{
	return state < GS_ARRAY_LEN(states) && states[state] ? states[state] : "unknown";
}

int gs_job_report_delivery_name(char out[65])
{
	unsigned char random[16];

	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return -errno;
	for (size_t i = 0; i < sizeof(random); i++)
		snprintf(out + 2 * i, 3, "%02x", random[i]);
	return 0;
}

/* --- writing --- */

void gs_job_report_put_delivery(struct gs_doc *doc, const struct gs_job_report_delivery *d,
				bool trimmed)
{
	gs_doc_begin_map(doc, "delivery");
	gs_doc_put_text(doc, "report", d->report);
	gs_doc_put_text(doc, "state", gs_job_report_delivery_state_name(d->state));
	gs_doc_put_text(doc, "source", d->source);
	gs_doc_put_text(doc, "kind", d->kind);
	gs_doc_put_i64_if(doc, "begin_wall_ns", d->begin_wall_ns, true);
	gs_doc_put_i64_if(doc, "end_wall_ns", d->end_wall_ns, true);
	gs_doc_put_bool(doc, "trimmed", trimmed);
	gs_doc_end(doc);
}

static int write_one(struct gs_buf *out, const struct gs_job_report_session *session,
		     const struct gs_job_report_delivery *delivery, bool trimmed)
{
	const struct gs_job_report_style style = {.format = GS_JOB_JSON,
						  .syscalls = true,
						  .advice = true,
						  .precision = -1,
						  .delivery = delivery,
						  .trimmed = trimmed};
	GS_FREE char *text = NULL;
	size_t bytes = 0;
	FILE *f = open_memstream(&text, &bytes);
	int r;

	if (!f)
		return -errno;
	r = gs_job_report_write(f, session, &style);
	if (fclose(f) != 0 && r == 0)
		r = -ENOMEM;
	if (r == 0 && bytes > GS_JOB_DELIVERY_MAX - 8)
		return -EFBIG;
	gs_buf_reset(out);
	if (r == 0)
		r = gs_buf_put(out, text, bytes);
	if (r == 0 && bytes % 8)
		r = gs_buf_put(out, "       ", 8 - bytes % 8);
	return r;
}

static void cut_count(size_t *n, size_t most)
{
	if (*n > most)
		*n = most;
}

int gs_job_report_delivery_write(struct gs_buf *out, const struct gs_job_report_session *session,
				 size_t job, const struct gs_job_report_delivery *delivery)
{
	struct gs_job_report_session one = *session;
	struct gs_job_report report = session->jobs[job]; /* its tables stay the session's */
	int r;

	one.jobs = &report;
	one.n_jobs = 1;
	r = write_one(out, &one, delivery, false);
	if (r != -EFBIG)
		return r;
	cut_count(&report.n_pids, TRIMMED_PIDS);
	cut_count(&report.n_ranks, TRIMMED_RANKS);
	cut_count(&report.tables.n_disks, TRIMMED_ROWS);
	cut_count(&report.tables.n_mounts, TRIMMED_ROWS);
	cut_count(&report.tables.n_peers, TRIMMED_ROWS);
	cut_count(&report.mpi.n_ranks, TRIMMED_MPI);
	return write_one(out, &one, delivery, true);
}

/* --- reading --- */

static int refuse_delivery(struct gs_err *err, const char *what)
{
	return gs_err_set(err, -EINVAL, "not a job report: %s", what);
}

/* Without the part of a letter (UTF-8) that a cut left at the end. */
static size_t whole_letters(const char *text, size_t n)
{
	size_t at = n, length;

	while (at > 0 && n - at < 4 && ((unsigned char)text[at - 1] & 0xc0) == 0x80)
		at--;
	if (!at)
		return n;
	length = (unsigned char)text[at - 1] >= 0xf0   ? 4
		 : (unsigned char)text[at - 1] >= 0xe0 ? 3
		 : (unsigned char)text[at - 1] >= 0xc0 ? 2
						       : 1;
	return at - 1 + length > n ? at - 1 : n;
}

/* Shown on terminals and pages: nothing in it steers them. */
static void take_text(char *out, size_t bytes, const char *text)
{
	size_t n = whole_letters(text, strnlen(text, bytes - 1));

	for (size_t i = 0; i < n; i++)
		out[i] = (unsigned char)text[i] < 0x20 || text[i] == 0x7f ? '?' : text[i];
	out[n] = '\0';
}

static bool name_of(const json_t *map, const char *key, const char *also, char *out, size_t bytes)
{
	const char *text = json_string_value(json_object_get(map, key));

	if (!text || !text[0] || strlen(text) >= bytes)
		return false;
	for (const char *p = text; *p; p++)
		if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
		      (*p >= '0' && *p <= '9') || strchr(also, *p)))
			return false;
	snprintf(out, bytes, "%s", text);
	return true;
}

static unsigned state_of(const json_t *map)
{
	const char *text = json_string_value(json_object_get(map, "state"));

	for (unsigned i = 0; text && i < GS_ARRAY_LEN(states); i++)
		if (states[i] && strcmp(states[i], text) == 0)
			return i;
	return 0;
}

static int read_delivery(struct gs_job_report_delivery *d, const json_t *map, struct gs_err *err)
{
	const json_t *begin = json_object_get(map, "begin_wall_ns");
	const json_t *end = json_object_get(map, "end_wall_ns");

	if (!name_of(map, "report", "._-", d->report, sizeof(d->report)))
		return refuse_delivery(err, "its name is 1 to 64 letters, digits, '.', '_', '-'");
	if (!name_of(map, "source", "", d->source, sizeof(d->source)) ||
	    !name_of(map, "kind", "", d->kind, sizeof(d->kind)))
		return refuse_delivery(err, "source and kind are 1 to 15 letters");
	d->state = state_of(map);
	if (!d->state)
		return refuse_delivery(err, "its state is running, finished or partial");
	d->begin_wall_ns = json_integer_value(begin);
	d->end_wall_ns = json_integer_value(end);
	/* Room to set them right by a clock's offset. */
	if (!json_is_integer(begin) || !json_is_integer(end) || d->begin_wall_ns <= 0 ||
	    d->end_wall_ns < d->begin_wall_ns || d->end_wall_ns > INT64_MAX / 2)
		return refuse_delivery(err, "it lacks the begin or end of its measurement");
	return 0;
}

/* As comparisons read it: what they cannot use is of no use here. */
static int read_row(struct gs_job_report_delivery *d, const char *text, size_t bytes,
		    struct gs_err *err)
{
	struct gs_job_report_comparison c = {0};
	int r = gs_job_report_compare_text(&c, "report", text, bytes, err);

	if (r == 0 && (c.n_rows != 1 || !c.rows[0].id[0]))
		r = refuse_delivery(err, "it does not describe one job with an id");
	if (r == 0) {
		const struct gs_job_report_row *row = &c.rows[0];

		take_text(d->job, sizeof(d->job), row->id);
		take_text(d->user, sizeof(d->user), row->user);
		take_text(d->name, sizeof(d->name), row->name);
		take_text(d->job_class, sizeof(d->job_class), row->job_class);
		d->score = row->v[GS_JOB_COMPARED_SCORE];
	}
	gs_job_report_comparison_fini(&c);
	return r;
}

int gs_job_report_delivery_read(struct gs_job_report_delivery *ret_delivery, const char *text,
				size_t bytes, struct gs_err *err)
{
	struct gs_job_report_delivery d = {.score = NAN};
	json_error_t why;
	json_t *root;
	int r;

	if (bytes > GS_JOB_DELIVERY_MAX)
		return refuse_delivery(err, "it is larger than 1 MiB");
	root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &why);
	if (!root)
		return gs_err_set(err, -EINVAL, "not a job report: not JSON: %s", why.text);
	r = read_delivery(&d, json_object_get(root, "delivery"), err);
	json_decref(root);
	if (r == 0)
		r = read_row(&d, text, bytes, err);
	if (r == 0)
		*ret_delivery = d;
	return r;
}
