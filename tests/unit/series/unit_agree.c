/*
 * Values over time are kept in five ways (doc/internals/processes.md says why): on the screen of
 * `gpuscope top`, in a head's memory, in the charts that it answers with, in what it has stored and
 * made coarser, and in plots. One series goes into all of them here: of each ten seconds they say
 * the same mean, the same highest value, and of the same ones that nothing is known.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "core/series/bucket.h"
#include "model/node/record.h"
#include "output/plot/plot_int.h"
#include "output/tui/history.h"
#include "server/live/bucket.h"
#include "server/registry/registry.h"
#include "server/session_export/sums.h"
#include "server/store/rollup.h"

#define S         1000000000ll
#define T0        1700000000ll
#define N_SECONDS 240
#define STRETCH   10
#define N         (N_SECONDS / STRETCH)
#define TOTAL     80e9

/* Whole steps of what a head's memory keeps, so that all of them can be right. */
static double util_at(int second)
{
	return second * 37 % 50 / 50.0;
}

static double power_at(int second)
{
	return 100 + second * 13 % 40 * 10;
}

static bool is_known(int second)
{
	return second < 40 || (second >= 60 && second % 7 != 3);
}

static bool is_lost(int second)
{
	return second >= 75 && second < 78;
}

static struct gs_node_snapshot *sample_new(int second)
{
	struct gs_node_snapshot *m = calloc(1, sizeof(*m));
	struct gs_gpu_snapshot *g = calloc(1, sizeof(*g));
	struct gs_gpu_sample *s = calloc(1, sizeof(*s));

	m->time_ns = g->time_ns = s->time_ns = (uint64_t)(5000 + second) * S;
	m->wall_ns = g->wall_ns = (T0 + second) * S;
	strcpy(m->name, "host");
	m->host = calloc(1, sizeof(*m->host));
	m->gpu = g;
	g->n_gpus = 1;
	g->info = calloc(1, sizeof(*g->info));
	strcpy(g->info->uuid, "GPU-0");
	g->sample = s;
	memset(s->why, GS_GPU_REASON_NOT_READ, sizeof(s->why));
	s->elapsed_ns = S;
	s->lost = is_lost(second);
	if (is_known(second))
		gs_gpu_set(s, GS_GPU_UTIL, util_at(second));
	gs_gpu_set(s, GS_GPU_POWER, power_at(second));
	gs_gpu_set(s, GS_GPU_MEM_USED, TOTAL * util_at(second + 1));
	gs_gpu_set(s, GS_GPU_MEM_TOTAL, TOTAL);
	return m;
}

/* What is true, counted as plainly as can be. */
struct figures {
	double mean, max;
	int n;
};

static struct figures figures_of(int from, int to)
{
	struct figures f = {0, 0, 0};

	for (int i = from; i < to; i++)
		if (is_known(i) && !is_lost(i)) {
			f.mean += util_at(i);
			f.max = fmax(f.max, util_at(i));
			f.n++;
		}
	f.mean = f.n ? f.mean / f.n : NAN;
	return f;
}

static void compare_stretch(const char *who, int k, double mean, double max, double tolerance)
{
	struct figures want = figures_of(k * STRETCH, (k + 1) * STRETCH);

	if (!want.n ? !isnan(mean) || !isnan(max)
		    : !(fabs(mean - want.mean) <= tolerance && fabs(max - want.max) <= tolerance))
		fail_msg("%s, stretch %d: mean %.9g and highest %.9g; %.9g and %.9g of %d", who, k,
			 mean, max, want.mean, want.n ? want.max : NAN, want.n);
}

static struct gs_live_buckets *charts_new(void)
{
	const struct gs_live_buckets asked = {
		.from_ns = T0 * S, .to_ns = (T0 + N_SECONDS) * S, .n_points = N, .n_values = 1};

	return gs_live_bucket_new(&asked, sizeof(asked), 0);
}

static void compare_charts(const char *who, struct gs_live_buckets *charts)
{
	for (int k = 0; k < N; k++)
		compare_stretch(who, k, gs_bucket_mean(&charts->at[k]),
				gs_bucket_max(&charts->at[k]), 1e-9);
	free(charts);
}

