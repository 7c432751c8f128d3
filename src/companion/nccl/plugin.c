/*
 * NCCL's interface for profilers, in each of its versions: a struct of functions by the name ncclProfiler_vN, of which
 * NCCL takes the newest that it knows. All answer ncclSuccess (0), whatever has become of it. Versions differ in what
 * the begin of a communicator says, and in the layout of descriptors (layout.h).
 */
#include "companion/nccl/nccl_int.h"

#include <stddef.h>

/* struct ncclProfiler_vN_t, the same in all versions. */
struct plugin {
	const char *name;
	void *init; /* see below */
	int (*start)(void *context, void **ret_handle, const void *descr);
	int (*stop)(void *handle);
	int (*record)(void *handle, int state, const void *args);
	int (*finalize)(void *context);
};

static int stop_event(void *handle)
{
	nccl_event_stop(handle);
	return 0;
}

static int record_state(void *handle, int state, const void *args)
{
	nccl_event_record(handle, state, args);
	return 0;
}

static int end_comm(void *context)
{
	nccl_event_end_comm(context);
	return 0;
}

static int begin_comm(unsigned version, const void *caller, void **ret_context, int *mask,
		      const struct nccl_comm_facts *facts)
{
	*ret_context = nccl_event_begin_comm(version, caller, mask, facts);
	return 0;
}

/* The call comes from NCCL itself: whose version that is, is found by where it returns to. */
#define CALLER __builtin_return_address(0)

/* Up to 3: NCCL says nothing of the communicator; its operations have its hash. */
#define INIT_BARE(n)                                                                               \
	static int init_v##n(void **ret_context, int *mask)                                        \
	{                                                                                          \
		const struct nccl_comm_facts facts = {.rank = -1};                                 \
                                                                                                   \
		return begin_comm(n, CALLER, ret_context, mask, &facts);                           \
	}

/* From 5 on. */
#define INIT_FULL(n)                                                                               \
	static int init_v##n(void **ret_context, uint64_t hash, int *mask, const char *name,       \
			     int n_nodes, int n_ranks, int rank, void *log)                        \
	{                                                                                          \
		const struct nccl_comm_facts facts = {hash, rank, n_ranks, n_nodes, name};         \
                                                                                                   \
		return begin_comm(n, CALLER, ret_context, mask, &facts);                           \
	}

INIT_BARE(1)
INIT_BARE(2)
INIT_BARE(3)
static int init_v4(void **ret_context, int *mask, const char *name, uint64_t hash, int n_nodes,
		   int n_ranks, int rank, void *log)
{
	const struct nccl_comm_facts facts = {hash, rank, n_ranks, n_nodes, name};

	return begin_comm(4, CALLER, ret_context, mask, &facts);
}
INIT_FULL(5)
INIT_FULL(6)

#define PLUGIN(n)                                                                                  \
	static int start_v##n(void *context, void **ret_handle, const void *descr)                 \
	{                                                                                          \
		nccl_event_start(n, context, ret_handle, descr);                                   \
		return 0;                                                                          \
	}                                                                                          \
	extern struct plugin ncclProfiler_v##n;                                                    \
	__attribute__((visibility("default"))) struct plugin ncclProfiler_v##n = {                 \
		"gpuscope", (void *)init_v##n, start_v##n, stop_event, record_state, end_comm}

PLUGIN(1);
PLUGIN(2);
PLUGIN(3);
PLUGIN(4);
PLUGIN(5);
PLUGIN(6);

_Static_assert(GS_NCCL_ABI_MAX == 6, "a struct for each version");
_Static_assert(sizeof(struct plugin) == 48 && offsetof(struct plugin, finalize) == 40, "plugin");
