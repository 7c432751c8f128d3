/*
 * The JSON of a trace, event by event: it may be larger than memory. What stands before the list of events is
 * passed over without being kept; each event is parsed by itself.
 */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/vec.h"
#include "model/gpu_work/gpu_work.h"
#include "model/trace/func.h"
#include "pipeline/kineto/kineto_int.h"

#define DEPTH_MAX   64   /* of what is passed over */
#define TIME_MAX_US 9e15 /* below 2^63 ns */

/* --- to the list --- */

/* After the quote: the text, as far as it has room, up to the quote at its end. 0 or -EBADMSG. */
static int skip_string(FILE *file, char *out, size_t bytes)
{
	size_t n = 0;
	int c;

	while ((c = fgetc(file)) != EOF && c != '"') {
		if (c == '\\' && fgetc(file) == EOF)
			return -EBADMSG;
		if (n + 1 < bytes)
			out[n++] = (char)c;
	}
	out[n] = '\0';
	return c == '"' ? 0 : -EBADMSG;
}

static int skip_blanks(FILE *file)
{
	int c;

	while ((c = fgetc(file)) == ' ' || c == '\t' || c == '\n' || c == '\r')
		;
	return c;
}

/* "baseTimeNanoseconds": 1759000000000000000 */
static void take_base(struct kineto *k, FILE *file)
{
	uint64_t ns = 0;
	int c = skip_blanks(file);

	if (c == ':')
		c = skip_blanks(file);
	for (; c >= '0' && c <= '9' && ns < UINT64_MAX / 10 - 9; c = fgetc(file))
		ns = ns * 10 + (uint64_t)(c - '0');
	ungetc(c, file);
	k->base_ns = ns;
}

/* To the first event: a list of them, or an object whose member traceEvents is that list. 0 or -EBADMSG. */
static int find_list(struct kineto *k, FILE *file)
{
	char text[32];
	int c = skip_blanks(file), depth = 1;

	if (c == '[')
		return 0;
	if (c != '{')
		return -EBADMSG;
	while (depth > 0 && (c = skip_blanks(file)) != EOF) {
		if (c == '{' || c == '[')
			depth++;
		if (c == '}' || c == ']')
			depth--;
		if (depth > DEPTH_MAX)
			return -EBADMSG;
		if (c != '"')
			continue;
		if (skip_string(file, text, sizeof(text)) < 0)
			return -EBADMSG;
		if (depth == 1 && strcmp(text, "baseTimeNanoseconds") == 0)
			take_base(k, file);
		if (depth == 1 && strcmp(text, "traceEvents") == 0 && skip_blanks(file) == ':')
			return skip_blanks(file) == '[' ? 0 : -EBADMSG;
	}
	return -EBADMSG;
}

/* --- one event --- */

static const char *text_of(const json_t *event, const char *key)
{
	const char *text = json_string_value(json_object_get(event, key));

	return text ? text : "";
}

static double number_of(const json_t *event, const char *key)
{
	const json_t *value = json_object_get(event, key);

	return json_is_number(value) ? json_number_value(value) : NAN;
}

static uint64_t count_of(const json_t *event, const char *key)
{
	json_int_t value = json_integer_value(json_object_get(event, key));

	return value > 0 ? (uint64_t)value : 0;
}

/* Of times of day in us a double keeps a quarter of one; more of it is lost when it is multiplied. */
static uint64_t ns_of(double us)
{
	double whole = floor(us);

	return (uint64_t)whole * 1000 + (uint64_t)llround((us - whole) * 1000);
}

/* A number, or a text that stands for one, as some writers have it. */
static uint32_t id_of(const json_t *event, const char *key)
{
	const json_t *value = json_object_get(event, key);
	const char *text = json_string_value(value);
	uint32_t sum = 0;

	if (!text)
		return (uint32_t)json_integer_value(value);
	for (; *text; text++)
		sum = sum * 31 + (unsigned char)*text;
	return sum & 0x3fffffff;
}

static unsigned work_of(const char *cat)
{
	return strcmp(cat, "kernel") == 0       ? GS_WORK_KERNEL
	       : strcmp(cat, "gpu_memcpy") == 0 ? GS_WORK_COPY
	       : strcmp(cat, "gpu_memset") == 0 ? GS_WORK_FILL
						: 0;
}

