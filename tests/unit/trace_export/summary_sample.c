#include "summary_sample.h"

#include <errno.h>

#include "core/base/mem.h"
#include "model/trace/mpi.h"
#include "model/trace/func.h"
#include "model/trace/record.h"
#include "model/summary/gpu_time.h"
#include "model/summary/activity.h"
#include "model/summary/memory.h"

#define US 1000ull
#define MS 1000000ull
#define S  1000000000ull

#define LIST(a)                                                                                    \
	{                                                                                          \
		.items = (a), .n = GS_ARRAY_LEN(a)                                                 \
	}

/* layer, class, name, calls, errors, total, p50, p95, p99, max, bytes, inner */
#define F(l, c, nm, n, e, t, a, b, d, m, by, in)                                                   \
	{                                                                                          \
		.layer = GS_LAYER_##l, .func_class = GS_CLASS_##c, .name = (nm), .calls = (n),     \
		.errors = (e), .n_timed = (n), .total_ns = (t),                                    \
		.mean_ns = (n) ? (t) / ((n) ? (n) : 1) : 0, .p50_ns = (a), .p95_ns = (b),          \
		.p99_ns = (d), .max_ns = (m), .bytes = (by), .inner = (in)                         \
	}

static struct gs_function_stats all[] = {
	F(CUDA_RUNTIME, SYNC, "cudaStreamSynchronize", 2410, 0, 41300 * MS, 17 * MS, 21 * MS,
	  24 * MS, 192 * MS, 0, 0),
	F(CUDA_RUNTIME, LAUNCH, "cudaLaunchKernel", 83263, 0, 1234567890, 11200, 30400, 92 * US,
	  12300 * US, 0, 0),
	F(CUDA_RUNTIME, COPY, "cudaMemcpyAsync", 5120, 2, 384 * MS, 62 * US, 130 * US, 212 * US,
	  3450 * US, 13207650304, 0),
	F(CUDA_RUNTIME, ALLOC, "cudaMalloc", 214, 14, 91 * MS, 310 * US, 1200 * US, 2700 * US,
	  8900 * US, 42949672960, 0),
	F(CUDA_RUNTIME, LAUNCH, "cudaLaunchCooperativeKernelMultiDevice", 48, 0, 1 * MS, 20 * US,
	  22 * US, 25 * US, 25 * US, 0, 0),
	F(CUDA_RUNTIME, QUERY, "cudaGetLastError", 99001, 0, 900 * US, 9, 11, 12, 480, 0, 0),
	F(CUDA_RUNTIME, DEVICE, "cudaSetDevice", 1300, 0, 300 * US, 210, 380, 402, 9000, 0, 0),
	F(CUDA_RUNTIME, FREE, "cudaFree", 7, 0, 120 * US, 17 * US, 19 * US, 19 * US, 19 * US, 0, 0),
	F(CUDA_DRIVER, LAUNCH, "cuLaunchKernel", 13146, 0, 144 * MS, 9800, 17 * US, 45 * US,
	  890 * US, 0, 83263),
	F(CUDA_DRIVER, MODULE, "cuModuleLoadData", 31, 0, 130 * MS, 4 * MS, 5 * MS, 6 * MS, 6 * MS,
	  0, 0),
	F(CUDA_DRIVER, ALLOC, "cuMemAlloc_v2", 0, 0, 0, 0, 0, 0, 0, 0, 200),
	F(NCCL, COMM, "ncclCommInitRankConfig", 2, 1, 7900 * MS, 3900 * MS, 4 * S, 4 * S, 4 * S, 0,
	  0),
	F(NCCL, COLLECTIVE, "ncclAllReduce", 1204, 0, 66 * MS, 41 * US, 98 * US, 190 * US,
	  2200 * US, 812319998976, 0),
	F(NCCL, P2P, "ncclSend", 1, 0, 90 * US, 90 * US, 90 * US, 90 * US, 90 * US, 4096, 0),
};

static struct gs_function_stats rank0[] = {
	F(CUDA_RUNTIME, SYNC, "cudaStreamSynchronize", 1204, 0, 20900 * MS, 17 * MS, 21 * MS,
	  24 * MS, 192 * MS, 0, 0),
	F(CUDA_RUNTIME, LAUNCH, "cudaLaunchKernel", 41630, 0, 630 * MS, 11200, 30400, 92 * US,
	  12300 * US, 0, 0),
	F(CUDA_RUNTIME, ALLOC, "cudaMalloc", 107, 0, 40 * MS, 310 * US, 1200 * US, 2700 * US,
	  2900 * US, 21474836480, 0),
	F(CUDA_RUNTIME, QUERY, "cudaGetLastError", 50001, 0, 500 * US, 9, 11, 12, 480, 0, 0),
	F(CUDA_RUNTIME, DEVICE, "cudaSetDevice", 650, 0, 150 * US, 210, 380, 402, 9000, 0, 0),
	F(NCCL, COLLECTIVE, "ncclAllReduce", 602, 0, 33 * MS, 41 * US, 98 * US, 190 * US, 2200 * US,
	  406159999488, 0),
};

