/*
 * Rounds of what `gpuscope trace -p PID --inside=python` does to a running Python, as quickly as that goes: asked, seen from inside,
 * left. What it costs the process, and how long each takes; the process itself is of bench/attach_rounds.py.
 *
 * usage: attach_rounds PID LIBRARY ROUNDS [MILLISECONDS recorded of each]
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/reader/reader.h"
#include "model/companion/python.h"
#include "sources/companion/companion.h"
#include "sources/python_attach/python_attach.h"
#include "sources/unwind/python.h"

#define BOUND_NS 5000000000ull
#define POLL_NS  100000

static uint64_t n_records, n_sums;

static void on_record(void *ctx, const struct gs_companion_thread *from,
		      const struct gs_companion_record *record)
{
	n_records++;
}

static void on_sum(void *ctx, const struct gs_companion_thread *from,
		   const struct gs_companion_sum *before, const struct gs_companion_sum *now)
{
}

static void on_python_sum(void *ctx, const struct gs_companion_thread *from,
			  const struct gs_companion_python_sum *sum)
{
	n_sums += sum->now->calls - sum->before->calls;
}

static const struct gs_companion_handler handler = {
	.record = on_record, .sum = on_sum, .python_sum = on_python_sum};

struct round {
	uint64_t inside_ns, left_ns; /* since it was asked, and since it was stopped */
	bool withdrawn, asked_to_leave, has_left;
};

