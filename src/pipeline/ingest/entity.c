/*
 * Numbers for names: texts, functions, processes, threads. Each is announced in the batch where its
 * number is given out, so that the announcement comes before every use.
 *
 * A pid or tid is a name that the kernel gives to others later. A process is another one when its
 * pid has another start time; that is asked after its exit was reported, and when a fork of the pid is
 * reported. A thread is another one after its exit, or when its process is another one. Events of an
 * ending process may come after its exit: as long as no other process has the pid they are still its.
 *
 * A text keeps its number for ever, since files refer to it, so what a user makes up (names of
 * processes and threads, command lines) has a bound by user; beyond it his processes have no names,
 * which is counted.
 *
 * Tables that are full give up an ended entry, or, when the search meets none, a living one, which
 * then gets a new number at its next event.
 */
#include "pipeline/ingest/ingest_int.h"

#include <errno.h>
#include <string.h>

#include "core/base/clock.h"
#include "model/trace/dict.h"
#include "model/trace/exec.h"

#define STRING_MAX       (1u << 17)
#define STRING_MAX_BYTES 4096
#define STRINGS_BYTES    (16u << 20) /* of all of them */
#define USER_BYTES                                                                                 \
	(2u << 20) /* of the names of one user's processes and threads; root: half of all */
#define USER_STRINGS 32768u
#define PROCESS_MAX  65536
#define THREAD_MAX   65536
#define SEARCH_MAX   1024 /* slots looked at for an ended entry */

/* How far the start of a process, known in ticks of 10 ms, may lie before the fork that made it. */
#define START_SLACK_NS 20000000

int gs_ingest_entities_init(struct gs_ingest *f)
{
	f->strings = GS_MAP_INIT(STRING_MAX);
	f->text_of_uid = GS_MAP_INIT(PROCESS_MAX);
	f->texts_of_uid = GS_MAP_INIT(PROCESS_MAX);
	f->process_of_pid = GS_MAP_INIT(PROCESS_MAX);
	f->begun = GS_MAP_INIT(PROCESS_MAX);
	f->thread_of_key = GS_MAP_INIT(THREAD_MAX);
	f->processes = calloc(PROCESS_MAX, sizeof(*f->processes));
	f->threads = calloc(THREAD_MAX, sizeof(*f->threads));
	return f->processes && f->threads ? 0 : -ENOMEM;
}

void gs_ingest_entities_fini(struct gs_ingest *f)
{
	gs_map_fini(&f->strings);
	gs_map_fini(&f->text_of_uid);
	gs_map_fini(&f->texts_of_uid);
	gs_map_fini(&f->process_of_pid);
	gs_map_fini(&f->begun);
	gs_map_fini(&f->thread_of_key);
	free(f->processes);
	free(f->threads);
}

uint32_t gs_ingest_intern(struct gs_ingest *f, const char *text)
{
	size_t bytes = strnlen(text, STRING_MAX_BYTES);
	uint64_t key = gs_hash_bytes(text, bytes), id = 0;

	if (!bytes || gs_map_get(&f->strings, key, &id))
		return (uint32_t)id;
	id = f->strings.n_used + 1;
	if (f->string_bytes + bytes > STRINGS_BYTES || gs_map_put(&f->strings, key, id) < 0) {
		f->pending_loss[GS_LOSS_REFUSED]++;
		return 0;
	}
	f->string_bytes += bytes;
	gs_record_put_string(&f->batch, (uint32_t)id, text, bytes);
	return (uint32_t)id;
}

uint32_t gs_ingest_intern_of(struct gs_ingest *f, uint32_t uid, const char *text)
{
	size_t bytes = strnlen(text, STRING_MAX_BYTES);
	uint64_t id = 0, used = 0, n = 0, times = uid ? 1 : STRINGS_BYTES / 2 / USER_BYTES;

	if (!bytes || gs_map_get(&f->strings, gs_hash_bytes(text, bytes), &id))
		return (uint32_t)id;
	gs_map_get(&f->text_of_uid, uid, &used);
	gs_map_get(&f->texts_of_uid, uid, &n);
	if (used + bytes > times * USER_BYTES || n >= times * USER_STRINGS ||
	    gs_map_put(&f->text_of_uid, uid, used + bytes) < 0 ||
	    gs_map_put(&f->texts_of_uid, uid, n + 1) < 0) {
		f->pending_loss[GS_LOSS_REFUSED]++;
		return 0;
	}
	return gs_ingest_intern(f, text);
}

