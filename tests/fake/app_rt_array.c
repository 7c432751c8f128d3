/* fake_app: the calls of the runtime about arrays, batches of copies, peers, prefetches and memory
 * of other processes. */
#include "app.h"

#define APP_LIBRARY LIB_RT

static const struct cudaChannelFormatDesc half4 = {16, 16, 16, 16, cudaChannelFormatKindFloat};

CALL(cudaMalloc3DArray)
{
	struct cudaExtent extent = {w->bad ? 0 : 50 + i, i % 2 * 3, i % 3 * 5};
	cudaArray_t array = NULL;
	int r = DO(cudaMalloc3DArray)(&array, &half4, extent, 1);

	s->bytes = extent.width * (extent.height ? extent.height : 1) *
		   (extent.depth ? extent.depth : 1) * 8;
	s->aux = 1;
	return app_put(w, RT_ARRAY, r, s, (uint64_t)array);
}

/* 64 x 16 x 4 in 3 levels; every other one in layers, which all levels have. */
CALL(cudaMallocMipmappedArray)
{
	cudaMipmappedArray_t array = NULL;
	struct cudaExtent extent = {w->bad ? 0 : 64, 16, 4};
	unsigned flags = i % 2; /* cudaArrayLayered */
	int r = DO(cudaMallocMipmappedArray)(&array, &half4, extent, 3, flags);

	s->bytes = flags ? (64 * 16 + 32 * 8 + 16 * 4) * 4 * 8
			 : (64 * 16 * 4 + 32 * 8 * 2 + 16 * 4) * 8;
	if (w->bad)
		s->bytes = 0;
	s->aux = flags;
	return app_put(w, RT_MIPMAPPED, r, s, (uint64_t)array);
}

CALL(cudaFreeMipmappedArray)
{
	s->arg[0] = w->bad ? UNKNOWN : app_take(w, RT_MIPMAPPED);
	return DO(cudaFreeMipmappedArray)((cudaMipmappedArray_t)s->arg[0]);
}

CALL(cudaIpcOpenMemHandle)
{
	cudaIpcMemHandle_t handle = {{w->bad ? 0 : 7}};
	void *p = NULL;
	int r = DO(cudaIpcOpenMemHandle)(&p, handle, 1);

	s->aux = 1;
	return app_put(w, RT_MAPPED, r, s, (uint64_t)p);
}

CALL(cudaIpcCloseMemHandle)
{
	s->arg[0] = w->bad ? UNKNOWN : app_take(w, RT_MAPPED);
	return DO(cudaIpcCloseMemHandle)((void *)s->arg[0]);
}

enum { ANY = 4, PEER = 5 }; /* enum gs_copy_kind */

static void see_copy(struct seen *s, uint64_t bytes, unsigned kind, const void *dst,
		     const void *src, const void *stream)
{
	s->bytes = bytes;
	s->aux = kind;
	s->arg[0] = (uint64_t)dst;
	s->arg[1] = (uint64_t)src;
	s->stream = (uint64_t)stream;
}

/* Every direction in turn; one that does not exist when the copy is to fail. */
static enum cudaMemcpyKind kind_of(const struct worker *w, unsigned i)
{
	return (enum cudaMemcpyKind)(w->bad ? 9 : i % 5);
}

static cudaArray_t array_of(unsigned i)
{
	return (cudaArray_t)handle_of(7000 + i);
}

CALL_TWIN(cudaMemcpyToArray, _ptds)
{
	see_copy(s, 110 + i, kind_of(w, i), array_of(i), host_ptr(i), NULL);
	return DO(cudaMemcpyToArray)(array_of(i), 1, 2, host_ptr(i), 110 + i, kind_of(w, i));
}

CALL_TWIN(cudaMemcpyToArrayAsync, _ptsz)
{
	see_copy(s, 120 + i, kind_of(w, i), array_of(i), host_ptr(i), handle_of(i));
	return DO(cudaMemcpyToArrayAsync)(array_of(i), 1, 2, host_ptr(i), 120 + i, kind_of(w, i),
					  handle_of(i));
}

CALL_TWIN(cudaMemcpyFromArray, _ptds)
{
	see_copy(s, 130 + i, kind_of(w, i), host_ptr(i), array_of(i), NULL);
	return DO(cudaMemcpyFromArray)(host_ptr(i), array_of(i), 1, 2, 130 + i, kind_of(w, i));
}

CALL_TWIN(cudaMemcpyFromArrayAsync, _ptsz)
{
	see_copy(s, 140 + i, kind_of(w, i), host_ptr(i), array_of(i), handle_of(i));
	return DO(cudaMemcpyFromArrayAsync)(host_ptr(i), array_of(i), 1, 2, 140 + i, kind_of(w, i),
					    handle_of(i));
}

