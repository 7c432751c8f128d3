/*
 * Streams that end, on their way to a head: a trace, the reports of a measurement. Each has a
 * folder of its own,
 *
 *   FOLDER/TIME-PID/   its spool, its title, and NAME.saved: what it would push at its end
 *
 * and one whose stream could not deliver everything stays: the next stream of FOLDER takes it
 * along. What is in a stream needs what is before it: when a spool is full, what comes is refused,
 * rather than what is oldest being dropped.
 */
#ifndef GS_NET_UPLINK_OUTBOX_H
#define GS_NET_UPLINK_OUTBOX_H

#include "net/uplink/uplink.h"

struct gs_uplink_outbox;

/* Makes the folders, and starts a link with these options (spool_dir and keep_oldest are not read;
 * texts stay the caller's until the end). A negative errno with err. */
int gs_uplink_outbox_open(const struct gs_uplink_options *options, const char *folder,
			  struct gs_uplink_outbox **ret_outbox, struct gs_err *err);

struct gs_uplink *gs_uplink_outbox_link(struct gs_uplink_outbox *outbox); /* to push to */

/* Keeps a run of records that this stream pushes at its end: should it be killed before, who
 * delivers what it left pushes them instead. Takes the place of what was saved under that name;
 * survives the death of the program. name: 1 to 64 letters, digits, '.', '_', '-'. 0 or a negative
 * errno. */
int gs_uplink_outbox_save(struct gs_uplink_outbox *outbox, const char *name,
			  const struct gs_batch *records, const struct gs_uplink_span *span);
/* It was pushed: what waits in the spool is enough. */
void gs_uplink_outbox_unsave(struct gs_uplink_outbox *outbox, const char *name);

struct gs_uplink_outbox_result {
	uint64_t lost_samples;     /* found no room to wait */
	uint64_t given_up_samples; /* not taken by the head, and in no file */
	uint64_t left_samples;     /* not taken yet: in path */
	unsigned n_sent, n_left;   /* earlier streams: delivered as well; still waiting */
	char path[640];            /* of this stream's folder */
	char folder[512];          /* of all */
	char trouble[256];         /* why the head has not taken all; "" */
};

/* Waits for delivery, drain_ns at most, then for that of what earlier streams left. Frees. */
void gs_uplink_outbox_finish(struct gs_uplink_outbox **outbox, uint64_t drain_ns,
			     struct gs_uplink_outbox_result *ret_result);

/* What streams left in a folder that no program uses, by links of these options (head, TLS, token,
 * machine, kind), until the time is up; added to what is counted. settled: only those that were
 * made a minute ago or more, for one that begins has not locked its own yet. */
void gs_uplink_outbox_deliver(const struct gs_uplink_options *like, const char *folder,
			      uint64_t until_ns, bool settled, unsigned *sent, unsigned *left);

/* Of a stream that did not begin: without waiting; nothing stays when nothing was pushed. */
void gs_uplink_outbox_abandon(struct gs_uplink_outbox **outbox);

#endif
