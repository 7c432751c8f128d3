/* What a summary says of where the time of threads went. Texts as in summary.h. */
#ifndef GS_MODEL_SUMMARY_ACCOUNT_H
#define GS_MODEL_SUMMARY_ACCOUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/trace/account.h"

/* Where the time of a thread went (model/trace/account.h). Its cells sum to wall_ns. */
struct gs_account_thread {
	uint32_t pid, tid, parent_pid;
	const char *comm, *process; /* names of the thread, and of its process */
	uint64_t wall_ns;           /* for how long it is accounted for */
	uint64_t start_ns;          /* since when, from the start of the trace */
	uint64_t time_ns[GS_STATE_COUNT][GS_INSIDE_COUNT];
	/* Of it, until about when its process launched work on a GPU first; 0: not known, or none. */
	uint64_t start_up_ns[GS_STATE_COUNT][GS_INSIDE_COUNT];
	uint64_t launches, collectives; /* calls that it made */
	uint8_t ended;
	uint8_t end_signal; /* that ended its process; 0: none */
	uint8_t idle;       /* only parked: waited for others for more than GS_ACCOUNT_IDLE_PCT */
	uint8_t critical;   /* it sets the pace: one at most */
};

struct gs_account_summary {
	struct gs_account_thread *threads; /* by process, the most active first */
	size_t n_threads;
	uint64_t n_rest; /* threads that are not listed: too many */
	uint64_t rest_ns[GS_STATE_COUNT][GS_INSIDE_COUNT];
};

/* The one that sets the pace; NULL: none is known to. */
const struct gs_account_thread *
gs_summary_critical_thread(const struct gs_account_summary *account);

/* Time in which a thread did something, or waited for the GPU: neither parked nor asleep, nor
 * waiting for no known reason. */
uint64_t gs_summary_active_ns(const struct gs_account_thread *thread);

/* Does the first thread of a process, or NULL, take part in its launches? */
bool gs_summary_takes_part(const struct gs_account_thread *first,
			   const struct gs_account_thread *launches);

/* Which of the first thread of a process and the one that launches most sets its pace? */
const struct gs_account_thread *gs_summary_pace_thread(const struct gs_account_thread *first,
						       const struct gs_account_thread *launches);

#endif
