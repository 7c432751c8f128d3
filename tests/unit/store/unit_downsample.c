/* Downsampling against what was measured: means, counters, peaks, and nothing twice or lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "core/base/mem.h"
#include "model/node/record.h"
#include "server/store/rollup.h"
#include "server/store/downsample.h"
#include "store_folder.h"

#define S         1000000000ll
#define T0        1700000000ll /* s; a multiple of 100, not of 60 */
#define N_SECONDS 600
#define N_GPUS    2

/* --- what is measured --- */

static double util_at(int second, int gpu)
{
	return fmod(0.37 * second + 0.11 * gpu + 0.01 * second * second, 1.0);
}

static double power_at(int second, int gpu)
{
	return 100 + 600 * util_at(second, gpu);
}

/* Unknown in each seventh second. */
static bool has_power(int second)
{
	return second % 7 != 3;
}

static struct gs_node_snapshot *moment(int second)
{
	struct gs_node_snapshot *m = calloc(1, sizeof(*m));
	struct gs_gpu_snapshot *g = calloc(1, sizeof(*g));

	m->time_ns = (uint64_t)(5000 + second) * S;
	m->wall_ns = (T0 + second) * S;
	strcpy(m->name, "host");
	m->gpu = g;
	m->host = calloc(1, sizeof(*m->host));
	m->host->sample = (struct gs_host_sample){.time_ns = m->time_ns,
						  .n_cpus = 4,
						  .cpu_ratio = util_at(second, 9),
						  .mem_total_bytes = 1000,
						  .mem_used_bytes = second,
						  .disk_read_bps = -1,
						  .root_used_ratio = -1};
	g->time_ns = m->time_ns;
	g->wall_ns = m->wall_ns;
	g->n_gpus = N_GPUS;
	g->info = calloc(N_GPUS, sizeof(*g->info));
	g->sample = calloc(N_GPUS, sizeof(*g->sample));
	for (int i = 0; i < N_GPUS; i++) {
		struct gs_gpu_sample *s = &g->sample[i];

		memset(s->why, GS_GPU_REASON_NOT_READ, sizeof(s->why));
		g->info[i].index = (uint32_t)i;
		snprintf(g->info[i].uuid, sizeof(g->info[i].uuid), "GPU-%d", i);
		s->time_ns = m->time_ns;
		s->elapsed_ns = S;
		gs_gpu_set(s, GS_GPU_UTIL, util_at(second, i));
		if (has_power(second))
			gs_gpu_set(s, GS_GPU_POWER, power_at(second, i));
		gs_gpu_set(s, GS_GPU_ENERGY, 1e6 + 300.0 * second);
		gs_gpu_set(s, GS_GPU_PCIE_GEN, second / 100);
	}
	g->process = calloc(1, sizeof(*g->process));
	g->n_processes = 1;
	g->process[0] = (struct gs_gpu_process){.pid = 100 + (uint32_t)second / 7,
						.kind = GS_GPU_PROCESS_COMPUTE,
						.used_bytes = second,
						.sm_ratio = 0.5,
						.mem_ratio = -1,
						.enc_ratio = -1,
						.dec_ratio = -1,
						.jpg_ratio = -1,
						.ofa_ratio = -1};
	if (second == 123) {
		g->event = calloc(1, sizeof(*g->event));
		g->n_events = 1;
		g->event[0] = (struct gs_gpu_event){.xid = 79, .time_ns = m->time_ns};
	}
	return m;
}

static int64_t stream_of(struct gs_store *s, const char *machine)
{
	struct gs_store_node n = {.id = 0};
	struct gs_store_stream want = {.stream = 7, .kind = GS_STORE_SAMPLES, .title = ""}, got;

	snprintf(n.machine_id, sizeof(n.machine_id), "%s", machine);
	strcpy(n.hostname, "host");
	assert_int_equal(gs_store_node(s, &n, &want.node), 0);
	assert_int_equal(gs_store_stream(s, &want, &got), 0);
	return got.id;
}

static void append_at(struct gs_store *s, int64_t stream, uint64_t seq, struct gs_node_snapshot *m,
		      int64_t clock_offset_ns)
{
	struct gs_buf buf = GS_BUF_INIT(1 << 20);
	struct gs_store_batch b = {.seq = seq,
				   .first_wall_ns = m->wall_ns,
				   .last_wall_ns = m->wall_ns,
				   .clock_offset_ns = clock_offset_ns,
				   .n_samples = 1};

	assert_int_equal(gs_node_encode(&buf, m), 0);
	b.data = buf.data;
	b.bytes = buf.bytes;
	b.raw_bytes = (uint32_t)buf.bytes;
	assert_int_equal(gs_store_append(s, stream, &b), 0);
	gs_buf_fini(&buf);
	gs_node_snapshot_free(&m);
}

