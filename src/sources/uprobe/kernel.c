/*
 * Loading the kernel side. The CUDA family is loaded first and makes the shared maps; the others
 * are handed the same maps before they load. A family that this kernel refuses is left out and said
 * so at debug level; without the CUDA family nothing works.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include <bpf/bpf.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "model/trace/func.h"
#include "sources/uprobe/link_create.h"
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

static const char *const shared_maps[] = {
	"gs_ring",       "gs_state",    "gs_threads",       "gs_cells",        "gs_free_threads",
	"gs_free_cells", "gs_procs",    "gs_marks",         "gs_marks_by_tid", "gs_cgroup",
	"gs_cell_of",    "gs_py_procs", "gs_py_scratch",    "gs_py_codes",     "gs_stack_ids",
	"gs_modes",      "gs_accounts", "gs_free_accounts", "gs_account_marks"};

/* Room for Python stacks: made small when none are asked for. */
static const char *const python_maps[] = {"gs_py_procs", "gs_py_codes", "gs_stack_ids",
					  "gs_py_scratch"};

/* Made small when threads have no account. */
static const char *const account_maps[] = {"gs_accounts", "gs_free_accounts"};

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

static void fill_descriptions(volatile struct gs_func_desc *desc)
{
	for (unsigned id = 1; id <= gs_func_count(); id++) {
		struct gs_func_desc *d = (struct gs_func_desc *)&desc[id];

		*d = gs_func_by_id(id)->desc;
		d->inside = (uint8_t)gs_func_inside(gs_func_by_id(id));
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
	/* Before Linux 6.1 a timer's program may not use a map that allocates. */
	if (r == 0 && config->sample_period_ns)
		r = bpf_map__set_map_flags(procs, 0);

	/* The storage map's type is unknown to kernels that lack it; it must not even be made. */
	if (r == 0 && !f->task_storage)
		r = bpf_map__set_autocreate(unused, false);
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
	return prepare_maps(object, f, config, ring_bytes, k->cuda->obj);
}

static int load_cuda(struct uprobe_kernel_side *k, const struct gs_kernel_config *config,
		     const struct features *f, uint32_t ring_bytes)
{
	struct gs_cuda_bpf *s = gs_cuda_bpf__open();
	int r;

	if (!s)
		return -errno;
	k->cuda = s;
	*(struct gs_kernel_config *)&s->rodata->gs_config = *config;
	fill_descriptions(s->rodata->gs_desc);
	choose_programs(f, s->progs.gs_cuda_session, s->progs.gs_cuda_enter,
			s->progs.gs_cuda_leave);
	r = prepare_maps(s->obj, f, config, ring_bytes, NULL);
	if (r == 0)
		r = gs_cuda_bpf__load(s);
	k->session[GS_FAMILY_CUDA] = f->session ? s->progs.gs_cuda_session : NULL;
	k->enter[GS_FAMILY_CUDA] = f->session ? NULL : s->progs.gs_cuda_enter;
	k->leave[GS_FAMILY_CUDA] = f->session ? NULL : s->progs.gs_cuda_leave;
	return r;
}

static int load_nccl(struct uprobe_kernel_side *k, const struct gs_kernel_config *config,
		     const struct features *f, uint32_t ring_bytes)
{
	struct gs_nccl_bpf *s = gs_nccl_bpf__open();
	int r;

	if (!s)
		return -errno;
	*(struct gs_kernel_config *)&s->rodata->gs_config = *config;
	fill_descriptions(s->rodata->gs_desc);
	choose_programs(f, s->progs.gs_nccl_session, s->progs.gs_nccl_enter,
			s->progs.gs_nccl_leave);
	r = prepare_maps(s->obj, f, config, ring_bytes, k->cuda->obj) ?: gs_nccl_bpf__load(s);
	if (r < 0) {
		gs_nccl_bpf__destroy(s);
		return r;
	}
	k->nccl = s;
	k->session[GS_FAMILY_NCCL] = f->session ? s->progs.gs_nccl_session : NULL;
	k->enter[GS_FAMILY_NCCL] = f->session ? NULL : s->progs.gs_nccl_enter;
	k->leave[GS_FAMILY_NCCL] = f->session ? NULL : s->progs.gs_nccl_leave;
	return 0;
}

static int load_mpi(struct uprobe_kernel_side *k, const struct gs_kernel_config *config,
		    const struct features *f, uint32_t ring_bytes)
{
	struct gs_mpi_bpf *s = gs_mpi_bpf__open();
	int r;

	if (!s)
		return -errno;
	*(struct gs_kernel_config *)&s->rodata->gs_config = *config;
	fill_descriptions(s->rodata->gs_desc);
	choose_programs(f, s->progs.gs_mpi_session, s->progs.gs_mpi_enter, s->progs.gs_mpi_leave);
	r = prepare_maps(s->obj, f, config, ring_bytes, k->cuda->obj) ?: gs_mpi_bpf__load(s);
	if (r < 0) {
		gs_mpi_bpf__destroy(s);
		return r;
	}
	k->mpi = s;
	k->session[GS_FAMILY_MPI] = f->session ? s->progs.gs_mpi_session : NULL;
	k->enter[GS_FAMILY_MPI] = f->session ? NULL : s->progs.gs_mpi_enter;
	k->leave[GS_FAMILY_MPI] = f->session ? NULL : s->progs.gs_mpi_leave;
	return 0;
}

static int load_torch(struct uprobe_kernel_side *k, const struct gs_kernel_config *config,
		      const struct features *f, uint32_t ring_bytes)
{
	struct gs_torch_bpf *s = gs_torch_bpf__open();
	int r;

	if (!s)
		return -errno;
	k->torch = s;
	*(struct gs_kernel_config *)&s->rodata->gs_config = *config;
	choose_site_program(f, s->progs.gs_torch_site);
	r = prepare_maps(s->obj, f, config, ring_bytes, k->cuda->obj) ?: gs_torch_bpf__load(s);
	k->enter[GS_FAMILY_TORCH] = s->progs.gs_torch_site;
	return r;
}

static int load_span(struct uprobe_kernel_side *k, const struct gs_kernel_config *config,
		     const struct features *f, uint32_t ring_bytes)
{
	struct gs_span_bpf *s = gs_span_bpf__open();
	int r;

	if (!s)
		return -errno;
	k->span = s;
	*(struct gs_kernel_config *)&s->rodata->gs_config = *config;
	choose_site_program(f, s->progs.gs_span_site);
	r = prepare_maps(s->obj, f, config, ring_bytes, k->cuda->obj) ?: gs_span_bpf__load(s);
	k->enter[GS_FAMILY_SPAN] = s->progs.gs_span_site;
	return r;
}

/* Needed beside every family that catches ends of functions which may throw. */
static int load_unwind(struct uprobe_kernel_side *k, const struct gs_kernel_config *config,
		       const struct features *f, uint32_t ring_bytes)
{
	struct gs_unwind_bpf *s = gs_unwind_bpf__open();
	int r;

	if (!s)
		return -errno;
	k->unwind = s;
	*(struct gs_kernel_config *)&s->rodata->gs_config = *config;
	choose_site_program(f, s->progs.gs_unwind_site);
	r = prepare_maps(s->obj, f, config, ring_bytes, k->cuda->obj) ?: gs_unwind_bpf__load(s);
	k->enter[GS_FAMILY_UNWIND] = s->progs.gs_unwind_site;
	return r;
}

static int load_pyspan(struct uprobe_kernel_side *k, const struct gs_kernel_config *config,
		       const struct features *f, uint32_t ring_bytes)
{
	struct gs_pyspan_bpf *s = gs_pyspan_bpf__open();
	int r;

	if (!s)
		return -errno;
	k->pyspan = s;
	*(struct gs_kernel_config *)&s->rodata->gs_config = *config;
	choose_site_program(f, s->progs.gs_pyspan_site);
	r = prepare_maps(s->obj, f, config, ring_bytes, k->cuda->obj) ?: gs_pyspan_bpf__load(s);
	k->enter[GS_FAMILY_PYSPAN] = s->progs.gs_pyspan_site;
	return r;
}

static int load_pycall(struct uprobe_kernel_side *k, const struct gs_uprobe_options *options,
		       const struct gs_kernel_config *config, const struct features *f,
		       uint32_t ring_bytes, struct gs_err *err)
{
	struct gs_pycall_bpf *s = gs_pycall_bpf__open();
	int r;

	if (!s)
		return -errno;
	k->pycall = s;
	*(struct gs_kernel_config *)&s->rodata->gs_config = *config;
	choose_site_program(f, s->progs.gs_pycall_site);
	r = uprobe_pycall_fill(s, options, err);
	if (r == 0)
		r = prepare_maps(s->obj, f, config, ring_bytes, k->cuda->obj);
	if (r == 0)
		r = gs_pycall_bpf__load(s);
	k->enter[GS_FAMILY_PYCALL] = s->progs.gs_pycall_site;
	return r;
}

/* Without them described functions that may throw are refused one by one. */
static int load_uscope(struct uprobe_kernel_side *k, const struct gs_kernel_config *config,
		       const struct features *f, uint32_t ring_bytes)
{
	struct gs_uscope_bpf *s = gs_uscope_bpf__open();
	int r;

	if (!s)
		return -errno;
	*(struct gs_kernel_config *)&s->rodata->gs_config = *config;
	choose_site_program(f, s->progs.gs_uscope_site);
	r = prepare_maps(s->obj, f, config, ring_bytes, k->cuda->obj);
	if (r == 0)
		r = gs_uscope_bpf__load(s);
	if (r < 0) {
		gs_uscope_bpf__destroy(s);
		return r;
	}
	k->uscope = s;
	k->enter[GS_FAMILY_USCOPE] = s->progs.gs_uscope_site;
	return 0;
}

static int load_scopes(struct uprobe_kernel_side *k, const struct gs_uprobe_options *options,
		       const struct gs_kernel_config *config, const struct features *f,
		       uint32_t ring_bytes, struct gs_err *err)
{
	bool operators = options->layers >> GS_LAYER_TORCH & 1;
	bool users = options->funcs && uprobe_users_may_throw(options->users);
	int r = 0;

	if (options->python_gc || options->python_gil)
		r = load_pyspan(k, config, f, ring_bytes);
	if (r == 0 && config->py_func)
		r = load_pycall(k, options, config, f, ring_bytes, err);
	if (r < 0)
		return gs_err_set(err, r, "the kernel refused the programs for Python: %s",
				  strerror(-r));
	r = operators || users ? load_unwind(k, config, f, ring_bytes) : 0;
	if (r < 0 && operators)
		return gs_err_set(
			err, r == -EPERM || r == -EINVAL ? -ENOTSUP : r,
			"operators cannot be traced here: this kernel refuses the program "
			"that lets C++ exceptions pass probed functions (%s); a kernel "
			"locked down by Secure Boot does, and one without CAP_SYS_ADMIN "
			"for us",
			strerror(-r));
	if (r == 0 && users)
		r = load_uscope(k, config, f, ring_bytes);
	if (r < 0)
		gs_log(1, "the kernel refused the programs for functions that may throw: %s",
		       strerror(-r));
	r = operators ? load_torch(k, config, f, ring_bytes) : 0;
	if (r == 0 && config->span_first)
		r = load_span(k, config, f, ring_bytes);
	if (r < 0)
		return gs_err_set(err, r, "the kernel refused the programs for operators: %s",
				  strerror(-r));
	return 0;
}

static int load_task(struct uprobe_kernel_side *k, const struct gs_kernel_config *config,
		     const struct features *f, uint32_t ring_bytes)
{
	struct gs_task_bpf *s = gs_task_bpf__open();
	struct bpf_program *progs[3];
	int r;

	if (!s)
		return -errno;
	progs[0] = s->progs.gs_task_fork;
	progs[1] = s->progs.gs_task_exec;
	progs[2] = s->progs.gs_task_exit;
	*(struct gs_kernel_config *)&s->rodata->gs_config = *config;
	for (size_t i = 0; i < GS_ARRAY_LEN(progs); i++)
		bpf_program__set_autoload(progs[i], true);
	r = prepare_maps(s->obj, f, config, ring_bytes, k->cuda->obj);
	if (r == 0)
		r = gs_task_bpf__load(s);
	for (size_t i = 0; r == 0 && i < GS_ARRAY_LEN(progs); i++) {
		k->task_links[i] = bpf_program__attach(progs[i]);
		if (!k->task_links[i])
			r = -errno;
	}
	k->task = s;
	return r;
}

static int load_sample(struct uprobe_kernel_side *k, const struct gs_kernel_config *config,
		       const struct features *f, uint32_t ring_bytes, struct gs_err *err)
{
	struct gs_sample_bpf *s = gs_sample_bpf__open();
	int r;

	if (!s)
		return -errno;
	k->sample = s;
	*(struct gs_kernel_config *)&s->rodata->gs_config = *config;
	bpf_program__set_autoload(s->progs.gs_sample, true);
	r = prepare_maps(s->obj, f, config, ring_bytes, k->cuda->obj);
	if (r == 0)
		r = gs_sample_bpf__load(s);
	if (r < 0)
		return gs_err_set(err, r, "the kernel refused the program that takes samples: %s",
				  strerror(-r));
	return uprobe_sample_start(k, s->progs.gs_sample, config->sample_period_ns, err);
}

static int load_user(struct uprobe_kernel_side *k, const struct gs_kernel_config *config,
		     const struct features *f, uint32_t ring_bytes, uint32_t n_threads,
		     uint32_t n_rows)
{
	struct gs_user_bpf *s = gs_user_bpf__open();
	int r;

	if (!s)
		return -errno;
	k->user = s;
	*(struct gs_kernel_config *)&s->rodata->gs_config = *config;
	choose_programs(f, s->progs.gs_user_session, s->progs.gs_user_enter,
			s->progs.gs_user_leave);
	r = prepare_maps(s->obj, f, config, ring_bytes, k->cuda->obj);
	if (r == 0)
		r = bpf_map__set_max_entries(s->maps.gs_user_threads, n_threads);
	if (r == 0)
		r = bpf_map__set_max_entries(s->maps.gs_user_rows, n_rows);
	if (r == 0)
		r = gs_user_bpf__load(s);
	k->session[GS_FAMILY_USER] = f->session ? s->progs.gs_user_session : NULL;
	k->enter[GS_FAMILY_USER] = f->session ? NULL : s->progs.gs_user_enter;
	k->leave[GS_FAMILY_USER] = f->session ? NULL : s->progs.gs_user_leave;
	return r;
}

static void *map_shared(struct bpf_map *map, bool writable)
{
	size_t bytes = (size_t)bpf_map__max_entries(map) * ((bpf_map__value_size(map) + 7u) & ~7u);
	void *p = mmap(NULL, bytes, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED,
		       bpf_map__fd(map), 0);

	return p == MAP_FAILED ? NULL : p;
}

static int open_window(const struct bpf_map *map, struct gs_window **ret_window, void *ret_base)
{
	return gs_window_open(bpf_map__fd(map), bpf_map__max_entries(map), bpf_map__value_size(map),
			      ret_window, ret_base);
}

static int map_all(struct uprobe_kernel_side *k, ring_buffer_sample_fn on_event, void *ctx)
{
	int r = open_window(k->cuda->maps.gs_threads, &k->thread_window, &k->threads);

	if (r == 0)
		r = open_window(k->cuda->maps.gs_cells, &k->cell_window, &k->cells);
	if (r == 0 && k->mpi)
		r = open_window(k->mpi->maps.gs_mpi_rows, &k->mpi_window, &k->mpi_rows);
	if (r < 0)
		return r;
	k->state = map_shared(k->cuda->maps.gs_state, true);
	k->ring = ring_buffer__new(bpf_map__fd(k->cuda->maps.gs_ring), on_event, ctx, NULL);
	k->modes = map_shared(k->cuda->maps.gs_modes, true);
	if (!k->state || !k->modes || !k->ring)
		return -errno;
	k->py_procs_fd = bpf_map__fd(k->cuda->maps.gs_py_procs);
	k->procs_fd = bpf_map__fd(k->cuda->maps.gs_procs);
	k->cgroup_fd = bpf_map__fd(k->cuda->maps.gs_cgroup);
	k->free_threads_fd = bpf_map__fd(k->cuda->maps.gs_free_threads);
	k->free_cells_fd = bpf_map__fd(k->cuda->maps.gs_free_cells);
	k->cell_of_fd = bpf_map__fd(k->cuda->maps.gs_cell_of);
	return 0;
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
	if (gs_log_level() < 3)
		return 0;
	return vfprintf(stderr, fmt, ap);
}

int uprobe_kernel_load(struct uprobe_kernel_side *k, const struct gs_uprobe_options *options,
		       const struct gs_kernel_config *config, const struct features *f,
		       ring_buffer_sample_fn on_event, void *ctx, struct gs_err *err)
{
	uint32_t ring_bytes = options->ring_bytes ? options->ring_bytes : 16u << 20;
	int r;

	*k = (struct uprobe_kernel_side){0};
	libbpf_set_print(silence_libbpf);
	r = load_cuda(k, config, f, ring_bytes);
	if (r < 0)
		return gs_err_set(err, r, "the kernel refused the probe programs: %s%s",
				  strerror(-r),
				  r == -EPERM ? " (is this a container without CAP_BPF?)" : "");
	r = load_nccl(k, config, f, ring_bytes);
	if (r < 0)
		gs_log(1, "the kernel refused the NCCL programs (%s): NCCL is not traced",
		       strerror(-r));
	if ((options->layers ? options->layers : GS_LAYERS_DEFAULT) >> GS_LAYER_MPI & 1)
		r = load_mpi(k, config, f, ring_bytes);
	if (r < 0)
		gs_log(1, "the kernel refused the MPI programs (%s): MPI is not traced",
		       strerror(-r));
	if (config->scopes) {
		r = load_scopes(k, options, config, f, ring_bytes, err);
		if (r < 0)
			return r;
	}
	r = load_task(k, config, f, ring_bytes);
	if (r < 0)
		return gs_err_set(err, r, "the kernel refused to follow processes: %s",
				  strerror(-r));
	if (config->sample_period_ns)
		r = load_sample(k, config, f, ring_bytes, err);
	if (r < 0)
		return r;
	if (gs_user_set_n(options->users)) {
		r = load_user(k, config, f, ring_bytes, GS_THREAD_MAX, GS_USER_ROW_MAX);
		if (r < 0)
			return gs_err_set(err, r,
					  "the kernel refused the program of described "
					  "probes: %s",
					  strerror(-r));
	}
	r = map_all(k, on_event, ctx);
	if (r == 0 && config->modes) {
		k->group_used = calloc(GS_GROUP_MAX, sizeof(*k->group_used));
		r = k->group_used ? 0 : -ENOMEM;
	}
	if (r < 0)
		return gs_err_set(err, r, "cannot map the kernel's counters: %s", strerror(-r));
	return 0;
}

static int drop_event(void *ctx, void *data, size_t bytes)
{
	return 0;
}

#define ALONE_RING_BYTES (1u << 20)
#define ALONE_THREADS    8
#define ALONE_CELLS      64
#define ALONE_ROWS       8

static int load_cuda_alone(struct uprobe_kernel_side *k, const struct gs_kernel_config *config,
			   const struct features *f)
{
	struct gs_cuda_bpf *s = gs_cuda_bpf__open();
	int r;

	if (!s)
		return -errno;
	k->cuda = s;
	*(struct gs_kernel_config *)&s->rodata->gs_config = *config;
	fill_descriptions(s->rodata->gs_desc);
	choose_programs(f, s->progs.gs_cuda_session, s->progs.gs_cuda_enter,
			s->progs.gs_cuda_leave);
	r = prepare_maps(s->obj, f, config, ALONE_RING_BYTES, NULL);
	if (r == 0)
		r = bpf_map__set_max_entries(s->maps.gs_threads, ALONE_THREADS);
	if (r == 0)
		r = bpf_map__set_max_entries(s->maps.gs_cells, ALONE_CELLS);
	if (r == 0)
		r = gs_cuda_bpf__load(s);
	k->session[GS_FAMILY_CUDA] = f->session ? s->progs.gs_cuda_session : NULL;
	k->enter[GS_FAMILY_CUDA] = f->session ? NULL : s->progs.gs_cuda_enter;
	k->leave[GS_FAMILY_CUDA] = f->session ? NULL : s->progs.gs_cuda_leave;
	return r;
}

int uprobe_kernel_load_alone(struct uprobe_kernel_side *k, const struct gs_kernel_config *config,
			     const struct features *f, bool with_scopes, bool with_users)
{
	int r;

	*k = (struct uprobe_kernel_side){0};
	libbpf_set_print(silence_libbpf);
	r = load_cuda_alone(k, config, f);
	if (r == 0 && with_scopes)
		r = load_torch(k, config, f, ALONE_RING_BYTES);
	if (r == 0 && with_users)
		r = load_user(k, config, f, ALONE_RING_BYTES, ALONE_THREADS, ALONE_ROWS);
	if (r == 0)
		r = map_all(k, drop_event, NULL);
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
	if (!k->cuda)
		return;
	uprobe_sample_stop(k);
	uprobe_account_unload(k);
	ring_buffer__free(k->ring);
	unmap_values(k->state, k->cuda->maps.gs_state);
	gs_window_close(&k->thread_window);
	gs_window_close(&k->cell_window);
	unmap_values(k->modes, k->cuda->maps.gs_modes);
	gs_window_close(&k->mpi_window);
	for (size_t i = 0; i < GS_ARRAY_LEN(k->task_links); i++)
		bpf_link__destroy(k->task_links[i]);
	gs_sample_bpf__destroy(k->sample);
	gs_user_bpf__destroy(k->user);
	gs_task_bpf__destroy(k->task);
	gs_unwind_bpf__destroy(k->unwind);
	gs_torch_bpf__destroy(k->torch);
	gs_pycall_bpf__destroy(k->pycall);
	gs_uscope_bpf__destroy(k->uscope);
	gs_span_bpf__destroy(k->span);
	gs_pyspan_bpf__destroy(k->pyspan);
	gs_mpi_bpf__destroy(k->mpi);
	gs_nccl_bpf__destroy(k->nccl);
	gs_cuda_bpf__destroy(k->cuda);
	*k = (struct uprobe_kernel_side){0};
}
