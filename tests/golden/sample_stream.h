/*
 * One small stream of records that holds a case of everything, the same at each run: two
 * processes, three threads, nested calls, failures, a communicator, counters, losses, a call that
 * never returned, ids that were never announced, and names that no format likes. Golden files are
 * made of it; who changes it makes them anew (GS_GOLDEN_UPDATE=1).
 *
 *   process 1 (pid 4242, "trainer")       thread 1 (main), thread 2 (name with newline and quotes)
 *   process 2 (pid 4300, not UTF-8)       thread 3, in a container
 *
 * Times: the stream starts at SAMPLE_START_NS of the boot clock; t(n) is n us later.
 */
#ifndef GS_TESTS_GOLDEN_SAMPLE_STREAM_H
#define GS_TESTS_GOLDEN_SAMPLE_STREAM_H

#include <string.h>

#include "core/base/buf.h"
#include "core/base/mem.h"
#include "model/trace/func.h"
#include "model/trace/record.h"

#define SAMPLE_START_NS           5000000000000ull      /* 5,000 s after boot */
#define SAMPLE_WALL_MINUS_BOOT_NS 1767225600123456789ll /* boot: 2026-01-01T00:00:00.123456789Z */

enum { /* texts */
       SAMPLE_STR_HOST = 1,
       SAMPLE_STR_COMMAND,
       SAMPLE_STR_KERNEL,
       SAMPLE_STR_ENGINE,
       SAMPLE_STR_COMM1,
       SAMPLE_STR_EXE1,
       SAMPLE_STR_CMDLINE1,
       SAMPLE_STR_COMM2,
       SAMPLE_STR_EXE2,
       SAMPLE_STR_CMDLINE2,
       SAMPLE_STR_CONTAINER,
       SAMPLE_STR_WORKER,
       SAMPLE_STR_INIT_RANK,
       SAMPLE_STR_DEVICE_BYTES,
       SAMPLE_STR_OPEN_STREAMS,
       SAMPLE_STR_LIB,
       SAMPLE_STR_REASON,
       SAMPLE_STR_END,
       SAMPLE_STR_FUNC0, /* and one for each function from here on */
};

enum { /* functions */
       SAMPLE_FUNC_MALLOC = 1,
       SAMPLE_FUNC_FREE,
       SAMPLE_FUNC_LAUNCH,
       SAMPLE_FUNC_LAUNCH_DRV,
       SAMPLE_FUNC_COPY,
       SAMPLE_FUNC_SYNC,
       SAMPLE_FUNC_ALLREDUCE,
       SAMPLE_FUNC_SEND,
       SAMPLE_FUNC_INIT_RANK,
       SAMPLE_FUNC_MEMSET,
       SAMPLE_FUNC_QUERY,
};

static inline uint64_t sample_t(uint64_t us)
{
	return SAMPLE_START_NS + us * 1000;
}

static inline int sample_text(struct gs_buf *buf, uint32_t id, const char *text)
{
	return gs_record_put_string(buf, id, text, strlen(text));
}

GS_UNUSED static int sample_put_function(struct gs_buf *buf, uint32_t id, unsigned layer,
					 unsigned func_class, const char *name)
{
	uint32_t str = SAMPLE_STR_FUNC0 + id;
	struct gs_rec_function *f;

	if (sample_text(buf, str, name) < 0)
		return -1;
	f = gs_record_put(buf, GS_REC_FUNCTION, sizeof(*f), 0);
	if (!f)
		return -1;
	f->id = id;
	f->layer = (uint16_t)layer;
	f->func_class = (uint16_t)func_class;
	f->name_str = str;
	return 0;
}

/* A call whose remaining fields the caller sets; NULL when the buffer is full. */
GS_UNUSED static struct gs_rec_call *sample_put_call(struct gs_buf *buf, uint32_t thread,
						     uint32_t function, uint64_t start_ns,
						     uint64_t dur_ns, unsigned depth)
{
	struct gs_rec_call *c = gs_record_put(buf, GS_REC_CALL, sizeof(*c), 0);

	if (!c)
		return NULL;
	c->thread = thread;
	c->function = function;
	c->start_ns = start_ns;
	c->dur_ns = dur_ns;
	c->depth = (uint8_t)depth;
	c->cpu = (uint16_t)(thread + 10);
	return c;
}

