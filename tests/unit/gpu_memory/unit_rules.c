/* The rules of pipeline/gpu_memory/gpu_memory.h, by calls with known answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "unit/gpu_memory/calls.h"

#define MIB 1048576ull

static void every_function_has_a_meaning(void **state)
{
	static const struct {
		const char *name;
		unsigned verb, kind;
	} known[] = {
		{"cudaMalloc", GS_MEMORY_ALLOC, GS_MEMORY_DEVICE},
		{"cuMemAlloc_v2", GS_MEMORY_ALLOC, GS_MEMORY_DEVICE},
		{"cudaMallocPitch", GS_MEMORY_ALLOC, GS_MEMORY_PITCHED},
		{"cuMemAllocPitch_v2", GS_MEMORY_ALLOC, GS_MEMORY_PITCHED},
		{"cudaMalloc3D", GS_MEMORY_ALLOC, GS_MEMORY_PITCHED},
		{"cudaMalloc3DArray", GS_MEMORY_ALLOC, GS_MEMORY_ARRAY},
		{"cudaMallocArray", GS_MEMORY_ALLOC, GS_MEMORY_ARRAY},
		{"cudaMallocMipmappedArray", GS_MEMORY_ALLOC, GS_MEMORY_ARRAY},
		{"cudaMallocAsync", GS_MEMORY_ALLOC, GS_MEMORY_POOL},
		{"cudaMallocFromPoolAsync_ptsz", GS_MEMORY_ALLOC, GS_MEMORY_POOL},
		{"cuMemAllocFromPoolAsync", GS_MEMORY_ALLOC, GS_MEMORY_POOL},
		{"cuMemAllocManaged", GS_MEMORY_ALLOC, GS_MEMORY_MANAGED},
		{"cuMemCreate", GS_MEMORY_ALLOC, GS_MEMORY_VIRTUAL},
		{"cudaHostAlloc", GS_MEMORY_ALLOC, GS_MEMORY_PINNED},
		{"cuMemAllocHost_v2", GS_MEMORY_ALLOC, GS_MEMORY_PINNED},
		{"cudaHostRegister", GS_MEMORY_ALLOC, GS_MEMORY_REGISTERED},
		{"cuMemHostRegister_v2", GS_MEMORY_ALLOC, GS_MEMORY_REGISTERED},
		{"ncclMemAlloc", GS_MEMORY_ALLOC_NCCL, GS_MEMORY_DEVICE},
		{"cudaFree", GS_MEMORY_FREE, GS_MEMORY_DEVICE},
		{"cuMemFreeAsync_ptsz", GS_MEMORY_FREE, GS_MEMORY_DEVICE},
		{"cudaFreeHost", GS_MEMORY_FREE, GS_MEMORY_PINNED},
		{"cuMemHostUnregister", GS_MEMORY_FREE, GS_MEMORY_PINNED},
		{"cudaFreeMipmappedArray", GS_MEMORY_FREE, GS_MEMORY_ARRAY},
		{"ncclMemFree", GS_MEMORY_FREE_NCCL, GS_MEMORY_DEVICE},
		{"cuMemRelease", GS_MEMORY_RELEASE, GS_MEMORY_DEVICE},
		{"cuMemMap", GS_MEMORY_MAP, 0},
		{"cuMemUnmap", GS_MEMORY_UNMAP, 0},
		{"cuMemRetainAllocationHandle", GS_MEMORY_RETAIN, 0},
		{"cuMemAddressReserve", GS_MEMORY_RESERVE, 0},
		{"cuMemAddressFree", GS_MEMORY_UNRESERVE, 0},
		{"cuMemSetAccess", GS_MEMORY_NOTHING, 0},
		{"cudaSetDevice", GS_MEMORY_NOTHING, 0},
		{"cudaDeviceReset", GS_MEMORY_RESET, 0},
		{"cudaMemcpyAsync", GS_MEMORY_NOTHING, 0},
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(known); i++) {
		struct call c = call_of(known[i].name, 1, 10, 0, 0);

		if (c.f.verb != known[i].verb || c.f.kind != known[i].kind)
			fail_msg("%s: verb %u, kind %u", known[i].name, c.f.verb, c.f.kind);
	}
	for (unsigned id = 1; id <= gs_func_count(); id++) {
		const struct gs_func *f = gs_func_by_id(id);
		struct gs_memory_function m =
			gs_memory_function_of(f->desc.layer, f->desc.op, f->name);
		bool is_memory = f->desc.op == GS_CLASS_ALLOC || f->desc.op == GS_CLASS_FREE;

		if (is_memory && m.verb == GS_MEMORY_NOTHING)
			fail_msg("%s is not known", f->name);
	}
	assert_int_equal(
		gs_memory_function_of(GS_LAYER_TORCH_MEM, GS_CLASS_ALLOC, "pytorch:malloc").verb,
		GS_MEMORY_NOTHING);
}

static void kinds_and_devices_are_apart(void **state)
{
	LEDGER *m = new_ledger();

	call(m, "cudaMalloc", 1, 10, 0x1000, 100);
	call(m, "cudaMallocAsync", 1, 20, 0x2000, 30);
	set_device(m, 1, 1);
	call(m, "cudaMalloc", 1, 30, 0x3000, 7);
	call(m, "cudaMallocHost", 1, 40, 0x3000, 5); /* the same number, elsewhere */
	call(m, "cudaMallocArray", 1, 50, 0x3000, 3);
	call(m, "cudaHostRegister", 1, 60, 0x4000, 2);
	call(m, "cudaMalloc", 2, 70, 0x1000, 1000);
	assert_int_equal(sum_of(m, 1, 0, GS_MEMORY_DEVICE).live_bytes, 100);
	assert_int_equal(sum_of(m, 1, 0, GS_MEMORY_POOL).live_bytes, 30);
	assert_int_equal(sum_of(m, 1, 1, GS_MEMORY_DEVICE).live_bytes, 7);
	assert_int_equal(sum_of(m, 1, 1, GS_MEMORY_ARRAY).live_bytes, 3);
	assert_int_equal(sum_of(m, 1, 0, GS_MEMORY_ON_DEVICE).live_bytes, 130);
	assert_int_equal(sum_of(m, 1, 1, GS_MEMORY_ON_DEVICE).live_bytes, 10);
	assert_int_equal(ALL_OF(m, 1).live_bytes, 140);
	assert_int_equal(HOST_OF(m, 1).live_bytes, 7);
	assert_int_equal(ALL_OF(m, 2).live_bytes, 1000);

	/* Freed by another thread, which is on another device. */
	set_device(m, 1, 0);
	assert_int_equal(call(m, "cudaFreeAsync", 1, 80, 0x3000, 0), 7);
	assert_int_equal(call(m, "cudaFreeArray", 1, 81, 0x3000, 0), 3);
	assert_int_equal(call(m, "cudaFreeHost", 1, 82, 0x3000, 0), 5);
	assert_int_equal(call(m, "cudaFree", 1, 83, 0x2000, 0), 30); /* of a pool: allowed */
	assert_int_equal(ALL_OF(m, 1).live_bytes, 100);
	assert_int_equal(ALL_OF(m, 1).peak_bytes, 140);
	assert_int_equal(ALL_OF(m, 1).peak_ns, 50);
	assert_int_equal(ALL_OF(m, 1).allocations, 4);
	assert_int_equal(ALL_OF(m, 1).frees, 3);
	assert_int_equal(ALL_OF(m, 1).total_bytes, 140);
	assert_int_equal(sum_of(m, 1, 1, GS_MEMORY_ON_DEVICE).live_blocks, 0);
	assert_int_equal(sum_of(m, 1, 1, GS_MEMORY_ON_DEVICE).peak_bytes, 10);
}

