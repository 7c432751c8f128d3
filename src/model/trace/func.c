/*
 * The table of functions. A row says which saved word is what: A0..A5 are the argument registers
 * of the x86-64 System V ABI in order, S(n) the n-th eight-byte word above the return address
 * (argument 7 is S(0)). Prototypes: cuda_runtime_api.h and cuda.h of CUDA 11.8 to 13.0, nccl.h of
 * NCCL 2.18 to 2.28 (newer names as their
 * documentation has them). Functions that take a stream exist a second time for the per-thread
 * default stream, with _ptsz (asynchronous) or _ptds after the name.
 */
#include "model/trace/func.h"

#include <string.h>

#define A0   0
#define A1   1
#define A2   2
#define A3   3
#define A4   4
#define A5   5
#define S(n) (GS_V_STACK + (n))
#define NO   GS_V_NONE

/* In the place of the words on the stack: bit n says that An is an unsigned int, whose register may
 * hold anything above its 32 bits. Addresses and sizes of the first driver ABI are such. */
#define LOW(bits) (GS_V_LOW | (bits))

#define NOT_READY   600 /* cudaErrorNotReady and CUDA_ERROR_NOT_READY */
#define IN_PROGRESS 7   /* ncclInProgress */

/* name, class, default, post, words on the stack, bytes, bytes2, stream, aux, arg0..arg3, answer */
#define ROW(layer_, name_, class_, on_, post_, n_, b_, b2_, s_, x_, p_, q_, r_, t_, ok_)           \
	{                                                                                          \
		.by_default = on_, .name = name_, .desc = {                                        \
			.layer = GS_LAYER_##layer_,                                                \
			.op = GS_CLASS_##class_,                                                   \
			.post = GS_POST_##post_,                                                   \
			.n_stack = n_,                                                             \
			.v_bytes = b_,                                                             \
			.v_bytes2 = b2_,                                                           \
			.v_stream = s_,                                                            \
			.v_aux = x_,                                                               \
			.v_arg = {p_, q_, r_, t_},                                                 \
			.not_error = ok_                                                           \
		}                                                                                  \
	}

#define RT_(name, class, post, n, b, b2, s, x, p, q)                                               \
	ROW(CUDA_RUNTIME, name, class, true, post, n, b, b2, s, x, p, q, NO, NO, 0)
#define RT(name, ...)      RT_(name, __VA_ARGS__)
#define RT_ptsz(name, ...) RT_(name, __VA_ARGS__), RT_(name "_ptsz", __VA_ARGS__)
#define RT_ptds(name, ...) RT_(name, __VA_ARGS__), RT_(name "_ptds", __VA_ARGS__)
#define RT_hot(name, class, s)                                                                     \
	ROW(CUDA_RUNTIME, name, class, false, NONE, 0, NO, NO, s, NO, NO, NO, NO, NO, NOT_READY)
#define RT_query(name, class, s, p)                                                                \
	ROW(CUDA_RUNTIME, name, class, true, NONE, 0, NO, NO, s, NO, p, NO, NO, NO, NOT_READY)
#define RT_elapsed(name)                                                                           \
	ROW(CUDA_RUNTIME, name, EVENT, true, NONE, 0, NO, NO, NO, NO, A1, A2, NO, NO, NOT_READY)

/* Not counted, so what it returns is of no interest. */
#define WATCHED(layer_, name_, post_)                                                              \
	{                                                                                          \
		.watched_only = true, .name = name_, .desc = {                                     \
			.layer = GS_LAYER_##layer_,                                                \
			.op = GS_CLASS_MODULE,                                                     \
			.post = GS_POST_##post_,                                                   \
			.v_bytes = NO,                                                             \
			.v_bytes2 = NO,                                                            \
			.v_stream = NO,                                                            \
			.v_aux = NO,                                                               \
			.v_arg = {NO, NO, NO, NO}                                                  \
		}                                                                                  \
	}

#define DRV_(name, class, post, n, b, b2, s, x, p, q)                                              \
	ROW(CUDA_DRIVER, name, class, true, post, n, b, b2, s, x, p, q, NO, NO, 0)
#define DRV(name, ...)      DRV_(name, __VA_ARGS__)
#define DRV_ptsz(name, ...) DRV_(name, __VA_ARGS__), DRV_(name "_ptsz", __VA_ARGS__)
#define DRV_ptds(name, ...) DRV_(name, __VA_ARGS__), DRV_(name "_ptds", __VA_ARGS__)
#define DRV_hot(name, class, s)                                                                    \
	ROW(CUDA_DRIVER, name, class, false, NONE, 0, NO, NO, s, NO, NO, NO, NO, NO, NOT_READY)
#define DRV_query(name, class, s, p)                                                               \
	ROW(CUDA_DRIVER, name, class, true, NONE, 0, NO, NO, s, NO, p, NO, NO, NO, NOT_READY)
#define DRV_elapsed(name)                                                                          \
	ROW(CUDA_DRIVER, name, EVENT, true, NONE, 0, NO, NO, NO, NO, A1, A2, NO, NO, NOT_READY)

/* NCCL: bytes = v_bytes elements of the type in v_bytes2; arg0 count, arg1 communicator, arg2 and
 * arg3 buffers; aux is put together from dtype, op (v_aux) and root (its own word, see below). */
#define NC(name_, class_, n_, count_, dtype_, op_, root_, comm_, stream_, send_, recv_)            \
	{                                                                                          \
		.by_default = true, .name = name_, .desc = {                                       \
			.layer = GS_LAYER_NCCL,                                                    \
			.op = GS_CLASS_##class_,                                                   \
			.post = GS_POST_NCCL,                                                      \
			.n_stack = n_,                                                             \
			.v_bytes = count_,                                                         \
			.v_bytes2 = dtype_,                                                        \
			.v_stream = stream_,                                                       \
			.v_aux = (op_) | (root_) << 4,                                             \
			.v_arg = {count_, comm_, send_, recv_},                                    \
			.not_error = IN_PROGRESS                                                   \
		}                                                                                  \
	}
#define NC_COMM(name, class, n, comm, post)                                                        \
	ROW(NCCL, name, class, true, post, n, NO, NO, NO, NO, comm, NO, NO, NO, IN_PROGRESS)
#define NC_SIGNAL(name, comm, stream)                                                              \
	ROW(NCCL, name, OTHER, true, NONE, 0, NO, NO, stream, NO, comm, NO, NO, NO, IN_PROGRESS)

/* MPI: words on the stack, count, datatype, peer or root, communicator (or window), how the bytes
 * follow (enum gs_mpi_shape). */
#define MP_(name_, class_, n_, count_, type_, peer_, comm_, status_, shape_, post_)                \
	{                                                                                          \
		.by_default = true, .name = "MPI_" name_, .desc = {                                \
			.layer = GS_LAYER_MPI,                                                     \
			.op = GS_CLASS_##class_,                                                   \
			.post = GS_POST_##post_,                                                   \
			.n_stack = n_,                                                             \
			.v_bytes = count_,                                                         \
			.v_bytes2 = type_,                                                         \
			.v_stream = status_,                                                       \
			.v_aux = (peer_) | GS_MPI_##shape_ << 4,                                   \
			.v_arg = {count_, comm_, NO, NO},                                          \
		}                                                                                  \
	}
#define MP(name, class, n, count, type, peer, comm, shape)                                         \
	MP_(name, class, n, count, type, peer, comm, NO, shape, MPI)
/* A collective and its kind that does not wait. */
#define MP_both(name, inner, ...)                                                                  \
	MP(name, COLLECTIVE, __VA_ARGS__), MP("I" inner, COLLECTIVE, __VA_ARGS__)
#define MP_send(name)                MP(name, P2P, 0, A1, A2, A3, A5, SEND)
#define MP_rma(name, n, comm, shape) MP(name, P2P, n, A1, A2, A3, comm, shape)
#define MP_file(name, class, count)  MP(name, class, 0, count, (count) + 1, NO, NO, PLAIN)
/* Without bytes: of the class, and what handle it has. */
#define MP_plain(name, class, comm) MP(name, class, 0, NO, NO, NO, comm, PLAIN)

