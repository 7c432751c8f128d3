/*
 * A bare collector of CUPTI's records, for collector.py: nothing but buffers that are counted and given back. What it costs a
 * program is the floor of any that asks CUPTI for the same. Loaded by CUDA_INJECTION64_PATH, and driven by the program.
 * gcc -O2 -shared -fPIC -o collector.so collector.c -ldl -lpthread; needs no header of NVIDIA's.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BUFFERS        64
#define DOMAIN_DRIVER  1
#define DOMAIN_RUNTIME 2
#define AT_EXIT        1 /* CUPTI_API_EXIT */
#define EXPORTED       __attribute__((visibility("default")))

typedef void (*request_fn)(uint8_t **, size_t *, size_t *);
typedef void (*complete_fn)(void *, uint32_t, uint8_t *, size_t, size_t);

static int (*register_callbacks)(request_fn, complete_fn);
static int (*enable)(int), (*disable)(int), (*flush_all)(uint32_t), (*finalize)(void);
static int (*next_record)(uint8_t *, size_t, uint8_t **);
static int (*set_attribute)(int, size_t *, void *);
static int (*subscribe)(void **, void *, void *), (*unsubscribe)(void *);
static int (*enable_callback)(uint32_t, void *, int, uint32_t);
static int (*callback_name)(int, uint32_t, const char **);
static int (*enable_driver)(uint32_t, uint8_t), (*enable_runtime)(uint32_t, uint8_t);
static int (*n_dropped_of)(void *, uint32_t, size_t *);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t *pool[BUFFERS];
static int n_pool;
static size_t buffer_bytes = 1 << 20;
static int zeroed;
static uint64_t n_records[64], n_buffers, n_asked, n_new, n_dropped, n_callbacks;
static void *subscriber;
static volatile int wants_end, has_ended;
static volatile uint64_t end_took_ns;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void request(uint8_t **buffer, size_t *size, size_t *max)
{
	pthread_mutex_lock(&lock);
	*buffer = n_pool ? pool[--n_pool] : NULL;
	n_asked++;
	pthread_mutex_unlock(&lock);
	if (!*buffer) {
		if (posix_memalign((void **)buffer, 64, buffer_bytes))
			*buffer = NULL;
		else
			memset(*buffer, 0, buffer_bytes);
		n_new++;
	}
	*size = buffer_bytes;
	*max = 0;
}

static void complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	uint8_t *record = NULL;
	uint32_t kind;
	size_t dropped = 0;

	while (valid && next_record(buffer, valid, &record) == 0) {
		memcpy(&kind, record, sizeof(kind));
		if (!kind)
			break;
		n_records[kind & 63]++;
	}
	if (n_dropped_of(context, stream, &dropped) == 0)
		n_dropped += dropped;
	if (zeroed)
		memset(buffer, 0, valid);
	pthread_mutex_lock(&lock);
	n_buffers++;
	if (n_pool < BUFFERS) {
		pool[n_pool++] = buffer;
		buffer = NULL;
	}
	pthread_mutex_unlock(&lock);
	free(buffer);
}

/* As Kineto does it: within a call of the program, where it has returned from the driver. */
static void on_call(void *user, int domain, uint32_t number, const void *data)
{
	int site;

	memcpy(&site, data, sizeof(site));
	n_callbacks++;
	if (!wants_end || site != AT_EXIT || __sync_lock_test_and_set(&wants_end, 0) == 0)
		return;
	end_took_ns = now_ns();
	int r = finalize();
	end_took_ns = now_ns() - end_took_ns;
	subscriber = NULL;
	__atomic_store_n(&has_ended, r ? -r : 1, __ATOMIC_RELEASE);
}

static int switch_calls(const char *const *names, int domain, int on, int as_callback)
{
	const char *name;
	int n = 0;

	for (uint32_t i = 1; i < 1200; i++)
		for (const char *const *w = names;
		     callback_name(domain, i, &name) == 0 && name && *w; w++) {
			size_t length = strlen(*w);

			if (strncmp(name, *w, length) ||
			    (name[length] && strncmp(name + length, "_ptsz", 5) &&
			     strncmp(name + length, "_v", 2)))
				continue;
			if (as_callback)
				enable_callback(on, subscriber, domain, i);
			else
				(domain == DOMAIN_DRIVER ? enable_driver : enable_runtime)(i, on);
			n++;
			break;
		}
	return n;
}

static const char *const of_driver[] = {"cuLaunchKernel", "cuLaunchKernelEx", "cuGraphLaunch",
					NULL};
static const char *const of_runtime[] = {"cudaLaunchKernel",      "cudaLaunchKernelExC",
					 "cudaGraphLaunch",       "cudaStreamSynchronize",
					 "cudaDeviceSynchronize", NULL};