const struct gs_func *gs_ingest_function(struct gs_ingest *f, unsigned id)
{
	const struct gs_func *func;
	struct gs_rec_function *r;
	uint32_t name_str;

	if (id >= GS_FUNC_MAX)
		return gs_ingest_pyfunc(f, id);
	func = gs_func_set_get(f->funcs, id);
	if (!func || f->function_recorded[id])
		return func;
	name_str = gs_ingest_intern(f, func->name);
	r = gs_ingest_put(f, GS_REC_FUNCTION, sizeof(*r), 0);
	r->id = func->id;
	r->layer = func->desc.layer;
	r->func_class = func->desc.op;
	r->name_str = name_str;
	f->function_recorded[id] = true;
	return func;
}

/* --- threads --- */

static uint64_t thread_key(uint32_t pid, uint32_t tid)
{
	return (uint64_t)pid << 32 | tid;
}

static struct gs_ingest_thread *thread_get(const struct gs_ingest *f, uint32_t pid, uint32_t tid)
{
	uint64_t idx;

	return gs_map_get(&f->thread_of_key, thread_key(pid, tid), &idx) ? &f->threads[idx] : NULL;
}

static void unsee_thread(struct gs_ingest *f, uint32_t pid, uint32_t tid)
{
	struct gs_ingest_seen *s = &f->seen[tid % GS_INGEST_CACHE];

	if (s->pid == pid && s->tid == tid)
		*s = (struct gs_ingest_seen){0};
}

static void thread_forget(struct gs_ingest *f, struct gs_ingest_thread *t)
{
	unsee_thread(f, t->pid, t->tid);
	gs_map_del(&f->thread_of_key, thread_key(t->pid, t->tid));
	*t = (struct gs_ingest_thread){0};
}

/* A free slot. */
static struct gs_ingest_thread *thread_slot(struct gs_ingest *f)
{
	uint32_t first = f->thread_hand, i = 0;
	struct gs_ingest_thread *t;

	if (f->n_threads < THREAD_MAX)
		return &f->threads[f->n_threads++];
	do {
		t = &f->threads[(first + i) % THREAD_MAX];
	} while (t->pid && !t->ended && ++i < SEARCH_MAX);
	if (i == SEARCH_MAX) {
		i = 0;
		t = &f->threads[first % THREAD_MAX];
	}
	f->thread_hand = first + i + 1;
	if (t->pid)
		thread_forget(f, t);
	return t;
}

static void put_thread(struct gs_ingest *f, struct gs_ingest_thread *t, const char *comm)
{
	uint32_t comm_str = gs_ingest_intern_of(f, t->uid, comm);
	struct gs_rec_thread *r = gs_ingest_put(f, GS_REC_THREAD, sizeof(*r), 0);

	r->id = t->id;
	r->process = t->process;
	r->tid = t->tid;
	r->comm_str = comm_str;
	t->nameless = !comm[0];
}

static struct gs_ingest_thread *thread_make(struct gs_ingest *f, uint32_t pid, uint32_t tid,
					    const struct gs_ingest_process *p, const char *comm)
{
	struct gs_ingest_thread *t;

	if (f->last_thread_id + 1 >= GS_DICT_MAX_ID)
		return NULL;
	t = thread_slot(f);
	if (gs_map_put(&f->thread_of_key, thread_key(pid, tid), (uint64_t)(t - f->threads)) < 0)
		return NULL; /* the slot stays free, to be found by the next search */
	*t = (struct gs_ingest_thread){
		.pid = pid,
		.tid = tid,
		.id = ++f->last_thread_id,
		.process = p->id,
		.uid = p->uid,
		.checked = true,
	};
	put_thread(f, t, comm);
	return t;
}

