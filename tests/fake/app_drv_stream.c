/* fake_app: the calls of the driver that move no data. */
#include "app.h"

#define APP_LIBRARY LIB_DRV

static int put_stream(struct worker *w, int r, struct seen *s, const CUstream *stream)
{
	s->stream = r == CUDA_SUCCESS ? (uint64_t)*stream : 0;
	r = app_put(w, DRV_STREAM, r, s, (uint64_t)*stream);
	s->arg[0] = 0;
	return r;
}

CALL(cuStreamCreate)
{
	CUstream stream = NULL;

	s->aux = w->bad ? 99 : 1;
	return put_stream(w, DO(cuStreamCreate)(&stream, s->aux), s, &stream);
}

CALL(cuStreamCreateWithPriority)
{
	CUstream stream = NULL;

	s->aux = w->bad ? 99 : 1;
	return put_stream(w, DO(cuStreamCreateWithPriority)(&stream, s->aux, -3), s, &stream);
}

CALL(cuStreamDestroy)
{
	s->stream = w->bad ? UNKNOWN : app_take(w, DRV_STREAM);
	return DO(cuStreamDestroy)((CUstream)s->stream);
}

CALL(cuStreamDestroy_v2)
{
	s->stream = w->bad ? UNKNOWN : app_take(w, DRV_STREAM);
	return DO(cuStreamDestroy_v2)((CUstream)s->stream);
}

CALL_TWIN(cuStreamWaitEvent, _ptsz)
{
	s->stream = (uint64_t)handle_of(i);
	s->aux = i % 2;
	s->arg[0] = w->bad ? 0 : (uint64_t)handle_of(i + 1000);
	return DO(cuStreamWaitEvent)(handle_of(i), (CUevent)s->arg[0], i % 2);
}

static CUstream stream_of(const struct worker *w, unsigned i, struct seen *s)
{
	uint64_t made = app_last(w, DRV_STREAM);

	s->stream = w->bad ? (uint64_t)-1 : made ? made : (uint64_t)handle_of(i);
	return (CUstream)s->stream;
}

CALL_TWIN(cuStreamSynchronize, _ptsz)
{
	return DO(cuStreamSynchronize)(stream_of(w, i, s));
}

CALL_TWIN(cuStreamQuery, _ptsz)
{
	return DO(cuStreamQuery)(stream_of(w, i, s));
}

CALL_TWIN(cuStreamIsCapturing, _ptsz)
{
	CUstreamCaptureStatus status;

	s->stream = (uint64_t)handle_of(i);
	return DO(cuStreamIsCapturing)(handle_of(i), w->bad ? NULL : &status);
}

CALL(cuEventCreate)
{
	CUevent event = NULL;

	s->aux = w->bad ? 99 : 2;
	return PUT(w, DRV_EVENT, DO(cuEventCreate)(&event, s->aux), s, (uint64_t)event);
}

static CUevent event_of(const struct worker *w, struct seen *s)
{
	uint64_t made = app_last(w, DRV_EVENT);

	s->arg[0] = w->bad ? 0 : made ? made : (uint64_t)handle_of(2000);
	return (CUevent)s->arg[0];
}

CALL_TWIN(cuEventRecord, _ptsz)
{
	s->stream = (uint64_t)handle_of(i);
	return DO(cuEventRecord)(event_of(w, s), handle_of(i));
}

CALL_TWIN(cuEventRecordWithFlags, _ptsz)
{
	s->stream = (uint64_t)handle_of(i);
	s->aux = i % 2;
	return DO(cuEventRecordWithFlags)(event_of(w, s), handle_of(i), i % 2);
}

CALL(cuEventQuery)
{
	return DO(cuEventQuery)(event_of(w, s));
}

CALL(cuEventSynchronize)
{
	return DO(cuEventSynchronize)(event_of(w, s));
}

CALL(cuEventDestroy)
{
	s->arg[0] = w->bad ? UNKNOWN : app_take(w, DRV_EVENT);
	return DO(cuEventDestroy)((CUevent)s->arg[0]);
}

CALL(cuEventDestroy_v2)
{
	s->arg[0] = w->bad ? UNKNOWN : app_take(w, DRV_EVENT);
	return DO(cuEventDestroy_v2)((CUevent)s->arg[0]);
}

CALL(cuCtxSynchronize)
{
	return DO(cuCtxSynchronize)();
}

CALL(cuModuleLoad)
{
	CUmodule module = NULL;
	int r = DO(cuModuleLoad)(&module, w->bad ? NULL : "a.cubin");

	return app_put(w, DRV_MODULE, r, s, (uint64_t)module);
}

