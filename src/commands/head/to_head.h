/* Reaching a head: what commands that deliver to one share. */
#ifndef GS_COMMANDS_HEAD_TO_HEAD_H
#define GS_COMMANDS_HEAD_TO_HEAD_H

#include "commands/common/shared.h"
#include "core/base/err.h"
#include "net/uplink/backlog.h"
#include "net/uplink/uplink.h"
#include "net/uplink/outbox.h"
#include "model/trace/record.h"

#define TO_HEADS_MAX 8

struct to_head_options {
	const char *addresses[TO_HEADS_MAX]; /* tried in turn */
	size_t n_addresses;                  /* 0: to none */
	struct gs_cli_connection connection; /* how they are reached */
	const char *machine_id;              /* NULL: that of /etc/machine-id */
	const char *spool;                   /* folder; NULL the usual one */
	uint64_t spool_max_bytes;            /* 0: 256 MiB */
};

/* The options of a command that delivers to a head: its groups. */
extern const struct gs_cli_option to_head_options_table[];
int to_head_check_options(void *options, struct gs_err *err);

#define TO_HEAD_GROUPS(type, member)                                                               \
	{"Delivery to a head:", to_head_options_table, offsetof(type, member),                     \
	 to_head_check_options},                                                                   \
		GS_CLI_CONNECTION(type, member.connection)

struct to_head;

/* A stream of its own (GS_UPLINK_TRACE, GS_UPLINK_JOBS) with that title. What earlier ones of its
 * kind could not deliver is taken along. A negative errno with err. */
int to_head_open(const struct to_head_options *options, enum gs_uplink_kind kind, const char *title,
		 struct to_head **ret_head, struct gs_err *err);
struct gs_uplink *to_head_link(struct to_head *head);
struct gs_uplink_outbox *to_head_outbox(struct to_head *head);

/* Waits for delivery, some seconds at most, and says what is left. 0, or a negative errno when
 * something is lost for good. */
int to_head_finish(struct to_head **head);

/* Without waiting or a word. */
void to_head_abandon(struct to_head **head);

#endif
