/* E-mail: a mail for each message, by SMTP with STARTTLS and a login where configured. */
#include <errno.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/secret.h"
#include "net/http_client/http_client.h"
#include "output/notify/notify_int.h"

struct email {
	struct gs_alert_email conf;
	char url[700];
	int use_ssl;
	uint64_t timeout_ns;
};

static int send_one(void *ctx, const struct gs_alert_message *m, const atomic_bool *stop,
		    struct gs_err *err)
{
	struct email *e = ctx;
	GS_CLEANUP(gs_buf_fini) struct gs_buf body = GS_BUF_INIT(1 << 16);
	struct gs_http_client_mail mail = {.url = e->url,
					   .use_ssl = e->use_ssl,
					   .username = e->conf.username,
					   .password = e->conf.password,
					   .ca_file = e->conf.ca_file,
					   .from = e->conf.from,
					   .recipients = e->conf.recipients,
					   .timeout_ns = e->timeout_ns,
					   .stop = stop};
	long status;
	int r = gs_notify_payload_mail(m, e->conf.from, e->conf.recipients,
				       (int64_t)gs_clock_wall_ns(), &body);

	if (r < 0)
		return gs_err_set(err, r, "no memory for the message");
	mail.body = (const char *)body.data;
	mail.bytes = body.bytes;
	r = gs_http_client_mail(&mail, &status, err);
	/* RFC 5321, 4.2.1: 5yz is for good, 4yz asks to come again. */
	return r < 0 && status >= 500 && status < 600 ? GS_NOTIFY_REFUSED : r;
}

static void free_email(void *ctx)
{
	struct email *e = ctx;

	explicit_bzero(e->conf.password, sizeof(e->conf.password));
	free(e);
}

int gs_notify_email_open(const struct gs_alert_conf *c, const char *host,
			 struct gs_notify_sender *ret, struct gs_err *err)
{
	GS_FREE struct email *e = calloc(1, sizeof(*e));
	int r = e ? gs_http_client_load(err) : -ENOMEM, tls = c->email[0].tls;

	if (r < 0)
		return r;
	e->conf = c->email[0];
	e->timeout_ns = c->timeout_ns;
	if (e->conf.password_file[0])
		r = gs_secret_read(e->conf.password_file, "the password of alerts.email",
				   e->conf.password, sizeof(e->conf.password), err);
	if (r < 0)
		return r;
	if (!e->conf.from[0])
		snprintf(e->conf.from, sizeof(e->conf.from), "gpuscope@%.64s",
			 host[0] ? host : "localhost");
	if (tls == GS_ALERT_TLS_AUTO && e->conf.port == 465)
		tls = GS_ALERT_TLS_TLS;
	else if (tls == GS_ALERT_TLS_AUTO && e->conf.username[0])
		tls = GS_ALERT_TLS_STARTTLS; /* no password goes in the clear unasked */
	e->use_ssl = tls == GS_ALERT_TLS_AUTO       ? GS_HTTP_CLIENT_SSL_TRY
		     : tls == GS_ALERT_TLS_STARTTLS ? GS_HTTP_CLIENT_SSL_ALWAYS
						    : GS_HTTP_CLIENT_SSL_NO;
	snprintf(e->url, sizeof(e->url), "%s://%s:%lld/%s",
		 tls == GS_ALERT_TLS_TLS ? "smtps" : "smtp", e->conf.server,
		 (long long)e->conf.port, host[0] ? host : "localhost");
	*ret = (struct gs_notify_sender){.name = "email",
					 .send = send_one,
					 .free = free_email,
					 .min_severity =
						 (enum gs_alert_severity)e->conf.min_severity};
	ret->ctx = gs_take(e);
	return 0;
}
