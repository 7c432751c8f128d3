#include "summary_sample.h"

#include <errno.h>

#include "core/base/mem.h"
#include "model/trace/mpi.h"
#include "model/trace/func.h"
#include "model/trace/record.h"
#include "model/summary/gpu_time.h"
#include "model/summary/nccl.h"
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

#include "summary_sample_gpu.h"

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
	 .late_total_ns = 40 * MS,
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
	 .late_total_ns = 6300 * MS,
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

static struct gs_hang_rank_summary hang_ranks[] = {
	{.rank = 3,
	 .pid = 4243,
	 .tid = 4250,
	 .state = "missing",
	 .calls = 1203,
	 .last_age_ns = 61 * S,
	 .last_count = 6553600,
	 .last_function = "ncclAllReduce",
	 .last_type = "float32",
	 .text = "rank 3 (process 4243) last called ncclAllReduce of 6553600 float32, collective 1203, 61.0 s ago",
	 .python = "collate (data.py:41), next (loader.py:12)",
	 .native = ""},
	{.rank = 1,
	 .pid = 4241,
	 .signal = 9,
	 .state = "ended",
	 .last_function = "",
	 .last_type = "",
	 .text = "rank 1 (process 4241) was killed by signal 9 (Killed), no collective so far",
	 .python = "",
	 .native = ""},
	{.rank = 0,
	 .pid = 4242,
	 .tid = 4242,
	 .state = "arrived",
	 .calls = 1204,
	 .last_age_ns = 60 * S,
	 .last_count = 6553600,
	 .last_function = "ncclAllReduce",
	 .last_type = "float32",
	 .text = "rank 0 (process 4242) called ncclAllReduce of 6553600 float32, collective 1204, 60.0 s ago, still in it",
	 .python = "",
	 .native = "poll (libc.so.6), ncclGroupEnd (libnccl.so.2)"},
};

static struct gs_hang_summary hangs[] = {
	{.kind = "differs",
	 .text = "rank 2 (process 4244) skipped collective 7 of communicator 0x9e01, ncclAllReduce of 4 float32",
	 .id = 0x9e01,
	 .n_ranks = 4,
	 .call = 7,
	 .since_ns = 9 * S,
	 .found_ns = 12 * S,
	 .ended_ns = 10 * S,
	 .has_arrived = true},
	{.kind = "waits",
	 .text = "ranks 1, 3 have not arrived at collective 1204 of communicator 0xc51d3f0a77be9102: 1 of 4 ranks waiting for 60.0 s in ncclAllReduce of 6553600 float32",
	 .id = 0xc51d3f0a77be9102,
	 .n_ranks = 4,
	 .call = 1204,
	 .since_ns = 190 * S,
	 .found_ns = 250 * S,
	 .ranks = hang_ranks,
	 .n_listed = GS_ARRAY_LEN(hang_ranks)},
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
		.nccl = &nccl_said,
		.hangs = hangs,
		.n_hangs = GS_ARRAY_LEN(hangs),
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
	s.nccl = NULL;
	s.n_hangs = 0;
	return s;
}

struct gs_summary sample_empty(void)
{
	return (struct gs_summary){.exit_status = -1};
}