CALL_TWIN(cudaMemcpyArrayToArray, _ptds)
{
	see_copy(s, 150 + i, kind_of(w, i), array_of(i), array_of(i + 1), NULL);
	return DO(cudaMemcpyArrayToArray)(array_of(i), 1, 2, array_of(i + 1), 3, 4, 150 + i,
					  kind_of(w, i));
}

CALL_TWIN(cudaMemcpy2DArrayToArray, _ptds)
{
	see_copy(s, (160 + i) * 5, kind_of(w, i), array_of(i), array_of(i + 1), NULL);
	return DO(cudaMemcpy2DArrayToArray)(array_of(i), 1, 2, array_of(i + 1), 3, 4, 160 + i, 5,
					    kind_of(w, i));
}

static struct cudaMemcpy3DPeerParms peers_of(const struct worker *w, unsigned i)
{
	return (struct cudaMemcpy3DPeerParms){
		.srcPos = {1, 2, 3},
		.srcPtr = {device_ptr(i + 1), 512, 100, 5},
		.srcDevice = 1,
		.dstPos = {4, 5, 6},
		.dstPtr = {w->bad ? NULL : device_ptr(i), 1024, 100, 5},
		.dstDevice = 2,
		.extent = {70 + i, 5, 3},
	};
}

CALL_TWIN(cudaMemcpy3DPeer, _ptds)
{
	struct cudaMemcpy3DPeerParms p = peers_of(w, i);

	see_copy(s, (70 + i) * 15, PEER, p.dstPtr.ptr, p.srcPtr.ptr, NULL);
	return DO(cudaMemcpy3DPeer)(&p);
}

CALL_TWIN(cudaMemcpy3DPeerAsync, _ptsz)
{
	struct cudaMemcpy3DPeerParms p = peers_of(w, i);

	see_copy(s, (70 + i) * 15, PEER, p.dstPtr.ptr, p.srcPtr.ptr, handle_of(i));
	return DO(cudaMemcpy3DPeerAsync)(&p, handle_of(i));
}

CALL_TWIN(cudaMemcpyBatchAsync, _ptsz)
{
	struct cudaMemcpyAttributes attributes = {.srcAccessOrder = 1};
	struct app_batch b;
	size_t first = 0, n = app_fill_batch(&b, i);

	see_copy(s, b.seen_bytes, ANY, (void *)b.dsts[0], (void *)b.srcs[0], handle_of(i));
	s->arg[2] = n;
	if (w->bad)
		b.dsts[0] = s->arg[0] = 0;
	return DO(cudaMemcpyBatchAsync)((void *const *)b.dsts, (const void *const *)b.srcs, b.sizes,
					n, &attributes, &first, 1, handle_of(i));
}

CALL_TWIN(cudaMemPrefetchBatchAsync, _ptsz)
{
	struct cudaMemLocation place = {1, 0};
	struct app_batch b;
	size_t first = 0, n = app_fill_batch(&b, i);

	see_copy(s, b.seen_bytes, ANY, (void *)b.dsts[0], NULL, handle_of(i));
	s->arg[2] = n;
	return DO(cudaMemPrefetchBatchAsync)((void **)b.dsts, b.sizes, n, &place, &first, 1,
					     w->bad ? 1 : 0, handle_of(i));
}

/* Boxes; in every fourth list the second one comes from an array, whose bytes nobody tells. */
CALL_TWIN(cudaMemcpy3DBatchAsync, _ptsz)
{
	struct cudaMemcpy3DBatchOp ops[APP_BOX_MAX] = {0};
	size_t n = app_boxes(i);
	uint64_t bytes = 0;

	for (size_t k = 0; k < n; k++) {
		bool array = i % 4 == 3 && k == 1;

		ops[k].src.type = array ? cudaMemcpyOperandTypeArray : cudaMemcpyOperandTypePointer;
		ops[k].src.op.ptr.ptr = host_ptr(i + (unsigned)k);
		ops[k].dst.type = cudaMemcpyOperandTypePointer;
		ops[k].dst.op.ptr.ptr = w->bad ? NULL : device_ptr(i + (unsigned)k);
		ops[k].extent = (struct cudaExtent){10 + k, 3, 2};
		if (!array && k < APP_BOX_SEEN)
			bytes += (10 + k) * 6;
	}
	see_copy(s, bytes, ANY, ops[0].dst.op.ptr.ptr, host_ptr(i), handle_of(i));
	s->arg[2] = n;
	return DO(cudaMemcpy3DBatchAsync)(n, ops, 0, handle_of(i));
}

CALL_TWIN(cudaMemPrefetchAsync, _ptsz)
{
	struct cudaMemLocation place = {1, 3};

	see_copy(s, 8192 + i, ANY, device_ptr(i), NULL, handle_of(i));
	return DO(cudaMemPrefetchAsync)(device_ptr(i), 8192 + i, place, w->bad ? 1 : 0,
					handle_of(i));
}
