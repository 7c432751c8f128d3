/* Reaching a head: what commands that deliver to one share. */
#ifndef GS_CMD_TO_HEAD_H
#define GS_CMD_TO_HEAD_H

#include <argp.h>

#include "base/err.h"
#include "link/left.h"
#include "link/link.h"
#include "model/record.h"

/* Where what waits for a head is kept: /var/lib/gpuscope, or the user's ~/.local/state/gpuscope.
 * Made when it is not there. option: the one that names another place, for the message. */
int to_head_state_folder(char *out, size_t bytes, const char *option, struct gs_err *err);

/* --- a trace that also goes to a head: trace_head.c --- */

#define TRACE_HEADS_MAX 8

struct trace_head_options {
	const char *addresses[TRACE_HEADS_MAX];
	size_t n_addresses; /* 0: to none */
	bool tls;
	const char *ca, *cert, *key, *server_name, *token_file, *machine_id;
	const char *spool;        /* folder; NULL the usual one */
	uint64_t spool_max_bytes; /* 0: 256 MiB */
};

/* --head and those that begin with it; the input is a struct trace_head_options. */
extern const struct argp trace_head_argp;

struct trace_head;

/* title: what is traced. What earlier traces could not deliver is taken along. */
int trace_head_new(const struct trace_head_options *options, const char *title,
		   struct trace_head **ret_head, struct gs_err *err);
const struct gs_sink *trace_head_sink(struct trace_head *head);

/* Waits for delivery, some seconds at most, and says what is left. 0, or a negative errno when
 * records are lost for good. */
int trace_head_finish(struct trace_head **head);

/* Without waiting or a word. */
void trace_head_free(struct trace_head **head);

#endif
