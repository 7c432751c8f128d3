/* fake_app: the calls of the runtime that move no data: streams, events, waiting, modules, asking.
 */
#include "app.h"

#define APP_LIBRARY LIB_RT

static int put_stream(struct worker *w, int r, struct seen *s, const cudaStream_t *stream)
{
	s->stream = r == cudaSuccess ? (uint64_t)*stream : 0;
	r = app_put(w, RT_STREAM, r, s, (uint64_t)*stream);
	s->arg[0] = 0;
	return r;
}

CALL(cudaStreamCreate)
{
	cudaStream_t stream = NULL;

	return put_stream(w, DO(cudaStreamCreate)(w->bad ? NULL : &stream), s, &stream);
}

CALL(cudaStreamCreateWithFlags)
{
	cudaStream_t stream = NULL;

	s->aux = w->bad ? 99 : 1;
	return put_stream(w, DO(cudaStreamCreateWithFlags)(&stream, s->aux), s, &stream);
}

CALL(cudaStreamCreateWithPriority)
{
	cudaStream_t stream = NULL;

	s->aux = w->bad ? 99 : 1;
	return put_stream(w, DO(cudaStreamCreateWithPriority)(&stream, s->aux, -3), s, &stream);
}

CALL(cudaStreamDestroy)
{
	s->stream = w->bad ? UNKNOWN : app_take(w, RT_STREAM);
	return DO(cudaStreamDestroy)((cudaStream_t)s->stream);
}

CALL_TWIN(cudaStreamWaitEvent, _ptsz)
{
	s->stream = (uint64_t)handle_of(i);
	s->aux = i % 2;
	s->arg[0] = w->bad ? 0 : (uint64_t)handle_of(i + 1000);
	return DO(cudaStreamWaitEvent)(handle_of(i), (cudaEvent_t)s->arg[0], i % 2);
}

CALL_TWIN(cudaStreamBeginCapture, _ptsz)
{
	s->stream = (uint64_t)handle_of(i);
	s->aux = w->bad ? 9 : i % 3;
	return DO(cudaStreamBeginCapture)(handle_of(i), (enum cudaStreamCaptureMode)s->aux);
}

CALL_TWIN(cudaStreamBeginCaptureToGraph, _ptsz)
{
	s->stream = (uint64_t)handle_of(i);
	s->aux = i % 3;
	return DO(cudaStreamBeginCaptureToGraph)(handle_of(i), w->bad ? NULL : handle_of(5000 + i),
						 NULL, NULL, 0, (enum cudaStreamCaptureMode)s->aux);
}

CALL_TWIN(cudaStreamEndCapture, _ptsz)
{
	cudaGraph_t graph = NULL;
	int r = DO(cudaStreamEndCapture)(handle_of(i), w->bad ? NULL : &graph);

	s->stream = (uint64_t)handle_of(i);
	s->arg[1] = (uint64_t)&graph;
	return app_put(w, RT_GRAPH, r, s, (uint64_t)graph);
}

/* A stream that calls before made, else one that nobody made. */
static cudaStream_t stream_of(const struct worker *w, unsigned i, struct seen *s)
{
	uint64_t made = app_last(w, RT_STREAM);

	s->stream = w->bad ? (uint64_t)-1 : made ? made : (uint64_t)handle_of(i);
	return (cudaStream_t)s->stream;
}

CALL_TWIN(cudaStreamSynchronize, _ptsz)
{
	return DO(cudaStreamSynchronize)(stream_of(w, i, s));
}

CALL_TWIN(cudaStreamQuery, _ptsz)
{
	return DO(cudaStreamQuery)(stream_of(w, i, s));
}

CALL_TWIN(cudaStreamIsCapturing, _ptsz)
{
	enum cudaStreamCaptureStatus status;

	s->stream = (uint64_t)handle_of(i);
	return DO(cudaStreamIsCapturing)(handle_of(i), w->bad ? NULL : &status);
}

CALL_TWIN(cudaStreamGetCaptureInfo, _ptsz)
{
	enum cudaStreamCaptureStatus status;

	s->stream = (uint64_t)handle_of(i);
	return DO(cudaStreamGetCaptureInfo)(handle_of(i), w->bad ? NULL : &status, NULL, NULL, NULL,
					    NULL, NULL);
}

CALL(cudaEventCreate)
{
	cudaEvent_t event = NULL;
	int r = DO(cudaEventCreate)(w->bad ? NULL : &event);

	return app_put(w, RT_EVENT, r, s, (uint64_t)event);
}

CALL(cudaEventCreateWithFlags)
{
	cudaEvent_t event = NULL;

	s->aux = w->bad ? 99 : 2;
	return PUT(w, RT_EVENT, DO(cudaEventCreateWithFlags)(&event, s->aux), s, (uint64_t)event);
}

static cudaEvent_t event_of(const struct worker *w, struct seen *s)
{
	uint64_t made = app_last(w, RT_EVENT);

	s->arg[0] = w->bad ? 0 : made ? made : (uint64_t)handle_of(2000);
	return (cudaEvent_t)s->arg[0];
}

