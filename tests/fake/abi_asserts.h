/*
 * Sizes and offsets that the stand-ins promise and that the tracer's decoding relies on. Compiled
 * twice: with cuda_abi.h and nccl_abi.h into the libraries, and by check_abi.py with the real
 * headers where they are installed.
 */
#include <stddef.h>

#define AT(type, field, off) _Static_assert(offsetof(type, field) == (off), #type "." #field)
#define SIZE(type, bytes)    _Static_assert(sizeof(type) == (bytes), #type)

SIZE(dim3, 12);
SIZE(struct cudaPitchedPtr, 32);
AT(struct cudaPitchedPtr, pitch, 8);
AT(struct cudaPitchedPtr, ysize, 24);
SIZE(struct cudaExtent, 24);
AT(struct cudaExtent, depth, 16);
SIZE(struct cudaPos, 24);
SIZE(struct cudaChannelFormatDesc, 20);
AT(struct cudaChannelFormatDesc, w, 12);
AT(struct cudaChannelFormatDesc, f, 16);

SIZE(struct cudaMemcpy3DParms, 160);
AT(struct cudaMemcpy3DParms, srcPtr, 32);
AT(struct cudaMemcpy3DParms, dstArray, 64);
AT(struct cudaMemcpy3DParms, dstPtr, 96);
AT(struct cudaMemcpy3DParms, extent, 128);
AT(struct cudaMemcpy3DParms, kind, 152);

AT(struct cudaKernelNodeParams, func, 0);
AT(CUDA_KERNEL_NODE_PARAMS_v1, func, 0);
AT(CUDA_KERNEL_NODE_PARAMS_v2, func, 0);
SIZE(CUDA_KERNEL_NODE_PARAMS_v2, 72);

SIZE(cudaLaunchAttribute, 72);
AT(cudaLaunchAttribute, val, 8);
SIZE(cudaLaunchConfig_t, 56);
AT(cudaLaunchConfig_t, blockDim, 12);
AT(cudaLaunchConfig_t, dynamicSmemBytes, 24);
AT(cudaLaunchConfig_t, stream, 32);
AT(cudaLaunchConfig_t, attrs, 40);
AT(cudaLaunchConfig_t, numAttrs, 48);

SIZE(CUlaunchAttribute, 72);
SIZE(CUlaunchConfig, 56);
AT(CUlaunchConfig, blockDimX, 12);
AT(CUlaunchConfig, sharedMemBytes, 24);
AT(CUlaunchConfig, hStream, 32);
AT(CUlaunchConfig, attrs, 40);
AT(CUlaunchConfig, numAttrs, 48);

SIZE(CUDA_LAUNCH_PARAMS, 56);
AT(CUDA_LAUNCH_PARAMS, gridDimX, 8);
AT(CUDA_LAUNCH_PARAMS, hStream, 40);

SIZE(CUDA_MEMCPY2D, 128);
AT(CUDA_MEMCPY2D, srcMemoryType, 16);
AT(CUDA_MEMCPY2D, srcHost, 24);
AT(CUDA_MEMCPY2D, srcDevice, 32);
AT(CUDA_MEMCPY2D, dstMemoryType, 72);
AT(CUDA_MEMCPY2D, dstHost, 80);
AT(CUDA_MEMCPY2D, dstDevice, 88);
AT(CUDA_MEMCPY2D, WidthInBytes, 112);
AT(CUDA_MEMCPY2D, Height, 120);

SIZE(CUDA_MEMCPY3D, 200);
AT(CUDA_MEMCPY3D, srcMemoryType, 32);
AT(CUDA_MEMCPY3D, srcHost, 40);
AT(CUDA_MEMCPY3D, srcDevice, 48);
AT(CUDA_MEMCPY3D, dstMemoryType, 120);
AT(CUDA_MEMCPY3D, dstHost, 128);
AT(CUDA_MEMCPY3D, dstDevice, 136);
AT(CUDA_MEMCPY3D, WidthInBytes, 176);
AT(CUDA_MEMCPY3D, Height, 184);
AT(CUDA_MEMCPY3D, Depth, 192);

SIZE(struct cudaMemcpy3DPeerParms, 168);
AT(struct cudaMemcpy3DPeerParms, srcPtr, 32);
AT(struct cudaMemcpy3DPeerParms, dstArray, 72);
AT(struct cudaMemcpy3DPeerParms, dstPtr, 104);
AT(struct cudaMemcpy3DPeerParms, extent, 144);

SIZE(CUDA_MEMCPY3D_PEER, 200);
AT(CUDA_MEMCPY3D_PEER, srcMemoryType, 32);
AT(CUDA_MEMCPY3D_PEER, srcDevice, 48);
AT(CUDA_MEMCPY3D_PEER, dstMemoryType, 120);
AT(CUDA_MEMCPY3D_PEER, dstDevice, 136);
AT(CUDA_MEMCPY3D_PEER, WidthInBytes, 176);

