/*
 * Which kernel a launch is of. Launches name a function: by the address of a host function, or by a
 * handle. For a function that is new in its process a KERNEL record goes before the launch, with its
 * name. That of a host function is what the program's file registers for it, else its symbol; that of a
 * handle is what the program asked for by name when it got it, or that of the host function or other
 * handle that it got it of.
 *
 * Of a process's first call of each kind the end is not seen (bpf/calls/first.bpf.h), so the handle is not
 * known: what was asked for waits for the first launch of an unknown handle, by the same thread before any
 * other.
 *
 * Code may be mapped before the news of it come here, and its process may be gone by then: what is not
 * found is looked for again for some seconds, and the record comes after the launch. A function that stays
 * unknown has no record, and its address is all that is said.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/vec.h"
#include "model/trace/class.h"
#include "model/trace/record_kernel.h"
#include "pipeline/ingest/ingest_int.h"
#include "sources/cubin/device.h"
#include "sources/cubin/short_name.h"
#include "core/demangle/demangle.h"
#include "sources/unwind/native.h"

#define KERNELS_MAX    65536u /* functions of all processes; launches of more have no name */
#define CACHE_KERNELS  256u   /* a power of two */
#define ASKED_KERNELS  64u    /* calls that have begun; a power of two */
#define WAITING_MAX    32u    /* of those whose handle is not known */
#define NAMES_BYTES    (16u << 20)
#define MAX_NAME_BYTES 4096
#define RETRY_NS       5000000000ull
#define SEARCH_NS      200000000ull /* between two searches of memory for handles */

struct source {        /* by what a kernel is known */
	uint64_t host; /* a host function that stands for it; 0 none */
	char *symbol;  /* owned; its name; NULL */
};

struct kernel { /* a function that was launched, or may be */
	uint64_t function;
	uint64_t seen_ns; /* when it was launched first, monotonic; 0 not yet */
	struct source source;
	uint32_t pid;
	uint32_t process; /* id */
	uint32_t file;    /* that it was found by, of gs_native; 0 none */
	bool is_recorded;
	bool was_another; /* there is a record, of the program that the process ran before */
};

struct waiting {      /* a kernel whose handle is not known */
	uint32_t pid; /* 0: free */
	uint32_t tid;
	uint32_t layer;
	struct source source;
};

struct gs_ingest_kernels {
	struct gs_map index_of; /* hash of process and function -> index */
	struct kernel *kernels; /* owned */
	uint32_t n, capacity;
	uint32_t n_sought;    /* of them: may yet be found */
	uint64_t searched_ns; /* monotonic: when memory was searched for handles last */
	size_t name_bytes;    /* of all symbols */
	struct {
		uint64_t function;
		uint32_t pid; /* 0: free */
		uint32_t layer;
	} cache[CACHE_KERNELS];
	struct {
		uint32_t pid, tid, func;
		char *symbol; /* owned; NULL: free */
	} asked[ASKED_KERNELS];
	struct waiting waiting[WAITING_MAX];
	uint32_t waiting_hand; /* the next one to be overwritten */
	char symbol[MAX_NAME_BYTES], name[MAX_NAME_BYTES];
};

/* What is to be recorded of one; texts are lent. */
struct identity {
	enum gs_kernel_how how;
	const char *symbol, *name, *file;
	uint32_t file_number;
};

static struct gs_ingest_kernels *kernels_get(struct gs_ingest *f)
{
	if (!f->kernels && f->reader) {
		f->kernels = calloc(1, sizeof(*f->kernels));
		if (f->kernels)
			f->kernels->index_of = GS_MAP_INIT(KERNELS_MAX);
	}
	return f->kernels;
}

/* --- names --- */

/* NULL: there is none, or no room. */
static char *keep_symbol(struct gs_ingest_kernels *ks, const char *symbol)
{
	size_t bytes = symbol ? strlen(symbol) + 1 : 0;
	char *copy = bytes && ks->name_bytes + bytes <= NAMES_BYTES ? strdup(symbol) : NULL;

	if (copy)
		ks->name_bytes += bytes;
	return copy;
}

static void drop_symbol(struct gs_ingest_kernels *ks, char **symbol)
{
	if (*symbol)
		ks->name_bytes -= strlen(*symbol) + 1;
	free(*symbol);
	*symbol = NULL;
}

