/* Reports: their formats, and what several of them need. */
#include "analysis/job_report/report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/mem.h"
#include "analysis/job_report/report_int.h"
#include "model/node/job_tables.h"

static const char *const format_names[] = {
	[GS_JOB_TABLE] = "table", [GS_JOB_JSON] = "json", [GS_JOB_CSV] = "csv",
	[GS_JOB_YAML] = "yaml",   [GS_JOB_HTML] = "html",
};

int gs_job_report_format_parse(const char *name, enum gs_job_report_format *ret)
{
	for (size_t i = 0; i < GS_ARRAY_LEN(format_names); i++)
		if (strcasecmp(name, format_names[i]) == 0) {
			*ret = (enum gs_job_report_format)i;
			return 0;
		}
	return -EINVAL;
}

int gs_job_report_format_of_path(const char *path, enum gs_job_report_format *ret)
{
	const char *dot = strrchr(path, '.');

	if (!dot || strchr(dot, '/'))
		return -EINVAL;
	if (strcasecmp(dot, ".yml") == 0) {
		*ret = GS_JOB_YAML;
		return 0;
	}
	if (strcasecmp(dot, ".txt") == 0) {
		*ret = GS_JOB_TABLE;
		return 0;
	}
	if (strcasecmp(dot, ".htm") == 0) {
		*ret = GS_JOB_HTML;
		return 0;
	}
	return strcasecmp(dot, ".table") == 0 ? -EINVAL : gs_job_report_format_parse(dot + 1, ret);
}

void gs_job_report_session_fini(struct gs_job_report_session *s)
{
	for (size_t i = 0; i < s->n_jobs; i++) {
		free(s->jobs[i].pids);
		free(s->jobs[i].calls);
		gs_job_tables_fini(&s->jobs[i].tables);
		gs_job_mpi_fini(&s->jobs[i].mpi);
		free(s->jobs[i].ranks);
	}
	free(s->jobs);
	s->jobs = NULL;
	s->n_jobs = 0;
}

const char *gs_job_report_family_key(unsigned family)
{
	static const char *const keys[GS_JOB_KNOWS_COUNT] = {
#define KEY(id, key) [GS_JOB_KNOWS_##id] = key,
		GS_JOB_FAMILIES(KEY)
#undef KEY
	};

	return family < GS_JOB_KNOWS_COUNT ? keys[family] : "";
}

bool gs_job_report_knows(const struct gs_job_report *job, enum gs_job_family family)
{
	return job->usage.known >> family & 1;
}

static int64_t calls_among(const struct gs_job_report *job, const char *const *names, size_t n)
{
	int64_t sum = 0;

	if (!gs_job_report_knows(job, GS_JOB_KNOWS_SYSCALLS) || job->calls_partial)
		return -1;
	for (size_t i = 0; i < job->n_calls; i++)
		for (size_t k = 0; k < n; k++)
			if (strcmp(job->calls[i].name, names[k]) == 0)
				sum += (int64_t)job->calls[i].calls;
	return sum;
}

int64_t gs_job_report_io_calls(const struct gs_job_report *job)
{
	static const char *const names[] = {
		"read",         "write",           "open",
		"openat",       "openat2",         "close",
		"stat",         "fstat",           "lstat",
		"newfstatat",   "statx",           "lseek",
		"readv",        "writev",          "pread64",
		"pwrite64",     "preadv",          "pwritev",
		"preadv2",      "pwritev2",        "fsync",
		"fdatasync",    "sync_file_range", "fallocate",
		"ftruncate",    "truncate",        "getdents64",
		"unlink",       "unlinkat",        "rename",
		"renameat2",    "sendfile",        "copy_file_range",
		"splice",       "io_uring_enter",  "io_submit",
		"io_getevents", "access",          "faccessat",
		"faccessat2",
	};

	return calls_among(job, names, GS_ARRAY_LEN(names));
}

int64_t gs_job_report_net_calls(const struct gs_job_report *job)
{
	static const char *const names[] = {
		"socket",  "connect",     "accept",      "accept4",    "sendto",     "recvfrom",
		"sendmsg", "recvmsg",     "sendmmsg",    "recvmmsg",   "shutdown",   "bind",
		"listen",  "getsockname", "getpeername", "setsockopt", "getsockopt", "socketpair",
	};

	return calls_among(job, names, GS_ARRAY_LEN(names));
}

int gs_job_report_write(FILE *out, const struct gs_job_report_session *session,
			const struct gs_job_report_style *style)
{
	struct gs_pen pen;

	gs_pen_open(&pen, out);
	switch (style->format) {
	case GS_JOB_JSON:
	case GS_JOB_YAML:
		gs_job_report_put_doc(&pen, session, style);
		break;
	case GS_JOB_CSV:
		gs_job_report_put_csv(&pen, session, style);
		break;
	case GS_JOB_HTML:
		gs_job_report_begin_page(&pen);
		gs_job_report_put_doc(&pen, session, style);
		gs_job_report_end_page(&pen);
		break;
	default:
		gs_job_report_put_table(&pen, session, style);
		break;
	}
	return gs_pen_close(&pen);
}

int gs_job_report_live_write(FILE *out, const struct gs_job_report_session *session,
			     const struct gs_job_report_style *style)
{
	struct gs_pen pen;

	gs_pen_open(&pen, out);
	gs_job_report_put_live(&pen, session, style);
	return gs_pen_close(&pen);
}
