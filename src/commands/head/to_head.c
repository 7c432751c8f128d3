/* Delivery to a head of what ends: options, folders, and what is told at the end. */
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

enum {
	OPT_HEAD = 600,
	OPT_TLS,
	OPT_CA,
	OPT_CERT,
	OPT_KEY,
	OPT_NAME,
	OPT_TOKEN,
	OPT_SPOOL,
	OPT_SPOOL_MAX,
	OPT_MACHINE_ID
};

static const struct argp_option option_table[] = {
	{"head", OPT_HEAD, "HOST:PORT", 0,
	 "also deliver it to this head (gpuscope head); may come again: then the next one is tried "
	 "when one does not answer",
	 0},
	{"head-tls", OPT_TLS, NULL, 0, "encrypt, and check the head by the system's authorities",
	 0},
	{"head-ca", OPT_CA, "FILE", 0, "check it by this authority (PEM)", 0},
	{"head-cert", OPT_CERT, "FILE", 0, "our certificate (PEM)", 0},
	{"head-key", OPT_KEY, "FILE", 0, "its key (PEM)", 0},
	{"head-server-name", OPT_NAME, "NAME", 0,
	 "the name in the head's certificate, where it is not that of the address", 0},
	{"head-token-file", OPT_TOKEN, "FILE", 0, "the token to show: the file's first line", 0},
	{"head-spool", OPT_SPOOL, "DIR", 0,
	 "where it waits when the head cannot have it yet (default below /var/lib/gpuscope or "
	 "~/.local/state)",
	 0},
	{"head-spool-max", OPT_SPOOL_MAX, "BYTES", 0, "how much of it may wait (256M)", 0},
	{"head-machine-id", OPT_MACHINE_ID, "ID", 0, "instead of that in /etc/machine-id", 0},
	{0},
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct to_head_options *o = state->input;

	switch (key) {
	case OPT_HEAD:
		if (o->n_addresses == TO_HEADS_MAX)
			argp_error(state, "more than %d heads", TO_HEADS_MAX);
		o->addresses[o->n_addresses++] = arg;
		return 0;
	case OPT_TLS:
		o->tls = true;
		return 0;
	case OPT_CA:
		o->ca = arg;
		return 0;
	case OPT_CERT:
		o->cert = arg;
		return 0;
	case OPT_KEY:
		o->key = arg;
		return 0;
	case OPT_NAME:
		o->server_name = arg;
		return 0;
	case OPT_TOKEN:
		o->token_file = arg;
		return 0;
	case OPT_SPOOL:
		o->spool = arg;
		return 0;
	case OPT_SPOOL_MAX:
		if (gs_parse_bytes(arg, &o->spool_max_bytes) < 0 || o->spool_max_bytes < 1 << 20)
			argp_error(state, "--head-spool-max takes 1M or more, such as 256M");
		return 0;
	case OPT_MACHINE_ID:
		if (!arg[0] || strlen(arg) > 63)
			argp_error(state, "--head-machine-id takes 1 to 63 characters");
		o->machine_id = arg;
		return 0;
	case ARGP_KEY_SUCCESS:
		if (!o->n_addresses &&
		    (o->tls || o->ca || o->cert || o->key || o->server_name || o->token_file ||
		     o->machine_id || o->spool || o->spool_max_bytes))
			argp_error(state, "options of a head without --head HOST:PORT");
		if (!o->cert != !o->key)
			argp_error(state, "--head-cert and --head-key go together");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp to_head_argp = {.options = option_table, .parser = parse_option};

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

static void on_say(void *ctx, const char *text)
{
	gs_log(1, "%s", text);
}

static int folder_of(const struct to_head_options *o, const char *name, char *out, size_t bytes,
		     struct gs_err *err)
{
	char base[480];
	int r = 0;

	if (o->spool) {
		snprintf(out, bytes, "%s", o->spool);
	} else {
		r = gs_folder_state(base, sizeof(base), "the spool", "--head-spool", err);
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
		.tls = options->tls || options->ca || options->cert,
		.tls_ca = options->ca,
		.tls_cert = options->cert,
		.tls_key = options->key,
		.server_name = options->server_name,
		.machine_id = options->machine_id,
		.kind = kind,
		.spool_max_bytes = options->spool_max_bytes,
		.say = on_say,
	};
	char folder[512];
	int r;

	if (!h)
		return gs_err_set(err, -ENOMEM, "no memory");
	h->words = &words_of[kind];
	snprintf(h->title, sizeof(h->title), "%s", title);
	o.title = h->title;
	r = options->token_file ? gs_token_read(options->token_file, "the token file", h->token,
						sizeof(h->token), err)
				: 0;
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
		gs_cli_say("%llu %ss found no room to wait for the head (--head-spool-max)",
			   (unsigned long long)r->lost_samples, w->what);
	if (r->given_up_samples)
		gs_cli_say("%llu %ss that the head has not taken are given up: %s cannot be "
			   "written to",
			   (unsigned long long)r->given_up_samples, w->what, r->path);
	if (r->left_samples)
		gs_cli_say("the head has not taken %llu %s%s yet%s%s; the next %s with --head, or "
			   "gpuscope connect, takes them along from %s",
			   (unsigned long long)r->left_samples, w->what,
			   r->left_samples == 1 ? "" : "s", r->trouble[0] ? ": " : "", r->trouble,
			   w->stream, r->path);
	else
		gs_log(1, "the head has what there is");
	if (r->n_sent)
		gs_cli_say("%u earlier %s%s delivered to the head as well", r->n_sent, w->stream,
			   r->n_sent == 1 ? "" : "s");
	if (r->n_left)
		gs_cli_say("%u earlier %s%s still wait%s in %s", r->n_left, w->stream,
			   r->n_left == 1 ? "" : "s", r->n_left == 1 ? "s" : "", r->folder);
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
		gs_cli_say("delivering %llu %ss to the head; waiting at most %u s",
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
