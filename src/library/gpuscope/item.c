/* Makes items of records: numbers become names, and everything is in memory that is valid until the next call. */
#include "library/gpuscope/library_int.h"

#include <errno.h>
#include <string.h>

#include "model/gpu_work/record.h"
#include "model/trace/func.h"
#include "model/trace/record_hang.h"
#include "model/trace/record_stack.h"

int item_maker_init(struct item_maker *m)
{
	m->dict = gs_dict_new();
	m->decoder = gs_node_decoder_new();
	return m->dict && m->decoder ? 0 : -ENOMEM;
}

void item_maker_fini(struct item_maker *m)
{
	gs_dict_free(&m->dict);
	gs_node_decoder_free(&m->decoder);
	lent_fini(&m->memory);
}

bool item_replaces_text(const struct item_maker *m, const struct gs_record *record)
{
	return record->kind == GS_REC_STRING &&
	       *gs_dict_string(m->dict, ((const struct gs_rec_string *)record)->id);
}

#define ITEM_NEW(maker, type, number) ((type *)new_item(maker, sizeof(type), number))

static void *new_item(struct item_maker *m, size_t bytes, enum gs_item_kind kind)
{
	struct gs_item *item = lent_new_sized(&m->memory, bytes);

	if (item)
		item->kind = kind;
	return item;
}

/* The thread that made a call. */
struct caller {
	const char *thread, *process;
	uint32_t pid, tid;
};

static struct caller caller_of(const struct item_maker *m, uint32_t thread)
{
	const struct gs_rec_thread *t = gs_dict_thread(m->dict, thread);
	const struct gs_rec_process *p = t ? gs_dict_process(m->dict, t->process) : NULL;

	return (struct caller){.thread = t ? gs_dict_string(m->dict, t->comm_str) : "",
			       .process = p ? gs_dict_string(m->dict, p->comm_str) : "",
			       .pid = p ? p->pid : 0,
			       .tid = t ? t->tid : 0};
}

static uint32_t pid_of(const struct item_maker *m, uint32_t process)
{
	const struct gs_rec_process *p = gs_dict_process(m->dict, process);

	return p ? p->pid : 0;
}

const char *item_layer_word(unsigned layer)
{
	return layer == GS_LAYER_NONE ? "" : gs_layer_name(layer);
}

static struct gs_value *make_value(struct item_maker *m, const struct gs_rec_value *from)
{
	struct gs_value *v = LENT_NEW(&m->memory, struct gs_value);

	if (!v)
		return NULL;
	v->name = gs_dict_string(m->dict, from->name_str);
	v->text = "";
	switch (from->value_type) {
	case GS_VALUE_I64:
		v->kind = GS_VALUE_SIGNED;
		v->i = (int64_t)from->value;
		break;
	case GS_VALUE_F64:
		v->kind = GS_VALUE_DOUBLE;
		memcpy(&v->f, &from->value, sizeof(v->f));
		break;
	case GS_VALUE_STR:
		v->kind = GS_VALUE_TEXT;
		v->text = gs_dict_string(m->dict, (uint32_t)from->value);
		break;
	default:
		v->kind = GS_VALUE_UNSIGNED;
		v->u = from->value;
	}
	return v;
}

static void take_values(struct item_maker *m, const struct gs_rec_values *r)
{
	m->n_values = r->n_values < GS_USER_VALUE_MAX ? r->n_values : GS_USER_VALUE_MAX;
	memcpy(m->values, r->values, m->n_values * sizeof(*m->values));
}

static void put_values(struct item_maker *m, struct gs_call *call)
{
	const struct gs_value **values =
		m->n_values ? lent_alloc(&m->memory, m->n_values * sizeof(*values)) : NULL;

	call->values = values;
	for (uint32_t i = 0; values && i < m->n_values; i++) {
		values[i] = make_value(m, &m->values[i]);
		call->n_values += values[i] != NULL;
	}
	m->n_values = 0;
}

static struct gs_item *make_call(struct item_maker *m, const struct gs_rec_call *r)
{
	const struct gs_rec_function *f = gs_dict_function(m->dict, r->function);
	const struct gs_rec_function *scope = gs_dict_function(m->dict, r->scope);
	struct gs_call *c = ITEM_NEW(m, struct gs_call, GS_ITEM_CALL);
	struct caller who = caller_of(m, r->thread);
	const char *error;

