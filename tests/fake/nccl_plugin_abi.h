/*
 * What NCCL hands to a profiler, by version of the interface, as it publishes that: NVIDIA/nccl,
 * src/include/plugin/profiler/profiler_v1.h .. profiler_v6.h, and nccl_profiler.h beside that folder. Declared here in
 * our own words, the same on x86-64: the stand-in for NCCL speaks by these, and tests compare the library's offsets.
 */
#ifndef TESTS_FAKE_NCCL_PLUGIN_ABI_H
#define TESTS_FAKE_NCCL_PLUGIN_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	PROFILE_GROUP = 1 << 0,
	PROFILE_COLL = 1 << 1,
	PROFILE_P2P = 1 << 2,
	PROFILE_PROXY_OP = 1 << 3,
	PROFILE_PROXY_STEP = 1 << 4,
	PROFILE_KERNEL_CH = 1 << 6,
	PROFILE_GROUP_API = 1 << 8,
	PROFILE_COLL_API = 1 << 9,
	PROFILE_CE_COLL = 1 << 12,
	STATE_KERNEL_CH_STOP = 22,
};

struct profile_proxy_op {
	int32_t pid;
	uint8_t channel;
	int peer, steps, chunk_bytes, is_send;
};

struct profile_kernel_ch {
	uint8_t channel;
	uint64_t gpu_time; /* from v4 on */
};

struct profile_descr_v1 {
	uint8_t type;
	void *parent;
	int rank;
	union {
		struct {
			const char *name;
			uint64_t hash, seq;
			uint8_t func;
			const void *send;
			void *receive;
			size_t count;
			int root;
			uint8_t datatype;
			uint32_t op;
			size_t traffic_bytes;
			uint8_t channels, warps, algo, proto;
			int is_collnet, is_nvls;
		} coll;
		struct {
			const char *name;
			uint64_t hash;
			uint8_t func;
			void *buffer;
			uint8_t datatype;
			size_t count;
			int peer;
		} p2p;
		struct profile_proxy_op proxy_op;
	};
};

struct profile_p2p_text {
	const char *name;
	uint64_t hash;
	const char *func;
	void *buffer;
	const char *datatype;
	size_t count;
	int peer;
};

struct profile_descr_v2 {
	uint8_t type;
	void *parent;
	int rank;
	union {
		struct {
			const char *name;
			uint64_t hash, seq;
			const char *func;
			const void *send;
			void *receive;
			size_t count;
			int root;
			const char *datatype;
			size_t traffic_bytes;
			uint8_t channels, warps;
			const char *algo, *proto;
		} coll;
		struct profile_p2p_text p2p;
		struct profile_proxy_op proxy_op;
	};
};

struct profile_descr_v3 {
	uint8_t type;
	void *parent;
	int rank;
	union {
		struct {
			const char *name;
			uint64_t hash, seq;
			const char *func;
			const void *send;
			void *receive;
			size_t count;
			int root;
			const char *datatype;
			uint8_t channels, warps;
			const char *algo, *proto;
		} coll;
		struct profile_p2p_text p2p;
		struct profile_proxy_op proxy_op;
		struct {
			uint8_t channel;
		} kernel_ch;
	};
};

struct profile_descr_v4 {
	uint8_t type;
	void *parent;
	int rank;
	union {
		struct {
			uint64_t seq;
			const char *func;
			const void *send;
			void *receive;
			size_t count;
			int root;
			const char *datatype;
			uint8_t channels, warps;
			const char *algo, *proto;
		} coll;
		struct {
			const char *func;
			void *buffer;
			const char *datatype;
			size_t count;
			int peer;
			uint8_t channels;
		} p2p;
		struct profile_proxy_op proxy_op;
		struct profile_kernel_ch kernel_ch;
	};
};

/* Of v5, and of v6, which has more below the last one. */
struct profile_descr_v5 {
	uint64_t type;
	void *parent;
	int rank;
	union {
		struct {
			uint64_t seq;
			const char *func;
			const void *send;
			void *receive;
			size_t count;
			int root;
			const char *datatype;
			uint8_t channels, warps;
			const char *algo, *proto;
			void *group;
		} coll;
		struct {
			const char *func;
			void *buffer;
			const char *datatype;
			size_t count;
			int peer;
			uint8_t channels;
			void *group;
		} p2p;
		struct profile_proxy_op proxy_op;
		struct profile_kernel_ch kernel_ch;
		struct {
			bool captured;
			int depth;
		} group_api;
		struct {
			uint64_t seq;
			const char *func;
			const void *send;
			void *receive;
			size_t count;
			int root;
			const char *datatype;
			const char *sync;
			bool syncs_within;
			uint32_t batch_bytes, n_batches, number;
			void *stream;
		} ce_coll; /* from v6 on */
	};
};
#define profile_descr_v6 profile_descr_v5

struct profile_state_args { /* from v4 on; before, nothing that is used here */
	uint64_t gpu_time;
};

/* The functions of a plug-in, whose init differs: of v1 to v3, of v4, of v5 and v6. */
struct profile_plugin {
	const char *name;
	union {
		int (*init_v1)(void **context, int *mask);
		int (*init_v4)(void **context, int *mask, const char *name, uint64_t hash,
			       int n_nodes, int n_ranks, int rank, void *log);
		int (*init_v5)(void **context, uint64_t hash, int *mask, const char *name,
			       int n_nodes, int n_ranks, int rank, void *log);
	};
	int (*start_event)(void *context, void **handle, void *descr);
	int (*stop_event)(void *handle);
	int (*record_state)(void *handle, int state, void *args);
	int (*finalize)(void *context);
};

#endif
