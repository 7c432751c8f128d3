/* Copies from and to arrays, batches, peers, prefetches and memory of other processes, of the
 * driver's stand-in. */
#include "cuda_drv.h"

#define IPC_BYTES (2ull << 20)

static CUresult open_memory(CUdeviceptr *ret_ptr, const CUipcMemHandle *handle)
{
	if (!handle->reserved[0])
		return CUDA_ERROR_INVALID_VALUE;
	return fake_drv_give(FAKE_RANGE, IPC_BYTES, (uint64_t *)ret_ptr);
}

DRV(cuIpcOpenMemHandle, (CUdeviceptr * pdptr, CUipcMemHandle handle, unsigned int Flags))
{
	fake_begin(__func__, FAKE_COST_ALLOC, 0);
	return open_memory(pdptr, &handle);
}

DRV(cuIpcOpenMemHandle_v2, (CUdeviceptr * pdptr, CUipcMemHandle handle, unsigned int Flags))
{
	fake_begin(__func__, FAKE_COST_ALLOC, 0);
	return open_memory(pdptr, &handle);
}

DRV(cuIpcCloseMemHandle, (CUdeviceptr dptr))
{
	fake_begin(__func__, FAKE_COST_ALLOC, 0);
	return (CUresult)fake_free(FAKE_RANGE, dptr);
}

/* A copy between two sides, of which the first is the destination; both are addresses here. */
#define COPY(name, define, cost, dst, src, params, args)                                           \
	define(name, params, args)                                                                 \
	{                                                                                          \
		fake_begin(__func__, cost, ByteCount);                                             \
		return fake_drv_copied((uint64_t)dst, (uint64_t)src, ByteCount);                   \
	}

COPY(cuMemcpyAtoH_v2, DRV_PTDS, FAKE_COST_COPY, dstHost, srcArray,
     (void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount),
     (dstHost, srcArray, srcOffset, ByteCount))
COPY(cuMemcpyAtoHAsync_v2, DRV_PTSZ, FAKE_COST_COPY_ASYNC, dstHost, srcArray,
     (void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount, CUstream hStream),
     (dstHost, srcArray, srcOffset, ByteCount, hStream))
COPY(cuMemcpyHtoA_v2, DRV_PTDS, FAKE_COST_COPY, dstArray, srcHost,
     (CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount),
     (dstArray, dstOffset, srcHost, ByteCount))
COPY(cuMemcpyHtoAAsync_v2, DRV_PTSZ, FAKE_COST_COPY_ASYNC, dstArray, srcHost,
     (CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount, CUstream hStream),
     (dstArray, dstOffset, srcHost, ByteCount, hStream))
COPY(cuMemcpyAtoD_v2, DRV_PTDS, FAKE_COST_COPY, dstDevice, srcArray,
     (CUdeviceptr dstDevice, CUarray srcArray, size_t srcOffset, size_t ByteCount),
     (dstDevice, srcArray, srcOffset, ByteCount))
COPY(cuMemcpyDtoA_v2, DRV_PTDS, FAKE_COST_COPY, dstArray, srcDevice,
     (CUarray dstArray, size_t dstOffset, CUdeviceptr srcDevice, size_t ByteCount),
     (dstArray, dstOffset, srcDevice, ByteCount))
COPY(cuMemcpyAtoA_v2, DRV_PTDS, FAKE_COST_COPY, dstArray, srcArray,
     (CUarray dstArray, size_t dstOffset, CUarray srcArray, size_t srcOffset, size_t ByteCount),
     (dstArray, dstOffset, srcArray, srcOffset, ByteCount))

static CUresult copied_to_peer(const CUDA_MEMCPY3D_PEER *p)
{
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	return fake_drv_copied(
		fake_drv_side(p->dstMemoryType, p->dstHost, p->dstDevice, p->dstArray),
		fake_drv_side(p->srcMemoryType, p->srcHost, p->srcDevice, p->srcArray),
		p->WidthInBytes * p->Height * p->Depth);
}

DRV_PTDS(cuMemcpy3DPeer, (const CUDA_MEMCPY3D_PEER *pCopy), (pCopy))
{
	fake_begin(__func__, FAKE_COST_COPY, 0);
	return copied_to_peer(pCopy);
}

DRV_PTSZ(cuMemcpy3DPeerAsync, (const CUDA_MEMCPY3D_PEER *pCopy, CUstream hStream), (pCopy, hStream))
{
	fake_begin(__func__, FAKE_COST_COPY_ASYNC, 0);
	return copied_to_peer(pCopy);
}

static CUresult copied_all(const CUdeviceptr *dsts, const CUdeviceptr *srcs, const size_t *sizes,
			   size_t count)
{
	if (!dsts || !srcs || !sizes || !count)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++)
		if (!dsts[i] || !srcs[i] || !sizes[i])
			return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

DRV_PTSZ(cuMemcpyBatchAsync,
	 (CUdeviceptr * dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
	  CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, size_t *failIdx,
	  CUstream hStream),
	 (dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, failIdx, hStream))
{
	fake_begin(__func__, FAKE_COST_COPY_ASYNC, 0);
	return copied_all(dsts, srcs, sizes, count);
}

DRV_PTSZ(cuMemcpyBatchAsync_v2,
	 (CUdeviceptr * dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
	  CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, CUstream hStream),
	 (dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, hStream))
{
	fake_begin(__func__, FAKE_COST_COPY_ASYNC, 0);
	return copied_all(dsts, srcs, sizes, count);
}

static CUresult copied_boxes(const CUDA_MEMCPY3D_BATCH_OP *ops, size_t n)
{
	if (!n || !ops)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < n; i++)
		if (!ops[i].dst.op.ptr.ptr || !ops[i].src.op.ptr.ptr)
			return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

DRV_PTSZ(cuMemcpy3DBatchAsync,
	 (size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList, size_t *failIdx, unsigned long long flags,
	  CUstream hStream),
	 (numOps, opList, failIdx, flags, hStream))
{
	fake_begin(__func__, FAKE_COST_COPY_ASYNC, 0);
	return copied_boxes(opList, numOps);
}

DRV_PTSZ(cuMemcpy3DBatchAsync_v2,
	 (size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList, unsigned long long flags,
	  CUstream hStream),
	 (numOps, opList, flags, hStream))
{
	fake_begin(__func__, FAKE_COST_COPY_ASYNC, 0);
	return copied_boxes(opList, numOps);
}

DRV_PTSZ(cuMemPrefetchAsync,
	 (CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream),
	 (devPtr, count, dstDevice, hStream))
{
	fake_begin(__func__, FAKE_COST_COPY_ASYNC, 0);
	return devPtr && count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

DRV_PTSZ(cuMemPrefetchAsync_v2,
	 (CUdeviceptr devPtr, size_t count, CUmemLocation location, unsigned int flags,
	  CUstream hStream),
	 (devPtr, count, location, flags, hStream))
{
	fake_begin(__func__, FAKE_COST_COPY_ASYNC, 0);
	return devPtr && count && !flags ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

DRV_PTSZ(cuMemPrefetchBatchAsync,
	 (CUdeviceptr * dptrs, size_t *sizes, size_t count, CUmemLocation *prefetchLocs,
	  size_t *prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags,
	  CUstream hStream),
	 (dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags, hStream))
{
	fake_begin(__func__, FAKE_COST_COPY_ASYNC, 0);
	return dptrs && sizes && count && !flags ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