static void append(struct gs_store *s, int64_t stream, uint64_t seq, struct gs_node_snapshot *m)
{
	append_at(s, stream, seq, m, 1000);
}

static void fill(struct gs_store *s, int64_t stream, int from, int to)
{
	assert_int_equal(gs_store_begin(s), 0);
	for (int i = from; i < to; i++)
		append(s, stream, (uint64_t)i + 1, moment(i));
	assert_int_equal(gs_store_commit(s), 0);
}

/* --- doing it --- */

static unsigned scan_once(struct gs_store *w, struct gs_store *r, int64_t to_s, int interval_s,
			  bool sessions)
{
	struct gs_store_scan_options o = {.size = sizeof(o),
					  .from_wall_ns = INT64_MIN,
					  .to_wall_ns = (T0 + to_s) * S,
					  .interval_ns = (uint64_t)interval_s * S,
					  .sessions = sessions};
	struct gs_store_scan *scan = NULL;
	struct gs_store_piece *p = NULL;
	unsigned n = 0;
	int e;

	assert_int_equal(gs_store_scan_new(r, &o, &scan), 0);
	while ((e = gs_store_scan_next(scan, &p)) == 0) {
		assert_int_equal(gs_store_begin(w), 0);
		assert_int_equal(gs_store_replace(w, p), 0);
		assert_int_equal(gs_store_commit(w), 0);
		gs_store_piece_free(&p);
		n++;
	}
	assert_int_equal(e, GS_STORE_END);
	gs_store_scan_free(&scan);
	return n;
}

/* --- looking at it --- */

struct seen {
	unsigned n_moments, n_samples, n_coarse, n_events, n_batches;
	uint8_t covered[N_SECONDS]; /* how often each second is there */
};

static double mean_util(int from, int to, int gpu, double *ret_most)
{
	double sum = 0;

	*ret_most = 0;
	for (int i = from; i < to; i++) {
		sum += util_at(i, gpu);
		*ret_most = fmax(*ret_most, util_at(i, gpu));
	}
	return sum / (to - from);
}

static void check_power(const struct gs_gpu_sample *s, const struct gs_rollup_mark *mark, int from,
			int to, uint32_t gpu)
{
	double sum = 0;
	unsigned n = 0;

	for (int i = from; i < to; i++)
		if (has_power(i)) {
			sum += power_at(i, (int)gpu);
			n++;
		}
	assert_int_equal(gs_gpu_has(s, GS_GPU_POWER), n > 0);
	if (!n)
		return;
	assert_float_equal(s->value[GS_GPU_POWER], sum / n, 1e-9);
	assert_int_equal(gs_rollup_n(mark, gpu, GS_GPU_POWER), mark->n_samples ? n : 1);
}

/* The seconds that a moment stands for end with its own. */
static void check(const struct gs_node_snapshot *m, const struct gs_rollup_mark *mark,
		  struct seen *seen)
{
	int last = (int)(m->wall_ns / S - T0), n = mark->n_samples ? (int)mark->n_samples : 1;
	double most;

	seen->n_moments++;
	seen->n_samples += (unsigned)n;
	seen->n_coarse += mark->n_samples > 0;
	seen->n_events += m->gpu->n_events;
	assert_int_equal(m->gpu->n_gpus, N_GPUS);
	for (int i = last - n + 1; i <= last; i++)
		seen->covered[i]++;
	for (uint32_t i = 0; i < N_GPUS; i++) {
		const struct gs_gpu_sample *s = &m->gpu->sample[i];
		double mean = mean_util(last - n + 1, last + 1, (int)i, &most);

		assert_float_equal(s->value[GS_GPU_UTIL], mean, 1e-9);
		assert_float_equal(gs_rollup_max(mark, i, GS_GPU_UTIL, s->value[GS_GPU_UTIL]), most,
				   1e-12);
		assert_true(s->value[GS_GPU_ENERGY] == 1e6 + 300.0 * last);
		assert_true(s->value[GS_GPU_PCIE_GEN] == last / 100);
		assert_int_equal(s->elapsed_ns, n * S);
		check_power(s, mark, last - n + 1, last + 1, i);
	}
	assert_float_equal(m->host->sample.cpu_ratio, mean_util(last - n + 1, last + 1, 9, &most),
			   1e-9);
	assert_true(m->host->sample.disk_read_bps < 0);
	/* Each process of these seconds, those of before the last second as ended. */
	assert_int_equal(m->gpu->n_processes, last / 7 - (last - n + 1) / 7 + 1);
	for (uint32_t i = 0; i < m->gpu->n_processes; i++) {
		const struct gs_gpu_process *p = &m->gpu->process[i];

		assert_int_equal(p->ended, (int)p->pid != 100 + last / 7);
		assert_float_equal(p->sm_ratio, 0.5, 1e-12);
		assert_true(p->mem_ratio < 0);
	}
}

