#include "model/trace/dict.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/base/map.h"
#include "core/base/vec.h"
#include "model/trace/event.h"

/* Records of one kind by id, each a copy of its own. */
struct table {
	void **slot; /* owned, and each element */
	uint32_t n;
};

struct gs_dict {
	struct table strings; /* char * */
	struct table processes, threads, functions;
	struct table frames[2], stacks[2]; /* empty unless keeps_stacks; [1]: GS_NATIVE_ID */
	struct table comms;                /* by order of arrival */
	struct gs_map comm_idx;            /* hash of (process, handle) -> index into comms */
	struct table kernels;              /* likewise */
	struct gs_map kernel_idx;          /* hash of (process, function) -> index into kernels */
	struct gs_rec_session *session;    /* owned */
	bool keeps_stacks;
};

struct gs_dict *gs_dict_new(void)
{
	struct gs_dict *d = calloc(1, sizeof(*d));

	if (d) {
		d->comm_idx = GS_MAP_INIT(GS_DICT_MAX_ID);
		d->kernel_idx = GS_MAP_INIT(GS_DICT_MAX_ID);
	}
	return d;
}

static void table_fini(struct table *t)
{
	for (uint32_t i = 0; i < t->n; i++)
		free(t->slot[i]);
	free(t->slot);
}

void gs_dict_free(struct gs_dict **dict)
{
	struct gs_dict *d = *dict;

	if (!d)
		return;
	table_fini(&d->strings);
	table_fini(&d->processes);
	table_fini(&d->threads);
	table_fini(&d->functions);
	for (int i = 0; i < 2; i++) {
		table_fini(&d->frames[i]);
		table_fini(&d->stacks[i]);
	}
	table_fini(&d->comms);
	gs_map_fini(&d->comm_idx);
	table_fini(&d->kernels);
	gs_map_fini(&d->kernel_idx);
	free(d->session);
	free(d);
	*dict = NULL;
}

void gs_dict_keep_stacks(struct gs_dict *d)
{
	d->keeps_stacks = true;
}

/* Put owned value into its slot; takes it over, also on failure. */
static int table_set(struct table *t, uint32_t id, void *value)
{
	if (!value)
		return -ENOMEM;
	if (id == 0 || id >= GS_DICT_MAX_ID) {
		free(value);
		return -EINVAL;
	}
	if (!gs_vec_reach(&t->slot, &t->n, id)) {
		free(value);
		return -ENOMEM;
	}
	free(t->slot[id]);
	t->slot[id] = value;
	return 0;
}

static void *table_get(const struct table *t, uint32_t id)
{
	return id < t->n ? t->slot[id] : NULL;
}

static void *copy_of(const void *p, size_t bytes)
{
	void *q = malloc(bytes);

	return q ? memcpy(q, p, bytes) : NULL;
}

/* Native ids are counted apart from those that the kernel side gives. */
static int table_set_apart(struct table t[2], uint32_t id, void *value)
{
	return table_set(&t[(id & GS_NATIVE_ID) != 0], id & ~GS_NATIVE_ID, value);
}

static const void *table_get_apart(const struct table t[2], uint32_t id)
{
	return table_get(&t[(id & GS_NATIVE_ID) != 0], id & ~GS_NATIVE_ID);
}

static uint64_t handle_key(uint32_t process, uint64_t handle)
{
	uint64_t k[2] = {process, handle};

	return gs_hash_bytes(k, sizeof(k));
}

/* What a process names by a handle: by order of arrival, and by that. */
static int apply_handle(struct table *t, struct gs_map *map, uint64_t key, const void *record,
			size_t bytes)
{
	uint64_t idx;
	int r;

	if (!gs_map_get(map, key, &idx)) {
		idx = map->n_used + 1;
		r = gs_map_put(map, key, idx);
		if (r < 0)
			return r;
	}
	return table_set(t, (uint32_t)idx, copy_of(record, bytes));
}