static struct gs_function_stats rank1[] = {
	F(CUDA_RUNTIME, SYNC, "cudaStreamSynchronize", 1206, 0, 20400 * MS, 17 * MS, 21 * MS,
	  24 * MS, 150 * MS, 0, 0),
	F(CUDA_RUNTIME, LAUNCH, "cudaLaunchKernel", 41633, 0, 604567890, 11200, 30400, 92 * US,
	  9300 * US, 0, 0),
	F(CUDA_RUNTIME, ALLOC, "cudaMalloc", 107, 14, 51 * MS, 310 * US, 1200 * US, 2700 * US,
	  8900 * US, 21474836480, 0),
	F(NCCL, COLLECTIVE, "ncclAllReduce", 602, 0, 33 * MS, 41 * US, 98 * US, 190 * US, 2200 * US,
	  406159999488, 0),
};

/* Names as a hostile or careless program gives them: an escape sequence, quotes, bytes that are no
 * UTF-8, words that YAML would take for something else. */
static struct gs_thread_summary threads0[] = {
	{.tid = 4242, .comm = "python", .functions = LIST(rank0)},
	{.tid = 4250, .comm = "\033[31mpt \"main\"\n", .functions = {.items = rank0, .n = 2}},
};

static struct gs_thread_summary threads1[] = {
	{.tid = 4243, .comm = "no", .functions = LIST(rank1)},
	{.tid = 4251, .comm = "\xff\xfe, 0x1F", .functions = {.items = rank1 + 3, .n = 1}},
};

static struct gs_process_summary processes[] = {
	{.pid = 4242,
	 .ns_pid = 17,
	 .parent_pid = 4200,
	 .uid = 1000,
	 .comm = "python",
	 .exe = "/usr/bin/python3.11",
	 .cmdline = "python train.py --rank 0 --name \"größer: 模型 №7\"\t# first",
	 .container = "3f2a9c1b2d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8",
	 .functions = LIST(rank0),
	 .threads = threads0,
	 .n_threads = GS_ARRAY_LEN(threads0)},
	{.pid = 4243,
	 .uid = 0,
	 .comm = "~",
	 .exe = "",
	 .cmdline = "",
	 .container = "",
	 .functions = LIST(rank1),
	 .threads = threads1,
	 .n_threads = GS_ARRAY_LEN(threads1)},
};

static struct gs_error_count errors[] = {
	{GS_LAYER_CUDA_RUNTIME, "cudaMalloc", 2, "cudaErrorMemoryAllocation", 14},
	{GS_LAYER_CUDA_RUNTIME, "cudaMemcpyAsync", 700, "cudaErrorIllegalAddress", 1},
	{GS_LAYER_CUDA_RUNTIME, "cudaMemcpyAsync", 0, "other", 1},
	{GS_LAYER_NCCL, "ncclCommInitRankConfig", -77, "", 1},
};

static struct gs_attach_status attached[] = {
	{"/usr/lib/x86_64-linux-gnu/libcuda.so.535.183.01", "", "", 0, 212, 180, 32},
	{"/opt/conda/lib/python3.11/site-packages/nvidia/cuda_runtime/lib/libcudart.so.12", "",
	 "2 symbols share one address", 0, 143, 143, 0},
	{"/opt/conda/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2", "", "", 0, 1, 0,
	 0},
};

static struct gs_attach_status failures[] = {
	{"/opt/app/libcudart_static_plugin.so", "cudaLaunchKernel",
	 "the function is shorter than a probe", -EINVAL, 0, 0, 0},
	{"/srv/gone/libnccl.so.2", "", "", -ENOENT, 0, 0, 0},
};

static struct gs_lost_count lost[] = {
	{GS_LAYER_CUDA_RUNTIME, GS_LOSS_RING_FULL, "", 1204},
	{GS_LAYER_NONE, GS_LOSS_LATE, "/opt/conda/lib/libcublas.so.12", 1},
	{GS_LAYER_NONE, GS_LOSS_LATE, "/opt/conda/lib/libcudnn.so.9", 1},
	{GS_LAYER_NCCL, 4711, "", 3},
	{GS_LAYER_NCCL, GS_LOSS_UNMATCHED, "", 0},
};

