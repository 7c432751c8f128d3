/* Arrays, copies between them, batches, peers, prefetches and memory of other processes, of the
 * runtime's stand-in. */
#include "cudart.h"

#define IPC_BYTES (2ull << 20)
#define LAYERED   1u /* cudaArrayLayered: the depth counts layers */

static uint64_t level_bytes(const struct cudaChannelFormatDesc *desc, struct cudaExtent e)
{
	return (uint64_t)(desc->x + desc->y + desc->z + desc->w) / 8 * e.width *
	       (e.height ? e.height : 1) * (e.depth ? e.depth : 1);
}

static size_t half(size_t n)
{
	return n > 1 ? n / 2 : n;
}

RT(cudaMalloc3DArray, (cudaArray_t * array, const struct cudaChannelFormatDesc *desc,
		       struct cudaExtent extent, unsigned int flags))
{
	fake_begin(__func__, FAKE_COST_ALLOC, 0);
	if (!desc || !extent.width)
		return fake_rt_end(cudaErrorInvalidValue);
	return fake_rt_give(FAKE_ARRAY, level_bytes(desc, extent), (void **)array);
}

RT(cudaMallocMipmappedArray,
   (cudaMipmappedArray_t * mipmappedArray, const struct cudaChannelFormatDesc *desc,
    struct cudaExtent extent, unsigned int numLevels, unsigned int flags))
{
	uint64_t bytes = 0;

	fake_begin(__func__, FAKE_COST_ALLOC, 0);
	if (!desc || !extent.width || !numLevels)
		return fake_rt_end(cudaErrorInvalidValue);
	for (unsigned int i = 0; i < numLevels && i < 32; i++) {
		bytes += level_bytes(desc, extent);
		extent.width = half(extent.width);
		extent.height = half(extent.height);
		if (!(flags & LAYERED))
			extent.depth = half(extent.depth);
	}
	return fake_rt_give(FAKE_ARRAY, bytes, (void **)mipmappedArray);
}

RT(cudaFreeMipmappedArray, (cudaMipmappedArray_t mipmappedArray))
{
	fake_begin(__func__, FAKE_COST_ALLOC, 0);
	return fake_rt_take(FAKE_ARRAY, mipmappedArray);
}

RT(cudaIpcOpenMemHandle, (void **devPtr, cudaIpcMemHandle_t handle, unsigned int flags))
{
	fake_begin(__func__, FAKE_COST_ALLOC, 0);
	if (!handle.reserved[0])
		return fake_rt_end(cudaErrorInvalidValue);
	return fake_rt_give(FAKE_RANGE, IPC_BYTES, devPtr);
}

RT(cudaIpcCloseMemHandle, (void *devPtr))
{
	fake_begin(__func__, FAKE_COST_ALLOC, 0);
	return fake_rt_end(fake_free(FAKE_RANGE, (uint64_t)devPtr));
}

RT_PTDS(cudaMemcpyToArray,
	(cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src, size_t count,
	 enum cudaMemcpyKind kind),
	(dst, wOffset, hOffset, src, count, kind))
{
	fake_begin(__func__, FAKE_COST_COPY, count);
	return fake_rt_copied(dst, src, count, kind);
}

RT_PTSZ(cudaMemcpyToArrayAsync,
	(cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src, size_t count,
	 enum cudaMemcpyKind kind, cudaStream_t stream),
	(dst, wOffset, hOffset, src, count, kind, stream))
{
	fake_begin(__func__, FAKE_COST_COPY_ASYNC, count);
	return fake_rt_copied(dst, src, count, kind);
}

RT_PTDS(cudaMemcpyFromArray,
	(void *dst, cudaArray_const_t src, size_t wOffset, size_t hOffset, size_t count,
	 enum cudaMemcpyKind kind),
	(dst, src, wOffset, hOffset, count, kind))
{
	fake_begin(__func__, FAKE_COST_COPY, count);
	return fake_rt_copied(dst, src, count, kind);
}

RT_PTSZ(cudaMemcpyFromArrayAsync,
	(void *dst, cudaArray_const_t src, size_t wOffset, size_t hOffset, size_t count,
	 enum cudaMemcpyKind kind, cudaStream_t stream),
	(dst, src, wOffset, hOffset, count, kind, stream))
{
	fake_begin(__func__, FAKE_COST_COPY_ASYNC, count);
	return fake_rt_copied(dst, src, count, kind);
}

