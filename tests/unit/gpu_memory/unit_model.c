/*
 * Random calls of several processes, threads and devices, and a model without any cleverness beside
 * the ledger: a list of all blocks that were ever given, over which every sum is made anew after each
 * call.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "unit/gpu_memory/calls.h"

#define N_PROCESSES 3
#define N_THREADS   2 /* of each */
#define N_DEVICES   2
#define N_ADDRESSES 40
#define N_CALLS     6000
#define PAGE        GS_MEMORY_PAGE_BYTES

struct block {
	bool live, ever_freed;
	uint64_t bytes;
	unsigned kind;
	uint32_t device;
	unsigned references, mappings;
};

struct sums {
	uint64_t live_bytes, live_blocks, peak_bytes, total_bytes, allocations, frees, mapped_bytes;
};

/* Kinds by the place where their addresses are numbers: a row of blocks each. */
enum place { AT_ADDRESS, AT_HOST, AT_ARRAY, AT_HANDLE, N_PLACES };

struct process {
	struct block blocks[N_PLACES][N_ADDRESSES];
	uint32_t handle_of[N_ADDRESSES]; /* of a mapping, and 1; 0: none is there */
	uint32_t device[N_THREADS];
	struct sums sums[N_DEVICES][GS_MEMORY_ON_HOST + 1];
	struct sums all, host;
	uint64_t double_frees, unknown_frees;
};

struct model {
	struct process p[N_PROCESSES];
	uint64_t random, now_ns;
};

static uint32_t dice(struct model *m, uint32_t n)
{
	m->random = m->random * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(m->random >> 33) % n;
}

static enum place place_of(unsigned kind)
{
	return kind == GS_MEMORY_VIRTUAL                                  ? AT_HANDLE
	       : kind == GS_MEMORY_ARRAY                                  ? AT_ARRAY
	       : kind == GS_MEMORY_PINNED || kind == GS_MEMORY_REGISTERED ? AT_HOST
									  : AT_ADDRESS;
}

/* Two to a page, so that some share one; those of a device apart from those of the others. */
#define GROUP 8

static uint64_t address_of(uint32_t i)
{
	return 0x7f0000000000 + PAGE / 2 * i + i / GROUP * 2 * PAGE;
}

static uint64_t mapping_at(uint32_t i)
{
	return 0x7e0000000000 + PAGE * i;
}

static const char *const alloc_names[] = {
	[GS_MEMORY_DEVICE] = "cudaMalloc",         [GS_MEMORY_PITCHED] = "cudaMallocPitch",
	[GS_MEMORY_ARRAY] = "cudaMallocArray",     [GS_MEMORY_POOL] = "cudaMallocAsync",
	[GS_MEMORY_MANAGED] = "cudaMallocManaged", [GS_MEMORY_VIRTUAL] = "cuMemCreate",
	[GS_MEMORY_PINNED] = "cudaHostAlloc",      [GS_MEMORY_REGISTERED] = "cudaHostRegister"};

static const char *const free_names[] = {[AT_ADDRESS] = "cudaFree",
					 [AT_HOST] = "cudaFreeHost",
					 [AT_ARRAY] = "cudaFreeArray",
					 [AT_HANDLE] = "cuMemRelease"};

static void clear_live(struct sums *s)
{
	s->live_bytes = s->live_blocks = s->mapped_bytes = 0;
}

static void add_live(struct sums *s, const struct block *b)
{
	s->live_bytes += b->bytes;
	s->live_blocks++;
	s->mapped_bytes += b->mappings * b->bytes;
}

static void see_peak(struct sums *s)
{
	if (s->live_bytes > s->peak_bytes)
		s->peak_bytes = s->live_bytes;
}

static bool is_of_host(unsigned kind)
{
	return place_of(kind) == AT_HOST;
}

/* All sums from the list. */
static void add_up(struct process *p)
{
	clear_live(&p->all);
	clear_live(&p->host);
	for (uint32_t d = 0; d < N_DEVICES; d++)
		for (unsigned k = 0; k <= GS_MEMORY_ON_HOST; k++)
			clear_live(&p->sums[d][k]);
	for (unsigned place = 0; place < N_PLACES; place++)
		for (uint32_t i = 0; i < N_ADDRESSES; i++) {
			const struct block *b = &p->blocks[place][i];

			if (!b->live)
				continue;
			add_live(is_of_host(b->kind) ? &p->host : &p->all, b);
			add_live(&p->sums[b->device][b->kind], b);
			if (!is_of_host(b->kind))
				add_live(&p->sums[b->device][GS_MEMORY_ON_DEVICE], b);
		}
	see_peak(&p->all);
	see_peak(&p->host);
	for (uint32_t d = 0; d < N_DEVICES; d++)
		for (unsigned k = 0; k <= GS_MEMORY_ON_HOST; k++)
			see_peak(&p->sums[d][k]);
}

