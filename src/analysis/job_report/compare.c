/*
 * The statistics of a comparison. Spread is the median absolute deviation (times 1.4826 it is the
 * standard deviation of what is normally distributed); an outlier is 3.5 of it from the median
 * (Iglewicz and Hoaglin, 1993). Trends are those of Mann and Kendall, with the slope of Theil and
 * Sen: no assumption on how scores are distributed.
 */
#include "analysis/job_report/compare.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "analysis/detect/robust.h"
#include "analysis/job_report/compare_int.h"

#define OUTLIER_FROM 3.5
#define OUTLIER_JOBS 5 /* fewer have no usual value to be far from */
#define TREND_RUNS   4
#define TREND_CHANCE 0.1

const char *gs_job_report_compared_key(unsigned what)
{
	static const char *const keys[] = {
#define KEY(id, key, ...) [GS_JOB_COMPARED_##id] = key,
		GS_JOB_COMPARED(KEY)
#undef KEY
	};

	return what < GS_JOB_COMPARED_COUNT ? keys[what] : "";
}

const char *gs_job_report_compared_title(unsigned what)
{
	static const char *const titles[] = {
#define TITLE(id, key, title, ...) [GS_JOB_COMPARED_##id] = title,
		GS_JOB_COMPARED(TITLE)
#undef TITLE
	};

	return what < GS_JOB_COMPARED_COUNT ? titles[what] : "";
}

static double least_deviation(unsigned what)
{
	static const double least[] = {
#define LEAST(id, key, title, least_) [GS_JOB_COMPARED_##id] = least_,
		GS_JOB_COMPARED(LEAST)
#undef LEAST
	};

	return least[what];
}

void gs_job_report_comparison_fini(struct gs_job_report_comparison *c)
{
	free(c->rows);
	free(c->outliers);
	free(c->trends);
	free(c->users);
	free(c->classes);
	memset(c, 0, sizeof(*c));
}

static void compute_statistic(const struct gs_job_report_comparison *c, unsigned what,
			      double *scratch, struct gs_job_report_stat *s)
{
	double sum = 0, squares = 0;

	*s = (struct gs_job_report_stat){0, NAN, NAN, NAN, NAN, NAN, NAN};
	for (size_t i = 0; i < c->n_rows; i++)
		if (!isnan(c->rows[i].v[what])) {
			scratch[s->n++] = c->rows[i].v[what];
			sum += c->rows[i].v[what];
		}
	if (!s->n)
		return;
	s->mean = sum / (double)s->n;
	s->median = gs_detect_median(scratch, s->n);
	s->min = scratch[0];
	s->max = scratch[s->n - 1];
	for (size_t i = 0; i < s->n; i++) {
		squares += (scratch[i] - s->mean) * (scratch[i] - s->mean);
		scratch[i] = fabs(scratch[i] - s->median);
	}
	s->stddev = s->n > 1 ? sqrt(squares / (double)(s->n - 1)) : 0;
	s->mad = gs_detect_median(scratch, s->n);
}

static int compare_distance(const void *a, const void *b)
{
	double x = fabs(((const struct gs_job_report_outlier *)a)->score);
	double y = fabs(((const struct gs_job_report_outlier *)b)->score);

	return (x < y) - (x > y);
}

static int find_outliers(struct gs_job_report_comparison *c)
{
	size_t most = c->n_rows * GS_JOB_COMPARED_COUNT;

	c->outliers = calloc(most + 1, sizeof(*c->outliers));
	if (!c->outliers)
		return -ENOMEM;
	for (unsigned what = 0; what < GS_JOB_COMPARED_COUNT; what++) {
		const struct gs_job_report_stat *s = &c->stat[what];
		/* Where most are alike to the digit, the spread would be nothing. */
		double spread = fmax(1.4826 * s->mad, least_deviation(what) / OUTLIER_FROM);

		if (s->n < OUTLIER_JOBS || what == GS_JOB_COMPARED_DURATION)
			continue;
		for (size_t i = 0; i < c->n_rows; i++) {
			double z = (c->rows[i].v[what] - s->median) / spread;

			if (fabs(z) > OUTLIER_FROM)
				c->outliers[c->n_outliers++] =
					(struct gs_job_report_outlier){i, what, z};
		}
	}
	qsort(c->outliers, c->n_outliers, sizeof(*c->outliers), compare_distance);
	return 0;
}

struct run { /* a row in the order of time, among those of its name and user */
	size_t row;
	const struct gs_job_report_row *of;
};

