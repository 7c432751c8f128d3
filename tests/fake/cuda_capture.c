/* Memory operations of streams, capture, graphs and the functions that go with them, of the
 * driver's stand-in. Nothing is captured: whoever asks hears so. */
#include "cuda_drv.h"

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

/* Words of memory that a stream writes or waits for: nothing is written, nothing waits. */
#define MEM_OP(name, type)                                                                         \
	DRV_PTSZ(name, (CUstream stream, CUdeviceptr addr, type value, unsigned int flags),        \
		 (stream, addr, value, flags))                                                     \
	{                                                                                          \
		fake_begin(__func__, FAKE_COST_EVENT, 0);                                          \
		return addr && addr % sizeof(type) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; \
	}

MEM_OP(cuStreamWriteValue32, cuuint32_t)
MEM_OP(cuStreamWriteValue32_v2, cuuint32_t)
MEM_OP(cuStreamWriteValue64, cuuint64_t)
MEM_OP(cuStreamWriteValue64_v2, cuuint64_t)
MEM_OP(cuStreamWaitValue32, cuuint32_t)
MEM_OP(cuStreamWaitValue32_v2, cuuint32_t)
MEM_OP(cuStreamWaitValue64, cuuint64_t)
MEM_OP(cuStreamWaitValue64_v2, cuuint64_t)

DRV_PTSZ(cuStreamBatchMemOp,
	 (CUstream stream, unsigned int count, CUstreamBatchMemOpParams *paramArray,
	  unsigned int flags),
	 (stream, count, paramArray, flags))
{
	fake_begin(__func__, FAKE_COST_EVENT, 0);
	return paramArray ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

DRV_PTSZ(cuStreamBatchMemOp_v2,
	 (CUstream stream, unsigned int count, CUstreamBatchMemOpParams *paramArray,
	  unsigned int flags),
	 (stream, count, paramArray, flags))
{
	fake_begin(__func__, FAKE_COST_EVENT, 0);
	return paramArray ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

DRV_PTSZ(cuStreamBeginCapture, (CUstream hStream), (hStream))
{
	fake_begin(__func__, FAKE_COST_EVENT, 0);
	return hStream == FAKE_NO_HANDLE ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

DRV_PTSZ(cuStreamBeginCapture_v2, (CUstream hStream, CUstreamCaptureMode mode), (hStream, mode))
{
	fake_begin(__func__, FAKE_COST_EVENT, 0);
	return (unsigned)mode > 2 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

DRV_PTSZ(cuStreamBeginCaptureToGraph,
	 (CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies,
	  const CUgraphEdgeData *dependencyData, size_t numDependencies, CUstreamCaptureMode mode),
	 (hStream, hGraph, dependencies, dependencyData, numDependencies, mode))
{
	fake_begin(__func__, FAKE_COST_EVENT, 0);
	return !hGraph || (unsigned)mode > 2 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

DRV_PTSZ(cuStreamEndCapture, (CUstream hStream, CUgraph *phGraph), (hStream, phGraph))
{
	fake_begin(__func__, FAKE_COST_EVENT, 0);
	return give(FAKE_GRAPH, (void **)phGraph);
}

static CUresult not_capturing(CUstreamCaptureStatus *ret_status)
{
	if (!ret_status)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_status = CU_STREAM_CAPTURE_STATUS_NONE;
	return CUDA_SUCCESS;
}

DRV_PTSZ(cuStreamIsCapturing, (CUstream hStream, CUstreamCaptureStatus *captureStatus),
	 (hStream, captureStatus))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	return not_capturing(captureStatus);
}

DRV_PTSZ(cuStreamGetCaptureInfo,
	 (CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out),
	 (hStream, captureStatus_out, id_out))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	return not_capturing(captureStatus_out);
}

DRV_PTSZ(cuStreamGetCaptureInfo_v2,
	 (CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out,
	  CUgraph *graph_out, const CUgraphNode **dependencies_out, size_t *numDependencies_out),
	 (hStream, captureStatus_out, id_out, graph_out, dependencies_out, numDependencies_out))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	return not_capturing(captureStatus_out);
}

DRV_PTSZ(cuStreamGetCaptureInfo_v3,
	 (CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out,
	  CUgraph *graph_out, const CUgraphNode **dependencies_out,
	  const CUgraphEdgeData **edgeData_out, size_t *numDependencies_out),
	 (hStream, captureStatus_out, id_out, graph_out, dependencies_out, edgeData_out,
	  numDependencies_out))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	return not_capturing(captureStatus_out);
}

static CUresult elapsed(float *ret_ms, const struct CUevent_st *from, const struct CUevent_st *to)
{
	int r;

	if (!ret_ms || !from || !to)
		return CUDA_ERROR_INVALID_HANDLE;
	r = fake_query(to);
	if (r == FAKE_OK)
		*ret_ms = 0.5f;
	return (CUresult)r;
}

DRV(cuEventElapsedTime, (float *pMilliseconds, CUevent hStart, CUevent hEnd))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	return elapsed(pMilliseconds, hStart, hEnd);
}