CALL_TWIN(cudaEventRecord, _ptsz)
{
	s->stream = (uint64_t)handle_of(i);
	return DO(cudaEventRecord)(event_of(w, s), handle_of(i));
}

CALL_TWIN(cudaEventRecordWithFlags, _ptsz)
{
	s->stream = (uint64_t)handle_of(i);
	s->aux = i % 2;
	return DO(cudaEventRecordWithFlags)(event_of(w, s), handle_of(i), i % 2);
}

CALL(cudaEventQuery)
{
	return DO(cudaEventQuery)(event_of(w, s));
}

CALL(cudaEventSynchronize)
{
	return DO(cudaEventSynchronize)(event_of(w, s));
}

CALL(cudaEventDestroy)
{
	s->arg[0] = w->bad ? UNKNOWN : app_take(w, RT_EVENT);
	return DO(cudaEventDestroy)((cudaEvent_t)s->arg[0]);
}

CALL(cudaEventElapsedTime)
{
	float ms;
	cudaEvent_t end = event_of(w, s);

	s->arg[0] = (uint64_t)handle_of(2001);
	s->arg[1] = (uint64_t)end;
	return DO(cudaEventElapsedTime)(&ms, (cudaEvent_t)handle_of(2001), end);
}

CALL(cudaDeviceSynchronize)
{
	return DO(cudaDeviceSynchronize)();
}

CALL(cudaSetDevice)
{
	s->aux = w->bad ? 99 : i % 8;
	return DO(cudaSetDevice)((int)s->aux);
}

CALL(cudaDeviceReset)
{
	return DO(cudaDeviceReset)();
}

CALL(cudaLibraryLoadData)
{
	cudaLibrary_t library = NULL;
	int r = DO(cudaLibraryLoadData)(&library, w->bad ? NULL : "image", NULL, NULL, 0, NULL,
					NULL, 0);

	return app_put(w, RT_LIBRARY, r, s, (uint64_t)library);
}

CALL(cudaLibraryLoadFromFile)
{
	cudaLibrary_t library = NULL;
	int r = DO(cudaLibraryLoadFromFile)(&library, w->bad ? NULL : "a.cubin", NULL, NULL, 0,
					    NULL, NULL, 0);

	return app_put(w, RT_LIBRARY, r, s, (uint64_t)library);
}

CALL(cudaLibraryUnload)
{
	s->arg[0] = w->bad ? UNKNOWN : app_take(w, RT_LIBRARY);
	return DO(cudaLibraryUnload)((cudaLibrary_t)s->arg[0]);
}

CALL_BODY(cudaLibraryGetKernel);
CALL_ROW(cudaLibraryGetKernel, call_cudaLibraryGetKernel, "cuLibraryGetKernel")
CALL_BODY(cudaLibraryGetKernel)
{
	cudaKernel_t kernel = NULL;
	int r = DO(cudaLibraryGetKernel)(&kernel, handle_of(5), w->bad ? NULL : "_Z6kernelPf");

	s->arg[1] = (uint64_t)handle_of(5);
	return app_put(w, RT_KERNEL, r, s, (uint64_t)kernel);
}

CALL(cudaGetKernel)
{
	cudaKernel_t kernel = NULL;
	int r = DO(cudaGetKernel)(&kernel, w->bad ? NULL : handle_of(6000 + i));

	s->arg[1] = w->bad ? 0 : (uint64_t)handle_of(6000 + i);
	return app_put(w, RT_KERNEL, r, s, (uint64_t)kernel);
}

CALL(cudaGetFuncBySymbol)
{
	cudaFunction_t kernel = NULL;
	int r = DO(cudaGetFuncBySymbol)(&kernel, w->bad ? NULL : handle_of(6000 + i));

	s->arg[1] = w->bad ? 0 : (uint64_t)handle_of(6000 + i);
	return app_put(w, RT_KERNEL, r, s, (uint64_t)kernel);
}

CALL(__cudaGetKernel)
{
	cudaKernel_t kernel = NULL;
	int r = DO(__cudaGetKernel)(&kernel, w->bad ? NULL : handle_of(6000 + i));

	s->arg[1] = w->bad ? 0 : (uint64_t)handle_of(6000 + i);
	return app_put(w, RT_KERNEL, r, s, (uint64_t)kernel);
}

CALL(cudaGraphInstantiate)
{
	cudaGraphExec_t exec = NULL;
	cudaGraph_t graph = w->bad ? NULL : handle_of(3000 + i);
	int r = DO(cudaGraphInstantiate)(&exec, graph, 0);

	s->arg[1] = (uint64_t)graph;
	return app_put(w, RT_EXEC, r, s, (uint64_t)exec);
}

CALL(cudaGraphInstantiateWithFlags)
{
	cudaGraphExec_t exec = NULL;
	cudaGraph_t graph = w->bad ? NULL : handle_of(4000 + i);
	int r = DO(cudaGraphInstantiateWithFlags)(&exec, graph, 4);

	s->aux = 4;
	s->arg[1] = (uint64_t)graph;
	return app_put(w, RT_EXEC, r, s, (uint64_t)exec);
}