CALL(cuModuleLoadData)
{
	CUmodule module = NULL;
	int r = DO(cuModuleLoadData)(&module, w->bad ? NULL : "image");

	return app_put(w, DRV_MODULE, r, s, (uint64_t)module);
}

CALL(cuModuleLoadDataEx)
{
	CUmodule module = NULL;
	int r = DO(cuModuleLoadDataEx)(&module, w->bad ? NULL : "image", 0, NULL, NULL);

	return app_put(w, DRV_MODULE, r, s, (uint64_t)module);
}

CALL(cuModuleLoadFatBinary)
{
	CUmodule module = NULL;
	int r = DO(cuModuleLoadFatBinary)(&module, w->bad ? NULL : "image");

	return app_put(w, DRV_MODULE, r, s, (uint64_t)module);
}

CALL(cuModuleUnload)
{
	s->arg[0] = w->bad ? UNKNOWN : app_take(w, DRV_MODULE);
	return DO(cuModuleUnload)((CUmodule)s->arg[0]);
}

CALL(cuModuleGetFunction)
{
	CUfunction function = NULL;
	int r = DO(cuModuleGetFunction)(&function, handle_of(5), w->bad ? NULL : "_Z6kernelPf");

	s->arg[1] = (uint64_t)handle_of(5);
	return app_put(w, DRV_KERNEL, r, s, (uint64_t)function);
}

CALL(cuFuncGetName)
{
	const char *name;

	s->arg[0] = w->bad ? 0 : (uint64_t)handle_of(6000 + i);
	return DO(cuFuncGetName)(&name, (CUfunction)s->arg[0]);
}

CALL(cuKernelGetName)
{
	const char *name;

	s->arg[0] = w->bad ? 0 : (uint64_t)handle_of(6000 + i);
	return DO(cuKernelGetName)(&name, (CUkernel)s->arg[0]);
}

CALL(cuLibraryGetKernel)
{
	CUkernel kernel = NULL;
	int r = DO(cuLibraryGetKernel)(&kernel, handle_of(5), w->bad ? NULL : "_Z6kernelPf");

	s->arg[1] = (uint64_t)handle_of(5);
	return app_put(w, DRV_KERNEL, r, s, (uint64_t)kernel);
}

CALL(cuKernelGetFunction)
{
	CUfunction function = NULL;
	int r = DO(cuKernelGetFunction)(&function, w->bad ? NULL : handle_of(6000 + i));

	s->arg[1] = w->bad ? 0 : (uint64_t)handle_of(6000 + i);
	return app_put(w, DRV_KERNEL, r, s, (uint64_t)function);
}

CALL(cuLibraryLoadData)
{
	CUlibrary library = NULL;
	int r = DO(cuLibraryLoadData)(&library, w->bad ? NULL : "image", NULL, NULL, 0, NULL, NULL,
				      0);

	return app_put(w, DRV_LIBRARY, r, s, (uint64_t)library);
}

CALL(cuLibraryLoadFromFile)
{
	CUlibrary library = NULL;
	int r = DO(cuLibraryLoadFromFile)(&library, w->bad ? NULL : "a.cubin", NULL, NULL, 0, NULL,
					  NULL, 0);

	return app_put(w, DRV_LIBRARY, r, s, (uint64_t)library);
}

CALL(cuLibraryUnload)
{
	s->arg[0] = w->bad ? UNKNOWN : app_take(w, DRV_LIBRARY);
	return DO(cuLibraryUnload)((CUlibrary)s->arg[0]);
}

CALL(cuCtxGetCurrent)
{
	CUcontext context;

	return DO(cuCtxGetCurrent)(w->bad ? NULL : &context);
}

CALL(cuCtxSetCurrent)
{
	s->arg[0] = (uint64_t)handle_of(1);
	return DO(cuCtxSetCurrent)(handle_of(1));
}

#define PUSH_CONTEXT(name)                                                                         \
	CALL(name)                                                                                 \
	{                                                                                          \
		s->arg[0] = w->bad ? 0 : (uint64_t)handle_of(1);                                   \
		return DO(name)((CUcontext)s->arg[0]);                                             \
	}

PUSH_CONTEXT(cuCtxPushCurrent)
PUSH_CONTEXT(cuCtxPushCurrent_v2)
PUSH_CONTEXT(cuCtxDestroy)
PUSH_CONTEXT(cuCtxDestroy_v2)