/* Let each thread of a process be looked at again (or, when it is to be forgotten, not at all). */
static void threads_of_process(struct gs_ingest *f, uint32_t process, bool forget)
{
	for (uint32_t i = 0; i < f->n_threads; i++) {
		struct gs_ingest_thread *t = &f->threads[i];

		if (!t->pid || t->process != process)
			continue;
		if (forget) {
			thread_forget(f, t);
		} else {
			unsee_thread(f, t->pid, t->tid);
			t->checked = false;
		}
	}
}

/* --- processes --- */

static struct gs_ingest_process *process_get(const struct gs_ingest *f, uint32_t pid)
{
	uint64_t idx;

	return gs_map_get(&f->process_of_pid, pid, &idx) ? &f->processes[idx] : NULL;
}

uint32_t gs_ingest_process_id(const struct gs_ingest *f, uint32_t pid)
{
	const struct gs_ingest_process *p = process_get(f, pid);

	return p ? p->id : 0;
}

static void process_forget(struct gs_ingest *f, struct gs_ingest_process *p)
{
	threads_of_process(f, p->id, true);
	gs_map_del(&f->process_of_pid, p->pid);
	*p = (struct gs_ingest_process){0};
}

static struct gs_ingest_process *process_slot(struct gs_ingest *f)
{
	uint32_t first = f->process_hand, i = 0;
	struct gs_ingest_process *p;

	if (f->n_processes < PROCESS_MAX)
		return &f->processes[f->n_processes++];
	do {
		p = &f->processes[(first + i) % PROCESS_MAX];
	} while (p->pid && !p->exited && ++i < SEARCH_MAX);
	if (i == SEARCH_MAX) {
		i = 0;
		p = &f->processes[first % PROCESS_MAX];
	}
	f->process_hand = first + i + 1;
	if (p->pid)
		process_forget(f, p);
	return p;
}

/* Which GPUs CUDA shows it: its text, and *ret_only the only one in use, -1 not known. */
static uint32_t find_gpus(struct gs_ingest *f, uint32_t uid,
			  const struct gs_identity_process *known, int *ret_only)
{
	char gpus[GS_IDENTITY_GPUS_BYTES], text[GS_CUDA_ENVIRON_BYTES];
	bool is_read = false;
	size_t bytes = 0;
	uint64_t begun;

	if (f->reader && !f->environ)
		f->environ = gs_cuda_visible_environ_new(f->reader);
	if (f->environ && !known->gone)
		is_read = gs_cuda_visible_environ_read(f->environ, known->pid, text, &bytes) == 0;
	gs_identity_visible_gpus(f->place, known, is_read ? text : NULL, bytes,
				 gs_map_get(&f->begun, known->pid, &begun), gpus, ret_only);
	return gs_ingest_intern_of(f, uid, gpus);
}

/* flags: of enum gs_process_flag. */
static void put_process_of(struct gs_ingest *f, struct gs_ingest_process *p,
			   const struct gs_identity_process *known, const char *comm_hint,
			   uint32_t flags)
{
	const char *comm = known->comm[0] ? known->comm : comm_hint;
	uint64_t begun;
	uint32_t uid = p->uid, comm_str = gs_ingest_intern_of(f, uid, comm);
	uint32_t exe_str = gs_ingest_intern_of(f, uid, known->exe);
	uint32_t cmdline_str = gs_ingest_intern_of(f, uid, known->cmdline);
	uint32_t container_str = gs_ingest_intern_of(f, uid, known->container);
	struct gs_rec_process *r;

	r = gs_ingest_put(f, GS_REC_PROCESS, sizeof(*r), 0);
	r->id = p->id;
	r->pid = p->pid;
	r->ns_pid = known->ns_pid;
	r->parent_pid = known->parent_pid;
	r->uid = known->uid;
	r->comm_str = comm_str;
	r->exe_str = exe_str;
	r->cmdline_str = cmdline_str;
	r->container_str = container_str;
	r->gpus_str = p->gpus_str;
	r->head.flags = flags | (uint32_t)(p->only_device + 1) << GS_PROCESS_DEVICE_SHIFT;
	if (gs_map_get(&f->begun, p->pid, &begun))
		r->head.flags |= GS_PROCESS_BEGUN;
	r->start_ns = known->start_ns;
	p->nameless = !comm[0];
	if (known->gone && !p->loss_reported) {
		gs_ingest_put_loss(f, GS_LAYER_NONE, GS_LOSS_PROC, comm, 1);
		p->loss_reported = true;
	}
}