/* SESSION and every text of the entities. */
static inline int sample_session(struct gs_buf *buf)
{
	struct gs_rec_session *s = gs_record_put(buf, GS_REC_SESSION, sizeof(*s), 0);

	if (!s)
		return -1;
	s->version = GS_RECORD_VERSION;
	s->mode = GS_SESSION_EVENTS;
	s->start_ns = SAMPLE_START_NS;
	s->wall_minus_boot_ns = SAMPLE_WALL_MINUS_BOOT_NS;
	s->host_str = SAMPLE_STR_HOST;
	s->command_str = SAMPLE_STR_COMMAND;
	s->kernel_str = SAMPLE_STR_KERNEL;
	s->attach_mode_str = SAMPLE_STR_ENGINE;
	return sample_text(buf, SAMPLE_STR_HOST, "node-7") ||
	       sample_text(buf, SAMPLE_STR_COMMAND, "python3 train.py --name \"a, b\"") ||
	       sample_text(buf, SAMPLE_STR_KERNEL, "6.8.0") ||
	       sample_text(buf, SAMPLE_STR_ENGINE, "uprobes") ||
	       sample_text(buf, SAMPLE_STR_COMM1, "trainer") ||
	       sample_text(buf, SAMPLE_STR_EXE1, "/usr/bin/python3.11") ||
	       sample_text(buf, SAMPLE_STR_CMDLINE1, "python3 train.py --name \"a, b\"") ||
	       sample_text(buf, SAMPLE_STR_COMM2, "bad\xff\xc3utf8") ||
	       sample_text(buf, SAMPLE_STR_EXE2, "/opt/\xe2\x82\xac/worker") ||
	       sample_text(buf, SAMPLE_STR_CMDLINE2, "worker\t--path C:\\tmp\x01\x7f \xe2\x82") ||
	       sample_text(buf, SAMPLE_STR_CONTAINER, "0123456789abcdef") ||
	       sample_text(buf, SAMPLE_STR_WORKER, "line1\nline2,\"q\"") ||
	       sample_text(buf, SAMPLE_STR_INIT_RANK, "ncclCommInitRank") ||
	       sample_text(buf, SAMPLE_STR_DEVICE_BYTES, "device memory") ||
	       sample_text(buf, SAMPLE_STR_OPEN_STREAMS, "open streams") ||
	       sample_text(buf, SAMPLE_STR_LIB, "/usr/lib/libcudart.so.13") ||
	       sample_text(buf, SAMPLE_STR_REASON, "no such symbol") ||
	       sample_text(buf, SAMPLE_STR_END, "command exited");
}

static inline int sample_process(struct gs_buf *buf, uint32_t id, uint32_t pid, uint32_t comm_str,
				 uint32_t container_str)
{
	struct gs_rec_process *p = gs_record_put(buf, GS_REC_PROCESS, sizeof(*p), 0);

	if (!p)
		return -1;
	p->id = id;
	p->pid = pid;
	p->ns_pid = container_str ? 17 : pid;
	p->parent_pid = 4000;
	p->uid = 1000;
	p->comm_str = comm_str;
	p->exe_str = comm_str + 1;
	p->cmdline_str = comm_str + 2;
	p->container_str = container_str;
	p->start_ns = SAMPLE_START_NS - 1000000;
	p->head.flags = GS_PROCESS_BEGUN;
	return 0;
}

static inline int sample_thread(struct gs_buf *buf, uint32_t id, uint32_t process, uint32_t tid,
				uint32_t comm_str)
{
	struct gs_rec_thread *t = gs_record_put(buf, GS_REC_THREAD, sizeof(*t), 0);

	if (!t)
		return -1;
	t->id = id;
	t->process = process;
	t->tid = tid;
	t->comm_str = comm_str;
	return 0;
}

