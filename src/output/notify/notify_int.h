/* Between the files of this room. */
#ifndef GS_OUTPUT_NOTIFY_NOTIFY_INT_H
#define GS_OUTPUT_NOTIFY_NOTIFY_INT_H

#include <stdatomic.h>

#include "core/base/buf.h"
#include "output/notify/notify.h"

#define GS_NOTIFY_REFUSED 1 /* of send: it will never be taken, so it is not tried again */

/* A way to send, made by one of the files below. send: 0, GS_NOTIFY_REFUSED or a negative errno
 * (try again later), the last two with err. It ends soon after *stop becomes true. */
struct gs_notify_sender {
	const char *name;
	int (*send)(void *ctx, const struct gs_alert_message *message, const atomic_bool *stop,
		    struct gs_err *err);
	void (*free)(void *ctx);
	void *ctx;
	bool wants_still;
	bool wants_each; /* of messages that could be joined */
	enum gs_alert_severity min_severity;
};

int gs_notify_webhook_open(const struct gs_alert_conf *conf, struct gs_notify_sender *ret,
			   struct gs_err *err);
int gs_notify_email_open(const struct gs_alert_conf *conf, const char *host,
			 struct gs_notify_sender *ret, struct gs_err *err);
int gs_notify_logfile_open(const struct gs_alert_conf *conf, struct gs_notify_sender *ret,
			   struct gs_err *err);

/* --- payload.c: messages as text --- */

int gs_notify_payload_json(const struct gs_alert_message *message, struct gs_buf *out);
/* now_wall_ns: a firing alert is sent with an end some time later, so that it expires unless it is sent again. */
int gs_notify_payload_alertmanager(const struct gs_alert_message *message, int64_t now_wall_ns,
				   uint64_t repeat_ns, struct gs_buf *out);
/* A whole mail with its heads, lines ending in CR LF. */
int gs_notify_payload_mail(const struct gs_alert_message *message, const char *from,
			   const char *recipients, int64_t now_wall_ns, struct gs_buf *out);
/* One line with its end. */
int gs_notify_payload_line(const struct gs_alert_message *message, int64_t now_wall_ns,
			   bool journal, struct gs_buf *out);

#endif