static void strays_are_told_apart(void **state)
{
	LEDGER *m = new_ledger();

	call(m, "cudaMalloc", 1, 10, 0x1000, 100);
	assert_int_equal(call_failed(m, "cudaFree", 1, 11, 0x1000, 0), 0); /* it lives on */
	assert_int_equal(ALL_OF(m, 1).live_bytes, 100);
	call(m, "cudaFree", 1, 12, 0x1000, 0);
	call_failed(m, "cudaFree", 1, 20, 0x1000, 0);
	call_failed(m, "cudaFree", 1, 30, 0x7770, 0);
	call(m, "cudaFree", 1, 40, 0x9990, 0); /* from before the trace */
	call(m, "cudaFree", 1, 50, 0, 0);      /* of nothing: allowed */
	{
		struct call c = call_of("cudaFree", 1, 60, 0x1230, 0);

		c.r.failed = 1;
		c.r.ret = 4; /* cudaErrorCudartUnloading: the process ends */
		take_call(m, &c);
	}
	assert_int_equal(ALL_OF(m, 1).double_frees, 1);
	assert_int_equal(ALL_OF(m, 1).bad_frees, 1);
	assert_int_equal(ALL_OF(m, 1).unknown_frees, 1);
	call_failed(m, "cudaMalloc", 1, 70, 0, 1ull << 40);
	assert_int_equal(sum_of(m, 1, 0, GS_MEMORY_DEVICE).failed, 1);
	assert_int_equal(sum_of(m, 1, 0, GS_MEMORY_DEVICE).allocations, 1);
	call(m, "cudaMalloc", 1, 80, 0, 100); /* its address could not be read */
	assert_int_equal(gs_memory_untracked(m), 1);
	assert_int_equal(ALL_OF(m, 1).untracked, 1);
}