SIZE(CUDA_MEMCPY2D_v1, 96);
AT(CUDA_MEMCPY2D_v1, srcMemoryType, 8);
AT(CUDA_MEMCPY2D_v1, srcHost, 16);
AT(CUDA_MEMCPY2D_v1, srcDevice, 24);
AT(CUDA_MEMCPY2D_v1, srcArray, 32);
AT(CUDA_MEMCPY2D_v1, dstMemoryType, 52);
AT(CUDA_MEMCPY2D_v1, dstHost, 56);
AT(CUDA_MEMCPY2D_v1, dstDevice, 64);
AT(CUDA_MEMCPY2D_v1, dstArray, 72);
AT(CUDA_MEMCPY2D_v1, WidthInBytes, 84);
AT(CUDA_MEMCPY2D_v1, Height, 88);

SIZE(CUDA_MEMCPY3D_v1, 144);
AT(CUDA_MEMCPY3D_v1, srcMemoryType, 16);
AT(CUDA_MEMCPY3D_v1, srcHost, 24);
AT(CUDA_MEMCPY3D_v1, srcDevice, 32);
AT(CUDA_MEMCPY3D_v1, dstMemoryType, 80);
AT(CUDA_MEMCPY3D_v1, dstHost, 88);
AT(CUDA_MEMCPY3D_v1, dstDevice, 96);
AT(CUDA_MEMCPY3D_v1, WidthInBytes, 128);
AT(CUDA_MEMCPY3D_v1, Depth, 136);

SIZE(struct cudaMemcpy3DBatchOp, 112);
AT(struct cudaMemcpy3DBatchOp, src.op, 8);
AT(struct cudaMemcpy3DBatchOp, dst, 40);
AT(struct cudaMemcpy3DBatchOp, dst.op, 48);
AT(struct cudaMemcpy3DBatchOp, extent, 80);
SIZE(CUDA_MEMCPY3D_BATCH_OP, 112);
AT(CUDA_MEMCPY3D_BATCH_OP, src.op, 8);
AT(CUDA_MEMCPY3D_BATCH_OP, dst.op, 48);
AT(CUDA_MEMCPY3D_BATCH_OP, extent, 80);
SIZE(struct cudaMemcpyAttributes, 24);
SIZE(CUmemcpyAttributes, 24);
SIZE(struct cudaMemLocation, 8);
SIZE(cudaIpcMemHandle_t, 64);
SIZE(CUipcMemHandle, 64);
SIZE(CUstreamBatchMemOpParams, 48);
SIZE(cudaGraphInstantiateParams, 32);
SIZE(CUDA_GRAPH_INSTANTIATE_PARAMS, 32);

SIZE(CUmemLocation, 8);
SIZE(CUmemAllocationProp, 32);
SIZE(CUmemAccessDesc, 12);
SIZE(cudaGraphEdgeData, 8);
SIZE(struct cudaPointerAttributes, 88);
SIZE(struct cudaFuncAttributes, 144);
AT(struct cudaFuncAttributes, maxThreadsPerBlock, 24);
SIZE(struct cudaDeviceProp, 1008);
AT(struct cudaDeviceProp, totalGlobalMem, 288);
AT(struct cudaDeviceProp, major, 360);
AT(struct cudaDeviceProp, multiProcessorCount, 384);

_Static_assert(cudaMemcpyDeviceToDevice == 3 && cudaMemcpyDefault == 4, "cudaMemcpyKind");
_Static_assert(cudaErrorNotReady == 600 && cudaErrorInvalidConfiguration == 9, "cudaError");
_Static_assert(cudaErrorInvalidPitchValue == 12 && cudaErrorInvalidMemcpyDirection == 21,
	       "cudaError");
_Static_assert(cudaErrorInvalidResourceHandle == 400 && cudaErrorInvalidDevice == 101, "cudaError");
_Static_assert(cudaErrorHostMemoryNotRegistered == 713, "cudaError");
_Static_assert(CUDA_ERROR_OUT_OF_MEMORY == 2 && CUDA_ERROR_NOT_READY == 600, "CUresult");
_Static_assert(cudaMemcpyOperandTypePointer == 1 && CU_MEMCPY_OPERAND_TYPE_POINTER == 1, "operand");
_Static_assert(CU_MEMORYTYPE_HOST == 1 && CU_MEMORYTYPE_UNIFIED == 4, "CUmemorytype");

SIZE(ncclUniqueId, 128);
SIZE(ncclSimInfo_t, 24);
SIZE(ncclConfig_t, 80);
AT(ncclConfig_t, netName, 32);
AT(ncclConfig_t, commName, 48);
AT(ncclConfig_t, nvlinkCentricSched, 76);
_Static_assert(ncclInvalidArgument == 4 && ncclInProgress == 7, "ncclResult_t");
_Static_assert(ncclBfloat16 == 9 && ncclFloat8e5m2 == 11 && ncclNumTypes == 12, "ncclDataType_t");
_Static_assert(ncclAvg == 4 && ncclNumOps == 5 && NCCL_VERSION_CODE == 22809, "NCCL");

#undef AT
#undef SIZE
