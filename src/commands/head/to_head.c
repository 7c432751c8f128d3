/* Delivery to a head of what ends: options, folders, and what is reported at the end. */
#include "commands/head/to_head.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/fmt.h"
#include "core/base/folder.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/secret.h"
#include "commands/common/cli.h"
#include "commands/head/remote.h"

#define TITLE_BYTES 256

/* --- options --- */

static int add_head(void *target, const struct gs_cli_option *option, char *argument,
		    struct gs_err *err)
{
	struct to_head_options *o = target;

	if (o->n_addresses == TO_HEADS_MAX)
		return gs_err_set(err, -EINVAL, "--head may be given %d times at most",
				  TO_HEADS_MAX);
	o->addresses[o->n_addresses++] = argument;
	return 0;
}

static int set_machine_id(void *target, const struct gs_cli_option *option, char *argument,
			  struct gs_err *err)
{
	struct to_head_options *o = target;

	o->machine_id = argument;
	return argument[0] && strlen(argument) <= 63 ? 0 : -EINVAL;
}

#define AT(member) GS_CLI_AT(struct to_head_options, member)

const struct gs_cli_option to_head_options_table[] = {
	{"head", 0, "HOST:PORT", "also send it to this head; repeated: fallbacks", GS_CLI_SET,
	 .set = add_head},
	{"spool", 0, "DIR", "spool directory for undelivered data", GS_CLI_TEXT, AT(spool)},
	{"spool-max", 0, "BYTES", "spool size limit (256M)", GS_CLI_BYTES, AT(spool_max_bytes),
	 .min = 1 << 20},
	{"machine-id", 0, "ID", "override /etc/machine-id", GS_CLI_SET, .set = set_machine_id,
	 .takes = "1 to 63 characters"},
	GS_CLI_END};

int to_head_check_options(void *options, struct gs_err *err)
{
	const struct to_head_options *o = options;
	const struct gs_cli_connection *c = &o->connection;

	if (!o->n_addresses && (c->given || o->machine_id || o->spool || o->spool_max_bytes))
		return gs_err_set(err, -EINVAL, "these options need --head HOST:PORT");
	return 0;
}

/* --- life --- */

struct to_head {
	struct gs_uplink_outbox *outbox;
	const struct words *words;
	char title[TITLE_BYTES], token[512];
};

static const struct words {
	const char *folder, *what, *stream;
	uint64_t drain_ns; /* an epilog waits for a report */
} words_of[] = {
	[GS_UPLINK_TRACE] = {"traces", "record", "trace", 10000000000ull},
	[GS_UPLINK_JOBS] = {"reports", "report", "measurement", 5000000000ull},
};

static void print_message(void *ctx, const char *text)
{
	gs_log(GS_LOG_INFO, GS_LOG_HEAD, "%s", text);
}

static int folder_of(const struct to_head_options *o, const char *name, char *out, size_t bytes,
		     struct gs_err *err)
{
	char base[480];
	int r = 0;

	if (o->spool) {
		snprintf(out, bytes, "%s", o->spool);
	} else {
		r = gs_folder_state(base, sizeof(base), "the spool", "--spool", err);
		if (r == 0)
			snprintf(out, bytes, "%s/%s", base, name);
	}
	return r;
}

int to_head_open(const struct to_head_options *options, enum gs_uplink_kind kind, const char *title,
		 struct to_head **ret_head, struct gs_err *err)
{
	struct to_head *h = calloc(1, sizeof(*h));
	struct gs_uplink_options o = {
		.size = sizeof(o),
		.addresses = options->addresses,
		.n_addresses = options->n_addresses,
		.tls = options->connection.tls || options->connection.ca ||
		       options->connection.cert,
		.tls_ca = options->connection.ca,
		.tls_cert = options->connection.cert,
		.tls_key = options->connection.key,
		.server_name = options->connection.server_name,
		.machine_id = options->machine_id,
		.kind = kind,
		.spool_max_bytes = options->spool_max_bytes,
		.on_message = print_message,
	};
	char folder[512];
	int r;

	if (!h)
		return gs_err_set(err, -ENOMEM, "no memory");
	h->words = &words_of[kind];
	snprintf(h->title, sizeof(h->title), "%s", title);
	o.title = h->title;
	r = gs_cli_connection_token(&options->connection, h->token, sizeof(h->token), err);
	o.token = h->token[0] ? h->token : NULL;
	if (r == 0)
		r = folder_of(options, h->words->folder, folder, sizeof(folder), err);
	if (r == 0)
		r = gs_uplink_outbox_open(&o, folder, &h->outbox, err);
	if (r < 0)
		to_head_abandon(&h);
	else
		*ret_head = h;
	return r;
}

struct gs_uplink *to_head_link(struct to_head *head)
{
	return gs_uplink_outbox_link(head->outbox);
}

struct gs_uplink_outbox *to_head_outbox(struct to_head *head)
{
	return head->outbox;
}

static void report_result(const struct words *w, const struct gs_uplink_outbox_result *r)
{
	if (r->lost_samples)
		gs_cli_print_message("%llu %ss dropped: the spool is full (--spool-max)",
				     (unsigned long long)r->lost_samples, w->what);
	if (r->given_up_samples)
		gs_cli_print_message("%llu undelivered %ss dropped: cannot write to %s",
				     (unsigned long long)r->given_up_samples, w->what, r->path);
	if (r->left_samples)
		gs_cli_print_message(
			"%llu %s%s not delivered yet%s%s; the next %s with --head, or gpuscope connect, sends them from %s",
			(unsigned long long)r->left_samples, w->what,
			r->left_samples == 1 ? "" : "s", r->trouble[0] ? ": " : "", r->trouble,
			w->stream, r->path);
	else
		gs_log(GS_LOG_INFO, GS_LOG_HEAD, "everything is delivered to the head");
	if (r->n_sent)
		gs_cli_print_message("%u earlier %s%s delivered to the head, too", r->n_sent,
				     w->stream, r->n_sent == 1 ? "" : "s");
	if (r->n_left)
		gs_cli_print_message("%u earlier %s%s still wait%s in %s", r->n_left, w->stream,
				     r->n_left == 1 ? "" : "s", r->n_left == 1 ? "s" : "",
				     r->folder);
}

int to_head_finish(struct to_head **head)
{
	struct to_head *h = *head;
	struct gs_uplink_outbox_result result;
	struct gs_uplink_stats stats;

	if (!h)
		return 0;
	gs_uplink_stats(to_head_link(h), &stats);
	if (stats.waiting_samples)
		gs_cli_print_message("delivering %llu %ss to the head; waiting at most %u s",
				     (unsigned long long)stats.waiting_samples, h->words->what,
				     (unsigned)(h->words->drain_ns / 1000000000u));
	gs_uplink_outbox_finish(&h->outbox, h->words->drain_ns, &result);
	report_result(h->words, &result);
	to_head_abandon(head);
	return result.lost_samples || result.given_up_samples ? -ENOBUFS : 0;
}

void to_head_abandon(struct to_head **head)
{
	struct to_head *h = *head;

	if (!h)
		return;
	gs_uplink_outbox_abandon(&h->outbox);
	explicit_bzero(h->token, sizeof(h->token));
	gs_free_p(head);
}
