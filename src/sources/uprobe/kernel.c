/*
 * Loading the kernel side. The CUDA family is loaded first and makes the shared maps; the others
 * are handed the same maps before they load. A family that this kernel refuses is left out and said
 * so at debug level; without the CUDA family nothing works. Each family is a row of sides[].
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <bpf/bpf.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/shrink.h"
#include "model/trace/func.h"
#include "sources/kernel_features/link_create.h"
#include "sources/kernel_types/kernel_types.h"
#include "sources/uprobe/account_int.h"
#include "sources/uprobe/uprobe_int.h"

/* The skeletons use the types of model/trace/event.h without naming it. */
#include "cuda.skel.h"
#include "mpi.skel.h"
#include "nccl.skel.h"
#include "pycall.skel.h"
#include "pyspan.skel.h"
#include "sample.skel.h"
#include "span.skel.h"
#include "task.skel.h"
#include "torch.skel.h"
#include "unwind.skel.h"
#include "uscope.skel.h"
#include "model/trace/user_probe.h"
#include "user.skel.h"

static const char *const shared_maps[] = {"gs_ring",           "gs_state",
					  "gs_threads",        "gs_cells",
					  "gs_free_threads",   "gs_free_cells",
					  "gs_procs",          "gs_marks",
					  "gs_marks_by_tid",   "gs_cgroup",
					  "gs_cell_of",        "gs_py_procs",
					  "gs_py_scratch",     "gs_py_codes",
					  "gs_stack_ids",      "gs_modes",
					  "gs_accounts",       "gs_free_accounts",
					  "gs_account_marks",  "gs_gpu_processes",
					  "gs_gpu_process_of", "gs_free_gpu_processes"};

/* Room for Python stacks: made small when none are asked for. */
static const char *const python_maps[] = {"gs_py_procs", "gs_py_codes", "gs_stack_ids",
					  "gs_py_scratch"};

/* Made small when threads have no account. */
static const char *const account_maps[] = {"gs_accounts", "gs_free_accounts"};

/* Likewise when work for GPUs is not added up. */
static const char *const gpu_maps[] = {"gs_gpu_processes", "gs_gpu_process_of",
				       "gs_free_gpu_processes"};

/* One entry for each cell. */
static const char *const cell_maps[] = {"gs_cells", "gs_cell_of", "gs_free_cells"};

/* Only what the chosen way of attaching uses is loaded: the rest may not even verify here. */
static void choose_programs(const struct features *f, struct bpf_program *session,
			    struct bpf_program *enter, struct bpf_program *leave)
{
	bpf_program__set_autoload(session, f->session);
	bpf_program__set_autoload(enter, !f->session);
	bpf_program__set_autoload(leave, !f->session);
	if (f->session) {
		bpf_program__set_expected_attach_type(session,
						      (enum bpf_attach_type)ATTACH_UPROBE_SESSION);
	} else if (f->multi) {
		bpf_program__set_expected_attach_type(enter,
						      (enum bpf_attach_type)ATTACH_UPROBE_MULTI);
		bpf_program__set_expected_attach_type(leave,
						      (enum bpf_attach_type)ATTACH_UPROBE_MULTI);
	}
}

/* A program whose every probe is one place. */
static void choose_site_program(const struct features *f, struct bpf_program *site)
{
	bpf_program__set_autoload(site, true);
	if (f->multi)
		bpf_program__set_expected_attach_type(site,
						      (enum bpf_attach_type)ATTACH_UPROBE_MULTI);
}

/* options may be NULL. */
static void fill_descriptions(volatile struct gs_func_desc *desc,
			      const struct gs_uprobe_options *options)
{
	for (unsigned id = 1; id <= gs_func_count(); id++) {
		struct gs_func_desc *d = (struct gs_func_desc *)&desc[id];

		*d = gs_func_by_id(id)->desc;
		d->inside = (uint8_t)gs_func_inside(gs_func_by_id(id));
		if (options && options->gpu_role)
			d->gpu = options->gpu_role(gs_func_by_id(id));
	}
}

static int prepare_maps(struct bpf_object *object, const struct features *f,
			const struct gs_kernel_config *config, uint32_t ring_bytes,
			struct bpf_object *owner)
{
	struct bpf_map *unused = bpf_object__find_map_by_name(
		object, f->task_storage ? "gs_marks_by_tid" : "gs_marks");
	struct bpf_map *ring = bpf_object__find_map_by_name(object, "gs_ring");
	struct bpf_map *procs = bpf_object__find_map_by_name(object, "gs_procs");
	int r = bpf_map__set_max_entries(ring, ring_bytes);

