/*
 * CUPTI's activity records, for the door that takes them (src/companion/gpu). There is no device: a program says what
 * it did (fake_cupti_*), and what is switched on comes as records of the version that FAKE_CUPTI_VERSION names (130001
 * when it does not). FAKE_CUPTI_RESULT: what switching kernels on answers. FAKE_CUPTI_UNHURT: ends the program where CUPTI 13.0.1 may.
 */
#include "cupti_fake.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define EXPORTED       __attribute__((visibility("default")))
#define KINDS          128
#define CALLS          600
#define NO_SUCH        1
#define LIMIT          12
#define HELD           39
#define FIRST_WITH_API 23 /* single calls can be chosen */
#define LAUNCH_CALL    211
#define COPY_CALL      41
#define GRAPH_CALL     311
#define LAUNCH_NS      2000 /* from the begin of a call to that of its work, at least */

typedef void (*request_fn)(uint8_t **buffer, size_t *size, size_t *max_records);
typedef void (*complete_fn)(void *context, uint32_t stream, uint8_t *buffer, size_t size,
			    size_t valid);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static request_fn request;
static complete_fn complete;
static uint8_t on[KINDS], call_on[CALLS];
static uint8_t *buffer;
static size_t buffer_bytes, used;
static size_t n_dropped;
static uint32_t next_correlation;
static int thread_ids;
static void *subscriber;

static uint32_t version(void)
{
	const char *text = getenv("FAKE_CUPTI_VERSION");

	return text ? (uint32_t)strtoul(text, NULL, 10) : 130001;
}

static size_t size_of(uint32_t kind)
{
	static const uint32_t from[] = FAKE_SIZE_VERSIONS;
#define ROW(record, number, ...) {number, {__VA_ARGS__}},
	static const struct {
		uint32_t kind;
		size_t sizes[sizeof(from) / sizeof(from[0])];
	} rows[] = {FAKE_SIZES(ROW)};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (size_t v = sizeof(from) / sizeof(from[0]); rows[i].kind == kind && v-- > 0;)
			if (version() >= from[v])
				return rows[i].sizes[v];
	return 0;
}

/* --- what the program did --- */

/* Without the lock: what is handed back may come by here again. */
static void give_back(void)
{
	uint8_t *data;
	size_t size, valid;

	pthread_mutex_lock(&lock);
	data = buffer;
	size = buffer_bytes;
	valid = used;
	buffer = NULL;
	pthread_mutex_unlock(&lock);
	if (data && complete)
		complete(NULL, 0, data, size, valid);
}

static void write_record(const void *record, uint32_t kind)
{
	size_t bytes = size_of(kind), max = 0, size = 0;
	uint8_t *data = NULL;

	if (!bytes)
		return;
	if (buffer && used + bytes > buffer_bytes)
		give_back();
	if (!buffer && request) {
		request(&data, &size, &max);
		pthread_mutex_lock(&lock);
		buffer = data;
		buffer_bytes = size;
		used = 0;
		pthread_mutex_unlock(&lock);
	}
	pthread_mutex_lock(&lock);
	if (buffer) {
		memcpy(buffer + used, record, bytes);
		used += bytes;
	} else {
		n_dropped++;
	}
	pthread_mutex_unlock(&lock);
}

EXPORTED uint64_t fake_cupti_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

/* The call that asks for work, which it moves behind itself. Its correlation. */
static uint32_t write_call(uint32_t cbid, uint64_t *start, uint64_t *end)
{
	uint64_t now = fake_cupti_now();
	struct fake_api r = {.kind = 5,
			     .cbid = cbid,
			     .start = now,
			     .end = fake_cupti_now(),
			     .processId = (uint32_t)getpid(),
			     .threadId = thread_ids ? (uint32_t)syscall(SYS_gettid)
						    : (uint32_t)pthread_self(),
			     .correlationId = ++next_correlation};

	if (*start < now + LAUNCH_NS) {
		*end += now + LAUNCH_NS - *start;
		*start = now + LAUNCH_NS;
	}
	if (on[5] || call_on[cbid])
		write_record(&r, 5);
	return r.correlationId;
}

EXPORTED uint64_t fake_cupti_kernel(const char *name, uint32_t stream, uint64_t start, uint64_t end)
{
	uint32_t correlation = write_call(LAUNCH_CALL, &start, &end);
	struct fake_kernel r;

	memset(&r, 0xee, sizeof(r)); /* nothing beyond is to be read */
	r.kind = 10;
	r.registersPerThread = 32;
	r.start = start;
	r.end = end;
	r.deviceId = 0;
	r.contextId = 1;
	r.streamId = stream;
	r.gridX = 7;
	r.gridY = r.gridZ = 1;
	r.blockX = 128;
	r.blockY = r.blockZ = 1;
	r.staticSharedMemory = 1024;
	r.dynamicSharedMemory = 512;
	r.correlationId = correlation;
	r.name = name;
	r.graphId = 0;
	if (on[10])
		write_record(&r, 10);
	return end;
}

