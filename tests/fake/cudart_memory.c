/* Allocations, copies and memsets of the runtime's stand-in. They stay inside the runtime: the real
 * ones do not pass the entries that the driver exports either. */
#include "cudart.h"

#define PITCH 512

cudaError_t fake_rt_give(enum fake_kind kind, uint64_t bytes, void **ret_ptr)
{
	uint64_t address;
	int r;

	if (!ret_ptr)
		return fake_rt_end(cudaErrorInvalidValue);
	r = fake_alloc(kind, bytes, &address);
	if (r == FAKE_OK)
		*ret_ptr = (void *)address;
	return fake_rt_end(r);
}

/* Freeing nothing is allowed. */
cudaError_t fake_rt_take(unsigned kinds, const void *ptr)
{
	return fake_rt_end(ptr ? fake_free(kinds, (uint64_t)ptr) : FAKE_OK);
}

RT(cudaMalloc, (void **devPtr, size_t size))
{
	fake_begin(__func__, FAKE_COST_ALLOC, size);
	return fake_rt_give(FAKE_DEVICE, size, devPtr);
}

RT_PTSZ(cudaMallocAsync, (void **devPtr, size_t size, cudaStream_t hStream),
	(devPtr, size, hStream))
{
	fake_begin(__func__, FAKE_COST_ALLOC_ASYNC, size);
	return fake_rt_give(FAKE_DEVICE, size, devPtr);
}

RT_PTSZ(cudaMallocFromPoolAsync,
	(void **ptr, size_t size, cudaMemPool_t memPool, cudaStream_t stream),
	(ptr, size, memPool, stream))
{
	fake_begin(__func__, FAKE_COST_ALLOC_ASYNC, size);
	return fake_rt_give(FAKE_DEVICE, size, ptr);
}

RT(cudaMallocManaged, (void **devPtr, size_t size, unsigned int flags))
{
	fake_begin(__func__, FAKE_COST_ALLOC, size);
	if (flags != 1 && flags != 2) /* cudaMemAttachGlobal, cudaMemAttachHost */
		return fake_rt_end(cudaErrorInvalidValue);
	return fake_rt_give(FAKE_DEVICE, size, devPtr);
}

RT(cudaMallocHost, (void **ptr, size_t size))
{
	fake_begin(__func__, FAKE_COST_ALLOC, size);
	return fake_rt_give(FAKE_HOST, size, ptr);
}

RT(cudaHostAlloc, (void **pHost, size_t size, unsigned int flags))
{
	fake_begin(__func__, FAKE_COST_ALLOC, size);
	if (flags & ~7u)
		return fake_rt_end(cudaErrorInvalidValue);
	return fake_rt_give(FAKE_HOST, size, pHost);
}

RT(cudaHostRegister, (void *ptr, size_t size, unsigned int flags))
{
	fake_begin(__func__, FAKE_COST_ALLOC, size);
	return fake_rt_end(fake_register((uint64_t)ptr, size));
}

RT(cudaMallocPitch, (void **devPtr, size_t *pitch, size_t width, size_t height))
{
	size_t padded = (width + PITCH - 1) / PITCH * PITCH;
	cudaError_t r;

	fake_begin(__func__, FAKE_COST_ALLOC, padded * height);
	if (!pitch)
		return fake_rt_end(cudaErrorInvalidValue);
	r = fake_rt_give(FAKE_DEVICE, padded * height, devPtr);
	if (r == cudaSuccess)
		*pitch = padded;
	return r;
}

RT(cudaMalloc3D, (struct cudaPitchedPtr * pitchedDevPtr, struct cudaExtent extent))
{
	size_t padded = (extent.width + PITCH - 1) / PITCH * PITCH;
	uint64_t bytes = padded * extent.height * extent.depth;
	cudaError_t r;
	void *ptr = NULL;

	fake_begin(__func__, FAKE_COST_ALLOC, bytes);
	if (!pitchedDevPtr)
		return fake_rt_end(cudaErrorInvalidValue);
	r = fake_rt_give(FAKE_DEVICE, bytes, &ptr);
	if (r == cudaSuccess)
		*pitchedDevPtr = (struct cudaPitchedPtr){ptr, padded, extent.width, extent.height};
	return r;
}

RT(cudaMallocArray, (cudaArray_t * array, const struct cudaChannelFormatDesc *desc, size_t width,
		     size_t height, unsigned int flags))
{
	uint64_t bytes;

	fake_begin(__func__, FAKE_COST_ALLOC, width);
	if (!desc)
		return fake_rt_end(cudaErrorInvalidValue);
	bytes = (uint64_t)(desc->x + desc->y + desc->z + desc->w) / 8 * width *
		(height ? height : 1);
	return fake_rt_give(FAKE_ARRAY, bytes, (void **)array);
}

RT(cudaFree, (void *devPtr))
{
	fake_begin(__func__, FAKE_COST_ALLOC, 0);
	return fake_rt_take(FAKE_DEVICE, devPtr);
}