	for (size_t i = 0; r == 0 && i < GS_ARRAY_LEN(cell_maps); i++)
		r = bpf_map__set_max_entries(bpf_object__find_map_by_name(object, cell_maps[i]),
					     config->n_cells);
	for (size_t i = 0;
	     r == 0 && !config->py_stack_at && !config->py_func && i < GS_ARRAY_LEN(python_maps);
	     i++) {
		struct bpf_map *map = bpf_object__find_map_by_name(object, python_maps[i]);

		if (map)
			r = bpf_map__set_max_entries(map, 1);
	}
	if (r == 0 && !config->account)
		r = bpf_map__set_autocreate(
			bpf_object__find_map_by_name(object, "gs_account_marks"), false);
	for (size_t i = 0; r == 0 && !config->account && i < GS_ARRAY_LEN(account_maps); i++)
		r = bpf_map__set_max_entries(bpf_object__find_map_by_name(object, account_maps[i]),
					     1);
	for (size_t i = 0; r == 0 && !config->gpu_queue && i < GS_ARRAY_LEN(gpu_maps); i++) {
		struct bpf_map *map = bpf_object__find_map_by_name(object, gpu_maps[i]);

		if (map)
			r = bpf_map__set_max_entries(map, 1);
	}
	/* Before Linux 6.1 a timer's program may not use a map that allocates. */
	if (r == 0 && config->sample_period_ns)
		r = bpf_map__set_map_flags(procs, 0);

	/* The storage map's type is unknown to kernels that lack it; it must not even be made. */
	if (r == 0 && !f->task_storage)
		r = bpf_map__set_autocreate(unused, false);
	else if (r == 0 && unused)
		r = bpf_map__set_max_entries(unused, 1);
	for (size_t i = 0; r == 0 && owner && i < GS_ARRAY_LEN(shared_maps); i++) {
		struct bpf_map *to = bpf_object__find_map_by_name(object, shared_maps[i]);
		struct bpf_map *from = bpf_object__find_map_by_name(owner, shared_maps[i]);

		if (to && bpf_map__autocreate(to))
			r = bpf_map__reuse_fd(to, bpf_map__fd(from));
	}
	return r;
}

int uprobe_kernel_share_maps(struct uprobe_kernel_side *k, struct bpf_object *object,
			     const struct features *f, const struct gs_kernel_config *config,
			     uint32_t ring_bytes)
{
	return prepare_maps(object, f, config, ring_bytes, k->objects[GS_FAMILY_CUDA]);
}

/* One object of programs, which stands or falls alone. */
struct side_row {
	const char *name;
	const void *(*bytes)(size_t *ret_n);
	size_t config_off;    /* of gs_config in its read-only data */
	size_t desc_off;      /* of gs_desc; 0: it asks for no descriptions */
	bool has_ends;        /* programs _session, _enter and _leave, else _site or those below */
	const char *progs[3]; /* by their full names */
};