void gs_ingest_kernels_fini(struct gs_ingest *f)
{
	struct gs_ingest_kernels *ks = f->kernels;

	if (!ks)
		return;
	for (uint32_t i = 0; i < ks->n; i++)
		free(ks->kernels[i].source.symbol);
	for (uint32_t i = 0; i < ASKED_KERNELS; i++)
		free(ks->asked[i].symbol);
	for (uint32_t i = 0; i < WAITING_MAX; i++)
		free(ks->waiting[i].source.symbol);
	gs_map_fini(&ks->index_of);
	free(ks->kernels);
	free(ks);
	f->kernels = NULL;
}

/* The process runs another program, whose handles may be the same. */
static void forget_kernels(struct gs_ingest_kernels *ks, uint32_t pid)
{
	for (uint32_t i = 0; i < ks->n; i++) {
		struct kernel *k = &ks->kernels[i];

		if (k->pid != pid)
			continue;
		drop_symbol(ks, &k->source.symbol);
		k->source.host = k->seen_ns = k->file = 0;
		k->was_another |= k->is_recorded;
		k->is_recorded = false;
	}
}

void gs_ingest_kernels_task(struct gs_ingest *f, const struct gs_event_task *ev)
{
	struct gs_ingest_kernels *ks = f->kernels;

	if (!ks || ev->change == GS_TASK_FORK)
		return;
	/* The process id may name another program next. */
	memset(ks->cache, 0, sizeof(ks->cache));
	if (ev->change == GS_TASK_EXEC)
		forget_kernels(ks, ev->pid);
	for (uint32_t i = 0; i < WAITING_MAX; i++) {
		struct waiting *w = &ks->waiting[i];

		if (w->pid != ev->pid || (ev->change == GS_TASK_EXIT && ev->tid != ev->pid))
			continue;
		drop_symbol(ks, &w->source.symbol);
		w->pid = 0;
	}
}

/* --- the record --- */

/* needs NULL: not known. */
static void put_kernel(struct gs_ingest *f, const struct kernel *k, const struct identity *id,
		       const struct gs_cubin_kernel *needs)
{
	char text[GS_KERNEL_SHORT_BYTES];
	uint32_t name_str, short_str, symbol_str, file_str;
	struct gs_rec_kernel *r;

	gs_kernel_short_name(id->name, text);
	name_str = gs_ingest_intern(f, id->name);
	short_str = gs_ingest_intern(f, text);
	symbol_str = gs_ingest_intern(f, id->symbol);
	file_str = gs_ingest_intern(f, id->file);
	r = gs_ingest_put(f, GS_REC_KERNEL, sizeof(*r), 0);
	r->process = k->process;
	r->how = id->how;
	r->function = k->function;
	r->name_str = name_str;
	r->short_str = short_str;
	r->symbol_str = symbol_str;
	r->file_str = file_str;
	if (needs) {
		r->registers = needs->registers;
		r->shared_bytes = needs->shared_bytes;
		r->constant_bytes = needs->constant_bytes;
		r->local_bytes = needs->local_bytes;
		r->code_bytes = needs->code_bytes;
		r->max_threads = needs->max_threads;
		r->sm = needs->sm;
	}
	gs_ingest_settle(f);
}

static const char *demangle_symbol(struct gs_ingest_kernels *ks, const char *symbol)
{
	return gs_demangle_symbol(symbol, ks->name, sizeof(ks->name)) ? ks->name : symbol;
}

/* The kernel of a host function, by its file. */
static bool name_by_file(struct gs_ingest *f, uint32_t pid, uint64_t host, struct identity *ret)
{
	struct gs_native *native = gs_ingest_native_object(f);
	struct gs_ingest_kernels *ks = f->kernels;
	struct gs_native_frame frame;

	if (!native || !gs_native_find(native, pid, host, &frame) || !frame.file)
		return false;
	*ret = (struct identity){.symbol = "", .name = ks->name};
	if (gs_native_kernel(native, &frame, ks->symbol, sizeof(ks->symbol))) {
		ret->how = GS_KERNEL_REGISTERED;
		ret->symbol = ks->symbol;
		ret->name = demangle_symbol(ks, ks->symbol);
	} else if (gs_native_name(native, &frame, ks->name, sizeof(ks->name))) {
		ret->how = GS_KERNEL_SYMBOL;
	} else {
		return false;
	}
	ret->file = gs_native_path(native, frame.file);
	ret->file_number = frame.file;
	return true;
}

static bool identify_kernel(struct gs_ingest *f, const struct kernel *k, struct identity *ret)
{
	if (!k->source.symbol)
		return k->source.host && name_by_file(f, k->pid, k->source.host, ret);
	*ret = (struct identity){.how = GS_KERNEL_LOADED,
				 .symbol = k->source.symbol,
				 .name = demangle_symbol(f->kernels, k->source.symbol),
				 .file = ""};
	return true;
}