static inline int sample_entities(struct gs_buf *buf)
{
	static const struct {
		uint32_t id;
		unsigned layer, func_class;
		const char *name;
	} funcs[] = {
		{SAMPLE_FUNC_MALLOC, GS_LAYER_CUDA_RUNTIME, GS_CLASS_ALLOC, "cudaMalloc"},
		{SAMPLE_FUNC_FREE, GS_LAYER_CUDA_RUNTIME, GS_CLASS_FREE, "cudaFree"},
		{SAMPLE_FUNC_LAUNCH, GS_LAYER_CUDA_RUNTIME, GS_CLASS_LAUNCH, "cudaLaunchKernel"},
		{SAMPLE_FUNC_LAUNCH_DRV, GS_LAYER_CUDA_DRIVER, GS_CLASS_LAUNCH, "cuLaunchKernel"},
		{SAMPLE_FUNC_COPY, GS_LAYER_CUDA_RUNTIME, GS_CLASS_COPY, "cudaMemcpyAsync"},
		{SAMPLE_FUNC_SYNC, GS_LAYER_CUDA_RUNTIME, GS_CLASS_SYNC, "cudaDeviceSynchronize"},
		{SAMPLE_FUNC_ALLREDUCE, GS_LAYER_NCCL, GS_CLASS_COLLECTIVE, "ncclAllReduce"},
		{SAMPLE_FUNC_SEND, GS_LAYER_NCCL, GS_CLASS_P2P, "ncclSend"},
		{SAMPLE_FUNC_INIT_RANK, GS_LAYER_NCCL, GS_CLASS_COMM, "ncclCommInitRank"},
		{SAMPLE_FUNC_MEMSET, GS_LAYER_CUDA_DRIVER, GS_CLASS_MEMSET, "cuMemsetD8_v2"},
		{SAMPLE_FUNC_QUERY, GS_LAYER_CUDA_RUNTIME, GS_CLASS_QUERY, "cudaEventQuery"},
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(funcs); i++)
		if (sample_put_function(buf, funcs[i].id, funcs[i].layer, funcs[i].func_class,
					funcs[i].name))
			return -1;
	return sample_process(buf, 1, 4242, SAMPLE_STR_COMM1, 0) ||
	       sample_process(buf, 2, 4300, SAMPLE_STR_COMM2, SAMPLE_STR_CONTAINER) ||
	       sample_thread(buf, 1, 1, 4242, SAMPLE_STR_COMM1) ||
	       sample_thread(buf, 2, 1, 4250, SAMPLE_STR_WORKER) ||
	       sample_thread(buf, 3, 2, 4301, SAMPLE_STR_COMM2);
}

static inline int sample_attach(struct gs_buf *buf)
{
	struct gs_rec_attach *a = gs_record_put(buf, GS_REC_ATTACH, sizeof(*a), 0);

	if (!a)
		return -1;
	a->path_str = SAMPLE_STR_LIB;
	a->n_probes = 12;
	a->n_moved = 10;
	a->n_stepped = 2;
	a->layer = GS_LAYER_CUDA_RUNTIME;
	a = gs_record_put(buf, GS_REC_ATTACH, sizeof(*a), 0);
	if (!a)
		return -1;
	a->path_str = SAMPLE_STR_LIB;
	a->func_str = SAMPLE_STR_FUNC0 + SAMPLE_FUNC_QUERY;
	a->status = -2;
	a->reason_str = SAMPLE_STR_REASON;
	return 0;
}

static inline int sample_counter(struct gs_buf *buf, uint32_t process, uint32_t name_str,
				 enum gs_unit unit, uint64_t time_ns, int64_t value)
{
	struct gs_rec_counter *c = gs_record_put(buf, GS_REC_COUNTER, sizeof(*c), 0);

	if (!c)
		return -1;
	c->process = process;
	c->name_str = name_str;
	c->unit = unit;
	c->time_ns = time_ns;
	c->value = value;
	return 0;
}