static struct gs_func table[GS_FUNC_MAX] = {
	[0] = {.name = ""},

	/* --- CUDA runtime: launches --- */
	RT_ptsz("cudaLaunchKernel", LAUNCH, LAUNCH_RT, 2, NO, NO, S(1), S(0), A0, NO),
	RT_ptsz("cudaLaunchCooperativeKernel", LAUNCH, LAUNCH_RT, 2, NO, NO, S(1), S(0), A0, NO),
	RT_ptsz("cudaLaunchKernelExC", LAUNCH, LAUNCH_EXC, 0, NO, NO, NO, NO, A1, NO),
	RT("cudaLaunchCooperativeKernelMultiDevice", LAUNCH, NONE, 0, NO, NO, NO, A2, A0, A1),
	RT_ptsz("cudaGraphLaunch", GRAPH_LAUNCH, NONE, 0, NO, NO, A1, NO, A0, NO),
	RT_ptsz("cudaLaunchHostFunc", STREAM, CALLBACK, 0, NO, NO, A0, NO, A1, NO),

	/* allocations */
	RT("cudaMalloc", ALLOC, OUT_PTR, 0, A1, NO, NO, NO, A0, NO),
	RT_ptsz("cudaMallocAsync", ALLOC, OUT_PTR, 0, A1, NO, A2, NO, A0, NO),
	RT_ptsz("cudaMallocFromPoolAsync", ALLOC, OUT_PTR, 0, A1, NO, A3, NO, A0, A2),
	RT("cudaMallocManaged", ALLOC, OUT_PTR, 0, A1, NO, NO, A2, A0, NO),
	RT("cudaMallocHost", ALLOC, OUT_PTR, 0, A1, NO, NO, NO, A0, NO),
	RT("cudaHostAlloc", ALLOC, OUT_PTR, 0, A1, NO, NO, A2, A0, NO),
	RT("cudaHostRegister", ALLOC, NONE, 0, A1, NO, NO, A2, A0, NO),
	RT("cudaMallocPitch", ALLOC, PITCH, 0, A3, NO, NO, NO, A0, A2),
	/* cudaExtent (24 bytes) goes by value, on the stack: width, height, depth. */
	RT("cudaMalloc3D", ALLOC, PITCHED_PTR, 3, S(1), S(2), NO, NO, A0, S(0)),
	/* Height 0: one row. */
	RT("cudaMallocArray", ALLOC, ARRAY, 0, A2, A3, NO, A4, A0, A1),
	/* The extent by value again, in elements; bytes also times the layers or faces, which are
	 * its depth. A mipmapped array: the sum of its levels (their number is the third register).
	 */
	RT("cudaMalloc3DArray", ALLOC, ARRAY3D, 3, S(0), NO, NO, A2, A0, NO),
	RT("cudaMallocMipmappedArray", ALLOC, ARRAY3D, 3, S(0), A2, NO, A3, A0, NO),
	RT("cudaFree", FREE, NONE, 0, NO, NO, NO, NO, A0, NO),
	RT_ptsz("cudaFreeAsync", FREE, NONE, 0, NO, NO, A1, NO, A0, NO),
	RT("cudaFreeHost", FREE, NONE, 0, NO, NO, NO, NO, A0, NO),
	RT("cudaHostUnregister", FREE, NONE, 0, NO, NO, NO, NO, A0, NO),
	RT("cudaFreeArray", FREE, NONE, 0, NO, NO, NO, NO, A0, NO),
	RT("cudaFreeMipmappedArray", FREE, NONE, 0, NO, NO, NO, NO, A0, NO),
	/* Another process's memory comes into sight: nothing is allocated, its size is not an argument.
	 * The handle (64 bytes) goes by value, on the stack. */
	RT("cudaIpcOpenMemHandle", OTHER, OUT_PTR, 0, NO, NO, NO, A1, A0, NO),
	RT("cudaIpcCloseMemHandle", OTHER, NONE, 0, NO, NO, NO, NO, A0, NO),

	/* copies: destination, source, bytes, kind, stream */
	RT_ptds("cudaMemcpy", COPY, NONE, 0, A2, NO, NO, A3, A0, A1),
	RT_ptsz("cudaMemcpyAsync", COPY, NONE, 0, A2, NO, A4, A3, A0, A1),
	RT("cudaMemcpyPeer", COPY, COPY_PEER, 0, A4, NO, NO, NO, A0, A2),
	RT("cudaMemcpyPeerAsync", COPY, COPY_PEER, 0, A4, NO, A5, NO, A0, A2),
	RT_ptds("cudaMemcpy2D", COPY, NONE, 1, A4, A5, NO, S(0), A0, A2),
	RT_ptsz("cudaMemcpy2DAsync", COPY, NONE, 2, A4, A5, S(1), S(0), A0, A2),
	RT_ptds("cudaMemcpy3D", COPY, COPY3D_RT, 0, NO, NO, NO, NO, A0, NO),
	RT_ptsz("cudaMemcpy3DAsync", COPY, COPY3D_RT, 0, NO, NO, A1, NO, A0, NO),
	RT_ptds("cudaMemcpyToSymbol", COPY, NONE, 0, A2, NO, NO, A4, A0, A1),
	RT_ptsz("cudaMemcpyToSymbolAsync", COPY, NONE, 0, A2, NO, A5, A4, A0, A1),
	RT_ptds("cudaMemcpyFromSymbol", COPY, NONE, 0, A2, NO, NO, A4, A0, A1),
	RT_ptsz("cudaMemcpyFromSymbolAsync", COPY, NONE, 0, A2, NO, A5, A4, A0, A1),
	/* array, wOffset, hOffset, src, spitch, width, then height, kind, stream */
	RT_ptds("cudaMemcpy2DToArray", COPY, NONE, 2, A5, S(0), NO, S(1), A0, A3),
	RT_ptsz("cudaMemcpy2DToArrayAsync", COPY, NONE, 3, A5, S(0), S(2), S(1), A0, A3),
	/* dst, dpitch, array, wOffset, hOffset, width, then height, kind, stream */
	RT_ptds("cudaMemcpy2DFromArray", COPY, NONE, 2, A5, S(0), NO, S(1), A0, A2),
	RT_ptsz("cudaMemcpy2DFromArrayAsync", COPY, NONE, 3, A5, S(0), S(2), S(1), A0, A2),
	/* array, wOffset, hOffset, src, bytes, kind, stream; the next pair likewise */
	RT_ptds("cudaMemcpyToArray", COPY, NONE, 0, A4, NO, NO, A5, A0, A3),
	RT_ptsz("cudaMemcpyToArrayAsync", COPY, NONE, 1, A4, NO, S(0), A5, A0, A3),
	RT_ptds("cudaMemcpyFromArray", COPY, NONE, 0, A4, NO, NO, A5, A0, A1),
	RT_ptsz("cudaMemcpyFromArrayAsync", COPY, NONE, 1, A4, NO, S(0), A5, A0, A1),
	/* dst, wOffset, hOffset, src, wOffset, hOffset, then bytes or width and height, kind */
	RT_ptds("cudaMemcpyArrayToArray", COPY, NONE, 2, S(0), NO, NO, S(1), A0, A3),
	RT_ptds("cudaMemcpy2DArrayToArray", COPY, NONE, 3, S(0), S(1), NO, S(2), A0, A3),
	RT_ptds("cudaMemcpy3DPeer", COPY, COPY3D_PEER_RT, 0, A0, NO, NO, NO, A0, NO),
	RT_ptsz("cudaMemcpy3DPeerAsync", COPY, COPY3D_PEER_RT, 0, A0, NO, A1, NO, A0, NO),
	/* Batches: bytes of all copies, destination and source of the first, their number. These
	 * have the arguments of CUDA 13; 12.8 and 12.9 have one more, a pointer where the index of
	 * the copy that failed goes, before the stream (cudaMemcpyBatchAsync) or before the flags
	 * (cudaMemcpy3DBatchAsync): with these the stream shown is not one. */
	RT_ptsz("cudaMemcpyBatchAsync", COPY, COPY_BATCH, 2, A2, A3, S(1), NO, A0, A1),
	RT_ptsz("cudaMemcpy3DBatchAsync", COPY, COPY3D_BATCH, 0, A1, A0, A3, NO, NO, NO),
	/* A prefetch moves pages to a place: it has no source. The arguments of CUDA 13 (and of _v2
	 * in CUDA 12.2 and newer); without _v2 the stream of CUDA 12 is where the flags are now. */
	RT_ptsz("cudaMemPrefetchAsync", COPY, COPY_ANY, 0, A1, NO, A4, NO, A0, NO),
	RT_ptsz("cudaMemPrefetchAsync_v2", COPY, COPY_ANY, 0, A1, NO, A4, NO, A0, NO),
	RT_ptsz("cudaMemPrefetchBatchAsync", COPY, COPY_BATCH, 2, A1, A2, S(1), NO, A0, NO),

