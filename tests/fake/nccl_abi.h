/*
 * The types of NCCL 2.28 that the stand-in library and its callers need; see cuda_abi.h for why and
 * how they are kept true.
 */
#ifndef FAKE_NCCL_ABI_H
#define FAKE_NCCL_ABI_H

#include "cuda_abi.h"

#define NCCL_MAJOR           2
#define NCCL_MINOR           28
#define NCCL_PATCH           9
#define NCCL_VERSION_CODE    (NCCL_MAJOR * 10000 + NCCL_MINOR * 100 + NCCL_PATCH)
#define NCCL_UNIQUE_ID_BYTES 128
#define NCCL_SPLIT_NOCOLOR   -1

typedef struct ncclComm *ncclComm_t;
typedef struct ncclWindow_vidmem *ncclWindow_t;

typedef struct {
	char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
	ncclSuccess = 0,
	ncclSystemError = 2,
	ncclInvalidArgument = 4,
	ncclInvalidUsage = 5,
	ncclInProgress = 7,
} ncclResult_t;

typedef enum {
	ncclSum = 0,
	ncclProd = 1,
	ncclMax = 2,
	ncclMin = 3,
	ncclAvg = 4,
	ncclNumOps = 5,
	ncclMaxRedOp = 0x7fffffff,
} ncclRedOp_t;

typedef enum {
	ncclInt8 = 0,
	ncclUint8 = 1,
	ncclInt32 = 2,
	ncclUint32 = 3,
	ncclInt64 = 4,
	ncclUint64 = 5,
	ncclFloat16 = 6,
	ncclFloat32 = 7,
	ncclFloat64 = 8,
	ncclBfloat16 = 9,
	ncclFloat8e4m3 = 10,
	ncclFloat8e5m2 = 11,
	ncclNumTypes = 12,
} ncclDataType_t;

typedef enum { ncclScalarDevice = 0, ncclScalarHostImmediate = 1 } ncclScalarResidence_t;

typedef struct ncclSimInfo_v22200 {
	size_t size;
	unsigned int magic, version;
	float estimatedTime;
} ncclSimInfo_t;

typedef struct ncclConfig_v22800 {
	size_t size;
	unsigned int magic, version;
	int blocking, cgaClusterSize, minCTAs, maxCTAs;
	const char *netName;
	int splitShare, trafficClass;
	const char *commName;
	int collnetEnable, CTAPolicy, shrinkShare, nvlsCTAs, nChannelsPerNetPeer,
		nvlinkCentricSched;
} ncclConfig_t;

#define NCCL_CONFIG_MAGIC 0xcafebeef

#include "nccl_protos.h"

/* Of NCCL 2.29 and newer, as its documentation has them: not among the prototypes that are compared
 * with the header of 2.28. */
typedef struct {
	int opCnt, peer, sigIdx, ctx;
} ncclWaitSignalDesc_t;

#define NCCL_NEWER(name, params)                                                                   \
	ncclResult_t nccl##name params;                                                            \
	ncclResult_t pnccl##name params;

NCCL_NEWER(PutSignal, (const void *localbuff, size_t count, ncclDataType_t datatype, int peer,
		       ncclWindow_t peerWin, size_t peerWinOffset, int sigIdx, int ctx,
		       unsigned int flags, ncclComm_t comm, cudaStream_t stream))
NCCL_NEWER(Signal, (int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
		    cudaStream_t stream))
NCCL_NEWER(WaitSignal,
	   (int nDesc, ncclWaitSignalDesc_t *signalDescs, ncclComm_t comm, cudaStream_t stream))
NCCL_NEWER(CommGrow, (ncclComm_t comm, int nRanks, const ncclUniqueId *uniqueId, int rank,
		      ncclComm_t *newcomm, ncclConfig_t *config))
NCCL_NEWER(CommGetUniqueId, (ncclComm_t comm, ncclUniqueId *uniqueId))
NCCL_NEWER(CommSuspend, (ncclComm_t comm, int flags))
NCCL_NEWER(CommResume, (ncclComm_t comm))

#endif
