/*
 * A recording as a source of snapshots. It is read through once at the beginning, to know where each
 * snapshot stands; after that any of them can be gone to. A file that is still being written is
 * followed.
 */
#include <errno.h>
#include <string.h>

#include "core/base/fmt.h"
#include "core/base/vec.h"
#include "commands/common/cli.h"
#include "commands/main/top.h"
#include "pipeline/recording/recording.h"
#include "model/node/record.h"

struct sample_place {
	struct gs_recording_place place; /* of the frame that it begins in */
	size_t offset;                   /* in the frame's records */
};

struct top_replay {
	const struct top_options *options;
	struct gs_recording_reader *reader;
	struct gs_node_decoder *decoder;
	struct gs_batch batch; /* lent by the reader */
	struct gs_recording_place batch_place;
	size_t offset; /* of the next record in it */
	struct sample_place begun;
	struct sample_place *places; /* owned */
	size_t n, room;
	size_t at; /* the snapshot that comes next */
	struct gs_recording_stats stats;
	bool known;                    /* the GPUs that were asked for have been seen */
	struct top_findings *findings; /* owned */
};

/* The next whole snapshot. enum gs_tui_next or a negative errno. */
static int read_snapshot(struct top_replay *p, struct gs_node_snapshot **ret, struct gs_err *err)
{
	for (;;) {
		size_t at = p->offset;
		const struct gs_record *r = gs_record_next(&p->batch, &p->offset);
		int e;

		if (!r) {
			gs_recording_position(p->reader, &p->batch_place);
			e = gs_recording_next(p->reader, &p->batch);
			p->offset = 0;
			if (e == GS_RECORDING_EOF) {
				p->batch = (struct gs_batch){0};
				return GS_TUI_END;
			}
			if (e < 0)
				return gs_err_set(err, e, "cannot read %s: %s", p->options->replay,
						  strerror(-e));
			continue;
		}
		if (r->kind == GS_REC_HOST_SAMPLE)
			p->begun = (struct sample_place){p->batch_place, at};
		e = gs_node_decode(p->decoder, r, ret);
		if (e == GS_NODE_WHOLE)
			return GS_TUI_MOMENT;
		if (e < 0)
			return gs_err_set(err, e, "no memory");
	}
}

static int note_position(struct top_replay *p)
{
	if (!gs_vec_reserve(&p->places, &p->room, p->n + 1))
		return -ENOMEM;
	p->places[p->n++] = p->begun;
	return 0;
}

static int seek_sample(void *ctx, size_t snapshot, struct gs_err *err)
{
	struct top_replay *p = ctx;
	const struct sample_place *m = &p->places[snapshot];
	int e;

	if (snapshot >= p->n)
		return gs_err_set(err, -ERANGE, "the recording has %zu samples", p->n);
	e = gs_recording_seek(p->reader, &m->place);
	if (e < 0)
		return gs_err_set(err, e, "cannot go back in %s: it must be a file",
				  p->options->replay);
	e = gs_recording_next(p->reader, &p->batch);
	if (e)
		return gs_err_set(err, e < 0 ? e : -EIO, "%s changed while it was read",
				  p->options->replay);
	gs_node_decoder_reset(p->decoder);
	p->batch_place = m->place;
	p->offset = m->offset;
	p->at = snapshot;
	return 0;
}

static int next_sample(void *ctx, struct gs_node_snapshot **ret, struct gs_err *err)
{
	struct top_replay *p = ctx;
	int e = read_snapshot(p, ret, err);

	if (e == GS_TUI_MOMENT) {
		if (p->at == p->n) {
			e = note_position(p);
			top_findings_take(p->findings, *ret);
		}
		p->at++;
		if (e == 0)
			e = top_select(p->options, &p->known, *ret, err);
		if (e == 0)
			gs_node_snapshot_keep(*ret, &p->options->choice);
		if (e < 0)
			gs_node_snapshot_free(ret);
	}
	return e;
}

static size_t count_samples(void *ctx)
{
	return ((struct top_replay *)ctx)->n;
}