CALL(cuCtxPopCurrent)
{
	CUcontext context;

	return DO(cuCtxPopCurrent)(&context);
}

CALL(cuCtxPopCurrent_v2)
{
	CUcontext context;

	return DO(cuCtxPopCurrent_v2)(&context);
}

CALL(cuCtxCreate)
{
	CUcontext context = NULL;
	int r;

	s->aux = w->bad ? 99 : i % 8;
	s->arg[1] = (uint64_t)&context;
	r = DO(cuCtxCreate)(&context, 0, (CUdevice)s->aux);
	return app_put(w, DRV_CONTEXT, r, s, (uint64_t)context);
}

CALL(cuCtxCreate_v2)
{
	CUcontext context = NULL;
	int r;

	s->aux = w->bad ? 99 : i % 8;
	s->arg[1] = (uint64_t)&context;
	r = DO(cuCtxCreate_v2)(&context, 0, (CUdevice)s->aux);
	return app_put(w, DRV_CONTEXT, r, s, (uint64_t)context);
}

CALL(cuCtxCreate_v3)
{
	CUcontext context = NULL;
	int r;

	s->aux = w->bad ? 99 : i % 8;
	s->arg[1] = (uint64_t)&context;
	r = DO(cuCtxCreate_v3)(&context, NULL, 0, 0, (CUdevice)s->aux);
	return app_put(w, DRV_CONTEXT, r, s, (uint64_t)context);
}

CALL(cuCtxCreate_v4)
{
	CUcontext context = NULL;
	int r;

	s->aux = w->bad ? 99 : i % 8;
	s->arg[1] = (uint64_t)&context;
	r = DO(cuCtxCreate_v4)(&context, NULL, 0, (CUdevice)s->aux);
	return app_put(w, DRV_CONTEXT, r, s, (uint64_t)context);
}

CALL(cuDevicePrimaryCtxRetain)
{
	CUcontext context = NULL;
	int r;

	s->aux = w->bad ? 99 : i % 8;
	s->arg[1] = (uint64_t)&context;
	r = DO(cuDevicePrimaryCtxRetain)(&context, (CUdevice)s->aux);
	return app_put(w, DRV_CONTEXT, r, s, (uint64_t)context);
}

CALL(cuCtxGetDevice)
{
	CUdevice device;

	return DO(cuCtxGetDevice)(w->bad ? NULL : &device);
}

CALL(cuDevicePrimaryCtxReset)
{
	return DO(cuDevicePrimaryCtxReset)(w->bad ? 99 : 0);
}

CALL(cuDevicePrimaryCtxReset_v2)
{
	return DO(cuDevicePrimaryCtxReset_v2)(w->bad ? 99 : 0);
}

CALL(cuDevicePrimaryCtxGetState)
{
	unsigned int flags;
	int active;

	return DO(cuDevicePrimaryCtxGetState)(w->bad ? 99 : 0, &flags, &active);
}

/* Asking for what this library did not give out fails: the list must allocate first. */
CALL(cuPointerGetAttribute)
{
	unsigned int type;
	uint64_t p = w->bad ? UNKNOWN : app_last(w, DRV_DEVICE);

	return DO(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p);
}

CALL(cuPointerGetAttributes)
{
	CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
	unsigned int type;
	void *data[1] = {&type};

	return DO(cuPointerGetAttributes)(1, w->bad ? NULL : &attribute, data, 0);
}

CALL(cuFuncGetAttribute)
{
	int value;

	return DO(cuFuncGetAttribute)(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
				      w->bad ? NULL : handle_of(19));
}

CALL(cuMemGetInfo_v2)
{
	size_t free_bytes, total_bytes;

	return DO(cuMemGetInfo_v2)(w->bad ? NULL : &free_bytes, &total_bytes);
}

/* A word of memory for the operations of streams. */
static CUdeviceptr word_of(const struct worker *w, unsigned i, struct seen *s)
{
	s->stream = (uint64_t)handle_of(i);
	s->aux = i % 3;
	return w->bad ? 0 : (CUdeviceptr)device_ptr(i);
}

CALL_TWIN(cuStreamWriteValue32, _ptsz)
{
	return DO(cuStreamWriteValue32)(handle_of(i), word_of(w, i, s), 0x100 + i, i % 3);
}

CALL_TWIN(cuStreamWriteValue32_v2, _ptsz)
{
	return DO(cuStreamWriteValue32_v2)(handle_of(i), word_of(w, i, s), 0x100 + i, i % 3);
}