static struct gs_open_call open_calls[] = {
	{4242, 4250, GS_LAYER_NCCL, "python", "ncclAllReduce", 252 * S, 0},
	{4242, 4250, GS_LAYER_CUDA_RUNTIME, "python", "cudaStreamSynchronize", 251 * S, 1},
	{4243, 4243, GS_LAYER_CUDA_RUNTIME, "\033[2J~", "cudaDeviceSynchronize", 3400 * MS, 0},
};

static struct gs_line_stats lines[] = {
	{
		.file = "/home/u/model.py",
		.function = "Block.forward",
		.line = 61,
		.samples = 120,
		.sample_ns = 1212121200,
		.total_samples = 300,
		.total_ns = 3030303000,
		.calls = 90,
		.launches = 80,
		.copies = 4,
		.allocs = 6,
		.bytes = 1 << 20,
		.call_ns = 450000,
		.wait_ns = 2500 * MS,
		.wait_by_cause_ns = {[GS_STATE_POLL] = 600 * MS,
				     [GS_WAIT_GPU] = 1800 * MS,
				     [GS_WAIT_GIL] = 100 * MS},
		.total_wait_ns = 3000 * MS,
		.wall_ns = 20100 * MS,
		.source = "loss\x1b[31m = self.head(\xff\xe2\x80\xae\t)  # noqa",
	},
	{
		.file = "/home/u/a very long path to a file, "
			"\"quoted\"/\xe4\xb8\xad\xe6\x96\x87.py",
		.function = "caf\xc3\xa9.<locals>.<lambda>",
		.line = 7,
		.calls = 2,
		.collectives = 2,
		.bytes = 4096,
		.call_ns = 1234,
		.slow_ops = 3,
		.op_ns = 9000000,
		/* Microseconds name no cause: neither beside what the line took, */
		.wait_ns = 5000,
		.wait_by_cause_ns = {[GS_STATE_SLEEP] = 5000},
		.total_wait_ns = 5000,
	},
	/* nor where a line did nothing else. */
	{.file = "<string>",
	 .function = "",
	 .line = 0,
	 .total_samples = 1,
	 .total_ns = 10101010,
	 .wait_ns = 7000,
	 .wait_by_cause_ns = {[GS_STATE_LOCK] = 7000},
	 .total_wait_ns = 7000,
	 .wall_ns = 20100 * MS},
};

static struct gs_mpi_rank_summary mpi_ranks[] = {
	{.pid = 4242,
	 .rank = 0,
	 .n_ranks = 2,
	 .comm = "python",
	 .calls = 321,
	 .total_ns = 1500000000,
	 .span_ns = 6000000000,
	 .sent_calls = 100,
	 .sent_bytes = 819200,
	 .received_calls = 90,
	 .received_bytes = 737280},
	{.pid = 4243,
	 .rank = -1,
	 .n_ranks = -1,
	 .comm = "~",
	 .calls = 7,
	 .received_calls = 5,
	 .received_bytes = 4000,
	 .room_calls = 3,
	 .unsized = 1},
};

static struct gs_mpi_peer_summary mpi_peers[] = {
	{.pid = 4242,
	 .rank = 0,
	 .peer = 1,
	 .comm = 0x44000000,
	 .direction = GS_MPI_SENT,
	 .calls = 100,
	 .bytes = 819200},
	{.pid = 4242,
	 .rank = 0,
	 .peer = 1,
	 .comm = 0x44000000,
	 .direction = GS_MPI_RECEIVED,
	 .calls = 90,
	 .bytes = 737280},
	{.pid = 4243,
	 .rank = -1,
	 .peer = GS_MPI_PEER_ANY,
	 .comm = 0x55d0c0ffee00,
	 .direction = GS_MPI_ROOM,
	 .calls = 3,
	 .bytes = 4000,
	 .unsized = 1},
};

static struct gs_comm_summary comms[] = {
	{4242, 0, 2, GS_COMM_NO_SPLIT, 0, 0x7f12ab34cd00, 0xfedcba9876543210, 0,
	 "ncclCommInitRankConfig", 602, 406159999488},
	{4243, 1, 2, GS_COMM_NO_SPLIT, 0, 0x7fe0ab34cd00, 0xfedcba9876543210, 0,
	 "ncclCommInitRankConfig", 602, 406159999488},
	{4243, -1, -1, 3, 7, 0x7fe0ab350000, 0, 0x7fe0ab34cd00, "ncclCommSplit", 1, 4096},
};

