/*
 * ".pftrace": the protobuf form of Perfetto (ui.perfetto.dev, trace_processor). A trace is a run
 * of TracePacket messages; ours are all of one sequence:
 *
 *   first packet     incremental state cleared, defaults, categories by number, the clocks
 *   track            one for a process, a thread, a counter, a GPU and each of its values, when it is
 *                    first used
 *   interned data    a name by number, when it is first used
 *   slice            begin with name, categories and arguments; end: of calls on the tracks of
 *                    threads, of work on those of streams
 *   perf sample      a thread at a time, with its Python callstack; frames and callstacks are
 *                    interned when they are recorded
 *
 * Times are those of the records, CLOCK_BOOTTIME, which is Perfetto's own default. The reader
 * sorts by time, so a call may be written when it ends, after the calls inside it. A call that
 * never returned is a begin without an end. What was lost is an instant on a track of its own, at
 * the time the stream gave it. The numbers of fields are those of protos/perfetto/trace in
 * Perfetto's sources; tests/golden/perfetto_subset.proto lists the ones used here.
 */
#include "output/trace_export/export_int.h"
#include "output/trace_export/perfetto_packet.h"

#include "core/base/mem.h"
#include "output/trace_export/export_line.h"
#include "model/trace/record_stack.h"
#include "core/base/map.h"

#define EVENT_NAME_UNKNOWN 1 /* and function id + 1 */
#define COUNTER_MAX        65536
/* Where figures about a GPU come from. */
#define OF_GPU  "Measured by the GPU, read by its driver."
#define OF_HOST "Upper bounds from host calls: not measured on the GPU."

/* Texts of arguments that have a number. One that hashes to the place of another takes it over
 * and, when it comes again, gets a new number: bounded, and always right. */
#define TEXT_SLOTS 1024
struct text_slot {
	uint64_t iid; /* 0: free */
	char text[sizeof(((struct gs_arg *)0)->text)];
};

struct perfetto {
	/* Announced already, by id. */
	uint8_t functions[GS_DICT_MAX_ID];
	uint8_t threads[GS_DICT_MAX_ID];
	uint8_t processes[GS_DICT_MAX_ID];
	bool loss_track, unknown_track, unknown_name, python_mapping;
	struct gs_map counters; /* (process, name) -> 1, 2, ... */
	struct gs_export_arg_names arg_names;
	struct text_slot texts[TEXT_SLOTS];
	uint32_t scope_texts[GS_DICT_MAX_ID];  /* numbers of the same kind, by function */
	uint32_t frame_texts[GS_DICT_MAX_ID];  /* and by frame */
	uint32_t kernel_texts[GS_DICT_MAX_ID]; /* and by the text that is a kernel's name */
	uint32_t last_text_iid;
};

/* Where a call was made: numbers of texts, 0 none. */
struct context {
	unsigned kernel_key, scope_key, py_key;
	uint32_t kernel, scope, py;
};

static void put_entry(struct gs_pb *pb, uint32_t table, uint64_t iid, const char *text)
{
	uint8_t *m = gs_pb_open(pb, table, GS_PB_SMALL);

	gs_pb_uint(pb, ENTRY_IID, iid);
	gs_pb_text(pb, ENTRY_TEXT, text, GS_PUT_MAX);
	gs_pb_close(pb, m, GS_PB_SMALL);
}

/* A packet that gives a number to a text. */
static void intern_text(struct gs_pb *pb, uint32_t table, uint64_t iid, const char *text)
{
	uint8_t *packet = packet_open(pb);
	uint8_t *m = gs_pb_open(pb, PACKET_INTERNED_DATA, GS_PB_LARGE);

	put_entry(pb, table, iid, text);
	gs_pb_close(pb, m, GS_PB_LARGE);
	packet_close(pb, packet);
}

static void put_clock(struct gs_pb *pb, unsigned id, uint64_t time_ns)
{
	uint8_t *m = gs_pb_open(pb, SNAPSHOT_CLOCKS, GS_PB_SMALL);

	gs_pb_uint(pb, CLOCK_ID, id);
	gs_pb_uint(pb, CLOCK_TIMESTAMP, time_ns);
	gs_pb_close(pb, m, GS_PB_SMALL);
}

