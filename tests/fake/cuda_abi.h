/*
 * The types of CUDA 13 that the stand-in libraries and their callers need, declared here so that
 * nothing of NVIDIA's is needed to build the tests. Names are CUDA's own, so that abi_asserts.h and
 * cuda_protos.h can be compiled after the real headers as well: check_abi.py does that where they
 * are installed, and a struct or a prototype that differs does not compile.
 */
#ifndef FAKE_CUDA_ABI_H
#define FAKE_CUDA_ABI_H

#include <stddef.h>
#include <stdint.h>

/* Handles are pointers to structs that nobody outside the library knows. */
typedef struct CUstream_st *CUstream, *cudaStream_t;
typedef struct CUevent_st *CUevent, *cudaEvent_t;
typedef struct CUctx_st *CUcontext;
typedef struct CUexecAffinityParam_st CUexecAffinityParam;
typedef struct CUctxCreateParams_st CUctxCreateParams;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction, *cudaFunction_t;
typedef struct CUlib_st *CUlibrary, *cudaLibrary_t;
typedef struct CUkern_st *CUkernel, *cudaKernel_t;
typedef struct CUgraph_st *CUgraph, *cudaGraph_t;
typedef struct CUgraphNode_st *CUgraphNode, *cudaGraphNode_t;
typedef struct CUgraphExecUpdateResultInfo_st CUgraphExecUpdateResultInfo;
typedef enum CUgraphExecUpdateResult_enum { CU_GRAPH_EXEC_UPDATE_SUCCESS } CUgraphExecUpdateResult;
typedef struct cudaGraphExecUpdateResultInfo_st cudaGraphExecUpdateResultInfo;
typedef struct CUgraphExec_st *CUgraphExec, *cudaGraphExec_t;
typedef struct CUmemPoolHandle_st *CUmemoryPool, *cudaMemPool_t;
typedef struct CUarray_st *CUarray;
typedef struct cudaArray *cudaArray_t;
typedef const struct cudaArray *cudaArray_const_t;
typedef struct cudaMipmappedArray *cudaMipmappedArray_t;
typedef unsigned long long CUdeviceptr;
typedef unsigned int CUdeviceptr_v1;
typedef unsigned long long CUmemGenericAllocationHandle;
typedef int CUdevice;
typedef uint32_t cuuint32_t;
typedef uint64_t cuuint64_t;

/* Only the codes that the stand-ins answer with. */
typedef enum cudaError {
	cudaSuccess = 0,
	cudaErrorInvalidValue = 1,
	cudaErrorMemoryAllocation = 2,
	cudaErrorInvalidConfiguration = 9,
	cudaErrorInvalidPitchValue = 12,
	cudaErrorInvalidMemcpyDirection = 21,
	cudaErrorInvalidDevice = 101,
	cudaErrorInvalidResourceHandle = 400,
	cudaErrorNotReady = 600,
	cudaErrorHostMemoryAlreadyRegistered = 712,
	cudaErrorHostMemoryNotRegistered = 713,
	cudaErrorStreamCaptureUnmatched = 903,
} cudaError_t;

typedef enum cudaError_enum {
	CUDA_SUCCESS = 0,
	CUDA_ERROR_INVALID_VALUE = 1,
	CUDA_ERROR_OUT_OF_MEMORY = 2,
	CUDA_ERROR_DEINITIALIZED = 4,
	CUDA_ERROR_INVALID_DEVICE = 101,
	CUDA_ERROR_INVALID_HANDLE = 400,
	CUDA_ERROR_NOT_READY = 600,
	CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712,
	CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713,
} CUresult;

enum cudaMemcpyKind {
	cudaMemcpyHostToHost = 0,
	cudaMemcpyHostToDevice = 1,
	cudaMemcpyDeviceToHost = 2,
	cudaMemcpyDeviceToDevice = 3,
	cudaMemcpyDefault = 4,
};

typedef enum CUmemorytype_enum {
	CU_MEMORYTYPE_HOST = 1,
	CU_MEMORYTYPE_DEVICE = 2,
	CU_MEMORYTYPE_ARRAY = 3,
	CU_MEMORYTYPE_UNIFIED = 4,
} CUmemorytype;

enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal = 0, cudaStreamCaptureModeRelaxed = 2 };
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone = 0 };
enum cudaChannelFormatKind { cudaChannelFormatKindSigned = 0, cudaChannelFormatKindFloat = 2 };
enum cudaMemoryType { cudaMemoryTypeUnregistered = 0, cudaMemoryTypeDevice = 2 };
enum cudaDeviceAttr { cudaDevAttrMaxThreadsPerBlock = 1 };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
enum cudaJitOption { cudaJitMaxRegisters = 0 };
enum cudaLibraryOption { cudaLibraryHostUniversalFunctionAndDataTable = 0 };
typedef enum cudaLaunchAttributeID { cudaLaunchAttributeCooperative = 2 } cudaLaunchAttributeID;
typedef enum CUlaunchAttributeID_enum { CU_LAUNCH_ATTRIBUTE_COOPERATIVE = 2 } CUlaunchAttributeID;
typedef enum CUjit_option_enum { CU_JIT_MAX_REGISTERS = 0 } CUjit_option;
typedef enum CUlibraryOption_enum { CU_LIBRARY_BINARY_IS_PRESERVED = 1 } CUlibraryOption;
typedef enum CUpointer_attribute_enum { CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2 } CUpointer_attribute;
typedef enum CUfunction_attribute_enum {
	CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0
} CUfunction_attribute;
typedef enum CUstreamCaptureMode_enum {
	CU_STREAM_CAPTURE_MODE_GLOBAL = 0,
	CU_STREAM_CAPTURE_MODE_RELAXED = 2
} CUstreamCaptureMode;
enum cudaMemcpy3DOperandType {
	cudaMemcpyOperandTypePointer = 1,
	cudaMemcpyOperandTypeArray = 2,
};
typedef enum CUmemcpy3DOperandType_enum {
	CU_MEMCPY_OPERAND_TYPE_POINTER = 1,
	CU_MEMCPY_OPERAND_TYPE_ARRAY = 2,
} CUmemcpy3DOperandType;
typedef enum CUstreamCaptureStatus_enum { CU_STREAM_CAPTURE_STATUS_NONE = 0 } CUstreamCaptureStatus;

typedef void (*cudaHostFn_t)(void *userData);
typedef void (*cudaStreamCallback_t)(cudaStream_t stream, cudaError_t status, void *userData);
typedef void (*CUhostFn)(void *userData);
typedef void (*CUstreamCallback)(CUstream hStream, CUresult status, void *userData);

typedef struct dim3 {
	unsigned int x, y, z;
} dim3;

struct cudaPitchedPtr {
	void *ptr;
	size_t pitch, xsize, ysize;
};

struct cudaExtent {
	size_t width, height, depth;
};

struct cudaPos {
	size_t x, y, z;
};

struct cudaChannelFormatDesc {
	int x, y, z, w; /* bits of each component */
	enum cudaChannelFormatKind f;
};

struct cudaMemcpy3DParms {
	cudaArray_t srcArray;
	struct cudaPos srcPos;
	struct cudaPitchedPtr srcPtr;
	cudaArray_t dstArray;
	struct cudaPos dstPos;
	struct cudaPitchedPtr dstPtr;
	struct cudaExtent extent;
	enum cudaMemcpyKind kind;
};

struct cudaMemcpy3DPeerParms {
	cudaArray_t srcArray;
	struct cudaPos srcPos;
	struct cudaPitchedPtr srcPtr;
	int srcDevice;
	cudaArray_t dstArray;
	struct cudaPos dstPos;
	struct cudaPitchedPtr dstPtr;
	int dstDevice;
	struct cudaExtent extent;
};

struct cudaMemLocation {
	int type;
	int id;
};

struct cudaMemcpyAttributes {
	int srcAccessOrder;
	struct cudaMemLocation srcLocHint, dstLocHint;
	unsigned int flags;
};

struct cudaOffset3D {
	size_t x, y, z;
};

struct cudaMemcpy3DOperand {
	enum cudaMemcpy3DOperandType type;
	union {
		struct {
			void *ptr;
			size_t rowLength, layerHeight;
			struct cudaMemLocation locHint;
		} ptr;
		struct {
			cudaArray_t array;
			struct cudaOffset3D offset;
		} array;
	} op;
};

