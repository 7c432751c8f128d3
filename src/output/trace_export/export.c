/*
 * A trace file as the rest of the program sees it: opened by its suffix, pushed to, closed. What
 * the formats have in common is here: the dictionary, the start that waits until the session's
 * texts are known, the limit on the size, and the entities that a call names.
 */
#include "output/trace_export/export_int.h"
#include "output/trace_export/export_line.h"

#include <errno.h>

#include "core/base/mem.h"

static const struct gs_export_writer *const writers[] = {
	&gs_writer_perfetto, &gs_writer_json, &gs_writer_csv, &gs_writer_folded, &gs_writer_svg};

static bool ends_in(const char *name, size_t name_bytes, const char *suffix)
{
	size_t bytes = strlen(suffix);

	/* ".csv" is a name without a suffix */
	return name_bytes > bytes && strncmp(name + name_bytes - bytes, suffix, bytes) == 0;
}

/* *ret_gzip: the file is compressed; may be NULL. */
static const struct gs_export_writer *writer_of(const char *path, bool *ret_gzip)
{
	const char *name = strrchr(path, '/');
	size_t bytes;
	bool gzip;

	name = name ? name + 1 : path;
	bytes = strlen(name);
	gzip = ends_in(name, bytes, ".gz");
	if (ret_gzip)
		*ret_gzip = gzip;
	if (strcmp(path, "-") == 0 || strcmp(path, "/dev/stdout") == 0)
		return &gs_writer_csv;
	for (size_t i = 0; i < GS_ARRAY_LEN(writers); i++)
		if (ends_in(name, gzip ? bytes - 3 : bytes, writers[i]->suffix))
			return gzip && !writers[i]->can_gzip ? NULL : writers[i];
	return NULL;
}

bool gs_export_knows(const char *path)
{
	return writer_of(path, NULL) != NULL;
}

bool gs_export_is_stdout(const char *path)
{
	return strcmp(path, "-") == 0 || strcmp(path, "/dev/stdout") == 0 ||
	       (strncmp(path, "-.", 2) == 0 && !strchr(path, '/') && writer_of(path, NULL));
}

bool gs_export_is_flame(const char *path)
{
	const struct gs_export_writer *w = writer_of(path, NULL);

	return w == &gs_writer_folded || w == &gs_writer_svg;
}

bool gs_export_shows_streams(const char *path)
{
	const struct gs_export_writer *w = writer_of(path, NULL);

	return w && w->span;
}

void gs_export_abandon(struct gs_export **export)
{
	struct gs_export *e = *export;

	if (!e)
		return;
	if (e->writer->fini && e->state)
		e->writer->fini(e->state);
	free(e->state);
	gs_dict_free(&e->dict);
	gs_export_timeline_free(&e->timeline);
	gs_export_streams_free(&e->streams);
	gs_export_gpus_free(&e->gpus);
	gs_export_works_free(&e->works);
	gs_export_nccl_free(&e->nccl);
	gs_buf_fini(&e->values_buf);
	if (e->out.file.fd >= 0) {
		e->out.error = -ECANCELED; /* nothing was finished */
		(void)gs_export_out_close(&e->out, NULL);
	}
	free(e->path);
	free(e);
	*export = NULL;
}

static void start_once(struct gs_export *e)
{
	if (e->started)
		return;
	e->started = true;
	gs_export_out_commit(&e->out, e->writer->start(e, gs_export_out_begin(&e->out)));
}

/* What was written up to end stays, where the limit of the file lets it. */
static void commit_within(struct gs_export *e, const uint8_t *end)
{
	if (e->max_bytes && !e->writer->at_end &&
	    e->out.file_bytes + (uint64_t)(end - e->out.buf) + GS_EXPORT_OUT_TAIL_BYTES >
		    e->max_bytes)
		e->full = true;
	else
		gs_export_out_commit(&e->out, end);
}

void gs_export_write_span(struct gs_export *e, const struct gs_activity_span *span,
			  const char *track_name)
{
	uint8_t *p = gs_export_out_begin(&e->out);

	if (!e->full)
		commit_within(e, e->writer->span(e, span, track_name, p));
}

void gs_export_write_gpu_point(struct gs_export *e, const struct gs_export_gpu_point *point)
{
	uint8_t *p;

	start_once(e);
	p = gs_export_out_begin(&e->out);
	e->shows_something = true;
	if (!e->full)
		commit_within(e, e->writer->gpu(e, point, p));
}

/* Is it one of those for which people open such a file? Counters of the machine say what tracing cost. */
static bool shows_record(const struct gs_export *e, const struct gs_record *r)
{
	if (r->kind == GS_REC_COUNTER)
		return e->writer->is_timeline && ((const struct gs_rec_counter *)r)->process;
	return r->kind == GS_REC_CALL || (r->kind == GS_REC_SAMPLE && e->writer->is_timeline);
}