CALL_TWIN(cuStreamWriteValue64, _ptsz)
{
	return DO(cuStreamWriteValue64)(handle_of(i), word_of(w, i, s), 0x100 + i, i % 3);
}

CALL_TWIN(cuStreamWriteValue64_v2, _ptsz)
{
	return DO(cuStreamWriteValue64_v2)(handle_of(i), word_of(w, i, s), 0x100 + i, i % 3);
}

CALL_TWIN(cuStreamWaitValue32, _ptsz)
{
	return DO(cuStreamWaitValue32)(handle_of(i), word_of(w, i, s), 0x200 + i, i % 3);
}

CALL_TWIN(cuStreamWaitValue32_v2, _ptsz)
{
	return DO(cuStreamWaitValue32_v2)(handle_of(i), word_of(w, i, s), 0x200 + i, i % 3);
}

CALL_TWIN(cuStreamWaitValue64, _ptsz)
{
	return DO(cuStreamWaitValue64)(handle_of(i), word_of(w, i, s), 0x200 + i, i % 3);
}

CALL_TWIN(cuStreamWaitValue64_v2, _ptsz)
{
	return DO(cuStreamWaitValue64_v2)(handle_of(i), word_of(w, i, s), 0x200 + i, i % 3);
}

CALL_TWIN(cuStreamBatchMemOp, _ptsz)
{
	CUstreamBatchMemOpParams ops[2] = {{1}, {2}};

	s->stream = (uint64_t)handle_of(i);
	s->aux = i % 2;
	return DO(cuStreamBatchMemOp)(handle_of(i), 2, w->bad ? NULL : ops, i % 2);
}

CALL_TWIN(cuStreamBatchMemOp_v2, _ptsz)
{
	CUstreamBatchMemOpParams ops[2] = {{1}, {2}};

	s->stream = (uint64_t)handle_of(i);
	s->aux = i % 2;
	return DO(cuStreamBatchMemOp_v2)(handle_of(i), 2, w->bad ? NULL : ops, i % 2);
}

CALL_TWIN(cuStreamBeginCapture, _ptsz)
{
	s->stream = w->bad ? (uint64_t)-1 : (uint64_t)handle_of(i);
	return DO(cuStreamBeginCapture)((CUstream)s->stream);
}

CALL_TWIN(cuStreamBeginCapture_v2, _ptsz)
{
	s->stream = (uint64_t)handle_of(i);
	s->aux = w->bad ? 9 : i % 3;
	return DO(cuStreamBeginCapture_v2)(handle_of(i), (CUstreamCaptureMode)s->aux);
}

CALL_TWIN(cuStreamBeginCaptureToGraph, _ptsz)
{
	s->stream = (uint64_t)handle_of(i);
	s->aux = i % 3;
	return DO(cuStreamBeginCaptureToGraph)(handle_of(i), w->bad ? NULL : handle_of(5000 + i),
					       NULL, NULL, 0, (CUstreamCaptureMode)s->aux);
}

CALL_TWIN(cuStreamEndCapture, _ptsz)
{
	CUgraph graph = NULL;
	int r = DO(cuStreamEndCapture)(handle_of(i), w->bad ? NULL : &graph);

	s->stream = (uint64_t)handle_of(i);
	s->arg[1] = (uint64_t)&graph;
	return app_put(w, DRV_GRAPH, r, s, (uint64_t)graph);
}

CALL_TWIN(cuStreamGetCaptureInfo, _ptsz)
{
	CUstreamCaptureStatus status;

	s->stream = (uint64_t)handle_of(i);
	return DO(cuStreamGetCaptureInfo)(handle_of(i), w->bad ? NULL : &status, NULL);
}

CALL_TWIN(cuStreamGetCaptureInfo_v2, _ptsz)
{
	CUstreamCaptureStatus status;

	s->stream = (uint64_t)handle_of(i);
	return DO(cuStreamGetCaptureInfo_v2)(handle_of(i), w->bad ? NULL : &status, NULL, NULL,
					     NULL, NULL);
}

CALL_TWIN(cuStreamGetCaptureInfo_v3, _ptsz)
{
	CUstreamCaptureStatus status;

	s->stream = (uint64_t)handle_of(i);
	return DO(cuStreamGetCaptureInfo_v3)(handle_of(i), w->bad ? NULL : &status, NULL, NULL,
					     NULL, NULL, NULL);
}

CALL(cuEventElapsedTime)
{
	CUevent end = event_of(w, s);
	float ms;

	s->arg[0] = (uint64_t)handle_of(2001);
	s->arg[1] = (uint64_t)end;
	return DO(cuEventElapsedTime)(&ms, (CUevent)handle_of(2001), end);
}