/* Ties the boot clock to the time of day, and says what is traced. */
static void put_session(struct gs_export *e, struct gs_pb *pb, const struct gs_rec_session *s)
{
	uint8_t *packet = packet_open(pb), *m;

	gs_pb_uint(pb, PACKET_TIMESTAMP, s->start_ns);
	m = gs_pb_open(pb, PACKET_CLOCK_SNAPSHOT, GS_PB_LARGE);
	put_clock(pb, CLOCK_ID_BOOTTIME, s->start_ns);
	put_clock(pb, CLOCK_ID_REALTIME, s->start_ns + (uint64_t)s->wall_minus_boot_ns);
	gs_pb_close(pb, m, GS_PB_LARGE);
	packet_close(pb, packet);

	packet = packet_open(pb);
	gs_pb_uint(pb, PACKET_TIMESTAMP, s->start_ns);
	m = event_open(pb, TYPE_INSTANT, UUID_GPUSCOPE);
	gs_pb_uint(pb, EVENT_CATEGORY_IID, CATEGORY_GPUSCOPE);
	gs_pb_text(pb, EVENT_NAME, "tracing began", GS_PUT_MAX);
	annotate_text(pb, "command", gs_dict_string(e->dict, s->command_str), GS_PUT_MAX);
	annotate_text(pb, "host", gs_dict_string(e->dict, s->host_str), GS_PUT_MAX);
	annotate_text(pb, "kernel", gs_dict_string(e->dict, s->kernel_str), GS_PUT_MAX);
	annotate_text(pb, "attach_mode", gs_dict_string(e->dict, s->attach_mode_str), GS_PUT_MAX);
	gs_pb_close(pb, m, GS_PB_LARGE);
	packet_close(pb, packet);
}

static uint8_t *start_export(struct gs_export *e, uint8_t *p)
{
	const struct gs_rec_session *s = gs_dict_session(e->dict);
	struct perfetto *x = e->state;
	struct gs_pb pb = {p};
	uint8_t *packet = gs_pb_open(&pb, TRACE_PACKET, GS_PB_LARGE), *m;

	x->counters = GS_MAP_INIT(COUNTER_MAX);
	gs_pb_uint(&pb, PACKET_SEQUENCE_ID, 1);
	gs_pb_uint(&pb, PACKET_SEQUENCE_FLAGS, SEQ_CLEARED);
	m = gs_pb_open(&pb, PACKET_DEFAULTS, GS_PB_SMALL);
	gs_pb_uint(&pb, PACKET_TIMESTAMP_CLOCK, CLOCK_ID_BOOTTIME);
	gs_pb_close(&pb, m, GS_PB_SMALL);
	m = gs_pb_open(&pb, PACKET_INTERNED_DATA, GS_PB_LARGE);
	for (unsigned i = 1; i < GS_LAYER_COUNT; i++)
		put_entry(&pb, INTERNED_CATEGORIES, i, gs_layer_name(i));
	put_entry(&pb, INTERNED_CATEGORIES, CATEGORY_UNKNOWN, "unknown");
	put_entry(&pb, INTERNED_CATEGORIES, CATEGORY_ERROR, "error");
	put_entry(&pb, INTERNED_CATEGORIES, CATEGORY_GPUSCOPE, "gpuscope");
	put_entry(&pb, INTERNED_CATEGORIES, CATEGORY_STREAM, "gpu-stream");
	put_entry(&pb, INTERNED_CATEGORIES, CATEGORY_GPU, "gpu");
	gs_pb_close(&pb, m, GS_PB_LARGE);
	packet_close(&pb, packet);
	own_track(&pb, UUID_GPUSCOPE, 0, "gpuscope");
	if (s)
		put_session(e, &pb, s);
	return pb.at;
}

static void process_track(struct gs_export *e, struct gs_pb *pb, const struct gs_rec_process *r)
{
	const char *container = gs_dict_string(e->dict, r->container_str);
	uint8_t *packet = packet_open(pb);
	uint8_t *track = gs_pb_open(pb, PACKET_TRACK_DESCRIPTOR, GS_PB_LARGE), *m;

	gs_pb_uint(pb, TRACK_UUID, UUID(TRACK_OF_PROCESS, r->id));
	m = gs_pb_open(pb, TRACK_PROCESS, GS_PB_LARGE);
	gs_pb_uint(pb, PROCESS_PID, r->pid);
	/* One text: where its arguments begin and end was lost when it became one. */
	gs_pb_text(pb, PROCESS_CMDLINE, gs_dict_string(e->dict, r->cmdline_str), GS_PUT_MAX);
	gs_pb_uint(pb, PROCESS_SORT_INDEX, r->id);
	gs_pb_text(pb, PROCESS_NAME, gs_dict_string(e->dict, r->comm_str), GS_PUT_MAX);
	if (r->start_ns)
		gs_pb_uint(pb, PROCESS_START, r->start_ns);
	if (container[0])
		gs_pb_text(pb, PROCESS_LABELS, container, GS_PUT_MAX);
	gs_pb_close(pb, m, GS_PB_LARGE);
	gs_pb_close(pb, track, GS_PB_LARGE);
	packet_close(pb, packet);
}

