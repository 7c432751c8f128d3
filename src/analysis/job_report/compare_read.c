/* Reports read back: JSON of gpuscope and of ebpf-hpc-monitor, whose classification is a text or an
 * object by version and whose analysis stands beside it in files of its analyser. */
#define _XOPEN_SOURCE 700
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/mem.h"
#include "core/base/vec.h"
#include "analysis/job_report/compare_int.h"

#define FILE_MAX (64u << 20)

#define NUMBER_MAX  1e18 /* of whatever is counted */
#define PERCENT_MAX 1e6  /* the sum over many processors may pass 100 */

/* What no measuring says is not known: it would make every table and mean useless. */
static double read_bounded(const json_t *object, const char *key, double most)
{
	const json_t *v = json_object_get(object, key);
	double d = json_is_number(v) ? json_number_value(v) : NAN;

	return d >= 0 && d <= most ? d : NAN;
}

static double read_number(const json_t *object, const char *key)
{
	return read_bounded(object, key, NUMBER_MAX);
}

static double read_percent(const json_t *object, const char *key)
{
	return read_bounded(object, key, PERCENT_MAX);
}

static void read_text(const json_t *object, const char *key, char *out, size_t bytes)
{
	const json_t *v = json_object_get(object, key);

	out[0] = '\0';
	if (json_is_string(v))
		snprintf(out, bytes, "%s", json_string_value(v));
	else if (json_is_integer(v))
		snprintf(out, bytes, "%lld", (long long)json_integer_value(v));
}

/* "2024-01-15T10:30:00Z", also with fractions or without a zone; or seconds. */
static double time_of(const json_t *object, const char *key)
{
	const json_t *v = json_object_get(object, key);
	struct tm tm = {0};

	if (json_is_number(v))
		return json_number_value(v);
	if (!json_is_string(v) || (!strptime(json_string_value(v), "%Y-%m-%dT%H:%M:%S", &tm) &&
				   !strptime(json_string_value(v), "%Y-%m-%d %H:%M:%S", &tm)))
		return NAN;
	return (double)timegm(&tm);
}

static double first_of(double a, double b)
{
	return isnan(a) ? b : a;
}

static void read_class(const json_t *job, struct gs_job_report_row *row)
{
	const json_t *c = json_object_get(job, "classification");
	const json_t *analysis = json_object_get(job, "analysis");

	row->v[GS_JOB_COMPARED_SCORE] = NAN;
	if (json_is_string(c)) {
		snprintf(row->job_class, sizeof(row->job_class), "%s", json_string_value(c));
	} else if (json_is_object(c)) {
		read_text(c, "type", row->job_class, sizeof(row->job_class));
		row->v[GS_JOB_COMPARED_SCORE] = read_bounded(c, "efficiency_score", 100);
	}
	if (json_is_object(analysis)) {
		if (!row->job_class[0])
			read_text(analysis, "classification", row->job_class,
				  sizeof(row->job_class));
		row->v[GS_JOB_COMPARED_SCORE] =
			first_of(row->v[GS_JOB_COMPARED_SCORE],
				 read_bounded(analysis, "efficiency_score", 100));
	}
	if (!row->job_class[0])
		snprintf(row->job_class, sizeof(row->job_class), "Unknown");
}

static void read_job(const json_t *job, double start_s, double session_s,
		     struct gs_job_report_row *row)
{
	const json_t *m = json_object_get(job, "metrics"), *f = json_object_get(job, "figures");
	double seconds = first_of(read_number(job, "duration_seconds"), session_s);

