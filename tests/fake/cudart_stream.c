/* Streams, events, synchronisation, devices, modules and the functions that only ask, of the
 * runtime's stand-in. */
#include "cudart.h"

#include <string.h>

#define N_DEVICES 8

static __thread cudaError_t last_error;
static __thread int device_of_thread;

cudaError_t fake_rt_end(int code)
{
	if (code != cudaSuccess)
		last_error = (cudaError_t)code;
	return (cudaError_t)code;
}

static cudaError_t give(enum fake_kind kind, void **ret_handle)
{
	uint64_t handle;
	int r;

	if (!ret_handle)
		return fake_rt_end(cudaErrorInvalidValue);
	r = fake_alloc(kind, 0, &handle);
	if (r == FAKE_OK)
		*ret_handle = (void *)handle;
	return fake_rt_end(r);
}

RT(cudaStreamCreate, (cudaStream_t * pStream))
{
	fake_begin(__func__, FAKE_COST_ALLOC_ASYNC, 0);
	return give(FAKE_STREAM, (void **)pStream);
}

RT(cudaStreamCreateWithFlags, (cudaStream_t * pStream, unsigned int flags))
{
	fake_begin(__func__, FAKE_COST_ALLOC_ASYNC, 0);
	return flags > 1 ? fake_rt_end(cudaErrorInvalidValue) : give(FAKE_STREAM, (void **)pStream);
}

RT(cudaStreamCreateWithPriority, (cudaStream_t * pStream, unsigned int flags, int priority))
{
	fake_begin(__func__, FAKE_COST_ALLOC_ASYNC, 0);
	return flags > 1 ? fake_rt_end(cudaErrorInvalidValue) : give(FAKE_STREAM, (void **)pStream);
}

RT(cudaStreamDestroy, (cudaStream_t stream))
{
	fake_begin(__func__, FAKE_COST_ALLOC_ASYNC, 0);
	return fake_rt_end(fake_free(FAKE_STREAM, (uint64_t)stream));
}

RT_PTSZ(cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned int flags),
	(stream, event, flags))
{
	fake_begin(__func__, FAKE_COST_EVENT, 0);
	return fake_rt_end(!event      ? cudaErrorInvalidResourceHandle
			   : flags > 1 ? cudaErrorInvalidValue
				       : cudaSuccess);
}

RT_PTSZ(cudaStreamBeginCapture, (cudaStream_t stream, enum cudaStreamCaptureMode mode),
	(stream, mode))
{
	fake_begin(__func__, FAKE_COST_EVENT, 0);
	return fake_rt_end((unsigned)mode > 2 ? cudaErrorInvalidValue : cudaSuccess);
}

RT_PTSZ(cudaStreamBeginCaptureToGraph,
	(cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
	 const cudaGraphEdgeData *dependencyData, size_t numDependencies,
	 enum cudaStreamCaptureMode mode),
	(stream, graph, dependencies, dependencyData, numDependencies, mode))
{
	fake_begin(__func__, FAKE_COST_EVENT, 0);
	return fake_rt_end(!graph || (unsigned)mode > 2 ? cudaErrorInvalidValue : cudaSuccess);
}

RT_PTSZ(cudaStreamEndCapture, (cudaStream_t stream, cudaGraph_t *pGraph), (stream, pGraph))
{
	fake_begin(__func__, FAKE_COST_EVENT, 0);
	return give(FAKE_GRAPH, (void **)pGraph);
}

RT_PTSZ(cudaStreamSynchronize, (cudaStream_t stream), (stream))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	return fake_rt_end(fake_sync(stream));
}

RT_PTSZ(cudaStreamQuery, (cudaStream_t stream), (stream))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	return fake_rt_end(fake_query(stream));
}

RT_PTSZ(cudaStreamIsCapturing, (cudaStream_t stream, enum cudaStreamCaptureStatus *pCaptureStatus),
	(stream, pCaptureStatus))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	if (!pCaptureStatus)
		return fake_rt_end(cudaErrorInvalidValue);
	*pCaptureStatus = cudaStreamCaptureStatusNone;
	return cudaSuccess;
}