CALL_TWIN(cudaGraphInstantiateWithParams, _ptsz)
{
	cudaGraphInstantiateParams params = {.flags = 4};
	cudaGraphExec_t exec = NULL;
	cudaGraph_t graph = w->bad ? NULL : handle_of(4500 + i);
	int r = DO(cudaGraphInstantiateWithParams)(&exec, graph, &params);

	s->arg[1] = (uint64_t)graph;
	return app_put(w, RT_EXEC, r, s, (uint64_t)exec);
}

CALL(cudaGraphExecUpdate)
{
	s->arg[0] = (uint64_t)handle_of(3000 + i);
	s->arg[1] = w->bad ? 0 : (uint64_t)handle_of(3500 + i);
	return DO(cudaGraphExecUpdate)((cudaGraphExec_t)s->arg[0], (cudaGraph_t)s->arg[1], NULL);
}

CALL(cudaGraphAddKernelNode)
{
	struct cudaKernelNodeParams params = {.func = handle_of(5 + i), .gridDim = {1, 1, 1}};
	int r;

	s->arg[1] = w->bad ? 0 : (uint64_t)handle_of(3500 + i);
	r = DO(cudaGraphAddKernelNode)(NULL, (cudaGraph_t)s->arg[1], NULL, 0, &params);
	s->arg[0] = r ? 0 : (uint64_t)params.func;
	return r;
}

CALL(cudaGraphAddChildGraphNode)
{
	s->arg[0] = (uint64_t)handle_of(3000 + i);
	s->arg[1] = w->bad ? 0 : (uint64_t)handle_of(3500 + i);
	return DO(cudaGraphAddChildGraphNode)(NULL, (cudaGraph_t)s->arg[1], NULL, 0,
					      (cudaGraph_t)s->arg[0]);
}

CALL(cudaGraphClone)
{
	cudaGraph_t graph = NULL;
	int r = DO(cudaGraphClone)(&graph, w->bad ? NULL : handle_of(3500 + i));

	s->arg[1] = w->bad ? 0 : (uint64_t)handle_of(3500 + i);
	return app_put(w, RT_GRAPH, r, s, (uint64_t)graph);
}

CALL(cudaGraphDestroy)
{
	s->arg[0] = w->bad ? UNKNOWN : app_take(w, RT_GRAPH);
	return DO(cudaGraphDestroy)((cudaGraph_t)s->arg[0]);
}

CALL(cudaGraphExecDestroy)
{
	s->arg[0] = w->bad ? UNKNOWN : app_take(w, RT_EXEC);
	return DO(cudaGraphExecDestroy)((cudaGraphExec_t)s->arg[0]);
}

CALL(cudaGetDevice)
{
	int device;

	return DO(cudaGetDevice)(w->bad ? NULL : &device);
}

/* The error of the call before is no error of this one, but it is what it returns: it fails only
 * where a bad call precedes it in the list. */
CALL(cudaGetLastError)
{
	return DO(cudaGetLastError)();
}

CALL(cudaPeekAtLastError)
{
	return DO(cudaPeekAtLastError)();
}

CALL(cudaGetDeviceCount)
{
	int count;

	return DO(cudaGetDeviceCount)(w->bad ? NULL : &count);
}

CALL(cudaGetDeviceProperties)
{
	struct cudaDeviceProp prop;

	return DO(cudaGetDeviceProperties)(&prop, w->bad ? 99 : 0);
}

CALL(cudaDeviceGetAttribute)
{
	int value;

	return DO(cudaDeviceGetAttribute)(&value, cudaDevAttrMaxThreadsPerBlock, w->bad ? 99 : 0);
}

CALL(cudaFuncGetAttributes)
{
	struct cudaFuncAttributes attr;

	return DO(cudaFuncGetAttributes)(&attr, w->bad ? NULL : handle_of(9));
}

CALL(cudaFuncSetAttribute)
{
	return DO(cudaFuncSetAttribute)(w->bad ? NULL : handle_of(9),
					cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 16);
}

CALL(cudaPointerGetAttributes)
{
	struct cudaPointerAttributes attributes;

	return DO(cudaPointerGetAttributes)(&attributes, w->bad ? NULL : device_ptr(i));
}

CALL(cudaMemGetInfo)
{
	size_t free_bytes, total_bytes;

	return DO(cudaMemGetInfo)(w->bad ? NULL : &free_bytes, &total_bytes);
}

CALL(cudaOccupancyMaxActiveBlocksPerMultiprocessor)
{
	int blocks;

	return DO(cudaOccupancyMaxActiveBlocksPerMultiprocessor)(&blocks, handle_of(9),
								 w->bad ? 4096 : 128, 0);
}

CALL(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)
{
	int blocks;

	return DO(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)(
		&blocks, handle_of(9), w->bad ? 4096 : 128, 0, 0);
}