/* A new one, or one that runs a new program. */
static void put_process(struct gs_ingest *f, struct gs_ingest_process *p,
			const struct gs_identity_process *known, const char *comm_hint)
{
	p->uses_gpu = false;
	p->gpus_str = find_gpus(f, p->uid, known, &p->only_device);
	memset(f->seen, 0, sizeof(f->seen));
	put_process_of(f, p, known, comm_hint, 0);
}

void gs_ingest_uses_gpu(struct gs_ingest *f, uint32_t pid, uint32_t tid)
{
	struct gs_ingest_seen *seen = &f->seen[tid % GS_INGEST_CACHE];
	struct gs_ingest_process *p = process_get(f, pid);
	const struct gs_identity_process *known;
	uint32_t gpus_str;
	int only;

	if (seen->pid == pid && seen->tid == tid)
		seen->uses_gpu = true;
	if (!p || p->uses_gpu)
		return;
	p->uses_gpu = true;
	known = gs_identity_process(f->place, pid);
	if (!known || known->gone)
		return;
	gpus_str = find_gpus(f, p->uid, known, &only);
	if (gpus_str == p->gpus_str && only == p->only_device)
		return;
	p->gpus_str = gpus_str;
	p->only_device = only;
	put_process_of(f, p, known, "", GS_PROCESS_SAME);
}

static struct gs_ingest_process *
process_make(struct gs_ingest *f, const struct gs_identity_process *known, const char *comm_hint)
{
	struct gs_ingest_process *p;

	if (f->last_process_id + 1 >= GS_DICT_MAX_ID)
		return NULL;
	p = process_slot(f);
	if (gs_map_put(&f->process_of_pid, known->pid, (uint64_t)(p - f->processes)) < 0)
		return NULL;
	*p = (struct gs_ingest_process){
		.pid = known->pid,
		.id = ++f->last_process_id,
		.start_ns = known->start_ns,
		.made_ns = gs_clock_boot_ns(),
		.uid = known->gone ? UINT32_MAX : known->uid,
	};
	put_process(f, p, known, comm_hint);
	return p;
}

/* The process that has the pid now; NULL: too many, or no memory. */
static struct gs_ingest_process *process_find(struct gs_ingest *f, uint32_t pid,
					      const char *comm_hint)
{
	struct gs_ingest_process *p = process_get(f, pid);
	const struct gs_identity_process *known;

	if (p && !p->exited)
		return p;
	known = gs_identity_process(f->place, pid);
	if (!known)
		return p;
	if (p) {
		if (known->gone || known->start_ns == p->start_ns)
			return p;
		process_forget(f, p);
	}
	return process_make(f, known, comm_hint);
}

uint32_t gs_ingest_thread_find(struct gs_ingest *f, uint32_t pid, uint32_t tid,
			       const char *comm_hint, uint32_t cell_slot)
{
	struct gs_ingest_thread *t = thread_get(f, pid, tid);
	struct gs_ingest_process *p;
	char comm[16];

	if (t && t->ended && cell_slot &&
	    (cell_slot == t->ended_slot || cell_slot == GS_INGEST_PAST))
		return t->id;
	if (!t || t->ended || !t->checked) {
		gs_identity_thread_comm(f->place, pid, tid, comm_hint, comm);
		p = process_find(f, pid, comm);
		if (!p)
			return 0;
		t = thread_get(f, pid, tid); /* its process may have turned out another one */
		if (t && t->ended) {
			thread_forget(f, t);
			t = NULL;
		}
		if (!t)
			t = thread_make(f, pid, tid, p, comm);
		if (!t)
			return 0;
		t->checked = true;
	}
	f->seen[tid % GS_INGEST_CACHE] =
		(struct gs_ingest_seen){.pid = pid, .tid = tid, .id = t->id};
	return t->id;
}

/* --- what is reported of tasks --- */