/* GS_LAYER_NONE: it is nothing that is shown. */
static unsigned layer_of(const char *cat, const char *pid)
{
	static const struct {
		const char *cat;
		unsigned layer;
	} cats[] = {{"cpu_op", GS_LAYER_TORCH},
		    {"Operator", GS_LAYER_TORCH}, /* Kineto of 2021 */
		    {"cuda_runtime", GS_LAYER_CUDA_RUNTIME},
		    {"Runtime", GS_LAYER_CUDA_RUNTIME},
		    {"cuda_driver", GS_LAYER_CUDA_DRIVER},
		    {"python_function", GS_LAYER_PYTHON},
		    {"user_annotation", GS_LAYER_USER},
		    {"cuda", GS_LAYER_CUDA_RUNTIME}, /* of eACGM, this and the next */
		    {"other", GS_LAYER_USER}};

	for (size_t i = 0; i < GS_ARRAY_LEN(cats); i++)
		if (strcmp(cat, cats[i].cat) == 0)
			return cats[i].layer;
	/* What gpuscope writes itself. */
	for (unsigned layer = GS_LAYER_NONE + 1; layer < GS_LAYER_COUNT; layer++)
		if (strcmp(cat, gs_layer_name(layer)) == 0)
			return layer;
	if (*cat)
		return GS_LAYER_NONE;
	/* PyTorch built without Kineto writes no categories, and words in place of a process. */
	return strcmp(pid, "CPU functions") == 0 ? GS_LAYER_TORCH
	       : *pid                            ? GS_LAYER_NONE
						 : GS_LAYER_USER;
}

unsigned kineto_class_of(unsigned layer, const char *name)
{
	const struct gs_func *func = gs_func_by_name(name);

	if (layer == GS_LAYER_TORCH)
		return GS_CLASS_OPERATOR;
	if (layer == GS_LAYER_PYTHON)
		return GS_CLASS_PYTHON;
	if (layer == GS_LAYER_USER)
		return GS_CLASS_PROBE;
	return func && func->desc.layer == layer ? func->desc.op : GS_CLASS_OTHER;
}

/* "ProfilerStep#12" is one function. */
static void name_annotation(const char *name, char *out, size_t bytes)
{
	const char *number = strrchr(name, '#');

	snprintf(out, bytes, "%.*s", (int)(number ? number - name : (ptrdiff_t)strlen(name)), name);
}

/* The function that an event names; 0: no room. */
static uint32_t find_named(struct kineto *k, unsigned layer, const char *name)
{
	char annotation[256];

	if (layer == GS_LAYER_USER) {
		name_annotation(name, annotation, sizeof(annotation));
		name = annotation;
	}
	return kineto_find_function(k, layer, kineto_class_of(layer, name), name);
}

static void fill_call(struct kineto *k, const json_t *event, unsigned layer, const char *name,
		      struct kineto_event *e)
{
	e->name = find_named(k, layer, name);
	e->thread = kineto_find_thread(k, id_of(event, "pid"), id_of(event, "tid"));
	if (layer == GS_LAYER_CUDA_RUNTIME || layer == GS_LAYER_CUDA_DRIVER)
		e->correlation = (uint32_t)count_of(json_object_get(event, "args"), "correlation");
	k->stats.n_calls++;
}

static void fill_work(struct kineto *k, const json_t *event, const char *name,
		      struct kineto_event *e)
{
	const json_t *args = json_object_get(event, "args");

	e->name = kineto_find_string(k, name);
	e->device = (uint16_t)count_of(args, "device");
	e->stream = (uint32_t)count_of(args, "stream");
	e->bytes = count_of(args, "bytes");
	e->correlation = (uint32_t)count_of(args, "correlation");
	k->stats.n_gpu_work++;
}

/* {"ph": "M", "name": "process_name", "pid": 77, "args": {"name": "python"}} */
static bool take_name(struct kineto *k, const json_t *event)
{
	const char *what = text_of(event, "name");
	const char *name = text_of(json_object_get(event, "args"), "name");
	bool is_process = strcmp(what, "process_name") == 0;

	if (strcmp(text_of(event, "ph"), "M") != 0)
		return false;
	if (*name && (is_process || strcmp(what, "thread_name") == 0))
		kineto_take_name(k, id_of(event, "pid"), is_process ? 0 : id_of(event, "tid"),
				 name);
	return true;
}

