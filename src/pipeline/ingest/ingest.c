/*
 * The stream: its beginning and end, the batch that records gather in, and the sinks it goes to.
 *
 * A batch is one buffer, had at the start and used again and again. It is handed over when it has
 * GS_INGEST_BATCH_BYTES or when the owner asks; as it is only looked at after a whole event, no
 * definition is ever parted from a later use by anything but the order of batches.
 *
 * A sink that fails is out: the stream it has seen has a hole from there on. The calls that it
 * misses are counted, and reported to the sinks that are left before the end.
 */
#include "pipeline/ingest/ingest.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/utsname.h>

#include "core/base/clock.h"
#include "pipeline/ingest/ingest_int.h"

void *gs_ingest_put(struct gs_ingest *f, enum gs_record_kind kind, size_t struct_bytes,
		    size_t tail_bytes)
{
	void *r = gs_record_put(&f->batch, kind, struct_bytes, tail_bytes);

	/* The buffer was made whole at the start and holds what one call may add. */
	assert(r);
	return r;
}

/* SESSION comes before all else, and the texts it names after it. */
static void put_session(struct gs_ingest *f, const struct gs_ingest_options *options)
{
	struct gs_rec_session *s = gs_ingest_put(f, GS_REC_SESSION, sizeof(*s), 0);
	struct utsname name;

	s->version = GS_RECORD_VERSION;
	s->mode = options->mode;
	s->start_ns = gs_clock_boot_ns();
	s->wall_minus_boot_ns = gs_clock_wall_minus_boot_ns();
	/* The buffer does not move: s stays where it is. */
	s->command_str = gs_ingest_intern(f, options->command ? options->command : "");
	s->attach_mode_str = gs_ingest_intern(f, options->attach_mode ? options->attach_mode : "");
	if (uname(&name) == 0) {
		s->host_str = gs_ingest_intern(f, name.nodename);
		s->kernel_str = gs_ingest_intern(f, name.release);
	}
}

static int outlet_push(void *ctx, const struct gs_batch *batch);

int gs_ingest_new(const struct gs_ingest_options *options, struct gs_ingest **ret_feed)
{
	struct gs_ingest *f;
	int r;

	if (options->size < sizeof(*options) || !options->place ||
	    (options->mode != GS_SESSION_EVENTS && options->mode != GS_SESSION_SUMMARY))
		return -EINVAL;
	f = calloc(1, sizeof(*f));
	if (!f)
		return -ENOMEM;
	f->place = options->place;
	f->funcs = options->funcs;
	f->users = options->users;
	f->reader = options->reader;
	f->boot_minus_mono_ns = options->boot_minus_mono_ns;
	f->batch = GS_BUF_INIT(GS_INGEST_BATCH_BYTES + GS_INGEST_SPARE_BYTES);
	r = gs_buf_reserve(&f->batch, f->batch.max_bytes);
	gs_ingest_gpu_init(f);
	if (r == 0)
		r = gs_ingest_entities_init(f);
	if (r == 0)
		r = gs_ingest_comms_init(f);
	if (r == 0)
		r = gs_ingest_stacks_init(f);
	if (r < 0) {
		gs_ingest_free(&f);
		return r;
	}
	f->outlet = (struct gs_sink){.push = outlet_push, .ctx = f};
	f->stage = f->outlet;
	put_session(f, options);
	*ret_feed = f;
	return 0;
}

void gs_ingest_free(struct gs_ingest **feed)
{
	struct gs_ingest *f = *feed;

	if (!f)
		return;
	gs_ingest_entities_fini(f);
	gs_ingest_comms_fini(f);
	gs_ingest_stacks_fini(f);
	gs_ingest_native_fini(f);
	gs_ingest_kernels_fini(f);
	gs_cuda_visible_environ_free(&f->environ);
	gs_ingest_gpu_fini(f);
	gs_ingest_pyfuncs_fini(f);
	gs_buf_fini(&f->batch);
	free(f);
	*feed = NULL;
}

int gs_ingest_add_sink(struct gs_ingest *f, const char *name, const struct gs_sink *sink)
{
	if (!sink->push)
		return -EINVAL;
	if (f->delivered || f->ended)
		return -EBUSY;
	if (f->n_sinks == GS_INGEST_MAX_SINKS)
		return -ENOSPC;
	f->sinks[f->n_sinks++] = (struct gs_ingest_sink){.name = name, .sink = *sink};
	return 0;
}

int gs_ingest_sink_error(struct gs_ingest *f, const char **ret_name)
{
	struct gs_ingest_sink *first = NULL;

	for (unsigned i = 0; i < f->n_sinks; i++) {
		struct gs_ingest_sink *s = &f->sinks[i];

		if (s->error && !s->is_reported && (!first || s->order < first->order))
			first = s;
	}
	if (!first)
		return 0;
	first->is_reported = true;
	*ret_name = first->name;
	return first->error;
}

static void sink_failed(struct gs_ingest *f, struct gs_ingest_sink *s, int error)
{
	s->error = error;
	s->order = ++f->n_failed;
}

static uint64_t count_calls(const struct gs_batch *batch)
{
	uint64_t n = 0;

	gs_records_for_each (batch, r)
		n += r->kind == GS_REC_CALL;
	return n;
}

static int outlet_push(void *ctx, const struct gs_batch *batch)
{
	struct gs_ingest *f = ctx;

	for (unsigned i = 0; i < f->n_sinks; i++) {
		struct gs_ingest_sink *s = &f->sinks[i];

		if (!s->error) {
			int r = s->sink.push(s->sink.ctx, batch);

			if (r < 0)
				sink_failed(f, s, r);
		}
		if (s->error)
			s->n_missed += count_calls(batch);
	}
	return 0;
}

