/*
 * The stand-in's side of NCCL's interface for profilers: loads the library that NCCL_PROFILER_PLUGIN names, as NCCL
 * does, and says what the stand-in's operations would be. Without that variable nothing is done.
 *
 * FAKE_NCCL_ABI: the newest version of the interface that is spoken (1 to 6; 5 as NCCL 2.28).
 * What is said is known: fake_profile_choice() has the algorithm and the rest, GPU times of a channel are
 * FAKE_PROFILE_GPU_NS + the number of the operation in its process * 1000, and 500 + the channel later.
 */
#ifndef FAKE_NCCL_PLUGIN_H
#define FAKE_NCCL_PLUGIN_H

#include <stdbool.h>
#include <stdint.h>

#define FAKE_PROFILE_GPU_NS 1700000000000000000ull

struct fake_profile_comm { /* of a communicator */
	void *context;
	const char *name;
	uint64_t hash;
	int n_ranks, rank;
	uint64_t seq[16]; /* by function */
};

struct fake_profile_choice {
	unsigned algo, proto; /* as NCCL 2.23 numbers them */
	unsigned channels, warps;
};

/* Functions as NCCL 2.23 numbers them: 0 Broadcast, 1 Reduce, 2 AllGather, 3 ReduceScatter, 4 AllReduce, 6 Send, 7 Recv;
 * 8 AlltoAll and so on are made of these, and are not said. */
struct fake_profile_op {
	unsigned func;
	unsigned datatype; /* ncclDataType_t */
	uint64_t count;    /* of elements, as the caller has it */
	int peer;          /* or root */
	bool by_copies;    /* by the copy engine, from v6 on */
};

struct fake_profile_choice fake_profile_choice(uint64_t bytes);

/* How NCCL spells them; "Unknown" as it does. */
const char *fake_profile_func(unsigned func);
const char *fake_profile_type(unsigned datatype);
const char *fake_profile_algo(unsigned algo);
const char *fake_profile_proto(unsigned proto);

/* name and hash, ranks are set. 0: there is no plug-in. Else the version that is spoken. */
int fake_profile_begin(struct fake_profile_comm *comm);
void fake_profile_end(struct fake_profile_comm *comm);

/* Operations that are handed over together. */
void fake_profile_run(struct fake_profile_comm *comm, const struct fake_profile_op *ops,
		      unsigned n);

#endif