static void thread_track(struct gs_export *e, struct gs_pb *pb, const struct gs_rec_thread *t,
			 const struct gs_rec_process *r)
{
	const char *name = gs_dict_string(e->dict, t->comm_str);
	uint8_t *packet, *track, *m;

	if (!r) { /* Perfetto has no threads outside of a process */
		own_track(pb, UUID(TRACK_OF_THREAD, t->id), 0, name);
		return;
	}
	packet = packet_open(pb);
	track = gs_pb_open(pb, PACKET_TRACK_DESCRIPTOR, GS_PB_LARGE);
	gs_pb_uint(pb, TRACK_UUID, UUID(TRACK_OF_THREAD, t->id));
	gs_pb_uint(pb, TRACK_PARENT, UUID(TRACK_OF_PROCESS, r->id));
	m = gs_pb_open(pb, TRACK_THREAD, GS_PB_LARGE);
	gs_pb_uint(pb, THREAD_PID, r->pid);
	gs_pb_uint(pb, THREAD_TID, t->tid);
	gs_pb_uint(pb, THREAD_SORT_INDEX, t->tid == r->pid ? 0 : t->tid);
	gs_pb_text(pb, THREAD_NAME, name, GS_PUT_MAX);
	gs_pb_close(pb, m, GS_PB_LARGE);
	gs_pb_close(pb, track, GS_PB_LARGE);
	packet_close(pb, packet);
}

/* The dictionary refuses ids of GS_DICT_MAX_ID and above, so announced ones are in the tables. */
static uint64_t need_process(struct gs_export *e, struct gs_pb *pb, const struct gs_rec_process *r)
{
	struct perfetto *x = e->state;

	if (!x->processes[r->id]) {
		x->processes[r->id] = 1;
		process_track(e, pb, r);
	}
	return UUID(TRACK_OF_PROCESS, r->id);
}

static uint64_t need_thread(struct gs_export *e, struct gs_pb *pb,
			    const struct gs_export_call_view *v)
{
	struct perfetto *x = e->state;

	if (!v->thread) {
		if (!x->unknown_track)
			own_track(pb, UUID_UNKNOWN_THREAD, 0, "unknown thread");
		x->unknown_track = true;
		return UUID_UNKNOWN_THREAD;
	}
	if (!x->threads[v->thread->id]) {
		x->threads[v->thread->id] = 1;
		if (v->process)
			need_process(e, pb, v->process);
		thread_track(e, pb, v->thread, v->process);
	}
	return UUID(TRACK_OF_THREAD, v->thread->id);
}

static uint64_t need_event_name(struct perfetto *x, struct gs_pb *pb,
				const struct gs_export_call_view *v)
{
	if (!v->function) {
		if (!x->unknown_name)
			intern_text(pb, INTERNED_EVENT_NAMES, EVENT_NAME_UNKNOWN, "unknown");
		x->unknown_name = true;
		return EVENT_NAME_UNKNOWN;
	}
	if (!x->functions[v->function->id]) {
		x->functions[v->function->id] = 1;
		intern_text(pb, INTERNED_EVENT_NAMES, v->function->id + 1, v->function_name);
	}
	return v->function->id + 1;
}

static unsigned need_arg_name(struct perfetto *x, struct gs_pb *pb, const char *name)
{
	unsigned known = x->arg_names.last_id, iid = gs_export_arg_name_id(&x->arg_names, name);

	if (iid > known)
		intern_text(pb, INTERNED_ANNOTATION_NAMES, iid, name);
	return iid;
}

static uint64_t need_text(struct perfetto *x, struct gs_pb *pb, const char *text)
{
	size_t bytes = strlen(text) + 1;
	struct text_slot *slot = &x->texts[gs_hash_bytes(text, bytes) % TEXT_SLOTS];

	if (slot->iid == 0 || memcmp(slot->text, text, bytes) != 0) {
		slot->iid = ++x->last_text_iid;
		memcpy(slot->text, text, bytes);
		intern_text(pb, INTERNED_ANNOTATION_STRINGS, slot->iid, text);
	}
	return slot->iid;
}

