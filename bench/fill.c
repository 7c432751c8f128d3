/*
 * fill: puts made-up calls of this process into the ring of a running gpuscope at a rate, to find
 * out how many its consumer can take. Prints one JSON object.
 *
 *   fill GPUSCOPE_PID RATE SECONDS
 *
 * Eight calls are repeated: four launches, two copies, an allocation and its release.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "core/base/mem.h"
#include "model/trace/event.h"
#include "model/trace/func.h"

#include "fill.skel.h"

#define STEP_NS 1000000

static int die(const char *what, int error)
{
	fprintf(stderr, "fill: %s: %s\n", what, strerror(error));
	exit(1);
}

/* The map called gs_ring whose number is among the descriptors of that process. */
static int ring_of(const char *pid, uint32_t *ret_bytes)
{
	for (int i = 3; i < 256; i++) {
		struct bpf_map_info info = {0};
		uint32_t bytes = sizeof(info), id = 0;
		char path[64], line[128];
		GS_FCLOSE FILE *f = NULL;
		int fd;

		snprintf(path, sizeof(path), "/proc/%s/fdinfo/%d", pid, i);
		f = fopen(path, "re");
		while (f && fgets(line, sizeof(line), f))
			if (sscanf(line, "map_id: %u", &id) == 1)
				break;
		fd = id ? bpf_map_get_fd_by_id(id) : -1;
		if (fd >= 0 && bpf_obj_get_info_by_fd(fd, &info, &bytes) == 0 &&
		    strcmp(info.name, "gs_ring") == 0) {
			*ret_bytes = info.max_entries;
			return fd;
		}
		if (fd >= 0)
			close(fd);
	}
	return die("that process has no ring", ENOENT);
}

static void make_templates(struct gs_event_call *t)
{
	static const char *const names[] = {
		"cudaLaunchKernel", "cudaMallocAsync", "cudaLaunchKernel", "cudaMemcpyAsync",
		"cudaLaunchKernel", "cudaFreeAsync",   "cudaLaunchKernel", "cudaMemcpyAsync"};

	for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
		uint64_t one = 1;

		t[i] = (struct gs_event_call){
			.head = {.kind = GS_EV_CALL, .bytes = sizeof(*t)},
			.dur_ns = 300 + 17 * i,
			.pid = (uint32_t)getpid(),
			.tid = (uint32_t)getpid(),
			.func = gs_func_by_name(names[i])->id,
			.stream = 0x55d000001000,
			.bytes = names[i][4] == 'M' ? 4096 : 0,
			.aux = names[i][4] == 'M' ? 1 : 0,
			.arg = {0x7d0000000000, 64 | one << 32, 1 | 256 * one << 32, 1 | one << 32},
		};
	}
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

int main(int argc, char **argv)
{
	struct fill_bpf *s = fill_bpf__open();
	uint64_t rate = argc > 3 ? strtoull(argv[2], NULL, 0) : 0, start_ns, due, done = 0,
		 busy = 0;
	uint64_t total = argc > 3 ? rate * strtoull(argv[3], NULL, 0) : 0;
	uint32_t bytes;
	int ring, r;

	if (!total || !s) {
		fprintf(stderr, "fill GPUSCOPE_PID RATE SECONDS\n");
		return 2;
	}
	ring = ring_of(argv[1], &bytes);
	r = bpf_map__set_max_entries(s->maps.gs_ring, bytes);
	if (r == 0)
		r = bpf_map__reuse_fd(s->maps.gs_ring, ring);
	if (r == 0)
		r = fill_bpf__load(s);
	if (r < 0)
		die("load", -r);
	make_templates(s->bss->templates);
	start_ns = now_ns();
	for (due = start_ns; done < total; due += STEP_NS) {
		struct timespec at = {(time_t)(due / 1000000000), (long)(due % 1000000000)};
		uint32_t n =
			(uint32_t)((due - start_ns + STEP_NS) / 1e9 * (double)rate - (double)done);
		LIBBPF_OPTS(bpf_test_run_opts, opts, .ctx_in = &n, .ctx_size_in = sizeof(n));
		uint64_t from;

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
		from = now_ns();
		r = bpf_prog_test_run_opts(bpf_program__fd(s->progs.fill), &opts);
		if (r < 0)
			die("run", -r);
		busy += now_ns() - from;
		done += n;
	}
	printf("{\"rate\":%llu,\"sent\":%llu,\"lost\":%llu,\"per_s\":%.0f,\"busy\":%.2f}\n",
	       (unsigned long long)rate, (unsigned long long)s->bss->n_sent,
	       (unsigned long long)s->bss->n_lost,
	       (double)done / ((double)(now_ns() - start_ns) / 1e9),
	       (double)busy / (double)(now_ns() - start_ns));
	fill_bpf__destroy(s);
	return 0;
}