	/* memsets */
	RT_ptds("cudaMemset", MEMSET, NONE, 0, A2, NO, NO, A1, A0, NO),
	RT_ptsz("cudaMemsetAsync", MEMSET, NONE, 0, A2, NO, A3, A1, A0, NO),
	RT_ptds("cudaMemset2D", MEMSET, NONE, 0, A3, A4, NO, A2, A0, NO),
	RT_ptsz("cudaMemset2DAsync", MEMSET, NONE, 0, A3, A4, A5, A2, A0, NO),
	/* cudaPitchedPtr (32 bytes) and cudaExtent (24) by value: pointer, pitch, xsize, ysize,
	 * then width, height, depth (multiplied in by the post step); the stream follows the value.
	 */
	RT_ptds("cudaMemset3D", MEMSET, EXTENT3, 7, S(4), S(5), NO, A0, S(0), S(6)),
	RT_ptsz("cudaMemset3DAsync", MEMSET, EXTENT3, 7, S(4), S(5), A1, A0, S(0), S(6)),

	/* streams, events, synchronisation, device */
	RT("cudaStreamCreate", STREAM, OUT_STREAM, 0, NO, NO, A0, NO, NO, NO),
	RT("cudaStreamCreateWithFlags", STREAM, OUT_STREAM, 0, NO, NO, A0, A1, NO, NO),
	RT("cudaStreamCreateWithPriority", STREAM, OUT_STREAM, 0, NO, NO, A0, A1, NO, NO),
	RT("cudaStreamDestroy", STREAM, NONE, 0, NO, NO, A0, NO, NO, NO),
	RT_ptsz("cudaStreamWaitEvent", STREAM, NONE, 0, NO, NO, A0, A2, A1, NO),
	RT_ptsz("cudaStreamAddCallback", STREAM, CALLBACK, 0, NO, NO, A0, NO, A1, NO),
	RT_ptsz("cudaStreamBeginCapture", STREAM, NONE, 0, NO, NO, A0, A1, NO, NO),
	RT_ptsz("cudaStreamBeginCaptureToGraph", STREAM, NONE, 0, NO, NO, A0, A5, NO, NO),
	/* arg1: not 0 where arg0 is a graph. */
	RT_ptsz("cudaStreamEndCapture", STREAM, OUT_PTR, 0, NO, NO, A0, NO, A1, A1),
	RT_ptsz("cudaStreamSynchronize", SYNC, NONE, 0, NO, NO, A0, NO, NO, NO),
	RT_query("cudaStreamQuery", QUERY, A0, NO),
	RT_query("cudaStreamQuery_ptsz", QUERY, A0, NO),
	RT("cudaEventCreate", EVENT, OUT_PTR, 0, NO, NO, NO, NO, A0, NO),
	RT("cudaEventCreateWithFlags", EVENT, OUT_PTR, 0, NO, NO, NO, A1, A0, NO),
	RT_ptsz("cudaEventRecord", EVENT, NONE, 0, NO, NO, A1, NO, A0, NO),
	RT_ptsz("cudaEventRecordWithFlags", EVENT, NONE, 0, NO, NO, A1, A2, A0, NO),
	RT_query("cudaEventQuery", QUERY, NO, A0),
	RT("cudaEventSynchronize", SYNC, NONE, 0, NO, NO, NO, NO, A0, NO),
	RT("cudaEventDestroy", EVENT, NONE, 0, NO, NO, NO, NO, A0, NO),
	RT_elapsed("cudaEventElapsedTime"),
	RT_elapsed("cudaEventElapsedTime_v2"), /* of CUDA 12.8 and 12.9 */
	RT("cudaDeviceSynchronize", SYNC, NONE, 0, NO, NO, NO, NO, NO, NO),
	RT("cudaSetDevice", DEVICE, SET_DEVICE, 0, NO, NO, NO, A0, NO, NO),
	RT("cudaDeviceReset", DEVICE, RESET, 0, NO, NO, NO, NO, NO, NO),
	RT("cudaLibraryLoadData", MODULE, OUT_PTR, 0, NO, NO, NO, NO, A0, NO),
	RT("cudaLibraryLoadFromFile", MODULE, OUT_PTR, 0, NO, NO, NO, NO, A0, NO),
	RT("cudaLibraryUnload", MODULE, UNLOAD, 0, NO, NO, NO, NO, A0, NO),
	RT("cudaLibraryGetKernel", MODULE, KERNEL_NAME, 0, NO, NO, NO, NO, A0, A1),
	RT("cudaGetKernel", MODULE, KERNEL_OF, 0, NO, NO, NO, NO, A0, A1),
	RT("cudaGetFuncBySymbol", MODULE, KERNEL_OF, 0, NO, NO, NO, NO, A0, A1),
	/* Of CUDA 13: once for each kernel, before its first launch (crt/host_runtime.h). */
	RT("__cudaGetKernel", MODULE, KERNEL_OF, 0, NO, NO, NO, NO, A0, A1),
	/* Of a library that is closed, or a program that ends. */
	WATCHED(CUDA_RUNTIME, "__cudaUnregisterFatBinary", UNLOAD),
	RT("cudaGraphInstantiate", MODULE, OUT_PTR, 0, NO, NO, NO, NO, A0, A1),
	RT("cudaGraphInstantiateWithFlags", MODULE, OUT_PTR, 0, NO, NO, NO, A2, A0, A1),
	/* The flags are in the parameters' struct: not read. */
	RT_ptsz("cudaGraphInstantiateWithParams", MODULE, OUT_PTR, 0, NO, NO, NO, NO, A0, A1),
	RT("cudaGraphExecUpdate", MODULE, NONE, 0, NO, NO, NO, NO, A0, A1),
	RT("cudaGraphExecDestroy", MODULE, NONE, 0, NO, NO, NO, NO, A0, NO),
	RT("cudaGraphAddKernelNode", MODULE, GRAPH_KERNEL, 0, NO, NO, NO, NO, A4, A1),
	RT("cudaGraphAddChildGraphNode", MODULE, NONE, 0, NO, NO, NO, NO, A4, A1),
	RT("cudaGraphClone", MODULE, OUT_PTR, 0, NO, NO, NO, NO, A0, A1),
	RT("cudaGraphDestroy", MODULE, NONE, 0, NO, NO, NO, NO, A0, NO),
	/* Hot and telling nothing: cudaGetDevice alone was 93 % of a PyTorch step's hits. */
	RT_hot("cudaGetDevice", QUERY, NO),
	RT_hot("cudaGetLastError", QUERY, NO),
	RT_hot("cudaPeekAtLastError", QUERY, NO),
	RT_hot("cudaStreamIsCapturing", QUERY, A0),
	RT_hot("cudaStreamIsCapturing_ptsz", QUERY, A0),
	RT_hot("cudaStreamGetCaptureInfo", QUERY, A0),
	RT_hot("cudaStreamGetCaptureInfo_ptsz", QUERY, A0),
	RT_hot("cudaStreamGetCaptureInfo_v2", QUERY, A0), /* _v2 and _v3: of CUDA 12 */
	RT_hot("cudaStreamGetCaptureInfo_v2_ptsz", QUERY, A0),
	RT_hot("cudaStreamGetCaptureInfo_v3", QUERY, A0),
	RT_hot("cudaStreamGetCaptureInfo_v3_ptsz", QUERY, A0),
	RT_hot("cudaGetDeviceCount", QUERY, NO),
	RT_hot("cudaGetDeviceProperties", QUERY, NO),
	RT_hot("cudaGetDeviceProperties_v2", QUERY, NO), /* of CUDA 12 */
	RT_hot("cudaDeviceGetAttribute", QUERY, NO),
	RT_hot("cudaFuncGetAttributes", QUERY, NO),
	RT_hot("cudaFuncSetAttribute", QUERY, NO),
	RT_hot("cudaPointerGetAttributes", QUERY, NO),
	RT_hot("cudaMemGetInfo", QUERY, NO),
	RT_hot("cudaOccupancyMaxActiveBlocksPerMultiprocessor", QUERY, NO),
	RT_hot("cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", QUERY, NO),