static struct seen look(struct gs_store *r, int64_t stream)
{
	struct gs_store_range range = {
		.from_wall_ns = 0, .to_wall_ns = INT64_MAX, .stream = stream};
	struct gs_node_decoder *d = gs_node_decoder_new();
	struct gs_store_cursor *c = NULL;
	struct gs_store_found found;
	struct seen seen = {0};
	int e;

	assert_int_equal(gs_store_cursor_open(r, &range, &c), 0);
	while ((e = gs_store_cursor_next(c, &found)) == 0) {
		struct gs_rollup_mark mark = {0};
		unsigned before = seen.n_moments;

		seen.n_batches++;
		assert_int_equal(found.batch.clock_offset_ns, 1000);
		gs_records_for_each (&found.records, record) {
			struct gs_node_snapshot *m = NULL;

			(void)gs_rollup_read(record, &mark);
			if (gs_node_decode(d, record, &m) != GS_NODE_WHOLE)
				continue;
			check(m, &mark, &seen);
			assert_true(m->wall_ns >= found.batch.first_wall_ns &&
				    m->wall_ns <= found.batch.last_wall_ns);
			gs_node_snapshot_free(&m);
			mark = (struct gs_rollup_mark){0};
		}
		assert_int_equal(seen.n_moments - before, found.batch.n_samples);
	}
	assert_int_equal(e, GS_STORE_END);
	gs_store_cursor_close(&c);
	gs_node_decoder_free(&d);
	return seen;
}

static void assert_all_once(const struct seen *seen, int from, int to)
{
	for (int i = 0; i < N_SECONDS; i++)
		if (seen->covered[i] != (i >= from && i < to))
			fail_msg("second %d is there %u times", i, seen->covered[i]);
}

/* --- tests --- */

static void test_means(void **state)
{
	struct gs_store *w = open_store(*state, GS_STORE_WRITE);
	struct gs_store *r = open_store(*state, GS_STORE_READ);
	int64_t a = stream_of(w, "a"), b = stream_of(w, "b");
	struct seen seen;

	fill(w, a, 0, N_SECONDS);
	fill(w, b, 100, 400);
	assert_int_equal(look(r, a).n_moments, N_SECONDS);
	/* 80 seconds a stretch; what ends behind `to` waits. */
	assert_true(scan_once(w, r, 450, 10, false) > 0);
	seen = look(r, a);
	assert_all_once(&seen, 0, N_SECONDS);
	assert_true(seen.n_coarse >= 37 && seen.n_coarse <= 46);
	assert_int_equal(seen.n_events, 1);
	assert_true(seen.n_batches < 8 + 240);
	seen = look(r, b);
	assert_all_once(&seen, 100, 400);
	/* Done is done. */
	assert_int_equal(scan_once(w, r, 450, 10, false), 0);
	assert_true(scan_once(w, r, 2 * N_SECONDS, 10, false) > 0);
	seen = look(r, a);
	assert_int_equal(seen.n_moments, 60);
	assert_int_equal(seen.n_samples, N_SECONDS);
	/* And means of means are means of what was measured. */
	assert_true(scan_once(w, r, 2 * N_SECONDS, 60, false) > 0);
	seen = look(r, a);
	assert_all_once(&seen, 0, N_SECONDS);
	assert_int_equal(seen.n_moments, 11); /* minutes begin elsewhere than T0 */
	assert_int_equal(seen.n_events, 1);
	assert_int_equal(scan_once(w, r, 2 * N_SECONDS, 60, false), 0);
	/* A finer level does not look at it again. */
	assert_int_equal(scan_once(w, r, 2 * N_SECONDS, 10, false), 0);
	gs_store_close(&r);
	gs_store_close(&w);
}

