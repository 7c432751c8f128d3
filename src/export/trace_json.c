/*
 * ".json": the Trace Event Format that chrome://tracing, Perfetto and many others read. One event
 * a line; calls are complete events ("X"), those that never returned a begin ("B") only, places
 * that were passed an instant ("i"). Times are microseconds of the boot clock with three decimals;
 * otherData ties them to the time of day.
 *
 *   {"displayTimeUnit":"ns","otherData":{...},"traceEvents":[
 *   {...},
 *   {...}
 *   ],"gpuscopeEnd":{...}}
 *
 * A file that was cut is what those readers accept too: they take the missing end for granted.
 */
#include "export/export_int.h"

struct json {
	/* Announced already, by id. */
	uint8_t threads[GS_DICT_MAX_ID];
	uint8_t processes[GS_DICT_MAX_ID];
	bool any; /* an event was written: the next needs a comma */
	bool unknown_thread;
};

static char *member(char *p, const char *key, const char *text, size_t max_bytes)
{
	p = gs_put(p, key);
	return gs_put_json(p, text, max_bytes);
}

static char *number(char *p, const char *key, uint64_t v)
{
	return gs_put_u64(gs_put(p, key), v);
}

static uint8_t *start(struct gs_export *e, uint8_t *out)
{
	const struct gs_rec_session *s = gs_dict_session(e->dict);
	char *p = (char *)out;

	p = gs_put(p, "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"writer\":\"gpuscope\","
		      "\"clock\":\"CLOCK_BOOTTIME\"");
	if (s) {
		p = member(p, ",\"host\":", gs_dict_string(e->dict, s->host_str), GS_PUT_MAX);
		p = member(p, ",\"command\":", gs_dict_string(e->dict, s->command_str), GS_PUT_MAX);
		p = member(p, ",\"kernel\":", gs_dict_string(e->dict, s->kernel_str), GS_PUT_MAX);
		p = member(p, ",\"engine\":", gs_dict_string(e->dict, s->engine_str), GS_PUT_MAX);
		/* As text: a number this large would be rounded by a reader that uses doubles. */
		p = number(p, ",\"start_ns\":\"", s->start_ns);
		p = gs_put(p, "\",\"wall_minus_boot_ns\":\"");
		p = gs_put_i64(p, s->wall_minus_boot_ns);
		*p++ = '"';
	}
	return (uint8_t *)gs_put(p, "},\"traceEvents\":[");
}

static char *event(struct json *x, char *p)
{
	p = gs_put(p, x->any ? ",\n" : "\n");
	x->any = true;
	return p;
}

static char *metadata(struct json *x, char *p, const char *what, uint32_t pid, uint32_t tid)
{
	p = gs_put(event(x, p), "{\"ph\":\"M\",\"name\":\"");
	p = gs_put(p, what);
	p = number(p, "\",\"pid\":", pid);
	p = number(p, ",\"tid\":", tid);
	return gs_put(p, ",\"args\":{");
}

static char *process(struct gs_export *e, char *p, const struct gs_rec_process *r)
{
	struct json *x = e->state;

	p = metadata(x, p, "process_name", r->pid, r->pid);
	p = member(p, "\"name\":", gs_dict_string(e->dict, r->comm_str), GS_PUT_MAX);
	p = member(p, ",\"cmdline\":", gs_dict_string(e->dict, r->cmdline_str), GS_PUT_MAX);
	p = member(p, ",\"exe\":", gs_dict_string(e->dict, r->exe_str), GS_PUT_MAX);
	p = gs_put(p, "}}");
	if (r->container_str) {
		p = metadata(x, p, "process_labels", r->pid, r->pid);
		p = member(p, "\"labels\":", gs_dict_string(e->dict, r->container_str), GS_PUT_MAX);
		p = gs_put(p, "}}");
	}
	p = metadata(x, p, "process_sort_index", r->pid, r->pid);
	p = number(p, "\"sort_index\":", r->id);
	return gs_put(p, "}}");
}

static char *thread(struct gs_export *e, char *p, const struct gs_rec_thread *t,
		    const struct gs_rec_process *r)
{
	uint32_t pid = r ? r->pid : 0;
	struct json *x = e->state;

	p = metadata(x, p, "thread_name", pid, t->tid);
	p = member(p, "\"name\":", gs_dict_string(e->dict, t->comm_str), GS_PUT_MAX);
	p = gs_put(p, "}}");
	p = metadata(x, p, "thread_sort_index", pid, t->tid);
	p = number(p, "\"sort_index\":", t->tid == pid ? 0 : t->tid);
	return gs_put(p, "}}");
}

static char *need_process(struct gs_export *e, char *p, const struct gs_rec_process *r)
{
	struct json *x = e->state;

	if (!r || x->processes[r->id])
		return p;
	x->processes[r->id] = 1;
	return process(e, p, r);
}

static char *need_thread(struct gs_export *e, char *p, const struct gs_call_view *v)
{
	struct json *x = e->state;

	if (!v->thread) {
		if (!x->unknown_thread)
			p = gs_put(metadata(x, p, "thread_name", 0, 0),
				   "\"name\":\"unknown thread\"}}");
		x->unknown_thread = true;
		return p;
	}
	if (x->threads[v->thread->id])
		return p;
	x->threads[v->thread->id] = 1;
	p = need_process(e, p, v->process);
	return thread(e, p, v->thread, v->process);
}