	/* --- CUDA driver: launches --- */
	DRV_ptsz("cuLaunchKernel", LAUNCH, LAUNCH_DRV, 3, NO, NO, S(2), S(1), A0, NO),
	DRV_ptsz("cuLaunchCooperativeKernel", LAUNCH, LAUNCH_DRV, 3, NO, NO, S(2), S(1), A0, NO),
	DRV_ptsz("cuLaunchKernelEx", LAUNCH, LAUNCH_EX, 0, NO, NO, NO, NO, A1, NO),
	DRV("cuLaunchCooperativeKernelMultiDevice", LAUNCH, NONE, LOW(0b000010), NO, NO, NO, A2, A0,
	    A1),
	/* From before cuLaunchKernel: the block, the shared memory and, for cuLaunch, the grid were
	 * set by earlier calls; they read 0. */
	DRV("cuLaunch", LAUNCH, NONE, 0, NO, NO, NO, NO, A0, NO),
	DRV("cuLaunchGrid", LAUNCH, LAUNCH_GRID, 0, NO, NO, NO, NO, A0, NO),
	DRV("cuLaunchGridAsync", LAUNCH, LAUNCH_GRID, 0, NO, NO, A3, NO, A0, NO),
	DRV_ptsz("cuGraphLaunch", GRAPH_LAUNCH, NONE, 0, NO, NO, A1, NO, A0, NO),
	DRV_ptsz("cuLaunchHostFunc", STREAM, CALLBACK, 0, NO, NO, A0, NO, A1, NO),

	/* allocations */
	DRV("cuMemAlloc", ALLOC, OUT_PTR32, LOW(0b000010), A1, NO, NO, NO, A0, NO),
	DRV("cuMemAlloc_v2", ALLOC, OUT_PTR, 0, A1, NO, NO, NO, A0, NO),
	DRV("cuMemAllocPitch", ALLOC, PITCH32, LOW(0b001100), A3, NO, NO, A4, A0, A2),
	DRV("cuMemAllocPitch_v2", ALLOC, PITCH, 0, A3, NO, NO, A4, A0, A2),
	DRV("cuMemAllocManaged", ALLOC, OUT_PTR, 0, A1, NO, NO, A2, A0, NO),
	DRV("cuMemAllocHost", ALLOC, OUT_PTR, LOW(0b000010), A1, NO, NO, NO, A0, NO),
	DRV("cuMemAllocHost_v2", ALLOC, OUT_PTR, 0, A1, NO, NO, NO, A0, NO),
	DRV("cuMemHostAlloc", ALLOC, OUT_PTR, 0, A1, NO, NO, A2, A0, NO),
	DRV("cuMemHostRegister", ALLOC, NONE, 0, A1, NO, NO, A2, A0, NO),
	DRV("cuMemHostRegister_v2", ALLOC, NONE, 0, A1, NO, NO, A2, A0, NO),
	DRV_ptsz("cuMemAllocAsync", ALLOC, OUT_PTR, 0, A1, NO, A2, NO, A0, NO),
	DRV_ptsz("cuMemAllocFromPoolAsync", ALLOC, OUT_PTR, 0, A1, NO, A3, NO, A0, A2),
	DRV("cuMemCreate", ALLOC, OUT_PTR, 0, A1, NO, NO, A3, A0, A2),
	DRV("cuMemAddressReserve", OTHER, OUT_PTR, 0, A1, NO, NO, A4, A0, NO),
	DRV("cuMemMap", OTHER, NONE, 0, A1, NO, NO, A4, A0, A3),
	DRV("cuMemSetAccess", OTHER, NONE, 0, A1, NO, NO, NO, A0, NO),
	DRV("cuMemUnmap", OTHER, NONE, 0, A1, NO, NO, NO, A0, NO),
	DRV("cuMemAddressFree", OTHER, NONE, 0, A1, NO, NO, NO, A0, NO),
	DRV("cuMemRelease", FREE, NONE, 0, NO, NO, NO, NO, A0, NO),
	DRV("cuMemRetainAllocationHandle", OTHER, OUT_PTR, 0, NO, NO, NO, NO, A0, A1),
	DRV("cuMemFree", FREE, NONE, LOW(0b000001), NO, NO, NO, NO, A0, NO),
	DRV("cuMemFree_v2", FREE, NONE, 0, NO, NO, NO, NO, A0, NO),
	DRV("cuMemFreeHost", FREE, NONE, 0, NO, NO, NO, NO, A0, NO),
	DRV("cuMemHostUnregister", FREE, NONE, 0, NO, NO, NO, NO, A0, NO),
	DRV("cuIpcOpenMemHandle", OTHER, OUT_PTR, 0, NO, NO, NO, A1, A0, NO),
	DRV("cuIpcOpenMemHandle_v2", OTHER, OUT_PTR, 0, NO, NO, NO, A1, A0, NO),
	DRV("cuIpcCloseMemHandle", OTHER, NONE, 0, NO, NO, NO, NO, A0, NO),
	DRV_ptsz("cuMemFreeAsync", FREE, NONE, 0, NO, NO, A1, NO, A0, NO),