/* When the profiler looked, as Kineto writes it: a span of its own, and a mark at its end. */
static void take_window(struct kineto *k, const char *cat, const char *name, uint64_t ns)
{
	if (strcmp(cat, "Trace") == 0 && (!k->window_from_ns || ns < k->window_from_ns))
		k->window_from_ns = ns;
	else if (strcmp(name, "Record Window End") == 0)
		k->window_to_ns = ns;
}

static bool is_time(double us)
{
	return us >= 0 && us < TIME_MAX_US;
}

/* An end may be without what its begin has: then it is that of the innermost call. */
static void take_end(struct kineto *k, const json_t *event, unsigned layer, const char *name,
		     double end_us)
{
	uint32_t function = 0, thread;

	if (!is_time(end_us)) {
		k->stats.n_bad++;
		return;
	}
	thread = kineto_find_thread(k, id_of(event, "pid"), id_of(event, "tid"));
	if (*name && layer)
		function = find_named(k, layer, name);
	kineto_end_call(k, thread, function, ns_of(end_us));
}

int kineto_add_event(struct kineto *k, const struct kineto_event *e)
{
	if (k->n_events == GS_KINETO_EVENTS_MAX) {
		k->stats.n_left_out++;
		return 0;
	}
	if (!gs_vec_reserve(&k->events, &k->cap_events, k->n_events + 1))
		return -ENOMEM;
	k->events[k->n_events++] = *e;
	return 1;
}

/* 0 or -ENOMEM. */
static int take_span(struct kineto *k, const json_t *event, unsigned work, unsigned layer,
		     struct kineto_event *e, bool begins)
{
	const char *name = text_of(event, "name");
	int r;

	if (k->n_events == GS_KINETO_EVENTS_MAX) {
		k->stats.n_left_out++;
		return 0;
	}
	if (work)
		fill_work(k, event, name, e);
	else
		fill_call(k, event, layer, name, e);
	if (!e->name || (!work && !e->thread)) {
		k->stats.n_left_out++;
		return 0;
	}
	r = begins ? kineto_begin_call(k, e) : kineto_add_event(k, e);
	return r < 0 ? r : 0;
}

/* 0 or -ENOMEM. */
static int take_event(struct kineto *k, const json_t *event)
{
	const char *cat = text_of(event, "cat"), *name = text_of(event, "name");
	const char *phase = text_of(event, "ph");
	double start_us = number_of(event, "ts"), dur_us = number_of(event, "dur");
	unsigned work = work_of(cat), layer = layer_of(cat, text_of(event, "pid"));
	bool begins = strcmp(phase, "B") == 0 && !work;
	struct kineto_event e = {.work = (uint8_t)work};

	if (take_name(k, event))
		return 0;
	if (is_time(start_us))
		take_window(k, cat, name, ns_of(start_us));
	/* Of what is not shown the begin was passed over, too. */
	if (strcmp(phase, "E") == 0 && !work && (layer || !*cat)) {
		take_end(k, event, *cat ? layer : 0, name, start_us);
		return 0;
	}
	if ((!begins && strcmp(phase, "X") != 0) || (!work && !layer)) {
		k->stats.n_other++;
		return 0;
	}
	if (!*name || !is_time(start_us) || (!begins && !is_time(dur_us))) {
		k->stats.n_bad++;
		return 0;
	}
	e.start_ns = ns_of(start_us);
	e.dur_ns = begins ? 0 : ns_of(dur_us);
	return take_span(k, event, work, layer, &e, begins);
}

int kineto_parse(struct kineto *k, FILE *file, struct gs_err *err)
{
	int c = skip_blanks(file), r = 0;

	ungetc(c, file);
	if (c >= '0' && c <= '9')
		return kineto_parse_log(k, file);
	if (find_list(k, file) < 0)
		return gs_err_set(
			err, -EBADMSG,
			"it is neither a recording nor a trace: there is no list of events (traceEvents)");
	while (r == 0 && (c = skip_blanks(file)) != ']') {
		json_error_t error;
		json_t *event;

		if (c == ',')
			continue;
		if (c != '{')
			return gs_err_set(err, -EBADMSG,
					  "it breaks off, or is no JSON, after %zu events",
					  k->n_events);
		ungetc(c, file);
		event = json_loadf(file, JSON_DISABLE_EOF_CHECK, &error);
		if (!event)
			return gs_err_set(err, -EBADMSG, "after %zu events: %s", k->n_events,
					  error.text);
		r = take_event(k, event);
		json_decref(event);
	}
	return r;
}