void gs_export_write(struct gs_export *e, const struct gs_record *r)
{
	uint8_t *p = gs_export_out_begin(&e->out);

	e->shows_something |= shows_record(e, r);
	if (!e->full)
		commit_within(e, e->writer->record(e, r, p));
	if (e->full && r->kind == GS_REC_CALL)
		e->left_out++;
}

void gs_export_see_time(struct gs_export *e, uint64_t time_ns)
{
	if (time_ns > e->now_ns)
		e->now_ns = time_ns;
}

/* They are of the call after them, which may come in the next batch. */
static int keep_values(struct gs_export *e, const struct gs_rec_values *v)
{
	gs_buf_reset(&e->values_buf);
	if (gs_buf_put(&e->values_buf, v, v->head.bytes) < 0)
		return -ENOMEM;
	e->values = (const void *)e->values_buf.data;
	return 0;
}

static int push_record(struct gs_export *e, const struct gs_record *r)
{
	int error;

	switch (r->kind) {
	case GS_REC_CALL: {
		const struct gs_rec_call *c = (const void *)r;

		gs_export_see_time(e, c->start_ns + c->dur_ns);
		break;
	}
	case GS_REC_SESSION:
		gs_export_see_time(e, ((const struct gs_rec_session *)r)->start_ns);
		break;
	case GS_REC_COUNTER:
		gs_export_see_time(e, ((const struct gs_rec_counter *)r)->time_ns);
		break;
	case GS_REC_SAMPLE:
		gs_export_see_time(e, ((const struct gs_rec_sample *)r)->time_ns);
		break;
	case GS_REC_END:
		memcpy(&e->end, r, sizeof(e->end));
		e->ended = true;
		gs_export_see_time(e, e->end.end_ns);
		break;
	default:
		break;
	}
	if (r->kind != GS_REC_CALL) {
		error = e->gpus ? gs_export_gpus_take(e->gpus, r) : 0;
		if (error == 0)
			error = gs_dict_apply(e->dict, r);
		if (error == -ENOMEM)
			return error;
		/* An id out of range: its users are shown as unknown. */
		if (error < 0)
			return 0;
	}
	if (r->kind == GS_REC_CALL || r->kind == GS_REC_COUNTER || r->kind == GS_REC_LOSS ||
	    r->kind == GS_REC_SAMPLE || r->kind == GS_REC_VALUES)
		start_once(e);
	if (r->kind == GS_REC_GPU_WORK && e->works)
		gs_export_works_take(e, (const void *)r);
	if (e->nccl)
		gs_export_nccl_take(e, r);
	if (!e->started)
		return 0;
	if (r->kind == GS_REC_VALUES)
		return keep_values(e, (const void *)r);
	if (r->kind == GS_REC_CALL && e->timeline)
		gs_export_timeline_call(e, (const void *)r);
	else
		gs_export_write(e, r);
	e->values = NULL;
	return 0;
}

static int push_batch(void *ctx, const struct gs_batch *batch)
{
	struct gs_export *e = ctx;
	const struct gs_record *r;
	size_t offset = 0;
	int error;

	while (!e->out.error && (r = gs_record_next(batch, &offset)) != NULL) {
		error = push_record(e, r);
		if (error < 0)
			return error;
	}
	if (e->streams && e->started)
		gs_export_streams_write(e->streams);
	if (e->out.error)
		return e->out.error;
	return offset == batch->bytes ? 0 : -EINVAL;
}

static int flush_export(void *ctx)
{
	struct gs_export *e = ctx;

	return gs_export_out_flush(&e->out);
}

int gs_export_open(const char *path, const struct gs_export_options *options,
		   struct gs_export **ret_export, struct gs_err *err)
{
	GS_CLEANUP(gs_export_abandon) struct gs_export *e = NULL;
	bool gzip;
	const struct gs_export_writer *writer = writer_of(path, &gzip);
	/* A trace that was cut off can be read, half a picture cannot. */
	unsigned flags = gs_export_is_flame(path) ? 0 : GS_OUTPUT_GROWS;
	int r;