static struct gs_activity_stream streams[] = {
	{.process = 4242,
	 .stream = 0x55d0c0de0010,
	 .blocking = GS_ACTIVITY_NON_BLOCKING,
	 .n_pending = 2,
	 .totals = {.n = {[GS_ACTIVITY_KERNELS] = 41600,
			  [GS_ACTIVITY_GRAPHS] = 30,
			  [GS_ACTIVITY_COLLECTIVES] = 602},
		    .bytes = {[GS_ACTIVITY_COLLECTIVES] = 405898428416},
		    .threads = 41600ull * 65536,
		    .n_syncs = 600,
		    .n_records = 5,
		    .n_event_waits = 4,
		    .wait_ns = 19000 * MS,
		    .call_ns = 20100 * MS,
		    .busy_max_ns = 30200 * MS,
		    .busy_min_ns = 19000 * MS,
		    .n_spans = 601,
		    .n_gaps = 600,
		    .gap_ns = 1200 * MS,
		    .gap_max_ns = 900 * MS,
		    .depth_max = 130,
		    .depth_sum = 42232ull * 60,
		    .first_ns = 1}},
	{.process = 4243,
	 .totals = {.n = {[GS_ACTIVITY_COPIES + GS_COPY_H2D] = 5000,
			  [GS_ACTIVITY_COPIES + GS_COPY_D2H] = 100,
			  [GS_ACTIVITY_COPIES + GS_COPY_D2D] = 20},
		    .bytes = {[GS_ACTIVITY_COPIES + GS_COPY_H2D] = 13200000000,
			      [GS_ACTIVITY_COPIES + GS_COPY_D2H] = 7000000,
			      [GS_ACTIVITY_COPIES + GS_COPY_D2D] = 650304},
		    .call_ns = 384 * MS,
		    .busy_max_ns = 900 * MS,
		    .n_spans = 1,
		    .depth_max = 2,
		    .depth_sum = 5120,
		    .first_ns = 1}},
	{.process = 4243,
	 .context = 1,
	 .thread = 4250,
	 .stream = 2,
	 .blocking = GS_ACTIVITY_BLOCKING,
	 .totals = {.n = {[GS_ACTIVITY_MEMSETS] = 3},
		    .bytes = {[GS_ACTIVITY_MEMSETS] = 4096},
		    .n_failed = 1,
		    .n_captured = 7,
		    .busy_max_ns = 2 * MS,
		    .depth_sum = 3,
		    .first_ns = 1}},
	{.process = 4243,
	 .context = 1,
	 .context_handle = 0x55d0c0aa0000,
	 .nth = 1,
	 .stream = 0x55d0c0de0010,
	 .ended = true,
	 .totals = {.n = {[GS_ACTIVITY_HOST_FUNCTIONS] = 1}, .depth_sum = 1, .first_ns = 1}},
};

static struct gs_activity_context devices[] = {
	{.process = 4242,
	 .gpu = "GPU-4f1d6a3e-0000-1111-2222-333344445555",
	 .n_streams = 1,
	 .wait_ns = 19000 * MS,
	 .busy_max_ns = 30200 * MS,
	 .busy_min_ns = 19000 * MS,
	 .n_gaps = 600,
	 .gap_ns = 1200 * MS,
	 .gap_max_ns = 900 * MS},
	{.process = 4243, .gpu = "", .n_streams = 1, .busy_max_ns = 900 * MS},
	{.process = 4243,
	 .context = 1,
	 .handle = 0x55d0c0aa0000,
	 .gpu = "",
	 .n_streams = 5,
	 .n_rest = 3,
	 .rest = {.n = {12}},
	 .n_syncs = 2,
	 .busy_max_ns = 2 * MS},
};

static struct gs_graph_kernel graph_kernels[] = {
	{.name = "triton_poi_fused_add_0", .function = 0x55d0c0de7010, .count = 12},
	{.name = "", .function = 0x7fe0ab34ce00, .count = 1},
};

static struct gs_activity_graph graphs[] = {
	{.process = 4242,
	 .graph = 0x55d0c0ab0000,
	 .launches = 30,
	 .n_kernels = 13,
	 .kernels = graph_kernels,
	 .n_different = GS_ARRAY_LEN(graph_kernels)},
	{.process = 4242, .launches = 9, .n_kernels = 40, .destroyed = true, .is_sum = true},
	{.process = 4243, .graph = 0x55d0c0ab1000, .launches = 1},
};

static struct gs_activity_summary activity = {
	.streams = streams,
	.n_streams = GS_ARRAY_LEN(streams),
	.contexts = devices,
	.n_contexts = GS_ARRAY_LEN(devices),
	.graphs = graphs,
	.n_graphs = GS_ARRAY_LEN(graphs),
	.limit_hits = {[GS_ACTIVITY_LIMIT_STREAMS] = 12},
	.n_unread = 1,
};