	read_text(job, "job_id", row->id, sizeof(row->id));
	read_text(job, "user", row->user, sizeof(row->user));
	read_text(job, "job_name", row->name, sizeof(row->name));
	read_class(job, row);
	row->v[GS_JOB_COMPARED_CPU] = read_percent(m, "cpu_percent");
	row->v[GS_JOB_COMPARED_IO] = read_percent(m, "io_percent");
	row->v[GS_JOB_COMPARED_WAIT] = read_percent(m, "wait_percent");
	row->v[GS_JOB_COMPARED_NET] = read_percent(m, "net_percent");
	row->v[GS_JOB_COMPARED_MEMORY] =
		first_of(read_percent(m, "memory_usage"), read_percent(f, "memory_usage"));
	row->v[GS_JOB_COMPARED_GPU] = read_percent(f, "gpu_percent");
	row->v[GS_JOB_COMPARED_RANKS] = read_percent(f, "rank_imbalance_percent");
	row->v[GS_JOB_COMPARED_DURATION] = seconds;
	/* A total says nothing without the time that it took. */
	row->v[GS_JOB_COMPARED_SWITCHES] =
		seconds > 0 ? read_number(m, "context_switches") / seconds : NAN;
	row->v[GS_JOB_COMPARED_SYSCALLS] =
		seconds > 0 ? read_number(m, "total_syscalls") / seconds : NAN;
	row->cores = read_number(job, "cpus");
	row->start_s = start_s;
}

struct gs_job_report_row *gs_job_report_new_row(struct gs_job_report_comparison *c)
{
	if (!gs_vec_reserve(&c->rows, &c->capacity, c->n_rows + 1))
		return NULL;
	memset(&c->rows[c->n_rows], 0, sizeof(*c->rows));
	return &c->rows[c->n_rows++];
}

static int read_report(struct gs_job_report_comparison *c, const char *name, const json_t *root,
		       struct gs_err *err)
{
	const json_t *session = json_object_get(root, "monitoring_session");
	const json_t *jobs = json_object_get(root, "jobs"), *job;
	size_t i;

	if (!json_is_array(jobs))
		return gs_err_set(
			err, -EINVAL,
			"%s: not a job report: it has no list \"jobs\" (`gpuscope job -o FILE.json` writes one)",
			name);
	json_array_foreach(jobs, i, job)
	{
		struct gs_job_report_row *row;

		if (!json_is_object(job))
			return gs_err_set(err, -EINVAL,
					  "%s: entry %zu of \"jobs\" is not an object", name,
					  i + 1);
		if (c->n_rows >= GS_JOB_COMPARE_MAX)
			return gs_err_set(err, -E2BIG, "%s: more than %d jobs in all reports", name,
					  GS_JOB_COMPARE_MAX);
		row = gs_job_report_new_row(c);
		if (!row)
			return -ENOMEM;
		snprintf(row->file, sizeof(row->file), "%s", name);
		read_job(job, time_of(session, "start_time"),
			 read_number(session, "duration_seconds"), row);
	}
	return 0;
}

int gs_job_report_compare_text(struct gs_job_report_comparison *c, const char *name,
			       const char *content, size_t bytes, struct gs_err *err)
{
	json_error_t why;
	json_t *root = json_loadb(content ? content : "", bytes, 0, &why);
	int r;

	if (!root)
		return gs_err_set(err, -EINVAL, "%s:%d:%d: not JSON: %s", name, why.line,
				  why.column, why.text);
	r = read_report(c, name, root, err);
	json_decref(root);
	return r;
}

int gs_job_report_compare_file(struct gs_job_report_comparison *c, const char *path,
			       struct gs_err *err)
{
	GS_FCLOSE FILE *f = fopen(path, "re");
	GS_FREE char *content = NULL;
	size_t n = 0, room = 65536, got = 1;

	if (!f)
		return gs_err_set(err, -errno, "cannot read %s: %s", path, strerror(errno));
	while (got) {
		char *more = realloc(content, room);

		if (!more)
			return -ENOMEM;
		content = more;
		got = fread(content + n, 1, room - n, f);
		n += got;
		if (n > FILE_MAX)
			return gs_err_set(err, -EFBIG, "%s is larger than 64 MiB", path);
		room *= n == room ? 2 : 1;
	}
	if (ferror(f))
		return gs_err_set(err, -EIO, "cannot read %s: %s", path, strerror(errno));
	return gs_job_report_compare_text(c, path, content, n, err);
}
