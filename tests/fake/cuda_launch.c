/* Launches, streams, events, modules and the functions that only ask, of the driver's stand-in. */
#include "cuda_drv.h"

#define MAX_BLOCK_THREADS 1024

#ifdef FAKE_STUB
/* What the entries compare; never the value that ends them. */
__attribute__((visibility("hidden"), used)) uint32_t fake_stub_word = 1;
#endif

static CUresult launched(CUfunction f, uint64_t gx, uint64_t gy, uint64_t gz, uint64_t bx,
			 uint64_t by, uint64_t bz)
{
	bool fits = bx && by && bz && bx * by <= MAX_BLOCK_THREADS && bz <= MAX_BLOCK_THREADS &&
		    bx * by * bz <= MAX_BLOCK_THREADS;

	return f && gx && gy && gz && fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

DRV_PTSZ(cuLaunchKernel,
	 (CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
	  unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
	  unsigned int sharedMemBytes, CUstream hStream, void **kernelParams, void **extra),
	 (f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream,
	  kernelParams, extra))
{
	fake_begin(__func__, FAKE_COST_LAUNCH, 0);
	return launched(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ);
}

DRV_PTSZ(cuLaunchCooperativeKernel,
	 (CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
	  unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
	  unsigned int sharedMemBytes, CUstream hStream, void **kernelParams),
	 (f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream,
	  kernelParams))
{
	fake_begin(__func__, FAKE_COST_LAUNCH, 0);
	return launched(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ);
}

DRV_PTSZ(cuLaunchKernelEx,
	 (const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra),
	 (config, f, kernelParams, extra))
{
	fake_begin(__func__, FAKE_COST_LAUNCH, 0);
	if (!config)
		return CUDA_ERROR_INVALID_VALUE;
	return launched(f, config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX,
			config->blockDimY, config->blockDimZ);
}

DRV(cuLaunchCooperativeKernelMultiDevice,
    (CUDA_LAUNCH_PARAMS * launchParamsList, unsigned int numDevices, unsigned int flags))
{
	fake_begin(__func__, FAKE_COST_LAUNCH, 0);
	if (!launchParamsList || !numDevices)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < numDevices; i++) {
		const CUDA_LAUNCH_PARAMS *p = &launchParamsList[i];
		CUresult r = launched(p->function, p->gridDimX, p->gridDimY, p->gridDimZ,
				      p->blockDimX, p->blockDimY, p->blockDimZ);

		if (r != CUDA_SUCCESS)
			return r;
	}
	return CUDA_SUCCESS;
}

DRV_PTSZ(cuGraphLaunch, (CUgraphExec hGraph, CUstream hStream), (hGraph, hStream))
{
	fake_begin(__func__, FAKE_COST_LAUNCH, 0);
	return hGraph ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

DRV_PTSZ(cuLaunchHostFunc, (CUstream hStream, CUhostFn fn, void *userData), (hStream, fn, userData))
{
	fake_begin(__func__, FAKE_COST_EVENT, 0);
	if (!fn)
		return CUDA_ERROR_INVALID_VALUE;
	fn(userData);
	return CUDA_SUCCESS;
}

DRV_PTSZ(cuStreamAddCallback,
	 (CUstream hStream, CUstreamCallback callback, void *userData, unsigned int flags),
	 (hStream, callback, userData, flags))
{
	fake_begin(__func__, FAKE_COST_EVENT, 0);
	if (!callback || flags)
		return CUDA_ERROR_INVALID_VALUE;
	callback(hStream, CUDA_SUCCESS, userData);
	return CUDA_SUCCESS;
}

static CUresult give(enum fake_kind kind, void **ret_handle)
{
	uint64_t handle;
	int r;

	if (!ret_handle)
		return CUDA_ERROR_INVALID_VALUE;
	r = fake_alloc(kind, 0, &handle);
	if (r == FAKE_OK)
		*ret_handle = (void *)handle;
	return (CUresult)r;
}

static CUresult take(enum fake_kind kind, const void *handle)
{
	return (CUresult)fake_free(kind, (uint64_t)handle);
}

DRV(cuStreamCreate, (CUstream * phStream, unsigned int Flags))
{
	fake_begin(__func__, FAKE_COST_ALLOC_ASYNC, 0);
	return Flags > 1 ? CUDA_ERROR_INVALID_VALUE : give(FAKE_STREAM, (void **)phStream);
}

DRV(cuStreamCreateWithPriority, (CUstream * phStream, unsigned int flags, int priority))
{
	fake_begin(__func__, FAKE_COST_ALLOC_ASYNC, 0);
	return flags > 1 ? CUDA_ERROR_INVALID_VALUE : give(FAKE_STREAM, (void **)phStream);
}

DRV(cuStreamDestroy, (CUstream hStream))
{
	fake_begin(__func__, FAKE_COST_ALLOC_ASYNC, 0);
	return take(FAKE_STREAM, hStream);
}

DRV(cuStreamDestroy_v2, (CUstream hStream))
{
	fake_begin(__func__, FAKE_COST_ALLOC_ASYNC, 0);
	return take(FAKE_STREAM, hStream);
}

DRV_PTSZ(cuStreamWaitEvent, (CUstream hStream, CUevent hEvent, unsigned int Flags),
	 (hStream, hEvent, Flags))
{
	fake_begin(__func__, FAKE_COST_EVENT, 0);
	return !hEvent     ? CUDA_ERROR_INVALID_HANDLE
	       : Flags > 1 ? CUDA_ERROR_INVALID_VALUE
			   : CUDA_SUCCESS;
}

DRV_PTSZ(cuStreamSynchronize, (CUstream hStream), (hStream))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	return (CUresult)fake_sync(hStream);
}