static void test_late(void **state)
{
	struct gs_store *w = open_store(*state, GS_STORE_WRITE);
	struct gs_store *r = open_store(*state, GS_STORE_READ);
	int64_t a = stream_of(w, "a");
	struct seen seen;

	/* A node that was away delivers the second half of each cell later. */
	assert_int_equal(gs_store_begin(w), 0);
	for (int i = 0, n = 0; i < 400; i++)
		if (i % 10 < 5)
			append(w, a, (uint64_t)++n, moment(i));
	assert_int_equal(gs_store_commit(w), 0);
	assert_true(scan_once(w, r, 2 * N_SECONDS, 10, false) > 0);
	assert_int_equal(look(r, a).n_moments, 40);
	fill(w, a, 400, 500);
	assert_true(scan_once(w, r, 2 * N_SECONDS, 10, false) > 0);
	seen = look(r, a);
	assert_int_equal(seen.n_samples, 300);
	assert_int_equal(seen.n_moments, 50);
	gs_store_close(&r);
	gs_store_close(&w);
}

/* As if the session had been from then to then. False: there is no sqlite3 to do it with. */
static bool move_session(const struct folder *f, int64_t from_ns, int64_t to_ns)
{
	char command[256];

	if (system("command -v sqlite3 >/dev/null") != 0)
		return false;
	snprintf(command, sizeof(command),
		 "sqlite3 %s/head.db 'UPDATE session SET state = 2, start_wall_ns = %lld, "
		 "end_wall_ns = %lld'",
		 f->path, (long long)from_ns, (long long)to_ns);
	assert_int_equal(system(command), 0);
	return true;
}

/* How many of what was measured stand at or after this time, by the head's clock. */
static unsigned count_since(struct gs_store *r, int64_t stream, int64_t head_ns)
{
	struct gs_store_range range = {
		.from_wall_ns = 0, .to_wall_ns = INT64_MAX, .stream = stream};
	struct gs_node_decoder *d = gs_node_decoder_new();
	struct gs_store_cursor *c = NULL;
	struct gs_store_found found;
	unsigned n = 0;

	assert_int_equal(gs_store_cursor_open(r, &range, &c), 0);
	while (gs_store_cursor_next(c, &found) == 0) {
		struct gs_rollup_mark mark = {0};

		gs_records_for_each (&found.records, record) {
			struct gs_node_snapshot *m = NULL;

			(void)gs_rollup_read(record, &mark);
			if (gs_node_decode(d, record, &m) != GS_NODE_WHOLE)
				continue;
			if (m->wall_ns + found.batch.clock_offset_ns >= head_ns)
				n += mark.n_samples ? mark.n_samples : 1;
			gs_node_snapshot_free(&m);
			mark = (struct gs_rollup_mark){0};
		}
	}
	gs_store_cursor_close(&c);
	gs_node_decoder_free(&d);
	return n;
}

/* A node's clock offset is measured again and again, and each measurement differs a little: no
 * sample may come into a session, or leave it, by that of another one. */
static void test_offsets_at_a_border(void **state)
{
	const int64_t border_ns = (T0 + 200) * S + 2000000;
	struct gs_store *w = open_store(*state, GS_STORE_WRITE);
	struct gs_store *r = open_store(*state, GS_STORE_READ);
	struct gs_store_session session = {.name = "all"};
	int64_t a = stream_of(w, "a");

	assert_int_equal(gs_store_begin(w), 0);
	for (int i = 0; i < 400; i++)
		append_at(w, a, (uint64_t)i + 1, moment(i), i <= 202 ? 1000000 : 3000000);
	assert_int_equal(gs_store_commit(w), 0);
	assert_int_equal(gs_store_session_start(w, &session), 0);
	gs_store_close(&w);
	if (!move_session(*state, border_ns, (T0 + 400) * S)) {
		gs_store_close(&r);
		skip();
	}
	w = open_store(*state, GS_STORE_WRITE);
	assert_int_equal(count_since(r, a, border_ns), 199);
	assert_true(scan_once(w, r, 2 * N_SECONDS, 2, true) > 0);
	assert_int_equal(count_since(r, a, INT64_MIN), 400);
	assert_int_equal(count_since(r, a, border_ns), 199);
	gs_store_close(&r);
	gs_store_close(&w);
}