int gs_dict_apply(struct gs_dict *d, const struct gs_record *r)
{
	switch (r->kind) {
	case GS_REC_SESSION: {
		void *s = copy_of(r, sizeof(struct gs_rec_session));

		if (!s)
			return -ENOMEM;
		free(d->session);
		d->session = s;
		return 0;
	}
	case GS_REC_STRING: {
		const struct gs_rec_string *s = (const void *)r;

		return table_set(&d->strings, s->id, strndup(s->text, s->text_bytes));
	}
	case GS_REC_PROCESS: {
		const struct gs_rec_process *p = (const void *)r;

		return table_set(&d->processes, p->id, copy_of(p, sizeof(*p)));
	}
	case GS_REC_THREAD: {
		const struct gs_rec_thread *t = (const void *)r;

		return table_set(&d->threads, t->id, copy_of(t, sizeof(*t)));
	}
	case GS_REC_FUNCTION: {
		const struct gs_rec_function *f = (const void *)r;

		return table_set(&d->functions, f->id, copy_of(f, sizeof(*f)));
	}
	case GS_REC_FRAME: {
		const struct gs_rec_frame *f = (const void *)r;

		return d->keeps_stacks ? table_set_apart(d->frames, f->id, copy_of(f, sizeof(*f)))
				       : 0;
	}
	case GS_REC_STACK: {
		const struct gs_rec_stack *s = (const void *)r;

		return d->keeps_stacks ? table_set_apart(d->stacks, s->id, copy_of(s, r->bytes))
				       : 0;
	}
	case GS_REC_COMM: {
		const struct gs_rec_comm *c = (const void *)r;

		return apply_handle(&d->comms, &d->comm_idx, handle_key(c->process, c->comm), c,
				    sizeof(*c));
	}
	case GS_REC_KERNEL: {
		const struct gs_rec_kernel *k = (const void *)r;

		return apply_handle(&d->kernels, &d->kernel_idx,
				    handle_key(k->process, k->function), k, sizeof(*k));
	}
	default:
		return 0;
	}
}

const char *gs_dict_string(const struct gs_dict *d, uint32_t id)
{
	const char *s = table_get(&d->strings, id);

	return s ? s : "";
}

const struct gs_rec_session *gs_dict_session(const struct gs_dict *d)
{
	return d->session;
}

const struct gs_rec_process *gs_dict_process(const struct gs_dict *d, uint32_t id)
{
	return table_get(&d->processes, id);
}

const struct gs_rec_thread *gs_dict_thread(const struct gs_dict *d, uint32_t id)
{
	return table_get(&d->threads, id);
}

const struct gs_rec_function *gs_dict_function(const struct gs_dict *d, uint32_t id)
{
	return table_get(&d->functions, id);
}

const struct gs_rec_frame *gs_dict_frame(const struct gs_dict *d, uint32_t id)
{
	return table_get_apart(d->frames, id);
}

const struct gs_rec_stack *gs_dict_stack(const struct gs_dict *d, uint32_t id)
{
	return table_get_apart(d->stacks, id);
}

const char *gs_dict_gpu(const struct gs_dict *d, uint32_t process, uint32_t device, char *text,
			size_t bytes)
{
	const struct gs_rec_process *p = gs_dict_process(d, process);
	const char *at = p ? gs_dict_string(d, p->gpus_str) : "", *comma;

	while (device-- && at)
		at = (comma = strchr(at, ',')) ? comma + 1 : NULL;
	snprintf(text, bytes, "%.*s", at ? (int)strcspn(at, ",") : 0, at ? at : "");
	return text;
}

const struct gs_rec_comm *gs_dict_comm(const struct gs_dict *d, uint32_t process, uint64_t comm)
{
	const struct gs_rec_comm *c;
	uint64_t idx;

	if (!gs_map_get(&d->comm_idx, handle_key(process, comm), &idx))
		return NULL;
	c = table_get(&d->comms, (uint32_t)idx);
	return c && c->process == process && c->comm == comm ? c : NULL;
}

const struct gs_rec_kernel *gs_dict_kernel(const struct gs_dict *d, uint32_t process,
					   uint64_t function)
{
	const struct gs_rec_kernel *k;
	uint64_t idx;

	if (!gs_map_get(&d->kernel_idx, handle_key(process, function), &idx))
		return NULL;
	k = table_get(&d->kernels, (uint32_t)idx);
	return k && k->process == process && k->function == function ? k : NULL;
}

uint32_t gs_dict_max_process(const struct gs_dict *d)
{
	return d->processes.n ? d->processes.n - 1 : 0;
}

uint32_t gs_dict_max_thread(const struct gs_dict *d)
{
	return d->threads.n ? d->threads.n - 1 : 0;
}

uint32_t gs_dict_max_function(const struct gs_dict *d)
{
	return d->functions.n ? d->functions.n - 1 : 0;
}

uint32_t gs_dict_max_frame(const struct gs_dict *d)
{
	return d->frames[0].n ? d->frames[0].n - 1 : 0;
}
