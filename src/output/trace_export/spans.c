/*
 * Calls come when they return, those inside of others first, and steps later still. So calls wait in
 * a ring: when the call around them comes, it becomes their parent; when their step comes, they go
 * out with it as the parent of those that have none, or are dropped if the step is not sampled. What
 * no step takes before the ring is full goes out below its process.
 *
 *   Span { bytes trace_id = 1; bytes span_id = 2; bytes parent_span_id = 4; string name = 5;
 *          SpanKind kind = 6; fixed64 start_time_unix_nano = 7; fixed64 end_time_unix_nano = 8;
 *          repeated KeyValue attributes = 9; Status status = 15; }
 *   Status { StatusCode code = 3; }
 */
#include "output/trace_export/spans.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "core/base/mem.h"
#include "core/text/otlp.h"
#include "model/trace/class.h"
#include "model/trace/dict.h"
#include "output/trace_export/export_int.h"

#define RING           32768u       /* calls that wait; a power of two */
#define LOOK_BACK      4096u        /* of these, looked at for what is inside of a call */
#define MESSAGE_MAX    (512u << 10) /* bytes; collectors take 4 MiB */
#define SPANS_MAX      512u         /* of a message */
#define NAME_MAX_BYTES 512u
#define PROCESSES_MAX  4096u

#define PHASES        16 /* the stride of the last is 32768 */
#define WINDOW_NS     1000000000ull
#define KIND_INTERNAL 1
#define STATUS_ERROR  2

struct call {                /* that waits */
	uint64_t id, parent; /* of its span; parent 0: none yet */
	uint64_t start_ns, end_ns;
	uint64_t bytes;
	uint32_t thread, function, process; /* ids */
	int32_t ret, rank, n_ranks;         /* rank: -1 not known */
	bool failed, gone;
	bool has_child; /* that went out: it goes, too */
};

struct process {
	uint64_t id; /* of its span; 0: it has none yet */
	uint64_t first_ns, last_ns;
};

/* Every stride-th of some, so that all together are no more than there was room for at first: a
 * quarter of it for the first ones, each of them, and then each time one of equal parts is used the
 * stride doubles. */
struct sampler {
	uint64_t left, phase; /* room; of this stride */
	uint64_t each;        /* room of a stride */
	uint64_t stride, n;   /* n: that came */
};

struct gs_export_spans {
	struct gs_export_spans_options o;
	struct gs_export_parent parent;
	bool has_parent;
	uint8_t trace_id[16];
	uint64_t root, next_id;
	struct gs_sink sink;
	struct gs_dict *dict;
	struct call *ring;       /* RING of them; number n is at n % RING */
	uint64_t first, last;    /* numbers of the oldest, and of the next */
	struct process *process; /* PROCESSES_MAX, by id */
	uint64_t first_ns, last_ns;
	struct sampler steps, calls;
	struct gs_buf out;
	struct gs_otlp_message message;
	uint32_t n_spans; /* in out */
	int error;
	struct gs_export_spans_stats stats;
	bool ended;
};

/* --- ids --- */