static inline int sample_loss(struct gs_buf *buf, unsigned layer, unsigned cause, uint32_t detail,
			      uint64_t count)
{
	struct gs_rec_loss *l = gs_record_put(buf, GS_REC_LOSS, sizeof(*l), 0);

	if (!l)
		return -1;
	l->layer = (uint16_t)layer;
	l->cause = (uint16_t)cause;
	l->detail_str = detail;
	l->count = count;
	return 0;
}

/* Allocation with its counter, a launch through two doors, a failed allocation. */
static inline int sample_calls_cuda(struct gs_buf *buf)
{
	struct gs_rec_call *c = sample_put_call(buf, 1, SAMPLE_FUNC_MALLOC, sample_t(10), 2500, 0);

	if (!c)
		return -1;
	c->bytes = 1048576;
	c->arg[0] = 0x7f0000001000;
	if (sample_counter(buf, 1, SAMPLE_STR_DEVICE_BYTES, GS_UNIT_BYTES, sample_t(13), 1048576))
		return -1;

	/* The inner call ends first, so it comes first. */
	c = sample_put_call(buf, 1, SAMPLE_FUNC_LAUNCH_DRV, sample_t(21), 3000, 1);
	if (!c)
		return -1;
	c->arg[0] = 0x55d0c0de0008;
	c->arg[1] = 128 | 2ull << 32;
	c->arg[2] = 1 | 256ull << 32;
	c->arg[3] = 1 | 1ull << 32;
	c->aux = 49152;
	c->stream = 0x55d000000100;
	c = sample_put_call(buf, 1, SAMPLE_FUNC_LAUNCH, sample_t(20), 5001, 0);
	if (!c)
		return -1;
	c->arg[0] = 0x55d0c0de0000;
	c->arg[1] = 128 | 2ull << 32;
	c->arg[2] = 1 | 256ull << 32;
	c->arg[3] = 1 | 1ull << 32;
	c->aux = 49152;
	c->stream = 0x55d000000100;
	c->call_flags = GS_CALL_DRIVER_SEEN;

	c = sample_put_call(buf, 3, SAMPLE_FUNC_MALLOC, sample_t(30), 800, 0);
	if (!c)
		return -1;
	c->bytes = 1ull << 40;
	c->ret = 2; /* cudaErrorMemoryAllocation */
	c->failed = 1;

	c = sample_put_call(buf, 3, SAMPLE_FUNC_QUERY, sample_t(32), 150, 0);
	if (!c)
		return -1;
	c->arg[0] = 0x55d000000200;
	c->ret = 600; /* cudaErrorNotReady: an answer */

	c = sample_put_call(buf, 2, SAMPLE_FUNC_COPY, sample_t(33), 12345, 0);
	if (!c)
		return -1;
	c->bytes = 4096;
	c->aux = GS_COPY_H2D;
	c->arg[0] = 0x7f0000001000;
	c->arg[1] = 0x7ffd00001000;
	c = sample_put_call(buf, 3, SAMPLE_FUNC_MEMSET, sample_t(50), 999, 0);
	if (!c)
		return -1;
	c->bytes = 512;
	c->aux = 0xff;
	c->arg[0] = 0x7f0000001000;
	c->call_flags = GS_CALL_ARGS_UNREAD;
	c->ret = 12321; /* no code of this layer */
	c->failed = 1;
	return 0;
}

