/*
 * The wall-clock account of a thread as a record (model/trace/account.h says what the states and
 * calls are). A running total: the last one of a thread is the one that counts. It carries names of
 * its own, since most threads that have an account make no call that would announce them.
 */
#ifndef GS_MODEL_TRACE_RECORD_ACCOUNT_H
#define GS_MODEL_TRACE_RECORD_ACCOUNT_H

#include "model/trace/account.h"
#include "model/trace/record.h"

struct gs_rec_account {
	struct gs_record head;
	uint32_t pid, tid, uid, parent_pid; /* parent_pid 0: not known */
	uint32_t comm_str;                  /* of the thread */
	uint32_t process_str;               /* of its process */
	uint16_t n_states;                  /* rows of ns[]: by enum gs_account_state */
	uint16_t n_insides;                 /* its columns: by enum gs_account_inside */
	uint32_t account_flags;             /* enum gs_account_flag; above, the signal that
					     * ended its process */
	uint64_t born_ns;                   /* since when it is accounted for; with pid and tid the
					     * name of the thread */
	uint64_t time_ns;                   /* until when */
	uint64_t ns[];                      /* n_states * n_insides, row by row */
};
_Static_assert(sizeof(struct gs_rec_account) == 56, "account");

enum gs_account_flag {                       /* stored */
		       GS_ACCOUNT_ENDED = 1, /* the thread ended at time_ns */
		       /* its process had just launched work on a GPU for the first time */
		       GS_ACCOUNT_AT_LAUNCH = 2,
};
#define GS_ACCOUNT_SIGNAL_SHIFT 8

#endif