DRV_PTSZ(cuStreamQuery, (CUstream hStream), (hStream))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	return (CUresult)fake_query(hStream);
}

DRV(cuEventCreate, (CUevent * phEvent, unsigned int Flags))
{
	fake_begin(__func__, FAKE_COST_EVENT, 0);
	return Flags > 7 ? CUDA_ERROR_INVALID_VALUE : give(FAKE_EVENT, (void **)phEvent);
}

DRV_PTSZ(cuEventRecord, (CUevent hEvent, CUstream hStream), (hEvent, hStream))
{
	fake_begin(__func__, FAKE_COST_EVENT, 0);
	return (CUresult)fake_event_record(hEvent, hStream);
}

DRV_PTSZ(cuEventRecordWithFlags, (CUevent hEvent, CUstream hStream, unsigned int flags),
	 (hEvent, hStream, flags))
{
	fake_begin(__func__, FAKE_COST_EVENT, 0);
	return flags > 1 ? CUDA_ERROR_INVALID_VALUE : (CUresult)fake_event_record(hEvent, hStream);
}

DRV(cuEventQuery, (CUevent hEvent))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	return hEvent ? (CUresult)fake_query(hEvent) : CUDA_ERROR_INVALID_HANDLE;
}

DRV(cuEventSynchronize, (CUevent hEvent))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	return hEvent ? (CUresult)fake_sync(hEvent) : CUDA_ERROR_INVALID_HANDLE;
}

DRV(cuEventDestroy, (CUevent hEvent))
{
	fake_begin(__func__, FAKE_COST_EVENT, 0);
	return take(FAKE_EVENT, hEvent);
}

DRV(cuEventDestroy_v2, (CUevent hEvent))
{
	fake_begin(__func__, FAKE_COST_EVENT, 0);
	return take(FAKE_EVENT, hEvent);
}

DRV(cuCtxSynchronize, (void))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	fake_wait();
	return CUDA_SUCCESS;
}

DRV(cuModuleLoad, (CUmodule * module, const char *fname))
{
	fake_begin(__func__, FAKE_COST_MODULE, 0);
	return fname ? give(FAKE_MODULE, (void **)module) : CUDA_ERROR_INVALID_VALUE;
}

DRV(cuModuleLoadData, (CUmodule * module, const void *image))
{
	fake_begin(__func__, FAKE_COST_MODULE, 0);
	return image ? give(FAKE_MODULE, (void **)module) : CUDA_ERROR_INVALID_VALUE;
}

DRV(cuModuleLoadDataEx, (CUmodule * module, const void *image, unsigned int numOptions,
			 CUjit_option *options, void **optionValues))
{
	fake_begin(__func__, FAKE_COST_MODULE, 0);
	return image ? give(FAKE_MODULE, (void **)module) : CUDA_ERROR_INVALID_VALUE;
}

