/*
 * Where fields lie in the event descriptors that NCCL gives a profiler, by version of the interface: offsets only, x86-64.
 * NVIDIA/nccl, src/include/plugin/profiler/profiler_v1.h .. profiler_v6.h (v1: NCCL 2.23, v2: 2.24, v3: 2.26, v4: 2.27,
 * v5: 2.28, v6: 2.29). NVIDIA's headers are not needed to build this; tests/fake/nccl_plugin_abi.h has the structs, and
 * asserts that they agree.
 */
#ifndef GS_COMPANION_NCCL_LAYOUT_H
#define GS_COMPANION_NCCL_LAYOUT_H

#include <stdint.h>

#include "model/nccl/nccl.h"

/* Types of events (ncclProfile*): bits of the mask and values of a descriptor's type. */
enum nccl_type {
	NCCL_TYPE_GROUP = 1 << 0,
	NCCL_TYPE_COLL = 1 << 1,
	NCCL_TYPE_P2P = 1 << 2,
	NCCL_TYPE_PROXY_OP = 1 << 3,
	NCCL_TYPE_KERNEL_CH = 1 << 6,
	NCCL_TYPE_CE_COLL = 1 << 12, /* from v6 on */
};

/* ncclProfilerKernelChStop: the arguments begin with the GPU's time. From v4 on. */
#define NCCL_STATE_KERNEL_CH_STOP 22

/*
 * X(field, bytes, offset in v1, v2, v3, v4, v5, v6): 0, that version has none. A field of 8 bytes whose name ends with
 * TEXT is a pointer to text; of v1 such a field is a number of one byte.
 */
#define NCCL_FIELDS(X)                                                                             \
	X(PARENT, 8, 8, 8, 8, 8, 8, 8)                                                             \
	X(RANK, 4, 16, 16, 16, 16, 16, 16)                                                         \
	X(COLL_HASH, 8, 32, 32, 32, 0, 0, 0)                                                       \
	X(COLL_SEQ, 8, 40, 40, 40, 24, 24, 24)                                                     \
	X(COLL_FUNC_TEXT, 8, 48, 48, 48, 32, 32, 32)                                               \
	X(COLL_COUNT, 8, 72, 72, 72, 56, 56, 56)                                                   \
	X(COLL_ROOT, 4, 80, 80, 80, 64, 64, 64)                                                    \
	X(COLL_DATATYPE_TEXT, 8, 84, 88, 88, 72, 72, 72)                                           \
	X(COLL_CHANNELS, 1, 104, 104, 96, 80, 80, 80)                                              \
	X(COLL_WARPS, 1, 105, 105, 97, 81, 81, 81)                                                 \
	X(COLL_ALGO_TEXT, 8, 106, 112, 104, 88, 88, 88)                                            \
	X(COLL_PROTO_TEXT, 8, 107, 120, 112, 96, 96, 96)                                           \
	X(COLL_GROUP, 8, 8, 8, 8, 8, 104, 104)                                                     \
	X(P2P_HASH, 8, 32, 32, 32, 0, 0, 0)                                                        \
	X(P2P_FUNC_TEXT, 8, 40, 40, 40, 24, 24, 24)                                                \
	X(P2P_DATATYPE_TEXT, 8, 56, 56, 56, 40, 40, 40)                                            \
	X(P2P_COUNT, 8, 64, 64, 64, 48, 48, 48)                                                    \
	X(P2P_PEER, 4, 72, 72, 72, 56, 56, 56)                                                     \
	X(P2P_CHANNELS, 1, 0, 0, 0, 60, 60, 60)                                                    \
	X(P2P_GROUP, 8, 8, 8, 8, 8, 64, 64)                                                        \
	X(CE_SEQ, 8, 0, 0, 0, 0, 0, 24)                                                            \
	X(CE_FUNC_TEXT, 8, 0, 0, 0, 0, 0, 32)                                                      \
	X(CE_COUNT, 8, 0, 0, 0, 0, 0, 56)                                                          \
	X(CE_ROOT, 4, 0, 0, 0, 0, 0, 64)                                                           \
	X(CE_DATATYPE_TEXT, 8, 0, 0, 0, 0, 0, 72)                                                  \
	X(PROXY_PID, 4, 24, 24, 24, 24, 24, 24)                                                    \
	X(PROXY_CHANNEL, 1, 28, 28, 28, 28, 28, 28)                                                \
	X(PROXY_PEER, 4, 32, 32, 32, 32, 32, 32)                                                   \
	X(PROXY_STEPS, 4, 36, 36, 36, 36, 36, 36)                                                  \
	X(PROXY_CHUNK, 4, 40, 40, 40, 40, 40, 40)                                                  \
	X(PROXY_SEND, 4, 44, 44, 44, 44, 44, 44)                                                   \
	X(KERNEL_CHANNEL, 1, 0, 0, 24, 24, 24, 24)                                                 \
	X(KERNEL_TIME, 8, 0, 0, 0, 32, 32, 32)

#define NCCL_FIELD_NUMBER(field, ...) NCCL_##field,
enum nccl_field { NCCL_FIELDS(NCCL_FIELD_NUMBER) NCCL_N_FIELDS };

struct nccl_place {
	uint8_t bytes;                   /* of the field; the same in all versions */
	uint8_t offset[GS_NCCL_ABI_MAX]; /* by version - 1 */
};
extern const struct nccl_place nccl_place[NCCL_N_FIELDS];

/* 0 where descriptors of this version lack it. */
static inline uint64_t nccl_field_read(const uint8_t *descr, enum nccl_field field,
				       unsigned version)
{
	const struct nccl_place *p = &nccl_place[field];
	uint8_t offset = p->offset[version - 1];
	uint64_t v = 0;

	if (offset)
		__builtin_memcpy(&v, descr + offset, p->bytes);
	return v;
}

/* The type takes one byte before v5, and eight from then on: those of v1 .. v4 that are known fit into one. */
static inline uint64_t nccl_type_read(const uint8_t *descr, unsigned version)
{
	uint64_t type = descr[0];

	if (version >= 5)
		__builtin_memcpy(&type, descr, sizeof(type));
	return type;
}

#endif
