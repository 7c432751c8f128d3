/*
 * ".json": the Trace Event Format that chrome://tracing, Perfetto and many others read. One event
 * a line; calls are complete events ("X"), those that never returned a begin ("B") only. Times are
 * microseconds of the boot clock with three decimals; otherData ties them to the time of day.
 *
 *   {"displayTimeUnit":"ns","otherData":{...},"traceEvents":[
 *   {...},
 *   {...}
 *   ],"gpuscopeEnd":{...}}
 *
 * Not by gs_doc or gs_json: a line takes some 70 ns so, ten times that as a document, and a trace has
 * millions of them. Texts and numbers are spelled by core/text/put.h, as theirs are, but for what
 * steers the text around it (gs_text_is_steering()): documents have it escaped, since programs read
 * names of them; here it is U+FFFD, since people look at a trace in viewers that show it as it is.
 *
 * A file that was cut is what those readers accept too: they take the missing end for granted.
 */
#include "output/trace_export/export_int.h"
#include "output/trace_export/export_line.h"
#include "model/trace/record_stack.h"

#define LINE_BYTES 256 /* of one line of a stack: all of them fit into a record */
/* Each stream has a track as if it were a thread; no real one has such a number. */
#define STREAM_TID (1u << 30)

struct json {
	/* Announced already, by id. */
	uint8_t threads[GS_DICT_MAX_ID];
	uint8_t processes[GS_DICT_MAX_ID];
	bool any; /* an event was written: the next needs a comma */
	bool unknown_thread;
};

static char *put_member(char *p, const char *key, const char *text, size_t max_bytes)
{
	p = gs_put(p, key);
	return gs_put_json(p, text, max_bytes);
}

static char *put_number(char *p, const char *key, uint64_t v)
{
	return gs_put_u64(gs_put(p, key), v);
}

static uint8_t *start_export(struct gs_export *e, uint8_t *out)
{
	const struct gs_rec_session *s = gs_dict_session(e->dict);
	char *p = (char *)out;

	p = gs_put(
		p,
		"{\"displayTimeUnit\":\"ns\",\"otherData\":{\"writer\":\"gpuscope\",\"version\":\"1\",\"clock\":\"CLOCK_BOOTTIME\"");
	if (s) {
		p = put_member(p, ",\"host\":", gs_dict_string(e->dict, s->host_str), GS_PUT_MAX);
		p = put_member(p, ",\"command\":", gs_dict_string(e->dict, s->command_str),
			       GS_PUT_MAX);
		p = put_member(p, ",\"kernel\":", gs_dict_string(e->dict, s->kernel_str),
			       GS_PUT_MAX);
		p = put_member(p, ",\"attach_mode\":", gs_dict_string(e->dict, s->attach_mode_str),
			       GS_PUT_MAX);
		/* As text: a number this large would be rounded by a reader that uses doubles. */
		p = put_number(p, ",\"start_ns\":\"", s->start_ns);
		p = gs_put(p, "\",\"wall_minus_boot_ns\":\"");
		p = gs_put_i64(p, s->wall_minus_boot_ns);
		*p++ = '"';
	}
	return (uint8_t *)gs_put(p, "},\"traceEvents\":[");
}

static char *begin_event(struct json *x, char *p)
{
	p = gs_put(p, x->any ? ",\n" : "\n");
	x->any = true;
	return p;
}

static char *put_metadata(struct json *x, char *p, const char *what, uint32_t pid, uint32_t tid)
{
	p = gs_put(begin_event(x, p), "{\"ph\":\"M\",\"name\":\"");
	p = gs_put(p, what);
	p = put_number(p, "\",\"pid\":", pid);
	p = put_number(p, ",\"tid\":", tid);
	return gs_put(p, ",\"args\":{");
}

static char *put_process(struct gs_export *e, char *p, const struct gs_rec_process *r)
{
	struct json *x = e->state;

	p = put_metadata(x, p, "process_name", r->pid, r->pid);
	p = put_member(p, "\"name\":", gs_dict_string(e->dict, r->comm_str), GS_PUT_MAX);
	p = put_member(p, ",\"cmdline\":", gs_dict_string(e->dict, r->cmdline_str), GS_PUT_MAX);
	p = put_member(p, ",\"exe\":", gs_dict_string(e->dict, r->exe_str), GS_PUT_MAX);
	p = gs_put(p, "}}");
	if (r->container_str) {
		p = put_metadata(x, p, "process_labels", r->pid, r->pid);
		p = put_member(p, "\"labels\":", gs_dict_string(e->dict, r->container_str),
			       GS_PUT_MAX);
		p = gs_put(p, "}}");
	}
	p = put_metadata(x, p, "process_sort_index", r->pid, r->pid);
	p = put_number(p, "\"sort_index\":", r->id);
	return gs_put(p, "}}");
}

