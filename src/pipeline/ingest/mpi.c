/* Peers of MPI: rows of the kernel side to records. */
#include "pipeline/ingest/ingest_int.h"
#include "model/trace/record_mpi.h"

void gs_ingest_mpi(struct gs_ingest *f, const struct gs_mpi_row *before,
		   const struct gs_mpi_row *now)
{
	const struct gs_mpi_key *key = &now->key;
	struct gs_rec_mpi *r;

	if (f->ended)
		return;
	if (!key->pid || key->direction < GS_MPI_SENT || key->direction > GS_MPI_SPAN ||
	    now->calls < before->calls) {
		f->pending_loss[GS_LOSS_EVENT_BAD]++;
		return;
	}
	/* The thread that called has mostly been announced, by a cell. */
	if (!gs_ingest_process_id(f, key->pid) &&
	    !gs_ingest_thread_find(f, key->pid, key->pid, "", GS_INGEST_PAST)) {
		f->pending_loss[GS_LOSS_NO_THREAD]++;
		return;
	}
	r = gs_ingest_put(f, GS_REC_MPI, sizeof(*r), 0);
	r->process = gs_ingest_process_id(f, key->pid);
	r->peer = key->peer;
	r->comm = key->comm;
	r->direction = key->direction;
	r->calls = now->calls - before->calls;
	if (key->direction == GS_MPI_SPAN) {
		r->first_ns = now->bytes + (uint64_t)f->boot_minus_mono_ns;
		r->last_ns = now->unsized + (uint64_t)f->boot_minus_mono_ns;
	} else {
		r->bytes = now->bytes - before->bytes;
		r->unsized = now->unsized - before->unsized;
	}
	gs_ingest_settle(f);
}