static void deliver_batch(struct gs_ingest *f)
{
	struct gs_batch batch = {.data = f->batch.data, .bytes = f->batch.bytes};

	if (!batch.bytes)
		return;
	/* A stage that has no memory left passes the batch on as it is. */
	if (f->stage.push(f->stage.ctx, &batch) < 0)
		outlet_push(f, &batch);
	f->delivered = true;
	gs_buf_reset(&f->batch);
}

const struct gs_sink *gs_ingest_outlet(struct gs_ingest *f)
{
	return &f->outlet;
}

void gs_ingest_set_stage(struct gs_ingest *f, const struct gs_sink *stage)
{
	f->stage = *stage;
}

static void flush_sinks(struct gs_ingest *f)
{
	for (unsigned i = 0; i < f->n_sinks; i++) {
		struct gs_ingest_sink *s = &f->sinks[i];
		int r = !s->error && s->sink.flush ? s->sink.flush(s->sink.ctx) : 0;

		if (r < 0)
			sink_failed(f, s, r);
	}
}

void gs_ingest_settle(struct gs_ingest *f)
{
	if (f->batch.bytes >= GS_INGEST_BATCH_BYTES)
		deliver_batch(f);
}

void gs_ingest_put_loss(struct gs_ingest *f, unsigned layer, enum gs_loss cause, const char *detail,
			uint64_t count)
{
	uint32_t detail_str = gs_ingest_intern(f, detail ? detail : "");
	struct gs_rec_loss *l = gs_ingest_put(f, GS_REC_LOSS, sizeof(*l), 0);

	l->layer = (uint16_t)layer;
	l->cause = (uint16_t)cause;
	l->detail_str = detail_str;
	l->count = count;
}

static void put_pending_losses(struct gs_ingest *f)
{
	for (unsigned i = 0; i < GS_LOSS_COUNT; i++) {
		if (f->pending_loss[i])
			gs_ingest_put_loss(f, GS_LAYER_NONE, i, NULL, f->pending_loss[i]);
		f->pending_loss[i] = 0;
	}
}

void gs_ingest_counter(struct gs_ingest *f, const char *name, int64_t value)
{
	struct gs_rec_counter *c;
	uint32_t name_str;

	if (f->ended)
		return;
	name_str = gs_ingest_intern(f, name);
	c = gs_ingest_put(f, GS_REC_COUNTER, sizeof(*c), 0);
	c->name_str = name_str;
	c->time_ns = gs_clock_boot_ns();
	c->value = value;
	gs_ingest_settle(f);
}

void gs_ingest_records(struct gs_ingest *f, const struct gs_batch *records)
{
	if (f->ended)
		return;
	gs_records_for_each (records, r) {
		/* The batch has room for one of the largest. */
		(void)gs_buf_put(&f->batch, r, r->bytes);
		gs_ingest_settle(f);
	}
}

bool gs_ingest_has_process(const struct gs_ingest *f, uint32_t pid)
{
	return gs_ingest_process_id(f, pid) != 0;
}

void gs_ingest_loss(struct gs_ingest *f, unsigned layer, enum gs_loss cause, const char *detail,
		    uint64_t count)
{
	if (!count || f->ended)
		return;
	gs_ingest_put_loss(f, layer, cause, detail, count);
	gs_ingest_settle(f);
}

void gs_ingest_attach(struct gs_ingest *f, const struct gs_attach *attach)
{
	uint32_t path_str, func_str, reason_str;
	struct gs_rec_attach *a;

	if (f->ended)
		return;
	path_str = gs_ingest_intern(f, attach->path ? attach->path : "");
	func_str = gs_ingest_intern(f, attach->function ? attach->function : "");
	reason_str = gs_ingest_intern(f, attach->reason ? attach->reason : "");
	a = gs_ingest_put(f, GS_REC_ATTACH, sizeof(*a), 0);
	a->path_str = path_str;
	a->func_str = func_str;
	a->reason_str = reason_str;
	a->status = attach->status;
	a->n_probes = attach->n_probes;
	a->n_moved = attach->n_moved;
	a->n_stepped = attach->n_stepped;
	a->layer = attach->layer;
	gs_ingest_settle(f);
}

void gs_ingest_flush(struct gs_ingest *f)
{
	if (f->ended)
		return;
	gs_ingest_native_retry(f, false);
	gs_ingest_kernels_retry(f, false);
	put_pending_losses(f);
	deliver_batch(f);
	flush_sinks(f);
}

void gs_ingest_end(struct gs_ingest *f, int exit_status, const char *reason)
{
	struct gs_rec_end *e;
	uint32_t reason_str;

	if (f->ended)
		return;
	gs_ingest_native_retry(f, true);
	gs_ingest_kernels_retry(f, true);
	gs_ingest_kernels_needs(f);
	/* First all calls: a sink that fails on them is still reported to the others. */
	put_pending_losses(f);
	deliver_batch(f);
	for (unsigned i = 0; i < f->n_sinks; i++)
		if (f->sinks[i].n_missed)
			gs_ingest_put_loss(f, GS_LAYER_NONE, GS_LOSS_SINK, f->sinks[i].name,
					   f->sinks[i].n_missed);
	reason_str = gs_ingest_intern(f, reason ? reason : "");
	e = gs_ingest_put(f, GS_REC_END, sizeof(*e), 0);
	e->end_ns = gs_clock_boot_ns();
	e->exit_status = exit_status;
	e->reason_str = reason_str;
	deliver_batch(f);
	flush_sinks(f);
	f->ended = true;
}