DRV(cuEventElapsedTime_v2, (float *pMilliseconds, CUevent hStart, CUevent hEnd))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	return elapsed(pMilliseconds, hStart, hEnd);
}

DRV(cuCtxSynchronize_v2, (CUcontext ctx))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	fake_wait();
	return ctx == FAKE_NO_HANDLE ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

static CUresult instantiate(CUgraphExec *ret_exec, const struct CUgraph_st *graph)
{
	return graph ? give(FAKE_GRAPH_EXEC, (void **)ret_exec) : CUDA_ERROR_INVALID_VALUE;
}

DRV(cuGraphInstantiate, (CUgraphExec * phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode,
			 char *logBuffer, size_t bufferSize))
{
	fake_begin(__func__, FAKE_COST_MODULE, 0);
	return instantiate(phGraphExec, hGraph);
}

DRV(cuGraphInstantiate_v2, (CUgraphExec * phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode,
			    char *logBuffer, size_t bufferSize))
{
	fake_begin(__func__, FAKE_COST_MODULE, 0);
	return instantiate(phGraphExec, hGraph);
}

DRV(cuGraphInstantiateWithFlags,
    (CUgraphExec * phGraphExec, CUgraph hGraph, unsigned long long flags))
{
	fake_begin(__func__, FAKE_COST_MODULE, 0);
	return instantiate(phGraphExec, hGraph);
}

DRV_PTSZ(cuGraphInstantiateWithParams,
	 (CUgraphExec * phGraphExec, CUgraph hGraph,
	  CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams),
	 (phGraphExec, hGraph, instantiateParams))
{
	fake_begin(__func__, FAKE_COST_MODULE, 0);
	return instantiateParams ? instantiate(phGraphExec, hGraph) : CUDA_ERROR_INVALID_VALUE;
}

DRV(cuGraphExecUpdate, (CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode *hErrorNode_out,
			CUgraphExecUpdateResult *updateResult_out))
{
	fake_begin(__func__, FAKE_COST_MODULE, 0);
	return hGraphExec && hGraph ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

DRV(cuGraphExecUpdate_v2,
    (CUgraphExec hGraphExec, CUgraph hGraph, CUgraphExecUpdateResultInfo *resultInfo))
{
	fake_begin(__func__, FAKE_COST_MODULE, 0);
	return hGraphExec && hGraph ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

DRV(cuGraphAddKernelNode,
    (CUgraphNode * phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
     size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams))
{
	fake_begin(__func__, FAKE_COST_MODULE, 0);
	return hGraph && nodeParams ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

DRV(cuGraphAddKernelNode_v2,
    (CUgraphNode * phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
     size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS_v2 *nodeParams))
{
	fake_begin(__func__, FAKE_COST_MODULE, 0);
	return hGraph && nodeParams ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

DRV(cuGraphAddChildGraphNode,
    (CUgraphNode * phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
     size_t numDependencies, CUgraph childGraph))
{
	fake_begin(__func__, FAKE_COST_MODULE, 0);
	return hGraph && childGraph ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

DRV(cuGraphClone, (CUgraph * phGraphClone, CUgraph originalGraph))
{
	fake_begin(__func__, FAKE_COST_MODULE, 0);
	return originalGraph ? give(FAKE_GRAPH, (void **)phGraphClone) : CUDA_ERROR_INVALID_VALUE;
}

DRV(cuGraphDestroy, (CUgraph hGraph))
{
	fake_begin(__func__, FAKE_COST_ALLOC_ASYNC, 0);
	return (CUresult)fake_free(FAKE_GRAPH, (uint64_t)hGraph);
}

DRV(cuGraphExecDestroy, (CUgraphExec hGraphExec))
{
	fake_begin(__func__, FAKE_COST_ALLOC_ASYNC, 0);
	return (CUresult)fake_free(FAKE_GRAPH_EXEC, (uint64_t)hGraphExec);
}