	if (options &&
	    options->size >=
		    offsetof(struct gs_export_options, when_whole) + sizeof(options->when_whole) &&
	    options->when_whole)
		flags = 0;
	if (!writer)
		return gs_err_set(
			err, -EINVAL,
			"the name %s does not say its format: end it in one of " GS_EXPORT_SUFFIXES,
			path);
	e = calloc(1, sizeof(*e));
	if (!e)
		return gs_err_set(err, -ENOMEM, "no memory to write %s", path);
	e->writer = writer;
	e->out.file = (struct gs_output)GS_OUTPUT_INIT;
	e->state = calloc(1, writer->state_bytes);
	e->dict = gs_dict_new();
	e->path = strdup(path);
	if (!e->state || !e->dict || !e->path)
		return gs_err_set(err, -ENOMEM, "no memory to write %s", path);
	if (options &&
	    options->size >= offsetof(struct gs_export_options, max_bytes) + sizeof(uint64_t))
		e->max_bytes = options->max_bytes;
	if (options && options->size >= offsetof(struct gs_export_options, flame_by) +
						sizeof(options->flame_by))
		e->flame_by = options->flame_by;
	gs_dict_keep_stacks(e->dict);
	e->values_buf = GS_BUF_INIT(GS_RECORD_MAX_BYTES);
	if (writer->is_timeline) {
		e->timeline = gs_export_timeline_new();
		if (!e->timeline)
			return gs_err_set(err, -ENOMEM, "no memory to write %s", path);
	}
	if ((writer->span && gs_export_streams_new(e) < 0) ||
	    (writer->gpu && (gs_export_gpus_new(e) < 0 || gs_export_works_new(&e->works) < 0 ||
			     gs_export_nccl_new(&e->nccl) < 0)))
		return gs_err_set(err, -ENOMEM, "no memory to write %s", path);
	if (options &&
	    options->size >=
		    offsetof(struct gs_export_options, is_private) + sizeof(options->is_private) &&
	    options->is_private)
		flags |= GS_OUTPUT_PRIVATE;
	r = gs_export_out_open(&e->out, gs_export_is_stdout(path) ? NULL : path, flags, gzip, err);
	if (r < 0)
		return r;
	e->sink = (struct gs_sink){.push = push_batch, .flush = flush_export, .ctx = e};
	*ret_export = gs_take(e);
	return 0;
}

const struct gs_sink *gs_export_sink(struct gs_export *export)
{
	return &export->sink;
}

const char *gs_export_is_empty(const struct gs_export *export)
{
	static const char *const reasons[GS_FLAME_BY_COUNT] = {
		[GS_FLAME_AUTO] = "there was no sample and no call",
		[GS_FLAME_SAMPLES] = "there was no sample",
		[GS_FLAME_TIME] = "there was no call",
		[GS_FLAME_LAUNCHES] = "no launch succeeded",
		[GS_FLAME_BYTES] = "no copy, memset or collective succeeded",
		[GS_FLAME_MEMORY] = "no allocation succeeded",
		[GS_FLAME_WALL] =
			"no sample and no wait of a Python thread (--layer python records them)",
	};

	if (export->writer->at_end)
		return export->shows_nothing ? reasons[export->flame_by] : NULL;
	if (export->shows_something)
		return NULL;
	return export->writer->gpu
		       ? "there was no single call (the kernel may have aggregated them) and no sample of a GPU"
		       : "there was no single call, and this format shows nothing else";
}

uint64_t gs_export_now_ns(const struct gs_export *export)
{
	return export->now_ns;
}

uint64_t gs_export_left_out(const struct gs_export *export)
{
	return export->left_out;
}

void gs_export_end(struct gs_export *e)
{
	if (e->finished)
		return;
	e->finished = true;
	start_once(e);
	if (e->timeline)
		gs_export_timeline_end(e);
	if (e->streams)
		gs_export_streams_write(e->streams);
	if (e->gpus)
		gs_export_gpus_end(e->gpus);
	if (e->writer->finish)
		gs_export_out_commit(&e->out, e->writer->finish(e, gs_export_out_begin(&e->out)));
}

int gs_export_close(struct gs_export **export, struct gs_err *err)
{
	GS_CLEANUP(gs_export_abandon) struct gs_export *e = *export;
	int r;

	*export = NULL;
	gs_export_end(e);
	r = gs_export_out_flush(&e->out);
	if (r < 0 && e->writer->last_words && e->out.file_bytes)
		gs_export_out_last_words(&e->out, e->writer->last_words);
	return gs_export_out_close(&e->out, err);
}

void gs_export_view_call(const struct gs_dict *dict, const struct gs_rec_call *call,
			 struct gs_export_call_view *v)
{
	v->call = call;
	v->function = gs_dict_function(dict, call->function);
	v->thread = gs_dict_thread(dict, call->thread);
	v->process = v->thread ? gs_dict_process(dict, v->thread->process) : NULL;
	v->layer = v->function ? v->function->layer : GS_LAYER_NONE;
	v->kernel = NULL;
	v->func_class = v->function ? v->function->func_class : GS_CLASS_OTHER;
	v->function_name = v->function ? gs_dict_string(dict, v->function->name_str) : "";
	if (v->function_name[0] == '\0')
		v->function_name = "unknown";
	v->layer_name = v->layer ? gs_layer_name(v->layer) : "unknown";
	v->class_name = v->function ? gs_class_name(v->func_class) : "unknown";
	if (v->func_class == GS_CLASS_LAUNCH && v->thread)
		v->kernel = gs_dict_kernel(dict, v->thread->process, call->arg[0]);
	if (v->kernel && !v->kernel->name_str)
		v->kernel = NULL;
}

