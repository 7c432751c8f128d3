/*
 * The stand-in for NCCL: every function under its profiling name, and weakly under its own, at the
 * same address, as in the real library. It moves no data and meets nobody: a communicator is what
 * its caller said it is, and ranks of different processes never wait for one another, except in an
 * all-reduce of a program that exports fake_nccl_meet(): that is called in it, as fake_nccl_join() in ncclCommInitRank.
 */
#include "fake.h"
#include "nccl_plugin.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define COMM_MAGIC 0x6d6f636c63636eull
#define RANK_MAX   (1 << 20)

struct ncclComm {
	uint64_t magic;
	int n_ranks, rank, device;
	struct fake_profile_comm profile;
};

#define NC(name, params)                                                                           \
	ncclResult_t nccl##name params                                                             \
		__attribute__((weak, visibility("default"), alias("pnccl" #name)));                \
	FAKE_EXPORT ncclResult_t pnccl##name params

static __thread int group_depth;

/* What is said to NCCL's plug-in, of the present group of this thread. */
#define PENDING_MAX 64u
static __thread struct {
	struct fake_profile_comm *comm;
	struct fake_profile_op op;
} pending[PENDING_MAX];
static __thread unsigned n_pending;

/* Operations of one communicator are handed over together. */
static void say_pending(void)
{
	struct fake_profile_op ops[PENDING_MAX];

	for (unsigned i = 0; i < n_pending; i++) {
		struct fake_profile_comm *comm = pending[i].comm;
		unsigned n = 0;

		for (unsigned k = i; comm && k < n_pending; k++) {
			if (pending[k].comm != comm)
				continue;
			ops[n++] = pending[k].op;
			pending[k].comm = NULL;
		}
		if (n)
			fake_profile_run(comm, ops, n);
	}
	n_pending = 0;
}

/* func: as struct fake_profile_op has it. */
static void say_op(struct ncclComm *comm, unsigned func, uint64_t count, ncclDataType_t type,
		   int peer)
{
	if (n_pending == PENDING_MAX)
		say_pending();
	pending[n_pending].comm = &comm->profile;
	pending[n_pending++].op = (struct fake_profile_op){
		.func = func, .datatype = (unsigned)type, .count = count, .peer = peer};
	if (!group_depth)
		say_pending();
}

enum {
	SAY_BROADCAST,
	SAY_REDUCE,
	SAY_ALL_GATHER,
	SAY_REDUCE_SCATTER,
	SAY_ALL_REDUCE,
	SAY_SEND = 6,
	SAY_RECV
};

void fake_nccl_meet(void) __attribute__((weak));
void fake_nccl_join(void) __attribute__((weak));

static bool is_comm(const struct ncclComm *comm)
{
	return comm && comm->magic == COMM_MAGIC;
}

/* Of a unique id: the same for all who have it. */
static uint64_t hash_of(const void *data, size_t bytes)
{
	uint64_t h = 0xcbf29ce484222325ull;

	for (size_t i = 0; i < bytes; i++)
		h = (h ^ ((const uint8_t *)data)[i]) * 0x100000001b3ull;
	return h;
}

static ncclResult_t new_comm(uint64_t hash, int n_ranks, int rank, int device, ncclComm_t *ret_comm)
{
	struct ncclComm *comm;

	if (!ret_comm || n_ranks < 1 || n_ranks > RANK_MAX || rank < 0 || rank >= n_ranks)
		return ncclInvalidArgument;
	comm = malloc(sizeof(*comm));
	if (!comm)
		return ncclSystemError;
	*comm = (struct ncclComm){.magic = COMM_MAGIC,
				  .n_ranks = n_ranks,
				  .rank = rank,
				  .device = device,
				  .profile = {.hash = hash, .n_ranks = n_ranks, .rank = rank}};
	fake_profile_begin(&comm->profile);
	*ret_comm = comm;
	return ncclSuccess;
}

static ncclResult_t good_config(const ncclConfig_t *config)
{
	return config && config->magic != NCCL_CONFIG_MAGIC ? ncclInvalidArgument : ncclSuccess;
}

NC(GetVersion, (int *version))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	if (!version)
		return ncclInvalidArgument;
	*version = NCCL_VERSION_CODE;
	return ncclSuccess;
}

NC(GetUniqueId, (ncclUniqueId * uniqueId))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	if (!uniqueId)
		return ncclInvalidArgument;
	return getrandom(uniqueId, sizeof(*uniqueId), 0) == sizeof(*uniqueId) ? ncclSuccess
									      : ncclSystemError;
}

const char *ncclGetErrorString(ncclResult_t result)
	__attribute__((weak, visibility("default"), alias("pncclGetErrorString")));

FAKE_EXPORT const char *pncclGetErrorString(ncclResult_t result)
{
	return result == ncclSuccess ? "no error" : "an error of the stand-in";
}

NC(CommInitRank, (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank))
{
	fake_begin(__func__, FAKE_COST_MODULE, 0);
	if (fake_nccl_join)
		fake_nccl_join();
	return new_comm(hash_of(&commId, sizeof(commId)), nranks, rank, 0, comm);
}

NC(CommInitRankConfig,
   (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t *config))
{
	ncclResult_t r = good_config(config);

	fake_begin(__func__, FAKE_COST_MODULE, 0);
	return r == ncclSuccess ? new_comm(hash_of(&commId, sizeof(commId)), nranks, rank, 0, comm)
				: r;
}

NC(CommInitRankScalable, (ncclComm_t * newcomm, int nranks, int myrank, int nId,
			  ncclUniqueId *commIds, ncclConfig_t *config))
{
	ncclResult_t r = nId < 1 || !commIds ? ncclInvalidArgument : good_config(config);

	fake_begin(__func__, FAKE_COST_MODULE, 0);
	return r == ncclSuccess
		       ? new_comm(hash_of(commIds, sizeof(*commIds)), nranks, myrank, 0, newcomm)
		       : r;
}

NC(CommInitAll, (ncclComm_t * comm, int ndev, const int *devlist))
{
	fake_begin(__func__, FAKE_COST_MODULE, 0);
	if (!comm || ndev < 1 || ndev > RANK_MAX)
		return ncclInvalidArgument;
	for (int i = 0; i < ndev; i++) {
		ncclResult_t r = new_comm(hash_of(&comm, sizeof(comm)), ndev, i,
					  devlist ? devlist[i] : i, &comm[i]);

		if (r != ncclSuccess)
			return r;
	}
	return ncclSuccess;
}

/* Which ranks chose which colour is not known to one rank: the new communicator is as large as the
 * old one, ranked by the key where that is a rank. */
NC(CommSplit, (ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config))
{
	fake_begin(__func__, FAKE_COST_MODULE, 0);
	if (!is_comm(comm) || !newcomm || color < NCCL_SPLIT_NOCOLOR ||
	    good_config(config) != ncclSuccess)
		return ncclInvalidArgument;
	if (color == NCCL_SPLIT_NOCOLOR) {
		*newcomm = NULL;
		return ncclSuccess;
	}
	return new_comm(comm->profile.hash + 1 + (uint64_t)color, comm->n_ranks,
			key >= 0 && key < comm->n_ranks ? key : comm->rank, comm->device, newcomm);
}

NC(CommShrink, (ncclComm_t comm, int *excludeRanksList, int excludeRanksCount, ncclComm_t *newcomm,
		ncclConfig_t *config, int shrinkFlags))
{
	int rank;

	fake_begin(__func__, FAKE_COST_MODULE, 0);
	if (!is_comm(comm) || !excludeRanksList || excludeRanksCount < 1 ||
	    excludeRanksCount >= comm->n_ranks || good_config(config) != ncclSuccess)
		return ncclInvalidArgument;
	rank = comm->rank;
	for (int i = 0; i < excludeRanksCount; i++) {
		if (excludeRanksList[i] < 0 || excludeRanksList[i] >= comm->n_ranks ||
		    excludeRanksList[i] == comm->rank)
			return ncclInvalidArgument;
		rank -= excludeRanksList[i] < comm->rank;
	}
	return new_comm(comm->profile.hash * 3, comm->n_ranks - excludeRanksCount, rank,
			comm->device, newcomm);
}

NC(CommRevoke, (ncclComm_t comm, int revokeFlags))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	return is_comm(comm) ? ncclSuccess : ncclInvalidArgument;
}