static int by_series(const void *a, const void *b)
{
	const struct gs_job_report_row *x = ((const struct run *)a)->of,
				       *y = ((const struct run *)b)->of;
	int r = strcmp(x->user, y->user);

	if (r == 0)
		r = strcmp(x->name, y->name);
	return r ? r : (x->start_s > y->start_s) - (x->start_s < y->start_s);
}

#define TREND_MAX_RUNS 400 /* the last ones; all pairs are looked at */

/* slopes: room for GS_DETECT_N_SLOPES(n). */
static struct gs_job_report_trend trend_of(const struct run *run, size_t n, double *slopes)
{
	struct gs_job_report_trend t = {.first_row = run[0].row, .n = n};
	double scores[TREND_MAX_RUNS];

	for (size_t i = 0; i < n; i++)
		scores[i] = run[i].of->v[GS_JOB_COMPARED_SCORE];
	t.slope = gs_detect_trend_slope(scores, n, slopes);
	t.probability = erfc(fabs(gs_detect_trend_z(scores, n)) / sqrt(2));
	if (t.probability < TREND_CHANCE && t.slope != 0)
		t.direction = t.slope > 0 ? 1 : -1;
	return t;
}

static int find_trends(struct gs_job_report_comparison *c)
{
	GS_FREE struct run *run = calloc(c->n_rows + 1, sizeof(*run));
	GS_FREE double *slopes = calloc(GS_DETECT_N_SLOPES(TREND_MAX_RUNS), sizeof(*slopes));
	size_t n = 0;

	c->trends = calloc(c->n_rows + 1, sizeof(*c->trends));
	if (!run || !slopes || !c->trends)
		return -ENOMEM;
	for (size_t i = 0; i < c->n_rows; i++)
		if (c->rows[i].name[0] && !isnan(c->rows[i].start_s) &&
		    !isnan(c->rows[i].v[GS_JOB_COMPARED_SCORE]))
			run[n++] = (struct run){i, &c->rows[i]};
	qsort(run, n, sizeof(*run), by_series);
	for (size_t from = 0, to; from < n; from = to) {
		size_t first = from;

		for (to = from + 1; to < n && strcmp(run[to].of->user, run[from].of->user) == 0 &&
				    strcmp(run[to].of->name, run[from].of->name) == 0;)
			to++;
		if (to - from > TREND_MAX_RUNS)
			first = to - TREND_MAX_RUNS;
		if (to - first >= TREND_RUNS)
			c->trends[c->n_trends++] = trend_of(&run[first], to - first, slopes);
	}
	return 0;
}

static int more_wasted(const void *a, const void *b)
{
	const struct gs_job_report_user *x = a, *y = b;

	return (x->wasted_core_s < y->wasted_core_s) - (x->wasted_core_s > y->wasted_core_s);
}

static int find_users(struct gs_job_report_comparison *c, double *scratch)
{
	c->users = calloc(c->n_rows + 1, sizeof(*c->users));
	if (!c->users)
		return -ENOMEM;
	for (size_t i = 0; i < c->n_rows; i++) {
		const struct gs_job_report_row *row = &c->rows[i];
		struct gs_job_report_user *u = c->users;
		double unused = row->cores * row->v[GS_JOB_COMPARED_DURATION] *
				(1 - row->v[GS_JOB_COMPARED_CPU] / 100);

		while (u < c->users + c->n_users && strcmp(u->name, row->user) != 0)
			u++;
		if (u == c->users + c->n_users) {
			snprintf(u->name, sizeof(u->name), "%s", row->user);
			c->n_users++;
		}
		u->n++;
		u->wasted_core_s += isnan(unused) ? 0 : unused;
	}
	for (size_t k = 0; k < c->n_users; k++) {
		size_t n = 0;

		for (size_t i = 0; i < c->n_rows; i++)
			if (strcmp(c->rows[i].user, c->users[k].name) == 0 &&
			    !isnan(c->rows[i].v[GS_JOB_COMPARED_SCORE]))
				scratch[n++] = c->rows[i].v[GS_JOB_COMPARED_SCORE];
		c->users[k].median_score = gs_detect_median(scratch, n);
	}
	qsort(c->users, c->n_users, sizeof(*c->users), more_wasted);
	return 0;
}

static int more_common(const void *a, const void *b)
{
	const struct gs_job_report_class *x = a, *y = b;

	return x->n != y->n ? (x->n < y->n) - (x->n > y->n) : strcmp(x->name, y->name);
}