static struct context need_context(struct gs_export *e, struct gs_pb *pb,
				   const struct gs_export_call_view *v)
{
	const struct gs_rec_call *c = v->call;
	uint32_t kernel = v->kernel ? v->kernel->name_str : 0;
	uint32_t frame = gs_export_py_frame(e->dict, c), function = c->scope;
	struct perfetto *x = e->state;
	const char *key = NULL, *name = gs_export_scope(e->dict, c, &key);
	char label[GS_FLAME_LABEL_BYTES];
	struct context context = {0};

	if (kernel && kernel < GS_DICT_MAX_ID) {
		context.kernel_key = need_arg_name(x, pb, "kernel");
		if (!x->kernel_texts[kernel]) {
			x->kernel_texts[kernel] = ++x->last_text_iid;
			intern_text(pb, INTERNED_ANNOTATION_STRINGS, x->last_text_iid,
				    gs_dict_string(e->dict, kernel));
		}
		context.kernel = x->kernel_texts[kernel];
	}
	if (name) { /* known to the dictionary, so its id is below GS_DICT_MAX_ID */
		context.scope_key = need_arg_name(x, pb, key);
		if (!x->scope_texts[function]) {
			x->scope_texts[function] = ++x->last_text_iid;
			intern_text(pb, INTERNED_ANNOTATION_STRINGS, x->last_text_iid, name);
		}
		context.scope = x->scope_texts[function];
	}
	if (gs_dict_frame(e->dict, frame)) {
		context.py_key = need_arg_name(x, pb, "python");
		if (!x->frame_texts[frame]) {
			x->frame_texts[frame] = ++x->last_text_iid;
			intern_text(pb, INTERNED_ANNOTATION_STRINGS, x->last_text_iid,
				    gs_flame_frame_label(e->dict, frame, label));
		}
		context.py = x->frame_texts[frame];
	}
	return context;
}

static void annotate_context(struct gs_pb *pb, unsigned key, uint32_t text)
{
	uint8_t *m;

	if (!key || !text)
		return;
	m = gs_pb_open(pb, EVENT_ANNOTATION, GS_PB_SMALL);
	gs_pb_uint(pb, ANNOTATION_NAME_IID, key);
	gs_pb_uint(pb, ANNOTATION_STRING_IID, text);
	gs_pb_close(pb, m, GS_PB_SMALL);
}

/* What a user's probe read, by the names that the user gave. */
static void annotate_values(struct gs_export *e, struct gs_pb *pb, const struct gs_rec_values *v)
{
	for (uint32_t i = 0; i < v->n_values && i < GS_EXPORT_VALUES_MAX; i++) {
		const struct gs_rec_value *a = &v->values[i];
		uint8_t *m = gs_pb_open(pb, EVENT_ANNOTATION, GS_PB_SMALL);

		gs_pb_text(pb, ANNOTATION_NAME, gs_dict_string(e->dict, a->name_str),
			   GS_PUT_MAX_SHORT);
		switch (a->value_type) {
		case GS_VALUE_I64:
			gs_pb_int(pb, ANNOTATION_INT, (int64_t)a->value);
			break;
		case GS_VALUE_F64:
			gs_pb_fixed64(pb, ANNOTATION_DOUBLE, a->value);
			break;
		case GS_VALUE_PTR:
			gs_pb_uint(pb, ANNOTATION_POINTER, a->value);
			break;
		case GS_VALUE_STR:
			gs_pb_text(pb, ANNOTATION_STRING,
				   gs_dict_string(e->dict, (uint32_t)a->value), GS_PUT_MAX);
			break;
		default:
			gs_pb_uint(pb, ANNOTATION_UINT, a->value);
			break;
		}
		gs_pb_close(pb, m, GS_PB_SMALL);
	}
}

static void put_annotation(struct gs_pb *pb, const struct gs_arg *a, unsigned name_iid,
			   uint64_t text_iid)
{
	uint8_t *m = gs_pb_open(pb, EVENT_ANNOTATION, GS_PB_SMALL);

	if (name_iid)
		gs_pb_uint(pb, ANNOTATION_NAME_IID, name_iid);
	else
		gs_pb_text(pb, ANNOTATION_NAME, a->name, GS_PUT_MAX);
	if (a->type == GS_ARG_TEXT)
		gs_pb_uint(pb, ANNOTATION_STRING_IID, text_iid);
	else if (a->type == GS_ARG_HANDLE)
		gs_pb_uint(pb, ANNOTATION_POINTER, a->value);
	else
		gs_pb_uint(pb, ANNOTATION_UINT, a->value);
	gs_pb_close(pb, m, GS_PB_SMALL);
}