static void record_kernel(struct gs_ingest *f, struct kernel *k)
{
	struct identity id;

	if (!identify_kernel(f, k, &id))
		return;
	k->is_recorded = true;
	k->file = id.how == GS_KERNEL_REGISTERED ? id.file_number : 0;
	put_kernel(f, k, &id, NULL);
}

/* By the variable of the program that has the handle. */
static bool find_host(struct gs_ingest *f, const struct kernel *k, uint64_t *ret_host)
{
	struct gs_native *native = gs_ingest_native_object(f);

	return native && gs_native_host_function(native, k->pid, k->function, ret_host);
}

static bool is_sought(const struct kernel *k)
{
	return k->seen_ns && !k->is_recorded && k->source.host;
}

void gs_ingest_kernels_retry(struct gs_ingest *f, bool last)
{
	struct gs_ingest_kernels *ks = f->kernels;
	uint64_t now_ns = gs_clock_mono_ns();
	bool may_search;

	if (!ks || (!ks->n_sought && !last))
		return;
	may_search = last || now_ns - ks->searched_ns >= SEARCH_NS;
	if (may_search)
		ks->searched_ns = now_ns;
	ks->n_sought = 0;
	for (uint32_t i = 0; i < ks->n; i++) {
		struct kernel *k = &ks->kernels[i];

		if (!is_sought(k) || (now_ns - k->seen_ns >= RETRY_NS && !last))
			continue;
		record_kernel(f, k);
		if (!k->is_recorded && may_search && k->source.host == k->function &&
		    find_host(f, k, &k->source.host))
			record_kernel(f, k);
		ks->n_sought += !k->is_recorded;
	}
}

/* --- functions of processes --- */

static struct kernel *kernel_find(struct gs_ingest_kernels *ks, uint32_t process, uint64_t function,
				  uint64_t *ret_key)
{
	uint64_t where[2] = {process, function}, i;

	*ret_key = gs_hash_bytes(where, sizeof(where));
	return gs_map_get(&ks->index_of, *ret_key, &i) ? &ks->kernels[i] : NULL;
}

static struct kernel *kernel_reach(struct gs_ingest_kernels *ks, uint32_t pid, uint32_t process,
				   uint64_t function)
{
	uint64_t key;
	struct kernel *k = kernel_find(ks, process, function, &key);

	if (k)
		return k;
	if (ks->n == KERNELS_MAX || !gs_vec_reserve(&ks->kernels, &ks->capacity, ks->n + 1) ||
	    gs_map_put(&ks->index_of, key, ks->n) < 0)
		return NULL;
	k = &ks->kernels[ks->n++];
	*k = (struct kernel){.function = function, .pid = pid, .process = process};
	return k;
}

/* What waits for the handle that is launched now. NULL: nothing does. */
static struct waiting *find_waiting(struct gs_ingest_kernels *ks, const struct gs_event_call *ev,
				    uint32_t layer)
{
	struct waiting *found = NULL;
	unsigned n = 0;

	for (uint32_t i = 0; i < WAITING_MAX; i++) {
		struct waiting *w = &ks->waiting[i];

		if (w->pid != ev->pid || w->layer != layer)
			continue;
		if (w->tid == ev->tid)
			return w;
		found = w;
		n++;
	}
	return n == 1 ? found : NULL;
}

/* Owns what is taken. */
static bool take_waiting(struct gs_ingest_kernels *ks, const struct gs_event_call *ev,
			 uint32_t layer, struct source *ret)
{
	struct waiting *w = find_waiting(ks, ev, layer);

	if (!w)
		return false;
	*ret = w->source;
	*w = (struct waiting){0};
	return true;
}

/* Takes source->symbol. */
static void add_waiting(struct gs_ingest_kernels *ks, const struct gs_event_call *ev,
			uint32_t layer, const struct source *source)
{
	struct waiting *w = &ks->waiting[ks->waiting_hand++ % WAITING_MAX];

	drop_symbol(ks, &w->source.symbol);
	*w = (struct waiting){.pid = ev->pid, .tid = ev->tid, .layer = layer, .source = *source};
}

static uint64_t cache_slot(uint64_t function)
{
	return function >> 4 & (CACHE_KERNELS - 1);
}

