/* What the driver's stand-in keeps for old programs, as the real one does: the functions of the
 * first ABI, whose addresses and sizes have 32 bits, and the launches from before cuLaunchKernel.
 */
#include "cuda_drv.h"

#define PITCH 512

DRV(cuLaunch, (CUfunction f))
{
	fake_begin(__func__, FAKE_COST_LAUNCH, 0);
	return f ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

DRV(cuLaunchGrid, (CUfunction f, int grid_width, int grid_height))
{
	fake_begin(__func__, FAKE_COST_LAUNCH, 0);
	return f && grid_width > 0 && grid_height > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

DRV(cuLaunchGridAsync, (CUfunction f, int grid_width, int grid_height, CUstream hStream))
{
	fake_begin(__func__, FAKE_COST_LAUNCH, 0);
	return f && grid_width > 0 && grid_height > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

DRV(cuMemHostRegister, (void *p, size_t bytesize, unsigned int Flags))
{
	fake_begin(__func__, FAKE_COST_ALLOC, bytesize);
	return (CUresult)fake_register((uint64_t)p, bytesize);
}

DRV(cuMemAllocPitch, (CUdeviceptr_v1 * dptr, unsigned int *pPitch, unsigned int WidthInBytes,
		      unsigned int Height, unsigned int ElementSizeBytes))
{
	unsigned int padded = (WidthInBytes + PITCH - 1) / PITCH * PITCH;
	uint64_t address;
	CUresult r;

	fake_begin(__func__, FAKE_COST_ALLOC, (uint64_t)padded * Height);
	if (!dptr || !pPitch ||
	    (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16))
		return CUDA_ERROR_INVALID_VALUE;
	r = fake_drv_give(FAKE_DEVICE32, (uint64_t)padded * Height, &address);
	if (r == CUDA_SUCCESS) {
		*dptr = (CUdeviceptr_v1)address;
		*pPitch = padded;
	}
	return r;
}

/* A copy between two sides, of which the first is the destination. */
#define COPY(name, cost, dst, src, params)                                                         \
	DRV(name, params)                                                                          \
	{                                                                                          \
		fake_begin(__func__, cost, ByteCount);                                             \
		return fake_drv_copied((uint64_t)dst, (uint64_t)src, ByteCount);                   \
	}

COPY(cuMemcpyHtoD, FAKE_COST_COPY, dstDevice, srcHost,
     (CUdeviceptr_v1 dstDevice, const void *srcHost, unsigned int ByteCount))
COPY(cuMemcpyHtoDAsync, FAKE_COST_COPY_ASYNC, dstDevice, srcHost,
     (CUdeviceptr_v1 dstDevice, const void *srcHost, unsigned int ByteCount, CUstream hStream))
COPY(cuMemcpyDtoH, FAKE_COST_COPY, dstHost, srcDevice,
     (void *dstHost, CUdeviceptr_v1 srcDevice, unsigned int ByteCount))
COPY(cuMemcpyDtoHAsync, FAKE_COST_COPY_ASYNC, dstHost, srcDevice,
     (void *dstHost, CUdeviceptr_v1 srcDevice, unsigned int ByteCount, CUstream hStream))
COPY(cuMemcpyDtoD, FAKE_COST_COPY, dstDevice, srcDevice,
     (CUdeviceptr_v1 dstDevice, CUdeviceptr_v1 srcDevice, unsigned int ByteCount))
COPY(cuMemcpyDtoDAsync, FAKE_COST_COPY_ASYNC, dstDevice, srcDevice,
     (CUdeviceptr_v1 dstDevice, CUdeviceptr_v1 srcDevice, unsigned int ByteCount, CUstream hStream))
COPY(cuMemcpyAtoH, FAKE_COST_COPY, dstHost, srcArray,
     (void *dstHost, CUarray srcArray, unsigned int srcOffset, unsigned int ByteCount))
COPY(cuMemcpyAtoHAsync, FAKE_COST_COPY_ASYNC, dstHost, srcArray,
     (void *dstHost, CUarray srcArray, unsigned int srcOffset, unsigned int ByteCount,
      CUstream hStream))
COPY(cuMemcpyHtoA, FAKE_COST_COPY, dstArray, srcHost,
     (CUarray dstArray, unsigned int dstOffset, const void *srcHost, unsigned int ByteCount))
COPY(cuMemcpyHtoAAsync, FAKE_COST_COPY_ASYNC, dstArray, srcHost,
     (CUarray dstArray, unsigned int dstOffset, const void *srcHost, unsigned int ByteCount,
      CUstream hStream))
COPY(cuMemcpyAtoD, FAKE_COST_COPY, dstDevice, srcArray,
     (CUdeviceptr_v1 dstDevice, CUarray srcArray, unsigned int srcOffset, unsigned int ByteCount))
COPY(cuMemcpyDtoA, FAKE_COST_COPY, dstArray, srcDevice,
     (CUarray dstArray, unsigned int dstOffset, CUdeviceptr_v1 srcDevice, unsigned int ByteCount))
COPY(cuMemcpyAtoA, FAKE_COST_COPY, dstArray, srcArray,
     (CUarray dstArray, unsigned int dstOffset, CUarray srcArray, unsigned int srcOffset,
      unsigned int ByteCount))

static CUresult copied_rows(const CUDA_MEMCPY2D_v1 *p)
{
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	return fake_drv_copied(
		fake_drv_side(p->dstMemoryType, p->dstHost, p->dstDevice, p->dstArray),
		fake_drv_side(p->srcMemoryType, p->srcHost, p->srcDevice, p->srcArray),
		(uint64_t)p->WidthInBytes * p->Height);
}

DRV(cuMemcpy2D, (const CUDA_MEMCPY2D_v1 *pCopy))
{
	fake_begin(__func__, FAKE_COST_COPY, 0);
	return copied_rows(pCopy);
}

DRV(cuMemcpy2DUnaligned, (const CUDA_MEMCPY2D_v1 *pCopy))
{
	fake_begin(__func__, FAKE_COST_COPY, 0);
	return copied_rows(pCopy);
}

DRV(cuMemcpy2DAsync, (const CUDA_MEMCPY2D_v1 *pCopy, CUstream hStream))
{
	fake_begin(__func__, FAKE_COST_COPY_ASYNC, 0);
	return copied_rows(pCopy);
}

static CUresult copied_box(const CUDA_MEMCPY3D_v1 *p)
{
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	return fake_drv_copied(
		fake_drv_side(p->dstMemoryType, p->dstHost, p->dstDevice, p->dstArray),
		fake_drv_side(p->srcMemoryType, p->srcHost, p->srcDevice, p->srcArray),
		(uint64_t)p->WidthInBytes * p->Height * p->Depth);
}

DRV(cuMemcpy3D, (const CUDA_MEMCPY3D_v1 *pCopy))
{
	fake_begin(__func__, FAKE_COST_COPY, 0);
	return copied_box(pCopy);
}

DRV(cuMemcpy3DAsync, (const CUDA_MEMCPY3D_v1 *pCopy, CUstream hStream))
{
	fake_begin(__func__, FAKE_COST_COPY_ASYNC, 0);
	return copied_box(pCopy);
}

static CUresult filled(CUdeviceptr_v1 ptr, uint64_t bytes)
{
	return bytes && !ptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

#define FILL(name, type)                                                                           \
	DRV(cuMemset##name, (CUdeviceptr_v1 dstDevice, type value, unsigned int N))                \
	{                                                                                          \
		fake_begin(__func__, FAKE_COST_COPY_ASYNC, 0);                                     \
		return filled(dstDevice, N);                                                       \
	}                                                                                          \
	DRV(cuMemsetD2##name, (CUdeviceptr_v1 dstDevice, unsigned int dstPitch, type value,        \
			       unsigned int Width, unsigned int Height))                           \
	{                                                                                          \
		fake_begin(__func__, FAKE_COST_COPY_ASYNC, 0);                                     \
		return filled(dstDevice, (uint64_t)Width * Height);                                \
	}

FILL(D8, unsigned char)
FILL(D16, unsigned short)
FILL(D32, unsigned int)
