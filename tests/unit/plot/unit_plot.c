/* Figures: what goes into bins, and what comes out as a file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "output/plot/plot_int.h"

#define START 1790000000000000000ll
#define S     1000000000ll

static uint64_t elapsed_ns; /* that samples say; 0 nothing */

/* One GPU of a node at a time. */
static int add(struct gs_plot *p, const char *host, unsigned index, int64_t wall_ns, double util,
	       double watts, double joules)
{
	struct gs_gpu_info info = {.index = index};
	struct gs_gpu_sample s;
	struct gs_gpu_snapshot gpu = {.info = &info, .sample = &s, .n_gpus = 1};
	struct gs_node_snapshot node = {.wall_ns = wall_ns, .gpu = &gpu};

	memset(&s, 0, sizeof(s));
	memset(s.why, GS_GPU_REASON_NOT_READ, sizeof(s.why));
	snprintf(node.name, sizeof(node.name), "%s", host);
	s.elapsed_ns = elapsed_ns;
	if (!isnan(util))
		gs_gpu_set(&s, GS_GPU_UTIL, util);
	if (!isnan(watts))
		gs_gpu_set(&s, GS_GPU_POWER, watts);
	if (!isnan(joules))
		gs_gpu_set(&s, GS_GPU_ENERGY, joules);
	return gs_plot_add(p, &node, NULL);
}

static struct gs_plot *new_plot(unsigned panels)
{
	struct gs_plot_options o = {.size = sizeof(o), .panels = panels};
	struct gs_plot *p = gs_plot_new(&o);

	assert_non_null(p);
	return p;
}

static double sum_of(const struct plot_device *d, enum plot_value v, uint32_t *ret_n)
{
	double sum = 0;

	*ret_n = 0;
	for (int b = 0; b < PLOT_BINS; b++) {
		sum += (double)d->bin[v][b].sum;
		*ret_n += d->bin[v][b].n;
	}
	return sum;
}

/* However long it takes: nothing is lost, and the bins cover it. */
static void a_long_time(void **state)
{
	struct gs_plot *p = new_plot(0);
	uint32_t n;

	for (int i = 0; i < 200000; i++)
		assert_int_equal(add(p, "a", 0, START + i * S, 0.5, NAN, NAN), 0);
	assert_true(fabs(sum_of(p->device[0], PLOT_UTIL, &n) - 100000) < 1);
	assert_int_equal(n, 200000);
	assert_true(p->bin_ns * PLOT_BINS >= 199999 * S);
	assert_true(p->bin_ns * PLOT_BINS <= 2 * 2 * 199999 * S);
	assert_true(fabs(plot_mean(p->device[0], PLOT_UTIL, 100) - 0.5) < 1e-6);
	gs_plot_free(&p);
}

/* Nodes whose files begin at other times, read one after the other. */
static void earlier_later(void **state)
{
	struct gs_plot *p = new_plot(0);
	struct gs_plot_stats st;
	uint32_t n;

	for (int i = 0; i < 1000; i++)
		assert_int_equal(add(p, "a", 0, START + i * S, 1, NAN, NAN), 0);
	for (int i = -5000; i < 0; i++)
		assert_int_equal(add(p, "b", 0, START + i * S, 0, NAN, NAN), 0);
	assert_int_equal(add(p, "c", 0, START + 100000 * S, 0.25, NAN, NAN), 0);
	assert_true(fabs(sum_of(p->device[0], PLOT_UTIL, &n) - 1000) < 1e-3);
	assert_int_equal(n, 1000);
	assert_true(sum_of(p->device[1], PLOT_UTIL, &n) == 0);
	assert_int_equal(n, 5000);
	assert_true(p->start_ns <= START - 5000 * S);
	gs_plot_stats(p, &st);
	assert_int_equal(st.n_samples, 6001);
	assert_int_equal(st.n_devices, 3);
	assert_int_equal(st.n_left_out, 0);
	gs_plot_free(&p);
}