static void put_call(struct gs_export *e, struct gs_pb *pb, const struct gs_rec_call *c)
{
	struct gs_arg args[GS_EXPORT_ARG_MAX];
	unsigned names[GS_EXPORT_ARG_MAX];
	uint64_t texts[GS_EXPORT_ARG_MAX] = {0}, track, name;
	struct perfetto *x = e->state;
	struct context context;
	struct gs_export_call_view v;
	uint8_t *packet, *m;
	bool instant;
	size_t n;

	/* What the slice refers to has to come before it. */
	gs_export_view_call(e->dict, c, &v);
	n = gs_export_args(e->dict, &v, args);
	track = need_thread(e, pb, &v);
	name = need_event_name(x, pb, &v);
	for (size_t i = 0; i < n; i++) {
		names[i] = need_arg_name(x, pb, args[i].name);
		if (args[i].type == GS_ARG_TEXT)
			texts[i] = need_text(x, pb, args[i].text);
	}
	context = need_context(e, pb, &v);
	instant = gs_export_is_instant(&v);

	packet = packet_open(pb);
	gs_pb_uint(pb, PACKET_TIMESTAMP, e->begin_ns);
	m = event_open(pb, instant ? TYPE_INSTANT : TYPE_SLICE_BEGIN, track);
	gs_pb_uint(pb, EVENT_NAME_IID, name);
	gs_pb_uint(pb, EVENT_CATEGORY_IID,
		   v.layer && v.layer < GS_LAYER_COUNT ? v.layer : CATEGORY_UNKNOWN);
	if (c->failed)
		gs_pb_uint(pb, EVENT_CATEGORY_IID, CATEGORY_ERROR);
	for (size_t i = 0; i < n; i++)
		put_annotation(pb, &args[i], names[i], texts[i]);
	annotate_context(pb, context.kernel_key, context.kernel);
	annotate_context(pb, context.scope_key, context.scope);
	annotate_context(pb, context.py_key, context.py);
	if (e->values)
		annotate_values(e, pb, e->values);
	if (e->arrow)
		gs_pb_fixed64(pb, e->arrow == GS_ARROW_FROM ? EVENT_FLOW : EVENT_FLOW_END, c->flow);
	gs_pb_close(pb, m, GS_PB_LARGE);
	packet_close(pb, packet);
	if (instant || (c->call_flags & GS_CALL_UNFINISHED))
		return;

	packet = packet_open(pb);
	gs_pb_uint(pb, PACKET_TIMESTAMP, c->start_ns + c->dur_ns);
	m = event_open(pb, TYPE_SLICE_END, track);
	gs_pb_close(pb, m, GS_PB_LARGE);
	packet_close(pb, packet);
}

/* A line of Python code as a frame. Readers ask for a mapping and a place in it: all lines are of
 * one that is called python, each at its number. */
static void put_frame(struct gs_export *e, struct gs_pb *pb, const struct gs_rec_frame *f)
{
	struct perfetto *x = e->state;
	uint8_t *packet, *data, *m;
	char text[1024];

	if (f->frame_kind != GS_FRAME_PYTHON)
		return;
	gs_export_line_text(e->dict, f, text, sizeof(text));
	packet = packet_open(pb);
	data = gs_pb_open(pb, PACKET_INTERNED_DATA, GS_PB_LARGE);
	if (!x->python_mapping) {
		put_entry(pb, INTERNED_MAPPING_PATHS, 1, "python");
		m = gs_pb_open(pb, INTERNED_MAPPINGS, GS_PB_SMALL);
		gs_pb_uint(pb, ENTRY_IID, 1);
		gs_pb_uint(pb, MAPPING_PATH_IDS, 1);
		gs_pb_close(pb, m, GS_PB_SMALL);
	}
	x->python_mapping = true;
	put_entry(pb, INTERNED_FUNCTION_NAMES, f->id, text);
	m = gs_pb_open(pb, INTERNED_FRAMES, GS_PB_SMALL);
	gs_pb_uint(pb, ENTRY_IID, f->id);
	gs_pb_uint(pb, FRAME_FUNCTION_IID, f->id);
	gs_pb_uint(pb, FRAME_MAPPING_IID, 1);
	gs_pb_uint(pb, FRAME_REL_PC, f->id);
	gs_pb_close(pb, m, GS_PB_SMALL);
	gs_pb_close(pb, data, GS_PB_LARGE);
	packet_close(pb, packet);
}

static void put_stack(struct gs_pb *pb, const struct gs_rec_stack *s)
{
	uint8_t *packet, *data, *m;

	if (s->stack_kind != GS_STACK_PYTHON || s->n_frames > GS_STACK_MAX)
		return;
	packet = packet_open(pb);
	data = gs_pb_open(pb, PACKET_INTERNED_DATA, GS_PB_LARGE);
	m = gs_pb_open(pb, INTERNED_CALLSTACKS, GS_PB_LARGE);
	gs_pb_uint(pb, ENTRY_IID, s->id);
	for (uint32_t i = s->n_frames; i-- > 0;) /* the outermost first */
		gs_pb_uint(pb, CALLSTACK_FRAME_IDS, s->frames[i]);
	gs_pb_close(pb, m, GS_PB_LARGE);
	gs_pb_close(pb, data, GS_PB_LARGE);
	packet_close(pb, packet);
}