static void test_sessions(void **state)
{
	struct gs_store *w = open_store(*state, GS_STORE_WRITE);
	struct gs_store *r = open_store(*state, GS_STORE_READ);
	struct gs_store_session session = {.name = "keep"};
	int64_t a = stream_of(w, "a");
	struct seen seen;

	fill(w, a, 0, 400);
	/* Begun now, which is later than all of it: covers nothing. */
	assert_int_equal(gs_store_session_start(w, &session), 0);
	assert_true(scan_once(w, r, 160, 10, false) > 0);
	seen = look(r, a);
	assert_true(seen.n_coarse > 0);
	gs_store_close(&w);
	if (!move_session(*state, (T0 + 200) * S, (T0 + 300) * S)) {
		gs_store_close(&r);
		skip();
	}
	w = open_store(*state, GS_STORE_WRITE);
	assert_true(scan_once(w, r, 2 * N_SECONDS, 10, false) > 0);
	seen = look(r, a);
	assert_all_once(&seen, 0, 400);
	assert_int_equal(seen.n_moments - seen.n_coarse, 100);
	/* Unless it is asked for. */
	assert_true(scan_once(w, r, 2 * N_SECONDS, 10, true) > 0);
	seen = look(r, a);
	assert_all_once(&seen, 0, 400);
	assert_int_equal(seen.n_moments, 40);
	gs_store_close(&r);
	gs_store_close(&w);
}

/* What comes and goes is not mixed. */
static void test_split(void **state)
{
	struct gs_store *w = open_store(*state, GS_STORE_WRITE);
	struct gs_store *r = open_store(*state, GS_STORE_READ);
	int64_t a = stream_of(w, "a");
	struct gs_node_snapshot *m;

	assert_int_equal(gs_store_begin(w), 0);
	for (int i = 0; i < 160; i++) {
		m = moment(i);
		if (i == 55)
			m->gpu->sample[1].lost = 1;
		append(w, a, (uint64_t)i + 1, m);
	}
	assert_int_equal(gs_store_commit(w), 0);
	assert_true(scan_once(w, r, 2 * N_SECONDS, 10, false) > 0);
	/* 16 cells, one of them in three. */
	{
		struct seen seen = look(r, a);

		assert_int_equal(seen.n_moments, 18);
		assert_all_once(&seen, 0, 160);
	}
	/* It is not tried again and again. */
	assert_int_equal(scan_once(w, r, 2 * N_SECONDS, 10, false), 0);
	gs_store_close(&r);
	gs_store_close(&w);
}

static void test_damaged_and_gone(void **state)
{
	struct gs_store *w = open_store(*state, GS_STORE_WRITE);
	struct gs_store *r = open_store(*state, GS_STORE_READ);
	int64_t a = stream_of(w, "a");
	struct gs_store_batch bad = {.seq = 500,
				     .first_wall_ns = (T0 + 15) * S + 1,
				     .last_wall_ns = (T0 + 15) * S + 1,
				     .clock_offset_ns = 1000,
				     .n_samples = 1,
				     .raw_bytes = 16,
				     .codec = GS_STORE_ZSTD,
				     .data = "nothing",
				     .bytes = 7};
	struct gs_store_scan_options o = {.size = sizeof(o),
					  .from_wall_ns = INT64_MIN,
					  .to_wall_ns = (T0 + N_SECONDS) * S,
					  .interval_ns = 10ull * S};
	struct gs_store_scan *scan = NULL;
	struct gs_store_piece *p = NULL;
	struct gs_store_usage usage;

	fill(w, a, 0, 80);
	assert_int_equal(gs_store_begin(w), 0);
	assert_int_equal(gs_store_append(w, a, &bad), 0);
	assert_int_equal(gs_store_commit(w), 0);
	assert_int_equal(gs_store_scan_new(r, &o, &scan), 0);
	assert_int_equal(gs_store_scan_next(scan, &p), 0);
	assert_int_equal(gs_store_replace(w, p), -EINVAL); /* not in a transaction */
	/* Retention was quicker: nothing of it is done. */
	assert_true(gs_store_expire(w, (T0 + 5) * S, 100) > 0);
	assert_int_equal(gs_store_begin(w), 0);
	assert_int_equal(gs_store_replace(w, p), -ESTALE);
	gs_store_rollback(w);
	gs_store_piece_free(&p);
	gs_store_scan_free(&scan);
	assert_true(scan_once(w, r, N_SECONDS, 10, false) > 0);
	assert_int_equal(gs_store_usage(r, &usage), 0);
	assert_true(usage.n_batches <= 4); /* two stretches, the damaged one among them */
	gs_store_close(&r);
	gs_store_close(&w);
}

