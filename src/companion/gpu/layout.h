/*
 * Where fields lie in CUPTI's activity records, by its version: offsets only, of CUDA 11.0 to 13.x on x86-64.
 * NVIDIA's headers are not needed to build this; tests/fake/check_cupti.py compares it with them where they are
 * installed (seen: those of CUDA 13.0, which have the older structs, too). Records only grew at their ends.
 */
#ifndef GS_COMPANION_GPU_LAYOUT_H
#define GS_COMPANION_GPU_LAYOUT_H

#include <stdint.h>

#include "model/gpu_work/cupti.h"

/* CUpti_ActivityKind. */
enum gpu_kind {
	GPU_KIND_COPY = 1,
	GPU_KIND_FILL = 2,
	GPU_KIND_DRIVER = 4,
	GPU_KIND_RUNTIME = 5,
	GPU_KIND_KERNEL = 10, /* CONCURRENT_KERNEL; KERNEL (3) would run them one by one */
	GPU_KIND_OVERHEAD = 17,
	GPU_KIND_PEER = 22,  /* MEMCPY2 */
	GPU_KIND_GRAPH = 51, /* GRAPH_TRACE */
	GPU_KIND_MAX = 128
};

/* cuptiGetVersion() of releases. */
#define GPU_CUDA_11_0 GS_CUPTI_CUDA_11_0
#define GPU_CUDA_11_1 14u
#define GPU_CUDA_11_7 17u
#define GPU_CUDA_12_0 19u