RT_PTSZ(cudaFreeAsync, (void *devPtr, cudaStream_t hStream), (devPtr, hStream))
{
	fake_begin(__func__, FAKE_COST_ALLOC_ASYNC, 0);
	return fake_rt_take(FAKE_DEVICE, devPtr);
}

RT(cudaFreeHost, (void *ptr))
{
	fake_begin(__func__, FAKE_COST_ALLOC, 0);
	return fake_rt_take(FAKE_HOST, ptr);
}

RT(cudaHostUnregister, (void *ptr))
{
	fake_begin(__func__, FAKE_COST_ALLOC, 0);
	return fake_rt_end(fake_free(FAKE_REGISTERED, (uint64_t)ptr));
}

RT(cudaFreeArray, (cudaArray_t array))
{
	fake_begin(__func__, FAKE_COST_ALLOC, 0);
	return fake_rt_take(FAKE_ARRAY, array);
}

cudaError_t fake_rt_copied(const void *dst, const void *src, uint64_t bytes,
			   enum cudaMemcpyKind kind)
{
	if ((unsigned)kind > cudaMemcpyDefault)
		return fake_rt_end(cudaErrorInvalidMemcpyDirection);
	return fake_rt_end(bytes && (!dst || !src) ? cudaErrorInvalidValue : cudaSuccess);
}

/* Rows must not be longer than the distance between them; arrays have none. */
static cudaError_t copied_rows(const void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
			       size_t width, size_t height, enum cudaMemcpyKind kind)
{
	if (width > dst_pitch || width > src_pitch)
		return fake_rt_end(cudaErrorInvalidPitchValue);
	return fake_rt_copied(dst, src, width * height, kind);
}

RT_PTDS(cudaMemcpy, (void *dst, const void *src, size_t count, enum cudaMemcpyKind kind),
	(dst, src, count, kind))
{
	fake_begin(__func__, FAKE_COST_COPY, count);
	return fake_rt_copied(dst, src, count, kind);
}

RT_PTSZ(cudaMemcpyAsync,
	(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind, cudaStream_t stream),
	(dst, src, count, kind, stream))
{
	fake_begin(__func__, FAKE_COST_COPY_ASYNC, count);
	return fake_rt_copied(dst, src, count, kind);
}

RT(cudaMemcpyPeer, (void *dst, int dstDevice, const void *src, int srcDevice, size_t count))
{
	fake_begin(__func__, FAKE_COST_COPY, count);
	return fake_rt_copied(dst, src, count, cudaMemcpyDeviceToDevice);
}

RT(cudaMemcpyPeerAsync,
   (void *dst, int dstDevice, const void *src, int srcDevice, size_t count, cudaStream_t stream))
{
	fake_begin(__func__, FAKE_COST_COPY_ASYNC, count);
	return fake_rt_copied(dst, src, count, cudaMemcpyDeviceToDevice);
}

RT_PTDS(cudaMemcpy2D,
	(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
	 enum cudaMemcpyKind kind),
	(dst, dpitch, src, spitch, width, height, kind))
{
	fake_begin(__func__, FAKE_COST_COPY, width * height);
	return copied_rows(dst, dpitch, src, spitch, width, height, kind);
}

RT_PTSZ(cudaMemcpy2DAsync,
	(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
	 enum cudaMemcpyKind kind, cudaStream_t stream),
	(dst, dpitch, src, spitch, width, height, kind, stream))
{
	fake_begin(__func__, FAKE_COST_COPY_ASYNC, width * height);
	return copied_rows(dst, dpitch, src, spitch, width, height, kind);
}

static cudaError_t copied_box(const struct cudaMemcpy3DParms *p)
{
	if (!p)
		return fake_rt_end(cudaErrorInvalidValue);
	return fake_rt_copied(p->dstArray ? (const void *)p->dstArray : p->dstPtr.ptr,
			      p->srcArray ? (const void *)p->srcArray : p->srcPtr.ptr,
			      p->extent.width * p->extent.height * p->extent.depth, p->kind);
}

RT_PTDS(cudaMemcpy3D, (const struct cudaMemcpy3DParms *p), (p))
{
	fake_begin(__func__, FAKE_COST_COPY, 0);
	return copied_box(p);
}

RT_PTSZ(cudaMemcpy3DAsync, (const struct cudaMemcpy3DParms *p, cudaStream_t stream), (p, stream))
{
	fake_begin(__func__, FAKE_COST_COPY_ASYNC, 0);
	return copied_box(p);
}

RT_PTDS(cudaMemcpyToSymbol,
	(const void *symbol, const void *src, size_t count, size_t offset,
	 enum cudaMemcpyKind kind),
	(symbol, src, count, offset, kind))
{
	fake_begin(__func__, FAKE_COST_COPY, count);
	return fake_rt_copied(symbol, src, count, kind);
}

RT_PTSZ(cudaMemcpyToSymbolAsync,
	(const void *symbol, const void *src, size_t count, size_t offset, enum cudaMemcpyKind kind,
	 cudaStream_t stream),
	(symbol, src, count, offset, kind, stream))
{
	fake_begin(__func__, FAKE_COST_COPY_ASYNC, count);
	return fake_rt_copied(symbol, src, count, kind);
}

