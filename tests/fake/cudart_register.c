/*
 * What programs of nvcc call before and around their launches: they register their kernels, and a launch
 * leaves its dimensions for the stub that makes the call. Nothing is kept of what is registered: which kernel
 * a function stands for, a tracer has to find in the program itself.
 */
#include "cudart.h"

struct configuration {
	dim3 grid, block;
	size_t shared_bytes;
	cudaStream_t stream;
};

static __thread struct configuration pushed;

FAKE_EXPORT void **__cudaRegisterFatBinary(void *fatCubin);
FAKE_EXPORT void __cudaRegisterFatBinaryEnd(void **fatCubinHandle);
FAKE_EXPORT void __cudaUnregisterFatBinary(void **fatCubinHandle);
FAKE_EXPORT void __cudaRegisterFunction(void **fatCubinHandle, const char *hostFun, char *deviceFun,
					const char *deviceName, int thread_limit, void *tid,
					void *bid, void *bDim, void *gDim, int *wSize);
FAKE_EXPORT void __cudaRegisterVar(void **fatCubinHandle, char *hostVar, char *deviceAddress,
				   const char *deviceName, int ext, size_t size, int constant,
				   int global);
FAKE_EXPORT char __cudaInitModule(void **fatCubinHandle);
FAKE_EXPORT unsigned __cudaPushCallConfiguration(dim3 gridDim, dim3 blockDim, size_t sharedMem,
						 cudaStream_t stream);
FAKE_EXPORT cudaError_t __cudaPopCallConfiguration(dim3 *gridDim, dim3 *blockDim, size_t *sharedMem,
						   void *stream);

void **__cudaRegisterFatBinary(void *fatCubin)
{
	static void *handle;

	fake_begin(__func__, FAKE_COST_NONE, 0);
	handle = fatCubin;
	return &handle;
}

void __cudaRegisterFatBinaryEnd(void **fatCubinHandle)
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	(void)fatCubinHandle;
}

void __cudaUnregisterFatBinary(void **fatCubinHandle)
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	(void)fatCubinHandle;
}

void __cudaRegisterFunction(void **fatCubinHandle, const char *hostFun, char *deviceFun,
			    const char *deviceName, int thread_limit, void *tid, void *bid,
			    void *bDim, void *gDim, int *wSize)
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	(void)fatCubinHandle, (void)hostFun, (void)deviceFun, (void)deviceName, (void)thread_limit;
	(void)tid, (void)bid, (void)bDim, (void)gDim, (void)wSize;
}

void __cudaRegisterVar(void **fatCubinHandle, char *hostVar, char *deviceAddress,
		       const char *deviceName, int ext, size_t size, int constant, int global)
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	(void)fatCubinHandle, (void)hostVar, (void)deviceAddress, (void)deviceName, (void)ext;
	(void)size, (void)constant, (void)global;
}

char __cudaInitModule(void **fatCubinHandle)
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	return fatCubinHandle != NULL;
}

unsigned __cudaPushCallConfiguration(dim3 gridDim, dim3 blockDim, size_t sharedMem,
				     cudaStream_t stream)
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	pushed = (struct configuration){gridDim, blockDim, sharedMem, stream};
	return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *gridDim, dim3 *blockDim, size_t *sharedMem,
				       void *stream)
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	*gridDim = pushed.grid;
	*blockDim = pushed.block;
	*sharedMem = pushed.shared_bytes;
	*(cudaStream_t *)stream = pushed.stream;
	return cudaSuccess;
}