/* X(field, kind, offset, bytes, first version, CUPTI's member, its struct then, in 13.0) */
#define GPU_FIELDS(X)                                                                              \
	X(KERNEL_REGISTERS, KERNEL, 6, 2, GPU_CUDA_11_0, registersPerThread, Kernel5, Kernel10)    \
	X(KERNEL_START, KERNEL, 16, 8, GPU_CUDA_11_0, start, Kernel5, Kernel10)                    \
	X(KERNEL_END, KERNEL, 24, 8, GPU_CUDA_11_0, end, Kernel5, Kernel10)                        \
	X(KERNEL_DEVICE, KERNEL, 40, 4, GPU_CUDA_11_0, deviceId, Kernel5, Kernel10)                \
	X(KERNEL_CONTEXT, KERNEL, 44, 4, GPU_CUDA_11_0, contextId, Kernel5, Kernel10)              \
	X(KERNEL_STREAM, KERNEL, 48, 4, GPU_CUDA_11_0, streamId, Kernel5, Kernel10)                \
	X(KERNEL_GRID_X, KERNEL, 52, 4, GPU_CUDA_11_0, gridX, Kernel5, Kernel10)                   \
	X(KERNEL_GRID_Y, KERNEL, 56, 4, GPU_CUDA_11_0, gridY, Kernel5, Kernel10)                   \
	X(KERNEL_GRID_Z, KERNEL, 60, 4, GPU_CUDA_11_0, gridZ, Kernel5, Kernel10)                   \
	X(KERNEL_BLOCK_X, KERNEL, 64, 4, GPU_CUDA_11_0, blockX, Kernel5, Kernel10)                 \
	X(KERNEL_BLOCK_Y, KERNEL, 68, 4, GPU_CUDA_11_0, blockY, Kernel5, Kernel10)                 \
	X(KERNEL_BLOCK_Z, KERNEL, 72, 4, GPU_CUDA_11_0, blockZ, Kernel5, Kernel10)                 \
	X(KERNEL_STATIC, KERNEL, 76, 4, GPU_CUDA_11_0, staticSharedMemory, Kernel5, Kernel10)      \
	X(KERNEL_DYNAMIC, KERNEL, 80, 4, GPU_CUDA_11_0, dynamicSharedMemory, Kernel5, Kernel10)    \
	X(KERNEL_CORRELATION, KERNEL, 92, 4, GPU_CUDA_11_0, correlationId, Kernel5, Kernel10)      \
	X(KERNEL_NAME, KERNEL, 104, 8, GPU_CUDA_11_0, name, Kernel5, Kernel10)                     \
	X(KERNEL_GRAPH, KERNEL, 156, 4, GPU_CUDA_11_1, graphId, Kernel6, Kernel10)                 \
	X(COPY_DIRECTION, COPY, 4, 1, GPU_CUDA_11_0, copyKind, Memcpy3, Memcpy6)                   \
	X(COPY_BYTES, COPY, 8, 8, GPU_CUDA_11_0, bytes, Memcpy3, Memcpy6)                          \
	X(COPY_START, COPY, 16, 8, GPU_CUDA_11_0, start, Memcpy3, Memcpy6)                         \
	X(COPY_END, COPY, 24, 8, GPU_CUDA_11_0, end, Memcpy3, Memcpy6)                             \
	X(COPY_DEVICE, COPY, 32, 4, GPU_CUDA_11_0, deviceId, Memcpy3, Memcpy6)                     \
	X(COPY_CONTEXT, COPY, 36, 4, GPU_CUDA_11_0, contextId, Memcpy3, Memcpy6)                   \
	X(COPY_STREAM, COPY, 40, 4, GPU_CUDA_11_0, streamId, Memcpy3, Memcpy6)                     \
	X(COPY_CORRELATION, COPY, 44, 4, GPU_CUDA_11_0, correlationId, Memcpy3, Memcpy6)           \
	X(COPY_GRAPH, COPY, 72, 4, GPU_CUDA_11_1, graphId, Memcpy4, Memcpy6)                       \
	X(PEER_DIRECTION, PEER, 4, 1, GPU_CUDA_11_0, copyKind, MemcpyPtoP2, MemcpyPtoP4)           \
	X(PEER_BYTES, PEER, 8, 8, GPU_CUDA_11_0, bytes, MemcpyPtoP2, MemcpyPtoP4)                  \
	X(PEER_START, PEER, 16, 8, GPU_CUDA_11_0, start, MemcpyPtoP2, MemcpyPtoP4)                 \
	X(PEER_END, PEER, 24, 8, GPU_CUDA_11_0, end, MemcpyPtoP2, MemcpyPtoP4)                     \
	X(PEER_DEVICE, PEER, 32, 4, GPU_CUDA_11_0, deviceId, MemcpyPtoP2, MemcpyPtoP4)             \
	X(PEER_CONTEXT, PEER, 36, 4, GPU_CUDA_11_0, contextId, MemcpyPtoP2, MemcpyPtoP4)           \
	X(PEER_STREAM, PEER, 40, 4, GPU_CUDA_11_0, streamId, MemcpyPtoP2, MemcpyPtoP4)             \
	X(PEER_CORRELATION, PEER, 60, 4, GPU_CUDA_11_0, correlationId, MemcpyPtoP2, MemcpyPtoP4)   \
	X(PEER_GRAPH, PEER, 80, 4, GPU_CUDA_11_1, graphId, MemcpyPtoP3, MemcpyPtoP4)               \
	X(FILL_VALUE, FILL, 4, 4, GPU_CUDA_11_0, value, Memset2, Memset4)                          \
	X(FILL_BYTES, FILL, 8, 8, GPU_CUDA_11_0, bytes, Memset2, Memset4)                          \
	X(FILL_START, FILL, 16, 8, GPU_CUDA_11_0, start, Memset2, Memset4)                         \
	X(FILL_END, FILL, 24, 8, GPU_CUDA_11_0, end, Memset2, Memset4)                             \
	X(FILL_DEVICE, FILL, 32, 4, GPU_CUDA_11_0, deviceId, Memset2, Memset4)                     \
	X(FILL_CONTEXT, FILL, 36, 4, GPU_CUDA_11_0, contextId, Memset2, Memset4)                   \
	X(FILL_STREAM, FILL, 40, 4, GPU_CUDA_11_0, streamId, Memset2, Memset4)                     \
	X(FILL_CORRELATION, FILL, 44, 4, GPU_CUDA_11_0, correlationId, Memset2, Memset4)           \
	X(FILL_GRAPH, FILL, 72, 4, GPU_CUDA_11_1, graphId, Memset3, Memset4)                       \
	X(CALL_START, RUNTIME, 8, 8, GPU_CUDA_11_0, start, API, API)                               \
	X(CALL_END, RUNTIME, 16, 8, GPU_CUDA_11_0, end, API, API)                                  \
	X(CALL_THREAD, RUNTIME, 28, 4, GPU_CUDA_11_0, threadId, API, API)                          \
	X(CALL_CORRELATION, RUNTIME, 32, 4, GPU_CUDA_11_0, correlationId, API, API)                \
	X(GRAPH_CORRELATION, GRAPH, 4, 4, GPU_CUDA_11_7, correlationId, GraphTrace, GraphTrace2)   \
	X(GRAPH_START, GRAPH, 8, 8, GPU_CUDA_11_7, start, GraphTrace, GraphTrace2)                 \
	X(GRAPH_END, GRAPH, 16, 8, GPU_CUDA_11_7, end, GraphTrace, GraphTrace2)                    \
	X(GRAPH_DEVICE, GRAPH, 24, 4, GPU_CUDA_11_7, deviceId, GraphTrace, GraphTrace2)            \
	X(GRAPH_GRAPH, GRAPH, 28, 4, GPU_CUDA_11_7, graphId, GraphTrace, GraphTrace2)              \
	X(GRAPH_CONTEXT, GRAPH, 32, 4, GPU_CUDA_11_7, contextId, GraphTrace, GraphTrace2)          \
	X(GRAPH_STREAM, GRAPH, 36, 4, GPU_CUDA_11_7, streamId, GraphTrace, GraphTrace2)            \
	X(OVERHEAD_KIND, OVERHEAD, 4, 4, GPU_CUDA_11_0, overheadKind, Overhead, Overhead3)         \
	X(OVERHEAD_START, OVERHEAD, 24, 8, GPU_CUDA_11_0, start, Overhead, Overhead3)              \
	X(OVERHEAD_END, OVERHEAD, 32, 8, GPU_CUDA_11_0, end, Overhead, Overhead3)

#define GPU_FIELD_NUMBER(field, ...) GPU_##field,
enum gpu_field { GPU_FIELDS(GPU_FIELD_NUMBER) GPU_N_FIELDS };

struct gpu_place {
	uint16_t offset; /* in the record */
	uint8_t bytes;   /* of the field: 1, 2, 4 or 8 */
	uint32_t since;  /* version of CUPTI that has it: GPU_CUDA_... */
};
extern const struct gpu_place gpu_place[GPU_N_FIELDS];

/* CUpti_ActivityKind, with which each record begins. */
static inline uint32_t gpu_record_kind(const uint8_t *record)
{
	uint32_t kind;

	__builtin_memcpy(&kind, record, sizeof(kind));
	return kind;
}

/* A field of a record of its kind; 0 where records of this version lack it. */
static inline uint64_t gpu_field_read(const uint8_t *record, enum gpu_field field, uint32_t version)
{
	const struct gpu_place *p = &gpu_place[field];
	uint64_t v = 0;

	if (version >= p->since)
		__builtin_memcpy(&v, record + p->offset, p->bytes);
	return v;
}

#endif