/* A thread frees a block; before its call is reported, another thread gets the same address. */
static void an_address_given_again(void **state)
{
	LEDGER *m = new_ledger();
	struct call c;

	call(m, "cudaMalloc", 1, 10, 0x1000, 100);
	call(m, "cudaMalloc", 1, 30, 0x1000, 7); /* begins at 25 */
	c = call_of("cudaFree", 1, 31, 0x1000, 0);
	c.r.start_ns = 20;
	c.r.dur_ns = 11;
	assert_int_equal(take_call(m, &c), 100);
	assert_int_equal(ALL_OF(m, 1).live_bytes, 7);
	assert_int_equal(ALL_OF(m, 1).unseen_frees, 0);
	assert_int_equal(call(m, "cudaFree", 1, 40, 0x1000, 0), 7);
	assert_int_equal(ALL_OF(m, 1).live_bytes, 0);
	assert_int_equal(ALL_OF(m, 1).double_frees, 0);

	/* A free that is never seen. */
	call(m, "cudaMalloc", 1, 50, 0x2000, 100);
	call(m, "cudaMalloc", 1, 60, 0x2000, 9);
	assert_int_equal(call(m, "cudaFree", 1, 70, 0x2000, 0), 9);
	assert_int_equal(ALL_OF(m, 1).unseen_frees, 1);
	assert_int_equal(ALL_OF(m, 1).live_bytes, 0);
}

/* The first call of a process, whose end was not seen: its address may be anything. */
static void an_address_not_seen(void **state)
{
	LEDGER *m = new_ledger();
	struct call c = call_of("cudaMalloc", 1, 10, 0x7777, 100);

	c.r.call_flags = GS_CALL_UNTIMED;
	take_call(m, &c);
	call(m, "cudaMalloc", 1, 20, 0x1000, 7);
	assert_int_equal(ALL_OF(m, 1).live_bytes, 107);
	assert_int_equal(site_of(m, 0).live_blocks, 2);
	call(m, "cudaFree", 1, 30, 0x1000, 0);
	call_failed(m, "cudaFree", 1, 31, 0x5000, 0);
	call_failed(m, "cudaFree", 1, 32, 0x1000, 0);
	call(m, "cudaFreeHost", 1, 33, 0x5000, 0); /* of another space */
	assert_int_equal(ALL_OF(m, 1).live_bytes, 100);
	assert_int_equal(call(m, "cudaFree", 1, 40, 0x2000, 0), 100);
	assert_int_equal(call(m, "cudaFree", 1, 41, 0x3000, 0), 0);
	assert_int_equal(ALL_OF(m, 1).live_bytes, 0);
	assert_int_equal(ALL_OF(m, 1).frees, 2);
	assert_int_equal(ALL_OF(m, 1).unknown_frees, 2);

	c = call_of("cuMemCreate", 1, 50, 0, 2 * MIB);
	c.r.call_flags = GS_CALL_UNTIMED;
	take_call(m, &c);
	assert_int_equal(call(m, "cuMemRelease", 1, 51, 0xa0, 0), 2 * MIB);
	c = call_of("cudaMalloc", 1, 60, 0, 5);
	c.r.call_flags = GS_CALL_UNTIMED;
	for (unsigned i = 0; i < 10; i++)
		take_call(m, &c);
	assert_int_equal(ALL_OF(m, 1).live_bytes, 40);
	assert_int_equal(gs_memory_untracked(m), 2);
	call(m, "cudaDeviceReset", 1, 70, 0, 0);
	assert_int_equal(ALL_OF(m, 1).live_bytes, 0);
}