/* Killed anywhere: each moment is there once. */
static void test_killed(void **state)
{
	struct gs_store *w = open_store(*state, GS_STORE_WRITE), *r;
	int64_t a = stream_of(w, "a");
	struct seen seen;

	fill(w, a, 0, N_SECONDS);
	gs_store_close(&w);
	for (int i = 0; i < 12; i++) {
		int fds[2];
		char byte;
		pid_t pid;

		assert_int_equal(pipe(fds), 0);
		pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			w = open_store(*state, GS_STORE_WRITE);
			r = open_store(*state, GS_STORE_READ);
			(void)!write(fds[1], "x", 1);
			scan_once(w, r, 2 * N_SECONDS, i < 6 ? 4 : 20, false);
			_exit(0);
		}
		close(fds[1]);
		assert_int_equal(read(fds[0], &byte, 1), 1);
		close(fds[0]);
		usleep((unsigned)i * 1500);
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		r = open_store(*state, GS_STORE_READ);
		seen = look(r, a);
		gs_store_close(&r);
		assert_all_once(&seen, 0, N_SECONDS);
		assert_int_equal(seen.n_events, 1);
	}
	w = open_store(*state, GS_STORE_WRITE);
	r = open_store(*state, GS_STORE_READ);
	scan_once(w, r, 2 * N_SECONDS, 20, false);
	seen = look(r, a);
	assert_all_once(&seen, 0, N_SECONDS);
	assert_int_equal(seen.n_moments, 30);
	gs_store_close(&r);
	gs_store_close(&w);
}

/* A record as a node might send it. */
static void test_mark(void **state)
{
	struct {
		struct gs_rec_rollup c;
		struct gs_rec_rollup_value v;
	} x = {.c = {.head = {.kind = GS_REC_ROLLUP, .bytes = sizeof(x)},
		     .interval_ns = 5,
		     .n_samples = 3,
		     .n_values = 1000},
	       .v = {.gpu = 0,
		     .key_hash = gs_gpu_key_hash("utilization_ratio"),
		     .n = 2,
		     .most = 1}};
	struct gs_rollup_mark mark;

	assert_true(gs_rollup_read(&x.c.head, &mark));
	assert_int_equal(mark.n_values, 0);
	assert_int_equal(gs_rollup_n(&mark, 0, GS_GPU_UTIL), 3);
	x.c.n_values = 1;
	assert_true(gs_rollup_read(&x.c.head, &mark));
	assert_int_equal(gs_rollup_n(&mark, 0, GS_GPU_UTIL), 2);
	assert_int_equal(gs_rollup_n(&mark, 1, GS_GPU_UTIL), 3);
	assert_true(gs_rollup_max(&mark, 0, GS_GPU_UTIL, 0.5) == 1);
	x.v.most = NAN;
	assert_true(gs_rollup_max(&mark, 0, GS_GPU_UTIL, 0.5) == 0.5);
	assert_int_equal(gs_rollup_n(NULL, 0, GS_GPU_UTIL), 1);
	x.c.n_samples = 0;
	assert_false(gs_rollup_read(&x.c.head, &mark));
	x.c.head.kind = GS_REC_HOST_JOB;
	assert_false(gs_rollup_read(&x.c.head, &mark));
	/* What is a mean and what is not. */
	assert_true(gs_rollup_is_mean(GS_GPU_UTIL));
	assert_false(gs_rollup_is_mean(GS_GPU_ENERGY));
	assert_false(gs_rollup_is_mean(GS_GPU_PCIE_GEN));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_means, folder_setup, folder_teardown),
		cmocka_unit_test_setup_teardown(test_late, folder_setup, folder_teardown),
		cmocka_unit_test_setup_teardown(test_sessions, folder_setup, folder_teardown),
		cmocka_unit_test_setup_teardown(test_offsets_at_a_border, folder_setup,
						folder_teardown),
		cmocka_unit_test_setup_teardown(test_split, folder_setup, folder_teardown),
		cmocka_unit_test_setup_teardown(test_damaged_and_gone, folder_setup,
						folder_teardown),
		cmocka_unit_test_setup_teardown(test_killed, folder_setup, folder_teardown),
		cmocka_unit_test(test_mark),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