static char *call_args(struct gs_export *e, char *p, const struct gs_call_view *v)
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
	for (unsigned i = 0; i < e->n_values; i++) {
		if (n || i)
			*p++ = ',';
		p = gs_put_json(p, gs_dict_string(e->dict, e->values[i].name_str),
				GS_PUT_MAX_SHORT);
		*p++ = ':';
		p = gs_put_value(p, e->dict, &e->values[i]);
	}
	return gs_put(p, "}}");
}

static char *call(struct gs_export *e, char *p, const struct gs_rec_call *c)
{
	bool open = c->call_flags & GS_CALL_UNFINISHED;
	bool instant = c->call_flags & GS_CALL_INSTANT;
	struct gs_call_view v;

	gs_call_view(e->dict, c, &v);
	p = need_thread(e, p, &v);
	p = gs_put(event(e->state, p), instant ? "{\"ph\":\"i\",\"s\":\"t\",\"name\":"
				       : open  ? "{\"ph\":\"B\",\"name\":"
					       : "{\"ph\":\"X\",\"name\":");
	p = gs_put_json(p, v.function_name, GS_PUT_MAX);
	p = gs_put(gs_put(p, ",\"cat\":\""), v.layer_name);
	p = gs_put(p, c->failed ? ",error\",\"ts\":" : "\",\"ts\":");
	p = gs_put_us(p, c->start_ns);
	if (!open && !instant)
		p = gs_put_us(gs_put(p, ",\"dur\":"), c->dur_ns);
	p = number(p, ",\"pid\":", v.process ? v.process->pid : 0);
	p = number(p, ",\"tid\":", v.thread ? v.thread->tid : 0);
	return call_args(e, p, &v);
}

static char *counter(struct gs_export *e, char *p, const struct gs_rec_counter *c)
{
	const struct gs_rec_process *r = gs_dict_process(e->dict, c->process);

	p = need_process(e, p, r);
	p = gs_put(event(e->state, p), "{\"ph\":\"C\"");
	p = member(p, ",\"name\":", gs_dict_string(e->dict, c->name_str), GS_PUT_MAX);
	p = gs_put_us(gs_put(p, ",\"ts\":"), c->time_ns);
	p = number(p, ",\"pid\":", r ? r->pid : 0);
	p = gs_put(p, c->unit == GS_UNIT_BYTES   ? ",\"args\":{\"bytes\":"
		      : c->unit == GS_UNIT_COUNT ? ",\"args\":{\"count\":"
						 : ",\"args\":{\"value\":");
	p = gs_put_i64(p, c->value);
	return gs_put(p, "}}");
}

static char *loss(struct gs_export *e, char *p, const struct gs_rec_loss *l)
{
	const char *detail = gs_dict_string(e->dict, l->detail_str);

	p = gs_put(event(e->state, p), "{\"ph\":\"i\",\"s\":\"g\",\"name\":\"lost: ");
	p = gs_put(p, gs_loss_name(l->cause));
	p = gs_put_us(gs_put(p, "\",\"cat\":\"gpuscope\",\"ts\":"), e->now_ns);
	p = number(p, ",\"pid\":0,\"tid\":0,\"args\":{\"count\":", l->count);
	p = member(p, ",\"cause\":", gs_loss_text(l->cause), GS_PUT_MAX);
	p = member(p, ",\"layer\":", gs_layer_name(l->layer), GS_PUT_MAX);
	if (detail[0])
		p = member(p, ",\"detail\":", detail, GS_PUT_MAX);
	return gs_put(p, "}}");
}

static uint8_t *record(struct gs_export *e, const struct gs_record *r, uint8_t *out)
{
	struct json *x = e->state;
	char *p = (char *)out;

	switch (r->kind) {
	case GS_REC_CALL:
		p = call(e, p, (const void *)r);
		break;
	case GS_REC_COUNTER:
		p = counter(e, p, (const void *)r);
		break;
	case GS_REC_LOSS:
		p = loss(e, p, (const void *)r);
		break;
	case GS_REC_PROCESS: /* more is known of it now: named again */
		if (x->processes[((const struct gs_rec_process *)r)->id])
			p = process(e, p, (const void *)r);
		break;
	case GS_REC_THREAD: {
		const struct gs_rec_thread *t = (const void *)r;

		if (x->threads[t->id])
			p = thread(e, p, t, gs_dict_process(e->dict, t->process));
		break;
	}
	default:
		break;
	}
	return (uint8_t *)p;
}

static uint8_t *finish(struct gs_export *e, uint8_t *out)
{
	char *p = gs_put((char *)out, "\n],\"gpuscopeEnd\":{\"complete\":");

	p = gs_put(p, e->ended ? "true" : "false");
	if (e->ended) {
		p = member(p, ",\"reason\":", gs_dict_string(e->dict, e->end.reason_str),
			   GS_PUT_MAX_SHORT);
		p = gs_put_i64(gs_put(p, ",\"exit_status\":"), e->end.exit_status);
		p = gs_put_us(gs_put(p, ",\"ts\":"), e->end.end_ns);
	}
	p = number(p, ",\"calls_left_out\":", e->left_out);
	return (uint8_t *)gs_put(p, "}}\n");
}

const struct gs_writer gs_writer_json = {
	.suffix = ".json",
	.state_bytes = sizeof(struct json),
	.start = start,
	.record = record,
	.finish = finish,
	.last_words = "\n]}\n",
};