#define GIB (1ull << 30)

static struct gs_memory_row memory_rows[] = {
	{4242,
	 "python",
	 "GPU-8c5f8f6e",
	 true,
	 {.process = 1,
	  .kind = GS_MEMORY_DEVICE,
	  .live_bytes = 3 * GIB / 2,
	  .live_blocks = 31,
	  .peak_bytes = 2 * GIB,
	  .total_bytes = 9 * GIB,
	  .allocations = 620,
	  .frees = 589,
	  .failed = 1}},
	{4242,
	 "python",
	 "GPU-8c5f8f6e",
	 true,
	 {.process = 1,
	  .kind = GS_MEMORY_VIRTUAL,
	  .live_bytes = 6 << 20,
	  .live_blocks = 3,
	  .peak_bytes = 8 << 20,
	  .total_bytes = 8 << 20,
	  .allocations = 4,
	  .frees = 1,
	  .mapped_bytes = 4 << 20}},
	{4242,
	 "python",
	 "GPU-8c5f8f6e",
	 true,
	 {.process = 1,
	  .kind = GS_MEMORY_ON_DEVICE,
	  .live_bytes = 3 * GIB / 2 + (6 << 20),
	  .live_blocks = 34,
	  .peak_bytes = 2 * GIB,
	  .total_bytes = 9 * GIB + (8 << 20),
	  .allocations = 624,
	  .frees = 590,
	  .page_bytes = 7 * GIB / 4,
	  .peak_page_bytes = 2 * GIB}},
	{4242,
	 "python",
	 "",
	 true,
	 {.process = 1,
	  .kind = GS_MEMORY_PINNED,
	  .device = GS_MEMORY_DEVICE_ALL,
	  .live_bytes = 1 << 16,
	  .live_blocks = 1,
	  .peak_bytes = 1 << 17,
	  .total_bytes = 1 << 18,
	  .allocations = 3,
	  .frees = 2}},
	{4242,
	 "python",
	 "",
	 true,
	 {.process = 1,
	  .kind = GS_MEMORY_ON_DEVICE,
	  .device = GS_MEMORY_DEVICE_ALL,
	  .live_bytes = 3 * GIB / 2 + (6 << 20),
	  .live_blocks = 34,
	  .peak_bytes = 2 * GIB,
	  .total_bytes = 9 * GIB + (8 << 20),
	  .allocations = 624,
	  .frees = 590,
	  .double_frees = 2,
	  .unknown_frees = 17,
	  .untracked = 5}},
	{4242,
	 "python",
	 "",
	 true,
	 {.process = 1,
	  .kind = GS_MEMORY_ON_HOST,
	  .device = GS_MEMORY_DEVICE_ALL,
	  .live_bytes = 1 << 16,
	  .live_blocks = 1,
	  .peak_bytes = 1 << 17,
	  .total_bytes = 1 << 18,
	  .allocations = 3,
	  .frees = 2}},
	{4243,
	 "python",
	 "",
	 false,
	 {.process = 2,
	  .kind = GS_MEMORY_POOL,
	  .device = GS_MEMORY_DEVICE_UNKNOWN,
	  .peak_bytes = 1000,
	  .total_bytes = 5000,
	  .allocations = 5,
	  .frees = 5}},
};

static struct gs_memory_place memory_places[] = {
	{4242,
	 "python",
	 "cudaMalloc",
	 "/home/u/train.py:37 step",
	 {.kind = GS_MEMORY_DEVICE,
	  .live_bytes = 3 * GIB / 2,
	  .live_blocks = 31,
	  .peak_bytes = 2 * GIB,
	  .total_bytes = 9 * GIB,
	  .allocations = 620}},
	{4242,
	 "python",
	 "cuMemCreate",
	 "ExpandableSegment::map (libc10_cuda.so)",
	 {.kind = GS_MEMORY_VIRTUAL,
	  .live_bytes = 6 << 20,
	  .live_blocks = 3,
	  .peak_bytes = 8 << 20,
	  .total_bytes = 8 << 20,
	  .allocations = 4}},
	{4242,
	 "python",
	 "cudaHostAlloc",
	 "",
	 {.kind = GS_MEMORY_PINNED,
	  .device = GS_MEMORY_DEVICE_ALL,
	  .live_bytes = 1 << 16,
	  .live_blocks = 1,
	  .peak_bytes = 1 << 17,
	  .total_bytes = 1 << 18,
	  .allocations = 3}},
	{0, "", "", "", {.peak_bytes = 1000, .total_bytes = 5000, .allocations = 5}},
};

