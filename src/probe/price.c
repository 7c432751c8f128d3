#include "probe/price.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "model/func.h"
#include "probe/probe_int.h"

#define ROUNDS 9
#define CALLS  800

/* A function as most are: a byte that the kernel emulates, where the probe stands. */
int gs_price_target(int x);
__asm__(".text\n"
	".p2align 4\n"
	".globl gs_price_target\n"
	".hidden gs_price_target\n"
	".type gs_price_target, @function\n"
	"gs_price_target:\n"
	"	push %rbp\n"
	"	mov %rsp, %rbp\n"
	"	lea 1(%rdi), %eax\n"
	"	pop %rbp\n"
	"	ret\n"
	".size gs_price_target, .-gs_price_target\n");

/* Where in our own file it is. */
static int offset_of_target(uint64_t *ret_off)
{
	uint64_t at = (uintptr_t)gs_price_target, from, to, off;
	GS_FCLOSE FILE *f = fopen("/proc/self/maps", "re");
	char line[512];

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64, &from, &to, &off) == 3 &&
		    at >= from && at < to) {
			*ret_off = at - from + off;
			return 0;
		}
	}
	return -ENOENT;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* The median of some rounds, each short enough not to be disturbed often. */
static double measure(struct ring_buffer *ring)
{
	double ns[ROUNDS];

	for (int i = 0; i < ROUNDS; i++) {
		uint64_t start = gs_clock_mono_ns();
		volatile int x = 0;

		for (int k = 0; k < CALLS; k++)
			x = gs_price_target(x);
		ns[i] = (double)(gs_clock_mono_ns() - start) / CALLS;
		if (ring)
			ring_buffer__consume(ring);
	}
	qsort(ns, ROUNDS, sizeof(*ns), by_size);
	return ns[ROUNDS / 2];
}

int gs_price_measure(unsigned avoid, bool events, struct gs_prices *ret_prices, struct gs_err *err)
{
	const struct gs_func *func = gs_func_by_name("cudaLaunchKernel");
	struct gs_kernel_config config = {
		.filter = GS_FILTER_ALL, .events = events, .modes = 1, .n_cells = GS_CELL_MAX};
	struct place place = {.func = func->id, .family = FAMILY_CUDA};
	struct kernel_side k = {0};
	struct links links = {0};
	struct features features;
	double none;
	int status, r;

	r = features_detect(avoid, &features, err);
	if (r == 0)
		r = offset_of_target(&place.file_off);
	config.task_storage = features.task_storage;
	if (r == 0)
		r = kernel_load_alone(&k, &config, &features);
	if (r < 0)
		return gs_err_set(err, r, "the price of a probe could not be measured: %s",
				  strerror(-r));
	none = measure(NULL);
	r = links_attach(&links, &k, &features, FAMILY_CUDA, "/proc/self/exe", getpid(), &place, 1,
			 &status);
	for (unsigned mode = 0; r > 0 && mode < GS_MODE_N; mode++) {
		double ns;

		k.modes->mode[func->id] = (uint8_t)mode;
		ns = measure(k.ring) - none;
		ret_prices->ns[mode] = ns > 1 ? ns : 1;
	}
	links_close(&links);
	kernel_unload(&k);
	if (r <= 0)
		return gs_err_set(err, r ? r : -EIO, "the price of a probe could not be measured");
	return 0;
}