static void put_sample(struct gs_export *e, struct gs_pb *pb, const struct gs_rec_sample *s)
{
	struct gs_export_call_view v = {.thread = gs_dict_thread(e->dict, s->thread)};
	uint8_t *packet, *m;

	if (v.thread)
		v.process = gs_dict_process(e->dict, v.thread->process);
	if (!v.process) /* Perfetto has no threads outside of a process */
		return;
	need_thread(e, pb, &v);
	packet = packet_open(pb);
	gs_pb_uint(pb, PACKET_TIMESTAMP, s->time_ns);
	m = gs_pb_open(pb, PACKET_PERF_SAMPLE, GS_PB_LARGE);
	gs_pb_uint(pb, SAMPLE_CPU, s->cpu);
	gs_pb_uint(pb, SAMPLE_PID, v.process->pid);
	gs_pb_uint(pb, SAMPLE_TID, v.thread->tid);
	if (gs_dict_stack(e->dict, s->py_stack))
		gs_pb_uint(pb, SAMPLE_CALLSTACK_IID, s->py_stack);
	gs_pb_close(pb, m, GS_PB_LARGE);
	packet_close(pb, packet);
}

static void counter_track(struct gs_export *e, struct gs_pb *pb, const struct gs_rec_counter *c,
			  uint64_t uuid)
{
	const struct gs_rec_process *r = gs_dict_process(e->dict, c->process);
	uint64_t parent = r ? need_process(e, pb, r) : 0;
	uint8_t *packet = packet_open(pb);
	uint8_t *track = gs_pb_open(pb, PACKET_TRACK_DESCRIPTOR, GS_PB_LARGE), *m;

	gs_pb_uint(pb, TRACK_UUID, uuid);
	gs_pb_text(pb, TRACK_NAME, gs_dict_string(e->dict, c->name_str), GS_PUT_MAX);
	if (parent)
		gs_pb_uint(pb, TRACK_PARENT, parent);
	m = gs_pb_open(pb, TRACK_COUNTER, GS_PB_SMALL);
	if (c->unit == GS_UNIT_BYTES || c->unit == GS_UNIT_COUNT)
		gs_pb_uint(pb, COUNTER_UNIT, c->unit == GS_UNIT_BYTES ? UNIT_BYTES : UNIT_COUNT);
	gs_pb_close(pb, m, GS_PB_SMALL);
	gs_pb_close(pb, track, GS_PB_LARGE);
	packet_close(pb, packet);
}

static void put_counter(struct gs_export *e, struct gs_pb *pb, const struct gs_rec_counter *c)
{
	uint64_t key = (uint64_t)c->process << 32 | c->name_str, n;
	struct perfetto *x = e->state;
	uint8_t *packet, *m;

	if (!gs_map_get(&x->counters, key, &n)) {
		n = x->counters.n_used + 1;
		/* More than COUNTER_MAX tracks cannot be read: those values are not drawn. */
		if (gs_map_put(&x->counters, key, n) < 0)
			return;
		counter_track(e, pb, c, UUID(TRACK_OF_COUNTER, n));
	}
	packet = packet_open(pb);
	gs_pb_uint(pb, PACKET_TIMESTAMP, c->time_ns);
	m = event_open(pb, TYPE_COUNTER, UUID(TRACK_OF_COUNTER, n));
	gs_pb_int(pb, EVENT_COUNTER_VALUE, c->value);
	gs_pb_close(pb, m, GS_PB_LARGE);
	packet_close(pb, packet);
}

static void put_loss(struct gs_export *e, struct gs_pb *pb, const struct gs_rec_loss *l)
{
	struct perfetto *x = e->state;
	uint8_t *packet, *m;

	if (!x->loss_track)
		own_track(pb, UUID_LOSSES, 0, "gpuscope losses");
	x->loss_track = true;
	packet = packet_open(pb);
	gs_pb_uint(pb, PACKET_TIMESTAMP, e->now_ns);
	m = event_open(pb, TYPE_INSTANT, UUID_LOSSES);
	gs_pb_uint(pb, EVENT_CATEGORY_IID, CATEGORY_GPUSCOPE);
	gs_pb_text(pb, EVENT_NAME, gs_loss_name(l->cause), GS_PUT_MAX);
	annotate_number(pb, "count", ANNOTATION_UINT, l->count);
	annotate_text(pb, "cause", gs_loss_text(l->cause), GS_PUT_MAX);
	annotate_text(pb, "layer", gs_layer_name(l->layer), GS_PUT_MAX);
	annotate_text(pb, "detail", gs_dict_string(e->dict, l->detail_str), GS_PUT_MAX);
	gs_pb_close(pb, m, GS_PB_LARGE);
	packet_close(pb, packet);
}