struct cudaMemcpy3DBatchOp {
	struct cudaMemcpy3DOperand src, dst;
	struct cudaExtent extent;
	int srcAccessOrder;
	unsigned int flags;
};

typedef struct cudaIpcMemHandle_st {
	char reserved[64];
} cudaIpcMemHandle_t;

struct cudaKernelNodeParams {
	void *func;
	dim3 gridDim, blockDim;
	unsigned int sharedMemBytes;
	void **kernelParams, **extra;
};

typedef struct CUDA_KERNEL_NODE_PARAMS_st {
	CUfunction func;
	unsigned int gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
	void **kernelParams, **extra;
} CUDA_KERNEL_NODE_PARAMS_v1;

typedef struct CUDA_KERNEL_NODE_PARAMS_v2_st {
	CUfunction func;
	unsigned int gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
	void **kernelParams, **extra;
	CUkernel kern;
	CUcontext ctx;
} CUDA_KERNEL_NODE_PARAMS_v2;

typedef struct cudaGraphInstantiateParams_st {
	unsigned long long flags;
	cudaStream_t uploadStream;
	cudaGraphNode_t errNode_out;
	int result_out;
} cudaGraphInstantiateParams;

typedef struct cudaLaunchAttribute_st {
	cudaLaunchAttributeID id;
	char pad[4];
	union {
		char pad[64];
		int cooperative;
	} val;
} cudaLaunchAttribute;

typedef struct cudaLaunchConfig_st {
	dim3 gridDim, blockDim;
	size_t dynamicSmemBytes;
	cudaStream_t stream;
	cudaLaunchAttribute *attrs;
	unsigned int numAttrs;
} cudaLaunchConfig_t;

typedef struct CUlaunchAttribute_st {
	CUlaunchAttributeID id;
	char pad[4];
	union {
		char pad[64];
		int cooperative;
	} value;
} CUlaunchAttribute;

typedef struct CUlaunchConfig_st {
	unsigned int gridDimX, gridDimY, gridDimZ;
	unsigned int blockDimX, blockDimY, blockDimZ;
	unsigned int sharedMemBytes;
	CUstream hStream;
	CUlaunchAttribute *attrs;
	unsigned int numAttrs;
} CUlaunchConfig;

typedef struct CUDA_LAUNCH_PARAMS_st {
	CUfunction function;
	unsigned int gridDimX, gridDimY, gridDimZ;
	unsigned int blockDimX, blockDimY, blockDimZ;
	unsigned int sharedMemBytes;
	CUstream hStream;
	void **kernelParams;
} CUDA_LAUNCH_PARAMS;

typedef struct CUDA_MEMCPY2D_st {
	size_t srcXInBytes, srcY;
	CUmemorytype srcMemoryType;
	const void *srcHost;
	CUdeviceptr srcDevice;
	CUarray srcArray;
	size_t srcPitch;
	size_t dstXInBytes, dstY;
	CUmemorytype dstMemoryType;
	void *dstHost;
	CUdeviceptr dstDevice;
	CUarray dstArray;
	size_t dstPitch;
	size_t WidthInBytes, Height;
} CUDA_MEMCPY2D;