/* A communicator, a collective and a send on it, one on a communicator that nobody saw made. */
static inline int sample_calls_nccl(struct gs_buf *buf)
{
	struct gs_rec_call *c =
		sample_put_call(buf, 2, SAMPLE_FUNC_INIT_RANK, sample_t(60), 40000, 0);
	struct gs_rec_comm *m;

	if (!c)
		return -1;
	c->arg[0] = 0x55d0000c0330;
	m = gs_record_put(buf, GS_REC_COMM, sizeof(*m), 0);
	if (!m)
		return -1;
	m->process = 1;
	m->rank = 3;
	m->n_ranks = 8;
	m->origin_str = SAMPLE_STR_INIT_RANK;
	m->comm = 0x55d0000c0330;
	m->id_hash = 0xfeedfacecafebeef;

	c = sample_put_call(buf, 2, SAMPLE_FUNC_ALLREDUCE, sample_t(110), 7000, 0);
	if (!c)
		return -1;
	c->bytes = 4 * 1000;
	c->aux = 7 | 0 << 8 | 0xffffu << 16; /* float32, sum, no root */
	c->arg[0] = 1000;
	c->arg[1] = 0x55d0000c0330;
	c->arg[2] = 0x7f0000001000;
	c->arg[3] = 0x7f0000002000;
	c->stream = 0x55d000000100;

	c = sample_put_call(buf, 2, SAMPLE_FUNC_SEND, sample_t(118), 600, 0);
	if (!c)
		return -1;
	c->bytes = 2 * 64;
	c->aux = 9 | 0xff << 8 | 5u << 16; /* bfloat16, to rank 5 */
	c->arg[0] = 64;
	c->arg[1] = 0x55d0000c0330;
	c->arg[2] = 0x7f0000003000;

	c = sample_put_call(buf, 3, SAMPLE_FUNC_ALLREDUCE, sample_t(119), 500, 0);
	if (!c)
		return -1;
	c->aux = 7 | 3 << 8 | 0xffffu << 16;
	c->arg[1] = 0xdead;
	c->ret = 5; /* ncclInvalidUsage */
	c->failed = 1;
	return 0;
}

/* Losses, ids never announced, a free with its counter, a new name by exec, an open call. */
static inline int sample_rest(struct gs_buf *buf)
{
	struct gs_rec_call *c;

	if (sample_loss(buf, GS_LAYER_CUDA_DRIVER, GS_LOSS_RING_FULL, 0, 1234) ||
	    sample_loss(buf, 0, GS_LOSS_LATE, SAMPLE_STR_LIB, 1))
		return -1;
	c = sample_put_call(buf, 1, 77, sample_t(130), 100, 0); /* function 77: not announced */
	if (!c)
		return -1;
	c = sample_put_call(buf, 99, SAMPLE_FUNC_SYNC, sample_t(131), 100, 0); /* thread 99 too */
	if (!c)
		return -1;
	c = sample_put_call(buf, 1, SAMPLE_FUNC_FREE, sample_t(140), 1500, 0);
	if (!c)
		return -1;
	c->arg[0] = 0x7f0000001000;
	c->bytes = 1048576;
	if (sample_counter(buf, 1, SAMPLE_STR_DEVICE_BYTES, GS_UNIT_BYTES, sample_t(142), 0) ||
	    sample_counter(buf, 2, SAMPLE_STR_OPEN_STREAMS, GS_UNIT_COUNT, sample_t(143), -2) ||
	    sample_counter(buf, 0, SAMPLE_STR_OPEN_STREAMS, GS_UNIT_NONE, sample_t(144), 1) ||
	    sample_process(buf, 2, 4300, SAMPLE_STR_COMM1, SAMPLE_STR_CONTAINER))
		return -1;
	c = sample_put_call(buf, 1, SAMPLE_FUNC_SYNC, sample_t(150), 850000, 0);
	if (!c)
		return -1;
	c->call_flags = GS_CALL_UNFINISHED;
	return 0;
}

static inline int sample_end(struct gs_buf *buf)
{
	struct gs_rec_end *e = gs_record_put(buf, GS_REC_END, sizeof(*e), 0);

	if (!e)
		return -1;
	e->end_ns = sample_t(1000);
	e->exit_status = 3;
	e->reason_str = SAMPLE_STR_END;
	return 0;
}

/* Append the whole stream. 0, or -1 when the buffer is full. */
GS_UNUSED static int sample_stream(struct gs_buf *buf)
{
	return sample_session(buf) || sample_entities(buf) || sample_attach(buf) ||
			       sample_calls_cuda(buf) || sample_calls_nccl(buf) ||
			       sample_rest(buf) || sample_end(buf)
		       ? -1
		       : 0;
}

#endif
