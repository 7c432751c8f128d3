/* The webhook: a POST of JSON for each message. */
#include <errno.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/secret.h"
#include "net/http_client/http_client.h"
#include "output/notify/notify_int.h"

struct webhook {
	char url[512], token[512], ca_file[256];
	int payload;
	uint64_t timeout_ns, repeat_ns;
};

static int send_one(void *ctx, const struct gs_alert_message *m, const atomic_bool *stop,
		    struct gs_err *err)
{
	struct webhook *w = ctx;
	GS_CLEANUP(gs_buf_fini) struct gs_buf body = GS_BUF_INIT(1 << 16);
	struct gs_http_client_http q = {.url = w->url,
					.token = w->token,
					.ca_file = w->ca_file,
					.timeout_ns = w->timeout_ns,
					.stop = stop};
	char shown[sizeof(w->url)];
	long status;
	int r;

	if (w->payload == GS_ALERT_PAYLOAD_ALERTMANAGER)
		r = gs_notify_payload_alertmanager(m, (int64_t)gs_clock_wall_ns(), w->repeat_ns,
						   &body);
	else
		r = gs_notify_payload_json(m, &body);
	if (r < 0)
		return gs_err_set(err, r, "no memory for the message");
	q.body = body.data;
	q.bytes = body.bytes;
	r = gs_http_client_http(&q, &status, NULL, err);
	if (r < 0)
		return r;
	if (status >= 200 && status < 300)
		return 0;
	gs_err_set(err, -EIO, "%s answers %ld%s",
		   gs_http_client_shown(w->url, true, shown, sizeof(shown)), status,
		   status >= 300 && status < 400 ? ", a redirect: give its target as url" : "");
	/* What the request has done wrong it will do wrong again; 408 and 429 ask for patience. */
	return status >= 300 && status < 500 && status != 408 && status != 429 ? GS_NOTIFY_REFUSED
									       : -EIO;
}

int gs_notify_webhook_open(const struct gs_alert_conf *c, struct gs_notify_sender *ret,
			   struct gs_err *err)
{
	GS_FREE struct webhook *w = calloc(1, sizeof(*w));
	size_t n;
	int r = w ? gs_http_client_load(err) : -ENOMEM;

	if (r == 0 && c->webhook.token_file[0])
		r = gs_secret_read(c->webhook.token_file, "the token of alerts.webhook", w->token,
				   sizeof(w->token), err);
	if (r < 0)
		return r;
	snprintf(w->url, sizeof(w->url), "%s", c->webhook.url);
	snprintf(w->ca_file, sizeof(w->ca_file), "%s", c->webhook.ca_file);
	w->payload = c->webhook.payload;
	w->timeout_ns = c->timeout_ns;
	w->repeat_ns = c->repeat_ns;
	n = strlen(w->url);
	/* An Alertmanager is mostly named by where it listens. */
	if (w->payload == GS_ALERT_PAYLOAD_ALERTMANAGER && !strstr(w->url, "/api/"))
		snprintf(w->url + n, sizeof(w->url) - n, "%sapi/v2/alerts",
			 n && w->url[n - 1] == '/' ? "" : "/");
	*ret = (struct gs_notify_sender){
		.name = "webhook",
		.send = send_one,
		.free = free,
		.wants_still = c->repeat_ns != 0,
		.wants_each = c->webhook.payload == GS_ALERT_PAYLOAD_ALERTMANAGER,
		.min_severity = (enum gs_alert_severity)c->webhook.min_severity};
	ret->ctx = gs_take(w);
	return 0;
}