RT_PTSZ(cudaStreamGetCaptureInfo,
	(cudaStream_t stream, enum cudaStreamCaptureStatus *captureStatus_out,
	 unsigned long long *id_out, cudaGraph_t *graph_out,
	 const cudaGraphNode_t **dependencies_out, const cudaGraphEdgeData **edgeData_out,
	 size_t *numDependencies_out),
	(stream, captureStatus_out, id_out, graph_out, dependencies_out, edgeData_out,
	 numDependencies_out))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	if (!captureStatus_out)
		return fake_rt_end(cudaErrorInvalidValue);
	*captureStatus_out = cudaStreamCaptureStatusNone;
	return cudaSuccess;
}

RT(cudaEventCreate, (cudaEvent_t * event))
{
	fake_begin(__func__, FAKE_COST_EVENT, 0);
	return give(FAKE_EVENT, (void **)event);
}

RT(cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned int flags))
{
	fake_begin(__func__, FAKE_COST_EVENT, 0);
	return flags > 7 ? fake_rt_end(cudaErrorInvalidValue) : give(FAKE_EVENT, (void **)event);
}

RT_PTSZ(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream), (event, stream))
{
	fake_begin(__func__, FAKE_COST_EVENT, 0);
	return fake_rt_end(fake_event_record(event, stream));
}

RT_PTSZ(cudaEventRecordWithFlags, (cudaEvent_t event, cudaStream_t stream, unsigned int flags),
	(event, stream, flags))
{
	fake_begin(__func__, FAKE_COST_EVENT, 0);
	return fake_rt_end(flags > 1 ? FAKE_INVALID_VALUE : fake_event_record(event, stream));
}

RT(cudaEventQuery, (cudaEvent_t event))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	return fake_rt_end(event ? fake_query(event) : FAKE_BAD_HANDLE);
}

RT(cudaEventSynchronize, (cudaEvent_t event))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	return fake_rt_end(event ? fake_sync(event) : FAKE_BAD_HANDLE);
}

RT(cudaEventDestroy, (cudaEvent_t event))
{
	fake_begin(__func__, FAKE_COST_EVENT, 0);
	return fake_rt_end(fake_free(FAKE_EVENT, (uint64_t)event));
}

RT(cudaEventElapsedTime, (float *ms, cudaEvent_t start, cudaEvent_t end))
{
	int r;

	fake_begin(__func__, FAKE_COST_NONE, 0);
	if (!ms || !start || !end)
		return fake_rt_end(cudaErrorInvalidResourceHandle);
	r = fake_query(end);
	if (r == FAKE_OK)
		*ms = 0.5f;
	return fake_rt_end(r);
}

RT(cudaDeviceSynchronize, (void))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	fake_wait();
	return cudaSuccess;
}

RT(cudaSetDevice, (int device))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	if (device < 0 || device >= N_DEVICES)
		return fake_rt_end(cudaErrorInvalidDevice);
	device_of_thread = device;
	return cudaSuccess;
}

RT(cudaDeviceReset, (void))
{
	fake_begin(__func__, FAKE_COST_MODULE, 0);
	return cudaSuccess;
}

RT(cudaLibraryLoadData,
   (cudaLibrary_t * library, const void *code, enum cudaJitOption *jitOptions,
    void **jitOptionsValues, unsigned int numJitOptions, enum cudaLibraryOption *libraryOptions,
    void **libraryOptionValues, unsigned int numLibraryOptions))
{
	fake_begin(__func__, FAKE_COST_MODULE, 0);
	return code ? give(FAKE_MODULE, (void **)library) : fake_rt_end(cudaErrorInvalidValue);
}

RT(cudaLibraryLoadFromFile,
   (cudaLibrary_t * library, const char *fileName, enum cudaJitOption *jitOptions,
    void **jitOptionsValues, unsigned int numJitOptions, enum cudaLibraryOption *libraryOptions,
    void **libraryOptionValues, unsigned int numLibraryOptions))
{
	fake_begin(__func__, FAKE_COST_MODULE, 0);
	return fileName ? give(FAKE_MODULE, (void **)library) : fake_rt_end(cudaErrorInvalidValue);
}

