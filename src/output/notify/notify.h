/*
 * Carries messages of alerts to people: a webhook (HTTP POST), e-mail (SMTP), a log. Each receiver
 * has a bounded queue and a thread of its own, so that one that hangs delays no other, and a
 * message that could not be sent is tried again, later and later, until it is given up. What does
 * not arrive is counted by cause.
 *
 * libcurl is opened at run time, and only when a webhook or e-mail is configured.
 */
#ifndef GS_OUTPUT_NOTIFY_NOTIFY_H
#define GS_OUTPUT_NOTIFY_NOTIFY_H

#include "analysis/alert/alert.h"
#include "analysis/alert/conf.h"
#include "core/base/err.h"

struct gs_notify;

/* The configuration (resolved) is copied; files with secrets are read now. -ENOENT and the like
 * with err: no libcurl, a secret's file that everybody may read, a log that cannot be written. */
int gs_notify_open(const struct gs_alert_conf *conf, const char *host, struct gs_notify **ret,
		   struct gs_err *err);

/* Waits until all is sent, at most for wait_ns. What is left then is in the statistics. */
void gs_notify_drain(struct gs_notify *notify, uint64_t wait_ns);

/* Waits likewise; then drops what is left. */
void gs_notify_close(struct gs_notify **notify, uint64_t wait_ns);

/* Into every queue that wants it; copies. Never waits for a receiver. */
void gs_notify_push(struct gs_notify *notify, const struct gs_alert_message *message);

/* The messages of one moment: those that say the same of several GPUs are one, by gs_alert_join();
 * an Alertmanager gets each, and groups them itself. */
void gs_notify_push_all(struct gs_notify *notify, const struct gs_alert_message *messages,
			size_t n);

struct gs_notify_stats {  /* of one receiver, since it was opened */
	const char *name; /* "webhook", "email", "log" */
	/* Messages; attempts: a message may have several. */
	uint64_t sent, failed_attempts;
	/* messages: no room; too old; the receiver will never take them */
	uint64_t dropped_full, dropped_given_up, dropped_refused;
	size_t waiting;       /* messages in the queue, as of now */
	bool last_failed;     /* the last attempt did */
	char last_error[200]; /* of the last failed attempt; "" none so far */
};

#define GS_NOTIFY_RECEIVERS_MAX 3

/* How many receivers there are. */
size_t gs_notify_stats(struct gs_notify *notify,
		       struct gs_notify_stats ret[GS_NOTIFY_RECEIVERS_MAX]);

#endif
