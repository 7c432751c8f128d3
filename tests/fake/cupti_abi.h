/* CUPTI's activity records as the stand-in writes them: the newest ones of CUDA 13.0, of which older versions have
 * the beginnings. check_cupti.c compares them with NVIDIA's headers where those are installed. */
#ifndef FAKE_CUPTI_ABI_H
#define FAKE_CUPTI_ABI_H

#include <stddef.h>
#include <stdint.h>

#define FAKE_RECORD __attribute__((packed, aligned(8)))

struct fake_kernel {
	uint32_t kind;
	uint8_t cacheConfig, sharedMemoryConfig;
	uint16_t registersPerThread;
	uint32_t partitionedGlobalCacheRequested, partitionedGlobalCacheExecuted;
	uint64_t start, end, completed;
	uint32_t deviceId, contextId, streamId;
	int32_t gridX, gridY, gridZ, blockX, blockY, blockZ;
	int32_t staticSharedMemory, dynamicSharedMemory;
	uint32_t localMemoryPerThread, localMemoryTotal, correlationId;
	int64_t gridId;
	const char *name;
	void *reserved0;
	uint64_t queued, submitted;
	uint8_t launchType, isSharedMemoryCarveoutRequested, sharedMemoryCarveoutRequested, padding;
	uint32_t sharedMemoryExecuted;
	uint64_t graphNodeId;
	uint32_t shmemLimitConfig, graphId;
	uint8_t tail[56];
} FAKE_RECORD;

struct fake_memcpy {
	uint32_t kind;
	uint8_t copyKind, srcKind, dstKind, flags;
	uint64_t bytes, start, end;
	uint32_t deviceId, contextId, streamId, correlationId, runtimeCorrelationId, pad;
	void *reserved0;
	uint64_t graphNodeId;
	uint32_t graphId;
	uint8_t tail[20];
} FAKE_RECORD;

struct fake_memset {
	uint32_t kind, value;
	uint64_t bytes, start, end;
	uint32_t deviceId, contextId, streamId, correlationId;
	uint16_t flags, memoryKind;
	uint32_t pad;
	void *reserved0;
	uint64_t graphNodeId;
	uint32_t graphId;
	uint8_t tail[12];
} FAKE_RECORD;

struct fake_api {
	uint32_t kind, cbid;
	uint64_t start, end;
	uint32_t processId, threadId, correlationId, returnValue;
} FAKE_RECORD;

struct fake_graph {
	uint32_t kind, correlationId;
	uint64_t start, end;
	uint32_t deviceId, graphId, contextId, streamId;
	uint8_t tail[16];
} FAKE_RECORD;

struct fake_sync {
	uint32_t kind, type;
	uint64_t start, end;
	uint32_t correlationId, contextId, streamId, cudaEventId;
	uint8_t tail[16];
} FAKE_RECORD;

struct fake_overhead {
	uint32_t kind, overheadKind, objectKind;
	uint8_t objectId[12];
	uint64_t start, end;
	uint8_t tail[16];
} FAKE_RECORD;

/* X(record, number, size in 11.0, 11.1, 11.2, 11.6, 11.8, 12.0, 12.3, 12.8, 13.0) */
#define FAKE_SIZES(X)                                                                              \
	X(kernel, 10, 160, 160, 168, 176, 200, 208, 208, 208, 216)                                 \
	X(memcpy, 1, 72, 80, 80, 88, 88, 88, 88, 96, 96)                                           \
	X(memset, 2, 72, 80, 80, 88, 88, 88, 88, 88, 88)                                           \
	X(runtime, 5, 40, 40, 40, 40, 40, 40, 40, 40, 40)                                          \
	X(graph, 51, 0, 0, 0, 48, 48, 48, 56, 56, 56)                                              \
	X(sync, 38, 40, 40, 40, 40, 40, 40, 40, 56, 56)                                            \
	X(overhead, 17, 40, 40, 40, 40, 40, 40, 48, 48, 56)

/* The version from which each of these columns holds. */
#define FAKE_SIZE_VERSIONS                                                                         \
	{                                                                                          \
		13, 14, 15, 17, 18, 19, 21, 26, 130000                                             \
	}

#endif
