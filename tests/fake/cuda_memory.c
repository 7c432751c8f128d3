/* Allocations, addresses, copies and memsets of the driver's stand-in. */
#include <pthread.h>

#include "cuda_drv.h"

#define PITCH   512
#define GRANULE (2ull << 20) /* of cuMemCreate and cuMemAddressReserve */

CUresult fake_drv_give(enum fake_kind kind, uint64_t bytes, uint64_t *ret_address)
{
	uint64_t address;
	int r;

	if (!ret_address || !bytes)
		return CUDA_ERROR_INVALID_VALUE;
	r = fake_alloc(kind, bytes, &address);
	if (r == FAKE_OK)
		*ret_address = address;
	return (CUresult)r;
}

static CUresult give_ptr(enum fake_kind kind, uint64_t bytes, CUdeviceptr *ret_ptr)
{
	return fake_drv_give(kind, bytes, (uint64_t *)ret_ptr);
}

/* Freeing nothing is allowed. */
CUresult fake_drv_take(unsigned kinds, uint64_t address)
{
	return address ? (CUresult)fake_free(kinds, address) : CUDA_SUCCESS;
}

DRV(cuMemAlloc, (CUdeviceptr_v1 * dptr, unsigned int bytesize))
{
	uint64_t address;
	CUresult r;

	fake_begin(__func__, FAKE_COST_ALLOC, bytesize);
	if (!dptr)
		return CUDA_ERROR_INVALID_VALUE;
	r = fake_drv_give(FAKE_DEVICE32, bytesize, &address);
	if (r == CUDA_SUCCESS)
		*dptr = (CUdeviceptr_v1)address;
	return r;
}

DRV(cuMemAlloc_v2, (CUdeviceptr * dptr, size_t bytesize))
{
	fake_begin(__func__, FAKE_COST_ALLOC, bytesize);
	return give_ptr(FAKE_DEVICE, bytesize, dptr);
}

DRV(cuMemAllocPitch_v2, (CUdeviceptr * dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
			 unsigned int ElementSizeBytes))
{
	size_t padded = (WidthInBytes + PITCH - 1) / PITCH * PITCH;
	CUresult r;

	fake_begin(__func__, FAKE_COST_ALLOC, padded * Height);
	if (!pPitch || (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16))
		return CUDA_ERROR_INVALID_VALUE;
	r = give_ptr(FAKE_DEVICE, padded * Height, dptr);
	if (r == CUDA_SUCCESS)
		*pPitch = padded;
	return r;
}

DRV(cuMemAllocManaged, (CUdeviceptr * dptr, size_t bytesize, unsigned int flags))
{
	fake_begin(__func__, FAKE_COST_ALLOC, bytesize);
	if (flags != 1 && flags != 2) /* CU_MEM_ATTACH_GLOBAL, CU_MEM_ATTACH_HOST */
		return CUDA_ERROR_INVALID_VALUE;
	return give_ptr(FAKE_DEVICE, bytesize, dptr);
}

DRV(cuMemAllocHost, (void **pp, unsigned int bytesize))
{
	fake_begin(__func__, FAKE_COST_ALLOC, bytesize);
	return fake_drv_give(FAKE_HOST, bytesize, (uint64_t *)pp);
}

DRV(cuMemAllocHost_v2, (void **pp, size_t bytesize))
{
	fake_begin(__func__, FAKE_COST_ALLOC, bytesize);
	return fake_drv_give(FAKE_HOST, bytesize, (uint64_t *)pp);
}

DRV(cuMemHostAlloc, (void **pp, size_t bytesize, unsigned int Flags))
{
	fake_begin(__func__, FAKE_COST_ALLOC, bytesize);
	return Flags & ~7u ? CUDA_ERROR_INVALID_VALUE
			   : fake_drv_give(FAKE_HOST, bytesize, (uint64_t *)pp);
}

DRV(cuMemHostRegister_v2, (void *p, size_t bytesize, unsigned int Flags))
{
	fake_begin(__func__, FAKE_COST_ALLOC, bytesize);
	return (CUresult)fake_register((uint64_t)p, bytesize);
}

DRV_PTSZ(cuMemAllocAsync, (CUdeviceptr * dptr, size_t bytesize, CUstream hStream),
	 (dptr, bytesize, hStream))
{
	fake_begin(__func__, FAKE_COST_ALLOC_ASYNC, bytesize);
	return give_ptr(FAKE_DEVICE, bytesize, dptr);
}

DRV_PTSZ(cuMemAllocFromPoolAsync,
	 (CUdeviceptr * dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream),
	 (dptr, bytesize, pool, hStream))
{
	fake_begin(__func__, FAKE_COST_ALLOC_ASYNC, bytesize);
	return give_ptr(FAKE_DEVICE, bytesize, dptr);
}