	/* copies; the direction is in the name, put into aux by the post step */
	DRV_ptds("cuMemcpy", COPY, COPY_ANY, 0, A2, NO, NO, NO, A0, A1),
	DRV_ptsz("cuMemcpyAsync", COPY, COPY_ANY, 0, A2, NO, A3, NO, A0, A1),
	DRV_ptds("cuMemcpyPeer", COPY, COPY_PEER, 0, A4, NO, NO, NO, A0, A2),
	DRV_ptsz("cuMemcpyPeerAsync", COPY, COPY_PEER, 0, A4, NO, A5, NO, A0, A2),
	DRV_ptds("cuMemcpyHtoD_v2", COPY, COPY_HTOD, 0, A2, NO, NO, NO, A0, A1),
	DRV_ptsz("cuMemcpyHtoDAsync_v2", COPY, COPY_HTOD, 0, A2, NO, A3, NO, A0, A1),
	DRV_ptds("cuMemcpyDtoH_v2", COPY, COPY_DTOH, 0, A2, NO, NO, NO, A0, A1),
	DRV_ptsz("cuMemcpyDtoHAsync_v2", COPY, COPY_DTOH, 0, A2, NO, A3, NO, A0, A1),
	DRV_ptds("cuMemcpyDtoD_v2", COPY, COPY_DTOD, 0, A2, NO, NO, NO, A0, A1),
	DRV_ptsz("cuMemcpyDtoDAsync_v2", COPY, COPY_DTOD, 0, A2, NO, A3, NO, A0, A1),
	/* the same of the first ABI */
	DRV("cuMemcpyHtoD", COPY, COPY_HTOD, LOW(0b000101), A2, NO, NO, NO, A0, A1),
	DRV("cuMemcpyHtoDAsync", COPY, COPY_HTOD, LOW(0b000101), A2, NO, A3, NO, A0, A1),
	DRV("cuMemcpyDtoH", COPY, COPY_DTOH, LOW(0b000110), A2, NO, NO, NO, A0, A1),
	DRV("cuMemcpyDtoHAsync", COPY, COPY_DTOH, LOW(0b000110), A2, NO, A3, NO, A0, A1),
	DRV("cuMemcpyDtoD", COPY, COPY_DTOD, LOW(0b000111), A2, NO, NO, NO, A0, A1),
	DRV("cuMemcpyDtoDAsync", COPY, COPY_DTOD, LOW(0b000111), A2, NO, A3, NO, A0, A1),
	/* Arrays (A) lie in device memory; an offset follows each. */
	DRV_ptds("cuMemcpyAtoH_v2", COPY, COPY_DTOH, 0, A3, NO, NO, NO, A0, A1),
	DRV_ptsz("cuMemcpyAtoHAsync_v2", COPY, COPY_DTOH, 0, A3, NO, A4, NO, A0, A1),
	DRV_ptds("cuMemcpyHtoA_v2", COPY, COPY_HTOD, 0, A3, NO, NO, NO, A0, A2),
	DRV_ptsz("cuMemcpyHtoAAsync_v2", COPY, COPY_HTOD, 0, A3, NO, A4, NO, A0, A2),
	DRV_ptds("cuMemcpyAtoD_v2", COPY, COPY_DTOD, 0, A3, NO, NO, NO, A0, A1),
	DRV_ptds("cuMemcpyDtoA_v2", COPY, COPY_DTOD, 0, A3, NO, NO, NO, A0, A2),
	DRV_ptds("cuMemcpyAtoA_v2", COPY, COPY_DTOD, 0, A4, NO, NO, NO, A0, A2),
	DRV("cuMemcpyAtoH", COPY, COPY_DTOH, LOW(0b001000), A3, NO, NO, NO, A0, A1),
	DRV("cuMemcpyAtoHAsync", COPY, COPY_DTOH, LOW(0b001000), A3, NO, A4, NO, A0, A1),
	DRV("cuMemcpyHtoA", COPY, COPY_HTOD, LOW(0b001000), A3, NO, NO, NO, A0, A2),
	DRV("cuMemcpyHtoAAsync", COPY, COPY_HTOD, LOW(0b001000), A3, NO, A4, NO, A0, A2),
	DRV("cuMemcpyAtoD", COPY, COPY_DTOD, LOW(0b001001), A3, NO, NO, NO, A0, A1),
	DRV("cuMemcpyDtoA", COPY, COPY_DTOD, LOW(0b001100), A3, NO, NO, NO, A0, A2),
	DRV("cuMemcpyAtoA", COPY, COPY_DTOD, LOW(0b010000), A4, NO, NO, NO, A0, A2),
	DRV_ptds("cuMemcpy2D_v2", COPY, COPY2D_DRV, 0, NO, NO, NO, NO, A0, NO),
	DRV_ptds("cuMemcpy2DUnaligned_v2", COPY, COPY2D_DRV, 0, NO, NO, NO, NO, A0, NO),
	DRV_ptsz("cuMemcpy2DAsync_v2", COPY, COPY2D_DRV, 0, NO, NO, A1, NO, A0, NO),
	DRV_ptds("cuMemcpy3D_v2", COPY, COPY3D_DRV, 0, NO, NO, NO, NO, A0, NO),
	DRV_ptsz("cuMemcpy3DAsync_v2", COPY, COPY3D_DRV, 0, NO, NO, A1, NO, A0, NO),
	DRV("cuMemcpy2D", COPY, COPY2D_V1, 0, A0, NO, NO, NO, A0, NO),
	DRV("cuMemcpy2DUnaligned", COPY, COPY2D_V1, 0, A0, NO, NO, NO, A0, NO),
	DRV("cuMemcpy2DAsync", COPY, COPY2D_V1, 0, A0, NO, A1, NO, A0, NO),
	DRV("cuMemcpy3D", COPY, COPY3D_V1, 0, A0, NO, NO, NO, A0, NO),
	DRV("cuMemcpy3DAsync", COPY, COPY3D_V1, 0, A0, NO, A1, NO, A0, NO),
	DRV_ptds("cuMemcpy3DPeer", COPY, COPY3D_PEER_DRV, 0, A0, NO, NO, NO, A0, NO),
	DRV_ptsz("cuMemcpy3DPeerAsync", COPY, COPY3D_PEER_DRV, 0, A0, NO, A1, NO, A0, NO),
	/* As in the runtime; here the names distinguish the arguments of 12.8 (the first) from those
	   of 13. */
	DRV_ptsz("cuMemcpyBatchAsync", COPY, COPY_BATCH, 3, A2, A3, S(2), NO, A0, A1),
	DRV_ptsz("cuMemcpyBatchAsync_v2", COPY, COPY_BATCH, 2, A2, A3, S(1), NO, A0, A1),
	DRV_ptsz("cuMemcpy3DBatchAsync", COPY, COPY3D_BATCH, 0, A1, A0, A4, NO, NO, NO),
	DRV_ptsz("cuMemcpy3DBatchAsync_v2", COPY, COPY3D_BATCH, 0, A1, A0, A3, NO, NO, NO),
	DRV_ptsz("cuMemPrefetchAsync", COPY, COPY_ANY, 0, A1, NO, A3, NO, A0, NO),
	DRV_ptsz("cuMemPrefetchAsync_v2", COPY, COPY_ANY, 0, A1, NO, A4, NO, A0, NO),
	DRV_ptsz("cuMemPrefetchBatchAsync", COPY, COPY_BATCH, 2, A1, A2, S(1), NO, A0, NO),

	/* memsets: bytes = elements * size of one */
	DRV_ptds("cuMemsetD8_v2", MEMSET, NONE, 0, A2, NO, NO, A1, A0, NO),
	DRV_ptds("cuMemsetD16_v2", MEMSET, FILL16, 0, A2, NO, NO, A1, A0, NO),
	DRV_ptds("cuMemsetD32_v2", MEMSET, FILL32, 0, A2, NO, NO, A1, A0, NO),
	DRV_ptds("cuMemsetD2D8_v2", MEMSET, NONE, 0, A3, A4, NO, A2, A0, NO),
	DRV_ptds("cuMemsetD2D16_v2", MEMSET, FILL16, 0, A3, A4, NO, A2, A0, NO),
	DRV_ptds("cuMemsetD2D32_v2", MEMSET, FILL32, 0, A3, A4, NO, A2, A0, NO),
	DRV_ptsz("cuMemsetD8Async", MEMSET, NONE, 0, A2, NO, A3, A1, A0, NO),
	DRV_ptsz("cuMemsetD16Async", MEMSET, FILL16, 0, A2, NO, A3, A1, A0, NO),
	DRV_ptsz("cuMemsetD32Async", MEMSET, FILL32, 0, A2, NO, A3, A1, A0, NO),
	DRV_ptsz("cuMemsetD2D8Async", MEMSET, NONE, 0, A3, A4, A5, A2, A0, NO),
	DRV_ptsz("cuMemsetD2D16Async", MEMSET, FILL16, 0, A3, A4, A5, A2, A0, NO),
	DRV_ptsz("cuMemsetD2D32Async", MEMSET, FILL32, 0, A3, A4, A5, A2, A0, NO),
	DRV("cuMemsetD8", MEMSET, NONE, LOW(0b000101), A2, NO, NO, A1, A0, NO),
	DRV("cuMemsetD16", MEMSET, FILL16, LOW(0b000101), A2, NO, NO, A1, A0, NO),
	DRV("cuMemsetD32", MEMSET, FILL32, LOW(0b000101), A2, NO, NO, A1, A0, NO),
	DRV("cuMemsetD2D8", MEMSET, NONE, LOW(0b011001), A3, A4, NO, A2, A0, NO),
	DRV("cuMemsetD2D16", MEMSET, FILL16, LOW(0b011001), A3, A4, NO, A2, A0, NO),
	DRV("cuMemsetD2D32", MEMSET, FILL32, LOW(0b011001), A3, A4, NO, A2, A0, NO),

