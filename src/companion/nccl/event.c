/* From what NCCL says to records: begun in one thread, ended maybe in another, written when it ends. */
#include "companion/nccl/nccl_int.h"

#include <stddef.h>
#include <unistd.h>

#include "companion/ring/ring.h"

#define COMMS 1024u /* of a process at one time; operations of more have no number of theirs */

static struct comm {
	uint32_t number; /* 0: free */
	uint32_t version;
	uint64_t hash;
	int *mask; /* of the copy of NCCL that it is of */
	int32_t rank;
	uint32_t nccl;
} comms[COMMS];
static uint32_t n_comms, n_ops, n_groups, n_channels; /* numbers that were given */

/* --- text --- */

static void copy_text(char *to, size_t bytes, const char *from)
{
	size_t n = 0;

	for (; from && n < bytes && from[n]; n++)
		to[n] = from[n];
	for (; n < bytes; n++)
		to[n] = '\0';
}

/* Version 1 has numbers: nccl_common.h, nccl.h and device.h of NCCL 2.23, spelt as later versions do. */
static const char *name_number(enum nccl_field field, uint64_t n)
{
	static const char *const funcs[] = {"Broadcast", "Reduce",   "AllGather", "ReduceScatter",
					    "AllReduce", "SendRecv", "Send",      "Recv"};
	static const char *const types[] = {
		"ncclInt8",   "ncclUint8",   "ncclInt32",   "ncclUint32",  "ncclInt64",
		"ncclUint64", "ncclFloat16", "ncclFloat32", "ncclFloat64", "ncclBfloat16"};
	static const char *const algos[] = {
		"TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT"};
	static const char *const protos[] = {"LL", "LL128", "SIMPLE"};
	static const struct {
		const char *const *names;
		uint8_t n;
	} tables[NCCL_N_FIELDS] = {
		[NCCL_COLL_FUNC_TEXT] = {funcs, 8},      [NCCL_P2P_FUNC_TEXT] = {funcs, 8},
		[NCCL_COLL_DATATYPE_TEXT] = {types, 10}, [NCCL_P2P_DATATYPE_TEXT] = {types, 10},
		[NCCL_COLL_ALGO_TEXT] = {algos, 7},      [NCCL_COLL_PROTO_TEXT] = {protos, 3}};

	return n < tables[field].n ? tables[field].names[n] : "";
}

static void read_text(char *to, size_t bytes, const uint8_t *descr, enum nccl_field field,
		      unsigned version)
{
	uint64_t v = nccl_field_read(descr, field, version);

	copy_text(to, bytes, version == 1 ? name_number(field, v & 0xff) : (const char *)v);
}

/* --- communicators --- */

static struct comm *find_comm(const void *context)
{
	uint64_t c = (uint64_t)context;
	uint32_t index = (uint32_t)(c % COMMS);

	return c && __atomic_load_n(&comms[index].number, __ATOMIC_ACQUIRE) == c / COMMS
		       ? &comms[index]
		       : NULL;
}