static char *put_track(struct json *x, char *p, uint32_t pid, uint32_t tid, const char *name)
{
	p = put_metadata(x, p, "thread_name", pid, tid);
	p = put_member(p, "\"name\":", name, GS_PUT_MAX);
	p = gs_put(p, "}}");
	p = put_metadata(x, p, "thread_sort_index", pid, tid);
	p = put_number(p, "\"sort_index\":", tid == pid ? 0 : tid);
	return gs_put(p, "}}");
}

static char *put_thread(struct gs_export *e, char *p, const struct gs_rec_thread *t,
			const struct gs_rec_process *r)
{
	return put_track(e->state, p, r ? r->pid : 0, t->tid, gs_dict_string(e->dict, t->comm_str));
}

static char *need_process(struct gs_export *e, char *p, const struct gs_rec_process *r)
{
	struct json *x = e->state;

	if (!r || x->processes[r->id])
		return p;
	x->processes[r->id] = 1;
	return put_process(e, p, r);
}

static char *need_thread(struct gs_export *e, char *p, const struct gs_export_call_view *v)
{
	struct json *x = e->state;

	if (!v->thread) {
		if (!x->unknown_thread)
			p = gs_put(put_metadata(x, p, "thread_name", 0, 0),
				   "\"name\":\"unknown thread\"}}");
		x->unknown_thread = true;
		return p;
	}
	if (x->threads[v->thread->id])
		return p;
	x->threads[v->thread->id] = 1;
	p = need_process(e, p, v->process);
	return put_thread(e, p, v->thread, v->process);
}

static char *text_arg(char *p, const char *key, const char *text, bool first)
{
	if (!first)
		*p++ = ',';
	*p++ = '"';
	return put_member(gs_put(p, key), "\":", text, GS_PUT_MAX);
}

/* Where the call was made. n: arguments before. */
static char *put_context(struct gs_export *e, char *p, const struct gs_rec_call *c, size_t *n)
{
	uint32_t frame = gs_export_py_frame(e->dict, c);
	const char *key = NULL, *name = gs_export_scope(e->dict, c, &key);
	char label[GS_FLAME_LABEL_BYTES];

	if (name)
		p = text_arg(p, key, name, (*n)++ == 0);
	if (gs_dict_frame(e->dict, frame))
		p = text_arg(p, "python", gs_flame_frame_label(e->dict, frame, label), (*n)++ == 0);
	return p;
}

/* What a user's probe read, and the end of the arguments. JSON has no infinity and no NaN. */
static char *put_values(struct gs_export *e, char *p, size_t n)
{
	const struct gs_rec_values *v = e->values;

	for (uint32_t i = 0; v && i < v->n_values && i < GS_EXPORT_VALUES_MAX; i++) {
		const struct gs_rec_value *a = &v->values[i];
		const char *text = a->value_type == GS_VALUE_STR
					   ? gs_dict_string(e->dict, (uint32_t)a->value)
					   : NULL;

		if (n++)
			*p++ = ',';
		p = gs_put_json(p, gs_dict_string(e->dict, a->name_str), GS_PUT_MAX_SHORT);
		*p++ = ':';
		p = text ? gs_put_json(p, text, GS_PUT_MAX) : gs_export_put_value(p, a, true);
	}
	return gs_put(p, "}}");
}

static char *call_args(struct gs_export *e, char *p, const struct gs_export_call_view *v)
{
	struct gs_arg args[GS_EXPORT_ARG_MAX];
	size_t n = gs_export_args(e->dict, v, args);

	p = gs_put(p, ",\"args\":{");
	for (size_t i = 0; i < n; i++) {
		if (i)
			*p++ = ',';
		*p++ = '"';
		p = gs_put(p, args[i].name);
		*p++ = '"';
		*p++ = ':';
		if (args[i].type == GS_ARG_TEXT) {
			p = gs_put_json(p, args[i].text, sizeof(args[i].text));
		} else if (args[i].type == GS_ARG_HANDLE) {
			*p++ = '"';
			p = gs_put_hex(p, args[i].value);
			*p++ = '"';
		} else {
			p = gs_put_u64(p, args[i].value);
		}
	}
	if (v->kernel)
		p = text_arg(p, "kernel", gs_dict_string(e->dict, v->kernel->short_str), n++ == 0);
	p = put_context(e, p, v->call, &n);
	return put_values(e, p, n);
}