static void figures_of_a_device(void **state)
{
	struct gs_plot *p = new_plot(0);
	const struct plot_device *d;

	for (int i = 0; i < 100; i++)
		assert_int_equal(
			add(p, "a", 0, START + i * S, i < 10 ? 0 : 0.01 * i, 500, 7000 + 500 * i),
			0);
	/* Silent for 50 s; and the counter begins anew. */
	for (int i = 150; i < 160; i++)
		assert_int_equal(add(p, "a", 0, START + i * S, 1, 500, 500 * (i - 150)), 0);
	d = p->device[0];
	assert_int_equal(d->n_gaps, 1);
	assert_int_equal(d->n_idle, 10);
	assert_true(fabs(plot_util_percentile(d, 0.5) - 0.55) < 0.011);
	assert_true(plot_util_percentile(d, 0.05) == 0);
	assert_true(plot_util_percentile(d, 1) == 1);
	assert_true(fabs(plot_energy_j(d) - (99 + 9) * 500) < 1e-6);
	gs_plot_free(&p);
	/* Without the counter: power times time, but not through a gap. */
	p = new_plot(0);
	for (int i = 0; i < 100; i++)
		assert_int_equal(add(p, "a", 0, START + i * S, 1, 300, NAN), 0);
	assert_int_equal(add(p, "a", 0, START + 200 * S, 1, 300, NAN), 0);
	assert_true(fabs(plot_energy_j(p->device[0]) - 99 * 300) < 301);
	gs_plot_free(&p);
}

/* Two clients of one machine measure the same GPU at the same moments; each has read the counter of
 * energy at its own time, every tenth second. */
static void two_clients(void **state)
{
	struct gs_plot *p = new_plot(0);
	const struct plot_device *d;
	double joules[2] = {2980, 2956};

	for (int i = 0; i < 200; i++)
		for (int k = 0; k < 2; k++) {
			/* 400 W; of the other client two seconds older. */
			if (i && (i + 10 * k) % 50 == 0)
				joules[k] = 3000 + 400 * 0.2 * i - k;
			elapsed_ns = S / 5;
			assert_int_equal(
				add(p, "a", 0, START + i * S / 5 + k * 30000, 0.5, 400, joules[k]),
				0);
		}
	d = p->device[0];
	assert_int_equal(d->n_gaps, 0);
	assert_true(fabs(plot_energy_j(d) - 199 * 0.2 * 400) < 100);
	/* A gap is one for both. */
	assert_int_equal(add(p, "a", 0, START + 60 * S, 0.5, 400, joules[0]), 0);
	assert_int_equal(add(p, "a", 0, START + 60 * S + 30000, 0.5, 400, joules[1]), 0);
	assert_int_equal(d->n_gaps, 1);
	elapsed_ns = 0;
	gs_plot_free(&p);
}

/* What was made coarser later, and an interval that was changed. */
static void another_interval(void **state)
{
	struct gs_plot *p = new_plot(0);

	elapsed_ns = 10 * S;
	for (int i = 0; i < 100; i++)
		assert_int_equal(add(p, "a", 0, START + i * 10 * S, 0.5, NAN, NAN), 0);
	elapsed_ns = S;
	for (int i = 1; i < 100; i++)
		assert_int_equal(add(p, "a", 0, START + (990 + i) * S, 0.5, NAN, NAN), 0);
	assert_int_equal(p->device[0]->n_gaps, 0);
	/* The first of the longer ones could be a gap. */
	elapsed_ns = 10 * S;
	for (int i = 1; i < 100; i++)
		assert_int_equal(add(p, "a", 0, START + (1089 + i * 10) * S, 0.5, NAN, NAN), 0);
	assert_int_equal(p->device[0]->n_gaps, 1);
	elapsed_ns = 0;
	gs_plot_free(&p);
}