/* kinds: bits by their numbers. calls: 1 records of the driver's launches, 2 of the runtime's, 4 callbacks at the driver's. The result of the last. */
EXPORTED int collector_on(uint64_t kinds, int calls, int with_zeroed, size_t bytes)
{
	int r = register_callbacks(request, complete);

	if (bytes != buffer_bytes) {
		pthread_mutex_lock(&lock);
		while (n_pool)
			free(pool[--n_pool]);
		buffer_bytes = bytes;
		pthread_mutex_unlock(&lock);
	}
	if (with_zeroed != zeroed) {
		uint8_t value = with_zeroed;
		size_t size = 1;

		set_attribute(5, &size, &value);
		zeroed = with_zeroed;
	}
	for (int kind = 0; kind < 64; kind++)
		if (kinds >> kind & 1)
			r = enable(kind);
	if (calls & 1)
		switch_calls(of_driver, DOMAIN_DRIVER, 1, 0);
	if (calls & 2)
		switch_calls(of_runtime, DOMAIN_RUNTIME, 1, 0);
	if (calls & 4) {
		r = subscribe(&subscriber, (void *)on_call, NULL);
		switch_calls(of_driver, DOMAIN_DRIVER, 1, 1);
	}
	return r;
}

/* flag: 1 has CUPTI give all buffers back, with records of work that still goes on. */
EXPORTED void collector_off(uint64_t kinds, uint32_t flag)
{
	switch_calls(of_driver, DOMAIN_DRIVER, 0, 0);
	switch_calls(of_runtime, DOMAIN_RUNTIME, 0, 0);
	for (int kind = 0; kind < 64; kind++)
		if (kinds >> kind & 1)
			disable(kind);
	flush_all(flag);
}

EXPORTED void collector_flush(void)
{
	flush_all(0);
}

/* To be done at the end of a later call of any thread; collector_ended() says whether it was: 0 not yet, 1 yes, below 0: an error. */
EXPORTED int collector_end(void)
{
	int r = 0;

	has_ended = 0;
	if (!subscriber)
		r = subscribe(&subscriber, (void *)on_call, NULL);
	wants_end = 1;
	switch_calls(of_driver, DOMAIN_DRIVER, 1, 1);
	switch_calls(of_runtime, DOMAIN_RUNTIME, 1, 1);
	return r;
}

EXPORTED int collector_ended(uint64_t *ret_took_ns)
{
	*ret_took_ns = end_took_ns;
	return __atomic_load_n(&has_ended, __ATOMIC_ACQUIRE);
}

/* At once, wherever other threads are. */
EXPORTED int collector_end_now(void)
{
	int r;

	end_took_ns = now_ns();
	r = finalize();
	end_took_ns = now_ns() - end_took_ns;
	subscriber = NULL;
	return r;
}

/* Kernels, calls, buffers, buffers asked for, new ones, dropped, callbacks, graphs; from then on from 0. */
EXPORTED void collector_counts(uint64_t ret_counts[8])
{
	uint64_t counts[8] = {n_records[10], n_records[4] + n_records[5],
			      n_buffers,     n_asked,
			      n_new,         n_dropped,
			      n_callbacks,   n_records[51]};

	memcpy(ret_counts, counts, sizeof(counts));
	memset(n_records, 0, sizeof(n_records));
	n_buffers = n_asked = n_new = n_dropped = n_callbacks = 0;
}

#define BIND(to, name) *(void **)&to = dlsym(library, name)

EXPORTED int InitializeInjection(void)
{
	void *library = dlopen(getenv("COLLECTOR_CUPTI"), RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		fprintf(stderr, "collector: %s\n", dlerror());
		return 1;
	}
	if (getenv("COLLECTOR_VERBOSE")) {
		uint32_t version = 0;
		int (*get_version)(uint32_t *);

		BIND(get_version, "cuptiGetVersion");
		get_version(&version);
		fprintf(stderr, "CUPTI version %u\n", version);
	}
	BIND(register_callbacks, "cuptiActivityRegisterCallbacks");
	BIND(enable, "cuptiActivityEnable");
	BIND(disable, "cuptiActivityDisable");
	BIND(flush_all, "cuptiActivityFlushAll");
	BIND(finalize, "cuptiFinalize");
	BIND(next_record, "cuptiActivityGetNextRecord");
	BIND(set_attribute, "cuptiActivitySetAttribute");
	BIND(subscribe, "cuptiSubscribe");
	BIND(unsubscribe, "cuptiUnsubscribe");
	BIND(enable_callback, "cuptiEnableCallback");
	BIND(callback_name, "cuptiGetCallbackName");
	BIND(enable_driver, "cuptiActivityEnableDriverApi");
	BIND(enable_runtime, "cuptiActivityEnableRuntimeApi");
	BIND(n_dropped_of, "cuptiActivityGetNumDroppedRecords");
	return 1;
}