/* An arrow: "s" in the call that it comes from, "f" in the one that it goes to. */
static char *put_arrow(struct gs_export *e, char *p, const struct gs_export_call_view *v)
{
	bool from = e->arrow == GS_ARROW_FROM;

	p = gs_put(
		begin_event(e->state, p),
		from ? "{\"ph\":\"s\",\"name\":\"waited for\",\"cat\":\"sync\",\"id\":"
		     : "{\"ph\":\"f\",\"bp\":\"e\",\"name\":\"waited for\",\"cat\":\"sync\",\"id\":");
	p = gs_put_u64(p, v->call->flow);
	p = gs_put_us(gs_put(p, ",\"ts\":"), e->begin_ns);
	p = put_number(p, ",\"pid\":", v->process ? v->process->pid : 0);
	p = put_number(p, ",\"tid\":", v->thread ? v->thread->tid : 0);
	return gs_put(p, "}");
}

static char *put_call(struct gs_export *e, char *p, const struct gs_rec_call *c)
{
	bool open = c->call_flags & GS_CALL_UNFINISHED, instant;
	struct gs_export_call_view v;

	gs_export_view_call(e->dict, c, &v);
	p = need_thread(e, p, &v);
	instant = gs_export_is_instant(&v);
	p = gs_put(begin_event(e->state, p), open      ? "{\"ph\":\"B\",\"name\":"
					     : instant ? "{\"ph\":\"i\",\"s\":\"t\",\"name\":"
						       : "{\"ph\":\"X\",\"name\":");
	p = gs_put_json(p, v.function_name, GS_PUT_MAX);
	p = gs_put(gs_put(p, ",\"cat\":\""), v.layer_name);
	p = gs_put(p, c->failed ? ",error\",\"ts\":" : "\",\"ts\":");
	p = gs_put_us(p, e->begin_ns);
	if (!open && !instant)
		p = gs_put_us(gs_put(p, ",\"dur\":"), c->start_ns + c->dur_ns - e->begin_ns);
	p = put_number(p, ",\"pid\":", v.process ? v.process->pid : 0);
	p = put_number(p, ",\"tid\":", v.thread ? v.thread->tid : 0);
	p = call_args(e, p, &v);
	return e->arrow ? put_arrow(e, p, &v) : p;
}

/* A thread with its process, as a call's view has them. */
static char *need_thread_of(struct gs_export *e, char *p, uint32_t id,
			    struct gs_export_call_view *ret)
{
	*ret = (struct gs_export_call_view){.thread = gs_dict_thread(e->dict, id)};
	if (ret->thread)
		ret->process = gs_dict_process(e->dict, ret->thread->process);
	return need_thread(e, p, ret);
}

/* An instant, named by the line that the thread was at, with the whole stack, the innermost first.
 */
static char *put_sample(struct gs_export *e, char *p, const struct gs_rec_sample *s)
{
	const struct gs_rec_stack *stack = gs_dict_stack(e->dict, s->py_stack);
	const struct gs_rec_frame *line = gs_line_of_stack(e->dict, s->py_stack);
	struct gs_export_call_view v;
	char text[LINE_BYTES];

	p = need_thread_of(e, p, s->thread, &v);
	p = gs_put(begin_event(e->state, p), "{\"ph\":\"i\",\"s\":\"t\",\"name\":");
	if (line)
		gs_export_line_text(e->dict, line, text, sizeof(text));
	p = gs_put_json(p, line ? text : "no Python function", GS_PUT_MAX);
	p = gs_put_us(gs_put(p, ",\"cat\":\"python-sample\",\"ts\":"), s->time_ns);
	p = put_number(p, ",\"pid\":", v.process ? v.process->pid : 0);
	p = put_number(p, ",\"tid\":", v.thread ? v.thread->tid : 0);
	p = put_number(p, ",\"args\":{\"cpu\":", s->cpu);
	p = put_number(p, ",\"period_ns\":", s->period_ns);
	p = gs_put(p, ",\"stack\":[");
	for (uint32_t i = 0; stack && i < stack->n_frames && i < GS_STACK_MAX; i++) {
		const struct gs_rec_frame *f = gs_dict_frame(e->dict, stack->frames[i]);

		if (i)
			*p++ = ',';
		if (f)
			gs_export_line_text(e->dict, f, text, sizeof(text));
		p = gs_put_json(p, f ? text : "?", GS_PUT_MAX);
	}
	return gs_put(p, "]}}");
}

