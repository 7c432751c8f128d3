/*
 * fake_app: makes the calls that its command line lists and says what they were, in the words of
 * struct gs_event_call, so that a test can compare what it saw with what was done.
 *
 * A function is one CALL() in app_rt.c, app_drv.c or app_nccl.c: it makes the call number i of its
 * kind with arguments that follow from i, and notes in *s what a tracer should see. Arguments are
 * passed by the compiler, through the prototypes, never by hand.
 */
#ifndef FAKE_APP_H
#define FAKE_APP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nccl_abi.h"

/* What calls leave for later ones: cudaFree frees what cudaMalloc left last. Each thread has its
 * own. The libraries keep separate books, so the pools are separate too. */
enum pool_id {
	RT_DEVICE,
	RT_HOST,
	RT_REGISTERED,
	RT_ARRAY,
	RT_MIPMAPPED,
	RT_MAPPED,
	RT_STREAM,
	RT_EVENT,
	RT_LIBRARY,
	RT_GRAPH,
	RT_EXEC,
	RT_KERNEL,
	DRV_DEVICE,
	DRV_DEVICE32,
	DRV_HOST,
	DRV_REGISTERED,
	DRV_RANGE,
	DRV_PHYSICAL,
	DRV_MAPPED,
	DRV_STREAM,
	DRV_EVENT,
	DRV_MODULE,
	DRV_LIBRARY,
	DRV_GRAPH,
	DRV_EXEC,
	DRV_KERNEL,
	DRV_CONTEXT,
	NC_COMM,
	NC_MEMORY,
	N_POOLS
};

struct pool {
	uint64_t *v;
	size_t n, room;
};

/* As struct gs_event_call has it. */
struct seen {
	uint64_t bytes;
	uint64_t stream;
	uint64_t arg[4];
	uint32_t aux;
	bool gave;      /* the call returned a value: */
	uint64_t value; /* pointer or handle */
};

/* What a thread's calls work with. */
struct worker {
	struct pool pools[N_POOLS];
	bool bad; /* the call is to fail */
};

typedef int (*call_fn)(struct worker *w, void *sym, unsigned i, struct seen *s);

enum call_library { LIB_RT, LIB_DRV, LIB_NCCL, N_LIBS };

struct call {
	const char *name;
	void *linked; /* NULL in fake_app_late, which looks it up */
	call_fn fn;
	const char *inner; /* the driver function that a successful call passes too */
	enum call_library library;
};

#ifdef APP_LATE
#define LINKED(name) NULL
#else
#define LINKED(name) (void *)(name)
#endif

/* All calls of all files meet in one section, as pointers. */
#define CALL_ROW(name_, fn_, inner_)                                                               \
	static const struct call row_##name_ = {#name_, LINKED(name_), fn_, inner_, APP_LIBRARY};  \
	static const struct call *const entry_##name_                                              \
		__attribute__((section("fake_calls"), used)) = &row_##name_;
#define CALL_BODY(name)                                                                            \
	static int call_##name(struct worker *w, void *sym, unsigned i, struct seen *s)

#define CALL(name)                                                                                 \
	CALL_BODY(name);                                                                           \
	CALL_ROW(name, call_##name, NULL)                                                          \
	CALL_BODY(name)

/* A function and its twin of the per-thread default stream. */
#define CALL_TWIN(name, suffix)                                                                    \
	CALL_BODY(name);                                                                           \
	CALL_ROW(name, call_##name, NULL)                                                          \
	CALL_ROW(name##suffix, call_##name, NULL)                                                  \
	CALL_BODY(name)

/* The same for a function of the runtime that passes one of the driver. */
#define CALL_DOWN(name, inner)                                                                     \
	CALL_BODY(name);                                                                           \
	CALL_ROW(name, call_##name, #inner)                                                        \
	CALL_ROW(name##_ptsz, call_##name, #inner "_ptsz")                                         \
	CALL_BODY(name)

/* In a body: the function, with its own type. */
#define DO(name) ((__typeof__(&name))sym)

/* Addresses that no library gave out: a tracer must show them, nobody follows them. */
static inline void *device_ptr(unsigned i)
{
	return (void *)(0x7d0000000000ull + i * 0x10000ull);
}

static inline void *host_ptr(unsigned i)
{
	return (void *)(0x7fb000000000ull + i * 0x1000ull);
}

static inline void *handle_of(unsigned i)
{
	return (void *)(0x55d000000000ull + i * 0x40ull);
}

/* Requests that cannot be met, and what was never given out. */
#define TOO_MUCH (1ull << 50)
#define UNKNOWN  0xdead0000ull

/* app.c. put: notes a value that a call returned, if it succeeded, and hands its result on; first
 * and last: what was put first and last; take: last, which is then gone. 0 when there is none. */
int app_put(struct worker *w, enum pool_id id, int r, struct seen *s, uint64_t value);

/* app_put with a call that must be made before its value can be read. */
#define PUT(w, id, call, s, value)                                                                 \
	({                                                                                         \
		int put_ret = (call);                                                              \
		app_put(w, id, put_ret, s, value);                                                 \
	})

uint64_t app_first(const struct worker *w, enum pool_id id);
uint64_t app_last(const struct worker *w, enum pool_id id);
uint64_t app_take(struct worker *w, enum pool_id id);

/* Lists of copies. Every eighth is longer than the tracer adds up (GS_BATCH_MAX, GS_BATCH3D_MAX of
 * model/trace/event.h): it sees the bytes of the first ones. */
#define APP_BATCH_MAX  130
#define APP_BATCH_SEEN 128
#define APP_BOX_MAX    34
#define APP_BOX_SEEN   32

struct app_batch {
	CUdeviceptr dsts[APP_BATCH_MAX], srcs[APP_BATCH_MAX];
	size_t sizes[APP_BATCH_MAX];
	uint64_t seen_bytes;
};

/* How many copies the list number i has; fill_batch makes them too. */
size_t app_fill_batch(struct app_batch *ret_batch, unsigned i);
size_t app_boxes(unsigned i);

/* What a host function does: nothing, one call, deeper calls, or it jumps out. */
void app_host_function(void *worker);

#endif