/* Why there is no sample in the file. */
static int nothing_in_it(const struct top_replay *p, struct gs_err *err)
{
	uint64_t lost = p->stats.cut_bytes + p->stats.skipped_bytes;
	char n[GS_FMT_BYTES];

	if (lost)
		return gs_err_set(
			err, -EBADMSG,
			"%s is damaged: %s could not be read, and no complete sample is left",
			p->options->replay, gs_fmt_bytes(n, lost));
	return gs_err_set(
		err, -EBADMSG,
		"%s holds no samples of GPUs (made by `gpuscope top --record`); `gpuscope report` shows what is in it",
		p->options->replay);
}

int top_replay_open(const struct top_options *options, struct top_replay **ret, struct gs_err *err)
{
	struct top_replay *p = calloc(1, sizeof(*p));
	int e;

	if (!p)
		return gs_err_set(err, -ENOMEM, "no memory");
	p->options = options;
	p->decoder = gs_node_decoder_new();
	e = p->decoder && top_findings_new(false, &p->findings) == 0
		    ? gs_recording_open(options->replay, &p->reader, err)
		    : gs_err_set(err, -ENOMEM, "no memory");
	while (e == 0) {
		struct gs_node_snapshot *node = NULL;

		e = read_snapshot(p, &node, err);
		if (e == GS_TUI_MOMENT) {
			top_findings_take(p->findings, node);
			e = note_position(p);
		}
		gs_node_snapshot_free(&node);
	}
	if (p->reader)
		gs_recording_stats(p->reader, &p->stats);
	if (e == GS_TUI_END)
		e = p->n ? seek_sample(p, 0, err) : nothing_in_it(p, err);
	if (e < 0)
		top_replay_close(&p);
	else
		*ret = p;
	return e;
}

void top_replay_close(struct top_replay **ref)
{
	struct top_replay *p = *ref;

	if (!p)
		return;
	gs_recording_reader_close(&p->reader);
	gs_node_decoder_free(&p->decoder);
	top_findings_free(&p->findings);
	free(p->places);
	free(p);
	*ref = NULL;
}

void top_replay_source(struct top_replay *p, struct gs_tui_source *ret)
{
	*ret = (struct gs_tui_source){
		.ctx = p,
		.title = p->options->replay,
		.is_replay = true,
		.next = next_sample,
		.wake_fd = -1,
		.length = count_samples,
		.seek = seek_sample,
		.findings = top_findings_at,
		.findings_ctx = p->findings,
	};
}

struct top_findings *top_replay_findings(struct top_replay *p)
{
	return p->findings;
}

int top_replay_last(struct top_replay *p, struct gs_node_snapshot **ret_before,
		    struct gs_node_snapshot **ret_node, struct gs_err *err)
{
	int e = seek_sample(p, p->n > 1 ? p->n - 2 : 0, err);

	*ret_before = *ret_node = NULL;
	if (e == 0 && p->n > 1)
		e = next_sample(p, ret_before, err);
	if (e == 0)
		e = next_sample(p, ret_node, err);
	if (e) {
		gs_node_snapshot_free(ret_before);
		gs_node_snapshot_free(ret_node);
	}
	return e > 0 ? -EIO : e;
}

void top_replay_position(const struct top_replay *p)
{
	const struct gs_recording_stats *s = &p->stats;
	uint64_t torn = gs_node_decoder_torn(p->decoder);
	char n[GS_FMT_BYTES];

	if (s->cut_bytes)
		gs_cli_print_message("%s: cut off: the last %s could not be read",
				     p->options->replay, gs_fmt_bytes(n, s->cut_bytes));
	if (s->n_skipped_frames || s->skipped_bytes)
		gs_cli_print_message("%s: damaged: %llu frames (%s) were skipped",
				     p->options->replay, (unsigned long long)s->n_skipped_frames,
				     gs_fmt_bytes(n, s->skipped_bytes));
	if (torn)
		gs_cli_print_message("%s: %llu samples were incomplete and are left out",
				     p->options->replay, (unsigned long long)torn);
}