static uint64_t pages_of(const struct process *p, uint32_t device)
{
	uint64_t n = 0;

	for (uint32_t page = 0; page < N_ADDRESSES + 2 * GROUP; page++) {
		uint64_t from = 0x7f0000000000 + PAGE * page;
		bool used = false;

		for (uint32_t i = 0; i < N_ADDRESSES; i++) {
			const struct block *b = &p->blocks[AT_ADDRESS][i];

			used |= b->live && b->device == device &&
				(b->kind == GS_MEMORY_DEVICE || b->kind == GS_MEMORY_PITCHED) &&
				address_of(i) < from + PAGE && address_of(i) + b->bytes > from;
		}
		n += used;
	}
	return n * PAGE;
}

/* The sums that a block of that kind and device counts for. */
static void count_alloc(struct process *p, const struct block *b)
{
	struct sums *s[3] = {&p->sums[b->device][b->kind], is_of_host(b->kind) ? &p->host : &p->all,
			     is_of_host(b->kind) ? NULL : &p->sums[b->device][GS_MEMORY_ON_DEVICE]};

	for (unsigned i = 0; i < 3 && s[i]; i++) {
		s[i]->allocations++;
		s[i]->total_bytes += b->bytes;
	}
}

static void count_free(struct process *p, const struct block *b)
{
	p->sums[b->device][b->kind].frees++;
	(is_of_host(b->kind) ? &p->host : &p->all)->frees++;
	if (!is_of_host(b->kind))
		p->sums[b->device][GS_MEMORY_ON_DEVICE].frees++;
}

static void free_block(struct process *p, struct block *b)
{
	count_free(p, b);
	b->live = false;
	b->ever_freed = true;
}

static void do_alloc(struct model *m, struct gs_memory *ledger, uint32_t n, uint32_t thread)
{
	struct process *p = &m->p[n];
	unsigned kind = 1 + dice(m, GS_MEMORY_REGISTERED);
	uint32_t i = dice(m, N_ADDRESSES);
	struct block *b = &p->blocks[place_of(kind)][i];
	struct call c = call_of(alloc_names[kind], n + 1, m->now_ns, address_of(i), 0);

	if (b->live || (place_of(kind) == AT_ADDRESS && i / GROUP % N_DEVICES != p->device[thread]))
		return;
	c.r.bytes = 1 + dice(m, 3 * PAGE / 2);
	c.r.thread += thread;
	*b = (struct block){.live = true,
			    .ever_freed = b->ever_freed,
			    .bytes = c.r.bytes,
			    .kind = kind,
			    .device = is_of_host(kind) ? 0 : p->device[thread],
			    .references = 1};
	count_alloc(p, b);
	assert_int_equal(take_call(ledger, &c), 0);
}

static void do_free(struct model *m, struct gs_memory *ledger, uint32_t n, uint32_t thread)
{
	struct process *p = &m->p[n];
	enum place place = dice(m, N_PLACES);
	uint32_t i = dice(m, N_ADDRESSES);
	struct block *b = &p->blocks[place][i];
	struct call c = call_of(free_names[place], n + 1, m->now_ns, address_of(i), 0);
	uint64_t expected = 0;

	c.r.thread += thread;
	c.r.failed = dice(m, 8) == 0;
	c.r.ret = c.r.failed;
	if (!b->live || (place == AT_HANDLE && !b->references)) {
		p->double_frees += b->ever_freed;
		p->unknown_frees += !b->ever_freed;
	} else if (!c.r.failed && (place != AT_HANDLE || (--b->references == 0 && !b->mappings))) {
		expected = b->bytes;
		free_block(p, b);
	}
	assert_int_equal(take_call(ledger, &c), expected);
}

static void do_map(struct model *m, struct gs_memory *ledger, uint32_t n)
{
	struct process *p = &m->p[n];
	uint32_t at = dice(m, N_ADDRESSES), i = dice(m, N_ADDRESSES);
	struct block *b = &p->blocks[AT_HANDLE][i];

	if (p->handle_of[at] || !b->live || !b->references)
		return;
	p->handle_of[at] = i + 1;
	b->mappings++;
	map(ledger, n + 1, m->now_ns, mapping_at(at), b->bytes, address_of(i));
}

static void do_unmap(struct model *m, struct gs_memory *ledger, uint32_t n)
{
	struct process *p = &m->p[n];
	uint32_t at = dice(m, N_ADDRESSES);
	struct block *b;

	if (!p->handle_of[at])
		return;
	b = &p->blocks[AT_HANDLE][p->handle_of[at] - 1];
	p->handle_of[at] = 0;
	call(ledger, "cuMemUnmap", n + 1, m->now_ns, mapping_at(at), b->bytes);
	if (--b->mappings == 0 && !b->references)
		free_block(p, b);
}