RT(cudaLibraryUnload, (cudaLibrary_t library))
{
	fake_begin(__func__, FAKE_COST_MODULE, 0);
	return fake_rt_end(fake_free(FAKE_MODULE, (uint64_t)library));
}

RT(cudaLibraryGetKernel, (cudaKernel_t * pKernel, cudaLibrary_t library, const char *name))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	if (!library || !name)
		return fake_rt_end(cudaErrorInvalidValue);
	return fake_rt_end((int)cuLibraryGetKernel((CUkernel *)pKernel, (CUlibrary)library, name));
}

RT(cudaGetKernel, (cudaKernel_t * kernelPtr, const void *entryFuncAddr))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	return entryFuncAddr ? give(FAKE_MODULE, (void **)kernelPtr)
			     : fake_rt_end(cudaErrorInvalidValue);
}

RT(cudaGetFuncBySymbol, (cudaFunction_t * functionPtr, const void *symbolPtr))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	return symbolPtr ? give(FAKE_MODULE, (void **)functionPtr)
			 : fake_rt_end(cudaErrorInvalidValue);
}

RT(__cudaGetKernel, (cudaKernel_t * kernelPtr, const void *entryFuncAddr))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	return entryFuncAddr ? give(FAKE_MODULE, (void **)kernelPtr)
			     : fake_rt_end(cudaErrorInvalidValue);
}

RT(cudaGraphInstantiate,
   (cudaGraphExec_t * pGraphExec, cudaGraph_t graph, unsigned long long flags))
{
	fake_begin(__func__, FAKE_COST_MODULE, 0);
	return graph ? give(FAKE_GRAPH_EXEC, (void **)pGraphExec)
		     : fake_rt_end(cudaErrorInvalidValue);
}

RT(cudaGraphInstantiateWithFlags,
   (cudaGraphExec_t * pGraphExec, cudaGraph_t graph, unsigned long long flags))
{
	fake_begin(__func__, FAKE_COST_MODULE, 0);
	return graph ? give(FAKE_GRAPH_EXEC, (void **)pGraphExec)
		     : fake_rt_end(cudaErrorInvalidValue);
}

RT_PTSZ(cudaGraphInstantiateWithParams,
	(cudaGraphExec_t * pGraphExec, cudaGraph_t graph,
	 cudaGraphInstantiateParams *instantiateParams),
	(pGraphExec, graph, instantiateParams))
{
	fake_begin(__func__, FAKE_COST_MODULE, 0);
	return graph && instantiateParams ? give(FAKE_GRAPH_EXEC, (void **)pGraphExec)
					  : fake_rt_end(cudaErrorInvalidValue);
}

RT(cudaGraphExecDestroy, (cudaGraphExec_t graphExec))
{
	fake_begin(__func__, FAKE_COST_ALLOC_ASYNC, 0);
	return fake_rt_end(fake_free(FAKE_GRAPH_EXEC, (uint64_t)graphExec));
}

RT(cudaGraphExecUpdate,
   (cudaGraphExec_t hGraphExec, cudaGraph_t hGraph, cudaGraphExecUpdateResultInfo *resultInfo))
{
	fake_begin(__func__, FAKE_COST_MODULE, 0);
	return fake_rt_end(hGraphExec && hGraph ? FAKE_OK : cudaErrorInvalidValue);
}

RT(cudaGraphAddKernelNode,
   (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
    size_t numDependencies, const struct cudaKernelNodeParams *pNodeParams))
{
	fake_begin(__func__, FAKE_COST_MODULE, 0);
	return fake_rt_end(graph && pNodeParams ? FAKE_OK : cudaErrorInvalidValue);
}

RT(cudaGraphAddChildGraphNode,
   (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
    size_t numDependencies, cudaGraph_t childGraph))
{
	fake_begin(__func__, FAKE_COST_MODULE, 0);
	return fake_rt_end(graph && childGraph ? FAKE_OK : cudaErrorInvalidValue);
}

