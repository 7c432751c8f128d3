/*
 * What the three stand-in libraries share. Each is compiled with its own copy of core.c and so
 * keeps its own books, in its own range of addresses (FAKE_REGION): what cudaMalloc gave, cudaFree
 * takes back, not cuMemFree.
 *
 * Nothing here touches a device or the memory behind a device pointer. The environment (README.md)
 * is read once, at the first call and not when the library is loaded, so that a program can set it
 * in main().
 */
#ifndef FAKE_FAKE_H
#define FAKE_FAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nccl_abi.h"
#include "abi_asserts.h"

#define FAKE_EXPORT __attribute__((visibility("default"), noinline))

/* Two exported functions with one body: a function and its per-thread default stream twin. They
 * must have two addresses, as the real ones have. */
#define FAKE_TWIN(define, type, name, suffix, params, args)                                        \
	static type name##_body params;                                                            \
	define(name, params)                                                                       \
	{                                                                                          \
		return name##_body args;                                                           \
	}                                                                                          \
	define(name##suffix, params)                                                               \
	{                                                                                          \
		return name##_body args;                                                           \
	}                                                                                          \
	static type name##_body params

/* What an address or a handle was given out as. */
enum fake_kind {
	FAKE_DEVICE = 1 << 0,
	FAKE_DEVICE32 = 1 << 1, /* by the first driver ABI: fits 32 bits */
	FAKE_HOST = 1 << 2,
	FAKE_REGISTERED = 1 << 3, /* the caller's own memory */
	FAKE_ARRAY = 1 << 4,
	FAKE_STREAM = 1 << 5,
	FAKE_EVENT = 1 << 6,
	FAKE_MODULE = 1 << 7,
	FAKE_GRAPH = 1 << 8,
	FAKE_GRAPH_EXEC = 1 << 9,
	FAKE_RANGE = 1 << 10,    /* reserved addresses */
	FAKE_PHYSICAL = 1 << 11, /* cuMemCreate */
};

/* How long a call takes when FAKE_CUDA_PACE is set. */
enum fake_cost {
	FAKE_COST_NONE,
	FAKE_COST_LAUNCH_RT, /* the runtime's own share of a launch */
	FAKE_COST_LAUNCH,
	FAKE_COST_COPY, /* by bytes: the caller waits for it */
	FAKE_COST_COPY_ASYNC,
	FAKE_COST_ALLOC,
	FAKE_COST_ALLOC_ASYNC,
	FAKE_COST_EVENT,
	FAKE_COST_MODULE,
	FAKE_COST_COLLECTIVE,
};

/* The codes that the runtime and the driver have in common. */
enum {
	FAKE_OK = 0,
	FAKE_INVALID_VALUE = 1,
	FAKE_NO_MEMORY = 2,
	FAKE_BAD_HANDLE = 400,
	FAKE_NOT_READY = 600,
	FAKE_ALREADY_REGISTERED = 712,
	FAKE_NOT_REGISTERED = 713
};

/* Every call begins with it: the simulated time of the call, or for ever when FAKE_CUDA_HANG names
 * the function. */
void fake_begin(const char *func, enum fake_cost cost, uint64_t bytes);

/* Waiting for the device: FAKE_CUDA_SYNC_US. */
void fake_wait(void);

/* Handlers of exit() have ended the library, which made its own at its first call. */
bool fake_has_ended(void);

/* Writes *ret_address only on success. */
int fake_alloc(enum fake_kind kind, uint64_t bytes, uint64_t *ret_address);
int fake_register(uint64_t address, uint64_t bytes);
int fake_free(unsigned kinds, uint64_t address);

/* Of what was given out; 0 when it was not. */
unsigned fake_kind_of(uint64_t address);
uint64_t fake_memory_left(void);
uint64_t fake_memory_total(void);

/* After a record, an event and its stream answer "not ready" to the first FAKE_CUDA_NOT_READY
 * queries. An event or a stream that this library did not make is taken for one without work, and
 * an event is adopted when recorded; only this one is refused. */
#define FAKE_NO_HANDLE ((void *)-1)

int fake_event_record(const void *event, const void *stream);
int fake_query(const void *event_or_stream);
int fake_sync(const void *event_or_stream);

#endif
