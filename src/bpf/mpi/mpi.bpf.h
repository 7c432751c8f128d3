/*
 * Bytes and peers of a call of MPI. Arguments mean what mpi.h of MPICH 4.0 and Open MPI 4.1 say;
 * what differs between these follows from the cookie of the entry (model/trace/mpi.h).
 */
#ifndef GS_BPF_MPI_MPI_BPF_H
#define GS_BPF_MPI_MPI_BPF_H

#include "bpf/calls/post.bpf.h"
#include "model/trace/mpi.h"

/* By index; row 0 counts those that were handed out. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, GS_MPI_ROW_MAX);
	__type(key, __u32);
	__type(value, struct gs_mpi_row);
} gs_mpi_rows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, GS_MPI_ROW_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct gs_mpi_key);
	__type(value, __u32);
} gs_mpi_row_of SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct gs_mpi_comm_key);
	__type(value, struct gs_mpi_comm);
} gs_mpi_comms SEC(".maps");

/* Its index; 0: there is no room. */
static __noinline __u32 mpi_row_find(const struct gs_mpi_key *key)
{
	__u32 *known = bpf_map_lookup_elem(&gs_mpi_row_of, key), idx = 0;
	struct gs_mpi_row *row;

	if (known)
		return *known;
	row = bpf_map_lookup_elem(&gs_mpi_rows, &idx);
	if (row && row->calls < GS_MPI_ROW_MAX - 1)
		idx = __sync_fetch_and_add(&row->calls, 1) + 1;
	row = idx ? bpf_map_lookup_elem(&gs_mpi_rows, &idx) : NULL;
	if (!row) {
		count_loss(GS_LAYER_MPI, GS_LOSS_PEERS);
		return 0;
	}
	row->key = *key;
	if (bpf_map_update_elem(&gs_mpi_row_of, key, &idx, BPF_NOEXIST) == 0)
		return idx;
	known = bpf_map_lookup_elem(&gs_mpi_row_of, key); /* another thread was first */
	return known ? *known : 0;
}

/* Not static, as mpi_type_bytes(): the verifier looks at it once, whatever calls it. */
__noinline int mpi_add(struct gs_mpi_key *key, __u64 bytes, bool sized)
{
	struct gs_mpi_row *row;
	struct gs_mpi_key own;
	__u32 idx;

	if (!key)
		return 0;
	own = *key; /* before Linux 6.2 the verifier takes no key from beyond the own stack */
	idx = mpi_row_find(&own);
	row = idx ? bpf_map_lookup_elem(&gs_mpi_rows, &idx) : NULL;
	if (!row)
		return 0;
	__sync_fetch_and_add(&row->calls, 1);
	if (sized)
		__sync_fetch_and_add(&row->bytes, bytes);
	else
		__sync_fetch_and_add(&row->unsized, 1);
	return 0;
}

/* A handle: an int, or an address. */
static __always_inline __u64 mpi_handle(__u64 word, __u32 abi)
{
	return abi == GS_MPI_ABI_MPICH ? word & 0xffffffff : word;
}

/* A rank as aux has it. */
static __always_inline __u32 mpi_peer(__u32 word, __u32 abi)
{
	__s32 any = abi == GS_MPI_ABI_MPICH ? -2 : -1,
	      null_rank = abi == GS_MPI_ABI_MPICH ? -1 : -2;
	__s32 rank = word;

	if (rank >= 0)
		return word + 1;
	if (abi == GS_MPI_ABI_UNKNOWN)
		return 0;
	return rank == any ? GS_MPI_AUX_ANY : rank == null_rank ? GS_MPI_AUX_NOBODY : 0;
}

static __always_inline bool mpi_in_place(__u64 buffer, __u32 abi)
{
	return buffer == (abi == GS_MPI_ABI_MPICH ? ~0ull : 1);
}

/* The size of a datatype; ~0: not known. */
__noinline __u64 mpi_type_bytes(__u64 type, __u32 abi)
{
	/* MPI_FLOAT_INT, MPI_DOUBLE_INT, MPI_LONG_INT, MPI_SHORT_INT, MPI_LONG_DOUBLE_INT */
	const __u64 pairs = 0x14060c0c08;
	__u32 handle = type;
	__u64 size = 0;

	if (abi == GS_MPI_ABI_MPICH) {
		if (handle >> 16 == 0x4c00)
			return handle >> 8 & 0xff;
		if (handle - 0x8c000000u < 5)
			return pairs >> (handle - 0x8c000000u) * 8 & 0xff;
		return ~0ull;
	}
	if (abi < GS_MPI_ABI_MIN || bpf_probe_read_user(&size, 8, (void *)(type + abi)) ||
	    size >> 40)
		return ~0ull;
	return size;
}