DRV(cuMemCreate, (CUmemGenericAllocationHandle * handle, size_t size,
		  const CUmemAllocationProp *prop, unsigned long long flags))
{
	fake_begin(__func__, FAKE_COST_ALLOC, size);
	if (!prop || flags || size % GRANULE)
		return CUDA_ERROR_INVALID_VALUE;
	return give_ptr(FAKE_PHYSICAL, size, handle);
}

DRV(cuMemAddressReserve,
    (CUdeviceptr * ptr, size_t size, size_t alignment, CUdeviceptr addr, unsigned long long flags))
{
	fake_begin(__func__, FAKE_COST_ALLOC_ASYNC, size);
	if (flags || size % GRANULE)
		return CUDA_ERROR_INVALID_VALUE;
	return give_ptr(FAKE_RANGE, size, ptr);
}

/* What is mapped where, the newest of those that share a slot. */
#define N_MAPPINGS 1024
static struct {
	pthread_mutex_t lock;
	struct {
		CUdeviceptr at;
		CUmemGenericAllocationHandle handle;
		unsigned n_retained;
	} slots[N_MAPPINGS];
} mappings = {.lock = PTHREAD_MUTEX_INITIALIZER};

DRV(cuMemMap, (CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
	       unsigned long long flags))
{
	unsigned i = ptr / GRANULE % N_MAPPINGS;

	fake_begin(__func__, FAKE_COST_ALLOC_ASYNC, size);
	if (!ptr || !size || !handle || flags)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&mappings.lock);
	mappings.slots[i].at = ptr;
	mappings.slots[i].handle = handle;
	mappings.slots[i].n_retained = 0;
	pthread_mutex_unlock(&mappings.lock);
	return CUDA_SUCCESS;
}

/* Of an address that nothing is mapped at, one that was made elsewhere. */
DRV(cuMemRetainAllocationHandle, (CUmemGenericAllocationHandle * handle, void *addr))
{
	unsigned i = (CUdeviceptr)addr / GRANULE % N_MAPPINGS;

	fake_begin(__func__, FAKE_COST_ALLOC, 0);
	if (!handle || !addr)
		return CUDA_ERROR_INVALID_VALUE;
	*handle = (CUdeviceptr)addr | 1;
	pthread_mutex_lock(&mappings.lock);
	if (mappings.slots[i].at == (CUdeviceptr)addr) {
		mappings.slots[i].n_retained++;
		*handle = mappings.slots[i].handle;
	}
	pthread_mutex_unlock(&mappings.lock);
	return CUDA_SUCCESS;
}

/* One reference less of those that were retained; false: it has none. */
static int release_retained(CUmemGenericAllocationHandle handle)
{
	int found = 0;

	pthread_mutex_lock(&mappings.lock);
	for (unsigned i = 0; i < N_MAPPINGS && !found; i++)
		if (mappings.slots[i].n_retained && mappings.slots[i].handle == handle) {
			mappings.slots[i].n_retained--;
			found = 1;
		}
	pthread_mutex_unlock(&mappings.lock);
	return found;
}