CALL(cuEventElapsedTime_v2)
{
	CUevent end = event_of(w, s);
	float ms;

	s->arg[0] = (uint64_t)handle_of(2001);
	s->arg[1] = (uint64_t)end;
	return DO(cuEventElapsedTime_v2)(&ms, (CUevent)handle_of(2001), end);
}

CALL(cuCtxSynchronize_v2)
{
	s->arg[1] = w->bad ? (uint64_t)-1 : (uint64_t)handle_of(1);
	return DO(cuCtxSynchronize_v2)((CUcontext)s->arg[1]);
}

static CUgraph graph_of(const struct worker *w, unsigned i, struct seen *s)
{
	s->arg[1] = w->bad ? 0 : (uint64_t)handle_of(6000 + i);
	return (CUgraph)s->arg[1];
}

CALL(cuGraphInstantiate)
{
	CUgraphExec exec = NULL;
	int r = DO(cuGraphInstantiate)(&exec, graph_of(w, i, s), NULL, NULL, 0);

	return app_put(w, DRV_EXEC, r, s, (uint64_t)exec);
}

CALL(cuGraphInstantiate_v2)
{
	CUgraphExec exec = NULL;
	int r = DO(cuGraphInstantiate_v2)(&exec, graph_of(w, i, s), NULL, NULL, 0);

	return app_put(w, DRV_EXEC, r, s, (uint64_t)exec);
}

CALL(cuGraphInstantiateWithFlags)
{
	CUgraphExec exec = NULL;
	int r = DO(cuGraphInstantiateWithFlags)(&exec, graph_of(w, i, s), 4);

	s->aux = 4;
	return app_put(w, DRV_EXEC, r, s, (uint64_t)exec);
}

CALL_TWIN(cuGraphInstantiateWithParams, _ptsz)
{
	CUDA_GRAPH_INSTANTIATE_PARAMS params = {.flags = 4};
	CUgraphExec exec = NULL;
	int r = DO(cuGraphInstantiateWithParams)(&exec, graph_of(w, i, s), &params);

	return app_put(w, DRV_EXEC, r, s, (uint64_t)exec);
}

CALL(cuGraphExecUpdate)
{
	s->arg[0] = (uint64_t)handle_of(3000 + i);
	return DO(cuGraphExecUpdate)((CUgraphExec)s->arg[0], graph_of(w, i, s), NULL, NULL);
}

CALL(cuGraphExecUpdate_v2)
{
	s->arg[0] = (uint64_t)handle_of(3000 + i);
	return DO(cuGraphExecUpdate_v2)((CUgraphExec)s->arg[0], graph_of(w, i, s), NULL);
}

CALL(cuGraphAddKernelNode)
{
	CUDA_KERNEL_NODE_PARAMS_v1 params = {.func = handle_of(5 + i), .gridDimX = 1};
	int r = DO(cuGraphAddKernelNode)(NULL, graph_of(w, i, s), NULL, 0, &params);

	s->arg[0] = r ? 0 : (uint64_t)params.func;
	return r;
}

CALL(cuGraphAddKernelNode_v2)
{
	CUDA_KERNEL_NODE_PARAMS_v2 params = {.func = handle_of(5 + i), .gridDimX = 1};
	int r = DO(cuGraphAddKernelNode_v2)(NULL, graph_of(w, i, s), NULL, 0, &params);

	s->arg[0] = r ? 0 : (uint64_t)params.func;
	return r;
}

CALL(cuGraphAddChildGraphNode)
{
	s->arg[0] = (uint64_t)handle_of(3000 + i);
	return DO(cuGraphAddChildGraphNode)(NULL, graph_of(w, i, s), NULL, 0, (CUgraph)s->arg[0]);
}

CALL(cuGraphClone)
{
	CUgraph graph = NULL;
	int r = DO(cuGraphClone)(&graph, graph_of(w, i, s));

	return app_put(w, DRV_GRAPH, r, s, (uint64_t)graph);
}

CALL(cuGraphDestroy)
{
	s->arg[0] = w->bad ? UNKNOWN : app_take(w, DRV_GRAPH);
	return DO(cuGraphDestroy)((CUgraph)s->arg[0]);
}

CALL(cuGraphExecDestroy)
{
	s->arg[0] = w->bad ? UNKNOWN : app_take(w, DRV_EXEC);
	return DO(cuGraphExecDestroy)((CUgraphExec)s->arg[0]);
}