static int count_classes(struct gs_job_report_comparison *c)
{
	c->classes = calloc(GS_JOB_CLASSES_MAX + 1, sizeof(*c->classes));
	if (!c->classes)
		return -ENOMEM;
	for (size_t i = 0; i < c->n_rows; i++) {
		const char *name = c->rows[i].job_class;
		size_t k = 0;

		while (k < c->n_classes && strcmp(c->classes[k].name, name) != 0)
			k++;
		if (k == c->n_classes && k < GS_JOB_CLASSES_MAX) {
			snprintf(c->classes[k].name, sizeof(c->classes[k].name), "%s",
				 k == GS_JOB_CLASSES_MAX - 1 ? "other" : name);
			c->n_classes++;
		}
		c->classes[k < GS_JOB_CLASSES_MAX ? k : GS_JOB_CLASSES_MAX - 1].n++;
	}
	qsort(c->classes, c->n_classes, sizeof(*c->classes), more_common);
	return 0;
}

int gs_job_report_compare_finish(struct gs_job_report_comparison *c)
{
	GS_FREE double *scratch = calloc(c->n_rows + 1, sizeof(*scratch));
	int r;

	if (!scratch)
		return -ENOMEM;
	for (unsigned what = 0; what < GS_JOB_COMPARED_COUNT; what++)
		compute_statistic(c, what, scratch, &c->stat[what]);
	r = count_classes(c);
	if (r == 0)
		r = find_outliers(c);
	if (r == 0)
		r = find_trends(c);
	if (r == 0)
		r = find_users(c, scratch);
	return r;
}

const char *gs_job_report_pattern_key(unsigned p)
{
	static const char *const keys[] = {
#define KEY(id, key, words) [GS_JOB_PATTERN_##id] = key,
		GS_JOB_PATTERNS(KEY)
#undef KEY
	};

	return p < GS_JOB_PATTERN_COUNT ? keys[p] : "";
}

bool gs_job_report_row_is(const struct gs_job_report_row *row, unsigned p)
{
	double score = row->v[GS_JOB_COMPARED_SCORE], cpu = row->v[GS_JOB_COMPARED_CPU];
	double io = row->v[GS_JOB_COMPARED_IO];

	switch (p) {
	case GS_JOB_PATTERN_EFFICIENT:
		return score > 70;
	case GS_JOB_PATTERN_POOR:
		return score < 30;
	case GS_JOB_PATTERN_HIGH_CPU:
		return cpu > 80;
	case GS_JOB_PATTERN_HIGH_IO:
		return io > 50;
	case GS_JOB_PATTERN_BALANCED:
		return cpu > 30 && cpu < 80 && io > 10 && io < 40;
	default:
		return cpu < 30 && io < 20;
	}
}

bool gs_job_report_compare_advice(const struct gs_job_report_comparison *c, size_t i, char *out,
				  size_t bytes)
{
	double score = c->stat[GS_JOB_COMPARED_SCORE].median;
	double cpu = c->stat[GS_JOB_COMPARED_CPU].median;
	const char *most = c->n_classes ? c->classes[0].name : "";
	size_t under = 0;
	bool holds[4];
	size_t at = 0;

	for (size_t k = 0; k < c->n_rows; k++)
		under += gs_job_report_row_is(&c->rows[k], GS_JOB_PATTERN_UNDERUSED);
	holds[0] = score < 50;
	holds[1] = cpu < 40;
	holds[2] = (double)under > 0.3 * (double)c->n_rows;
	holds[3] = strncmp(most, "Idle-heavy", 10) == 0;
	while (at < 4 && (!holds[at] || i))
		i -= holds[at++];
	switch (at) {
	case 0:
		snprintf(
			out, bytes,
			"Half of the jobs have a score of at most %.0f: look at the lowest scores first.",
			score);
		return true;
	case 1:
		snprintf(
			out, bytes,
			"Half of the jobs use at most %.0f %% of their processors: request fewer, or run more threads or ranks.",
			cpu);
		return true;
	case 2:
		snprintf(
			out, bytes,
			"%zu of %zu jobs use neither processors nor disks: several of them could share the resources of one.",
			under, c->n_rows);
		return true;
	case 3:
		snprintf(
			out, bytes,
			"Most jobs wait: for input, licences or each other? Chain them (--dependency) instead of waiting inside jobs.");
		return true;
	default:
		return false;
	}
}
