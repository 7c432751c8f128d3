/*
 * What a trace writer costs: ns of processor time and bytes a call, for the calls of a training
 * loop (launches, copies, collectives) and for each of these alone. Usage: bench_export [FOLDER
 * [N_CALLS]]
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "output/trace_export/export.h"
#include "golden/sample_stream.h"

#define BATCH_CALLS 1000

static const uint32_t mixed[] = {SAMPLE_FUNC_LAUNCH, SAMPLE_FUNC_LAUNCH, SAMPLE_FUNC_LAUNCH,
				 SAMPLE_FUNC_LAUNCH, SAMPLE_FUNC_COPY,   SAMPLE_FUNC_LAUNCH,
				 SAMPLE_FUNC_SYNC,   SAMPLE_FUNC_LAUNCH, SAMPLE_FUNC_ALLREDUCE,
				 SAMPLE_FUNC_MALLOC};
static const uint32_t launches[] = {SAMPLE_FUNC_LAUNCH};
static const uint32_t copies[] = {SAMPLE_FUNC_COPY};
static const uint32_t collectives[] = {SAMPLE_FUNC_ALLREDUCE};

static const struct {
	const char *name;
	const uint32_t *funcs;
	size_t n;
} loads[] = {{"mixed", mixed, GS_ARRAY_LEN(mixed)},
	     {"launch", launches, 1},
	     {"copy", copies, 1},
	     {"collective", collectives, 1}};

static int fill(struct gs_buf *buf, const uint32_t *funcs, size_t n)
{
	for (unsigned i = 0; i < BATCH_CALLS; i++) {
		struct gs_rec_call *c = sample_put_call(buf, 1 + i % 3, funcs[i % n],
							sample_t(1000 + 10 * i), 3456, 0);

		if (!c)
			return -1;
		c->bytes = 1 << 20;
		c->stream = 0x55d000000100;
		if (funcs[i % n] == SAMPLE_FUNC_LAUNCH) {
			c->arg[0] = 0x55d0c0de0000 + 16 * (i % 64);
			c->arg[1] = (128 + i % 64) | 2ull << 32;
			c->arg[2] = 1 | 256ull << 32;
			c->arg[3] = 1 | 1ull << 32;
		} else {
			c->arg[0] = 0x7f0000001000;
			c->arg[1] = 0x55d0000c0330;
			c->aux = funcs[i % n] == SAMPLE_FUNC_ALLREDUCE ? 7 | 0xffffu << 16 : 1;
		}
	}
	return 0;
}

/* Of this process, the kernel's part of writing included: others on the machine do not count. */
static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static int measure(const char *path, size_t load, unsigned long n_calls)
{
	struct gs_buf head = GS_BUF_INIT(1 << 20), calls = GS_BUF_INIT(1 << 20);
	struct gs_export *e = NULL;
	struct gs_err err = {{0}};
	unsigned long done = 0;
	struct stat st;
	uint64_t ns;
	int r;

	if (sample_session(&head) || sample_entities(&head) || sample_calls_nccl(&head) ||
	    fill(&calls, loads[load].funcs, loads[load].n))
		return -1;
	r = gs_export_open(path, NULL, &e, &err);
	if (r == 0) {
		const struct gs_sink *s = gs_export_sink(e);

		r = s->push(s->ctx, &(struct gs_batch){head.data, head.bytes});
		ns = cpu_ns();
		for (; r == 0 && done < n_calls; done += BATCH_CALLS)
			r = s->push(s->ctx, &(struct gs_batch){calls.data, calls.bytes});
		ns = cpu_ns() - ns;
		if (r == 0)
			r = gs_export_close(&e, &err);
		else
			gs_export_close(&e, &err);
	}
	if (r == 0 && stat(path, &st) == 0)
		printf("%-40s %-10s %7.1f ns/call %7.1f bytes/call\n", path, loads[load].name,
		       (double)ns / (double)done, (double)st.st_size / (double)done);
	else
		fprintf(stderr, "%s: %s\n", path, gs_err_text(&err, r));
	gs_buf_fini(&head);
	gs_buf_fini(&calls);
	return r;
}

int main(int argc, char **argv)
{
	static const char *const suffixes[] = {".pftrace", ".json", ".csv"};
	const char *folder = argc > 1 ? argv[1] : "/tmp";
	unsigned long n_calls = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000000;
	char path[4096];
	int r = 0;

	for (size_t i = 0; i < GS_ARRAY_LEN(suffixes) && r == 0; i++) {
		snprintf(path, sizeof(path), "%s/bench_export%s", folder, suffixes[i]);
		for (size_t load = 0; load < GS_ARRAY_LEN(loads) && r == 0; load++)
			r = measure(path, load, n_calls);
		unlink(path);
	}
	return r == 0 ? 0 : 1;
}