static void charts_of_samples(void **state)
{
	struct gs_live_buckets *charts = charts_new();

	for (int i = 0; i < N_SECONDS; i++)
		gs_live_bucket_add(charts, 0, (T0 + i) * S,
				   is_known(i) && !is_lost(i) ? util_at(i) : NAN);
	compare_charts("charts of samples", charts);
}

static void memory_of_a_head(void **state)
{
	struct gs_live_buckets *charts = charts_new();
	struct gs_registry *c = gs_registry_new();
	struct gs_registry_node node = {.id = 1};
	int64_t wall[GS_REGISTRY_POINTS];
	double v[GS_REGISTRY_POINTS];
	size_t n;

	assert_int_equal(gs_registry_put(c, &node), 0);
	for (int i = 0; i < N_SECONDS; i++) {
		struct gs_node_snapshot *m = sample_new(i);

		gs_registry_apply(c, 1, &m);
	}
	n = gs_registry_history(c, 1, 0, GS_REGISTRY_UTIL, wall, v);
	assert_int_equal(n, N_SECONDS);
	for (size_t i = 0; i < n; i++)
		gs_live_bucket_add(charts, 0, wall[i], v[i]);
	compare_charts("memory of a head", charts);
	gs_registry_free(&c);
}

static void screen(void **state)
{
	struct tui_history h;
	const struct tui_series *series = NULL;
	float value[N_SECONDS];

	tui_history_init(&h);
	for (int i = 0; i < N_SECONDS; i++) {
		float v[TUI_HISTORY_SETS] = {is_known(i) && !is_lost(i) ? (float)util_at(i) : NAN,
					     NAN, NAN};

		tui_history_next(&h);
		series = tui_history_put(&h, 1, v);
	}
	tui_history_read(&h, series, 0, value, N_SECONDS);
	for (int k = 0; k < N; k++) {
		struct gs_bucket b = {0};

		for (int i = 0; i < STRETCH; i++)
			gs_bucket_add(&b, value[k * STRETCH + i]);
		compare_stretch("screen", k, gs_bucket_mean(&b), gs_bucket_max(&b), 1e-6);
	}
	tui_history_fini(&h);
}

static struct gs_plot *plot_new(void)
{
	const struct gs_plot_options o = {.size = sizeof(o)};

	return gs_plot_new(&o);
}

static void compare_plot(const char *who, struct gs_plot *p)
{
	const struct plot_device *d = p->device[0];
	int per_stretch;

	assert_int_equal(STRETCH * S % p->bin_ns, 0);
	per_stretch = (int)(STRETCH * S / p->bin_ns);
	for (int k = 0; k < N; k++) {
		double sum = 0, max = NAN;
		uint32_t n = 0;

		for (int i = k * per_stretch; i < (k + 1) * per_stretch; i++) {
			const struct plot_bin *b = &d->bin[PLOT_UTIL][i];

			sum += (double)b->sum;
			max = b->n ? fmax(max, (double)b->max) : max;
			n += b->n;
		}
		compare_stretch(who, k, n ? sum / n : NAN, max, 1e-6);
	}
	gs_plot_free(&p);
}

static void plots(void **state)
{
	struct gs_plot *p = plot_new();

	for (int i = 0; i < N_SECONDS; i++) {
		struct gs_node_snapshot *m = sample_new(i);

		assert_int_equal(gs_plot_add(p, m, NULL), 0);
		gs_node_snapshot_free(&m);
	}
	compare_plot("plots", p);
}

/* Ten seconds each made one, as they are stored after some days; sums gets what is read again. */
static void read_rollups(struct gs_live_buckets *charts, struct gs_session_export_sums *sums,
			 struct gs_plot *plot)
{
	struct gs_rollup *rollup = gs_rollup_new(STRETCH * S);
	struct gs_node_decoder *d = gs_node_decoder_new();
	struct gs_rollup_mark mark = {0};
	struct gs_buf out = GS_BUF_INIT(1 << 20);
	struct gs_node_snapshot *first = sample_new(0);
	int64_t wall_ns;

