/*
 * .gst: snapshots of all nodes in one file. Nodes count their time from when each was booted; in the
 * file the boot clock is the head's time of day, so that snapshots of several nodes stand on one
 * line.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "server/session_export/session_export_int.h"
#include "core/scrub/scrub.h"
#include "pipeline/recording/recording.h"
#include "model/node/record.h"

#define RECORDS_MAX (8u << 20)
#define TEXT_BYTES  8192 /* twice the longest text of a trace: a secret may grow by two bytes */

struct gst {
	const struct gs_sink *sink;
	struct gs_buf records;
	enum gs_session_export_commands commands;
};

static void shift_time(uint64_t *time_ns, int64_t by_ns)
{
	if (*time_ns)
		*time_ns = (uint64_t)((int64_t)*time_ns + by_ns);
}

static void hide_owner(enum gs_session_export_commands commands, char *user, char *command,
		       size_t command_bytes)
{
	char scrubbed[GS_HOST_CMDLINE_BYTES];

	if (commands == GS_SESSION_EXPORT_COMMANDS_NONE) {
		user[0] = command[0] = '\0';
	} else if (commands == GS_SESSION_EXPORT_COMMANDS_SCRUBBED) {
		gs_scrub_text(command, scrubbed, sizeof(scrubbed));
		snprintf(command, command_bytes, "%s", scrubbed);
	}
}

static void hide_owners(enum gs_session_export_commands commands, struct gs_node_snapshot *s)
{
	for (uint32_t i = 0; i < s->gpu->n_processes; i++)
		hide_owner(commands, s->gpu->process[i].user, s->gpu->process[i].cmdline,
			   sizeof(s->gpu->process[i].cmdline));
	for (uint32_t i = 0; i < s->host->n_processes; i++)
		hide_owner(commands, s->host->process[i].user, s->host->process[i].cmdline,
			   sizeof(s->host->process[i].cmdline));
}

static int push_records(struct gst *g)
{
	struct gs_batch batch = {g->records.data, g->records.bytes};

	return g->sink->push(g->sink->ctx, &batch);
}

static int copy_sample(void *ctx, const struct session_export_sample *m)
{
	struct gst *g = ctx;
	struct gs_node_snapshot *s = m->snapshot;
	int64_t by = m->wall_ns - (int64_t)s->time_ns;
	int r;

	shift_time(&s->time_ns, by);
	shift_time(&s->gpu->time_ns, by);
	shift_time(&s->host->sample.time_ns, by);
	for (uint32_t i = 0; i < s->gpu->n_gpus; i++)
		shift_time(&s->gpu->sample[i].time_ns, by);
	for (uint32_t i = 0; i < s->gpu->n_processes; i++)
		shift_time(&s->gpu->process[i].start_ns, by);
	for (uint32_t i = 0; i < s->gpu->n_events; i++)
		shift_time(&s->gpu->event[i].time_ns, by);
	for (uint32_t i = 0; i < s->host->n_processes; i++)
		shift_time(&s->host->process[i].start_ns, by);
	s->gpu->wall_ns += m->wall_ns - s->wall_ns;
	s->wall_ns = m->wall_ns;
	hide_owners(g->commands, s);
	gs_buf_reset(&g->records);
	r = m->mark.record ? gs_buf_put(&g->records, m->mark.record, m->mark.record->bytes) : 0;
	if (r == 0)
		r = gs_node_encode(&g->records, s);
	if (r < 0)
		return r;
	return push_records(g);
}

static int put_begin(struct gst *g, const struct archive *a)
{
	struct utsname u;
	struct gs_recording_samples about = {.start_ns = (uint64_t)a->from_wall_ns,
					     .host = u.nodename,
					     .command = a->o->session->name};
	int r = uname(&u) < 0 ? -errno : gs_recording_put_samples_begin(&g->records, &about);

	return r < 0 ? r : push_records(g);
}

static int put_end(struct gst *g, const struct archive *a)
{
	int r;

	gs_buf_reset(&g->records);
	r = gs_recording_put_samples_end(&g->records, (uint64_t)a->to_wall_ns);
	return r < 0 ? r : push_records(g);
}

static int journal_on(int fd, struct gs_recording **ret_journal, struct gs_err *err)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return gs_recording_create(path, NULL, ret_journal, err);
}

int session_export_gst(struct archive *a, int fd, struct gs_err *err)
{
	struct gst g = {.records = GS_BUF_INIT(RECORDS_MAX), .commands = a->o->commands};
	struct session_export_sink sink = {.snapshot = copy_sample, .ctx = &g};
	struct gs_recording *journal = NULL;
	int r = journal_on(fd, &journal, err), closed;

	if (r < 0)
		return r;
	g.sink = gs_recording_sink(journal);
	r = put_begin(&g, a);
	if (r == 0)
		r = session_export_read(a, &sink);
	if (r == 0)
		r = put_end(&g, a);
	gs_buf_fini(&g.records);
	closed = gs_recording_close(&journal, err);
	return r < 0 ? r : closed;
}