RT_PTDS(cudaMemcpyFromSymbol,
	(void *dst, const void *symbol, size_t count, size_t offset, enum cudaMemcpyKind kind),
	(dst, symbol, count, offset, kind))
{
	fake_begin(__func__, FAKE_COST_COPY, count);
	return fake_rt_copied(dst, symbol, count, kind);
}

RT_PTSZ(cudaMemcpyFromSymbolAsync,
	(void *dst, const void *symbol, size_t count, size_t offset, enum cudaMemcpyKind kind,
	 cudaStream_t stream),
	(dst, symbol, count, offset, kind, stream))
{
	fake_begin(__func__, FAKE_COST_COPY_ASYNC, count);
	return fake_rt_copied(dst, symbol, count, kind);
}

RT_PTDS(cudaMemcpy2DToArray,
	(cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src, size_t spitch,
	 size_t width, size_t height, enum cudaMemcpyKind kind),
	(dst, wOffset, hOffset, src, spitch, width, height, kind))
{
	fake_begin(__func__, FAKE_COST_COPY, width * height);
	return copied_rows(dst, width, src, spitch, width, height, kind);
}

RT_PTSZ(cudaMemcpy2DToArrayAsync,
	(cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src, size_t spitch,
	 size_t width, size_t height, enum cudaMemcpyKind kind, cudaStream_t stream),
	(dst, wOffset, hOffset, src, spitch, width, height, kind, stream))
{
	fake_begin(__func__, FAKE_COST_COPY_ASYNC, width * height);
	return copied_rows(dst, width, src, spitch, width, height, kind);
}

RT_PTDS(cudaMemcpy2DFromArray,
	(void *dst, size_t dpitch, cudaArray_const_t src, size_t wOffset, size_t hOffset,
	 size_t width, size_t height, enum cudaMemcpyKind kind),
	(dst, dpitch, src, wOffset, hOffset, width, height, kind))
{
	fake_begin(__func__, FAKE_COST_COPY, width * height);
	return copied_rows(dst, dpitch, src, width, width, height, kind);
}

RT_PTSZ(cudaMemcpy2DFromArrayAsync,
	(void *dst, size_t dpitch, cudaArray_const_t src, size_t wOffset, size_t hOffset,
	 size_t width, size_t height, enum cudaMemcpyKind kind, cudaStream_t stream),
	(dst, dpitch, src, wOffset, hOffset, width, height, kind, stream))
{
	fake_begin(__func__, FAKE_COST_COPY_ASYNC, width * height);
	return copied_rows(dst, dpitch, src, width, width, height, kind);
}

static cudaError_t filled(const void *ptr, uint64_t bytes)
{
	return fake_rt_end(bytes && !ptr ? cudaErrorInvalidValue : cudaSuccess);
}

RT_PTDS(cudaMemset, (void *devPtr, int value, size_t count), (devPtr, value, count))
{
	fake_begin(__func__, FAKE_COST_COPY_ASYNC, count);
	return filled(devPtr, count);
}

RT_PTSZ(cudaMemsetAsync, (void *devPtr, int value, size_t count, cudaStream_t stream),
	(devPtr, value, count, stream))
{
	fake_begin(__func__, FAKE_COST_COPY_ASYNC, count);
	return filled(devPtr, count);
}

static cudaError_t filled_rows(const void *ptr, size_t pitch, size_t width, uint64_t bytes)
{
	return width > pitch ? fake_rt_end(cudaErrorInvalidPitchValue) : filled(ptr, bytes);
}

RT_PTDS(cudaMemset2D, (void *devPtr, size_t pitch, int value, size_t width, size_t height),
	(devPtr, pitch, value, width, height))
{
	fake_begin(__func__, FAKE_COST_COPY_ASYNC, width * height);
	return filled_rows(devPtr, pitch, width, width * height);
}

RT_PTSZ(cudaMemset2DAsync,
	(void *devPtr, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream),
	(devPtr, pitch, value, width, height, stream))
{
	fake_begin(__func__, FAKE_COST_COPY_ASYNC, width * height);
	return filled_rows(devPtr, pitch, width, width * height);
}

RT_PTDS(cudaMemset3D, (struct cudaPitchedPtr pitchedDevPtr, int value, struct cudaExtent extent),
	(pitchedDevPtr, value, extent))
{
	fake_begin(__func__, FAKE_COST_COPY_ASYNC, 0);
	return filled_rows(pitchedDevPtr.ptr, pitchedDevPtr.pitch, extent.width,
			   extent.width * extent.height * extent.depth);
}

RT_PTSZ(cudaMemset3DAsync,
	(struct cudaPitchedPtr pitchedDevPtr, int value, struct cudaExtent extent,
	 cudaStream_t stream),
	(pitchedDevPtr, value, extent, stream))
{
	fake_begin(__func__, FAKE_COST_COPY_ASYNC, 0);
	return filled_rows(pitchedDevPtr.ptr, pitchedDevPtr.pitch, extent.width,
			   extent.width * extent.height * extent.depth);
}