static struct gs_memory_measured memory_measured[] = {
	{4242, "python", "GPU-8c5f8f6e", 0, false, 1 << 20, 7 * GIB / 4, 2 * GIB,
	 3 * GIB / 2 + (6 << 20), 720},
	{4243, "python", "GPU-8c5f8f6e", GS_MEMORY_DEVICE_UNKNOWN, true, 500 << 20, 500 << 20,
	 510 << 20, 0, 719},
};

static struct gs_memory_summary memory = {
	.rows = memory_rows,
	.n_rows = GS_ARRAY_LEN(memory_rows),
	.places = memory_places,
	.n_places = GS_ARRAY_LEN(memory_places),
	.measured = memory_measured,
	.n_measured = GS_ARRAY_LEN(memory_measured),
};

static struct gs_gpu_summary gpus[] = {
	{
		.uuid = "GPU-0a1b2c3d-1111-2222-3333-444455556666",
		.name = "NVIDIA H100 80GB HBM3",
		.number = "0",
		.n_samples = 700,
		.busy_ratio = 0.75,
		.power_watts = 412.5,
		.memory_peak_bytes = 50ll << 30,
		.compared_ns = 60000000000,
		.others_ns = 9900000000,
		.compared_busy_ratio = 0.8125,
		.least_ratio = 0.75,
		.most_ratio = 0.9375,
	},
	{
		.uuid = "MIG-0a1b2c3d-1111-2222-3333-444455556677",
		.name = "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
		.number = "1:7",
		.n_samples = 700,
		.busy_ratio = -1,
		.power_watts = -1,
		.memory_peak_bytes = -1,
		.why = GS_GPU_UNCOMPARED_NO_COUNTER,
	},
};

static struct gs_gpu_time_kernel timed_kernels[] = {
	{.name = "ampere_sgemm_128x64_nn",
	 .short_name = "ampere_sgemm_128x64_nn",
	 .runs = 7228,
	 .total_ns = 612000000,
	 .min_ns = 80100,
	 .max_ns = 93000},
	{.name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
	 .short_name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
	 .runs = 420,
	 .total_ns = 201000000,
	 .min_ns = 11000,
	 .max_ns = 9000000},
	{.name = "", .short_name = "", .runs = 1, .total_ns = 1500, .min_ns = 1500, .max_ns = 1500},
};

static struct gs_gpu_time_device timed_devices[] = {
	{.process = 4242,
	 .device = 0,
	 .kernels = 7649,
	 .graphs = 2,
	 .copies = 33,
	 .fills = 4,
	 .copied_bytes = 138412032,
	 .window_ns = 1002000000,
	 .busy_ns = {830000000, 613000000, 201000000, 24000000, 802000000, 630000000},
	 .gaps = 512,
	 .gap_ns = 160000000,
	 .gap_max_ns = 8200000},
	{.process = 4243, .device = 1, .window_ns = 999000000},
};

static struct gs_gpu_time gpu_time = {
	.kernels = timed_kernels,
	.n_kernels = GS_ARRAY_LEN(timed_kernels),
	.devices = timed_devices,
	.n_devices = GS_ARRAY_LEN(timed_devices),
	.kernel_ns = 813001500,
	.window_ns = 2001000000,
	.windows = 2,
	.yielded = 1,
	.overhead_ns = 42000,
	.untimed = 3,
	.dropped = 12,
	.discarded = 1,
	.bad = 2,
	.left_out = 5,
	.version = 130001,
	.refusal = "its CUPTI (version 12) is older than that of CUDA 11.0",
};

static struct gs_kernel_summary kernels[] = {
	{.name = "void at::native::vectorized_elementwise_kernel<4, "
		 "at::native::FillFunctor<float>, "
		 "std::array<char*, 1ul> >(int, at::native::FillFunctor<float>, "
		 "std::array<char*, 1ul>)",
	 .short_name = "vectorized_elementwise_kernel<4, FillFunctor<float>, array<char*, 1ul>>",
	 .symbol = "_ZN2at6native29vectorized_elementwise_kernelILi4E",
	 .file = "/opt/lib/libtorch_cuda.so",
	 .how = 1,
	 .pid = 4242,
	 .function = 0x7fe0ab34cd00,
	 .launches = 41000,
	 .failed = 2,
	 .host_ns = 620 * MS,
	 .blocks = 4100000,
	 .threads = 5248000,
	 .sm = 90,
	 .registers = 32,
	 .static_shared_bytes = 512,
	 .constant_bytes = 544,
	 .code_bytes = 1664,
	 .max_threads = 128},
	{.name = "triton_poi_fused_add_0",
	 .graph_runs = 360,
	 .short_name = "triton_poi_fused_add_0",
	 .symbol = "triton_poi_fused_add_0",
	 .file = "",
	 .how = 3,
	 .pid = 4242,
	 .function = 0x55d0c0de0010,
	 .launches = 600,
	 .host_ns = 9 * MS,
	 .blocks = 1501,
	 .threads = 76800,
	 .dynamic_shared_bytes = 600 * 49152},
	{.name = "",
	 .short_name = "",
	 .symbol = "",
	 .file = "",
	 .pid = 4243,
	 .function = 0x55d0c0de0040,
	 .launches = 30,
	 .host_ns = 1 * MS},
};