static int hex_value(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* bytes of lower case hexadecimal digits, not all zero. */
static bool parse_id(const char *text, uint8_t *ret, size_t bytes)
{
	bool any = false;

	for (size_t i = 0; i < bytes; i++) {
		int high = hex_value(text[2 * i]), low = high < 0 ? -1 : hex_value(text[2 * i + 1]);

		if (low < 0)
			return false;
		ret[i] = (uint8_t)(high << 4 | low);
		any |= ret[i] != 0;
	}
	return any;
}

int gs_export_parent_parse(const char *text, struct gs_export_parent *ret)
{
	uint8_t version, flags = 0;
	size_t n = strlen(text);

	/* Later versions may have more after it. */
	if (n < 55 || text[2] != '-' || text[35] != '-' || text[52] != '-' ||
	    !(parse_id(text, &version, 1) || strncmp(text, "00", 2) == 0) ||
	    strncmp(text, "ff", 2) == 0 || (strncmp(text, "00", 2) == 0 && n != 55) ||
	    (n > 55 && text[55] != '-') || !parse_id(text + 3, ret->trace_id, 16) ||
	    !parse_id(text + 36, ret->span_id, 8) ||
	    !(parse_id(text + 53, &flags, 1) || strncmp(text + 53, "00", 2) == 0))
		return -EINVAL;
	ret->is_sampled = flags & 1;
	return 0;
}

static uint64_t new_id(struct gs_export_spans *s)
{
	/* A step of an odd number goes through all of them; 0 is none. */
	do
		s->next_id += 0x9e3779b97f4a7c15ull;
	while (!s->next_id);
	return s->next_id;
}

/* --- sampling --- */

static struct sampler sampler_of(uint64_t room)
{
	uint64_t first = (room + 3) / 4, each = (room - first) / (PHASES - 1);

	return (struct sampler){.left = room, .phase = first, .each = each ? each : 1, .stride = 1};
}

static bool sample_next(struct sampler *s)
{
	return s->n++ % s->stride == 0 && s->left;
}

/* False: there is no room. */
static bool use_room(struct sampler *s)
{
	if (!s->left)
		return false;
	s->left--;
	if (--s->phase == 0) {
		s->phase = s->each;
		s->stride *= 2;
	}
	return true;
}

/* --- messages --- */

static void flush_message(struct gs_export_spans *s)
{
	if (s->n_spans && !s->error) {
		gs_otlp_end(&s->out, &s->message);
		s->error = s->o.put(s->o.ctx, s->out.data, s->out.bytes, s->n_spans);
		s->stats.n_spans += s->error ? 0 : s->n_spans;
	}
	gs_buf_reset(&s->out);
	s->n_spans = 0;
}

static void begin_message(struct gs_export_spans *s)
{
	const struct gs_rec_session *session = gs_dict_session(s->dict);
	const struct gs_otlp_label host = {
		"host.name", session ? gs_dict_string(s->dict, session->host_str) : ""};

	if (!s->error && !s->n_spans)
		s->error = gs_otlp_begin(&s->out, &host, 1, &s->message);
}

struct span {
	uint64_t id, start_ns, end_ns;
	const uint8_t *parent; /* 8 bytes; NULL: none */
	const char *name;
	bool failed;
};

/* Of the boot clock. */
static uint64_t unix_ns(const struct gs_export_spans *s, uint64_t time_ns)
{
	const struct gs_rec_session *session = gs_dict_session(s->dict);

	return time_ns + (uint64_t)(session ? session->wall_minus_boot_ns : 0);
}

/* A span up to its attributes, for which there is room of 1 KiB; *ret_at: for end_span(). */
static bool begin_span(struct gs_export_spans *s, const struct span *x, struct gs_pb *pb,
		       size_t *ret_at)
{
	if (s->n_spans >= SPANS_MAX || s->out.bytes > MESSAGE_MAX / 2)
		flush_message(s);
	begin_message(s);
	if (!s->error)
		s->error = gs_otlp_open(&s->out, GS_OTLP_ITEM, ret_at);
	if (!s->error)
		s->error = gs_buf_reserve(&s->out, 2048 + 3 * NAME_MAX_BYTES);
	if (s->error)
		return false;
	pb->at = s->out.data + s->out.bytes;
	gs_pb_bytes(pb, 1, s->trace_id, sizeof(s->trace_id));
	gs_pb_bytes(pb, 2, &x->id, sizeof(x->id));
	if (x->parent)
		gs_pb_bytes(pb, 4, x->parent, 8);
	gs_pb_text(pb, 5, x->name, NAME_MAX_BYTES);
	gs_pb_uint(pb, 6, KIND_INTERNAL);
	gs_pb_fixed64(pb, 7, unix_ns(s, x->start_ns));
	gs_pb_fixed64(pb, 8, unix_ns(s, x->end_ns));
	return true;
}

static void end_span(struct gs_export_spans *s, const struct span *x, struct gs_pb *pb, size_t at)
{
	if (x->failed) {
		uint8_t *status = gs_pb_open(pb, 15, GS_PB_SMALL);

		gs_pb_uint(pb, 3, STATUS_ERROR);
		gs_pb_close(pb, status, GS_PB_SMALL);
	}
	s->out.bytes = (size_t)(pb->at - s->out.data);
	gs_otlp_close(&s->out, at);
	s->n_spans++;
}

/* --- processes --- */

static void see_time(struct gs_export_spans *s, uint32_t process, uint64_t from_ns, uint64_t to_ns)
{
	struct process *p = process < PROCESSES_MAX ? &s->process[process] : NULL;

	if (!s->first_ns || from_ns < s->first_ns)
		s->first_ns = from_ns;
	if (to_ns > s->last_ns)
		s->last_ns = to_ns;
	if (!p)
		return;
	if (!p->first_ns || from_ns < p->first_ns)
		p->first_ns = from_ns;
	if (to_ns > p->last_ns)
		p->last_ns = to_ns;
}

/* The span of a process, or of the command where there are too many of them. */
static const uint8_t *process_span(struct gs_export_spans *s, uint32_t process)
{
	struct process *p = process && process < PROCESSES_MAX ? &s->process[process] : NULL;

	if (!p)
		return (const uint8_t *)&s->root;
	if (!p->id)
		p->id = new_id(s);
	return (const uint8_t *)&p->id;
}

/* --- calls --- */

static void put_call(struct gs_export_spans *s, struct call *c)
{
	const struct gs_rec_function *f = gs_dict_function(s->dict, c->function);
	const struct gs_rec_thread *t = gs_dict_thread(s->dict, c->thread);
	const char *name = f ? gs_dict_string(s->dict, f->name_str) : "";
	const struct span x = {.id = c->id,
			       .start_ns = c->start_ns,
			       .end_ns = c->end_ns,
			       .parent = c->parent ? (const uint8_t *)&c->parent
						   : process_span(s, c->process),
			       .name = name[0] ? name : "unknown",
			       .failed = c->failed};
	struct gs_pb pb;
	size_t at;

	if (!begin_span(s, &x, &pb, &at))
		return;
	if (f)
		gs_otlp_attribute(&pb, 9, "gpuscope.layer", gs_layer_name(f->layer));
	if (t)
		gs_otlp_attribute_int(&pb, 9, "thread.id", t->tid);
	if (c->bytes)
		gs_otlp_attribute_int(&pb, 9, "gpuscope.bytes", (int64_t)c->bytes);
	if (c->rank >= 0)
		gs_otlp_attribute_int(&pb, 9, "gpuscope.rank", c->rank);
	if (c->n_ranks >= 0)
		gs_otlp_attribute_int(&pb, 9, "gpuscope.ranks", c->n_ranks);
	if (c->failed)
		gs_otlp_attribute_int(&pb, 9, "gpuscope.result", c->ret);
	end_span(s, &x, &pb, at);
}

/* Whose parent goes out must go out as well; it came later. n: number of the child. */
static void keep_parent(struct gs_export_spans *s, uint64_t n, uint64_t id)
{
	for (uint64_t k = n + 1; k < s->last && k < n + LOOK_BACK; k++)
		if (s->ring[k % RING].id == id) {
			s->ring[k % RING].has_child = true;
			return;
		}
}

/* Number n goes out of the ring, into a message or nowhere. */
static void release_call(struct gs_export_spans *s, uint64_t n, bool is_kept)
{
	struct call *c = &s->ring[n % RING];

	if ((is_kept && use_room(&s->calls)) || c->has_child) {
		keep_parent(s, n, c->parent);
		put_call(s, c);
	} else {
		s->stats.n_left_out++;
	}
	c->gone = true;
}

static void drop_gone(struct gs_export_spans *s)
{
	while (s->first < s->last && s->ring[s->first % RING].gone)
		s->first++;
}

/* Of what is in no step, the calls of each stride-th second. */
static bool is_of_window(const struct gs_export_spans *s, const struct call *c)
{
	return c->start_ns / WINDOW_NS % s->calls.stride == 0;
}

/* This one is the parent of those of its thread that it was around and that have none. */
static void adopt_calls(struct gs_export_spans *s, const struct call *outer)
{
	uint64_t until = s->last - s->first > LOOK_BACK ? s->last - LOOK_BACK : s->first;

	for (uint64_t n = s->last; n > until; n--) {
		struct call *c = &s->ring[(n - 1) % RING];

		if (c->gone || c->thread != outer->thread)
			continue;
		if (c->end_ns <= outer->start_ns) /* and so have those before it */
			return;
		if (!c->parent && c->start_ns >= outer->start_ns && c->end_ns <= outer->end_ns)
			c->parent = outer->id;
	}
}

static bool is_shown(unsigned layer, unsigned func_class)
{
	return (layer == GS_LAYER_TORCH && func_class == GS_CLASS_OPERATOR) ||
	       func_class == GS_CLASS_COLLECTIVE || func_class == GS_CLASS_P2P;
}

static void take_call(struct gs_export_spans *s, const struct gs_rec_call *r)
{
	struct gs_export_call_view v;
	const struct gs_rec_comm *comm = NULL;
	struct call c;

	gs_export_view_call(s->dict, r, &v);
	see_time(s, v.process ? v.process->id : 0, r->start_ns, r->start_ns + r->dur_ns);
	if (!is_shown(v.layer, v.func_class) ||
	    (r->call_flags & (GS_CALL_INSTANT | GS_CALL_UNTIMED | GS_CALL_UNFINISHED)))
		return;
	if (v.layer == GS_LAYER_NCCL && v.process)
		comm = gs_dict_comm(s->dict, v.process->id, r->arg[1]);
	c = (struct call){.id = new_id(s),
			  .start_ns = r->start_ns,
			  .end_ns = r->start_ns + r->dur_ns,
			  .bytes = r->bytes,
			  .thread = r->thread,
			  .function = r->function,
			  .process = v.process ? v.process->id : 0,
			  .ret = r->ret,
			  .rank = comm ? comm->rank : -1,
			  .n_ranks = comm ? comm->n_ranks : -1,
			  .failed = r->failed};
	adopt_calls(s, &c);
	if (s->last - s->first == RING)
		release_call(s, s->first, is_of_window(s, &s->ring[s->first % RING]));
	drop_gone(s);
	s->ring[s->last++ % RING] = c;
}

static int push_batch(void *ctx, const struct gs_batch *batch)
{
	struct gs_export_spans *s = ctx;
	const struct gs_record *r;
	size_t offset = 0;

	while ((r = gs_record_next(batch, &offset)) != NULL) {
		if (r->kind == GS_REC_CALL)
			take_call(s, (const void *)r);
		else if (gs_dict_apply(s->dict, r) == -ENOMEM)
			return -ENOMEM;
	}
	return s->error;
}

static int flush_sink(void *ctx)
{
	struct gs_export_spans *s = ctx;

	flush_message(s);
	return s->error;
}

/* --- steps --- */

static uint64_t put_step(struct gs_export_spans *s, const struct gs_export_step *step, uint64_t n)
{
	const struct span x = {.id = new_id(s),
			       .start_ns = step->start_ns,
			       .end_ns = step->start_ns + step->dur_ns,
			       .parent = process_span(s, step->process),
			       .name = "step"};
	struct gs_pb pb;
	size_t at;

	if (!begin_span(s, &x, &pb, &at))
		return 0;
	gs_otlp_attribute_int(&pb, 9, "gpuscope.step", (int64_t)n);
	gs_otlp_attribute_int(&pb, 9, "thread.id", step->tid);
	if (!step->is_regular)
		gs_otlp_attribute(&pb, 9, "gpuscope.step.irregular", "true");
	gs_otlp_attribute_int(&pb, 9, "gpuscope.sampling.steps", (int64_t)s->steps.stride);
	gs_otlp_attribute_int(&pb, 9, "gpuscope.sampling.calls", (int64_t)s->calls.stride);
	end_span(s, &x, &pb, at);
	return x.id;
}

void gs_export_spans_step(struct gs_export_spans *s, const struct gs_export_step *step)
{
	uint64_t end_ns = step->start_ns + step->dur_ns, id = 0, number = s->steps.n;
	bool is_detailed;

	see_time(s, step->process, step->start_ns, end_ns);
	if (sample_next(&s->steps) && use_room(&s->steps))
		id = put_step(s, step, number);
	else
		s->stats.n_left_out++;
	is_detailed = sample_next(&s->calls) && id;
	for (uint64_t n = s->first; n < s->last; n++) {
		struct call *c = &s->ring[n % RING];

		if (c->gone || c->process != step->process || c->start_ns >= end_ns)
			continue;
		/* Of another thread it may go on after the step: then it is of the next. */
		if (c->end_ns > end_ns)
			continue;
		if (!c->parent && c->start_ns >= step->start_ns)
			c->parent = id;
		release_call(s, n,
			     c->start_ns >= step->start_ns ? is_detailed : is_of_window(s, c));
	}
	drop_gone(s);
}

/* --- life --- */

static void put_process(struct gs_export_spans *s, uint32_t id)
{
	const struct gs_rec_process *r = gs_dict_process(s->dict, id);
	const struct process *p = &s->process[id];
	const char *name = r ? gs_dict_string(s->dict, r->comm_str) : "";
	const struct span x = {.id = p->id,
			       .start_ns = r && r->start_ns && r->start_ns < p->first_ns
						   ? r->start_ns
						   : p->first_ns,
			       .end_ns = p->last_ns,
			       .parent = (const uint8_t *)&s->root,
			       .name = name[0] ? name : "process"};
	struct gs_pb pb;
	size_t at;

	if (!begin_span(s, &x, &pb, &at))
		return;
	if (x.start_ns < s->first_ns)
		s->first_ns = x.start_ns;
	gs_otlp_attribute(&pb, 9, "process.executable.name", x.name);
	if (r)
		gs_otlp_attribute_int(&pb, 9, "process.pid", r->pid);
	end_span(s, &x, &pb, at);
}

/* The command, or how its processes were chosen; its arguments may hold secrets. */
static void put_root(struct gs_export_spans *s)
{
	const struct gs_rec_session *session = gs_dict_session(s->dict);
	const char *command = session ? gs_dict_string(s->dict, session->command_str) : "";
	size_t n = strcspn(command, " "), start = n;
	char name[128];
	const struct span x = {.id = s->root,
			       .start_ns = s->first_ns,
			       .end_ns = s->last_ns,
			       .parent = s->has_parent ? s->parent.span_id : NULL,
			       .name = name};
	struct gs_pb pb;
	size_t at;

	while (start && command[start - 1] != '/')
		start--;
	snprintf(name, sizeof(name), "%.*s", n > start ? (int)(n - start) : 8,
		 n > start ? command + start : "gpuscope");
	if (begin_span(s, &x, &pb, &at)) {
		gs_otlp_attribute_int(&pb, 9, "gpuscope.spans.left_out",
				      (int64_t)s->stats.n_left_out);
		end_span(s, &x, &pb, at);
	}
}

int gs_export_spans_end(struct gs_export_spans *s)
{
	if (s->ended)
		return s->error;
	s->ended = true;
	for (uint64_t n = s->first; n < s->last; n++)
		if (!s->ring[n % RING].gone)
			release_call(s, n, is_of_window(s, &s->ring[n % RING]));
	for (uint32_t i = 0; i < PROCESSES_MAX; i++)
		if (s->process[i].id)
			put_process(s, i);
	if (s->first_ns)
		put_root(s);
	flush_message(s);
	return s->error;
}

int gs_export_spans_new(const struct gs_export_spans_options *o, struct gs_export_spans **ret)
{
	struct gs_export_spans *s = calloc(1, sizeof(*s));
	uint64_t room = o->max_spans ? o->max_spans : GS_EXPORT_SPANS_MAX;

	if (!s)
		return -ENOMEM;
	s->o = *o;
	s->dict = gs_dict_new();
	s->ring = calloc(RING, sizeof(*s->ring));
	s->process = calloc(PROCESSES_MAX, sizeof(*s->process));
	s->out = GS_BUF_INIT(MESSAGE_MAX);
	if (!s->dict || !s->ring || !s->process ||
	    getrandom(s->trace_id, sizeof(s->trace_id), 0) != (ssize_t)sizeof(s->trace_id) ||
	    getrandom(&s->next_id, sizeof(s->next_id), 0) != (ssize_t)sizeof(s->next_id)) {
		gs_export_spans_free(&s);
		return -ENOMEM;
	}
	if (o->parent) {
		s->has_parent = true;
		s->parent = *o->parent;
		memcpy(s->trace_id, o->parent->trace_id, sizeof(s->trace_id));
	}
	s->root = new_id(s);
	s->steps = s->calls = sampler_of(room);
	s->sink = (struct gs_sink){.push = push_batch, .flush = flush_sink, .ctx = s};
	*ret = s;
	return 0;
}

void gs_export_spans_free(struct gs_export_spans **spans)
{
	struct gs_export_spans *s = *spans;

	if (!s)
		return;
	gs_dict_free(&s->dict);
	free(s->ring);
	free(s->process);
	gs_buf_fini(&s->out);
	gs_free_p(spans);
}

const struct gs_sink *gs_export_spans_sink(struct gs_export_spans *spans)
{
	return &spans->sink;
}

void gs_export_spans_stats(const struct gs_export_spans *spans,
			   struct gs_export_spans_stats *ret_stats)
{
	*ret_stats = spans->stats;
}