static void pause_ns(long ns)
{
	nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

/* Like trace_attach.c: within its bound, or taken back. */
static void wait_inside(struct gs_companion_files *files, const struct gs_python_attach *attach,
			struct round *r, uint64_t ask_ns)
{
	bool taken = false;
	uint64_t now_ns;

	for (;;) {
		if (gs_python_attach_is_taken(attach, &taken) < 0)
			return;
		now_ns = gs_clock_mono_ns();
		gs_companion_files_scan(files);
		if (gs_companion_files_since(files, (uint32_t)attach->pid, GS_COMPANION_PYTHON)) {
			r->inside_ns = gs_companion_files_since(files, (uint32_t)attach->pid,
								GS_COMPANION_PYTHON) -
				       ask_ns;
			return;
		}
		if (now_ns - ask_ns > BOUND_NS) {
			(void)gs_python_attach_withdraw(attach, &taken);
			r->withdrawn = !taken;
			if (r->withdrawn || now_ns - ask_ns > 2 * BOUND_NS)
				return;
		}
		pause_ns(POLL_NS);
	}
}

static void wait_left(struct gs_companion_files *files, const struct gs_python_attach *attach,
		      const char *script, struct round *r)
{
	uint64_t stop_ns = gs_clock_mono_ns();
	bool taken;

	for (uint64_t now_ns = stop_ns; now_ns - stop_ns < BOUND_NS; now_ns = gs_clock_mono_ns()) {
		r->has_left = gs_companion_files_has_left(files, attach->pid);
		if (r->has_left)
			break;
		if (!r->asked_to_leave && now_ns - stop_ns > 20000000)
			r->asked_to_leave = gs_python_attach_ask(attach, script) == 0;
		pause_ns(POLL_NS);
	}
	r->left_ns = gs_clock_mono_ns() - stop_ns;
	if (r->asked_to_leave)
		(void)gs_python_attach_withdraw(attach, &taken);
	gs_python_attach_withdraw_children(attach, script);
}

static int put_scripts(struct gs_companion_files *files, struct gs_companion_late *late, pid_t pid,
		       const char *library, struct gs_err *err)
{
	struct gs_buf begin = GS_BUF_INIT(16384), end = GS_BUF_INIT(4096);
	char own[PATH_MAX];
	int r = gs_companion_late_put_library(late, library, own, sizeof(own), err);

	if (r == 0)
		r = gs_python_attach_write_begin(&begin, own, gs_companion_late_folder(late), pid,
						 false);
	if (r == 0)
		r = gs_python_attach_write_end(&end, pid);
	if (r == 0)
		r = gs_companion_late_put(late, "attach.py", begin.data, begin.bytes);
	if (r == 0)
		r = gs_companion_late_put(late, "leave.py", end.data, end.bytes);
	gs_buf_fini(&begin);
	gs_buf_fini(&end);
	return r == 0 ? gs_companion_late_give(files, late) : r;
}

static int run_round(pid_t pid, uint64_t runtime, const char *library, bool events, unsigned ms,
		     struct round *ret, struct gs_err *err)
{
	const struct gs_companion_files_options fo = {.size = sizeof(fo)};
	struct gs_python_attach attach = GS_PYTHON_ATTACH_INIT;
	static const bool wanted[GS_FUNC_FIXED];
	struct gs_companion_files *files = NULL;
	struct gs_companion_late *late = NULL;
	char script[PATH_MAX], end_script[PATH_MAX], why[256];
	bool full = false;
	uint64_t ask_ns;
	int r = gs_companion_files_new(&fo, &files, err);

	*ret = (struct round){0};
	if (r == 0)
		r = gs_companion_plan_write_python(gs_companion_files_folder(files), events, NULL,
						   0, err);
	if (r == 0)
		r = gs_companion_plan_write(gs_companion_files_folder(files),
					    1u << GS_COMPANION_PYTHON, wanted,
					    GS_COMPANION_RING_BYTES, err);
	if (r == 0)
		r = gs_python_attach_open(pid, runtime, &attach, err);
	if (r == 0)
		r = gs_companion_late_open(files, pid, false, &late, err);
	if (r == 0)
		r = put_scripts(files, late, pid, library, err);
	if (r == 0) {
		snprintf(script, sizeof(script), "%s/attach.py", gs_companion_late_folder(late));
		snprintf(end_script, sizeof(end_script), "%s/leave.py",
			 gs_companion_late_folder(late));
		ask_ns = gs_clock_mono_ns();
		r = gs_python_attach_ask(&attach, script);
	}
	if (r == 0) {
		wait_inside(files, &attach, ret, ask_ns);
		if (gs_companion_late_why(late, why, sizeof(why)))
			fprintf(stderr, "attach_rounds: it says: %s\n", why);
		for (unsigned i = 0; i < ms && ret->inside_ns; i++) {
			pause_ns(1000000);
			gs_companion_files_poll(files, &handler, i % 8 == 0, &full);
		}
		gs_companion_files_stop(files, &handler);
		gs_python_attach_withdraw_children(&attach, script);
		wait_left(files, &attach, end_script, ret);
	}
	gs_python_attach_close(&attach);
	gs_companion_files_free(&files);
	return r;
}

static int compare_ns(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void print_spread(const char *name, uint64_t *ns, size_t n)
{
	if (!n)
		return;
	qsort(ns, n, sizeof(*ns), compare_ns);
	printf("%s_us n %zu p50 %.0f p90 %.0f p99 %.0f max %.0f\n", name, n,
	       (double)ns[n / 2] / 1000, (double)ns[n * 9 / 10] / 1000,
	       (double)ns[n * 99 / 100] / 1000, (double)ns[n - 1] / 1000);
}

static int find_runtime(pid_t pid, uint64_t *ret_runtime)
{
	static const gs_reader_serve_fn serve[GS_READER_N_SERVICES] = {[GS_READER_PYTHON] =
									       gs_python_serve};
	const struct gs_reader_options ro = {.name = "files", .here = serve};
	struct gs_reader *reader = NULL;
	struct gs_pythons *pythons = NULL;
	struct gs_py_proc proc = {0};
	struct gs_err err = {{0}};
	int r = gs_reader_new(&ro, &reader, &err);

	if (r == 0)
		pythons = gs_pythons_new(reader);
	if (pythons)
		gs_pythons_find(pythons, pid, &proc, &err);
	gs_pythons_free(&pythons);
	gs_reader_free(&reader);
	*ret_runtime = proc.runtime;
	return proc.runtime ? 0 : -ENOENT;
}

int main(int argc, char **argv)
{
	size_t rounds = argc > 3 ? strtoul(argv[3], NULL, 10) : 0, n = 0, n_inside = 0, n_left = 0,
	       n_withdrawn = 0, n_asked = 0;
	uint64_t *inside = calloc(rounds + 1, sizeof(*inside)),
		 *left = calloc(rounds + 1, sizeof(*left)), runtime = 0;
	pid_t pid = argc > 1 ? atoi(argv[1]) : 0;
	unsigned ms = argc > 4 ? (unsigned)atoi(argv[4]) : 2;
	struct gs_err err = {{0}};
	struct round one;
	int r;

	if (!rounds || pid <= 0 || !inside || !left || find_runtime(pid, &runtime) < 0) {
		fprintf(stderr,
			"attach_rounds: usage: PID LIBRARY ROUNDS [MILLISECONDS], of a Python\n");
		return 2;
	}
	for (; n < rounds; n++) {
		r = run_round(pid, runtime, argv[2], n & 1, ms, &one, &err);
		if (r < 0) {
			printf("round %zu: %s\n", n, gs_err_text(&err, r));
			break;
		}
		if (kill(pid, 0) < 0)
			break;
		if (one.inside_ns)
			inside[n_inside++] = one.inside_ns;
		if (one.has_left)
			left[n_left++] = one.left_ns;
		n_withdrawn += one.withdrawn;
		n_asked += one.asked_to_leave;
	}
	printf("rounds %zu of %zu inside %zu withdrawn %zu left %zu asked_to_leave %zu records %llu summed_calls %llu\n",
	       n, rounds, n_inside, n_withdrawn, n_left, n_asked, (unsigned long long)n_records,
	       (unsigned long long)n_sums);
	print_spread("inside", inside, n_inside);
	print_spread("left", left, n_left);
	return n == rounds ? 0 : 1;
}