static struct gs_use_summary uses[] = {
	{GS_LAYER_TORCH, "aten::addmm", 41630, 0, 12, 0, 3, 630 * MS, 4096},
	{GS_LAYER_TORCH, "aten::copy_", 0, 5120, 0, 0, 0, 384 * MS, 13207650304},
	{GS_LAYER_TORCH, "autograd::evaluate_function", 0, 0, 0, 1204, 0, 66 * MS, 812319998976},
};

static struct gs_python_function functions[] = {
	{"train.py:train/40", "/work/train.py", 40, 12, 0, 900 * MS, 3 * MS, 90 * MS, 75 * MS,
	 90 * MS, 90 * MS, 41630},
	{"torch/utils/data/dataloader.py:__iter__/7",
	 "/opt/lib/python3.10/site-packages/torch/utils/data/dataloader.py", 7, 1201, 1200, 60 * MS,
	 60 * MS, 1 * MS, 50000, 60000, 70000, 0},
	{"<string>:\xe4\xb8\xad/0", "<string>", 0, 1, 0, 1000, 1000, 1000, 1000, 1000, 1000, 0},
};

static struct gs_account_thread account_threads[] = {
	{.pid = 4242,
	 .tid = 4242,
	 .parent_pid = 4240,
	 .comm = "python",
	 .process = "python",
	 .wall_ns = 72000000000,
	 .start_ns = 300000000,
	 .time_ns = {[GS_STATE_CPU] = {[GS_INSIDE_NONE] = 9000000000,
				       [GS_INSIDE_GPU_WAIT] = 20000000000,
				       [GS_INSIDE_OPERATOR] = 4000000000},
		     [GS_STATE_RUNQUEUE] =
			     {[GS_INSIDE_NONE] = 200000000, [GS_INSIDE_CUDA] = 300000000},
		     [GS_STATE_LOCK] =
			     {[GS_INSIDE_GPU_WAIT] = 25000000000, [GS_INSIDE_NCCL] = 3500000000},
		     [GS_STATE_PIPE] = {[GS_INSIDE_NONE] = 9900000000},
		     [GS_STATE_DISK] = {[GS_INSIDE_NONE] = 100000000}},
	 .launches = 120000,
	 .collectives = 420,
	 .critical = 1},
	{.pid = 4242,
	 .tid = 4250,
	 .comm = "pt_data_pin",
	 .process = "python",
	 .wall_ns = 60000000000,
	 .start_ns = 9000000000,
	 .time_ns = {[GS_STATE_LOCK] = {[GS_INSIDE_NONE] = 60000000000}},
	 .ended = 1,
	 .idle = 1},
};

static struct gs_collectives_rank arriving[] = {
	{.rank = 0,
	 .pid = 4242,
	 .calls = 1300,
	 .calls_ns = 21 * MS,
	 .late_p50_ns = 12000,
	 .late_p95_ns = 81000,
	 .late_max_ns = 3 * MS,
	 .n_last = 49,
	 .margin_p50_ns = 11000,
	 .margin_sum_ns = MS,
	 .behind_ns = 40 * MS,
	 .missing_ns = MS},
	{.rank = 1,
	 .pid = 4300,
	 .calls = 1299,
	 .calls_ns = 19 * MS,
	 .late_p50_ns = 4900000,
	 .late_p95_ns = 5200000,
	 .late_max_ns = 48 * MS,
	 .n_last = 1250,
	 .margin_p50_ns = 4890000,
	 .margin_sum_ns = 6200 * MS,
	 .behind_ns = 6300 * MS,
	 .missing_ns = 6100 * MS},
};

static struct gs_collectives_comm arriving_comms[] = {
	{.id = 0x9e3779b97f4a7c15,
	 .n_ranks = 2,
	 .n_matched = 1299,
	 .span_ns = 60000 * MS,
	 .ranks = arriving,
	 .n_seen = GS_ARRAY_LEN(arriving),
	 .late = &arriving[1]},
	{.id = 0x1234,
	 .n_ranks = 2,
	 .n_matched = 0,
	 .ranks = arriving,
	 .n_seen = GS_ARRAY_LEN(arriving)},
};