/* A launch of a function that has no record yet. */
static void seek_kernel(struct gs_ingest *f, struct gs_ingest_kernels *ks, struct kernel *k,
			const struct gs_event_call *ev, uint32_t layer)
{
	bool is_first = !k->seen_ns;

	if (is_first)
		k->seen_ns = gs_clock_mono_ns();
	if (!k->source.host && layer == GS_LAYER_CUDA_RUNTIME)
		k->source.host = k->function;
	record_kernel(f, k);
	if (!k->is_recorded && layer == GS_LAYER_CUDA_RUNTIME && find_host(f, k, &k->source.host))
		record_kernel(f, k);
	if (!k->is_recorded && !k->source.symbol && take_waiting(ks, ev, layer, &k->source))
		record_kernel(f, k);
	ks->n_sought += is_first && !k->is_recorded;
	if (!k->is_recorded && k->was_another)
		put_kernel(f, k, &(struct identity){.symbol = "", .name = "", .file = ""}, NULL);
	k->was_another = false;
}

void gs_ingest_launch(struct gs_ingest *f, const struct gs_func *func,
		      const struct gs_event_call *ev)
{
	struct gs_ingest_kernels *ks = kernels_get(f);
	uint64_t function = ev->arg[0], slot = cache_slot(function);
	struct kernel *k;

	if (!ks || !function)
		return;
	/* Which kernel it is may be known by a launch of the runtime alone, of which that by the driver was
	 * seen without it as the probes were placed. */
	if (ks->cache[slot].function == function && ks->cache[slot].pid == ev->pid &&
	    ks->cache[slot].layer == func->desc.layer)
		return;
	k = kernel_reach(ks, ev->pid, gs_ingest_process_id(f, ev->pid), function);
	if (k && !k->is_recorded)
		seek_kernel(f, ks, k, ev, func->desc.layer);
	ks->cache[slot].function = function;
	ks->cache[slot].pid = ev->pid;
	ks->cache[slot].layer = func->desc.layer;
}

/* --- handles --- */

bool gs_ingest_kernel_asked(struct gs_ingest *f, const struct gs_event_kernel *ev)
{
	struct gs_ingest_kernels *ks = kernels_get(f);
	uint32_t i = ev->tid & (ASKED_KERNELS - 1);
	char name[GS_KERNEL_NAME_BYTES];

	if (!ev->pid || !ev->tid)
		return false;
	if (!ks)
		return true;
	memcpy(name, ev->name, sizeof(name));
	name[sizeof(name) - 1] = '\0';
	drop_symbol(ks, &ks->asked[i].symbol);
	ks->asked[i].pid = ev->pid;
	ks->asked[i].tid = ev->tid;
	ks->asked[i].func = ev->func;
	ks->asked[i].symbol = keep_symbol(ks, *name ? name : NULL);
	return true;
}

/* Is a name that this function was asked for that of the present call? So it is where the runtime asks
 * the driver by the same name: that call is inside, and was asked last. */
static bool asks_for(struct gs_ingest *f, uint32_t asked, const struct gs_func *func)
{
	const struct gs_func *by = gs_func_set_get(f->funcs, asked);

	return by == func || (by && by->desc.post == GS_POST_KERNEL_NAME &&
			      by->desc.layer == GS_LAYER_CUDA_DRIVER &&
			      func->desc.layer == GS_LAYER_CUDA_RUNTIME);
}

/* By what the kernel is known of which a call gets a handle; the caller owns it. */
static struct source source_of(struct gs_ingest *f, struct gs_ingest_kernels *ks,
			       const struct gs_func *func, const struct gs_event_call *ev)
{
	uint32_t i = ev->tid & (ASKED_KERNELS - 1);
	struct source s = {0};
	const struct kernel *of;
	uint64_t key;

	if (func->desc.post != GS_POST_KERNEL_OF) {
		if (ks->asked[i].pid == ev->pid && ks->asked[i].tid == ev->tid &&
		    asks_for(f, ks->asked[i].func, func))
			s.symbol = gs_take(ks->asked[i].symbol);
		return s;
	}
	of = kernel_find(ks, gs_ingest_process_id(f, ev->pid), ev->arg[1], &key);
	if (of && (of->source.host || of->source.symbol)) {
		s.host = of->source.host;
		s.symbol = keep_symbol(ks, of->source.symbol);
	} else if (func->desc.layer == GS_LAYER_CUDA_RUNTIME) {
		s.host = ev->arg[1];
	} else {
		take_waiting(ks, ev, func->desc.layer, &s);
	}
	return s;
}