#define SIDE(name_, ...)                                                                           \
	{                                                                                          \
		.name = #name_, .bytes = gs_##name_##_bpf__elf_bytes,                              \
		.config_off = offsetof(struct gs_##name_##_bpf__rodata, gs_config), __VA_ARGS__    \
	}
#define SIDE_OF_CALLS(name_)                                                                       \
	SIDE(name_, .desc_off = offsetof(struct gs_##name_##_bpf__rodata, gs_desc),                \
	     .has_ends = true)

static const struct side_row sides[N_SIDES] = {
	[GS_FAMILY_CUDA] = SIDE_OF_CALLS(cuda),
	[GS_FAMILY_NCCL] = SIDE_OF_CALLS(nccl),
	[GS_FAMILY_MPI] = SIDE_OF_CALLS(mpi),
	[GS_FAMILY_TORCH] = SIDE(torch, ),
	[GS_FAMILY_SPAN] = SIDE(span, ),
	[GS_FAMILY_PYSPAN] = SIDE(pyspan, ),
	[GS_FAMILY_PYCALL] = SIDE(pycall, ),
	[GS_FAMILY_USCOPE] = SIDE(uscope, ),
	[GS_FAMILY_UNWIND] = SIDE(unwind, ),
	[GS_FAMILY_USER] = SIDE(user, .has_ends = true),
	[SIDE_TASK] = SIDE(task, .progs = {"gs_task_fork", "gs_task_exec", "gs_task_exit"}),
	[SIDE_SAMPLE] = SIDE(sample, .progs = {"gs_sample"}),
};

struct map_size {
	const char *name;
	uint32_t n;
};

/* What every object is loaded with. */
struct side_setup {
	struct gs_kernel_config config;
	struct features features;
	uint32_t ring_bytes;
	const struct map_size *sizes;            /* of maps, where an object makes them */
	const struct gs_uprobe_options *options; /* lent while objects with more constants load */
};

static struct bpf_program *side_program(const struct bpf_object *object, const char *name,
					const char *end)
{
	char full[32];

	snprintf(full, sizeof(full), "gs_%s_%s", name, end);
	return bpf_object__find_program_by_name(object, full);
}

static void side_choose(const struct side_row *row, const struct bpf_object *object,
			const struct features *f)
{
	if (row->has_ends)
		choose_programs(f, side_program(object, row->name, "session"),
				side_program(object, row->name, "enter"),
				side_program(object, row->name, "leave"));
	else if (!row->progs[0])
		choose_site_program(f, side_program(object, row->name, "site"));
	for (size_t i = 0; i < GS_ARRAY_LEN(row->progs) && row->progs[i]; i++)
		bpf_program__set_autoload(bpf_object__find_program_by_name(object, row->progs[i]),
					  true);
}

static int side_size_maps(struct bpf_object *object, const struct map_size *sizes)
{
	int r = 0;

	for (; r == 0 && sizes && sizes->name; sizes++) {
		struct bpf_map *map = bpf_object__find_map_by_name(object, sizes->name);

		if (map && bpf_map__fd(map) < 0)
			r = bpf_map__set_max_entries(map, sizes->n);
	}
	return r;
}

/* Before it is loaded: constants, programs and maps. */
static int side_prepare(struct uprobe_kernel_side *k, unsigned side, const struct side_setup *setup,
			struct bpf_object *object)
{
	const struct side_row *row = &sides[side];
	size_t bytes;
	char *rodata = (char *)bpf_map__initial_value(
		bpf_object__find_map_by_name(object, ".rodata"), &bytes);
	int r;

	if (!rodata)
		return -EINVAL;
	memcpy(rodata + row->config_off, &setup->config, sizeof(setup->config));
	if (row->desc_off)
		fill_descriptions((void *)(rodata + row->desc_off), setup->options);
	if (side == GS_FAMILY_PYCALL)
		uprobe_pycall_fill(rodata, setup->options);
	side_choose(row, object, &setup->features);
	r = prepare_maps(object, &setup->features, &setup->config, setup->ring_bytes,
			 k->objects[GS_FAMILY_CUDA]);
	return r ? r : side_size_maps(object, setup->sizes);
}

/* Negative errno: nothing is left of it. */
static int side_add(struct uprobe_kernel_side *k, unsigned side, const struct side_setup *setup)
{
	const struct side_row *row = &sides[side];
	char name[32];
	LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = name);
	bool session = setup->features.session;
	struct bpf_object *object;
	const void *bytes;
	size_t n_bytes;
	int r;

	snprintf(name, sizeof(name), "gs_%s_bpf", row->name);
	bytes = row->bytes(&n_bytes);
	opts.btf_custom_path = gs_kernel_types_few(k->types, bytes, n_bytes);
	object = bpf_object__open_mem(bytes, n_bytes, &opts);
	if (!object)
		return -errno;
	r = side_prepare(k, side, setup, object);
	if (r == 0) {
		/* libbpf reads all types of the kernel for most objects: twice 5 MiB, freed again. */
		gs_shrink_begin_reuse();
		r = bpf_object__load(object);
		gs_shrink_end_reuse();
	}
	if (r < 0) {
		bpf_object__close(object);
		return r;
	}
	k->objects[side] = object;
	if (row->has_ends) {
		k->session[side] = session ? side_program(object, row->name, "session") : NULL;
		k->enter[side] = session ? NULL : side_program(object, row->name, "enter");
		k->leave[side] = session ? NULL : side_program(object, row->name, "leave");
	} else if (side < GS_N_FAMILIES) {
		k->enter[side] = side_program(object, row->name, "site");
	}
	return 0;
}

struct bpf_map *uprobe_kernel_map(const struct uprobe_kernel_side *k, unsigned side,
				  const char *name)
{
	return bpf_object__find_map_by_name(k->objects[side], name);
}

static int add_scopes(struct uprobe_kernel_side *k, const struct gs_uprobe_options *options,
		      const struct side_setup *setup, struct gs_err *err)
{
	bool operators = options->layers >> GS_LAYER_TORCH & 1;
	bool users = options->funcs && uprobe_users_may_throw(options->users);
	int r = 0;

	if (options->n_py_globs > GS_PY_GLOB_MAX)
		return gs_err_set(err, -E2BIG, "--python-calls: at most %d patterns",
				  GS_PY_GLOB_MAX);
	if (options->python_gc || options->python_gil)
		r = side_add(k, GS_FAMILY_PYSPAN, setup);
	if (r == 0 && setup->config.py_func)
		r = side_add(k, GS_FAMILY_PYCALL, setup);
	if (r < 0)
		return gs_err_set(err, r, "the kernel refused the programs for Python: %s",
				  strerror(-r));
	/* Needed beside every family that catches ends of functions which may throw. */
	r = operators || users ? side_add(k, GS_FAMILY_UNWIND, setup) : 0;
	if (r < 0 && operators)
		return gs_err_set(
			err, r == -EPERM || r == -EINVAL ? -ENOTSUP : r,
			"operators cannot be traced here: this kernel refuses the program that lets C++ exceptions pass probed functions (%s), for example because of Secure Boot lockdown or without CAP_SYS_ADMIN",
			strerror(-r));
	/* Without them described functions that may throw are refused one by one. */
	if (r == 0 && users)
		r = side_add(k, GS_FAMILY_USCOPE, setup);
	if (r < 0)
		gs_log(GS_LOG_INFO, GS_LOG_ATTACH,
		       "the kernel refused the programs for functions that may throw: %s",
		       strerror(-r));
	r = operators ? side_add(k, GS_FAMILY_TORCH, setup) : 0;
	if (r == 0 && setup->config.span_first)
		r = side_add(k, GS_FAMILY_SPAN, setup);
	if (r < 0)
		return gs_err_set(err, r, "the kernel refused the programs for operators: %s",
				  strerror(-r));
	return 0;
}

static int add_task(struct uprobe_kernel_side *k, const struct side_setup *setup)
{
	const struct side_row *row = &sides[SIDE_TASK];
	int r = side_add(k, SIDE_TASK, setup);

	for (size_t i = 0; r == 0 && i < GS_ARRAY_LEN(row->progs); i++) {
		k->task_links[i] = bpf_program__attach(
			bpf_object__find_program_by_name(k->objects[SIDE_TASK], row->progs[i]));
		if (!k->task_links[i])
			r = -errno;
	}
	return r;
}

static int add_sample(struct uprobe_kernel_side *k, const struct side_setup *setup,
		      struct gs_err *err)
{
	int r = side_add(k, SIDE_SAMPLE, setup);

	if (r < 0)
		return gs_err_set(err, r, "the kernel refused the program that takes samples: %s",
				  strerror(-r));
	return uprobe_sample_start(
		k, bpf_object__find_program_by_name(k->objects[SIDE_SAMPLE], "gs_sample"),
		setup->config.sample_period_ns, err);
}

static int open_window(const struct bpf_map *map, struct gs_window **ret_window, void *ret_base)
{
	return gs_window_open(bpf_map__fd(map), bpf_map__max_entries(map), bpf_map__value_size(map),
			      ret_window, ret_base);
}

/* A kernel that refuses one of them can trace the rest. */
static void add_family(struct uprobe_kernel_side *k, enum gs_family family,
		       const struct side_setup *setup)
{
	int r = side_add(k, family, setup);

	if (r == 0 && family == GS_FAMILY_MPI)
		r = open_window(uprobe_kernel_map(k, family, "gs_mpi_rows"), &k->mpi_window,
				&k->mpi_rows);
	if (r < 0)
		gs_log(GS_LOG_INFO, GS_LOG_ATTACH,
		       "the kernel refused the %s programs (%s): no calls of it are traced",
		       family == GS_FAMILY_MPI ? "MPI" : "NCCL", strerror(-r));
}

static void *map_shared(struct bpf_map *map, bool writable)
{
	size_t bytes = (size_t)bpf_map__max_entries(map) * ((bpf_map__value_size(map) + 7u) & ~7u);
	void *p = mmap(NULL, bytes, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED,
		       bpf_map__fd(map), 0);

	return p == MAP_FAILED ? NULL : p;
}

static struct bpf_map *cuda_map(const struct uprobe_kernel_side *k, const char *name)
{
	return uprobe_kernel_map(k, GS_FAMILY_CUDA, name);
}

static void find_maps(struct uprobe_kernel_side *k)
{
	k->py_procs_fd = bpf_map__fd(cuda_map(k, "gs_py_procs"));
	k->procs_fd = bpf_map__fd(cuda_map(k, "gs_procs"));
	k->cgroup_fd = bpf_map__fd(cuda_map(k, "gs_cgroup"));
	k->free_threads_fd = bpf_map__fd(cuda_map(k, "gs_free_threads"));
	k->free_cells_fd = bpf_map__fd(cuda_map(k, "gs_free_cells"));
	k->cell_of_fd = bpf_map__fd(cuda_map(k, "gs_cell_of"));
	k->free_gpu_fd = bpf_map__fd(cuda_map(k, "gs_free_gpu_processes"));
}

void uprobe_kernel_loaded(struct uprobe_kernel_side *k)
{
	if (!k->borrows_types)
		gs_kernel_types_free(&k->types);
	k->types = NULL;
}

int uprobe_kernel_map_all(struct uprobe_kernel_side *k, ring_buffer_sample_fn event, void *ctx)
{
	int r = open_window(cuda_map(k, "gs_threads"), &k->thread_window, &k->threads);

	if (r == 0)
		r = open_window(cuda_map(k, "gs_cells"), &k->cell_window, &k->cells);
	if (r < 0)
		return r;
	k->state = map_shared(cuda_map(k, "gs_state"), true);
	k->ring = ring_buffer__new(bpf_map__fd(cuda_map(k, "gs_ring")), event, ctx, NULL);
	k->modes = map_shared(cuda_map(k, "gs_modes"), true);
	if (!k->state || !k->modes || !k->ring)
		return -errno;
	return bpf_map__max_entries(cuda_map(k, "gs_gpu_processes")) > 1
		       ? open_window(cuda_map(k, "gs_gpu_processes"), &k->gpu_window,
				     &k->gpu_processes)
		       : 0;
}

unsigned uprobe_reach_threads(const struct uprobe_kernel_side *k)
{
	return gs_window_reach(k->thread_window,
			       __atomic_load_n(&k->state->n_threads, __ATOMIC_ACQUIRE) + 1);
}

bool uprobe_thread_is_mapped(const struct uprobe_kernel_side *k, uint32_t slot)
{
	return slot && gs_window_reach(k->thread_window, slot + 1) > slot;
}

unsigned uprobe_reach_cells(const struct uprobe_kernel_side *k)
{
	return gs_window_reach(k->cell_window,
			       __atomic_load_n(&k->state->n_cells, __ATOMIC_ACQUIRE) + 1);
}

static int silence_libbpf(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	return gs_log_is_on(GS_LOG_TRACE, GS_LOG_ATTACH) ? vfprintf(stderr, fmt, ap) : 0;
}

/* Without the table of types libbpf reads the kernel's by itself, or says what is missing. */
static void start_load(struct uprobe_kernel_side *k, struct gs_kernel_types *types)
{
	*k = (struct uprobe_kernel_side){.types = types, .borrows_types = types};
	libbpf_set_print(silence_libbpf);
	if (types)
		return;
	gs_shrink_begin_reuse();
	(void)gs_kernel_types_new(&k->types);
	gs_shrink_end_reuse();
}

/* What the options ask for, beside the calls of CUDA. */
static int add_others(struct uprobe_kernel_side *k, const struct gs_uprobe_options *options,
		      const struct side_setup *setup, struct gs_err *err)
{
	uint32_t layers = options->layers ? options->layers : GS_LAYERS_DEFAULT;
	int r = 0;

	add_family(k, GS_FAMILY_NCCL, setup);
	if (layers >> GS_LAYER_MPI & 1)
		add_family(k, GS_FAMILY_MPI, setup);
	if (setup->config.scopes)
		r = add_scopes(k, options, setup, err);
	if (r < 0)
		return r;
	r = add_task(k, setup);
	if (r < 0)
		return gs_err_set(err, r, "the kernel refused to track processes: %s",
				  strerror(-r));
	if (setup->config.sample_period_ns)
		r = add_sample(k, setup, err);
	if (r < 0 || !gs_user_set_n(options->users))
		return r;
	r = side_add(k, GS_FAMILY_USER, setup);
	return r < 0 ? gs_err_set(err, r, "the kernel refused the program of described probes: %s",
				  strerror(-r))
		     : 0;
}

static const struct map_size usual_sizes[] = {
	{"gs_user_threads", GS_THREAD_MAX}, {"gs_user_rows", GS_USER_ROW_MAX}, {NULL}};

int uprobe_kernel_load(struct uprobe_kernel_side *k, const struct gs_uprobe_options *options,
		       const struct gs_kernel_config *config, const struct features *f,
		       struct gs_err *err)
{
	const struct side_setup setup = {
		.config = *config,
		.features = *f,
		.ring_bytes = options->ring_bytes ? options->ring_bytes : 16u << 20,
		.sizes = usual_sizes,
		.options = options,
	};
	int r;

	start_load(k, options->types);
	r = side_add(k, GS_FAMILY_CUDA, &setup);
	if (r < 0)
		return gs_err_set(err, r, "the kernel refused the probe programs: %s%s",
				  strerror(-r),
				  r == -EPERM ? " (is this a container without CAP_BPF?)" : "");
	r = add_others(k, options, &setup, err);
	if (r < 0)
		return r;
	find_maps(k);
	if (config->modes) {
		k->group_used = calloc(GS_GROUP_MAX, sizeof(*k->group_used));
		r = k->group_used ? 0 : -ENOMEM;
	}
	return r;
}

static int drop_event(void *ctx, void *data, size_t bytes)
{
	return 0;
}

#define ALONE_RING_BYTES (1u << 20)

static const struct map_size alone_sizes[] = {
	{"gs_threads", 8},   {"gs_cells", 64},    {"gs_user_threads", 8}, {"gs_user_rows", 8},
	{"gs_launched", 64}, {"gs_contexts", 64}, {"gs_procs", 64},       {NULL}};

int uprobe_kernel_load_alone(struct uprobe_kernel_side *k, const struct gs_kernel_config *config,
			     const struct features *f, struct gs_kernel_types *types,
			     bool with_scopes, bool with_users)
{
	const struct side_setup setup = {.config = *config,
					 .features = *f,
					 .ring_bytes = ALONE_RING_BYTES,
					 .sizes = alone_sizes};
	int r;

	start_load(k, types);
	r = side_add(k, GS_FAMILY_CUDA, &setup);
	if (r == 0 && with_scopes)
		r = side_add(k, GS_FAMILY_TORCH, &setup);
	if (r == 0 && with_users)
		r = side_add(k, GS_FAMILY_USER, &setup);
	uprobe_kernel_loaded(k);
	if (r == 0) {
		find_maps(k);
		r = uprobe_kernel_map_all(k, drop_event, NULL);
	}
	if (r < 0)
		uprobe_kernel_unload(k);
	return r;
}

static void unmap_values(void *p, struct bpf_map *map)
{
	if (p)
		munmap(p,
		       (size_t)bpf_map__max_entries(map) * ((bpf_map__value_size(map) + 7u) & ~7u));
}

void uprobe_kernel_unload(struct uprobe_kernel_side *k)
{
	free(k->group_used);
	k->group_used = NULL;
	uprobe_kernel_loaded(k);
	if (!k->objects[GS_FAMILY_CUDA])
		return;
	uprobe_sample_stop(k);
	uprobe_account_unload(k);
	ring_buffer__free(k->ring);
	unmap_values(k->state, cuda_map(k, "gs_state"));
	gs_window_close(&k->thread_window);
	gs_window_close(&k->cell_window);
	unmap_values(k->modes, cuda_map(k, "gs_modes"));
	gs_window_close(&k->mpi_window);
	gs_window_close(&k->gpu_window);
	for (size_t i = 0; i < GS_ARRAY_LEN(k->task_links); i++)
		bpf_link__destroy(k->task_links[i]);
	/* The maps are those of the first. */
	for (size_t i = N_SIDES; i-- > 0;)
		bpf_object__close(k->objects[i]);
	*k = (struct uprobe_kernel_side){0};
}