/* --- traces --- */

struct traces {
	const struct archive *a;
	int (*fn)(void *ctx, int64_t stream, const char *name);
	void *ctx;
	unsigned n;
};

static int copy_trace(void *ctx, const struct gs_store_stream *s)
{
	struct traces *t = ctx;
	char name[GS_STORE_SESSION_NAME_BYTES + 128], host[65];
	uint64_t node;
	size_t n = 0;

	if (s->kind != GS_STORE_TRACE || !s->first_wall_ns ||
	    !gs_map_get(&t->a->by_id, (uint64_t)s->node, &node) ||
	    s->last_wall_ns + s->clock_high_ns < t->a->from_wall_ns ||
	    s->first_wall_ns + s->clock_low_ns >= t->a->to_wall_ns)
		return 0;
	/* A node's name is its own word: nothing of it may lead elsewhere. */
	for (const char *p = t->a->node[node].hostname; *p; p++)
		host[n++] = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
					    (*p >= '0' && *p <= '9') || *p == '-'
				    ? *p
				    : '_';
	host[n] = 0;
	snprintf(name, sizeof(name), "%s-%s-%u.gst", t->a->o->session->name, host, ++t->n);
	return t->fn(t->ctx, s->id, name);
}

int gs_session_export_traces(const struct gs_session_export_options *options,
			     int (*fn)(void *ctx, int64_t stream, const char *name), void *ctx)
{
	struct archive a;
	struct traces t = {.a = &a, .fn = fn, .ctx = ctx};
	int r = session_export_open(&a, options);

	if (r == 0)
		r = gs_store_streams(options->store, 0, copy_trace, &t);
	session_export_close(&a);
	return r;
}

/* The records of a batch with each text scrubbed: which of them are command lines is known only
 * when all have been read. -EBADMSG: the batch ends within a record. */
static int put_scrubbed(struct gs_buf *out, const struct gs_batch *batch)
{
	char text[TEXT_BYTES], scrubbed[TEXT_BYTES];
	size_t off = 0, length;
	int r = 0;

	gs_buf_reset(out);
	for (const struct gs_record *one; r == 0 && (one = gs_record_next(batch, &off));) {
		const struct gs_rec_string *s = (const struct gs_rec_string *)one;

		if (one->kind != GS_REC_STRING) {
			r = gs_buf_put(out, one, one->bytes);
			continue;
		}
		length = s->text_bytes < sizeof(text) ? s->text_bytes : sizeof(text) - 1;
		memcpy(text, s->text, length);
		text[length] = '\0';
		gs_scrub_text(text, scrubbed, sizeof(scrubbed));
		r = gs_record_put_string(out, s->id, scrubbed, strlen(scrubbed));
	}
	return r < 0 ? r : off == batch->bytes ? 0 : -EBADMSG;
}

int gs_session_export_trace(const struct gs_session_export_options *options, int64_t stream, int fd,
			    struct gs_err *err)
{
	/* Whole, whatever the session's time: definitions stand at its begin. */
	struct gs_store_range range = {
		.from_wall_ns = INT64_MIN, .to_wall_ns = INT64_MAX, .stream = stream};
	struct gs_store_cursor *cursor = NULL;
	struct gs_store_found found;
	struct gs_recording *journal = NULL;
	struct gs_buf records = GS_BUF_INIT(2 * GS_STORE_BATCH_MAX);
	int r, closed;

	if (options->commands == GS_SESSION_EXPORT_COMMANDS_NONE)
		return gs_err_set(err, -EACCES, "traces need the right to see command lines");
	r = journal_on(fd, &journal, err);
	if (r < 0)
		return r;
	r = gs_store_cursor_open(options->store, &range, &cursor);
	while (r == 0 && (r = gs_store_cursor_next(cursor, &found)) == 0) {
		const struct gs_sink *sink = gs_recording_sink(journal);
		struct gs_batch batch = found.records;

		if (options->commands == GS_SESSION_EXPORT_COMMANDS_SCRUBBED) {
			r = put_scrubbed(&records, &batch);
			batch = (struct gs_batch){records.data, records.bytes};
		}
		if (r == 0)
			r = sink->push(sink->ctx, &batch);
	}
	gs_buf_fini(&records);
	gs_store_cursor_close(&cursor);
	closed = gs_recording_close(&journal, err);
	return r == GS_STORE_END ? closed : r;
}