/* Of count elements; ~0: not known. */
static __always_inline __u64 mpi_bytes(__u64 count, __u64 type, __u32 abi)
{
	__u64 size = mpi_type_bytes(type, abi);

	return size == ~0ull || (__s32)count < 0 ? ~0ull : (count & 0xffffffff) * size;
}

/* What the status of a receive says. False: the program did not ask for it. */
static __always_inline bool mpi_status(__u64 status, __u32 abi, __u32 *ret_peer, __u64 *ret_bytes)
{
	__u32 v[6] = {};

	if (abi == GS_MPI_ABI_MPICH) {
		/* count_lo, count_hi_and_cancelled, MPI_SOURCE; MPI_STATUS_IGNORE is 1 */
		if (status <= 1 || bpf_probe_read_user(v, 12, (void *)status))
			return false;
		*ret_bytes = v[0] | (__u64)(v[1] >> 1) << 32;
		*ret_peer = mpi_peer(v[2], abi);
		return true;
	}
	/* MPI_SOURCE, MPI_TAG, MPI_ERROR, _cancelled, _ucount (size_t); MPI_STATUS_IGNORE is 0 */
	if (abi < GS_MPI_ABI_MIN || !status || bpf_probe_read_user(v, 24, (void *)status))
		return false;
	*ret_bytes = v[4] | (__u64)v[5] << 32;
	*ret_peer = mpi_peer(v[0], abi);
	return true;
}

static __always_inline __u32 mpi_ranks(__u32 pid, __u64 comm)
{
	struct gs_mpi_comm_key key = {.pid = pid, .comm = comm};
	struct gs_mpi_comm *c = bpf_map_lookup_elem(&gs_mpi_comms, &key);

	return c && c->n_ranks > 0 ? c->n_ranks : 0;
}

#define MPI_COUNTS_READ 16
#define MPI_COUNTS_MAX  2048

/* The sum of n counts at from, 16 at most; ~0: not known. A function of its own for the
 * verifier. */
__noinline __u64 mpi_sum_some(__u64 from, __u32 n)
{
	__u32 v[MPI_COUNTS_READ] = {};
	__u64 sum = 0;

	barrier_var(n); /* else the compiler leaves out the bound that the verifier needs */
	if (n > MPI_COUNTS_READ || bpf_probe_read_user(v, n * 4, (void *)from))
		return ~0ull;
	for (int i = 0; i < MPI_COUNTS_READ; i++)
		sum += v[i];
	return sum;
}

/* The sum of an array of counts, one for each rank; ~0: not known. A function of its own for the
 * verifier. */
__noinline __u64 mpi_sum_counts(__u64 from, __u32 n)
{
	__u64 sum = 0;

	if (!n || n > MPI_COUNTS_MAX)
		return ~0ull;
	/* The last read ends the loop by itself. Were n taken down to 0, the verifier, which does not
	 * know that it is then, would follow the rest of the loop from each iteration again. */
	for (int i = 0; i < MPI_COUNTS_MAX / MPI_COUNTS_READ; i++) {
		bool last = n <= MPI_COUNTS_READ;
		__u64 some = mpi_sum_some(from, last ? n : MPI_COUNTS_READ);

		if (some == ~0ull)
			return some;
		sum += some;
		if (last)
			break;
		from += MPI_COUNTS_READ * 4;
		n -= MPI_COUNTS_READ;
	}
	return sum;
}

/* One direction of a transfer between two. A function of its own for the verifier. */
__noinline int mpi_transfer(const struct gs_outcome *o, __u32 direction, __u32 peer, __u64 comm,
			    __u64 bytes)
{
	struct gs_mpi_key key = {.comm = comm, .direction = direction};

	if (!o || o->failed || !peer || peer == GS_MPI_AUX_NOBODY)
		return 0;
	key.pid = o->pid;
	key.peer = peer == GS_MPI_AUX_ANY ? GS_MPI_PEER_ANY : peer - 1;
	mpi_add(&key, bytes, bytes != ~0ull);
	return 0;
}

/* The receiving half; *peer is who is asked, then who it was. Returns the bytes. */
static __always_inline __u64 mpi_receive(const struct gs_outcome *o, __u32 abi, __u64 status,
					 __u32 *peer, __u64 comm, __u64 room)
{
	__u64 bytes = room;

	if (*peer == GS_MPI_AUX_NOBODY)
		return 0;
	if (!o->failed && mpi_status(status, abi, peer, &bytes)) {
		mpi_transfer(o, GS_MPI_RECEIVED, *peer, comm, bytes);
		return bytes;
	}
	mpi_transfer(o, GS_MPI_ROOM, *peer, comm, room);
	return room;
}