static char *put_counter(struct gs_export *e, char *p, const struct gs_rec_counter *c)
{
	const struct gs_rec_process *r = gs_dict_process(e->dict, c->process);

	p = need_process(e, p, r);
	p = gs_put(begin_event(e->state, p), "{\"ph\":\"C\"");
	p = put_member(p, ",\"name\":", gs_dict_string(e->dict, c->name_str), GS_PUT_MAX);
	p = gs_put_us(gs_put(p, ",\"ts\":"), c->time_ns);
	p = put_number(p, ",\"pid\":", r ? r->pid : 0);
	p = gs_put(p, c->unit == GS_UNIT_BYTES   ? ",\"args\":{\"bytes\":"
		      : c->unit == GS_UNIT_COUNT ? ",\"args\":{\"count\":"
						 : ",\"args\":{\"value\":");
	p = gs_put_i64(p, c->value);
	return gs_put(p, "}}");
}

/* The format has no GPUs: each is a process whose number no process can have (PID_MAX_LIMIT of
 * include/linux/threads.h is 4 Mi, Linux 2.6 to 6.18). */
#define GPU_PID 4194305u

static char *put_gpu_group(struct json *x, char *p, const struct gs_export_gpu_point *point)
{
	p = put_metadata(x, p, "process_name", GPU_PID + point->gpu, GPU_PID + point->gpu);
	p = put_member(p, "\"name\":", point->gpu_name, GS_PUT_MAX);
	p = gs_put(p, ",\"source\":\"device\"}}");
	p = put_metadata(x, p, "process_sort_index", GPU_PID + point->gpu, GPU_PID + point->gpu);
	return gs_put(put_number(p, "\"sort_index\":", GPU_PID + point->gpu), "}}");
}

/* What samples say of a GPU, or of a traced process's part of it. Stretches and moments are on threads,
 * as all slices are. */
static uint8_t *put_gpu(struct gs_export *e, const struct gs_export_gpu_point *point, uint8_t *out)
{
	static const char *const keys[] = {
		[GS_EXPORT_GPU_PERCENT] = "percent",
		[GS_EXPORT_GPU_BYTES] = "bytes",
		[GS_EXPORT_GPU_WATTS] = "watts",
		[GS_EXPORT_GPU_MEGAHERTZ] = "megahertz",
		[GS_EXPORT_GPU_CELSIUS] = "celsius",
		[GS_EXPORT_GPU_BYTES_A_SECOND] = "bytes_per_second",
	};
	uint32_t pid = point->process ? point->process->pid : GPU_PID + point->gpu;
	struct json *x = e->state;
	char *p = (char *)out;

	if (point->is_new_group)
		p = put_gpu_group(x, p, point);
	p = need_process(e, p, point->process);
	if (point->kind == GS_EXPORT_GPU_VALUE) {
		p = gs_put(begin_event(x, p), "{\"ph\":\"C\",\"cat\":\"gpu\"");
		p = put_member(p, ",\"name\":", point->name, GS_PUT_MAX_SHORT);
		p = gs_put_us(gs_put(p, ",\"ts\":"), point->time_ns);
		p = put_number(p, ",\"pid\":", pid);
		p = gs_put(gs_put(gs_put(p, ",\"args\":{\""), keys[point->unit]), "\":");
		return (uint8_t *)gs_put(gs_put_double(p, point->value), "}}");
	}
	if (point->is_new_track) {
		p = put_metadata(x, p, "thread_name", pid, point->track);
		p = gs_put(put_member(p, "\"name\":", point->name, GS_PUT_MAX_SHORT), "}}");
	}
	p = gs_put(begin_event(x, p), point->kind == GS_EXPORT_GPU_SPAN
					      ? "{\"ph\":\"X\",\"cat\":\"gpu\""
					      : "{\"ph\":\"i\",\"s\":\"p\",\"cat\":\"gpu,error\"");
	p = put_member(p, ",\"name\":", point->text, GS_PUT_MAX_SHORT);
	p = gs_put_us(gs_put(p, ",\"ts\":"), point->time_ns);
	if (point->kind == GS_EXPORT_GPU_SPAN)
		p = gs_put_us(gs_put(p, ",\"dur\":"), point->end_ns - point->time_ns);
	p = put_number(p, ",\"pid\":", pid);
	p = put_number(p, ",\"tid\":", point->track);
	if (point->detail && point->detail[0])
		p = gs_put(put_member(p, ",\"args\":{\"detail\":", point->detail, GS_PUT_MAX_SHORT),
			   "}");
	return (uint8_t *)gs_put(p, "}");
}

