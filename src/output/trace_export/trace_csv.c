/*
 * ".csv": one row a call, RFC 4180 with \n as line end, in the order in which calls ended. The
 * columns are always the same; one that says nothing about a call is empty.
 *
 *   start_ns         boot clock              start_wall   the same as time of day, UTC
 *   dur_ns           of an unfinished call: its age when tracing ended
 *   finished failed  0 or 1                  result       code returned, empty when it did not
 *   depth            traced calls open around it in its thread
 *   arguments_unread 1: some argument could not be read and shows as 0
 *   kernel           which a launch is of, the short form of its name
 *   operator python  the function of a layer above around it; the line of Python that made it
 *   flow waited      shared by work and the call that waited for it; 1: this is that call
 *   values           what a user's probe read, as a JSON object
 *   all others       the arguments as model/trace/func.h names them; handles and addresses in hex
 */
#include "output/trace_export/export_int.h"

#include <time.h>

#include "core/base/mem.h"

/* Columns that are arguments: the column, and the argument's name where that is another. */
static const struct {
	const char *column, *arg;
} columns[] = {
	{"bytes", NULL},
	{"stream", NULL},
	{"kind", NULL},
	{"grid_x", "grid"},
	{"grid_y", NULL},
	{"grid_z", NULL},
	{"block_x", "block"},
	{"block_y", NULL},
	{"block_z", NULL},
	{"shared_bytes", NULL},
	{"function_address", "function"},
	{"pointer", NULL},
	{"destination", NULL},
	{"source", NULL},
	{"value", NULL},
	{"event", NULL},
	{"flags", NULL},
	{"device", NULL},
	{"graph", NULL},
	{"handle", NULL},
	{"comm", NULL},
	{"count", NULL},
	{"datatype", NULL},
	{"op", NULL},
	{"root", NULL},
	{"peer", NULL},
	{"rank", NULL},
	{"nranks", NULL},
};
#define N_COLUMNS GS_ARRAY_LEN(columns)
#define NO_COLUMN 255

static const char first_columns[] =
	"start_ns,start_wall,dur_ns,layer,function,class,pid,tid,process,thread,container,cpu,depth,finished,failed,result,result_name,arguments_unread";

struct csv {
	struct gs_export_arg_names names;
	uint8_t column[GS_ARG_NAME_SLOTS]; /* by the number of a name; or NO_COLUMN */
	int64_t second;                    /* since 1970, that second_text shows */
	char second_text[24];              /* "2026-01-01T00:00:00." */
};

static uint8_t *start_export(struct gs_export *e GS_UNUSED, uint8_t *out)
{
	char *p = gs_put((char *)out, first_columns);

	for (size_t i = 0; i < N_COLUMNS; i++) {
		*p++ = ',';
		p = gs_put(p, columns[i].column);
	}
	return (uint8_t *)gs_put(p, ",kernel,operator,python,flow,waited,values\n");
}

static unsigned find_column(const char *arg)
{
	for (unsigned i = 0; i < N_COLUMNS; i++)
		if (strcmp(columns[i].arg ? columns[i].arg : columns[i].column, arg) == 0)
			return i;
	return NO_COLUMN; /* it has a place among the first columns */
}

static unsigned column_of(struct csv *x, const char *arg)
{
	unsigned known = x->names.last_id, id = gs_export_arg_name_id(&x->names, arg);

	if (id == 0)
		return find_column(arg);
	if (id > known)
		x->column[id] = (uint8_t)find_column(arg);
	return x->column[id];
}

static char *put_wall_time(struct csv *x, char *p, int64_t wall_ns)
{
	int64_t second = wall_ns / 1000000000;
	int32_t rest = (int32_t)(wall_ns % 1000000000);
	struct tm tm;
	time_t t;

	if (rest < 0) {
		rest += 1000000000;
		second--;
	}
	if (second != x->second || !x->second_text[0]) {
		t = (time_t)second;
		gmtime_r(&t, &tm);
		strftime(x->second_text, sizeof(x->second_text), "%Y-%m-%dT%H:%M:%S.", &tm);
		x->second = second;
	}
	p = gs_put(p, x->second_text);
	for (int i = 8; i >= 0; i--, rest /= 10)
		p[i] = (char)('0' + rest % 10);
	p[9] = 'Z';
	return p + 10;
}

/* start_ns to container. */
static char *put_who(struct gs_export *e, char *p, const struct gs_export_call_view *v)
{
	const struct gs_rec_session *s = gs_dict_session(e->dict);
	const struct gs_rec_call *c = v->call;

	p = gs_put_u64(p, c->start_ns);
	*p++ = ',';
	if (s)
		p = put_wall_time(e->state, p,
				  (int64_t)(c->start_ns + (uint64_t)s->wall_minus_boot_ns));
	*p++ = ',';
	if (!(c->call_flags & GS_CALL_UNTIMED))
		p = gs_put_u64(p, c->dur_ns);
	*p++ = ',';
	p = gs_put(p, v->layer_name);
	*p++ = ',';
	p = gs_put_csv(p, v->function_name, GS_PUT_MAX);
	*p++ = ',';
	p = gs_put(p, v->class_name);
	*p++ = ',';
	if (v->process)
		p = gs_put_u64(p, v->process->pid);
	*p++ = ',';
	if (v->thread)
		p = gs_put_u64(p, v->thread->tid);
	*p++ = ',';
	if (v->process)
		p = gs_put_csv(p, gs_dict_string(e->dict, v->process->comm_str), GS_PUT_MAX);
	*p++ = ',';
	if (v->thread)
		p = gs_put_csv(p, gs_dict_string(e->dict, v->thread->comm_str), GS_PUT_MAX);
	*p++ = ',';
	if (v->process)
		p = gs_put_csv(p, gs_dict_string(e->dict, v->process->container_str), GS_PUT_MAX);
	*p++ = ',';
	return p;
}

