/* Compiled against NVIDIA's headers, where check_cupti.py finds them: are offsets and sizes as src/companion/gpu
 * and the stand-in have them? */
#include <cuda.h>
#include <cupti.h>
#include <stddef.h>

#include "companion/gpu/layout.h"
#include "cupti_abi.h"

#define SAME(field, kind, at, size, first, member, old, new)                                       \
	_Static_assert(offsetof(CUpti_Activity##old, member) == (at) &&                            \
			       offsetof(CUpti_Activity##new, member) == (at) &&                    \
			       sizeof(((CUpti_Activity##old *)0)->member) == (size) &&             \
			       sizeof(((CUpti_Activity##new *)0)->member) == (size),               \
		       #field);
GPU_FIELDS(SAME)

#define SIZES(record, number, a, b, c, d, e, f, g, h, i)                                           \
	enum {                                                                                     \
		record##_0 = a,                                                                    \
		record##_1 = b,                                                                    \
		record##_2 = c,                                                                    \
		record##_3 = d,                                                                    \
		record##_4 = e,                                                                    \
		record##_5 = f,                                                                    \
		record##_6 = g,                                                                    \
		record##_7 = h,                                                                    \
		record##_8 = i                                                                     \
	};
FAKE_SIZES(SIZES)

#define SIZE(record, column, type)                                                                 \
	_Static_assert(sizeof(CUpti_Activity##type) == record##_##column, #type)
SIZE(kernel, 0, Kernel5);
SIZE(kernel, 2, Kernel6);
SIZE(kernel, 3, Kernel7);
SIZE(kernel, 4, Kernel8);
SIZE(kernel, 5, Kernel9);
SIZE(kernel, 8, Kernel10);
SIZE(memcpy, 0, Memcpy3);
SIZE(memcpy, 1, Memcpy4);
SIZE(memcpy, 3, Memcpy5);
SIZE(memcpy, 7, Memcpy6);
SIZE(memset, 0, Memset2);
SIZE(memset, 1, Memset3);
SIZE(memset, 3, Memset4);
SIZE(runtime, 0, API);
SIZE(graph, 3, GraphTrace);
SIZE(graph, 6, GraphTrace2);
SIZE(sync, 0, Synchronization);
SIZE(sync, 7, Synchronization2);
SIZE(overhead, 0, Overhead);
SIZE(overhead, 8, Overhead3);

#define NUMBER(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)
NUMBER(GPU_KIND_COPY, CUPTI_ACTIVITY_KIND_MEMCPY);
NUMBER(GPU_KIND_FILL, CUPTI_ACTIVITY_KIND_MEMSET);
NUMBER(GPU_KIND_DRIVER, CUPTI_ACTIVITY_KIND_DRIVER);
NUMBER(GPU_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_RUNTIME);
NUMBER(GPU_KIND_KERNEL, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
NUMBER(GPU_KIND_OVERHEAD, CUPTI_ACTIVITY_KIND_OVERHEAD);
NUMBER(GPU_KIND_PEER, CUPTI_ACTIVITY_KIND_MEMCPY2);
NUMBER(GPU_KIND_GRAPH, CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
NUMBER(1, CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);

#define FAKE(record, type, member)                                                                 \
	_Static_assert(offsetof(struct fake_##record, member) ==                                   \
			       offsetof(CUpti_Activity##type, member),                             \
		       #type "." #member)
FAKE(kernel, Kernel10, start);
FAKE(kernel, Kernel10, name);
FAKE(kernel, Kernel10, correlationId);
FAKE(kernel, Kernel10, graphId);
FAKE(kernel, Kernel10, streamId);
FAKE(memcpy, Memcpy6, correlationId);
FAKE(memcpy, Memcpy6, graphId);
FAKE(memset, Memset4, correlationId);
FAKE(memset, Memset4, graphId);
FAKE(api, API, correlationId);
FAKE(graph, GraphTrace2, streamId);
FAKE(sync, Synchronization2, cudaEventId);
FAKE(overhead, Overhead3, end);