static void virtual_memory(void **state)
{
	LEDGER *m = new_ledger();

	call(m, "cuMemAddressReserve", 1, 5, 0x100000000, 64 * MIB);
	call(m, "cuMemCreate", 1, 10, 0xa0, 2 * MIB);
	call(m, "cuMemCreate", 1, 11, 0xb0, 4 * MIB);
	map(m, 1, 20, 0x100000000, 2 * MIB, 0xa0);
	map(m, 1, 21, 0x100200000, 4 * MIB, 0xb0);
	assert_int_equal(sum_of(m, 1, 0, GS_MEMORY_VIRTUAL).live_bytes, 6 * MIB);
	assert_int_equal(sum_of(m, 1, 0, GS_MEMORY_VIRTUAL).mapped_bytes, 6 * MIB);
	/* Released while it is mapped: it stays until it is not. */
	assert_int_equal(call(m, "cuMemRelease", 1, 30, 0xa0, 0), 0);
	assert_int_equal(ALL_OF(m, 1).live_bytes, 6 * MIB);
	call(m, "cuMemUnmap", 1, 40, 0x100000000, 6 * MIB); /* both */
	assert_int_equal(ALL_OF(m, 1).live_bytes, 4 * MIB);
	assert_int_equal(ALL_OF(m, 1).mapped_bytes, 0);
	assert_int_equal(call(m, "cuMemRelease", 1, 50, 0xb0, 0), 4 * MIB);
	assert_int_equal(ALL_OF(m, 1).live_bytes, 0);
	assert_int_equal(ALL_OF(m, 1).frees, 2);
	call_failed(m, "cuMemRelease", 1, 60, 0xb0, 0);
	assert_int_equal(ALL_OF(m, 1).double_frees, 1);

	/* One handle mapped twice, and released as often as it was retained. */
	call(m, "cuMemCreate", 1, 70, 0xc0, 2 * MIB);
	map(m, 1, 71, 0x101000000, 2 * MIB, 0xc0);
	map(m, 1, 72, 0x102000000, 2 * MIB, 0xc0);
	assert_int_equal(sum_of(m, 1, 0, GS_MEMORY_VIRTUAL).mapped_bytes, 4 * MIB);
	call(m, "cuMemUnmap", 1, 73, 0x101000000, 2 * MIB);
	call(m, "cuMemRelease", 1, 74, 0xc0, 0);
	assert_int_equal(ALL_OF(m, 1).live_bytes, 2 * MIB);
	call(m, "cuMemUnmap", 1, 75, 0x102000000, 2 * MIB);
	assert_int_equal(ALL_OF(m, 1).live_bytes, 0);
	/* As NCCL frees: retained, released, unmapped, released. */
	call(m, "cuMemCreate", 1, 90, 0xd0, 2 * MIB);
	map(m, 1, 91, 0x101000000, 2 * MIB, 0xd0);
	call(m, "cuMemRetainAllocationHandle", 1, 92, 0xd0, 0);
	call(m, "cuMemRelease", 1, 93, 0xd0, 0);
	call(m, "cuMemUnmap", 1, 94, 0x101000000, 2 * MIB);
	assert_int_equal(ALL_OF(m, 1).live_bytes, 2 * MIB);
	assert_int_equal(call(m, "cuMemRelease", 1, 95, 0xd0, 0), 2 * MIB);
	assert_int_equal(ALL_OF(m, 1).double_frees, 1); /* that from before */
	/* Unknown mappings and handles change nothing. */
	call(m, "cuMemUnmap", 1, 80, 0x900000000, 2 * MIB);
	map(m, 1, 81, 0x103000000, 2 * MIB, 0xdead);
	call(m, "cuMemUnmap", 1, 82, 0x103000000, 2 * MIB);
	assert_int_equal(ALL_OF(m, 1).live_bytes, 0);
}