NC(CommGrow, (ncclComm_t comm, int nRanks, const ncclUniqueId *uniqueId, int rank,
	      ncclComm_t *newcomm, ncclConfig_t *config))
{
	fake_begin(__func__, FAKE_COST_MODULE, 0);
	if (!is_comm(comm) || nRanks <= comm->n_ranks || rank != -1)
		return ncclInvalidArgument;
	return new_comm(comm->profile.hash * 5, nRanks, comm->rank, comm->device, newcomm);
}

NC(CommGetUniqueId, (ncclComm_t comm, ncclUniqueId *uniqueId))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	if (!is_comm(comm) || !uniqueId)
		return ncclInvalidArgument;
	return getrandom(uniqueId, sizeof(*uniqueId), 0) == sizeof(*uniqueId) ? ncclSuccess
									      : ncclSystemError;
}

NC(CommSuspend, (ncclComm_t comm, int flags))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	return is_comm(comm) ? ncclSuccess : ncclInvalidArgument;
}

NC(CommResume, (ncclComm_t comm))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	return is_comm(comm) ? ncclSuccess : ncclInvalidArgument;
}

/* What is registered is not remembered: its handle is its address. */
NC(CommRegister, (const ncclComm_t comm, void *buff, size_t size, void **handle))
{
	fake_begin(__func__, FAKE_COST_ALLOC, 0);
	if (!is_comm(comm) || !buff || !size || !handle)
		return ncclInvalidArgument;
	*handle = buff;
	return ncclSuccess;
}