typedef struct CUDA_MEMCPY3D_st {
	size_t srcXInBytes, srcY, srcZ, srcLOD;
	CUmemorytype srcMemoryType;
	const void *srcHost;
	CUdeviceptr srcDevice;
	CUarray srcArray;
	void *reserved0;
	size_t srcPitch, srcHeight;
	size_t dstXInBytes, dstY, dstZ, dstLOD;
	CUmemorytype dstMemoryType;
	void *dstHost;
	CUdeviceptr dstDevice;
	CUarray dstArray;
	void *reserved1;
	size_t dstPitch, dstHeight;
	size_t WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D;

/* With the context of each side where CUDA_MEMCPY3D has a reserved word. */
typedef struct CUDA_MEMCPY3D_PEER_st {
	size_t srcXInBytes, srcY, srcZ, srcLOD;
	CUmemorytype srcMemoryType;
	const void *srcHost;
	CUdeviceptr srcDevice;
	CUarray srcArray;
	CUcontext srcContext;
	size_t srcPitch, srcHeight;
	size_t dstXInBytes, dstY, dstZ, dstLOD;
	CUmemorytype dstMemoryType;
	void *dstHost;
	CUdeviceptr dstDevice;
	CUarray dstArray;
	CUcontext dstContext;
	size_t dstPitch, dstHeight;
	size_t WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D_PEER;

typedef struct CUDA_MEMCPY2D_v1_st {
	unsigned int srcXInBytes, srcY;
	CUmemorytype srcMemoryType;
	const void *srcHost;
	CUdeviceptr_v1 srcDevice;
	CUarray srcArray;
	unsigned int srcPitch;
	unsigned int dstXInBytes, dstY;
	CUmemorytype dstMemoryType;
	void *dstHost;
	CUdeviceptr_v1 dstDevice;
	CUarray dstArray;
	unsigned int dstPitch;
	unsigned int WidthInBytes, Height;
} CUDA_MEMCPY2D_v1;

typedef struct CUDA_MEMCPY3D_v1_st {
	unsigned int srcXInBytes, srcY, srcZ, srcLOD;
	CUmemorytype srcMemoryType;
	const void *srcHost;
	CUdeviceptr_v1 srcDevice;
	CUarray srcArray;
	void *reserved0;
	unsigned int srcPitch, srcHeight;
	unsigned int dstXInBytes, dstY, dstZ, dstLOD;
	CUmemorytype dstMemoryType;
	void *dstHost;
	CUdeviceptr_v1 dstDevice;
	CUarray dstArray;
	void *reserved1;
	unsigned int dstPitch, dstHeight;
	unsigned int WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D_v1;

typedef struct CUmemLocation_st {
	int type;
	int id;
} CUmemLocation;

typedef struct CUmemAllocationProp_st {
	int type;
	int requestedHandleTypes;
	CUmemLocation location;
	void *win32HandleMetaData;
	unsigned char allocFlags[8];
} CUmemAllocationProp;

typedef struct CUmemAccessDesc_st {
	CUmemLocation location;
	int flags;
} CUmemAccessDesc;

typedef struct CUmemcpyAttributes_st {
	int srcAccessOrder;
	CUmemLocation srcLocHint, dstLocHint;
	unsigned int flags;
} CUmemcpyAttributes;

typedef struct CUextent3D_st {
	size_t width, height, depth;
} CUextent3D;

typedef struct CUmemcpy3DOperand_st {
	CUmemcpy3DOperandType type;
	union {
		struct {
			CUdeviceptr ptr;
			size_t rowLength, layerHeight;
			CUmemLocation locHint;
		} ptr;
		struct {
			CUarray array;
			size_t offset[3];
		} array;
	} op;
} CUmemcpy3DOperand;

typedef struct CUDA_MEMCPY3D_BATCH_OP_st {
	CUmemcpy3DOperand src, dst;
	CUextent3D extent;
	int srcAccessOrder;
	unsigned int flags;
} CUDA_MEMCPY3D_BATCH_OP;

typedef struct CUipcMemHandle_st {
	char reserved[64];
} CUipcMemHandle;

typedef union CUstreamBatchMemOpParams_union {
	int operation;
	uint64_t pad[6];
} CUstreamBatchMemOpParams;

typedef struct CUDA_GRAPH_INSTANTIATE_PARAMS_st {
	cuuint64_t flags;
	CUstream hUploadStream;
	CUgraphNode hErrNode_out;
	int result_out;
} CUDA_GRAPH_INSTANTIATE_PARAMS;

typedef struct cudaGraphEdgeData_st {
	unsigned char from_port, to_port, type, reserved[5];
} cudaGraphEdgeData;

typedef struct CUgraphEdgeData_st {
	unsigned char from_port, to_port, type, reserved[5];
} CUgraphEdgeData;

struct cudaPointerAttributes {
	enum cudaMemoryType type;
	int device;
	void *devicePointer, *hostPointer;
	long reserved[8];
};

struct cudaFuncAttributes {
	size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
	int maxThreadsPerBlock, numRegs;
	int rest[28];
};

/* The members in between are of no use here; their room is. */
struct cudaDeviceProp {
	char name[256];
	char uuid_luid[32];
	size_t totalGlobalMem;
	char rest1[64];
	int major, minor;
	char rest2[16];
	int multiProcessorCount;
	char rest3[620];
};

#include "cuda_protos.h"

#endif
