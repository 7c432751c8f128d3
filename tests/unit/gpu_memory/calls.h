/* Calls for the ledger of memory, and what it says of them. */
#ifndef GS_TESTS_MEMORY_CALLS_H
#define GS_TESTS_MEMORY_CALLS_H

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "model/trace/func.h"
#include "pipeline/gpu_memory/gpu_memory.h"

#define LEDGER GS_CLEANUP(gs_memory_free) struct gs_memory

static inline GS_UNUSED struct gs_memory *new_ledger(void)
{
	struct gs_memory *m = NULL;

	if (gs_memory_new(&m) < 0)
		abort();
	return m;
}

/* One call; the rest of what it says may be changed before it is taken. */
struct call {
	struct gs_rec_call r;
	struct gs_memory_function f;
	uint32_t process;
};

/* By the row of the function table: threads 10 * process and on. Each takes 5 ns and ends then. */
static inline GS_UNUSED struct call call_of(const char *name, uint32_t process, uint64_t end_ns,
					    uint64_t pointer, uint64_t bytes)
{
	const struct gs_func *func = gs_func_by_name(name);
	struct call c = {.process = process};

	if (!func)
		abort();
	c.f = gs_memory_function_of(func->desc.layer, func->desc.op, name);
	c.r.thread = 10 * process;
	c.r.function = func->id;
	c.r.start_ns = end_ns - 5;
	c.r.dur_ns = 5;
	c.r.arg[0] = pointer;
	c.r.bytes = bytes;
	return c;
}

static inline GS_UNUSED uint64_t take_call(struct gs_memory *m, const struct call *c)
{
	return gs_memory_take(m, c->process, &c->r, c->f);
}

static inline GS_UNUSED uint64_t call(struct gs_memory *m, const char *name, uint32_t process,
				      uint64_t end_ns, uint64_t pointer, uint64_t bytes)
{
	struct call c = call_of(name, process, end_ns, pointer, bytes);

	return take_call(m, &c);
}

/* The same, refused by the library. */
static inline GS_UNUSED uint64_t call_failed(struct gs_memory *m, const char *name,
					     uint32_t process, uint64_t end_ns, uint64_t pointer,
					     uint64_t bytes)
{
	struct call c = call_of(name, process, end_ns, pointer, bytes);

	c.r.failed = 1;
	c.r.ret = 1;
	return take_call(m, &c);
}

static inline GS_UNUSED uint64_t map(struct gs_memory *m, uint32_t process, uint64_t end_ns,
				     uint64_t address, uint64_t bytes, uint64_t handle)
{
	struct call c = call_of("cuMemMap", process, end_ns, address, bytes);

	c.r.arg[1] = handle;
	return take_call(m, &c);
}

static inline GS_UNUSED void set_device(struct gs_memory *m, uint32_t process, uint32_t device)
{
	gs_memory_set_device(m, process, 10 * process, device);
}

/* The sum; zeros where there is none. */
static inline GS_UNUSED struct gs_rec_memory sum_of(const struct gs_memory *m, uint32_t process,
						    uint32_t device, unsigned kind)
{
	struct gs_buf out GS_CLEANUP(gs_buf_fini) = GS_BUF_INIT(1u << 30);
	struct gs_rec_memory found = {{0}};
	struct gs_batch batch;

	if (gs_memory_put_records(m, &out) < 0)
		abort();
	batch = (struct gs_batch){out.data, out.bytes};
	gs_records_for_each (&batch, r) {
		const struct gs_rec_memory *s = (const void *)r;

		if (r->kind == GS_REC_MEMORY && s->process == process && s->device == device &&
		    s->kind == kind)
			found = *s;
	}
	return found;
}

#define ALL_OF(m, process)  sum_of(m, process, GS_MEMORY_DEVICE_ALL, GS_MEMORY_ON_DEVICE)
#define HOST_OF(m, process) sum_of(m, process, GS_MEMORY_DEVICE_ALL, GS_MEMORY_ON_HOST)

/* The n-th call site, from 0; zeros: there are fewer. */
static inline GS_UNUSED struct gs_rec_memory_site site_of(const struct gs_memory *m, size_t n)
{
	struct gs_buf out GS_CLEANUP(gs_buf_fini) = GS_BUF_INIT(1u << 30);
	struct gs_rec_memory_site found = {{0}};
	struct gs_batch batch;

	if (gs_memory_put_records(m, &out) < 0)
		abort();
	batch = (struct gs_batch){out.data, out.bytes};
	gs_records_for_each (&batch, r)
		if (r->kind == GS_REC_MEMORY_SITE && n-- == 0)
			memcpy(&found, r, sizeof(found));
	return found;
}

#endif
