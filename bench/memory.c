/*
 * What the ledger of memory costs: ns of processor time for an allocation and for its free, and bytes
 * of memory for each live allocation. Usage: memory [N_LIVE] [ROUNDS]
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/base/mem.h"
#include "model/trace/func.h"
#include "pipeline/gpu_memory/gpu_memory.h"

#define BASE 0x7f0000000000ull

struct load {
	const char *name;
	const char *alloc, *free;
	uint64_t bytes, apart; /* of a block, and between two */
	uint32_t n_sites;
};

static const struct load loads[] = {
	{"512 bytes, one call site", "cudaMalloc", "cudaFree", 512, 512, 1},
	{"3 MiB, each in pages of its own", "cudaMalloc", "cudaFree", 3u << 20, 4u << 20, 1},
	{"512 bytes of a pool, 1,000 call sites", "cudaMallocAsync", "cudaFreeAsync", 512, 512,
	 1000},
	{"2 MiB of physical memory", "cuMemCreate", "cuMemRelease", 2u << 20, 16, 1},
};

struct step {
	struct gs_rec_call call;
	struct gs_memory_function function;
};

static struct step make_step(const char *name, uint64_t bytes)
{
	const struct gs_func *f = gs_func_by_name(name);

	if (!f)
		abort();
	return (struct step){.call = {.thread = 1, .function = f->id, .dur_ns = 10, .bytes = bytes},
			     .function = gs_memory_function_of(f->desc.layer, f->desc.op, name)};
}

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static size_t used_bytes(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

/* Of all processes, by the ledger's records. */
static uint64_t live_bytes(const struct gs_memory *m)
{
	struct gs_buf out GS_CLEANUP(gs_buf_fini) = GS_BUF_INIT(1u << 30);
	struct gs_batch batch;
	uint64_t bytes = 0;

	if (gs_memory_put_records(m, &out) < 0)
		return 0;
	batch = (struct gs_batch){out.data, out.bytes};
	gs_records_for_each (&batch, r)
		if (r->kind == GS_REC_MEMORY_SITE)
			bytes += ((const struct gs_rec_memory_site *)r)->live_bytes;
	return bytes;
}

static void take_all(struct gs_memory *m, struct step *s, const struct load *load, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		/* As an allocator would: not one after the other. */
		uint64_t at = (i * 0x9e3779b1ull) % n;

		s->call.start_ns = 20 * i;
		s->call.arg[0] = BASE + at * load->apart;
		s->call.scope = 1 + (uint32_t)(at % load->n_sites);
		gs_memory_take(m, 1, &s->call, s->function);
	}
}

static int measure_load(const struct load *load, uint64_t n_live, unsigned rounds)
{
	struct step alloc = make_step(load->alloc, load->bytes), release = make_step(load->free, 0);
	uint64_t alloc_ns = 0, free_ns = 0, start_ns;
	size_t before = used_bytes(), after = 0;
	struct gs_memory *m = NULL;

	if (gs_memory_new(&m) < 0)
		return -1;
	for (unsigned i = 0; i <= rounds; i++) {
		start_ns = cpu_ns();
		take_all(m, &alloc, load, n_live);
		if (i) /* the first one makes the tables */
			alloc_ns += cpu_ns() - start_ns;
		if (live_bytes(m) != n_live * load->bytes)
			return -1;
		after = used_bytes();
		start_ns = cpu_ns();
		take_all(m, &release, load, n_live);
		if (i)
			free_ns += cpu_ns() - start_ns;
	}
	printf("%-40s %6.1f ns an allocation, %6.1f ns a free, %6.1f bytes a live block\n",
	       load->name, (double)alloc_ns / (double)(n_live * rounds),
	       (double)free_ns / (double)(n_live * rounds),
	       (double)(after - before) / (double)n_live);
	gs_memory_free(&m);
	return 0;
}

int main(int argc, char **argv)
{
	/* Odd, so that the order above meets each once. */
	uint64_t n_live = argc > 1 ? strtoull(argv[1], NULL, 10) | 1 : GS_MEMORY_MAX_BLOCKS - 1;
	unsigned rounds = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 5;

	for (size_t i = 0; i < GS_ARRAY_LEN(loads); i++)
		if (measure_load(&loads[i], n_live, rounds ? rounds : 1) < 0) {
			fprintf(stderr, "memory: %s: the ledger is wrong\n", loads[i].name);
			return 1;
		}
	return 0;
}
