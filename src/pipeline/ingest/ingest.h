/*
 * Raw events in, records out: names and entities are interned, clocks made one, losses counted,
 * and the result handed to the sinks in batches. The only room that knows both struct gs_event and
 * struct gs_record. One thread.
 */
#ifndef GS_PIPELINE_INGEST_INGEST_H
#define GS_PIPELINE_INGEST_INGEST_H

#include <stdint.h>

#include "core/base/err.h"
#include "model/trace/attach.h"
#include "model/trace/event.h"
#include "model/trace/kernel_side.h"
#include "model/trace/func_set.h"
#include "model/trace/record.h"
#include "model/trace/record_hang.h"
#include "model/gpu_work/record.h"
#include "model/nccl/record.h"
#include "model/trace/user_set.h"
#include "sources/identity/identity.h"

#define GS_INGEST_MAX_SINKS 8
#define GS_INGEST_PAST      UINT32_MAX /* in place of a slot: of a thread that may have ended */

struct gs_ingest;

struct gs_reader;

struct gs_ingest_options {
	size_t size;               /* of this struct */
	enum gs_session_mode mode; /* for SESSION, as the next two */
	const char *command;       /* the traced one, or how targets were chosen */
	const char *attach_mode;   /* how calls are caught */
	int64_t boot_minus_mono_ns;
	struct gs_identity *place;       /* borrowed */
	const struct gs_func_set *funcs; /* borrowed; NULL: the fixed table alone */
	const struct gs_user_set *users; /* borrowed; NULL: no probes were described */
	struct gs_reader *reader;        /* of files for native stacks, keeps its state; borrowed;
					  * NULL: there are no such stacks */
};

/* Starts a stream: the first batch holds its SESSION record. 0, -ENOMEM, or -EINVAL for options
 * that cannot be (size, mode, no place). */
int gs_ingest_new(const struct gs_ingest_options *options, struct gs_ingest **ret_feed);
void gs_ingest_free(struct gs_ingest **feed);

/* Sinks are called in the order added; one that fails is not called again, and the CALL records it
 * misses are reported to the others at the end (GS_LOSS_SINK, with its name). Added before the first
 * event; at most GS_INGEST_MAX_SINKS. The struct is copied; name is a static text. 0, -EINVAL without
 * push, -ENOSPC when there are too many, -EBUSY when a batch has already left. */
int gs_ingest_add_sink(struct gs_ingest *feed, const char *name, const struct gs_sink *sink);

/* The way to all sinks, for a stage that stands between ingest and them; lent as long as feed
 * lives.
 */
const struct gs_sink *gs_ingest_outlet(struct gs_ingest *feed);

/* From now on batches go to stage, which passes them on to the outlet, completed. Set before the
 * first event; copied. */
void gs_ingest_set_stage(struct gs_ingest *feed, const struct gs_sink *stage);

/* The error of the sink that failed first of those not yet reported here, and its name; 0 none. */
int gs_ingest_sink_error(struct gs_ingest *feed, const char **ret_name);

/* One raw event from the ring (lent). Unknown kinds and sizes are counted as GS_LOSS_EVENT_BAD.
 * Events of one thread come in their order; the exit of a thread before or after the last reading
 * of its cells. */
void gs_ingest_event(struct gs_ingest *feed, const struct gs_event *event);

/* A process has mapped code there (sources/elf/library.h), or (NULL) begun a new program: needed
 * for its native stacks, which may be looked at after it has ended. */
struct gs_mapping;
void gs_ingest_map(struct gs_ingest *feed, uint32_t pid, uint64_t mono_ns,
		   const struct gs_mapping *mapping);

/* What a thread's cell grew by since the last time: before is the earlier reading (all zero the
 * first time), now the present one; hist counts are compared modulo 2^32. thread has pid, tid
 * and comm. Nothing is sent when nothing changed. */
void gs_ingest_cell(struct gs_ingest *feed, const struct gs_thread *thread,
		    const struct gs_cell *before, const struct gs_cell *now);

/* What the calls of a described probe in one thread have grown by: a STATS record, and, where a
 * value is aggregated, an AGGREGATE after it. */
void gs_ingest_user(struct gs_ingest *feed, const struct gs_user_sum *sum);

/* What a process moved by MPI to or from a peer, or when it called MPI, since before. */
void gs_ingest_mpi(struct gs_ingest *feed, const struct gs_mpi_row *before,
		   const struct gs_mpi_row *now);