	if (!c)
		return NULL;
	c->start_ns = r->start_ns;
	c->dur_ns = r->dur_ns;
	c->pid = who.pid;
	c->tid = who.tid;
	c->thread = who.thread;
	c->process = who.process;
	c->cpu = r->cpu;
	c->depth = r->depth;
	c->bits = (r->call_flags & GS_CALL_UNFINISHED ? GS_CALL_BIT_UNFINISHED : 0) |
		  (r->call_flags & GS_CALL_INSTANT ? GS_CALL_BIT_INSTANT : 0) |
		  (r->failed ? GS_CALL_BIT_FAILED : 0);
	c->ret = r->ret;
	c->name = f ? gs_dict_string(m->dict, f->name_str) : "";
	c->layer = f ? item_layer_word(f->layer) : "";
	c->scope = scope ? gs_dict_string(m->dict, scope->name_str) : "";
	error = f && r->failed ? gs_error_name(f->layer, r->ret) : NULL;
	c->error = error ? error : "";
	c->bytes = r->bytes;
	c->stream = r->stream;
	memcpy(c->arg, r->arg, sizeof(c->arg));
	c->aux = r->aux;
	put_values(m, c);
	return &c->head;
}

static struct gs_item *make_process(struct item_maker *m, const struct gs_rec_process *r)
{
	struct gs_process *p = ITEM_NEW(m, struct gs_process, GS_ITEM_PROCESS);

	if (!p)
		return NULL;
	p->start_ns = r->start_ns;
	p->pid = r->pid;
	p->ns_pid = r->ns_pid;
	p->parent_pid = r->parent_pid;
	p->uid = r->uid;
	p->comm = gs_dict_string(m->dict, r->comm_str);
	p->exe = gs_dict_string(m->dict, r->exe_str);
	p->cmdline = gs_dict_string(m->dict, r->cmdline_str);
	p->container = gs_dict_string(m->dict, r->container_str);
	return &p->head;
}

static struct gs_item *make_attached(struct item_maker *m, const struct gs_rec_attach *r)
{
	struct gs_attached *a = ITEM_NEW(m, struct gs_attached, GS_ITEM_ATTACH);

	if (!a)
		return NULL;
	a->path = gs_dict_string(m->dict, r->path_str);
	a->function = gs_dict_string(m->dict, r->func_str);
	a->status = r->status;
	a->n_probes = r->n_probes;
	a->reason = gs_dict_string(m->dict, r->reason_str);
	return &a->head;
}

static struct gs_item *make_lost(struct item_maker *m, const struct gs_rec_loss *r)
{
	struct gs_lost *l = ITEM_NEW(m, struct gs_lost, GS_ITEM_LOST);

	if (!l)
		return NULL;
	l->count = r->count;
	l->cause = gs_loss_name(r->cause);
	l->text = gs_loss_text(r->cause);
	l->layer = item_layer_word(r->layer);
	l->detail = gs_dict_string(m->dict, r->detail_str);
	return &l->head;
}

static struct gs_item *make_counter(struct item_maker *m, const struct gs_rec_counter *r)
{
	struct gs_counter *c = ITEM_NEW(m, struct gs_counter, GS_ITEM_COUNTER);

	if (!c)
		return NULL;
	c->time_ns = r->time_ns;
	c->value = r->value;
	c->pid = pid_of(m, r->process);
	c->is_bytes = r->unit == GS_UNIT_BYTES;
	c->name = gs_dict_string(m->dict, r->name_str);
	return &c->head;
}

static struct gs_item *make_work(struct item_maker *m, const struct gs_rec_gpu_work *r)
{
	static const char *const sorts[GS_WORK_KINDS] = {"",      "kernel", "copy",    "fill",
							 "graph", "sync",   "overhead"};
	struct gs_work *w = ITEM_NEW(m, struct gs_work, GS_ITEM_WORK);

	if (!w)
		return NULL;
	w->start_ns = r->work.start_ns;
	w->dur_ns = r->work.end_ns > r->work.start_ns ? r->work.end_ns - r->work.start_ns : 0;
	w->pid = pid_of(m, r->process);
	w->device = r->work.device;
	w->stream = r->work.stream;
	w->sort = r->work.what < GS_WORK_KINDS ? sorts[r->work.what] : "";
	w->name = gs_dict_string(m->dict, r->name_str);
	w->bytes = r->work.bytes;
	return &w->head;
}

static struct gs_item *make_sum(struct item_maker *m, const struct gs_rec_stats *r)
{
	const struct gs_rec_function *f = gs_dict_function(m->dict, r->function);
	struct gs_sum *s = ITEM_NEW(m, struct gs_sum, GS_ITEM_SUM);
	struct caller who = caller_of(m, r->thread);

	if (!s)
		return NULL;
	s->time_ns = r->time_ns;
	s->calls = r->calls;
	s->errors = r->errors;
	s->total_ns = r->total_ns;
	s->bytes = r->bytes;
	s->pid = who.pid;
	s->tid = who.tid;
	s->thread = who.thread;
	s->process = who.process;
	s->name = f ? gs_dict_string(m->dict, f->name_str) : "";
	s->layer = f ? item_layer_word(f->layer) : "";
	return &s->head;
}