/* cpu to arguments_unread. */
static char *put_how(char *p, const struct gs_export_call_view *v)
{
	const struct gs_rec_call *c = v->call;
	bool finished = !(c->call_flags & GS_CALL_UNFINISHED);
	bool has_result = finished && !(c->call_flags & GS_CALL_UNTIMED);
	const char *name = has_result ? gs_error_name(v->layer, c->ret) : NULL;

	if (finished)
		p = gs_put_u64(p, c->cpu);
	*p++ = ',';
	p = gs_put_u64(p, c->depth);
	*p++ = ',';
	*p++ = finished ? '1' : '0';
	*p++ = ',';
	*p++ = c->failed ? '1' : '0';
	*p++ = ',';
	if (has_result)
		p = gs_put_i64(p, c->ret);
	*p++ = ',';
	if (name)
		p = gs_put(p, name);
	*p++ = ',';
	*p++ = c->call_flags & GS_CALL_ARGS_UNREAD ? '1' : '0';
	return p;
}

static char *put_args(struct gs_export *e, char *p, const struct gs_export_call_view *v)
{
	const struct gs_arg *by_column[N_COLUMNS] = {NULL};
	struct gs_arg args[GS_EXPORT_ARG_MAX];
	size_t n = gs_export_args(e->dict, v, args);

	for (size_t i = 0; i < n; i++) {
		unsigned column = column_of(e->state, args[i].name);

		if (column != NO_COLUMN)
			by_column[column] = &args[i];
	}
	for (size_t i = 0; i < N_COLUMNS; i++) {
		const struct gs_arg *a = by_column[i];

		*p++ = ',';
		if (!a)
			continue;
		if (a->type == GS_ARG_HANDLE) {
			p = gs_put_hex(p, a->value);
		} else if (a->type != GS_ARG_TEXT) {
			p = gs_put_u64(p, a->value);
		} else if (columns[i].arg) {
			p = gs_put(p, a->text); /* "128,2,1": three columns already */
			i += 2;
		} else {
			p = gs_put_csv(p, a->text, sizeof(a->text));
		}
	}
	return p;
}

/* As a JSON object: names and texts may hold anything. */
static char *put_values(struct gs_export *e, char *p)
{
	const struct gs_rec_values *v = e->values;
	char text[GS_EXPORT_VALUES_MAX * 2 * (GS_PUT_MAX_SHORT * 6 + 8)], *q = text;

	if (!v || !v->n_values)
		return p;
	for (uint32_t i = 0; i < v->n_values && i < GS_EXPORT_VALUES_MAX; i++) {
		const struct gs_rec_value *a = &v->values[i];

		*q++ = i ? ',' : '{';
		q = gs_put_json(q, gs_dict_string(e->dict, a->name_str), GS_PUT_MAX_SHORT);
		*q++ = ':';
		q = a->value_type == GS_VALUE_STR
			    ? gs_put_json(q, gs_dict_string(e->dict, (uint32_t)a->value),
					  GS_PUT_MAX_SHORT)
			    : gs_export_put_value(q, a, true);
	}
	*q++ = '}';
	*q = '\0';
	return gs_put_csv(p, text, sizeof(text));
}

/* kernel to values. */
static char *put_context(struct gs_export *e, char *p, const struct gs_export_call_view *v)
{
	const struct gs_rec_call *c = v->call;
	uint32_t frame = gs_export_py_frame(e->dict, c);
	char label[GS_FLAME_LABEL_BYTES];
	const char *key, *scope = gs_export_scope(e->dict, c, &key);

	*p++ = ',';
	if (v->kernel)
		p = gs_put_csv(p, gs_dict_string(e->dict, v->kernel->short_str), GS_PUT_MAX);
	*p++ = ',';
	if (scope)
		p = gs_put_csv(p, scope, GS_PUT_MAX);
	*p++ = ',';
	if (gs_dict_frame(e->dict, frame))
		p = gs_put_csv(p, gs_flame_frame_label(e->dict, frame, label), GS_PUT_MAX);
	*p++ = ',';
	if (c->flow)
		p = gs_put_u64(p, c->flow);
	*p++ = ',';
	if (c->flow)
		*p++ = c->call_flags & GS_CALL_WAITED ? '1' : '0';
	*p++ = ',';
	return put_values(e, p);
}

static uint8_t *put_record(struct gs_export *e, const struct gs_record *r, uint8_t *out)
{
	struct gs_export_call_view v;
	char *p = (char *)out;

	if (r->kind != GS_REC_CALL)
		return out;
	gs_export_view_call(e->dict, (const void *)r, &v);
	p = put_who(e, p, &v);
	p = put_how(p, &v);
	p = put_args(e, p, &v);
	p = put_context(e, p, &v);
	*p++ = '\n';
	return (uint8_t *)p;
}

const struct gs_export_writer gs_writer_csv = {
	.suffix = ".csv",
	.state_bytes = sizeof(struct csv),
	.start = start_export,
	.record = put_record,
};