static struct gs_collectives_summary collectives = {
	.comms = arriving_comms,
	.n_comms = GS_ARRAY_LEN(arriving_comms),
	.n_calls = 2630,
	.n_matched = 2598,
	.left_out = {[GS_COLLECTIVES_FAILED] = 1,
		     [GS_COLLECTIVES_UNKNOWN] = 30,
		     [GS_COLLECTIVES_MISSING] = 1},
};

struct gs_summary sample_full(void)
{
	return (struct gs_summary){
		.command = "torchrun --nproc-per-node 2 train.py --epochs 3",
		.host = "node17",
		.kernel = "6.8.0-45-generic",
		.attach_mode = "one link for each file, pairing in the kernel",
		.end_reason = "command exited",
		.mode = GS_SESSION_EVENTS,
		.exit_status = 1,
		.start_wall_ns = 1763706420123456789,
		.duration_ns = 72345678901,
		.complete = 1,
		.functions = LIST(all),
		.processes = processes,
		.n_processes = GS_ARRAY_LEN(processes),
		.errors = errors,
		.n_errors = GS_ARRAY_LEN(errors),
		.attached = attached,
		.n_attached = GS_ARRAY_LEN(attached),
		.attach_failures = failures,
		.n_attach_failures = GS_ARRAY_LEN(failures),
		.lost = lost,
		.n_lost = GS_ARRAY_LEN(lost),
		.open_calls = open_calls,
		.n_open_calls = GS_ARRAY_LEN(open_calls),
		.uses = uses,
		.n_uses = GS_ARRAY_LEN(uses),
		.comms = comms,
		.n_comms = GS_ARRAY_LEN(comms),
		.mpi_ranks = mpi_ranks,
		.n_mpi_ranks = GS_ARRAY_LEN(mpi_ranks),
		.mpi_peers = mpi_peers,
		.n_mpi_peers = GS_ARRAY_LEN(mpi_peers),
		.activity = &activity,
		.memory = &memory,
		.gpus = gpus,
		.n_gpus = GS_ARRAY_LEN(gpus),
		.kernels = kernels,
		.n_kernels = GS_ARRAY_LEN(kernels),
		.kernel_launches = 41630,
		.unknown_launches = 30,
		.has_python = 1,
		.python_lines = lines,
		.n_python_lines = GS_ARRAY_LEN(lines),
		.python_functions = functions,
		.n_python_functions = GS_ARRAY_LEN(functions),
		.python_bare_samples = 17,
		.python_bare_wait_ns = 1230 * MS,
		.python_many_wait_ns = 456 * MS,
		.account = {.threads = account_threads,
			    .n_threads = GS_ARRAY_LEN(account_threads),
			    .n_rest = 3,
			    .rest_ns = {[GS_STATE_SLEEP] = {[GS_INSIDE_NONE] = 12345678}}},
		.steps = {.n_steps = 2409,
			  .n_odd = 3,
			  .pid = 4242,
			  .tid = 4242,
			  .comm = "python",
			  .anchor = "cudaStreamSynchronize",
			  .median_ns = 29000000,
			  .p95_ns = 33000000,
			  .max_ns = 210000000,
			  .max_start_ns = 12300000000,
			  .longer = "cudaStreamSynchronize",
			  .longer_ns = 192000000,
			  .longer_mean_ns = 17100000},
		.collectives = &collectives,
		.gpu_time = &gpu_time,
		.verdict = {.class_name = "gpu_bound",
			    .title = "GPU-bound",
			    .evidence = "the host waits until the GPU is done",
			    .advice = "make the GPU's work cheaper",
			    .command = "gpuscope top",
			    .share = 0.625,
			    .confidence = 0.612},
		.native = {.taken = 12345, .different = 67, .cut = 8, .unnamed = 9},
	};
}

struct gs_summary sample_single(void)
{
	struct gs_summary s = sample_full();

	s.command = "python train.py --epochs 3";
	s.exit_status = 0;
	s.functions = (struct gs_function_list)LIST(rank0);
	s.n_processes = 1;
	s.mode = GS_SESSION_SUMMARY;
	s.n_errors = s.n_attach_failures = s.n_lost = s.n_open_calls = 0;
	s.n_comms = 1;
	s.n_mpi_ranks = s.n_mpi_peers = s.n_kernels = 0;
	s.activity = NULL;
	s.memory = NULL;
	s.gpus = NULL;
	s.n_gpus = 0;
	s.n_uses = s.n_python_functions = 0;
	s.collectives = NULL;
	s.gpu_time = NULL;
	return s;
}

struct gs_summary sample_empty(void)
{
	return (struct gs_summary){.exit_status = -1};
}
