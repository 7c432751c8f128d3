/* Names, and the way to each format. */
#include "server/session_export/session_export.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "server/session_export/session_export_int.h"

static const char *const names[] = {"json", "gswarm", "csv", "gst"};

int gs_session_export_format(const char *name)
{
	for (size_t i = 0; i < GS_ARRAY_LEN(names); i++)
		if (strcmp(name, names[i]) == 0)
			return (int)i;
	return -1;
}

const char *gs_session_export_suffix(enum gs_session_export_format format)
{
	return format == GS_SESSION_EXPORT_CSV   ? ".csv"
	       : format == GS_SESSION_EXPORT_GST ? ".gst"
						 : ".json";
}

double session_export_age_s(const struct gs_gpu_sample *s, const unsigned *field, size_t n_fields)
{
	double oldest = NAN;

	for (size_t i = 0; i < n_fields; i++) {
		double age = (double)gs_gpu_age_ns(s, field[i]) / 1e9;

		if (gs_gpu_has(s, field[i]) && s->part_ns[gs_gpu_part_of(field[i])] &&
		    !(age <= oldest))
			oldest = age;
	}
	return oldest;
}

bool session_export_memory(const struct gs_gpu_sample *s, double *ret_ratio)
{
	*ret_ratio = gs_gpu_memory_ratio(s);
	return !isnan(*ret_ratio);
}

void session_export_gpu_name(const struct session_export_node *node, const struct gs_gpu_info *info,
			     char *out, size_t bytes)
{
	if (info->is_mig)
		/* NVML's name of it has its profile as a rule. */
		snprintf(out, bytes, "%s:%u:%s%s%s/%d", node->client, info->index, info->name,
			 strstr(info->name, " MIG ") ? "" : " MIG ",
			 strstr(info->name, " MIG ") ? "" : info->mig_profile, info->gpu_instance);
	else
		snprintf(out, bytes, "%s:%u:%s", node->client, info->index, info->name);
}

size_t session_export_fields(const struct gs_store_session *s, unsigned field[GS_GPU_FIELD_COUNT])
{
	size_t n = 0;

	for (const char *p = s->metrics; *p && n < GS_GPU_FIELD_COUNT;) {
		char key[64];
		size_t bytes = strcspn(p, ",");
		int f;

		snprintf(key, sizeof(key), "%.*s", (int)bytes, p);
		f = gs_gpu_field_by_key(key);
		if (f >= 0)
			field[n++] = (unsigned)f;
		p += bytes + (p[bytes] == ',');
	}
	if (!s->metrics[0])
		for (; n < GS_GPU_FIELD_COUNT; n++)
			field[n] = (unsigned)n;
	return n;
}

const char *session_export_time(char out[ARCHIVE_TIME_BYTES], int64_t wall_ns, bool local)
{
	time_t s = (time_t)(wall_ns / 1000000000);
	long us = (long)(wall_ns % 1000000000) / 1000;
	struct tm tm;
	size_t n;

	if (us < 0) {
		us += 1000000;
		s--;
	}
	if (local)
		localtime_r(&s, &tm);
	else
		gmtime_r(&s, &tm);
	n = strftime(out, ARCHIVE_TIME_BYTES, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(out + n, ARCHIVE_TIME_BYTES - n, ".%06ld%s", us, local ? "" : "Z");
	return out;
}

static int write_text(struct archive *a, int fd)
{
	int copy = dup(fd), r;
	FILE *out = copy < 0 ? NULL : fdopen(copy, "w");
	struct gs_pen pen;

	if (!out) {
		gs_close_p(&copy);
		return -errno;
	}
	gs_pen_open(&pen, out);
	r = a->o->format == GS_SESSION_EXPORT_CSV ? session_export_csv(a, &pen)
						  : session_export_json(a, &pen);
	gs_pen_check(&pen, r);
	r = gs_pen_close(&pen);
	if (fclose(out) != 0 && r == 0)
		r = -errno;
	return r;
}

int gs_session_export_write(const struct gs_session_export_options *options, int fd,
			    struct gs_session_export_stats *ret_stats, struct gs_err *err)
{
	struct archive a;
	int r = session_export_open(&a, options);

	if (r == 0)
		r = options->format == GS_SESSION_EXPORT_GST ? session_export_gst(&a, fd, err)
							     : write_text(&a, fd);
	if (ret_stats)
		*ret_stats = a.stats;
	session_export_close(&a);
	if (r < 0 && err && !err->text[0])
		(void)gs_err_set(err, r, "cannot write the session %s: %s", options->session->name,
				 strerror(-r));
	return r;
}

struct reader {
	gs_session_export_sample_fn fn;
	void *ctx;
};

static int hand_on(void *ctx, const struct session_export_sample *m)
{
	const struct reader *r = ctx;

	m->snapshot->wall_ns = m->wall_ns;
	return r->fn(r->ctx, m->snapshot, &m->mark);
}

int gs_session_export_samples(const struct gs_session_export_options *options,
			      gs_session_export_sample_fn fn, void *ctx,
			      struct gs_session_export_stats *ret_stats, struct gs_err *err)
{
	struct reader reader = {fn, ctx};
	struct session_export_sink sink = {.snapshot = hand_on, .ctx = &reader};
	struct archive a;
	int r = session_export_open(&a, options);

	if (r == 0)
		r = session_export_read(&a, &sink);
	if (ret_stats)
		*ret_stats = a.stats;
	session_export_close(&a);
	if (r < 0 && err && !err->text[0])
		(void)gs_err_set(err, r, "cannot read the session %s: %s", options->session->name,
				 strerror(-r));
	return r;
}