void gs_ingest_kernel_handle(struct gs_ingest *f, const struct gs_func *func,
			     const struct gs_event_call *ev)
{
	struct gs_ingest_kernels *ks = kernels_get(f);
	uint64_t slot = cache_slot(ev->arg[0]);
	struct kernel *k;
	struct source s;

	if (!ks)
		return;
	s = source_of(f, ks, func, ev);
	if (!s.host && !s.symbol)
		return;
	if (ev->flags & GS_CALL_UNTIMED && func->desc.post != GS_POST_KERNEL_SAID) {
		add_waiting(ks, ev, func->desc.layer, &s);
		return;
	}
	k = ev->ret == 0 && ev->arg[0]
		    ? kernel_reach(ks, ev->pid, gs_ingest_process_id(f, ev->pid), ev->arg[0])
		    : NULL;
	if (!k) {
		drop_symbol(ks, &s.symbol);
		return;
	}
	/* The handle may have been another kernel's before. */
	drop_symbol(ks, &k->source.symbol);
	k->source = s;
	k->is_recorded = false;
	if (ks->cache[slot].function == ev->arg[0])
		ks->cache[slot].pid = 0;
}

/* --- what kernels need --- */

struct wanted {                       /* of one file */
	struct gs_cubin_wanted *list; /* owned, and its names */
	size_t n, bytes;
	struct gs_map by_name; /* hash -> index */
};

static void wanted_fini(struct wanted *w)
{
	for (size_t i = 0; i < w->n; i++)
		free((void *)(uintptr_t)w->list[i].name);
	free(w->list);
	gs_map_fini(&w->by_name);
}

/* Where the present symbol is in the list, added when it is new; w->n: there is no room. */
static size_t wanted_reach(struct wanted *w, const char *symbol)
{
	size_t bytes = strlen(symbol) + 1;
	uint64_t key = gs_hash_bytes(symbol, bytes), i;
	char *copy;

	if (gs_map_get(&w->by_name, key, &i))
		return strcmp(w->list[i].name, symbol) == 0 ? i : w->n;
	if (w->n == GS_CUBIN_WANTED_MAX || w->bytes + bytes > GS_NATIVE_WANTED_BYTES)
		return w->n;
	copy = strdup(symbol);
	if (!copy || gs_map_put(&w->by_name, key, w->n) < 0) {
		free(copy);
		return w->n;
	}
	w->list[w->n] = (struct gs_cubin_wanted){.name = copy};
	w->bytes += bytes;
	return w->n++;
}

/* As it was identified before: the process may be gone, and its id another's. */
static bool is_still(struct gs_ingest *f, const struct kernel *k, uint32_t file,
		     struct identity *ret)
{
	return identify_kernel(f, k, ret) && ret->how == GS_KERNEL_REGISTERED &&
	       ret->file_number == file;
}

/* Of all kernels of the file of this one, which are then done with. */
static void find_needs(struct gs_ingest *f, uint32_t first, uint32_t sm)
{
	struct gs_ingest_kernels *ks = f->kernels;
	uint32_t file = ks->kernels[first].file;
	struct wanted w = {.by_name = GS_MAP_INIT(2 * GS_CUBIN_WANTED_MAX)};
	struct identity id;

	w.list = calloc(GS_CUBIN_WANTED_MAX, sizeof(*w.list));
	for (uint32_t i = first; w.list && i < ks->n; i++)
		if (ks->kernels[i].file == file && is_still(f, &ks->kernels[i], file, &id))
			wanted_reach(&w, id.symbol);
	if (w.n)
		(void)gs_native_needs(gs_ingest_native_object(f), file, sm, w.list, w.n);
	for (uint32_t i = first; i < ks->n; i++) {
		struct kernel *k = &ks->kernels[i];
		size_t at;

		if (k->file != file)
			continue;
		k->file = 0;
		if (!w.n || !is_still(f, k, file, &id))
			continue;
		at = wanted_reach(&w, id.symbol);
		if (at < w.n && w.list[at].found && !w.list[at].differs)
			put_kernel(f, k, &id, &w.list[at].kernel);
	}
	wanted_fini(&w);
}

void gs_ingest_kernels_needs(struct gs_ingest *f)
{
	struct gs_ingest_kernels *ks = f->kernels;
	uint32_t sm = ks && ks->n ? gs_cubin_device_sm(NULL) : 0;

	for (uint32_t i = 0; ks && i < ks->n; i++)
		if (ks->kernels[i].file && ks->kernels[i].seen_ns)
			find_needs(f, i, sm);
}

void gs_ingest_needs(struct gs_ingest *f)
{
	if (!f->ended)
		gs_ingest_kernels_needs(f);
}