DRV(cuModuleLoadFatBinary, (CUmodule * module, const void *fatCubin))
{
	fake_begin(__func__, FAKE_COST_MODULE, 0);
	return fatCubin ? give(FAKE_MODULE, (void **)module) : CUDA_ERROR_INVALID_VALUE;
}

DRV(cuModuleUnload, (CUmodule hmod))
{
	fake_begin(__func__, FAKE_COST_ALLOC_ASYNC, 0);
	return take(FAKE_MODULE, hmod);
}

/* A driver looks the name up, so it reads it. */
static int is_name(const char *name)
{
	return name && (uintptr_t)name >= 4096 ? *(const volatile char *)name != 0 : name != NULL;
}

DRV(cuModuleGetFunction, (CUfunction * hfunc, CUmodule hmod, const char *name))
{
	fake_begin(__func__, FAKE_COST_MODULE, 0);
	return hmod && is_name(name) ? give(FAKE_MODULE, (void **)hfunc) : CUDA_ERROR_INVALID_VALUE;
}

/* All have the same. */
DRV(cuFuncGetName, (const char **name, CUfunction hfunc))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	if (!name || !hfunc)
		return CUDA_ERROR_INVALID_VALUE;
	*name = "_ZN3app5namedEPfi";
	return CUDA_SUCCESS;
}

DRV(cuKernelGetName, (const char **name, CUkernel hfunc))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	if (!name || !hfunc)
		return CUDA_ERROR_INVALID_VALUE;
	*name = "_ZN3app5namedEPfi";
	return CUDA_SUCCESS;
}

DRV(cuLibraryGetKernel, (CUkernel * pKernel, CUlibrary library, const char *name))
{
	fake_begin(__func__, FAKE_COST_MODULE, 0);
	return library && is_name(name) ? give(FAKE_MODULE, (void **)pKernel)
					: CUDA_ERROR_INVALID_VALUE;
}

DRV(cuKernelGetFunction, (CUfunction * pFunc, CUkernel kernel))
{
	fake_begin(__func__, FAKE_COST_MODULE, 0);
	return kernel ? give(FAKE_MODULE, (void **)pFunc) : CUDA_ERROR_INVALID_VALUE;
}

DRV(cuLibraryLoadData,
    (CUlibrary * library, const void *code, CUjit_option *jitOptions, void **jitOptionsValues,
     unsigned int numJitOptions, CUlibraryOption *libraryOptions, void **libraryOptionValues,
     unsigned int numLibraryOptions))
{
	fake_begin(__func__, FAKE_COST_MODULE, 0);
	return code ? give(FAKE_MODULE, (void **)library) : CUDA_ERROR_INVALID_VALUE;
}

DRV(cuLibraryLoadFromFile,
    (CUlibrary * library, const char *fileName, CUjit_option *jitOptions, void **jitOptionsValues,
     unsigned int numJitOptions, CUlibraryOption *libraryOptions, void **libraryOptionValues,
     unsigned int numLibraryOptions))
{
	fake_begin(__func__, FAKE_COST_MODULE, 0);
	return fileName ? give(FAKE_MODULE, (void **)library) : CUDA_ERROR_INVALID_VALUE;
}

DRV(cuLibraryUnload, (CUlibrary library))
{
	fake_begin(__func__, FAKE_COST_ALLOC_ASYNC, 0);
	return fake_has_ended() ? CUDA_ERROR_DEINITIALIZED : take(FAKE_MODULE, library);
}

/* Primary contexts are numbers, of device 0 first; a thread has that without asking. */
#define PRIMARY(dev) ((CUcontext)(0x555500001000 + 0x1000ull * (dev)))
#define STACK_MAX    16

static __thread CUcontext contexts[STACK_MAX] = {PRIMARY(0)};
static __thread unsigned top_context;

DRV(cuCtxGetCurrent, (CUcontext * pctx))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	*pctx = contexts[top_context];
	return CUDA_SUCCESS;
}

DRV(cuCtxSetCurrent, (CUcontext ctx))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	contexts[top_context] = ctx;
	return CUDA_SUCCESS;
}