NC(CommDeregister, (const ncclComm_t comm, void *handle))
{
	fake_begin(__func__, FAKE_COST_ALLOC, 0);
	return is_comm(comm) && handle ? ncclSuccess : ncclInvalidArgument;
}

NC(CommWindowRegister, (ncclComm_t comm, void *buff, size_t size, ncclWindow_t *win, int winFlags))
{
	fake_begin(__func__, FAKE_COST_ALLOC, 0);
	if (!is_comm(comm) || !buff || !size || !win)
		return ncclInvalidArgument;
	*win = buff;
	return ncclSuccess;
}

NC(CommWindowDeregister, (ncclComm_t comm, ncclWindow_t win))
{
	fake_begin(__func__, FAKE_COST_ALLOC, 0);
	return is_comm(comm) && win ? ncclSuccess : ncclInvalidArgument;
}

/* Every new operation is the first one. */
NC(RedOpCreatePreMulSum, (ncclRedOp_t * op, void *scalar, ncclDataType_t datatype,
			  ncclScalarResidence_t residence, ncclComm_t comm))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	if (!is_comm(comm) || !op || !scalar || (unsigned)datatype >= ncclNumTypes)
		return ncclInvalidArgument;
	*op = (ncclRedOp_t)ncclNumOps;
	return ncclSuccess;
}

NC(RedOpDestroy, (ncclRedOp_t op, ncclComm_t comm))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	return is_comm(comm) && op >= ncclNumOps ? ncclSuccess : ncclInvalidArgument;
}

NC(CommFinalize, (ncclComm_t comm))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	return is_comm(comm) ? ncclSuccess : ncclInvalidArgument;
}

static ncclResult_t end_comm(struct ncclComm *comm)
{
	if (!is_comm(comm))
		return ncclInvalidArgument;
	fake_profile_end(&comm->profile);
	comm->magic = 0;
	free(comm);
	return ncclSuccess;
}

NC(CommDestroy, (ncclComm_t comm))
{
	fake_begin(__func__, FAKE_COST_ALLOC, 0);
	return end_comm(comm);
}

NC(CommAbort, (ncclComm_t comm))
{
	fake_begin(__func__, FAKE_COST_ALLOC, 0);
	return end_comm(comm);
}

NC(CommUserRank, (const ncclComm_t comm, int *rank))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	if (!is_comm(comm) || !rank)
		return ncclInvalidArgument;
	*rank = comm->rank;
	return ncclSuccess;
}

NC(CommCount, (const ncclComm_t comm, int *count))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	if (!is_comm(comm) || !count)
		return ncclInvalidArgument;
	*count = comm->n_ranks;
	return ncclSuccess;
}

NC(CommCuDevice, (const ncclComm_t comm, int *device))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	if (!is_comm(comm) || !device)
		return ncclInvalidArgument;
	*device = comm->device;
	return ncclSuccess;
}

NC(CommGetAsyncError, (ncclComm_t comm, ncclResult_t *asyncError))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	if (!is_comm(comm) || !asyncError)
		return ncclInvalidArgument;
	*asyncError = ncclSuccess;
	return ncclSuccess;
}

NC(MemAlloc, (void **ptr, size_t size))
{
	uint64_t address;

	fake_begin(__func__, FAKE_COST_ALLOC, size);
	if (!ptr || !size)
		return ncclInvalidArgument;
	if (fake_alloc(FAKE_DEVICE, size, &address) != FAKE_OK)
		return ncclSystemError;
	*ptr = (void *)address;
	return ncclSuccess;
}

NC(MemFree, (void *ptr))
{
	fake_begin(__func__, FAKE_COST_ALLOC, 0);
	if (ptr && fake_free(FAKE_DEVICE, (uint64_t)ptr) != FAKE_OK)
		return ncclInvalidArgument;
	return ncclSuccess;
}

NC(GroupStart, (void))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	group_depth++;
	return ncclSuccess;
}