static const struct gs_hang_rank *make_hang_rank(struct item_maker *m,
						 const struct gs_rec_hang_rank *r)
{
	const struct gs_rec_function *f = gs_dict_function(m->dict, r->last_function);
	struct gs_hang_rank *rank = LENT_NEW(&m->memory, struct gs_hang_rank);

	if (!rank)
		return NULL;
	rank->rank = r->rank;
	rank->pid = r->pid;
	rank->tid = r->tid;
	rank->signal = r->signal;
	rank->calls = r->calls;
	rank->last_ns = r->last_ns;
	rank->last_count = r->last_count;
	rank->last_function = f ? gs_dict_string(m->dict, f->name_str) : "";
	rank->last_type = f ? gs_nccl_dtype_name(r->last_type) : "";
	rank->state = gs_dict_string(m->dict, r->state_str);
	rank->text = gs_dict_string(m->dict, r->text_str);
	rank->python_stack = gs_dict_string(m->dict, r->python_str);
	rank->native_stack = gs_dict_string(m->dict, r->native_str);
	return rank;
}

static struct gs_item *make_hang(struct item_maker *m, const struct gs_rec_hang *r)
{
	const struct gs_hang_rank **ranks =
		r->n_listed ? lent_alloc(&m->memory, r->n_listed * sizeof(*ranks)) : NULL;
	struct gs_hang *h = ITEM_NEW(m, struct gs_hang, GS_ITEM_HANG);

	if (!h || (r->n_listed && !ranks))
		return NULL;
	h->number = r->number;
	h->n_comm_ranks = r->n_ranks;
	h->begun_ns = r->since_ns;
	h->found_ns = r->found_ns;
	h->ended_ns = r->ended_ns;
	h->comm = r->id_hash;
	h->call = r->call;
	h->sort = gs_dict_string(m->dict, r->kind_str);
	h->text = gs_dict_string(m->dict, r->text_str);
	h->has_arrived = r->has_arrived;
	h->ranks = ranks;
	for (uint32_t i = 0; i < r->n_listed; i++) {
		ranks[i] = make_hang_rank(m, &r->ranks[i]);
		if (!ranks[i])
			return NULL;
		h->n_ranks++;
	}
	return &h->head;
}

static struct gs_item *make_end(struct item_maker *m, const struct gs_rec_end *r)
{
	struct gs_end *e = ITEM_NEW(m, struct gs_end, GS_ITEM_END);

	if (!e)
		return NULL;
	e->time_ns = r->end_ns;
	e->exit_status = r->exit_status;
	e->reason = gs_dict_string(m->dict, r->reason_str);
	return &e->head;
}

/* Of the last record of a sample. 0 or -ENOMEM; NULL: it is not whole yet. */
static int make_sample(struct item_maker *m, const struct gs_record *record,
		       const struct gs_item **ret_item)
{
	struct gs_node_snapshot *node = NULL;
	int r = gs_node_decode(m->decoder, record, &node);

	if (r == GS_NODE_WHOLE) {
		const struct gs_sample *s =
			sample_make(&m->memory, node, GS_MONITOR_HOST | GS_MONITOR_PROCESSES);

		*ret_item = s ? &s->head : NULL;
		gs_node_snapshot_free(&node);
		r = s ? 0 : -ENOMEM;
	}
	return r < 0 ? r : 0;
}

int item_make(struct item_maker *m, const struct gs_record *record, const struct gs_item **ret_item)
{
	int r = gs_dict_apply(m->dict, record);

	*ret_item = NULL;
	/* A name that is out of range counts as unknown. */
	if (r < 0 && r != -EINVAL)
		return r;
	switch (record->kind) {
	case GS_REC_VALUES:
		take_values(m, (const void *)record);
		return 0;
	case GS_REC_CALL:
		/* It is in the next GS_ITEM_SUM. */
		if (((const struct gs_rec_call *)record)->call_flags & GS_CALL_ADDED_UP)
			return 0;
		*ret_item = make_call(m, (const void *)record);
		break;
	case GS_REC_PROCESS:
		*ret_item = make_process(m, (const void *)record);
		break;
	case GS_REC_ATTACH:
		*ret_item = make_attached(m, (const void *)record);
		break;
	case GS_REC_LOSS:
		*ret_item = make_lost(m, (const void *)record);
		break;
	case GS_REC_COUNTER:
		*ret_item = make_counter(m, (const void *)record);
		break;
	case GS_REC_GPU_WORK:
		*ret_item = make_work(m, (const void *)record);
		break;
	case GS_REC_STATS:
		*ret_item = make_sum(m, (const void *)record);
		break;
	case GS_REC_HANG:
		*ret_item = make_hang(m, (const void *)record);
		break;
	case GS_REC_END:
		*ret_item = make_end(m, (const void *)record);
		break;
	default:
		return make_sample(m, record, ret_item);
	}
	return *ret_item ? 0 : -ENOMEM;
}