static void draw(struct gs_plot *p, const char *suffix, const char *magic)
{
	char path[64], head[16] = "";
	struct gs_err err = {{0}};
	FILE *f;
	int r;

	snprintf(path, sizeof(path), "/tmp/unit_plot.%d%s", getpid(), suffix);
	r = gs_plot_write(p, path, &err);
	if (r == -ENOPKG) {
		print_message("SKIP: %s\n", err.text);
		skip();
	}
	assert_int_equal(r, 0);
	f = fopen(path, "re");
	assert_non_null(f);
	assert_true(fread(head, 1, strlen(magic), f) == strlen(magic));
	assert_memory_equal(head, magic, strlen(magic));
	fseek(f, 0, SEEK_END);
	assert_true(ftell(f) > 2000);
	fclose(f);
	unlink(path);
}

/* Into memory: the same figure, and no more than there is room for. */
static void render(struct gs_plot *p, const char *suffix, const char *magic)
{
	struct gs_buf out = GS_BUF_INIT(16u << 20), small = GS_BUF_INIT(1000);
	struct gs_err err = {{0}};

	assert_int_equal(gs_plot_render(p, suffix, &out, &err), 0);
	assert_true(out.bytes > 2000);
	assert_memory_equal(out.data, magic, strlen(magic));
	assert_int_equal(gs_plot_render(p, suffix, &small, &err), -ENOBUFS);
	gs_buf_fini(&out);
	gs_buf_fini(&small);
}

static void files(void **state)
{
	struct gs_plot *p = new_plot(0);
	struct gs_err err = {{0}};

	assert_int_equal(gs_plot_write(p, "/tmp/x.pdf", &err), -ENODATA);
	/* One sample, values of nothing, many devices, names that want escaping. */
	assert_int_equal(add(p, "a<&\"", 0, START, 0.5, NAN, NAN), 0);
	draw(p, ".svg", "<?xml");
	for (unsigned k = 0; k < 300; k++)
		for (int i = 0; i < 20; i++)
			assert_int_equal(
				add(p, "b", k, START + (int64_t)i * 100 * S, k / 300.0, k, NAN), 0);
	draw(p, ".svg", "<?xml");
	draw(p, ".pdf", "%PDF");
	draw(p, ".png", "\x89PNG");
	render(p, "svg", "<?xml");
	render(p, ".pdf", "%PDF");
	render(p, "png", "\x89PNG");
	assert_int_equal(gs_plot_render(p, "gif", NULL, &err), -EINVAL);
	assert_int_equal(gs_plot_write(p, "/nonexistent/x.pdf", &err), -ENOENT);
	assert_int_equal(gs_plot_write(p, "/tmp/x.gif", &err), -EINVAL);
	gs_plot_free(&p);
	/* Utilisation alone, and nothing but a value that is not drawn. */
	p = new_plot(GS_PLOT_NVLINK);
	assert_int_equal(add(p, "a", 0, START, 0.5, NAN, NAN), 0);
	draw(p, ".png", "\x89PNG");
	gs_plot_free(&p);
}

static void names_of_panels(void **state)
{
	assert_int_equal(gs_plot_panel_by_name("gpu_bubble"), GS_PLOT_BUBBLE);
	assert_int_equal(gs_plot_panel_by_name("nvlink"), GS_PLOT_NVLINK);
	assert_int_equal(gs_plot_panel_by_name(""), 0);
	assert_true(gs_plot_knows("a/b.svg"));
	assert_false(gs_plot_knows("a.pdf/b"));
	assert_false(gs_plot_knows("pdf"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_long_time),         cmocka_unit_test(earlier_later),
		cmocka_unit_test(figures_of_a_device), cmocka_unit_test(two_clients),
		cmocka_unit_test(another_interval),    cmocka_unit_test(files),
		cmocka_unit_test(names_of_panels),
	};

	setenv("TZ", "UTC", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