	/* streams, events, synchronisation, modules */
	DRV("cuStreamCreate", STREAM, OUT_STREAM, 0, NO, NO, A0, A1, NO, NO),
	DRV("cuStreamCreateWithPriority", STREAM, OUT_STREAM, 0, NO, NO, A0, A1, NO, NO),
	DRV("cuStreamDestroy", STREAM, NONE, 0, NO, NO, A0, NO, NO, NO),
	DRV("cuStreamDestroy_v2", STREAM, NONE, 0, NO, NO, A0, NO, NO, NO),
	DRV_ptsz("cuStreamWaitEvent", STREAM, NONE, 0, NO, NO, A0, A2, A1, NO),
	DRV_ptsz("cuStreamAddCallback", STREAM, CALLBACK, 0, NO, NO, A0, NO, A1, NO),
	DRV_ptsz("cuStreamSynchronize", SYNC, NONE, 0, NO, NO, A0, NO, NO, NO),
	/* Writing and waiting for words of memory: the flags; address and value are left out. */
	DRV_ptsz("cuStreamWriteValue32", STREAM, NONE, 0, NO, NO, A0, A3, NO, NO),
	DRV_ptsz("cuStreamWriteValue32_v2", STREAM, NONE, 0, NO, NO, A0, A3, NO, NO),
	DRV_ptsz("cuStreamWriteValue64", STREAM, NONE, 0, NO, NO, A0, A3, NO, NO),
	DRV_ptsz("cuStreamWriteValue64_v2", STREAM, NONE, 0, NO, NO, A0, A3, NO, NO),
	DRV_ptsz("cuStreamWaitValue32", STREAM, NONE, 0, NO, NO, A0, A3, NO, NO),
	DRV_ptsz("cuStreamWaitValue32_v2", STREAM, NONE, 0, NO, NO, A0, A3, NO, NO),
	DRV_ptsz("cuStreamWaitValue64", STREAM, NONE, 0, NO, NO, A0, A3, NO, NO),
	DRV_ptsz("cuStreamWaitValue64_v2", STREAM, NONE, 0, NO, NO, A0, A3, NO, NO),
	DRV_ptsz("cuStreamBatchMemOp", STREAM, NONE, 0, NO, NO, A0, A3, NO, NO),
	DRV_ptsz("cuStreamBatchMemOp_v2", STREAM, NONE, 0, NO, NO, A0, A3, NO, NO),
	DRV_ptsz("cuStreamBeginCapture", STREAM, NONE, 0, NO, NO, A0, NO, NO, NO),
	DRV_ptsz("cuStreamBeginCapture_v2", STREAM, NONE, 0, NO, NO, A0, A1, NO, NO),
	DRV_ptsz("cuStreamBeginCaptureToGraph", STREAM, NONE, 0, NO, NO, A0, A5, NO, NO),
	DRV_ptsz("cuStreamEndCapture", STREAM, OUT_PTR, 0, NO, NO, A0, NO, A1, A1),
	DRV_query("cuStreamQuery", QUERY, A0, NO),
	DRV_query("cuStreamQuery_ptsz", QUERY, A0, NO),
	DRV("cuEventCreate", EVENT, OUT_PTR, 0, NO, NO, NO, A1, A0, NO),
	DRV_ptsz("cuEventRecord", EVENT, NONE, 0, NO, NO, A1, NO, A0, NO),
	DRV_ptsz("cuEventRecordWithFlags", EVENT, NONE, 0, NO, NO, A1, A2, A0, NO),
	DRV_query("cuEventQuery", QUERY, NO, A0),
	DRV("cuEventSynchronize", SYNC, NONE, 0, NO, NO, NO, NO, A0, NO),
	DRV("cuEventDestroy", EVENT, NONE, 0, NO, NO, NO, NO, A0, NO),
	DRV("cuEventDestroy_v2", EVENT, NONE, 0, NO, NO, NO, NO, A0, NO),
	DRV_elapsed("cuEventElapsedTime"),
	DRV_elapsed("cuEventElapsedTime_v2"),
	DRV("cuCtxSynchronize_v2", SYNC, NONE, 0, NO, NO, NO, NO, NO, A0),
	DRV("cuCtxSynchronize", SYNC, NONE, 0, NO, NO, NO, NO, NO, NO),
	DRV("cuDevicePrimaryCtxReset", DEVICE, RESET, 0, NO, NO, NO, A0, NO, NO),
	DRV("cuDevicePrimaryCtxReset_v2", DEVICE, RESET, 0, NO, NO, NO, A0, NO, NO),
	/* arg1: not 0 where aux is the device. */
	DRV("cuCtxCreate", CONTEXT, OUT_PTR, 0, NO, NO, NO, A2, A0, A0),
	DRV("cuCtxCreate_v2", CONTEXT, OUT_PTR, 0, NO, NO, NO, A2, A0, A0),
	DRV("cuCtxCreate_v3", CONTEXT, OUT_PTR, 0, NO, NO, NO, A4, A0, A0),
	DRV("cuCtxCreate_v4", CONTEXT, OUT_PTR, 0, NO, NO, NO, A3, A0, A0),
	DRV("cuDevicePrimaryCtxRetain", CONTEXT, OUT_PTR, 0, NO, NO, NO, A1, A0, A0),
	DRV("cuCtxSetCurrent", CONTEXT, NONE, 0, NO, NO, NO, NO, A0, NO),
	DRV("cuCtxPushCurrent", CONTEXT, NONE, 0, NO, NO, NO, NO, A0, NO),
	DRV("cuCtxPushCurrent_v2", CONTEXT, NONE, 0, NO, NO, NO, NO, A0, NO),
	DRV("cuCtxPopCurrent", CONTEXT, NONE, 0, NO, NO, NO, NO, NO, NO),
	DRV("cuCtxPopCurrent_v2", CONTEXT, NONE, 0, NO, NO, NO, NO, NO, NO),
	DRV("cuCtxDestroy", CONTEXT, UNLOAD, 0, NO, NO, NO, NO, A0, NO),
	DRV("cuCtxDestroy_v2", CONTEXT, UNLOAD, 0, NO, NO, NO, NO, A0, NO),
	DRV("cuModuleLoad", MODULE, OUT_PTR, 0, NO, NO, NO, NO, A0, NO),
	DRV("cuModuleLoadData", MODULE, OUT_PTR, 0, NO, NO, NO, NO, A0, NO),
	DRV("cuModuleLoadDataEx", MODULE, OUT_PTR, 0, NO, NO, NO, NO, A0, NO),
	DRV("cuModuleLoadFatBinary", MODULE, OUT_PTR, 0, NO, NO, NO, NO, A0, NO),
	DRV("cuModuleUnload", MODULE, UNLOAD, 0, NO, NO, NO, NO, A0, NO),
	DRV("cuLibraryLoadData", MODULE, OUT_PTR, 0, NO, NO, NO, NO, A0, NO),
	DRV("cuLibraryLoadFromFile", MODULE, OUT_PTR, 0, NO, NO, NO, NO, A0, NO),
	DRV("cuLibraryUnload", MODULE, UNLOAD, 0, NO, NO, NO, NO, A0, NO),
	DRV("cuModuleGetFunction", MODULE, KERNEL_NAME, 0, NO, NO, NO, NO, A0, A1),
	DRV("cuLibraryGetKernel", MODULE, KERNEL_NAME, 0, NO, NO, NO, NO, A0, A1),
	DRV("cuKernelGetFunction", MODULE, KERNEL_OF, 0, NO, NO, NO, NO, A0, A1),
	DRV("cuFuncGetName", MODULE, KERNEL_SAID, 0, NO, NO, NO, NO, A1, NO),
	DRV("cuKernelGetName", MODULE, KERNEL_SAID, 0, NO, NO, NO, NO, A1, NO),
	DRV("cuGraphInstantiate", MODULE, OUT_PTR, 0, NO, NO, NO, NO, A0, A1),
	DRV("cuGraphInstantiate_v2", MODULE, OUT_PTR, 0, NO, NO, NO, NO, A0, A1),
	DRV("cuGraphInstantiateWithFlags", MODULE, OUT_PTR, 0, NO, NO, NO, A2, A0, A1),
	DRV_ptsz("cuGraphInstantiateWithParams", MODULE, OUT_PTR, 0, NO, NO, NO, NO, A0, A1),
	DRV("cuGraphExecUpdate", MODULE, NONE, 0, NO, NO, NO, NO, A0, A1),
	DRV("cuGraphExecUpdate_v2", MODULE, NONE, 0, NO, NO, NO, NO, A0, A1),
	DRV("cuGraphExecDestroy", MODULE, NONE, 0, NO, NO, NO, NO, A0, NO),
	DRV("cuGraphAddKernelNode", MODULE, GRAPH_KERNEL, 0, NO, NO, NO, NO, A4, A1),
	DRV("cuGraphAddKernelNode_v2", MODULE, GRAPH_KERNEL, 0, NO, NO, NO, NO, A4, A1),
	DRV("cuGraphAddChildGraphNode", MODULE, NONE, 0, NO, NO, NO, NO, A4, A1),
	DRV("cuGraphClone", MODULE, OUT_PTR, 0, NO, NO, NO, NO, A0, A1),
	DRV("cuGraphDestroy", MODULE, NONE, 0, NO, NO, NO, NO, A0, NO),
	DRV_hot("cuCtxGetCurrent", QUERY, NO),
	DRV_hot("cuCtxGetDevice", QUERY, NO),
	DRV_hot("cuDevicePrimaryCtxGetState", QUERY, NO),
	DRV_hot("cuPointerGetAttribute", QUERY, NO),
	DRV_hot("cuPointerGetAttributes", QUERY, NO),
	DRV_hot("cuFuncGetAttribute", QUERY, NO),
	DRV_hot("cuStreamIsCapturing", QUERY, A0),
	DRV_hot("cuStreamIsCapturing_ptsz", QUERY, A0),
	DRV_hot("cuStreamGetCaptureInfo", QUERY, A0),
	DRV_hot("cuStreamGetCaptureInfo_ptsz", QUERY, A0),
	DRV_hot("cuStreamGetCaptureInfo_v2", QUERY, A0),
	DRV_hot("cuStreamGetCaptureInfo_v2_ptsz", QUERY, A0),
	DRV_hot("cuStreamGetCaptureInfo_v3", QUERY, A0),
	DRV_hot("cuStreamGetCaptureInfo_v3_ptsz", QUERY, A0),
	DRV_hot("cuMemGetInfo_v2", QUERY, NO),