static void gpu_track(struct gs_export *e, struct gs_pb *pb,
		      const struct gs_export_gpu_point *point)
{
	static const char *const units[] = {
		[GS_EXPORT_GPU_PERCENT] = "%",
		[GS_EXPORT_GPU_WATTS] = "W",
		[GS_EXPORT_GPU_MEGAHERTZ] = "MHz",
		[GS_EXPORT_GPU_CELSIUS] = "°C",
		[GS_EXPORT_GPU_BYTES_A_SECOND] = "bytes/s",
	};
	uint64_t parent =
		point->process ? need_process(e, pb, point->process) : UUID_GPU(point->group);
	uint8_t *packet, *track, *m;

	if (point->kind != GS_EXPORT_GPU_VALUE) {
		described_track(pb, UUID_GPU(point->track), parent, point->name, OF_GPU);
		return;
	}
	packet = packet_open(pb);
	track = gs_pb_open(pb, PACKET_TRACK_DESCRIPTOR, GS_PB_LARGE);
	gs_pb_uint(pb, TRACK_UUID, UUID_GPU(point->track));
	gs_pb_text(pb, TRACK_NAME, point->name, GS_PUT_MAX);
	gs_pb_uint(pb, TRACK_PARENT, parent);
	gs_pb_text(pb, TRACK_DESCRIPTION, OF_GPU, GS_PUT_MAX);
	m = gs_pb_open(pb, TRACK_COUNTER, GS_PB_SMALL);
	if (point->unit == GS_EXPORT_GPU_BYTES)
		gs_pb_uint(pb, COUNTER_UNIT, UNIT_BYTES);
	else
		gs_pb_text(pb, COUNTER_UNIT_NAME, units[point->unit], GS_PUT_MAX_SHORT);
	gs_pb_close(pb, m, GS_PB_SMALL);
	gs_pb_close(pb, track, GS_PB_LARGE);
	packet_close(pb, packet);
}

/* A slice or an instant. */
static void gpu_event(struct gs_pb *pb, const struct gs_export_gpu_point *point, unsigned type,
		      uint64_t time_ns)
{
	uint8_t *packet = packet_open(pb), *m;

	gs_pb_uint(pb, PACKET_TIMESTAMP, time_ns);
	m = event_open(pb, type, UUID_GPU(point->track));
	if (type != TYPE_SLICE_END) {
		gs_pb_text(pb, EVENT_NAME, point->text, GS_PUT_MAX_SHORT);
		gs_pb_uint(pb, EVENT_CATEGORY_IID, CATEGORY_GPU);
	}
	if (type == TYPE_INSTANT)
		gs_pb_uint(pb, EVENT_CATEGORY_IID, CATEGORY_ERROR);
	if (type != TYPE_SLICE_END && point->detail)
		annotate_text(pb, "detail", point->detail, GS_PUT_MAX_SHORT);
	gs_pb_close(pb, m, GS_PB_LARGE);
	packet_close(pb, packet);
}

/* What samples say of a GPU: a group of tracks for each, and tracks of the traced processes. */
static uint8_t *put_gpu(struct gs_export *e, const struct gs_export_gpu_point *point, uint8_t *p)
{
	struct gs_pb pb = {p};
	uint8_t *packet, *m;
	uint64_t bits;

	if (point->is_new_group)
		described_track(&pb, UUID_GPU(point->group), 0, point->gpu_name, OF_GPU);
	if (point->is_new_track)
		gpu_track(e, &pb, point);
	if (point->kind == GS_EXPORT_GPU_MOMENT) {
		gpu_event(&pb, point, TYPE_INSTANT, point->time_ns);
	} else if (point->kind == GS_EXPORT_GPU_SPAN) {
		gpu_event(&pb, point, TYPE_SLICE_BEGIN, point->time_ns);
		gpu_event(&pb, point, TYPE_SLICE_END, point->end_ns);
	} else {
		memcpy(&bits, &point->value, sizeof(bits));
		packet = packet_open(&pb);
		gs_pb_uint(&pb, PACKET_TIMESTAMP, point->time_ns);
		m = event_open(&pb, TYPE_COUNTER, UUID_GPU(point->track));
		gs_pb_fixed64(&pb, EVENT_DOUBLE_VALUE, bits);
		gs_pb_close(&pb, m, GS_PB_LARGE);
		packet_close(&pb, packet);
	}
	return pb.at;
}