DRV(cuMemSetAccess, (CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count))
{
	fake_begin(__func__, FAKE_COST_ALLOC_ASYNC, size);
	return ptr && size && desc && count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

DRV(cuMemUnmap, (CUdeviceptr ptr, size_t size))
{
	fake_begin(__func__, FAKE_COST_ALLOC_ASYNC, size);
	return ptr && size ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

DRV(cuMemAddressFree, (CUdeviceptr ptr, size_t size))
{
	fake_begin(__func__, FAKE_COST_ALLOC_ASYNC, size);
	return (CUresult)fake_free(FAKE_RANGE, ptr);
}

DRV(cuMemRelease, (CUmemGenericAllocationHandle handle))
{
	fake_begin(__func__, FAKE_COST_ALLOC, 0);
	if (release_retained(handle))
		return CUDA_SUCCESS;
	return (CUresult)fake_free(FAKE_PHYSICAL, handle);
}

DRV(cuMemFree, (CUdeviceptr_v1 dptr))
{
	fake_begin(__func__, FAKE_COST_ALLOC, 0);
	return fake_drv_take(FAKE_DEVICE32, dptr);
}

DRV(cuMemFree_v2, (CUdeviceptr dptr))
{
	fake_begin(__func__, FAKE_COST_ALLOC, 0);
	return fake_drv_take(FAKE_DEVICE | FAKE_DEVICE32, dptr);
}

DRV(cuMemFreeHost, (void *p))
{
	fake_begin(__func__, FAKE_COST_ALLOC, 0);
	return fake_drv_take(FAKE_HOST, (uint64_t)p);
}

DRV(cuMemHostUnregister, (void *p))
{
	fake_begin(__func__, FAKE_COST_ALLOC, 0);
	return (CUresult)fake_free(FAKE_REGISTERED, (uint64_t)p);
}

DRV_PTSZ(cuMemFreeAsync, (CUdeviceptr dptr, CUstream hStream), (dptr, hStream))
{
	fake_begin(__func__, FAKE_COST_ALLOC_ASYNC, 0);
	return fake_drv_take(FAKE_DEVICE, dptr);
}

CUresult fake_drv_copied(uint64_t dst, uint64_t src, uint64_t bytes)
{
	return bytes && (!dst || !src) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

DRV_PTDS(cuMemcpy, (CUdeviceptr dst, CUdeviceptr src, size_t ByteCount), (dst, src, ByteCount))
{
	fake_begin(__func__, FAKE_COST_COPY, ByteCount);
	return fake_drv_copied(dst, src, ByteCount);
}

DRV_PTSZ(cuMemcpyAsync, (CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream),
	 (dst, src, ByteCount, hStream))
{
	fake_begin(__func__, FAKE_COST_COPY_ASYNC, ByteCount);
	return fake_drv_copied(dst, src, ByteCount);
}

DRV_PTDS(cuMemcpyPeer,
	 (CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext,
	  size_t ByteCount),
	 (dstDevice, dstContext, srcDevice, srcContext, ByteCount))
{
	fake_begin(__func__, FAKE_COST_COPY, ByteCount);
	return fake_drv_copied(dstDevice, srcDevice, ByteCount);
}

DRV_PTSZ(cuMemcpyPeerAsync,
	 (CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext,
	  size_t ByteCount, CUstream hStream),
	 (dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream))
{
	fake_begin(__func__, FAKE_COST_COPY_ASYNC, ByteCount);
	return fake_drv_copied(dstDevice, srcDevice, ByteCount);
}

DRV_PTDS(cuMemcpyHtoD_v2, (CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount),
	 (dstDevice, srcHost, ByteCount))
{
	fake_begin(__func__, FAKE_COST_COPY, ByteCount);
	return fake_drv_copied(dstDevice, (uint64_t)srcHost, ByteCount);
}

DRV_PTSZ(cuMemcpyHtoDAsync_v2,
	 (CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream),
	 (dstDevice, srcHost, ByteCount, hStream))
{
	fake_begin(__func__, FAKE_COST_COPY_ASYNC, ByteCount);
	return fake_drv_copied(dstDevice, (uint64_t)srcHost, ByteCount);
}

DRV_PTDS(cuMemcpyDtoH_v2, (void *dstHost, CUdeviceptr srcDevice, size_t ByteCount),
	 (dstHost, srcDevice, ByteCount))
{
	fake_begin(__func__, FAKE_COST_COPY, ByteCount);
	return fake_drv_copied((uint64_t)dstHost, srcDevice, ByteCount);
}

DRV_PTSZ(cuMemcpyDtoHAsync_v2,
	 (void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream),
	 (dstHost, srcDevice, ByteCount, hStream))
{
	fake_begin(__func__, FAKE_COST_COPY_ASYNC, ByteCount);
	return fake_drv_copied((uint64_t)dstHost, srcDevice, ByteCount);
}

DRV_PTDS(cuMemcpyDtoD_v2, (CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount),
	 (dstDevice, srcDevice, ByteCount))
{
	fake_begin(__func__, FAKE_COST_COPY, ByteCount);
	return fake_drv_copied(dstDevice, srcDevice, ByteCount);
}

DRV_PTSZ(cuMemcpyDtoDAsync_v2,
	 (CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream),
	 (dstDevice, srcDevice, ByteCount, hStream))
{
	fake_begin(__func__, FAKE_COST_COPY_ASYNC, ByteCount);
	return fake_drv_copied(dstDevice, srcDevice, ByteCount);
}

/* Which of the three addresses of one side counts. */
uint64_t fake_drv_side(CUmemorytype type, const void *host, CUdeviceptr device, CUarray array)
{
	switch (type) {
	case CU_MEMORYTYPE_HOST:
		return (uint64_t)host;
	case CU_MEMORYTYPE_ARRAY:
		return (uint64_t)array;
	case CU_MEMORYTYPE_DEVICE:
	case CU_MEMORYTYPE_UNIFIED:
		return device;
	}
	return 0;
}

static CUresult copied_rows(const CUDA_MEMCPY2D *p)
{
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	return fake_drv_copied(
		fake_drv_side(p->dstMemoryType, p->dstHost, p->dstDevice, p->dstArray),
		fake_drv_side(p->srcMemoryType, p->srcHost, p->srcDevice, p->srcArray),
		p->WidthInBytes * p->Height);
}

DRV_PTDS(cuMemcpy2D_v2, (const CUDA_MEMCPY2D *pCopy), (pCopy))
{
	fake_begin(__func__, FAKE_COST_COPY, 0);
	return copied_rows(pCopy);
}

DRV_PTDS(cuMemcpy2DUnaligned_v2, (const CUDA_MEMCPY2D *pCopy), (pCopy))
{
	fake_begin(__func__, FAKE_COST_COPY, 0);
	return copied_rows(pCopy);
}

DRV_PTSZ(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *pCopy, CUstream hStream), (pCopy, hStream))
{
	fake_begin(__func__, FAKE_COST_COPY_ASYNC, 0);
	return copied_rows(pCopy);
}

static CUresult copied_box(const CUDA_MEMCPY3D *p)
{
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	return fake_drv_copied(
		fake_drv_side(p->dstMemoryType, p->dstHost, p->dstDevice, p->dstArray),
		fake_drv_side(p->srcMemoryType, p->srcHost, p->srcDevice, p->srcArray),
		p->WidthInBytes * p->Height * p->Depth);
}

DRV_PTDS(cuMemcpy3D_v2, (const CUDA_MEMCPY3D *pCopy), (pCopy))
{
	fake_begin(__func__, FAKE_COST_COPY, 0);
	return copied_box(pCopy);
}

DRV_PTSZ(cuMemcpy3DAsync_v2, (const CUDA_MEMCPY3D *pCopy, CUstream hStream), (pCopy, hStream))
{
	fake_begin(__func__, FAKE_COST_COPY_ASYNC, 0);
	return copied_box(pCopy);
}

static CUresult filled(CUdeviceptr dst, uint64_t n)
{
	return n && !dst ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

#define FILL(name, type)                                                                           \
	DRV_PTDS(cuMemset##name##_v2, (CUdeviceptr dstDevice, type value, size_t N),               \
		 (dstDevice, value, N))                                                            \
	{                                                                                          \
		fake_begin(__func__, FAKE_COST_COPY_ASYNC, 0);                                     \
		return filled(dstDevice, N);                                                       \
	}                                                                                          \
	DRV_PTSZ(cuMemset##name##Async,                                                            \
		 (CUdeviceptr dstDevice, type value, size_t N, CUstream hStream),                  \
		 (dstDevice, value, N, hStream))                                                   \
	{                                                                                          \
		fake_begin(__func__, FAKE_COST_COPY_ASYNC, 0);                                     \
		return filled(dstDevice, N);                                                       \
	}

#define FILL_ROWS(name, type)                                                                      \
	DRV_PTDS(                                                                                  \
		cuMemset##name##_v2,                                                               \
		(CUdeviceptr dstDevice, size_t dstPitch, type value, size_t Width, size_t Height), \
		(dstDevice, dstPitch, value, Width, Height))                                       \
	{                                                                                          \
		fake_begin(__func__, FAKE_COST_COPY_ASYNC, 0);                                     \
		return filled(dstDevice, Width * Height);                                          \
	}                                                                                          \
	DRV_PTSZ(cuMemset##name##Async,                                                            \
		 (CUdeviceptr dstDevice, size_t dstPitch, type value, size_t Width, size_t Height, \
		  CUstream hStream),                                                               \
		 (dstDevice, dstPitch, value, Width, Height, hStream))                             \
	{                                                                                          \
		fake_begin(__func__, FAKE_COST_COPY_ASYNC, 0);                                     \
		return filled(dstDevice, Width * Height);                                          \
	}

FILL(D8, unsigned char)
FILL(D16, unsigned short)
FILL(D32, unsigned int)
FILL_ROWS(D2D8, unsigned char)
FILL_ROWS(D2D16, unsigned short)
FILL_ROWS(D2D32, unsigned int)

DRV(cuPointerGetAttribute, (void *data, CUpointer_attribute attribute, CUdeviceptr ptr))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	if (!data || attribute != CU_POINTER_ATTRIBUTE_MEMORY_TYPE || !fake_kind_of(ptr))
		return CUDA_ERROR_INVALID_VALUE;
	*(unsigned int *)data = CU_MEMORYTYPE_DEVICE;
	return CUDA_SUCCESS;
}

DRV(cuPointerGetAttributes,
    (unsigned int numAttributes, CUpointer_attribute *attributes, void **data, CUdeviceptr ptr))
{
	unsigned int type = fake_kind_of(ptr) ? CU_MEMORYTYPE_DEVICE : 0;

	fake_begin(__func__, FAKE_COST_NONE, 0);
	if (!attributes || !data)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < numAttributes; i++) {
		if (attributes[i] != CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
			return CUDA_ERROR_INVALID_VALUE;
		*(unsigned int *)data[i] = type;
	}
	return CUDA_SUCCESS;
}

DRV(cuMemGetInfo_v2, (size_t * free, size_t *total))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	if (!free || !total)
		return CUDA_ERROR_INVALID_VALUE;
	*free = fake_memory_left();
	*total = fake_memory_total();
	return CUDA_SUCCESS;
}