/* A Python function that a process reports itself: the id by which events and cells name it from then on. 0: no
 * memory. */
uint16_t gs_ingest_python_function(struct gs_ingest *feed, const char *file, const char *name,
				   uint32_t line);

/* What a GPU did for a process, as it reports itself: monotonic ns. name: a number that the process gave a kernel's
 * name before, 0 none; the thread that asked for it is work->tid. */
void gs_ingest_gpu_name(struct gs_ingest *feed, uint32_t pid, uint32_t name, const char *symbol);
void gs_ingest_gpu_work(struct gs_ingest *feed, uint32_t pid, uint32_t name,
			const struct gs_gpu_work *work);

/* When that was looked at: process is left out, and time_ns is monotonic. */
void gs_ingest_gpu_window(struct gs_ingest *feed, uint32_t pid,
			  const struct gs_rec_gpu_window *window, const char *text);

/* As NCCL spells them; "" it said none. */
struct gs_ingest_nccl_words {
	const char *func, *datatype, *algorithm, *protocol; /* lent for the call */
};

/* What NCCL says of itself in a process, as records: ids and texts of what is given are left out, its times are
 * monotonic ns. A communicator of that name. */
void gs_ingest_nccl_comm(struct gs_ingest *feed, uint32_t pid, const struct gs_rec_nccl_comm *comm,
			 const char *name);
/* An operation. tid: of the thread that enqueued it. Its bytes are found by the name of its type. */
void gs_ingest_nccl_op(struct gs_ingest *feed, uint32_t pid, uint32_t tid,
		       const struct gs_rec_nccl_op *op, const struct gs_ingest_nccl_words *words);
/* A channel of an operation, or a proxy's part of it. */
void gs_ingest_nccl_channel(struct gs_ingest *feed, uint32_t pid,
			    const struct gs_rec_nccl_channel *channel);

/* A call that is still open: sent as a CALL with GS_CALL_UNFINISHED, dur_ns its age. Arguments that
 * only its return has, or that lie in memory of the process, are 0. */
void gs_ingest_open_call(struct gs_ingest *feed, const struct gs_thread *thread,
			 const struct gs_frame *frame, unsigned depth, uint64_t now_mono_ns);

/* A function of the layers above CUDA that is still open: thread->scope[depth]. */
void gs_ingest_open_scope(struct gs_ingest *feed, const struct gs_thread *thread, unsigned depth,
			  uint64_t now_mono_ns);

/* Where a thread's time went so far: an ACCOUNT record. */
void gs_ingest_account(struct gs_ingest *feed, const struct gs_account_reading *reading);

struct gs_ingest_hang_rank {
	struct gs_rec_hang_rank is;                 /* but for its strings */
	const char *state, *text, *python, *native; /* lent; NULL: none */
};

/* A hang that was found, or (text NULL, no ranks) is over; strings of its record are given as texts, lent. Of
 * ranks the first GS_HANG_RANKS_MAX are kept. */
void gs_ingest_hang(struct gs_ingest *feed, const struct gs_rec_hang *hang, const char *kind,
		    const char *text, const struct gs_ingest_hang_rank *ranks, size_t n_ranks);

/* A value of the machine, now. */
void gs_ingest_counter(struct gs_ingest *feed, const char *name, int64_t value);

/* count things were lost since the last time; 0: nothing. layer: 0 all; detail: which file or
 * process, NULL none. */
void gs_ingest_loss(struct gs_ingest *feed, unsigned layer, enum gs_loss cause, const char *detail,
		    uint64_t count);

/* Records that were made elsewhere and name no text and no entity: samples of the machine. */
void gs_ingest_records(struct gs_ingest *feed, const struct gs_batch *records);

/* Has a process of that number been recorded, and not ended since? */
bool gs_ingest_has_process(const struct gs_ingest *feed, uint32_t pid);

/* A file was attached to, or could not be. */
void gs_ingest_attach(struct gs_ingest *feed, const struct gs_attach *attach);

/* Hand over the batch so far, and flush the sinks. Losses that ingest itself found are reported
 * now. */
void gs_ingest_flush(struct gs_ingest *feed);

/* Read from their files what kernels that were launched so far need, and record it. May take as long as
 * reading a large library does. */
void gs_ingest_needs(struct gs_ingest *feed);

/* Send END and flush; nothing is taken in after it. exit_status -1: there was no command. */
void gs_ingest_end(struct gs_ingest *feed, int exit_status, const char *reason);

#endif