RT(cudaGraphClone, (cudaGraph_t * pGraphClone, cudaGraph_t originalGraph))
{
	fake_begin(__func__, FAKE_COST_MODULE, 0);
	return originalGraph ? give(FAKE_GRAPH, (void **)pGraphClone)
			     : fake_rt_end(cudaErrorInvalidValue);
}

RT(cudaGraphDestroy, (cudaGraph_t graph))
{
	fake_begin(__func__, FAKE_COST_ALLOC_ASYNC, 0);
	return fake_rt_end(fake_free(FAKE_GRAPH, (uint64_t)graph));
}

RT(cudaGetDevice, (int *device))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	if (!device)
		return fake_rt_end(cudaErrorInvalidValue);
	*device = device_of_thread;
	return cudaSuccess;
}

RT(cudaGetLastError, (void))
{
	cudaError_t r = last_error;

	fake_begin(__func__, FAKE_COST_NONE, 0);
	last_error = cudaSuccess;
	return r;
}

RT(cudaPeekAtLastError, (void))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	return last_error;
}

RT(cudaGetDeviceCount, (int *count))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	if (!count)
		return fake_rt_end(cudaErrorInvalidValue);
	*count = N_DEVICES;
	return cudaSuccess;
}

RT(cudaGetDeviceProperties, (struct cudaDeviceProp * prop, int device))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	if (!prop || device < 0 || device >= N_DEVICES)
		return fake_rt_end(cudaErrorInvalidValue);
	memset(prop, 0, sizeof(*prop));
	memcpy(prop->name, "stand-in", sizeof("stand-in"));
	prop->totalGlobalMem = fake_memory_total();
	prop->major = 9;
	prop->multiProcessorCount = 132;
	return cudaSuccess;
}

RT(cudaDeviceGetAttribute, (int *value, enum cudaDeviceAttr attr, int device))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	if (!value || device < 0 || device >= N_DEVICES)
		return fake_rt_end(cudaErrorInvalidValue);
	*value = attr == cudaDevAttrMaxThreadsPerBlock ? 1024 : 0;
	return cudaSuccess;
}

RT(cudaFuncGetAttributes, (struct cudaFuncAttributes * attr, const void *func))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	if (!attr || !func)
		return fake_rt_end(cudaErrorInvalidValue);
	memset(attr, 0, sizeof(*attr));
	attr->maxThreadsPerBlock = 1024;
	attr->numRegs = 32;
	return cudaSuccess;
}

RT(cudaFuncSetAttribute, (const void *func, enum cudaFuncAttribute attr, int value))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	return fake_rt_end(func ? cudaSuccess : cudaErrorInvalidValue);
}

RT(cudaPointerGetAttributes, (struct cudaPointerAttributes * attributes, const void *ptr))
{
	bool ours;

	fake_begin(__func__, FAKE_COST_NONE, 0);
	if (!attributes || !ptr)
		return fake_rt_end(cudaErrorInvalidValue);
	ours = fake_kind_of((uint64_t)ptr) & FAKE_DEVICE;
	memset(attributes, 0, sizeof(*attributes));
	attributes->type = ours ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
	attributes->device = device_of_thread;
	attributes->devicePointer = ours ? (void *)ptr : NULL;
	return cudaSuccess;
}

RT(cudaMemGetInfo, (size_t * free, size_t *total))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	if (!free || !total)
		return fake_rt_end(cudaErrorInvalidValue);
	*free = fake_memory_left();
	*total = fake_memory_total();
	return cudaSuccess;
}

static cudaError_t occupancy(int *ret_blocks, const void *func, int block_threads)
{
	if (!ret_blocks || !func || block_threads < 1 || block_threads > 1024)
		return fake_rt_end(cudaErrorInvalidValue);
	*ret_blocks = 2048 / block_threads;
	return cudaSuccess;
}

RT(cudaOccupancyMaxActiveBlocksPerMultiprocessor,
   (int *numBlocks, const void *func, int blockSize, size_t dynamicSMemSize))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	return occupancy(numBlocks, func, blockSize);
}

RT(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
   (int *numBlocks, const void *func, int blockSize, size_t dynamicSMemSize, unsigned int flags))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	return occupancy(numBlocks, func, blockSize);
}
