/*
 * What traces left: a trace that also goes to a head (gpuscope trace --head) keeps its records in
 * FOLDER/TIME-PID/ until the head has them, with its title beside them. Whose trace could not
 * deliver everything leaves the folder, and the next one, or who is connected anyway, takes it
 * along.
 */
#ifndef GS_LINK_LEFT_H
#define GS_LINK_LEFT_H

#include "link/link.h"

typedef void (*gs_left_say_fn)(void *ctx, const char *text); /* one line */

/* Those in the folder that no program uses, by a link of these options (head, TLS, token, machine),
 * until the time is up. say (may be NULL) is told what was delivered, and what is left. settled:
 * only those that were made a minute ago or more, for a trace that begins has not locked its own
 * yet. */
void gs_left_deliver(const struct gs_link_options *like, const char *folder, uint64_t until_ns,
		     bool settled, gs_left_say_fn say, void *say_ctx);

/* A folder that holds nothing any more. */
void gs_left_remove(const char *path);

struct gs_left;

/* The same now and then, on a thread of its own, while link is connected. Texts of the options are
 * lent until the stop, but for the token, which is copied. *ret stays NULL when there is no memory
 * for it. */
void gs_left_start(const struct gs_link_options *like, const char *folder, struct gs_link *link,
		   gs_left_say_fn say, void *say_ctx, struct gs_left **ret);
void gs_left_stop(struct gs_left **left);

#endif