static CUresult push_context(CUcontext ctx)
{
	if (!ctx)
		return CUDA_ERROR_INVALID_VALUE;
	if (top_context + 1 < STACK_MAX)
		top_context++;
	contexts[top_context] = ctx;
	return CUDA_SUCCESS;
}

DRV(cuCtxPushCurrent, (CUcontext ctx))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	return push_context(ctx);
}

DRV(cuCtxPushCurrent_v2, (CUcontext ctx))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	return push_context(ctx);
}

static CUresult pop_context(CUcontext *pctx)
{
	if (pctx)
		*pctx = contexts[top_context];
	top_context -= top_context > 0;
	return CUDA_SUCCESS;
}

DRV(cuCtxPopCurrent, (CUcontext * pctx))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	return pop_context(pctx);
}

DRV(cuCtxPopCurrent_v2, (CUcontext * pctx))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	return pop_context(pctx);
}

static CUresult create_context(CUcontext *pctx, CUdevice dev)
{
	static unsigned n_made;

	if (!pctx || dev < 0 || dev > 7)
		return CUDA_ERROR_INVALID_DEVICE;
	*pctx = (CUcontext)(0x555600000000 +
			    0x1000ull * __atomic_add_fetch(&n_made, 1, __ATOMIC_RELAXED));
	return push_context(*pctx);
}

DRV(cuCtxCreate, (CUcontext * pctx, unsigned int flags, CUdevice dev))
{
	fake_begin(__func__, FAKE_COST_MODULE, 0);
	return create_context(pctx, dev);
}

DRV(cuCtxCreate_v2, (CUcontext * pctx, unsigned int flags, CUdevice dev))
{
	fake_begin(__func__, FAKE_COST_MODULE, 0);
	return create_context(pctx, dev);
}

DRV(cuCtxCreate_v3, (CUcontext * pctx, CUexecAffinityParam *paramsArray, int numParams,
		     unsigned int flags, CUdevice dev))
{
	fake_begin(__func__, FAKE_COST_MODULE, 0);
	return create_context(pctx, dev);
}

DRV(cuCtxCreate_v4,
    (CUcontext * pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags, CUdevice dev))
{
	fake_begin(__func__, FAKE_COST_MODULE, 0);
	return create_context(pctx, dev);
}

static CUresult destroy_context(CUcontext ctx)
{
	if (!ctx)
		return CUDA_ERROR_INVALID_VALUE;
	if (contexts[top_context] == ctx)
		pop_context(NULL);
	return CUDA_SUCCESS;
}

DRV(cuCtxDestroy, (CUcontext ctx))
{
	fake_begin(__func__, FAKE_COST_MODULE, 0);
	return destroy_context(ctx);
}

DRV(cuCtxDestroy_v2, (CUcontext ctx))
{
	fake_begin(__func__, FAKE_COST_MODULE, 0);
	return destroy_context(ctx);
}

DRV(cuDevicePrimaryCtxRetain, (CUcontext * pctx, CUdevice dev))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	if (!pctx || dev < 0 || dev > 7)
		return CUDA_ERROR_INVALID_DEVICE;
	*pctx = PRIMARY(dev);
	return CUDA_SUCCESS;
}

DRV(cuCtxGetDevice, (CUdevice * device))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	*device = 0;
	return CUDA_SUCCESS;
}

DRV(cuDevicePrimaryCtxReset, (CUdevice dev))
{
	fake_begin(__func__, FAKE_COST_MODULE, 0);
	return dev ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

DRV(cuDevicePrimaryCtxReset_v2, (CUdevice dev))
{
	fake_begin(__func__, FAKE_COST_MODULE, 0);
	return dev ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

DRV(cuDevicePrimaryCtxGetState, (CUdevice dev, unsigned int *flags, int *active))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	if (dev < 0 || dev > 7)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!flags || !active)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = 0;
	*active = 1;
	return CUDA_SUCCESS;
}

DRV(cuFuncGetAttribute, (int *pi, CUfunction_attribute attrib, CUfunction hfunc))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	if (!pi || !hfunc)
		return CUDA_ERROR_INVALID_VALUE;
	*pi = attrib == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? MAX_BLOCK_THREADS : 0;
	return CUDA_SUCCESS;
}