static char *put_loss(struct gs_export *e, char *p, const struct gs_rec_loss *l)
{
	const char *detail = gs_dict_string(e->dict, l->detail_str);

	p = gs_put(begin_event(e->state, p), "{\"ph\":\"i\",\"s\":\"g\",\"name\":\"lost: ");
	p = gs_put(p, gs_loss_name(l->cause));
	p = gs_put_us(gs_put(p, "\",\"cat\":\"gpuscope\",\"ts\":"), e->now_ns);
	p = put_number(p, ",\"pid\":0,\"tid\":0,\"args\":{\"count\":", l->count);
	p = put_member(p, ",\"cause\":", gs_loss_text(l->cause), GS_PUT_MAX);
	p = put_member(p, ",\"layer\":", gs_layer_name(l->layer), GS_PUT_MAX);
	if (detail[0])
		p = put_member(p, ",\"detail\":", detail, GS_PUT_MAX);
	return gs_put(p, "}}");
}

/* Work of a stream that became done together. */
static uint8_t *put_span(struct gs_export *e, const struct gs_activity_span *span,
			 const char *track_name, uint8_t *out)
{
	const struct gs_rec_process *r = gs_dict_process(e->dict, span->process);
	uint32_t pid = r ? r->pid : 0, tid = STREAM_TID + span->index;
	struct json *x = e->state;
	char *p = need_process(e, (char *)out, r);

	if (track_name)
		p = put_track(x, p, pid, tid, track_name);
	p = gs_put(begin_event(x, p), "{\"ph\":\"X\",\"name\":\"");
	p = gs_put(p, gs_activity_work_name(span->work));
	p = gs_put_us(gs_put(p, "\",\"cat\":\"gpu-stream\",\"ts\":"), span->start_ns);
	p = gs_put_us(gs_put(p, ",\"dur\":"), span->end_ns - span->start_ns);
	p = put_number(p, ",\"pid\":", pid);
	p = put_number(p, ",\"tid\":", tid);
	p = put_number(p, ",\"args\":{\"count\":", span->n);
	if (span->bytes)
		p = put_number(p, ",\"bytes\":", span->bytes);
	if (span->threads)
		p = put_number(p, ",\"threads_mean\":", span->threads);
	if (span->ended)
		p = gs_put(p, ",\"state\":\"completion not seen\"");
	return (uint8_t *)gs_put(p, "}}");
}

static uint8_t *put_record(struct gs_export *e, const struct gs_record *r, uint8_t *out)
{
	struct json *x = e->state;
	char *p = (char *)out;

	switch (r->kind) {
	case GS_REC_CALL:
		p = put_call(e, p, (const void *)r);
		break;
	case GS_REC_SAMPLE:
		p = put_sample(e, p, (const void *)r);
		break;
	case GS_REC_COUNTER:
		p = put_counter(e, p, (const void *)r);
		break;
	case GS_REC_LOSS:
		p = put_loss(e, p, (const void *)r);
		break;
	case GS_REC_PROCESS: /* more is known of it now: named again */
		if (x->processes[((const struct gs_rec_process *)r)->id])
			p = put_process(e, p, (const void *)r);
		break;
	case GS_REC_THREAD: {
		const struct gs_rec_thread *t = (const void *)r;

		if (x->threads[t->id])
			p = put_thread(e, p, t, gs_dict_process(e->dict, t->process));
		break;
	}
	default:
		break;
	}
	return (uint8_t *)p;
}

static uint8_t *finish_export(struct gs_export *e, uint8_t *out)
{
	char *p = gs_put((char *)out, "\n],\"gpuscopeEnd\":{\"complete\":");

	p = gs_put(p, e->ended ? "true" : "false");
	if (e->ended) {
		p = put_member(p, ",\"reason\":", gs_dict_string(e->dict, e->end.reason_str),
			       GS_PUT_MAX_SHORT);
		p = gs_put_i64(gs_put(p, ",\"exit_status\":"), e->end.exit_status);
		p = gs_put_us(gs_put(p, ",\"ts\":"), e->end.end_ns);
	}
	p = put_number(p, ",\"calls_left_out\":", e->left_out);
	return (uint8_t *)gs_put(p, "}}\n");
}

const struct gs_export_writer gs_writer_json = {
	.can_gzip = true,
	.suffix = ".json",
	.is_timeline = true,
	.state_bytes = sizeof(struct json),
	.start = start_export,
	.record = put_record,
	.span = put_span,
	.gpu = put_gpu,
	.finish = finish_export,
	.last_words = "\n]}\n",
};