/* ncclMemAlloc() makes physical memory inside, or calls cudaMalloc(). */
static void memory_of_nccl(void **state)
{
	LEDGER *m = new_ledger();
	struct call c;

	call(m, "cuMemCreate", 1, 100, 0xa0, 2 * MIB);
	map(m, 1, 102, 0x100000000, 2 * MIB, 0xa0);
	c = call_of("ncclMemAlloc", 1, 110, 0x100000000, 100);
	c.r.start_ns = 90;
	c.r.dur_ns = 20;
	take_call(m, &c);
	assert_int_equal(ALL_OF(m, 1).live_bytes, 2 * MIB);
	call(m, "cuMemUnmap", 1, 120, 0x100000000, 2 * MIB);
	call(m, "cuMemRelease", 1, 121, 0xa0, 0);
	assert_int_equal(call(m, "ncclMemFree", 1, 125, 0x100000000, 0), 100);
	assert_int_equal(ALL_OF(m, 1).live_bytes, 0);

	/* What it calls to free is not seen. */
	call(m, "cuMemCreate", 1, 200, 0xb0, 2 * MIB);
	c = call_of("ncclMemAlloc", 1, 210, 0x200000000, 100);
	c.r.start_ns = 190;
	c.r.dur_ns = 20;
	take_call(m, &c);
	assert_int_equal(call(m, "ncclMemFree", 1, 220, 0x200000000, 0), 100);
	assert_int_equal(ALL_OF(m, 1).live_bytes, 0);

	call(m, "cudaMalloc", 1, 300, 0x300000000, 100);
	c = call_of("ncclMemAlloc", 1, 310, 0x300000000, 100);
	c.r.start_ns = 290;
	c.r.dur_ns = 20;
	take_call(m, &c);
	assert_int_equal(ALL_OF(m, 1).live_bytes, 100);
	call(m, "cudaFree", 1, 320, 0x300000000, 0);
	call(m, "ncclMemFree", 1, 325, 0x300000000, 0);
	call(m, "ncclMemAlloc", 1, 400, 0x400000000, 50); /* alone */
	assert_int_equal(ALL_OF(m, 1).live_bytes, 50);
	assert_int_equal(ALL_OF(m, 1).double_frees, 0);
	assert_int_equal(ALL_OF(m, 1).unknown_frees, 0);
}

static void pages(void **state)
{
	const uint64_t base = 0x7f0000000000;
	LEDGER *m = new_ledger();

	for (uint64_t i = 0; i < 4096; i++)
		call(m, "cudaMalloc", 1, 10, base + 512 * i, 512);
	assert_int_equal(ALL_OF(m, 1).live_bytes, 2 * MIB);
	assert_int_equal(sum_of(m, 1, 0, GS_MEMORY_ON_DEVICE).page_bytes, 2 * MIB);
	for (uint64_t i = 0; i < 4095; i++)
		call(m, "cudaFree", 1, 20, base + 512 * i, 0);
	assert_int_equal(ALL_OF(m, 1).live_bytes, 512);
	assert_int_equal(sum_of(m, 1, 0, GS_MEMORY_ON_DEVICE).page_bytes, 2 * MIB);
	call(m, "cudaFree", 1, 30, base + 512 * 4095, 0);
	assert_int_equal(sum_of(m, 1, 0, GS_MEMORY_ON_DEVICE).page_bytes, 0);
	/* Over the ends of pages. */
	call(m, "cudaMalloc", 1, 40, base + MIB, 6 * MIB);
	call(m, "cudaMallocPitch", 1, 41, base + 7 * MIB, MIB);
	assert_int_equal(sum_of(m, 1, 0, GS_MEMORY_ON_DEVICE).page_bytes, 8 * MIB);
	call(m, "cudaFree", 1, 42, base + MIB, 0);
	assert_int_equal(sum_of(m, 1, 0, GS_MEMORY_ON_DEVICE).page_bytes, 2 * MIB);
	assert_int_equal(sum_of(m, 1, 0, GS_MEMORY_ON_DEVICE).peak_page_bytes, 8 * MIB);
	/* A pool and what is mapped have pages of other sizes. */
	call(m, "cudaMallocAsync", 1, 50, base + 1024 * MIB, MIB);
	assert_int_equal(sum_of(m, 1, 0, GS_MEMORY_ON_DEVICE).page_bytes, 2 * MIB);
}

static void sites(void **state)
{
	LEDGER *m = new_ledger();
	struct call c = call_of("cudaMalloc", 1, 10, 0x1000, 100);

	c.r.scope = 700;
	c.r.py_stack = 3;
	take_call(m, &c);
	c.r.arg[0] = 0x2000;
	take_call(m, &c);
	c.r.py_stack = 4;
	c.r.arg[0] = 0x3000;
	take_call(m, &c);
	call(m, "cudaFree", 1, 20, 0x1000, 0);
	assert_int_equal(site_of(m, 0).scope, 700);
	assert_int_equal(site_of(m, 0).py_stack, 3);
	assert_int_equal(site_of(m, 0).live_bytes, 100);
	assert_int_equal(site_of(m, 0).live_blocks, 1);
	assert_int_equal(site_of(m, 0).peak_bytes, 200);
	assert_int_equal(site_of(m, 0).allocations, 2);
	assert_int_equal(site_of(m, 1).py_stack, 4);
	assert_int_equal(site_of(m, 1).live_bytes, 100);
	assert_int_equal(site_of(m, 2).allocations, 0);
}