NC(GroupEnd, (void))
{
	fake_begin(__func__, group_depth == 1 ? FAKE_COST_COLLECTIVE : FAKE_COST_NONE, 0);
	if (!group_depth)
		return ncclInvalidUsage;
	if (!--group_depth)
		say_pending();
	return ncclSuccess;
}

NC(GroupSimulateEnd, (ncclSimInfo_t * simInfo))
{
	fake_begin(__func__, FAKE_COST_NONE, 0);
	if (!group_depth)
		return ncclInvalidUsage;
	group_depth--;
	if (simInfo)
		simInfo->estimatedTime = 1.0f;
	return ncclSuccess;
}

/* peer: a root or the other side. In a group the work is done by its end. */
static ncclResult_t enqueued(const char *func, const struct ncclComm *comm, ncclDataType_t type,
			     ncclRedOp_t op, int peer)
{
	fake_begin(func, group_depth ? FAKE_COST_EVENT : FAKE_COST_COLLECTIVE, 0);
	if (!is_comm(comm) || (unsigned)type >= ncclNumTypes || (unsigned)op >= ncclNumOps ||
	    peer < 0 || peer >= comm->n_ranks)
		return ncclInvalidArgument;
	return ncclSuccess;
}

/* What is said to NCCL's plug-in of one that has succeeded. */
static ncclResult_t said(ncclResult_t result, struct ncclComm *comm, unsigned func, uint64_t count,
			 ncclDataType_t type, int peer)
{
	if (result == ncclSuccess)
		say_op(comm, func, count, type, peer);
	return result;
}

NC(AllReduce, (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
	       ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream))
{
	if (fake_nccl_meet)
		fake_nccl_meet();
	return said(enqueued(__func__, comm, datatype, op, 0), comm, SAY_ALL_REDUCE, count,
		    datatype, 0);
}

NC(ReduceScatter, (const void *sendbuff, void *recvbuff, size_t recvcount, ncclDataType_t datatype,
		   ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream))
{
	return said(enqueued(__func__, comm, datatype, op, 0), comm, SAY_REDUCE_SCATTER, recvcount,
		    datatype, 0);
}

NC(Reduce, (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
	    ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream))
{
	return said(enqueued(__func__, comm, datatype, op, root), comm, SAY_REDUCE, count, datatype,
		    root);
}

NC(Broadcast, (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
	       int root, ncclComm_t comm, cudaStream_t stream))
{
	return said(enqueued(__func__, comm, datatype, ncclSum, root), comm, SAY_BROADCAST, count,
		    datatype, root);
}

NC(Bcast, (void *buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
	   cudaStream_t stream))
{
	return said(enqueued(__func__, comm, datatype, ncclSum, root), comm, SAY_BROADCAST, count,
		    datatype, root);
}

NC(AllGather, (const void *sendbuff, void *recvbuff, size_t sendcount, ncclDataType_t datatype,
	       ncclComm_t comm, cudaStream_t stream))
{
	return said(enqueued(__func__, comm, datatype, ncclSum, 0), comm, SAY_ALL_GATHER, sendcount,
		    datatype, 0);
}

NC(AlltoAll, (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
	      ncclComm_t comm, cudaStream_t stream))
{
	return enqueued(__func__, comm, datatype, ncclSum, 0);
}

NC(Gather, (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root,
	    ncclComm_t comm, cudaStream_t stream))
{
	return enqueued(__func__, comm, datatype, ncclSum, root);
}

NC(Scatter, (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root,
	     ncclComm_t comm, cudaStream_t stream))
{
	return enqueued(__func__, comm, datatype, ncclSum, root);
}

NC(Send, (const void *sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
	  cudaStream_t stream))
{
	return said(enqueued(__func__, comm, datatype, ncclSum, peer), comm, SAY_SEND, count,
		    datatype, peer);
}

NC(Recv, (void *recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
	  cudaStream_t stream))
{
	return said(enqueued(__func__, comm, datatype, ncclSum, peer), comm, SAY_RECV, count,
		    datatype, peer);
}

NC(PutSignal, (const void *localbuff, size_t count, ncclDataType_t datatype, int peer,
	       ncclWindow_t peerWin, size_t peerWinOffset, int sigIdx, int ctx, unsigned int flags,
	       ncclComm_t comm, cudaStream_t stream))
{
	return enqueued(__func__, comm, datatype, ncclSum, peer);
}

NC(Signal,
   (int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm, cudaStream_t stream))
{
	return enqueued(__func__, comm, ncclInt8, ncclSum, peer);
}

NC(WaitSignal, (int nDesc, ncclWaitSignalDesc_t *signalDescs, ncclComm_t comm, cudaStream_t stream))
{
	return enqueued(__func__, signalDescs ? comm : NULL, ncclInt8, ncclSum, 0);
}
