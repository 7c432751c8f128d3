/* fake_app: the calls of NCCL. A rank is 1 of 4 where the call does not say otherwise. */
#include "app.h"

#include <string.h>

#define APP_LIBRARY LIB_NCCL
#define N_RANKS     4

static ncclDataType_t type_of(const struct worker *w, unsigned i)
{
	return (ncclDataType_t)(w->bad ? 99 : i % ncclNumTypes);
}

static ncclComm_t comm_of(const struct worker *w)
{
	return (ncclComm_t)app_first(w, NC_COMM);
}

/* aux is dtype | op << 8 | root or peer << 16, as struct gs_event_call has it. */
static void see_collective(const struct worker *w, struct seen *s, unsigned i, uint64_t count,
			   unsigned op, unsigned root, const void *send, const void *recv)
{
	static const uint8_t bytes[ncclNumTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

	s->bytes = w->bad ? 0 : count * bytes[i % ncclNumTypes];
	s->aux = (uint32_t)type_of(w, i) | op << 8 | root << 16;
	s->stream = (uint64_t)handle_of(i);
	s->arg[0] = count;
	s->arg[1] = (uint64_t)comm_of(w);
	s->arg[2] = (uint64_t)send;
	s->arg[3] = (uint64_t)recv;
}

CALL(ncclAllReduce)
{
	see_collective(w, s, i, 1000 + i, i % 5, 0, device_ptr(i), device_ptr(i + 1));
	return DO(ncclAllReduce)(device_ptr(i), device_ptr(i + 1), 1000 + i, type_of(w, i),
				 (ncclRedOp_t)(i % 5), comm_of(w), handle_of(i));
}

CALL(ncclReduceScatter)
{
	see_collective(w, s, i, 2000 + i, i % 5, 0, device_ptr(i), device_ptr(i + 1));
	return DO(ncclReduceScatter)(device_ptr(i), device_ptr(i + 1), 2000 + i, type_of(w, i),
				     (ncclRedOp_t)(i % 5), comm_of(w), handle_of(i));
}

CALL(ncclReduce)
{
	see_collective(w, s, i, 3000 + i, i % 5, i % N_RANKS, device_ptr(i), device_ptr(i + 1));
	return DO(ncclReduce)(device_ptr(i), device_ptr(i + 1), 3000 + i, type_of(w, i),
			      (ncclRedOp_t)(i % 5), (int)(i % N_RANKS), comm_of(w), handle_of(i));
}

CALL(ncclBroadcast)
{
	see_collective(w, s, i, 4000 + i, 0, i % N_RANKS, device_ptr(i), device_ptr(i + 1));
	return DO(ncclBroadcast)(device_ptr(i), device_ptr(i + 1), 4000 + i, type_of(w, i),
				 (int)(i % N_RANKS), comm_of(w), handle_of(i));
}

CALL(ncclBcast)
{
	see_collective(w, s, i, 5000 + i, 0, i % N_RANKS, device_ptr(i), NULL);
	return DO(ncclBcast)(device_ptr(i), 5000 + i, type_of(w, i), (int)(i % N_RANKS), comm_of(w),
			     handle_of(i));
}

CALL(ncclAllGather)
{
	see_collective(w, s, i, 6000 + i, 0, 0, device_ptr(i), device_ptr(i + 1));
	return DO(ncclAllGather)(device_ptr(i), device_ptr(i + 1), 6000 + i, type_of(w, i),
				 comm_of(w), handle_of(i));
}

CALL(ncclAlltoAll)
{
	see_collective(w, s, i, 7000 + i, 0, 0, device_ptr(i), device_ptr(i + 1));
	return DO(ncclAlltoAll)(device_ptr(i), device_ptr(i + 1), 7000 + i, type_of(w, i),
				comm_of(w), handle_of(i));
}

CALL(ncclGather)
{
	see_collective(w, s, i, 8000 + i, 0, i % N_RANKS, device_ptr(i), device_ptr(i + 1));
	return DO(ncclGather)(device_ptr(i), device_ptr(i + 1), 8000 + i, type_of(w, i),
			      (int)(i % N_RANKS), comm_of(w), handle_of(i));
}

CALL(ncclScatter)
{
	see_collective(w, s, i, 9000 + i, 0, i % N_RANKS, device_ptr(i), device_ptr(i + 1));
	return DO(ncclScatter)(device_ptr(i), device_ptr(i + 1), 9000 + i, type_of(w, i),
			       (int)(i % N_RANKS), comm_of(w), handle_of(i));
}

CALL(ncclSend)
{
	see_collective(w, s, i, 1100 + i, 0, i % N_RANKS, device_ptr(i), NULL);
	return DO(ncclSend)(device_ptr(i), 1100 + i, type_of(w, i), (int)(i % N_RANKS), comm_of(w),
			    handle_of(i));
}

CALL(ncclRecv)
{
	see_collective(w, s, i, 1200 + i, 0, i % N_RANKS, device_ptr(i), NULL);
	return DO(ncclRecv)(device_ptr(i), 1200 + i, type_of(w, i), (int)(i % N_RANKS), comm_of(w),
			    handle_of(i));
}

CALL(ncclGroupStart)
{
	return DO(ncclGroupStart)();
}

CALL(ncclGroupEnd)
{
	return DO(ncclGroupEnd)();
}

/* Bytes 0, 1, 2 ... from a start that tells the calls apart. */
static ncclUniqueId id_of(unsigned i)
{
	ncclUniqueId id;

	for (unsigned k = 0; k < sizeof(id.internal); k++)
		id.internal[k] = (char)(k + i + 1);
	return id;
}

CALL(ncclGetUniqueId)
{
	ncclUniqueId id;

	return DO(ncclGetUniqueId)(w->bad ? NULL : &id);
}

CALL(ncclCommInitRank)
{
	ncclComm_t comm = NULL;
	int r = DO(ncclCommInitRank)(&comm, w->bad ? 0 : N_RANKS, id_of(i), 1);

	return app_put(w, NC_COMM, r, s, (uint64_t)comm);
}

static ncclConfig_t config_of(void)
{
	return (ncclConfig_t){.size = sizeof(ncclConfig_t),
			      .magic = NCCL_CONFIG_MAGIC,
			      .version = NCCL_VERSION_CODE};
}

CALL(ncclCommInitRankConfig)
{
	ncclConfig_t config = config_of();
	ncclComm_t comm = NULL;
	int r = DO(ncclCommInitRankConfig)(&comm, w->bad ? 0 : N_RANKS, id_of(i), 1, &config);

	return app_put(w, NC_COMM, r, s, (uint64_t)comm);
}

CALL(ncclCommInitRankScalable)
{
	ncclConfig_t config = config_of();
	ncclUniqueId ids[2] = {id_of(i), id_of(i + 100)};
	ncclComm_t comm = NULL;
	int r = DO(ncclCommInitRankScalable)(&comm, w->bad ? 0 : N_RANKS, 1, 2, ids, &config);

	return app_put(w, NC_COMM, r, s, (uint64_t)comm);
}

/* Makes N_RANKS communicators; the value of the call is the first. */
CALL(ncclCommInitAll)
{
	static const int devices[N_RANKS] = {3, 2, 1, 0};
	ncclComm_t comms[N_RANKS] = {NULL};
	int r = DO(ncclCommInitAll)(comms, w->bad ? 0 : N_RANKS, devices);

	for (unsigned k = N_RANKS - 1; r == ncclSuccess && k; k--) {
		struct seen unused;

		app_put(w, NC_COMM, r, &unused, (uint64_t)comms[k]);
	}
	r = app_put(w, NC_COMM, r, s, (uint64_t)comms[0]);
	s->arg[0] = 0;
	return r;
}

CALL(ncclCommSplit)
{
	ncclComm_t comm = NULL;
	int r = DO(ncclCommSplit)(w->bad ? NULL : comm_of(w), (int)(i % 2), (int)(i % 2), &comm,
				  NULL);

	return app_put(w, NC_COMM, r, s, (uint64_t)comm);
}

CALL(ncclCommShrink)
{
	ncclComm_t comm = NULL;
	int excluded[2] = {2, 3};
	int r = DO(ncclCommShrink)(w->bad ? NULL : comm_of(w), excluded, 2, &comm, NULL, 0);

	return app_put(w, NC_COMM, r, s, (uint64_t)comm);
}

static ncclComm_t see_comm(const struct worker *w, struct seen *s)
{
	s->arg[0] = w->bad ? 0 : app_first(w, NC_COMM);
	return (ncclComm_t)s->arg[0];
}

CALL(ncclCommFinalize)
{
	return DO(ncclCommFinalize)(see_comm(w, s));
}

CALL(ncclCommDestroy)
{
	s->arg[0] = w->bad ? 0 : app_take(w, NC_COMM);
	return DO(ncclCommDestroy)((ncclComm_t)s->arg[0]);
}

CALL(ncclCommAbort)
{
	s->arg[0] = w->bad ? 0 : app_take(w, NC_COMM);
	return DO(ncclCommAbort)((ncclComm_t)s->arg[0]);
}

CALL(ncclCommUserRank)
{
	int rank;

	return DO(ncclCommUserRank)(see_comm(w, s), &rank);
}

CALL(ncclCommCount)
{
	int count;

	return DO(ncclCommCount)(see_comm(w, s), &count);
}

CALL(ncclCommCuDevice)
{
	int device;

	return DO(ncclCommCuDevice)(see_comm(w, s), &device);
}

CALL(ncclCommGetAsyncError)
{
	ncclResult_t error;

	return DO(ncclCommGetAsyncError)(see_comm(w, s), &error);
}

CALL(ncclMemAlloc)
{
	void *p = NULL;

	s->bytes = w->bad ? TOO_MUCH : 4096 + i;
	return PUT(w, NC_MEMORY, DO(ncclMemAlloc)(&p, s->bytes), s, (uint64_t)p);
}

CALL(ncclMemFree)
{
	s->arg[0] = w->bad ? UNKNOWN : app_take(w, NC_MEMORY);
	return DO(ncclMemFree)((void *)s->arg[0]);
}

CALL(ncclGroupSimulateEnd)
{
	ncclSimInfo_t info = {.size = sizeof(info)};

	return DO(ncclGroupSimulateEnd)(&info);
}

CALL(ncclCommRevoke)
{
	return DO(ncclCommRevoke)(see_comm(w, s), 0);
}

CALL(ncclCommGrow)
{
	ncclComm_t comm = NULL;
	int r = DO(ncclCommGrow)(see_comm(w, s), N_RANKS + 1, NULL, -1, &comm, NULL);
	uint64_t parent = s->arg[0];

	r = app_put(w, NC_COMM, r, s, (uint64_t)comm);
	s->arg[0] = parent;
	return r;
}

CALL(ncclCommGetUniqueId)
{
	ncclUniqueId id;

	return DO(ncclCommGetUniqueId)(see_comm(w, s), &id);
}

CALL(ncclCommSuspend)
{
	return DO(ncclCommSuspend)(see_comm(w, s), 1);
}

CALL(ncclCommResume)
{
	return DO(ncclCommResume)(see_comm(w, s));
}

CALL(ncclCommRegister)
{
	void *handle;

	return DO(ncclCommRegister)(see_comm(w, s), device_ptr(i), 4096 + i, &handle);
}

CALL(ncclCommDeregister)
{
	return DO(ncclCommDeregister)(see_comm(w, s), device_ptr(i));
}

CALL(ncclCommWindowRegister)
{
	ncclWindow_t window;

	return DO(ncclCommWindowRegister)(see_comm(w, s), device_ptr(i), 4096 + i, &window, 1);
}

CALL(ncclCommWindowDeregister)
{
	return DO(ncclCommWindowDeregister)(see_comm(w, s), device_ptr(i));
}

CALL(ncclRedOpCreatePreMulSum)
{
	float scalar = 0.5f;
	ncclRedOp_t op;

	return DO(ncclRedOpCreatePreMulSum)(&op, &scalar, ncclFloat32, ncclScalarHostImmediate,
					    see_comm(w, s));
}

CALL(ncclRedOpDestroy)
{
	return DO(ncclRedOpDestroy)((ncclRedOp_t)(ncclNumOps + i), see_comm(w, s));
}

CALL(ncclPutSignal)
{
	see_collective(w, s, i, 1300 + i, 0, i % N_RANKS, device_ptr(i), NULL);
	return DO(ncclPutSignal)(device_ptr(i), 1300 + i, type_of(w, i), (int)(i % N_RANKS),
				 (ncclWindow_t)handle_of(30), 4096, 1, 2, 3, comm_of(w),
				 handle_of(i));
}

CALL(ncclSignal)
{
	s->stream = (uint64_t)handle_of(i);
	return DO(ncclSignal)((int)(i % N_RANKS), 1, 2, 3, see_comm(w, s), handle_of(i));
}

CALL(ncclWaitSignal)
{
	ncclWaitSignalDesc_t peers[2] = {{1, 0, 0, 0}, {1, 1, 0, 0}};

	s->stream = (uint64_t)handle_of(i);
	return DO(ncclWaitSignal)(2, peers, see_comm(w, s), handle_of(i));
}
