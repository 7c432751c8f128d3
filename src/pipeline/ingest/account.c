/* The wall-clock account of a thread, as the kernel side added it up. */
#include <string.h>

#include "pipeline/ingest/ingest_int.h"
#include "model/trace/record_account.h"

void gs_ingest_account(struct gs_ingest *f, const struct gs_account_reading *a)
{
	uint32_t comm_str, process_str;
	struct gs_rec_account *r;

	if (f->ended)
		return;
	comm_str = gs_ingest_intern_of(f, a->uid, a->comm);
	process_str = gs_ingest_intern_of(f, a->uid, a->process);
	r = gs_ingest_put(f, GS_REC_ACCOUNT, sizeof(*r), sizeof(a->time_ns));
	r->pid = a->pid;
	r->tid = a->tid;
	r->uid = a->uid;
	r->parent_pid = a->parent_pid;
	r->comm_str = comm_str;
	r->process_str = process_str;
	r->n_states = GS_STATE_COUNT;
	r->n_insides = GS_INSIDE_COUNT;
	r->account_flags = a->ended ? GS_ACCOUNT_ENDED : 0;
	r->account_flags |= a->at_launch ? GS_ACCOUNT_AT_LAUNCH : 0;
	r->account_flags |= (uint32_t)a->end_signal << GS_ACCOUNT_SIGNAL_SHIFT;
	r->born_ns = a->born_mono_ns + (uint64_t)f->boot_minus_mono_ns;
	r->time_ns = a->now_mono_ns + (uint64_t)f->boot_minus_mono_ns;
	memcpy(r->ns, a->time_ns, sizeof(a->time_ns));
	gs_ingest_settle(f);
}