	/* --- NCCL: stack words, count, dtype, op, root or peer, communicator, stream, send, recv
	   --- */
	NC("ncclAllReduce", COLLECTIVE, 1, A2, A3, A4, NO, A5, S(0), A0, A1),
	NC("ncclReduceScatter", COLLECTIVE, 1, A2, A3, A4, NO, A5, S(0), A0, A1),
	NC("ncclReduce", COLLECTIVE, 2, A2, A3, A4, A5, S(0), S(1), A0, A1),
	NC("ncclBroadcast", COLLECTIVE, 1, A2, A3, NO, A4, A5, S(0), A0, A1),
	NC("ncclBcast", COLLECTIVE, 0, A1, A2, NO, A3, A4, A5, A0, NO),
	NC("ncclAllGather", COLLECTIVE, 0, A2, A3, NO, NO, A4, A5, A0, A1),
	NC("ncclAlltoAll", COLLECTIVE, 0, A2, A3, NO, NO, A4, A5, A0, A1),
	NC("ncclGather", COLLECTIVE, 1, A2, A3, NO, A4, A5, S(0), A0, A1),
	NC("ncclScatter", COLLECTIVE, 1, A2, A3, NO, A4, A5, S(0), A0, A1),
	NC("ncclSend", P2P, 0, A1, A2, NO, A3, A4, A5, A0, NO),
	NC("ncclRecv", P2P, 0, A1, A2, NO, A3, A4, A5, A0, NO),
	/* Of NCCL 2.29 and newer: buffer, count, type, peer, window, offset, then signal, context,
	 * flags, communicator, stream. Signals alone move nothing: their peers and contexts are
	 * left out. */
	NC("ncclPutSignal", P2P, 5, A1, A2, NO, A3, S(3), S(4), A0, NO),
	NC_SIGNAL("ncclSignal", A4, A5),
	NC_SIGNAL("ncclWaitSignal", A2, A3),
	NC_COMM("ncclGroupStart", GROUP, 0, NO, NONE),
	NC_COMM("ncclGroupEnd", GROUP, 0, NO, NONE),
	NC_COMM("ncclGroupSimulateEnd", GROUP, 0, NO, NONE),
	NC_COMM("ncclGetUniqueId", COMM, 0, NO, NONE),
	NC_COMM("ncclCommInitRank", COMM, 1, A0, COMM_INIT),
	NC_COMM("ncclCommInitRankConfig", COMM, 1, A0, COMM_INIT),
	NC_COMM("ncclCommInitRankScalable", COMM, 0, A0, COMM_INIT_SCALABLE),
	NC_COMM("ncclCommInitAll", COMM, 0, NO, COMM_INIT_ALL),
	NC_COMM("ncclCommSplit", COMM, 0, A3, COMM_SPLIT),
	NC_COMM("ncclCommShrink", COMM, 0, A3, COMM_SHRINK),
	NC_COMM("ncclCommFinalize", COMM, 0, A0, NONE),
	NC_COMM("ncclCommDestroy", COMM, 0, A0, NONE),
	NC_COMM("ncclCommAbort", COMM, 0, A0, NONE),
	NC_COMM("ncclCommRevoke", COMM, 0, A0, NONE),
	/* Of NCCL 2.29 and newer; the communicator that grows, not the grown one. */
	NC_COMM("ncclCommGrow", COMM, 0, A0, NONE),
	NC_COMM("ncclCommGetUniqueId", COMM, 0, A0, NONE),
	NC_COMM("ncclCommSuspend", COMM, 0, A0, NONE),
	NC_COMM("ncclCommResume", COMM, 0, A0, NONE),
	/* Buffers, windows and operations of a communicator: which of them is not recorded. */
	NC_COMM("ncclCommRegister", COMM, 0, A0, NONE),
	NC_COMM("ncclCommDeregister", COMM, 0, A0, NONE),
	NC_COMM("ncclCommWindowRegister", COMM, 0, A0, NONE),
	NC_COMM("ncclCommWindowDeregister", COMM, 0, A0, NONE),
	NC_COMM("ncclRedOpCreatePreMulSum", COMM, 0, A4, NONE),
	NC_COMM("ncclRedOpDestroy", COMM, 0, A1, NONE),
	NC_COMM("ncclCommCuDevice", QUERY, 0, A0, NONE),
	NC_COMM("ncclCommUserRank", QUERY, 0, A0, COMM_RANK),
	NC_COMM("ncclCommCount", QUERY, 0, A0, COMM_SIZE),
	ROW(NCCL, "ncclMemAlloc", ALLOC, true, OUT_PTR, 0, A1, NO, NO, NO, A0, NO, NO, NO, 0),
	ROW(NCCL, "ncclMemFree", FREE, true, NONE, 0, NO, NO, NO, NO, A0, NO, NO, NO, 0),
	ROW(NCCL, "ncclCommGetAsyncError", QUERY, false, NONE, 0, NO, NO, NO, NO, A0, NO, NO, NO,
	    IN_PROGRESS),

	/* --- MPI (mpi.h of MPICH 4.0 and Open MPI 4.1): as the macros above say --- */
	MP_send("Send"),
	MP_send("Ssend"),
	MP_send("Bsend"),
	MP_send("Rsend"),
	MP_send("Isend"),
	MP_send("Issend"),
	MP_send("Ibsend"),
	MP_send("Irsend"),
	MP_("Recv", P2P, 1, A1, A2, A3, A5, S(0), RECV, MPI),
	MP("Irecv", P2P, 0, A1, A2, A3, A5, RECV),
	MP("Mrecv", P2P, 0, A1, A2, NO, NO, PLAIN),
	MP("Imrecv", P2P, 0, A1, A2, NO, NO, PLAIN),
	MP("Sendrecv", P2P, 6, A1, A2, A3, S(4), SENDRECV),
	MP("Sendrecv_replace", P2P, 3, A1, A2, A3, S(1), SENDRECV_REPLACE),
	/* Persistent ones: what a start moves was recorded when the request was made. */
	MP_plain("Start", P2P, NO),
	MP_plain("Startall", P2P, NO),
	MP_plain("Send_init", OTHER, A5),
	MP_plain("Recv_init", OTHER, A5),
	MP_plain("Probe", SYNC, A2),
	MP_plain("Mprobe", SYNC, A2),
	MP_plain("Iprobe", QUERY, A2),
	MP_plain("Improbe", QUERY, A2),
	MP_plain("Wait", SYNC, NO),
	MP_plain("Waitall", SYNC, NO),
	MP_plain("Waitany", SYNC, NO),
	MP_plain("Waitsome", SYNC, NO),
	MP_plain("Test", QUERY, NO),
	MP_plain("Testall", QUERY, NO),
	MP_plain("Testany", QUERY, NO),
	MP_plain("Testsome", QUERY, NO),