static __always_inline __u64 mpi_both(__u64 a, __u64 b)
{
	return a == ~0ull || b == ~0ull ? ~0ull : a + b;
}

static __always_inline __u64 mpi_by_shape(struct gs_frame *f, struct gs_outcome *o,
					  const volatile struct gs_func_desc *d, __u32 *peer)
{
	__u32 shape = d->v_aux >> 4, abi = f->abi, from;
	__u64 count = gs_args_word(f, d->v_bytes), type = gs_args_word(f, d->v_bytes2), bytes;
	__u64 comm = mpi_handle(gs_args_word(f, d->v_arg[1]), abi);

	switch (shape) {
	case GS_MPI_GATHER:
	case GS_MPI_ALLTOALL:
		if (mpi_in_place(f->v[0], abi)) {
			count = f->v[4];
			type = f->v[5];
		}
		break;
	case GS_MPI_SCATTER:
		if (mpi_in_place(f->v[3], abi)) {
			count = f->v[1];
			type = f->v[2];
		}
		break;
	case GS_MPI_ALLTOALLV:
		if (mpi_in_place(f->v[0], abi)) {
			count = f->v[5];
			type = f->v[7];
		}
		break;
	case GS_MPI_GATHERV:
		if (mpi_in_place(f->v[0], abi))
			return ~0ull;
		break;
	case GS_MPI_SCATTERV:
		if (mpi_in_place(f->v[4], abi))
			return ~0ull;
		break;
	}
	if (shape == GS_MPI_SUM || shape == GS_MPI_ALLTOALLV) {
		count = mpi_sum_counts(count, mpi_ranks(o->pid, comm));
		bytes = mpi_type_bytes(type, abi);
		return count == ~0ull || bytes == ~0ull ? ~0ull : count * bytes;
	}
	if (shape == GS_MPI_UNSIZED)
		return ~0ull;
	bytes = mpi_bytes(count, type, abi);
	switch (shape) {
	case GS_MPI_PER_RANK:
	case GS_MPI_ALLTOALL:
		count = mpi_ranks(o->pid, comm);
		return !count || bytes == ~0ull ? ~0ull : bytes * count;
	case GS_MPI_SEND:
		if (*peer == GS_MPI_AUX_NOBODY)
			return 0;
		mpi_transfer(o, GS_MPI_SENT, *peer, comm, bytes);
		return bytes;
	case GS_MPI_RECV:
		return mpi_receive(o, abi, gs_args_word(f, d->v_stream), peer, comm, bytes);
	case GS_MPI_SENDRECV:
		from = mpi_peer(f->v[8], abi);
		type = mpi_bytes(f->v[6], f->v[7], abi);
		type = mpi_receive(o, abi, f->v[11], &from, comm, type);
		if (*peer == GS_MPI_AUX_NOBODY)
			return type;
		mpi_transfer(o, GS_MPI_SENT, *peer, comm, bytes);
		return mpi_both(bytes, type);
	case GS_MPI_SENDRECV_REPLACE:
		from = mpi_peer(f->v[5], abi);
		type = mpi_receive(o, abi, f->v[8], &from, comm, bytes);
		if (*peer == GS_MPI_AUX_NOBODY)
			return type;
		mpi_transfer(o, GS_MPI_SENT, *peer, comm, bytes);
		return mpi_both(bytes, type);
	}
	return bytes;
}

/* Sets o->bytes and what an event says of the peer (v[14]), and counts for the peers. A function
 * of its own for the verifier. */
__noinline int mpi_measure(struct gs_frame *f, struct gs_outcome *o)
{
	const volatile struct gs_func_desc *d;
	__u32 peer = 0;
	__u64 bytes;

	if (!f || !o)
		return 0;
	d = &gs_desc[o->id & FUNC_MASK];
	if ((d->v_aux & (GS_V_MAX - 1)) != GS_V_NONE)
		peer = mpi_peer(gs_args_word(f, d->v_aux), f->abi);
	bytes = mpi_by_shape(f, o, d, &peer);
	if (bytes == ~0ull && !o->failed) {
		o->flags |= GS_CALL_ARGS_UNREAD;
		count_loss(GS_LAYER_MPI, GS_LOSS_SIZE);
	}
	o->bytes = bytes == ~0ull ? 0 : bytes;
	f->v[14] = peer;
	return 0;
}

#endif