EXPORTED uint64_t fake_cupti_copy(uint8_t direction, uint32_t stream, uint64_t bytes,
				  uint64_t start, uint64_t end)
{
	uint32_t correlation = write_call(COPY_CALL, &start, &end);
	struct fake_memcpy r = {.kind = 1,
				.copyKind = direction,
				.bytes = bytes,
				.start = start,
				.end = end,
				.contextId = 1,
				.streamId = stream,
				.correlationId = correlation};

	if (on[1])
		write_record(&r, 1);
	return end;
}

EXPORTED uint64_t fake_cupti_graph(uint32_t graph, uint32_t stream, uint64_t start, uint64_t end)
{
	uint32_t correlation = write_call(GRAPH_CALL, &start, &end);
	struct fake_graph r = {.kind = 51,
			       .correlationId = correlation,
			       .start = start,
			       .end = end,
			       .graphId = graph,
			       .contextId = 1,
			       .streamId = stream};

	if (on[51])
		write_record(&r, 51);
	return end;
}

EXPORTED void fake_cupti_sync(uint32_t type, uint64_t start, uint64_t end)
{
	struct fake_sync r = {.kind = 38, .type = type, .start = start, .end = end, .contextId = 1};

	if (on[38])
		write_record(&r, 38);
}

EXPORTED void fake_cupti_fill(uint64_t bytes, uint32_t stream, uint64_t start, uint64_t end)
{
	struct fake_memset r = {.kind = 2,
				.value = 5,
				.bytes = bytes,
				.start = start,
				.end = end,
				.contextId = 1,
				.streamId = stream,
				.correlationId = ++next_correlation};

	if (on[2])
		write_record(&r, 2);
}

/* --- CUPTI --- */

EXPORTED int cuptiGetVersion(uint32_t *ret)
{
	*ret = version();
	return 0;
}

EXPORTED int cuptiGetTimestamp(uint64_t *ret)
{
	*ret = fake_cupti_now();
	return 0;
}

EXPORTED int cuptiActivityRegisterCallbacks(request_fn r, complete_fn c)
{
	request = r;
	complete = c;
	return 0;
}

static int switch_kind(int kind, bool enable)
{
	const char *result = getenv("FAKE_CUPTI_RESULT");

	if (kind < 0 || kind >= KINDS || !size_of((uint32_t)kind))
		return kind == 22 || kind == 4 ? 0 : NO_SUCH;
	if (enable && kind == 10 && result)
		return atoi(result);
	/* So may records of whole graphs that are switched off. */
	if (kind == 51 && !enable && getenv("FAKE_CUPTI_UNHURT"))
		abort();
	on[kind] = enable;
	return 0;
}

EXPORTED int cuptiActivityEnable(int kind)
{
	return switch_kind(kind, true);
}

EXPORTED int cuptiActivityDisable(int kind)
{
	return switch_kind(kind, false);
}

/* With work that goes on this may break a program, if it is forced. */
EXPORTED int cuptiActivityFlushAll(uint32_t flag)
{
	if (flag && getenv("FAKE_CUPTI_UNHURT"))
		abort();
	give_back();
	return 0;
}

EXPORTED int cuptiActivityGetNextRecord(uint8_t *data, size_t valid, uint8_t **record)
{
	uint32_t kind;
	size_t at = 0;

	if (*record) {
		memcpy(&kind, *record, sizeof(kind));
		at = (size_t)(*record - data) + size_of(kind);
	}
	if (at >= valid)
		return LIMIT;
	*record = data + at;
	return 0;
}

EXPORTED int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *ret)
{
	*ret = n_dropped;
	n_dropped = 0;
	return 0;
}

EXPORTED int cuptiGetThreadIdType(int *ret)
{
	*ret = thread_ids;
	return 0;
}

EXPORTED int cuptiSetThreadIdType(int type)
{
	thread_ids = type;
	return 0;
}

EXPORTED int cuptiGetCallbackName(int domain, uint32_t number, const char **ret)
{
	*ret = NULL;
	if (domain == 2)
		*ret = number == LAUNCH_CALL  ? "cudaLaunchKernel_v7000"
		       : number == COPY_CALL  ? "cudaMemcpyAsync_v3020"
		       : number == GRAPH_CALL ? "cudaGraphLaunch_v10000"
					      : NULL;
	return *ret ? 0 : NO_SUCH;
}

EXPORTED int cuptiActivityEnableDriverApi(uint32_t number, uint8_t enable)
{
	return 0;
}

EXPORTED int cuptiActivityEnableRuntimeApi(uint32_t number, uint8_t enable)
{
	if (number >= CALLS || version() < FIRST_WITH_API)
		return NO_SUCH;
	call_on[number] = enable;
	return 0;
}

EXPORTED int cuptiSubscribe(void **ret, void *callback, void *user)
{
	if (subscriber)
		return HELD;
	*ret = subscriber = &subscriber;
	return 0;
}

EXPORTED int cuptiUnsubscribe(void *which)
{
	subscriber = NULL;
	return 0;
}

EXPORTED int cuptiFinalize(void)
{
	give_back();
	memset(on, 0, sizeof(on));
	memset(call_on, 0, sizeof(call_on));
	request = NULL;
	complete = NULL;
	subscriber = NULL;
	return 0;
}
