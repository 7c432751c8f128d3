/*
 * Calls of MPI: the common engine, and beside it what each rank moves to and from which peer, since
 * when and until when it called MPI, and which rank of how many it is.
 */
#define GS_WITH_MPI
#include "bpf/calls/call.bpf.h"
#include "bpf/calls/comm.bpf.h"
#include "bpf/mpi/mpi.bpf.h"

/* A communicator ends: its handle may be another one's next. At the entry, for the call sets it to
 * MPI_COMM_NULL. */
static __always_inline void comm_end(struct gs_thread *t, const struct gs_frame *f)
{
	struct gs_mpi_comm_key key = {.pid = t->pid};
	__u32 bytes = f->abi == GS_MPI_ABI_MPICH ? 4 : 8;

	if (bpf_probe_read_user(&key.comm, bytes & 15, (void *)f->v[0]) == 0)
		bpf_map_delete_elem(&gs_mpi_comms, &key);
}

static __noinline void family_entered(struct pt_regs *ctx, __u64 place)
{
	__u32 slot = place & 0xffff, id = place >> 32 & FUNC_MASK;
	struct gs_thread *t;

	if (gs_desc[id].post != GS_POST_MPI || gs_desc[id].v_aux >> 4 != GS_MPI_COMM_FREE)
		return;
	t = bpf_map_lookup_elem(&gs_threads, &slot);
	if (t)
		comm_end(t, &t->frame[(place >> 16 & 0xffff) & DEPTH_MASK]);
}

static __noinline void send_comm(struct gs_thread *t, const struct gs_frame *f,
				 const struct gs_mpi_comm_key *key, const struct gs_mpi_comm *comm)
{
	struct gs_event_comm *e = comm_reserve(t, f, GS_LAYER_MPI);

	if (!e)
		return;
	e->comm = key->comm;
	e->rank = comm->rank;
	e->n_ranks = comm->n_ranks;
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
}

/* MPI_Comm_rank and MPI_Comm_size: reported when the answer is new. */
static __noinline void learn_comm(struct gs_thread *t, const struct gs_frame *f, __u32 post)
{
	struct gs_mpi_comm_key key = {.pid = t->pid, .comm = mpi_handle(f->v[0], f->abi)};
	struct gs_mpi_comm *known = bpf_map_lookup_elem(&gs_mpi_comms, &key);
	struct gs_mpi_comm comm = {-1, -1};
	__s32 answer = -1, *part;

	if (known)
		comm = *known;
	part = post == GS_POST_COMM_RANK ? &comm.rank : &comm.n_ranks;
	if (bpf_probe_read_user(&answer, 4, (void *)f->v[1]) || answer == *part)
		return;
	*part = answer;
	bpf_map_update_elem(&gs_mpi_comms, &key, &comm, BPF_ANY);
	send_comm(t, f, &key, &comm);
}

static __always_inline void note_span(struct gs_thread *t, const struct gs_frame *f)
{
	struct gs_mpi_key key = {.pid = t->pid, .direction = GS_MPI_SPAN};
	__u32 idx = t->mpi_row;
	struct gs_mpi_row *row;

	if (!idx) {
		idx = mpi_row_find(&key);
		t->mpi_row = idx;
	}
	row = idx ? bpf_map_lookup_elem(&gs_mpi_rows, &idx) : NULL;
	if (!row)
		return;
	if (!row->bytes)
		__sync_val_compare_and_swap(&row->bytes, 0, f->start_ns);
	row->unsized = bpf_ktime_get_ns();
	__sync_fetch_and_add(&row->calls, 1);
}

static __noinline int family_left(struct pt_regs *ctx, struct gs_thread *t, __u32 depth)
{
	struct gs_frame *f = &t->frame[depth & DEPTH_MASK];
	__u32 post = gs_desc[f->func & FUNC_MASK].post;

	note_span(t, f);
	if (!(__s32)ctx->ax && (post == GS_POST_COMM_RANK || post == GS_POST_COMM_SIZE))
		learn_comm(t, f, post);
	return 0;
}

#define FAMILY mpi
#include "bpf/calls/ends.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";