	/* collectives */
	MP_both("Barrier", "barrier", 0, NO, NO, NO, A0, PLAIN),
	MP_both("Bcast", "bcast", 0, A1, A2, A3, A4, PLAIN),
	MP_both("Reduce", "reduce", 1, A2, A3, A5, S(0), PLAIN),
	MP_both("Allreduce", "allreduce", 0, A2, A3, NO, A5, PLAIN),
	MP_both("Scan", "scan", 0, A2, A3, NO, A5, PLAIN),
	MP_both("Exscan", "exscan", 0, A2, A3, NO, A5, PLAIN),
	MP_both("Allgather", "allgather", 1, A1, A2, NO, S(0), GATHER),
	MP_both("Allgatherv", "allgatherv", 2, A1, A2, NO, S(1), GATHERV),
	MP_both("Gather", "gather", 2, A1, A2, S(0), S(1), GATHER),
	MP_both("Gatherv", "gatherv", 3, A1, A2, S(1), S(2), GATHERV),
	MP_both("Scatter", "scatter", 2, A4, A5, S(0), S(1), SCATTER),
	MP_both("Scatterv", "scatterv", 3, A5, S(0), S(1), S(2), SCATTERV),
	MP_both("Alltoall", "alltoall", 1, A1, A2, NO, S(0), ALLTOALL),
	MP_both("Alltoallv", "alltoallv", 3, A1, A3, NO, S(2), ALLTOALLV),
	MP_both("Alltoallw", "alltoallw", 3, A1, A3, NO, S(2), UNSIZED),
	MP_both("Reduce_scatter", "reduce_scatter", 0, A2, A3, NO, A5, SUM),
	MP_both("Reduce_scatter_block", "reduce_scatter_block", 0, A2, A3, NO, A5, PER_RANK),
	MP_both("Neighbor_allgather", "neighbor_allgather", 1, A1, A2, NO, S(0), PLAIN),
	MP_both("Neighbor_alltoall", "neighbor_alltoall", 1, A1, A2, NO, S(0), UNSIZED),
	MP_both("Neighbor_alltoallv", "neighbor_alltoallv", 3, A1, A3, NO, S(2), UNSIZED),

	/* one-sided: origin, count, type, rank, offset, then count and type there, window */
	MP_rma("Put", 2, S(1), SEND),
	MP_rma("Rput", 2, S(1), SEND),
	MP_rma("Get", 2, S(1), RECV),
	MP_rma("Rget", 2, S(1), RECV),
	MP_rma("Accumulate", 3, S(2), SEND),
	MP_rma("Raccumulate", 3, S(2), SEND),
	MP_plain("Get_accumulate", P2P, NO),
	MP_plain("Fetch_and_op", P2P, NO),
	MP_plain("Compare_and_swap", P2P, NO),
	MP_plain("Win_create", COMM, NO),
	MP_plain("Win_allocate", COMM, NO),
	MP_plain("Win_allocate_shared", COMM, NO),
	MP_plain("Win_free", COMM, NO),
	MP_plain("Win_fence", SYNC, NO),
	MP_plain("Win_start", SYNC, NO),
	MP_plain("Win_complete", SYNC, NO),
	MP_plain("Win_post", SYNC, NO),
	MP_plain("Win_wait", SYNC, NO),
	MP_plain("Win_lock", SYNC, NO),
	MP_plain("Win_unlock", SYNC, NO),
	MP_plain("Win_lock_all", SYNC, NO),
	MP_plain("Win_unlock_all", SYNC, NO),
	MP_plain("Win_flush", SYNC, NO),
	MP_plain("Win_flush_all", SYNC, NO),
	MP_plain("Win_flush_local", SYNC, NO),
	MP_plain("Win_flush_local_all", SYNC, NO),

	/* files: what is asked for; the end of a file may give less */
	MP_plain("File_open", OTHER, NO),
	MP_plain("File_close", OTHER, NO),
	MP_plain("File_sync", SYNC, NO),
	MP_plain("File_set_view", OTHER, NO),
	MP_plain("File_set_size", OTHER, NO),
	MP_file("File_read", COPY, A2),
	MP_file("File_read_all", COPY, A2),
	MP_file("File_read_shared", COPY, A2),
	MP_file("File_read_ordered", COPY, A2),
	MP_file("File_read_at", COPY, A3),
	MP_file("File_read_at_all", COPY, A3),
	MP_file("File_iread", COPY, A2),
	MP_file("File_iread_at", COPY, A3),
	MP_file("File_write", COPY, A2),
	MP_file("File_write_all", COPY, A2),
	MP_file("File_write_shared", COPY, A2),
	MP_file("File_write_ordered", COPY, A2),
	MP_file("File_write_at", COPY, A3),
	MP_file("File_write_at_all", COPY, A3),
	MP_file("File_iwrite", COPY, A2),
	MP_file("File_iwrite_at", COPY, A3),

	/* the rest */
	MP_plain("Init", COMM, NO),
	MP_plain("Init_thread", COMM, NO),
	MP_plain("Finalize", COMM, NO),
	MP_("Comm_rank", COMM, 0, NO, NO, NO, A0, NO, PLAIN, COMM_RANK),
	MP_("Comm_size", COMM, 0, NO, NO, NO, A0, NO, PLAIN, COMM_SIZE),
	MP_plain("Comm_dup", COMM, A0),
	MP_plain("Comm_split", COMM, A0),
	MP_plain("Comm_split_type", COMM, A0),
	MP_plain("Comm_create", COMM, A0),
	MP_plain("Comm_create_group", COMM, A0),
	MP("Comm_free", COMM, 0, NO, NO, NO, NO, COMM_FREE),
	MP_plain("Cart_create", COMM, A0),
};

static unsigned n_funcs;

/* The rows number themselves, once, before main(). */
__attribute__((constructor)) static void number_rows(void)
{
	for (n_funcs = 0; n_funcs + 1 < GS_FUNC_MAX && table[n_funcs + 1].name; n_funcs++)
		table[n_funcs + 1].id = (uint16_t)(n_funcs + 1);
}

const struct gs_func *gs_func_by_id(unsigned id)
{
	return id >= 1 && id <= n_funcs ? &table[id] : NULL;
}

const struct gs_func *gs_func_by_name(const char *name)
{
	for (unsigned i = 1; i <= n_funcs; i++)
		if (strcmp(table[i].name, name) == 0)
			return &table[i];
	return NULL;
}

unsigned gs_func_count(void)
{
	return n_funcs;
}

/* Calls that return when the GPU has done something: waits, and copies that are not asynchronous
 * by their name. */
unsigned gs_func_inside(const struct gs_func *func)
{
	switch (func->desc.layer) {
	case GS_LAYER_NCCL:
		return GS_INSIDE_NCCL;
	case GS_LAYER_MPI:
		return GS_INSIDE_MPI;
	case GS_LAYER_CUDA_RUNTIME:
	case GS_LAYER_CUDA_DRIVER:
		if (func->desc.op == GS_CLASS_SYNC ||
		    (func->desc.op == GS_CLASS_COPY && !strstr(func->name, "Async")))
			return GS_INSIDE_GPU_WAIT;
		return GS_INSIDE_CUDA;
	}
	return GS_INSIDE_NONE;
}