static struct comm *take_comm(uint32_t number)
{
	for (uint32_t i = 0; i < COMMS; i++) {
		uint32_t none = 0;

		if (__atomic_compare_exchange_n(&comms[i].number, &none, number, false,
						__ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return &comms[i];
	}
	return NULL;
}

static void write_comm(const struct comm *c, enum gs_nccl_comm_what what,
		       const struct nccl_comm_facts *facts)
{
	char name[GS_COMPANION_NCCL_NAME_BYTES];
	struct gs_companion_nccl_comm *r =
		companion_put(GS_COMPANION_NCCL_COMM, sizeof(*r) + sizeof(name));

	if (!r)
		return;
	copy_text(name, sizeof(name), facts->name);
	r->time = companion_now();
	r->hash = c->hash;
	r->number = c->number;
	r->what = what;
	r->rank = c->rank;
	r->n_ranks = facts->n_ranks;
	r->n_nodes = facts->n_nodes;
	r->abi = c->version;
	r->nccl = c->nccl;
	r->pad = 0;
	__builtin_memcpy(r->name, name, sizeof(name));
	companion_publish(r);
}

void *nccl_event_begin_comm(unsigned version, const void *caller, int *mask,
			    const struct nccl_comm_facts *facts)
{
	uint32_t nccl, number;
	bool no_windows;
	struct comm *c;
	int wanted;

	if (!nccl_door_is_open()) {
		*mask = 0;
		return NULL;
	}
	wanted = nccl_door_mask(version, caller, &nccl, &no_windows);
	__atomic_fetch_or(mask, wanted, __ATOMIC_RELAXED);
	number = __atomic_add_fetch(&n_comms, 1, __ATOMIC_RELAXED);
	c = take_comm(number);
	if (!c)
		return NULL;
	c->version = version;
	c->hash = facts->hash;
	c->rank = facts->rank;
	c->nccl = nccl;
	__atomic_store_n(&c->mask, mask, __ATOMIC_RELEASE);
	write_comm(c, no_windows ? GS_NCCL_COMM_NO_WINDOWS : GS_NCCL_COMM_BEGUN, facts);
	return (void *)((uint64_t)number * COMMS + (uint64_t)(c - comms));
}

void nccl_event_end_comm(void *context)
{
	const struct nccl_comm_facts none = {0};
	struct comm *c = find_comm(context);

	if (!c)
		return;
	nccl_pool_drop(c->number);
	write_comm(c, GS_NCCL_COMM_ENDED, &none);
	__atomic_store_n(&c->number, 0, __ATOMIC_RELEASE);
}

/* --- events --- */

static uint32_t group_of(const uint8_t *descr, enum nccl_field field, unsigned version)
{
	return nccl_pool_number(nccl_field_read(descr, field, version), NCCL_HANDLE_GROUP);
}

static void fill_collective(struct gs_companion_nccl_op *o, const uint8_t *d, unsigned version)
{
	o->what = GS_NCCL_COLLECTIVE;
	o->seq = nccl_field_read(d, NCCL_COLL_SEQ, version);
	o->count = nccl_field_read(d, NCCL_COLL_COUNT, version);
	o->peer = (int32_t)nccl_field_read(d, NCCL_COLL_ROOT, version);
	o->channels = (uint16_t)nccl_field_read(d, NCCL_COLL_CHANNELS, version);
	o->warps = (uint8_t)nccl_field_read(d, NCCL_COLL_WARPS, version);
	o->group = group_of(d, NCCL_COLL_GROUP, version);
	if (version < 4)
		o->hash = nccl_field_read(d, NCCL_COLL_HASH, version);
	read_text(o->func, sizeof(o->func), d, NCCL_COLL_FUNC_TEXT, version);
	read_text(o->datatype, sizeof(o->datatype), d, NCCL_COLL_DATATYPE_TEXT, version);
	read_text(o->algorithm, sizeof(o->algorithm), d, NCCL_COLL_ALGO_TEXT, version);
	read_text(o->protocol, sizeof(o->protocol), d, NCCL_COLL_PROTO_TEXT, version);
}

static void fill_transfer(struct gs_companion_nccl_op *o, const uint8_t *d, unsigned version)
{
	o->what = GS_NCCL_TRANSFER;
	o->seq = 0;
	o->count = nccl_field_read(d, NCCL_P2P_COUNT, version);
	o->peer = (int32_t)nccl_field_read(d, NCCL_P2P_PEER, version);
	o->channels = (uint16_t)nccl_field_read(d, NCCL_P2P_CHANNELS, version);
	o->warps = 0;
	o->group = group_of(d, NCCL_P2P_GROUP, version);
	if (version < 4)
		o->hash = nccl_field_read(d, NCCL_P2P_HASH, version);
	read_text(o->func, sizeof(o->func), d, NCCL_P2P_FUNC_TEXT, version);
	read_text(o->datatype, sizeof(o->datatype), d, NCCL_P2P_DATATYPE_TEXT, version);
	copy_text(o->algorithm, sizeof(o->algorithm), "");
	copy_text(o->protocol, sizeof(o->protocol), "");
}

static void fill_copies(struct gs_companion_nccl_op *o, const uint8_t *d, unsigned version)
{
	o->what = GS_NCCL_COPY_ENGINE;
	o->seq = nccl_field_read(d, NCCL_CE_SEQ, version);
	o->count = nccl_field_read(d, NCCL_CE_COUNT, version);
	o->peer = (int32_t)nccl_field_read(d, NCCL_CE_ROOT, version);
	o->channels = 0;
	o->warps = 0;
	o->group = 0;
	read_text(o->func, sizeof(o->func), d, NCCL_CE_FUNC_TEXT, version);
	read_text(o->datatype, sizeof(o->datatype), d, NCCL_CE_DATATYPE_TEXT, version);
	copy_text(o->algorithm, sizeof(o->algorithm), "COPY_ENGINE");
	copy_text(o->protocol, sizeof(o->protocol), "");
}

/* One that finds no event has its number all the same, by which it is missed. */
static void *start_op(uint64_t type, unsigned version, const struct comm *c, const uint8_t *d)
{
	uint32_t number = __atomic_add_fetch(&n_ops, 1, __ATOMIC_RELAXED);
	struct nccl_event *e = nccl_pool_take();

	if (!e)
		return NULL;
	e->comm = c ? c->number : 0;
	e->head.kind = GS_COMPANION_NCCL_OP;
	e->op.number = number;
	e->op.comm = e->comm;
	e->op.hash = c ? c->hash : 0;
	e->op.rank = (int32_t)nccl_field_read(d, NCCL_RANK, version);
	if (type == NCCL_TYPE_COLL)
		fill_collective(&e->op, d, version);
	else if (type == NCCL_TYPE_P2P)
		fill_transfer(&e->op, d, version);
	else
		fill_copies(&e->op, d, version);
	e->op.start = companion_now();
	return nccl_pool_open(e, NCCL_HANDLE_OP, number);
}

static void *start_channel(uint64_t type, unsigned version, const struct comm *c, const uint8_t *d)
{
	bool is_proxy = type == NCCL_TYPE_PROXY_OP;
	uint64_t parent = nccl_field_read(d, NCCL_PARENT, version);
	struct nccl_event *e = nccl_pool_take();
	struct gs_companion_nccl_channel *ch;

	if (!e)
		return NULL;
	e->comm = c ? c->number : 0;
	ch = &e->channel;
	*ch = (struct gs_companion_nccl_channel){
		.head = {.kind = GS_COMPANION_NCCL_CHANNEL},
		.what = is_proxy ? GS_NCCL_CHANNEL_PROXY : GS_NCCL_CHANNEL_KERNEL,
		.op = nccl_pool_number(parent, NCCL_HANDLE_OP),
	};
	if (is_proxy) {
		/* A proxy works for other processes, too: the handle is theirs then. */
		if ((pid_t)nccl_field_read(d, NCCL_PROXY_PID, version) != getpid())
			ch->op = 0;
		ch->channel = (uint16_t)nccl_field_read(d, NCCL_PROXY_CHANNEL, version);
		ch->peer = (int32_t)nccl_field_read(d, NCCL_PROXY_PEER, version);
		ch->steps = (uint32_t)nccl_field_read(d, NCCL_PROXY_STEPS, version);
		ch->chunk_bytes = (uint32_t)nccl_field_read(d, NCCL_PROXY_CHUNK, version);
		ch->is_send = nccl_field_read(d, NCCL_PROXY_SEND, version) != 0;
	} else {
		ch->channel = (uint16_t)nccl_field_read(d, NCCL_KERNEL_CHANNEL, version);
		ch->gpu_start_ns = nccl_field_read(d, NCCL_KERNEL_TIME, version);
	}
	ch->start = companion_now();
	return nccl_pool_open(e, NCCL_HANDLE_CHANNEL,
			      __atomic_add_fetch(&n_channels, 1, __ATOMIC_RELAXED));
}

void nccl_event_start(unsigned version, void *context, void **ret_handle, const void *descr)
{
	const struct comm *c = find_comm(context);
	int *mask = c ? __atomic_load_n(&c->mask, __ATOMIC_ACQUIRE) : NULL;
	uint64_t type = nccl_type_read(descr, version);

	*ret_handle = NULL;
	if (!nccl_door_is_open()) {
		if (mask)
			__atomic_store_n(mask, 0,
					 __ATOMIC_RELAXED); /* nothing more is to be said */
		return;
	}
	if (mask)
		nccl_door_step(mask, companion_now());
	switch (type) {
	case NCCL_TYPE_GROUP:
		*ret_handle = nccl_pool_handle(NCCL_HANDLE_GROUP,
					       __atomic_add_fetch(&n_groups, 1, __ATOMIC_RELAXED));
		break;
	case NCCL_TYPE_COLL:
	case NCCL_TYPE_P2P:
	case NCCL_TYPE_CE_COLL:
		*ret_handle = start_op(type, version, c, descr);
		break;
	case NCCL_TYPE_PROXY_OP:
	case NCCL_TYPE_KERNEL_CH:
		*ret_handle = start_channel(type, version, c, descr);
		break;
	}
}

void nccl_event_stop(void *handle)
{
	struct nccl_event *e = nccl_pool_close(handle);
	bool is_op = e && e->head.kind == GS_COMPANION_NCCL_OP;
	size_t bytes = is_op ? sizeof(e->op) : sizeof(e->channel);
	struct gs_companion_record *r;
	uint64_t now = companion_now();

	if (!e)
		return;
	*(is_op ? &e->op.end : &e->channel.end) = now;
	r = nccl_door_is_open() ? companion_put(e->head.kind, bytes) : NULL;
	if (r) {
		__builtin_memcpy(r + 1, &e->head + 1, bytes - sizeof(*r));
		companion_publish(r);
	}
	nccl_pool_free(e);
}

void nccl_event_record(void *handle, int state, const void *args)
{
	struct nccl_event *e =
		state == NCCL_STATE_KERNEL_CH_STOP && args ? nccl_pool_find(handle) : NULL;

	if (e && e->head.kind == GS_COMPANION_NCCL_CHANNEL)
		__builtin_memcpy(&e->channel.gpu_end_ns, args, sizeof(uint64_t));
}
