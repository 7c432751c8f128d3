/*
 * gpuscope trace --head: the records also go to a head, as a stream of their own whose title is
 * what is traced. They are kept in a folder until the head has them:
 *
 *   FOLDER/TIME-PID/   the spool of one trace, and its title
 *
 * A folder whose trace could not deliver everything stays, and the next trace with --head, or
 * gpuscope connect, takes it along (link/left.h). Records are useless without the definitions
 * before them: when a spool is full, what comes is refused, rather than what is oldest being
 * dropped.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fmt.h"
#include "base/log.h"
#include "base/mem.h"
#include "cmd/cmd.h"
#include "cmd/remote.h"
#include "cmd/to_head.h"

#define DRAIN_NS    10000000000ull
#define CHUNK_BYTES (1u << 20)
#define TITLE_BYTES 256

struct trace_head {
	struct gs_link *link;
	struct gs_link_options options; /* of the link; texts borrowed or below */
	struct gs_sink sink;
	char folder[512], path[640]; /* of all traces, of this one */
	char title[TITLE_BYTES], token[512];
};

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
	 "also deliver the trace to this head (gpuscope head); may come again: then the next one "
	 "is tried when one does not answer",
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
	 "where traces wait that the head does not have yet (default /var/lib/gpuscope/traces, or "
	 "below ~/.local/state)",
	 0},
	{"head-spool-max", OPT_SPOOL_MAX, "BYTES", 0, "how much of one trace may wait (256M)", 0},
	{"head-machine-id", OPT_MACHINE_ID, "ID", 0, "instead of that in /etc/machine-id", 0},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct trace_head_options *o = state->input;

	switch (key) {
	case OPT_HEAD:
		if (o->n_addresses == TRACE_HEADS_MAX)
			argp_error(state, "more than %d heads", TRACE_HEADS_MAX);
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

const struct argp trace_head_argp = {.options = option_table, .parser = parse};

/* --- records in --- */

/* When the records are from: those of calls say it, others are of now. */
static void look_at_times(struct gs_link_span *span, const struct gs_record *r,
			  int64_t wall_minus_boot)
{
	const struct gs_rec_call *c = (const struct gs_rec_call *)r;
	int64_t first, last;

	if (r->kind != GS_REC_CALL)
		return;
	first = (int64_t)c->start_ns + wall_minus_boot;
	last = first + (int64_t)c->dur_ns;
	if (first < span->first_wall_ns)
		span->first_wall_ns = first;
	if (last > span->last_wall_ns)
		span->last_wall_ns = last;
}

static int push_chunk(struct trace_head *h, const uint8_t *data, size_t bytes,
		      struct gs_link_span *span)
{
	struct gs_batch part = {.data = data, .bytes = bytes};

	return bytes ? gs_link_push(h->link, &part, span) : 0;
}

/* Feed's batches may be larger than what a head takes: cut between records. */
static int push(void *ctx, const struct gs_batch *batch)
{
	struct trace_head *h = ctx;
	const int64_t now = (int64_t)gs_clock_wall_ns();
	const int64_t wall_minus_boot = now - (int64_t)gs_clock_boot_ns();
	const struct gs_link_span fresh = {.first_wall_ns = now, .last_wall_ns = now};
	struct gs_link_span span = fresh;
	size_t begin = 0, end = 0;
	int r = 0;

	gs_records_for_each (batch, record) {
		if (end - begin + record->bytes > CHUNK_BYTES) {
			r = push_chunk(h, batch->data + begin, end - begin, &span);
			if (r < 0)
				return r;
			begin = end;
			span = fresh;
		}
		end += record->bytes;
		span.n_samples++;
		look_at_times(&span, record, wall_minus_boot);
	}
	return push_chunk(h, batch->data + begin, end - begin, &span);
}

/* --- folders --- */

static int write_title(const char *path, const char *title)
{
	char name[700];
	GS_FCLOSE FILE *f = NULL;

	snprintf(name, sizeof(name), "%s/title", path);
	f = fopen(name, "wxe");
	if (!f || fputs(title, f) < 0 || fflush(f) != 0)
		return -errno;
	return 0;
}

static int make_folder(struct trace_head *h, const struct trace_head_options *o, struct gs_err *err)
{
	char base[480];
	struct tm tm;
	time_t now = time(NULL);
	int r;

	if (o->spool) {
		snprintf(h->folder, sizeof(h->folder), "%s", o->spool);
	} else {
		r = to_head_state_folder(base, sizeof(base), "--head-spool", err);
		if (r < 0)
			return r;
		snprintf(h->folder, sizeof(h->folder), "%s/traces", base);
	}
	if (mkdir(h->folder, 0700) < 0 && errno != EEXIST)
		return gs_err_set(err, -errno, "cannot make %s for the spool: %s", h->folder,
				  strerror(errno));
	gmtime_r(&now, &tm);
	snprintf(h->path, sizeof(h->path), "%s/%04d%02d%02dT%02d%02d%02dZ-%d", h->folder,
		 tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
		 (int)getpid());
	if (mkdir(h->path, 0700) < 0) {
		r = gs_err_set(err, -errno, "cannot make %s for the spool: %s", h->path,
			       strerror(errno));
		h->path[0] = 0; /* another one's */
		return r;
	}
	r = write_title(h->path, h->title);
	return r < 0 ? gs_err_set(err, r, "cannot write into %s: %s", h->path, strerror(-r)) : 0;
}

/* --- life --- */

static void on_say(void *ctx, const char *text)
{
	gs_log(1, "%s", text);
}

int trace_head_new(const struct trace_head_options *options, const char *title,
		   struct trace_head **ret_head, struct gs_err *err)
{
	struct trace_head *h = calloc(1, sizeof(*h));
	int r;

	if (!h)
		return gs_err_set(err, -ENOMEM, "no memory");
	snprintf(h->title, sizeof(h->title), "%s", title);
	h->options = (struct gs_link_options){
		.size = sizeof(h->options),
		.addresses = options->addresses,
		.n_addresses = options->n_addresses,
		.tls = options->tls || options->ca || options->cert,
		.tls_ca = options->ca,
		.tls_cert = options->cert,
		.tls_key = options->key,
		.server_name = options->server_name,
		.machine_id = options->machine_id,
		.kind = GS_LINK_TRACE,
		.title = h->title,
		.spool_max_bytes = options->spool_max_bytes,
		.keep_oldest = true,
		.say = on_say,
	};
	r = options->token_file ? remote_token(options->token_file, h->token, sizeof(h->token), err)
				: 0;
	if (r == 0)
		r = make_folder(h, options, err);
	if (r == 0) {
		h->options.token = h->token[0] ? h->token : NULL;
		h->options.spool_dir = h->path;
		h->sink = (struct gs_sink){.push = push, .ctx = h};
		r = gs_link_start(&h->options, &h->link, err);
	}
	if (r < 0)
		trace_head_free(&h);
	else
		*ret_head = h;
	return r;
}

const struct gs_sink *trace_head_sink(struct trace_head *head)
{
	return &head->sink;
}

static void on_left(void *ctx, const char *text)
{
	gs_say("%s", text);
}

int trace_head_finish(struct trace_head **head)
{
	struct trace_head *h = *head;
	const uint64_t until = gs_clock_mono_ns() + DRAIN_NS;
	struct gs_link_stats st;
	uint64_t left;

	if (!h)
		return 0;
	left = gs_link_drain(h->link, DRAIN_NS, true);
	gs_link_stats(h->link, &st);
	(void)gs_link_stop(&h->link, 0, true);
	if (st.lost_samples)
		gs_say("%llu records found no room to wait for the head (--head-spool-max)",
		       (unsigned long long)st.lost_samples);
	if (st.memory_samples)
		gs_say("%llu records that the head has not taken are given up: %s cannot be "
		       "written to",
		       (unsigned long long)st.memory_samples, h->path);
	if (left > st.memory_samples) {
		gs_say("the head has not taken %llu records yet%s%s; the next trace with --head, "
		       "or "
		       "gpuscope connect, takes them along from %s",
		       (unsigned long long)(left - st.memory_samples), st.trouble[0] ? ": " : "",
		       st.trouble, h->path);
	} else {
		gs_log(1, "the head has what there is");
		gs_left_remove(h->path);
		gs_left_deliver(&h->options, h->folder, until, false, on_left, NULL);
	}
	h->path[0] = 0;
	trace_head_free(head);
	return st.lost_samples || st.memory_samples ? -ENOBUFS : 0;
}

void trace_head_free(struct trace_head **head)
{
	struct trace_head *h = *head;

	if (!h)
		return;
	/* Of a trace that did not begin. */
	if (gs_link_stop(&h->link, 0, true) == 0 && h->path[0])
		gs_left_remove(h->path);
	explicit_bzero(h->token, sizeof(h->token));
	gs_free_p(head);
}