static void task_fork(struct gs_ingest *f, const struct gs_event_task *ev)
{
	struct gs_ingest_process *p = process_get(f, ev->pid);
	uint64_t fork_ns = ev->time_ns + (uint64_t)f->boot_minus_mono_ns;

	/* The fork may be reported after the first call of the process that it made. */
	if (p && p->start_ns + START_SLACK_NS >= fork_ns)
		return;
	/* So it may of one that was gone by then, whose start is not known; what it was, it now is. */
	if (p && !p->start_ns && !p->exited && p->made_ns >= fork_ns)
		p->nameless = true;
	else if (p)
		process_forget(f, p);
	/* The child may be gone when it is looked at: then it was as its parent is. */
	gs_identity_process(f->place, ev->parent_pid);
	gs_identity_fork(f->place, ev->pid, ev->parent_pid);
}

/* The program is another one, the process is not; of its threads only the first lives on. */
static void task_exec(struct gs_ingest *f, const struct gs_event_task *ev, const char *file)
{
	struct gs_ingest_process *p = process_get(f, ev->pid);
	const struct gs_identity_process *known;
	struct gs_ingest_thread *t;
	char comm[16];

	gs_identity_exec(f->place, ev->pid, ev->comm, file);
	if (!p)
		return;
	gs_identity_thread_comm(f->place, ev->pid, ev->pid, ev->comm, comm);
	known = gs_identity_process(f->place, ev->pid);
	if (known)
		put_process(f, p, known, comm);
	t = thread_get(f, ev->pid, ev->pid);
	if (t && !t->ended)
		put_thread(f, t, comm);
	for (uint32_t i = 0; i < f->n_threads; i++) {
		t = &f->threads[i];
		/* One that is known to have ended keeps its number for what its cells still hold.
		 */
		if (t->pid && t->process == p->id && t->tid != t->pid && !t->ended)
			thread_forget(f, t);
	}
}

static void task_exit(struct gs_ingest *f, const struct gs_event_task *ev)
{
	struct gs_ingest_thread *t = thread_get(f, ev->pid, ev->tid);
	struct gs_ingest_process *p = process_get(f, ev->pid);
	char comm[16];

	if (ev->tid == ev->pid) {
		gs_identity_exit(f->place, ev->pid, ev->comm);
		if (p) {
			const struct gs_identity_process *known =
				p->nameless ? gs_identity_process(f->place, ev->pid) : NULL;

			p->exited = true;
			threads_of_process(f, p->id, false);
			/* It was gone when it was announced: now its name is known. */
			if (known && known->comm[0])
				put_process(f, p, known, "");
		}
	}
	if (!t || t->ended)
		return;
	if (t->nameless && ev->comm[0]) {
		gs_identity_thread_comm(f->place, ev->pid, ev->tid, ev->comm, comm);
		put_thread(f, t, comm);
	}
	unsee_thread(f, t->pid, t->tid);
	t->ended = true;
	t->ended_slot = ev->thread_slot;
}

bool gs_ingest_task(struct gs_ingest *f, const struct gs_event_task *ev)
{
	bool is_exec = ev->head.bytes == sizeof(struct gs_event_exec);
	const struct gs_event_exec *exec = (const void *)ev;

	if (ev->head.bytes != (is_exec ? sizeof(*exec) : sizeof(*ev)) || !ev->pid ||
	    is_exec != (ev->change == GS_TASK_EXEC))
		return false;
	switch (ev->change) {
	case GS_TASK_FORK:
		(void)gs_map_put(&f->begun, ev->pid, 1);
		task_fork(f, ev);
		return true;
	case GS_TASK_EXEC:
		(void)gs_map_put(&f->begun, ev->pid, 1);
		task_exec(f, ev, exec->file);
		return true;
	case GS_TASK_EXIT:
		task_exit(f, ev);
		if (ev->tid == ev->pid)
			gs_map_del(&f->begun, ev->pid);
		return true;
	default:
		return false;
	}
}

uint32_t gs_ingest_find_process(struct gs_ingest *f, uint32_t pid)
{
	if (!gs_ingest_process_id(f, pid) &&
	    !gs_ingest_thread_find(f, pid, pid, "", GS_INGEST_PAST)) {
		f->pending_loss[GS_LOSS_NO_THREAD]++;
		return 0;
	}
	return gs_ingest_process_id(f, pid);
}