/* gs_call_args() of a launch, the most frequent call by far, without its printf: the words must
 * stay the same (tested). */
static size_t launch_args(const struct gs_rec_call *c, struct gs_arg *a)
{
	a[0] = (struct gs_arg){.name = "function", .type = GS_ARG_HANDLE, .value = c->arg[0]};
	a[1].name = "grid";
	a[1].type = GS_ARG_TEXT;
	a[1].value = 0;
	*gs_put_dim3(a[1].text, (uint32_t)c->arg[1], (uint32_t)(c->arg[1] >> 32),
		     (uint32_t)c->arg[2]) = '\0';
	a[2].name = "block";
	a[2].type = GS_ARG_TEXT;
	a[2].value = 0;
	*gs_put_dim3(a[2].text, (uint32_t)(c->arg[2] >> 32), (uint32_t)c->arg[3],
		     (uint32_t)(c->arg[3] >> 32)) = '\0';
	a[3] = (struct gs_arg){.name = "shared_bytes", .type = GS_ARG_BYTES, .value = c->aux};
	a[4] = (struct gs_arg){.name = "stream", .type = GS_ARG_HANDLE, .value = c->stream};
	return 5;
}

static void add_text(struct gs_arg *a, const char *name, const char *text)
{
	a->name = name;
	a->type = GS_ARG_TEXT;
	a->value = 0;
	*gs_put(a->text, text) = '\0';
}

/* The communicator of an NCCL call, when it is known. */
static const struct gs_rec_comm *comm_of(const struct gs_dict *dict,
					 const struct gs_export_call_view *v)
{
	uint64_t handle;

	if (v->layer != GS_LAYER_NCCL || !v->thread)
		return NULL;
	switch (v->func_class) {
	case GS_CLASS_COLLECTIVE:
	case GS_CLASS_P2P:
		handle = v->call->arg[1];
		break;
	case GS_CLASS_COMM:
	case GS_CLASS_QUERY:
		handle = v->call->arg[0];
		break;
	default:
		return NULL;
	}
	return handle ? gs_dict_comm(dict, v->thread->process, handle) : NULL;
}

size_t gs_export_args(const struct gs_dict *dict, const struct gs_export_call_view *v,
		      struct gs_arg args[GS_EXPORT_ARG_MAX])
{
	const struct gs_rec_call *c = v->call;
	const struct gs_rec_comm *comm = comm_of(dict, v);
	size_t n;

	if (v->func_class == GS_CLASS_LAUNCH && v->layer != GS_LAYER_NCCL && c->ret == 0)
		n = launch_args(c, args);
	else
		n = gs_call_args(c, v->layer, v->func_class, args);
	if (comm && comm->rank >= 0)
		args[n++] = (struct gs_arg){
			.name = "rank", .type = GS_ARG_U64, .value = (uint64_t)comm->rank};
	if (comm && comm->n_ranks >= 0)
		args[n++] = (struct gs_arg){
			.name = "nranks", .type = GS_ARG_U64, .value = (uint64_t)comm->n_ranks};
	if (c->call_flags & GS_CALL_UNFINISHED)
		add_text(&args[n++], "state", "did not finish");
	if (c->call_flags & GS_CALL_UNTIMED)
		add_text(&args[n++], "time", "not known: a first call");
	if (c->call_flags & GS_CALL_ARGS_UNREAD)
		add_text(&args[n++], "arguments", "some could not be read");
	return n;
}

unsigned gs_export_arg_name_id(struct gs_export_arg_names *names, const char *name)
{
	uintptr_t h = (uintptr_t)name;
	size_t slot = (h ^ h >> 7) % GS_ARG_NAME_SLOTS;
	unsigned id = 0;

	while (names->name[slot] && names->name[slot] != name)
		slot = (slot + 1) % GS_ARG_NAME_SLOTS;
	if (names->name[slot])
		return names->id[slot];
	for (size_t i = 0; i < GS_ARG_NAME_SLOTS && !id; i++)
		if (names->name[i] && strcmp(names->name[i], name) == 0)
			id = names->id[i];
	/* One slot stays free, so that looking for a name always ends. */
	if (names->n_slots + 1 >= GS_ARG_NAME_SLOTS)
		return id;
	if (!id)
		id = ++names->last_id;
	names->n_slots++;
	names->name[slot] = name;
	names->id[slot] = (uint8_t)id;
	return id;
}