static void do_reset(struct model *m, struct gs_memory *ledger, uint32_t n)
{
	struct process *p = &m->p[n];
	uint32_t device = dice(m, N_DEVICES);
	struct call c = call_of("cuDevicePrimaryCtxReset", n + 1, m->now_ns, 0, 0);

	c.r.aux = device;
	for (uint32_t i = 0; i < N_ADDRESSES; i++) {
		struct block *b = &p->blocks[AT_ADDRESS][i], *a = &p->blocks[AT_ARRAY][i];

		b->live &= b->device != device;
		a->live &= a->device != device;
	}
	take_call(ledger, &c);
}

static void do_exec(struct model *m, struct gs_memory *ledger, uint32_t n)
{
	struct process *p = &m->p[n];

	for (unsigned place = 0; place < N_PLACES; place++)
		for (uint32_t i = 0; i < N_ADDRESSES; i++) {
			p->blocks[place][i].live = false;
			p->blocks[place][i].mappings = 0;
		}
	memset(p->handle_of, 0, sizeof(p->handle_of));
	memset(p->device, 0, sizeof(p->device));
	gs_memory_drop_process(ledger, n + 1);
}

static void compare_sums(struct gs_rec_memory is, const struct sums *s)
{
	assert_int_equal(is.live_bytes, s->live_bytes);
	assert_int_equal(is.live_blocks, s->live_blocks);
	assert_int_equal(is.peak_bytes, s->peak_bytes);
	assert_int_equal(is.total_bytes, s->total_bytes);
	assert_int_equal(is.allocations, s->allocations);
	assert_int_equal(is.frees, s->frees);
	assert_int_equal(is.mapped_bytes, s->mapped_bytes);
}

static void compare_all(const struct model *m, const struct gs_memory *ledger)
{
	for (uint32_t n = 0; n < N_PROCESSES; n++) {
		const struct process *p = &m->p[n];

		compare_sums(ALL_OF(ledger, n + 1), &p->all);
		compare_sums(HOST_OF(ledger, n + 1), &p->host);
		for (uint32_t d = 0; d < N_DEVICES; d++) {
			struct gs_rec_memory s = sum_of(ledger, n + 1, d, GS_MEMORY_ON_DEVICE);

			for (unsigned k = GS_MEMORY_DEVICE; k <= GS_MEMORY_VIRTUAL; k++)
				compare_sums(sum_of(ledger, n + 1, d, k), &p->sums[d][k]);
			compare_sums(s, &p->sums[d][GS_MEMORY_ON_DEVICE]);
			assert_int_equal(s.page_bytes, pages_of(p, d));
		}
		/* Freed addresses are remembered by their hash: some are forgotten. */
		assert_int_equal(ALL_OF(ledger, n + 1).double_frees +
					 ALL_OF(ledger, n + 1).unknown_frees +
					 ALL_OF(ledger, n + 1).bad_frees,
				 p->double_frees + p->unknown_frees);
		assert_in_range(ALL_OF(ledger, n + 1).double_frees, p->double_frees * 9 / 10,
				p->double_frees);
		assert_int_equal(ALL_OF(ledger, n + 1).unseen_frees, 0);
	}
}

static void run_script(uint64_t random)
{
	static struct model m;
	LEDGER *ledger = new_ledger();

	m = (struct model){.random = random, .now_ns = 100};
	for (unsigned i = 0; i < N_CALLS; i++, m.now_ns += 10) {
		uint32_t n = dice(&m, N_PROCESSES), thread = dice(&m, N_THREADS), what;

		what = dice(&m, 1000);
		if (what < 400) {
			do_alloc(&m, ledger, n, thread);
		} else if (what < 700) {
			do_free(&m, ledger, n, thread);
		} else if (what < 830) {
			do_map(&m, ledger, n);
		} else if (what < 930) {
			do_unmap(&m, ledger, n);
		} else if (what < 990) {
			m.p[n].device[thread] = dice(&m, N_DEVICES);
			gs_memory_set_device(ledger, n + 1, 10 * (n + 1) + thread,
					     m.p[n].device[thread]);
		} else if (what < 997) {
			do_reset(&m, ledger, n);
		} else {
			do_exec(&m, ledger, n);
		}
		add_up(&m.p[n]);
		if (i % 50 == 49)
			compare_all(&m, ledger);
	}
}

static void agrees_with_the_model(void **state)
{
	for (uint64_t random = 1; random <= 12; random++)
		run_script(random);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(agrees_with_the_model)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