static void too_many_sites(void **state)
{
	LEDGER *m = new_ledger();
	struct call c = call_of("cudaMalloc", 1, 10, 0x1000, 1);

	for (uint32_t i = 1; i <= GS_MEMORY_MAX_SITES + 10; i++) {
		c.r.native_stack = i;
		c.r.arg[0] = 0x1000ull * i;
		take_call(m, &c);
	}
	assert_int_equal(ALL_OF(m, 1).live_bytes, GS_MEMORY_MAX_SITES + 10);
	assert_int_equal(site_of(m, 0).process, 0); /* the rest */
	assert_in_range(site_of(m, 0).live_blocks, 10, 20);
	for (uint32_t i = 1; i <= GS_MEMORY_MAX_SITES + 10; i++)
		call(m, "cudaFree", 1, 20, 0x1000ull * i, 0);
	assert_int_equal(ALL_OF(m, 1).live_bytes, 0);
	assert_int_equal(site_of(m, 0).live_blocks, 0);
}

static void devices(void **state)
{
	LEDGER *m = new_ledger();
	struct call c;

	gs_memory_set_late(m, 1, true);
	call(m, "cudaMalloc", 1, 10, 0x1000, 1);
	set_device(m, 1, 4);
	set_device(m, 1, GS_MEMORY_DEVICE_UNKNOWN);
	call(m, "cudaMalloc", 1, 15, 0x1800, 1);
	call(m, "cudaFree", 1, 16, 0x1800, 0);
	set_device(m, 1, 3);
	call(m, "cudaMalloc", 1, 20, 0x2000, 2);
	c = call_of("cudaMalloc", 1, 30, 0x3000, 4); /* by another thread */
	c.r.thread = 11;
	take_call(m, &c);
	assert_int_equal(sum_of(m, 1, GS_MEMORY_DEVICE_UNKNOWN, GS_MEMORY_ON_DEVICE).live_bytes, 5);
	assert_int_equal(sum_of(m, 1, 3, GS_MEMORY_ON_DEVICE).live_bytes, 2);

	c = call_of("cuDevicePrimaryCtxReset", 1, 40, 0, 0);
	c.r.aux = 3;
	take_call(m, &c);
	assert_int_equal(ALL_OF(m, 1).live_bytes, 5);
	assert_int_equal(ALL_OF(m, 1).frees, 1);
	set_device(m, 1, 3);
	call(m, "cudaMalloc", 1, 50, 0x2000, 2);
	call(m, "cudaDeviceReset", 1, 60, 0, 0);
	assert_int_equal(ALL_OF(m, 1).live_bytes, 5);

	/* Another program: all is gone, and its threads begin on device 0. */
	gs_memory_drop_process(m, 1);
	assert_int_equal(ALL_OF(m, 1).live_bytes, 0);
	call(m, "cudaMalloc", 1, 70, 0x1000, 8);
	assert_int_equal(sum_of(m, 1, 0, GS_MEMORY_ON_DEVICE).live_bytes, 8);
}