/* Work of a stream that became done together, on a track of the stream. */
static uint8_t *put_span(struct gs_export *e, const struct gs_activity_span *span,
			 const char *track_name, uint8_t *p)
{
	const struct gs_rec_process *r = gs_dict_process(e->dict, span->process);
	struct gs_pb pb = {p};
	uint8_t *packet, *m;

	if (track_name)
		described_track(&pb, UUID_STREAM(span->index), r ? need_process(e, &pb, r) : 0,
				track_name, OF_HOST);
	packet = packet_open(&pb);
	gs_pb_uint(&pb, PACKET_TIMESTAMP, span->start_ns);
	m = event_open(&pb, TYPE_SLICE_BEGIN, UUID_STREAM(span->index));
	gs_pb_text(&pb, EVENT_NAME, gs_activity_work_name(span->work), GS_PUT_MAX_SHORT);
	gs_pb_uint(&pb, EVENT_CATEGORY_IID, CATEGORY_STREAM);
	annotate_number(&pb, "count", ANNOTATION_UINT, span->n);
	if (span->bytes)
		annotate_number(&pb, "bytes", ANNOTATION_UINT, span->bytes);
	if (span->threads)
		annotate_number(&pb, "threads_mean", ANNOTATION_UINT, span->threads);
	if (span->ended)
		annotate_text(&pb, "state", "completion not seen", GS_PUT_MAX_SHORT);
	gs_pb_close(&pb, m, GS_PB_LARGE);
	packet_close(&pb, packet);
	packet = packet_open(&pb);
	gs_pb_uint(&pb, PACKET_TIMESTAMP, span->end_ns);
	m = event_open(&pb, TYPE_SLICE_END, UUID_STREAM(span->index));
	gs_pb_close(&pb, m, GS_PB_LARGE);
	packet_close(&pb, packet);
	return pb.at;
}

static uint8_t *put_record(struct gs_export *e, const struct gs_record *r, uint8_t *p)
{
	struct perfetto *x = e->state;
	struct gs_pb pb = {p};

	switch (r->kind) {
	case GS_REC_CALL:
		put_call(e, &pb, (const void *)r);
		break;
	case GS_REC_FRAME:
		put_frame(e, &pb, (const void *)r);
		break;
	case GS_REC_STACK:
		put_stack(&pb, (const void *)r);
		break;
	case GS_REC_SAMPLE:
		put_sample(e, &pb, (const void *)r);
		break;
	case GS_REC_COUNTER:
		put_counter(e, &pb, (const void *)r);
		break;
	case GS_REC_LOSS:
		put_loss(e, &pb, (const void *)r);
		break;
	case GS_REC_PROCESS: /* more is known of it now: its track is described again */
		if (x->processes[((const struct gs_rec_process *)r)->id])
			process_track(e, &pb, (const void *)r);
		break;
	case GS_REC_THREAD: {
		const struct gs_rec_thread *t = (const void *)r;

		if (x->threads[t->id])
			thread_track(e, &pb, t, gs_dict_process(e->dict, t->process));
		break;
	}
	default:
		break;
	}
	return pb.at;
}

static uint8_t *finish_export(struct gs_export *e, uint8_t *p)
{
	struct gs_pb pb = {p};
	uint8_t *packet = packet_open(&pb), *m;

	gs_pb_uint(&pb, PACKET_TIMESTAMP, e->now_ns);
	m = event_open(&pb, TYPE_INSTANT, UUID_GPUSCOPE);
	gs_pb_uint(&pb, EVENT_CATEGORY_IID, CATEGORY_GPUSCOPE);
	gs_pb_text(&pb, EVENT_NAME, e->ended ? "tracing ended" : "trace cut off", GS_PUT_MAX);
	if (e->ended) {
		annotate_text(&pb, "reason", gs_dict_string(e->dict, e->end.reason_str),
			      GS_PUT_MAX_SHORT);
		if (e->end.exit_status >= 0)
			annotate_number(&pb, "exit_status", ANNOTATION_INT,
					(uint64_t)e->end.exit_status);
	}
	if (e->left_out)
		annotate_number(&pb, "calls_left_out_for_file_size", ANNOTATION_UINT, e->left_out);
	gs_pb_close(&pb, m, GS_PB_LARGE);
	packet_close(&pb, packet);
	return pb.at;
}

static void free_state(void *state)
{
	struct perfetto *x = state;

	gs_map_fini(&x->counters);
}

const struct gs_export_writer gs_writer_perfetto = {
	.suffix = ".pftrace",
	.is_timeline = true,
	.state_bytes = sizeof(struct perfetto),
	.start = start_export,
	.record = put_record,
	.span = put_span,
	.gpu = put_gpu,
	.finish = finish_export,
	.fini = free_state,
};
