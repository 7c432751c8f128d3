/*
 * Private to the room. A link has two halves:
 *
 *   holder.c  in the program: the spool, and the thread that starts the sender, answers what it
 *             asks of the spool, and starts another when it ends
 *   line.c    in the sender, a process without rights: connects and waits; node.c, or the
 *             other protocol of uplink_line.h, speaks with a head; supply.c asks the holder
 *
 * The spool is the truth: what a sender that dies had under way is sent again by the next one.
 */
#ifndef GS_NET_UPLINK_UPLINK_INT_H
#define GS_NET_UPLINK_UPLINK_INT_H

#include "core/sender/sender.h"
#include "net/uplink/uplink_line.h"

#define LINK_WORK        "link"
#define LINK_MESSAGE_MAX 4096 /* of the sender */

/* At most so much is on its way to a head without an acknowledgement. */
#define LINK_FLIGHT_BATCHES 512
#define LINK_FLIGHT_BYTES   (4u << 20)

void uplink_put_reply(struct gs_wire_out *out, const struct gs_uplink_reply *reply);
bool uplink_take_reply(struct gs_wire_in *in, struct gs_uplink_reply *ret);
void uplink_put_state(struct gs_wire_out *out, const struct gs_uplink_line_state *state);
/* False: a count fell, or what cannot be. */
bool uplink_take_state(struct gs_wire_in *in, const struct gs_uplink_line_state *before,
		       struct gs_uplink_line_state *ret);
void uplink_put_config(struct gs_wire_out *out, const struct gs_uplink_config *desired);
bool uplink_take_config(struct gs_wire_in *in, struct gs_uplink_config *ret);
void uplink_put_question(struct gs_wire_out *out, const struct gs_uplink_question *asked);
/* False: what no head asks. */
bool uplink_take_question(struct gs_wire_in *in, struct gs_uplink_question *ret);

/* --- in the sender --- */

extern const struct gs_uplink_protocol link_node;

/* What is tried where the head does not know ours; NULL: nothing. */
const struct gs_uplink_protocol *uplink_other(void);

/* A connected socket to the address, as gs_grpc_client_options.connect_local. */
int uplink_ask_socket(void *line, size_t address);
/* The program's answer: batch.data (lent) has it, or why not; batch.seq: bytes of the file. */
int uplink_ask_question(struct gs_uplink_line *l, const struct gs_uplink_question *asked,
			struct gs_uplink_reply *ret);
void uplink_report(struct gs_uplink_line *l, enum gs_uplink_message what); /* STATE, DONE */
void uplink_report_text(struct gs_uplink_line *l, const char *text);
/* What the holder says without having been asked. */
void uplink_listen(struct gs_uplink_line *l);

#endif