static void segments(void **state)
{
	LEDGER *m = new_ledger();

	call(m, "cudaMalloc", 1, 10, 0x1000, 100);
	call(m, "cudaMalloc", 1, 11, 0x2000, 50);
	gs_memory_mark_segment(m, 1, 0x1000);
	gs_memory_mark_segment(m, 1, 0x1000);
	gs_memory_mark_segment(m, 1, 0x9000);
	gs_memory_mark_segment(m, 7, 0x1000);
	assert_int_equal(gs_memory_read_segments(m, 1).live_bytes, 100);
	assert_int_equal(gs_memory_read_segments(m, 7).live_bytes, 0);
	call(m, "cudaFree", 1, 20, 0x1000, 0);
	assert_int_equal(gs_memory_read_segments(m, 1).live_bytes, 0);
	assert_int_equal(gs_memory_read_segments(m, 1).peak_bytes, 100);

	/* A segment that grows: all that is mapped in its range. */
	call(m, "cuMemAddressReserve", 1, 30, 0x100000000, 64 * MIB);
	call(m, "cuMemCreate", 1, 31, 0xa0, 2 * MIB);
	map(m, 1, 32, 0x100000000, 2 * MIB, 0xa0);
	gs_memory_mark_segment(m, 1, 0x100000200);
	assert_int_equal(gs_memory_read_segments(m, 1).live_bytes, 2 * MIB);
	call(m, "cuMemCreate", 1, 33, 0xb0, 2 * MIB);
	map(m, 1, 34, 0x100200000, 2 * MIB, 0xb0);
	assert_int_equal(gs_memory_read_segments(m, 1).live_bytes, 4 * MIB);
	call(m, "cuMemUnmap", 1, 35, 0x100000000, 2 * MIB);
	call(m, "cuMemRelease", 1, 36, 0xa0, 0);
	assert_int_equal(gs_memory_read_segments(m, 1).live_bytes, 2 * MIB);
	assert_int_equal(ALL_OF(m, 1).live_bytes, 2 * MIB + 50);
}

static void ended_programs_make_room(void **state)
{
	LEDGER *m = new_ledger();

	for (uint64_t i = 1; i <= GS_MEMORY_MAX_BLOCKS; i++)
		call(m, "cudaMalloc", 1, 10, i * 512, 1);
	call(m, "cudaMalloc", 2, 20, 0x1000, 5);
	assert_int_equal(gs_memory_untracked(m), 1);
	assert_int_equal(ALL_OF(m, 2).untracked, 1);
	gs_memory_end_process(m, 1);
	gs_memory_end_process(m, 1);
	call(m, "cudaMalloc", 2, 30, 0x1000, 5);
	assert_int_equal(gs_memory_untracked(m), 1);
	assert_int_equal(ALL_OF(m, 2).live_bytes, 5);
	assert_int_equal(ALL_OF(m, 1).live_bytes, GS_MEMORY_MAX_BLOCKS); /* left at its end */
	assert_int_equal(ALL_OF(m, 1).head.flags, GS_MEMORY_PROCESS_ENDED);
	assert_int_equal(ALL_OF(m, 2).head.flags, 0);
}

static void changes_are_told_once(void **state)
{
	LEDGER *m = new_ledger();
	struct gs_memory_change c;
	unsigned n = 0;

	assert_true(gs_memory_is_empty(m));
	set_device(m, 1, 0);
	assert_true(gs_memory_is_empty(m));
	assert_false(gs_memory_next_change(m, &c));
	call(m, "cudaMalloc", 1, 10, 0x1000, 100);
	assert_false(gs_memory_is_empty(m));
	while (gs_memory_next_change(m, &c)) {
		assert_int_equal(c.process, 1);
		assert_int_equal(c.live_bytes, 100);
		assert_int_equal(*c.time_ns, 0);
		assert_int_equal(c.device, c.kind == GS_MEMORY_DEVICE ? 0 : GS_MEMORY_DEVICE_ALL);
		n += c.kind == GS_MEMORY_DEVICE || c.kind == GS_MEMORY_ON_DEVICE;
	}
	assert_int_equal(n, 2);
	call(m, "cudaMalloc", 1, 20, 0x2000, 1);
	call(m, "cudaFree", 1, 30, 0x2000, 0); /* as it was */
	assert_false(gs_memory_next_change(m, &c));
	call(m, "cudaHostAlloc", 1, 40, 0x2000, 6);
	assert_true(gs_memory_next_change(m, &c));
	assert_int_equal(c.kind, GS_MEMORY_ON_HOST);
	assert_int_equal(c.live_bytes, 6);
	assert_false(gs_memory_next_change(m, &c));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_function_has_a_meaning),
		cmocka_unit_test(kinds_and_devices_are_apart),
		cmocka_unit_test(strays_are_told_apart),
		cmocka_unit_test(an_address_given_again),
		cmocka_unit_test(an_address_not_seen),
		cmocka_unit_test(virtual_memory),
		cmocka_unit_test(memory_of_nccl),
		cmocka_unit_test(pages),
		cmocka_unit_test(sites),
		cmocka_unit_test(too_many_sites),
		cmocka_unit_test(devices),
		cmocka_unit_test(segments),
		cmocka_unit_test(ended_programs_make_room),
		cmocka_unit_test(changes_are_told_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