	/* Its bins begin with the first stretch, not where that ends. */
	first->gpu->sample->lost = true;
	assert_int_equal(gs_plot_add(plot, first, NULL), 0);
	gs_node_snapshot_free(&first);
	for (int i = 0; i < N_SECONDS; i++) {
		struct gs_node_snapshot *m = sample_new(i);

		if (!gs_rollup_fits(rollup, m))
			assert_int_equal(gs_rollup_put(rollup, &out, &wall_ns), 0);
		assert_int_equal(gs_rollup_add(rollup, &m, NULL), 0);
		if (i % STRETCH == STRETCH - 1)
			assert_int_equal(gs_rollup_put(rollup, &out, &wall_ns), 0);
	}
	for (size_t at = 0; at < out.bytes;) {
		const struct gs_record *r = (const void *)(out.data + at);
		struct gs_node_snapshot *m = NULL;
		double v;

		at += r->bytes;
		(void)gs_rollup_read(r, &mark);
		if (gs_node_decode(d, r, &m) != GS_NODE_WHOLE)
			continue;
		v = m->gpu->sample->lost ? NAN : gs_gpu_value(m->gpu->sample, GS_GPU_UTIL);
		gs_live_bucket_add_mean(charts, 0, m->wall_ns, v,
					gs_rollup_max(&mark, 0, GS_GPU_UTIL, v),
					gs_rollup_n(&mark, 0, GS_GPU_UTIL));
		gs_session_export_sums_add(sums, 0, m->gpu->sample, &mark, m->wall_ns);
		assert_int_equal(gs_plot_add(plot, m, &mark), 0);
		gs_node_snapshot_free(&m);
		mark = (struct gs_rollup_mark){0};
	}
	gs_buf_fini(&out);
	gs_node_decoder_free(&d);
	gs_rollup_free(&rollup);
}

static void compare_bucket(const struct gs_bucket *a, const struct gs_bucket *b)
{
	assert_int_equal(a->n, b->n);
	assert_true(fabs(gs_bucket_mean(a) - gs_bucket_mean(b)) <= 1e-9 * fabs(gs_bucket_mean(b)));
	assert_true(fabs(gs_bucket_max(a) - gs_bucket_max(b)) <= 1e-9 * fabs(gs_bucket_max(b)));
}

/* A session has the same figures before and after what it is made of was made coarser. */
static void rollups(void **state)
{
	const struct gs_rollup_mark none = {0};
	struct gs_session_export_sums measured = {0}, coarse = {0};
	struct gs_live_buckets *charts = charts_new();
	struct gs_plot *plot = plot_new();
	struct figures all = figures_of(0, N_SECONDS);

	for (int i = 0; i < N_SECONDS; i++) {
		struct gs_node_snapshot *m = sample_new(i);

		gs_session_export_sums_add(&measured, 0, m->gpu->sample, &none, m->wall_ns);
		gs_node_snapshot_free(&m);
	}
	read_rollups(charts, &coarse, plot);
	compare_charts("rollups", charts);
	assert_int_equal(plot->device[0]->n_samples, measured.n_samples);
	assert_true(fabs(plot->device[0]->power_sum / (double)plot->device[0]->n_power -
			 gs_bucket_mean(&measured.power)) < 1e-6);
	assert_true(fabs(plot->device[0]->memory_max - gs_bucket_max(&measured.memory)) < 1e-9);
	compare_plot("plots of rollups", plot);
	assert_int_equal(measured.n_samples, N_SECONDS - 3);
	assert_int_equal(coarse.n_samples, measured.n_samples);
	assert_int_equal(measured.util.n, all.n);
	assert_true(fabs(gs_bucket_mean(&measured.util) - all.mean) < 1e-9);
	compare_bucket(&coarse.util, &measured.util);
	compare_bucket(&coarse.memory, &measured.memory);
	compare_bucket(&coarse.power, &measured.power);
	assert_true(measured.energy.sum_joules > 0);
	assert_true(fabs(gs_energy_joules(&coarse.energy) / gs_energy_joules(&measured.energy) -
			 1) < 0.1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(charts_of_samples),
		cmocka_unit_test(memory_of_a_head),
		cmocka_unit_test(screen),
		cmocka_unit_test(plots),
		cmocka_unit_test(rollups),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