RT_PTDS(cudaMemcpyArrayToArray,
	(cudaArray_t dst, size_t wOffsetDst, size_t hOffsetDst, cudaArray_const_t src,
	 size_t wOffsetSrc, size_t hOffsetSrc, size_t count, enum cudaMemcpyKind kind),
	(dst, wOffsetDst, hOffsetDst, src, wOffsetSrc, hOffsetSrc, count, kind))
{
	fake_begin(__func__, FAKE_COST_COPY_ASYNC, count);
	return fake_rt_copied(dst, src, count, kind);
}

RT_PTDS(cudaMemcpy2DArrayToArray,
	(cudaArray_t dst, size_t wOffsetDst, size_t hOffsetDst, cudaArray_const_t src,
	 size_t wOffsetSrc, size_t hOffsetSrc, size_t width, size_t height,
	 enum cudaMemcpyKind kind),
	(dst, wOffsetDst, hOffsetDst, src, wOffsetSrc, hOffsetSrc, width, height, kind))
{
	fake_begin(__func__, FAKE_COST_COPY_ASYNC, width * height);
	return fake_rt_copied(dst, src, width * height, kind);
}

static cudaError_t copied_to_peer(const struct cudaMemcpy3DPeerParms *p)
{
	if (!p)
		return fake_rt_end(cudaErrorInvalidValue);
	return fake_rt_copied(p->dstArray ? (const void *)p->dstArray : p->dstPtr.ptr,
			      p->srcArray ? (const void *)p->srcArray : p->srcPtr.ptr,
			      p->extent.width * p->extent.height * p->extent.depth,
			      cudaMemcpyDeviceToDevice);
}

RT_PTDS(cudaMemcpy3DPeer, (const struct cudaMemcpy3DPeerParms *p), (p))
{
	fake_begin(__func__, FAKE_COST_COPY, 0);
	return copied_to_peer(p);
}

RT_PTSZ(cudaMemcpy3DPeerAsync, (const struct cudaMemcpy3DPeerParms *p, cudaStream_t stream),
	(p, stream))
{
	fake_begin(__func__, FAKE_COST_COPY_ASYNC, 0);
	return copied_to_peer(p);
}

RT_PTSZ(cudaMemcpyBatchAsync,
	(void *const *dsts, const void *const *srcs, const size_t *sizes, size_t count,
	 struct cudaMemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs,
	 cudaStream_t stream),
	(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, stream))
{
	fake_begin(__func__, FAKE_COST_COPY_ASYNC, 0);
	if (!dsts || !srcs || !sizes || !count)
		return fake_rt_end(cudaErrorInvalidValue);
	for (size_t i = 0; i < count; i++)
		if (!dsts[i] || !srcs[i] || !sizes[i])
			return fake_rt_end(cudaErrorInvalidValue);
	return fake_rt_end(cudaSuccess);
}

RT_PTSZ(cudaMemcpy3DBatchAsync,
	(size_t numOps, struct cudaMemcpy3DBatchOp *opList, unsigned long long flags,
	 cudaStream_t stream),
	(numOps, opList, flags, stream))
{
	fake_begin(__func__, FAKE_COST_COPY_ASYNC, 0);
	if (!numOps || !opList || flags)
		return fake_rt_end(cudaErrorInvalidValue);
	for (size_t i = 0; i < numOps; i++)
		if (!opList[i].dst.op.ptr.ptr || !opList[i].src.op.ptr.ptr)
			return fake_rt_end(cudaErrorInvalidValue);
	return fake_rt_end(cudaSuccess);
}

RT_PTSZ(cudaMemPrefetchAsync,
	(const void *devPtr, size_t count, struct cudaMemLocation location, unsigned int flags,
	 cudaStream_t stream),
	(devPtr, count, location, flags, stream))
{
	fake_begin(__func__, FAKE_COST_COPY_ASYNC, 0);
	return fake_rt_end(!devPtr || !count || flags ? cudaErrorInvalidValue : cudaSuccess);
}

RT_PTSZ(cudaMemPrefetchBatchAsync,
	(void **dptrs, size_t *sizes, size_t count, struct cudaMemLocation *prefetchLocs,
	 size_t *prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags,
	 cudaStream_t stream),
	(dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags, stream))
{
	fake_begin(__func__, FAKE_COST_COPY_ASYNC, 0);
	return fake_rt_end(!dptrs || !sizes || !count || flags ? cudaErrorInvalidValue
							       : cudaSuccess);
}
