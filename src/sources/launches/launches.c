/*
 * Only the functions that the figures need have probes: launches, what NCCL offers, and MPI. Calls
 * of processes that were never reported (children of a job's) count for the job of their parent.
 */
#include "sources/launches/launches.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/foreign.h"
#include "core/base/log.h"
#include "core/base/map.h"
#include "core/base/mem.h"
#include "core/base/vec.h"
#include "model/trace/class.h"
#include "model/trace/library.h"
#include "sources/launches/launches_int.h"
#include "sources/uprobe/uprobe.h"
#include "core/reader/reader.h"

#define RESCAN_NS 1000000000ull

struct sum { /* of one process */
	uint32_t pid, job;
	int32_t rank; /* its launcher's; -1 none */
	bool job_known;
	uint64_t launches, nccl_ns, calls; /* calls: of CUDA and NCCL */
	struct launches_mpi *mpi;          /* owned; NULL: no calls of it */
};

struct follower { /* a process of a job */
	uint32_t job;
	int32_t rank;
};

struct gs_launches {
	struct gs_uprobe *probe;            /* NULL: not needed so far, or not possible */
	struct gs_reader *reader;           /* of files, for the probe and programs; NULL so far */
	struct launches_programs *programs; /* NULL: not asked so far */
	bool want_cuda, want_mpi;
	struct gs_map job_of; /* pid -> job, rank: struct follower */
	struct gs_map sum_of; /* pid -> index of sums */
	struct gs_map hidden; /* job -> 1: a program of it has MPI that cannot be seen */
	struct sum *sums;     /* owned */
	size_t n_sums;
	uint64_t rescan_ns, n_lost, n_late;
	/* Of CUDA and NCCL, and of MPI. */
	uint32_t n_cuda_files, n_cuda_probes, n_mpi_files, n_mpi_probes;
	bool failed, looks_for_hidden; /* the latter: the probe has found such a program */
	/* The first program with a CUDA runtime inside and no symbols; "": none. */
	char hidden_runtime[64];
	char why[256], source[480];
};

int gs_launches_open(bool cuda, bool mpi, struct gs_launches **ret)
{
	struct gs_launches *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->want_cuda = cuda;
	c->want_mpi = mpi;
	c->job_of = GS_MAP_INIT(1u << 16);
	c->sum_of = GS_MAP_INIT(1u << 16);
	c->hidden = GS_MAP_INIT(1u << 16);
	*ret = c;
	return 0;
}

void gs_launches_close(struct gs_launches **ref)
{
	struct gs_launches *c = *ref;

	if (!c)
		return;
	gs_uprobe_free(&c->probe);
	gs_reader_free(&c->reader);
	launches_programs_free(&c->programs);
	gs_map_fini(&c->job_of);
	gs_map_fini(&c->sum_of);
	gs_map_fini(&c->hidden);
	for (size_t i = 0; i < c->n_sums; i++)
		launches_mpi_free(&c->sums[i].mpi);
	free(c->sums);
	free(c);
	*ref = NULL;
}

/* ---- when ---- */

static bool starts_with(const char *name, const char *begin)
{
	return strncmp(name, begin, strlen(begin)) == 0;
}

static const char *file_name_of(const char *path)
{
	const char *name = strrchr(path, '/');

	return name ? name + 1 : path;
}

/* libmpi.so, libmpich.so, libmpi_cray.so. What Open MPI has for other languages calls libmpi.so. */
static bool is_mpi_name(const char *name)
{
	return starts_with(name, "libmpi");
}

static bool start_reader(struct gs_launches *c)
{
	const struct gs_reader_options reads_files = {.name = "files"};
	struct gs_err err = {{0}};
	int r = c->reader ? 0 : gs_reader_new(&reads_files, &c->reader, &err);

	if (r < 0) {
		c->failed = true;
		snprintf(c->why, sizeof(c->why), "%s", gs_err_text(&err, r));
	}
	return r == 0;
}

static bool start_programs(struct gs_launches *c)
{
	return c->programs || launches_programs_new(&c->programs) == 0;
}

struct look { /* at a process */
	struct gs_launches *c;
	uint32_t job;
};

/* A program that MPI is linked into maps no library of it. */
static bool holds_mpi(const struct look *look, const struct gs_mapped_file *program)
{
	struct gs_launches *c = look->c;
	enum launches_holds holds = LAUNCHES_HOLDS_NO_MPI;

	if (start_reader(c) && start_programs(c))
		holds = launches_programs_ask(c->programs, c->reader, program);
	/* Without room its job is taken for one without MPI; that calls are not seen is said. */
	if (holds == LAUNCHES_HOLDS_HIDDEN_MPI)
		(void)gs_map_put(&c->hidden, look->job, 1);
	return holds == LAUNCHES_HOLDS_MPI;
}

static int is_wanted(void *ctx, const struct gs_mapped_file *file)
{
	const char *name = file_name_of(file->path);
	const struct look *look = ctx;
	const struct gs_launches *c = look->c;

	if (c->want_mpi && (is_mpi_name(name) || (file->is_exe && holds_mpi(look, file))))
		return 1;
	return c->want_cuda && gs_layer_file_is_cuda(name);
}

static void on_attach(void *ctx, const struct gs_attach *attach)
{
	struct gs_launches *c = ctx;
	/* Of several layers: CUDA's, or a program that all of it is linked into. */
	bool is_mixed = !attach->layer && launches_programs_any(c->programs);
	bool mpi = attach->layer == GS_LAYER_MPI;

	if (attach->status == 0 && attach->n_probes && (mpi || is_mixed)) {
		c->n_mpi_files++;
		c->n_mpi_probes += attach->n_probes;
	}
	if (attach->status == 0 && attach->n_probes && !mpi) {
		c->n_cuda_files++;
		c->n_cuda_probes += attach->n_probes;
	}
	if (attach->status == -ENOENT && !attach->function && !c->hidden_runtime[0] &&
	    attach->layer == GS_LAYER_CUDA_RUNTIME)
		snprintf(c->hidden_runtime, sizeof(c->hidden_runtime), "%s",
			 file_name_of(attach->path));
	if (attach->status < 0 && start_programs(c) &&
	    launches_programs_add_hidden(c->programs, attach))
		c->looks_for_hidden = true;
	gs_log(GS_LOG_DEBUG, GS_LOG_ATTACH, "%s: %u probes of %s", attach->path, attach->n_probes,
	       mpi        ? "MPI"
	       : is_mixed ? "CUDA, NCCL or MPI"
			  : "CUDA and NCCL");
}

static void on_late(void *ctx, const char *path, pid_t pid, uint64_t gap_ns)
{
	struct gs_launches *c = ctx;

	c->n_late++;
	gs_log(GS_LOG_DEBUG, GS_LOG_ATTACH,
	       "%s: mapped by process %d %.1f ms before its probes were in place", path, pid,
	       (double)gap_ns / 1e6);
}

static bool start_counting(struct gs_launches *c, uint32_t pid)
{
	static const char *const globs[] = {"MPI_*",     "cudaLaunch*",    "cudaGraphLaunch*",
					    "cuLaunch*", "cuGraphLaunch*", "nccl*"};
	const unsigned first_glob = c->want_mpi ? 0 : 1, end_glob = c->want_cuda ? 6 : 1;
	const uint32_t cuda_layers =
		1u << GS_LAYER_CUDA_RUNTIME | 1u << GS_LAYER_CUDA_DRIVER | 1u << GS_LAYER_NCCL;
	pid_t first = (pid_t)pid;
	struct gs_uprobe_options o = {
		.size = sizeof(o),
		.pids = &first,
		.n_pids = 1,
		.follow = true,
		.uid = -1,
		.layers = (c->want_cuda ? cuda_layers : 0) | (c->want_mpi ? 1u << GS_LAYER_MPI : 0),
		.globs = globs + first_glob,
		.n_globs = end_glob - first_glob,
		.ring_bytes = 256 << 10, /* of processes and communicators; calls are added up */
		.on_attach = on_attach,
		.on_late = on_late,
		.ctx = c,
	};
	struct gs_err err = {{0}};
	int r;

	if (!start_reader(c))
		return false;
	o.reader = c->reader;
	r = gs_uprobe_new(&o, &c->probe, &err);
	if (r < 0) {
		c->failed = true;
		snprintf(c->why, sizeof(c->why), "%s", gs_err_text(&err, r));
		return false;
	}
	return true;
}

static void attach_process(struct gs_launches *c, uint32_t pid)
{
	if (!c->probe) {
		if (!start_counting(c, pid))
			return;
		/* The others may map it later: the watch sees that. */
		gs_map_for_each (&c->job_of, at)
			gs_uprobe_follow(c->probe, (pid_t)at->key);
	}
	gs_uprobe_follow(c->probe, (pid_t)pid);
	gs_uprobe_attach_process(c->probe, (pid_t)pid);
}

static uint64_t pack_follower(struct follower f)
{
	return (uint64_t)f.job << 32 | (uint32_t)f.rank;
}

static struct follower unpack_follower(uint64_t v)
{
	return (struct follower){.job = (uint32_t)(v >> 32), .rank = (int32_t)v};
}

/* A process that maps the library later is seen at a later look. */
static void scan_process(struct gs_launches *c, uint32_t pid, uint32_t job)
{
	struct look look = {c, job};

	if (!c->failed && gs_library_scan_process((pid_t)pid, is_wanted, &look) > 0)
		attach_process(c, pid);
}

static int check_program(void *ctx, const struct gs_mapped_file *file)
{
	if (file->is_exe)
		(void)holds_mpi(ctx, file);
	return file->is_exe;
}

/* The probe has reported a file, and not whose it is: which jobs run it. */
static void find_hidden(struct gs_launches *c)
{
	uint64_t one;

	gs_map_for_each (&c->job_of, at) {
		struct look look = {c, unpack_follower(at->value).job};

		if (!gs_map_get(&c->hidden, look.job, &one))
			gs_library_scan_process((pid_t)at->key, check_program, &look);
	}
}

void gs_launches_follow(struct gs_launches *c, uint32_t pid, uint32_t job, int32_t rank)
{
	uint64_t at;

	if (gs_map_put(&c->job_of, pid, pack_follower((struct follower){job, rank})) < 0)
		c->n_lost++;
	if (gs_map_get(&c->sum_of, pid, &at)) {
		c->sums[at].job = job;
		c->sums[at].rank = rank;
		c->sums[at].job_known = true;
	}
	if (c->probe)
		attach_process(c, pid);
	else
		scan_process(c, pid, job);
}

/* ---- what ---- */

static struct sum *sum_of(struct gs_launches *c, uint32_t pid)
{
	uint64_t at, job;

	if (gs_map_get(&c->sum_of, pid, &at))
		return &c->sums[at];
	if (!gs_vec_reserve_next(&c->sums, c->n_sums))
		return NULL;
	if (gs_map_put(&c->sum_of, pid, c->n_sums) < 0)
		return NULL;
	c->sums[c->n_sums] = (struct sum){.pid = pid, .rank = -1};
	if (gs_map_get(&c->job_of, pid, &job)) {
		c->sums[c->n_sums].job = unpack_follower(job).job;
		c->sums[c->n_sums].rank = unpack_follower(job).rank;
		c->sums[c->n_sums].job_known = true;
	}
	return &c->sums[c->n_sums++];
}

static void on_cell(void *ctx, const struct gs_thread *thread, const struct gs_cell *before,
		    const struct gs_cell *now)
{
	const struct gs_func *f = gs_func_by_id(now->func);
	struct gs_launches *c = ctx;
	struct sum *s = sum_of(c, thread->pid);

	if (!s || !f) {
		c->n_lost++;
		return;
	}
	if (f->desc.layer == GS_LAYER_MPI) {
		if (launches_mpi_add_calls(&s->mpi, f, before, now) < 0)
			c->n_lost++;
		return;
	}
	s->calls += now->calls - before->calls;
	if (f->desc.op == GS_CLASS_LAUNCH || f->desc.op == GS_CLASS_GRAPH_LAUNCH)
		s->launches += now->calls - before->calls;
	if (f->desc.layer == GS_LAYER_NCCL)
		s->nccl_ns += now->total_ns - before->total_ns;
}

static void on_mpi_row(void *ctx, const struct gs_mpi_row *before, const struct gs_mpi_row *now)
{
	struct gs_launches *c = ctx;
	struct sum *s = sum_of(c, now->key.pid);

	if (!s || launches_mpi_add_row(&s->mpi, before, now) < 0)
		c->n_lost++;
}

/* Communicators of MPI: those of NCCL say nothing that is shown here. */
static void on_event(void *ctx, const struct gs_event *event)
{
	const struct gs_event_comm *e = (const struct gs_event_comm *)event;
	const struct gs_func *f;
	struct gs_launches *c = ctx;
	struct sum *s;

	if (event->kind != GS_EV_COMM)
		return;
	f = gs_func_by_id(e->func);
	if (!f || f->desc.layer != GS_LAYER_MPI)
		return;
	s = sum_of(c, e->pid);
	if (!s || launches_mpi_add_comm(&s->mpi, e) < 0)
		c->n_lost++;
}

static void harvest_counts(struct gs_launches *c)
{
	const struct gs_uprobe_handler h = {
		.event = on_event, .cell = on_cell, .mpi = on_mpi_row, .ctx = c};

	while (gs_uprobe_poll(c->probe, &h) > 0)
		;
	gs_uprobe_drain(c->probe, &h);
}

void gs_launches_poll(struct gs_launches *c)
{
	uint64_t now_ns = gs_clock_mono_ns();

	if (!c->probe) {
		if (c->failed || now_ns - c->rescan_ns < RESCAN_NS)
			return;
		c->rescan_ns = now_ns;
		gs_map_for_each (&c->job_of, at) {
			if (!c->probe)
				scan_process(c, (uint32_t)at->key, unpack_follower(at->value).job);
		}
		return;
	}
	gs_uprobe_watch_poll(c->probe);
	if (now_ns - c->rescan_ns >= RESCAN_NS) {
		c->rescan_ns = now_ns;
		gs_uprobe_rescan(c->probe);
		if (c->looks_for_hidden)
			find_hidden(c);
	}
	harvest_counts(c);
}

static int copy_mpi(const struct gs_launches *c, uint32_t job, struct gs_job_mpi *mpi)
{
	int r = 0;

	for (size_t i = 0; i < c->n_sums && r == 0; i++) {
		const struct sum *s = &c->sums[i];
		struct gs_job_mpi_rank *rank;

		if (!s->mpi || !s->job_known || s->job != job)
			continue;
		rank = gs_job_mpi_add(mpi);
		if (!rank)
			return -ENOMEM;
		rank->pid = s->pid;
		rank->rank = s->rank;
		r = launches_mpi_copy(s->mpi, rank);
	}
	gs_job_mpi_sort(mpi);
	return r;
}

static void use_of_cuda(const struct gs_launches *c, uint32_t job, struct gs_job_usage *u)
{
	uint64_t launches = 0, nccl_ns = 0;
	size_t n = 0;

	for (size_t i = 0; i < c->n_sums; i++) {
		const struct sum *s = &c->sums[i];

		if (!s->job_known || s->job != job || !s->calls)
			continue;
		n++;
		launches += s->launches;
		nccl_ns += s->nccl_ns;
	}
	u->known |= 1u << GS_JOB_KNOWS_CUDA;
	u->launches = (double)launches / (u->n_gpus > 1 ? u->n_gpus : 1);
	if (n && u->elapsed_ns)
		u->nccl_ratio = (double)nccl_ns / (double)n / (double)u->elapsed_ns;
}

void gs_launches_usage(struct gs_launches *c, uint32_t job, struct gs_job_usage *u,
		       struct gs_job_mpi *mpi)
{
	uint64_t one;

	*mpi = (struct gs_job_mpi){0};
	u->launches = u->nccl_ratio = NAN;
	if (c->probe)
		harvest_counts(c);
	if (c->n_cuda_files)
		use_of_cuda(c, job, u);
	if (!c->want_mpi || c->failed)
		return;
	if (copy_mpi(c, job, mpi) == 0) {
		/* No rank of a program that hides its calls is not no rank. */
		if (mpi->n_ranks || !gs_map_get(&c->hidden, job, &one))
			u->known |= 1u << GS_JOB_KNOWS_MPI;
		return;
	}
	c->n_lost++;
	gs_job_mpi_fini(mpi);
}

static const char *source_of(struct gs_launches *c, const char *what, uint32_t n_files,
			     uint32_t n_probes)
{
	if (c->failed)
		snprintf(c->source, sizeof(c->source), "no probes on %s: %s", what, c->why);
	else if (!n_files)
		snprintf(c->source, sizeof(c->source), "no readable library of %s is loaded", what);
	else
		snprintf(c->source, sizeof(c->source),
			 "probes on %s: %u in %u files, added up in the kernel", what, n_probes,
			 n_files);
	return c->source;
}

static const char *source_of_mpi(struct gs_launches *c)
{
	const struct launches_hidden *first;
	size_t n_hidden = launches_programs_hidden(c->programs, &first), n;

	source_of(c, "MPI", c->n_mpi_files, c->n_mpi_probes);
	if (!n_hidden || c->failed)
		return c->source;
	n = c->n_mpi_files ? strlen(c->source) : 0;
	snprintf(c->source + n, sizeof(c->source) - n,
		 "%s%s: MPI is linked into it, and it has no symbols%s",
		 n ? "; not in " : "no probes in ", first->name,
		 n_hidden > 1 ? "; others likewise" : "");
	return c->source;
}

static const char *source_of_cuda(struct gs_launches *c)
{
	size_t n;

	source_of(c, c->n_cuda_files ? "launches and on NCCL" : "CUDA or NCCL", c->n_cuda_files,
		  c->n_cuda_probes);
	if (!c->hidden_runtime[0] || c->failed)
		return c->source;
	n = strlen(c->source);
	snprintf(
		c->source + n, sizeof(c->source) - n,
		"; not in %s: it has CUDA code and no symbols, only its calls of the driver are seen",
		c->hidden_runtime);
	return c->source;
}

const char *gs_launches_source(struct gs_launches *c, enum gs_job_family family)
{
	return family == GS_JOB_KNOWS_MPI ? source_of_mpi(c) : source_of_cuda(c);
}

/* What is no loss of calls. */
static bool is_in_sums(enum gs_loss cause)
{
	return cause == GS_LOSS_SIZE || cause == GS_LOSS_PEERS || cause == GS_LOSS_NOTICE ||
	       cause == GS_LOSS_FIRST || cause == GS_LOSS_MAPS;
}

/* Of calls that are in the sums, what is missing. */
static uint64_t missing_of_mpi(const struct gs_launches *c, const char **ret_what)
{
	static const struct {
		enum gs_loss cause;
		const char *what;
	} parts[] = {
		{GS_LOSS_SIZE,
		 "MPI calls have unknown bytes (derived datatypes of MPICH, communicators made before)"},
		{GS_LOSS_PEERS, "transfers of MPI are counted by function only: too many peers"},
		{GS_LOSS_NOTICE, "MPI communicators were not seen: ranks may be missing"},
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(parts); i++) {
		uint64_t n = gs_uprobe_lost(c->probe, GS_LAYER_MPI, parts[i].cause);

		*ret_what = parts[i].what;
		if (n)
			return n;
	}
	return 0;
}

/* ret_cause: of those that the probes lost, the last one; GS_LOSS_NONE: lost here. */
static uint64_t lost_calls(const struct gs_launches *c, unsigned *ret_cause)
{
	uint64_t n = c->n_lost, by_cause;

	*ret_cause = GS_LOSS_NONE;

	for (size_t i = 0; i < c->n_sums; i++)
		n += c->sums[i].job_known ? 0 : c->sums[i].calls + (c->sums[i].mpi != NULL);
	for (unsigned layer = 0; c->probe && layer < GS_LAYER_COUNT; layer++)
		for (unsigned cause = 0; cause < GS_LOSS_COUNT; cause++) {
			if (is_in_sums((enum gs_loss)cause))
				continue;
			by_cause = gs_uprobe_lost(c->probe, layer, (enum gs_loss)cause);
			*ret_cause = by_cause ? cause : *ret_cause;
			n += by_cause;
		}
	return n;
}

/* Of what is seen. */
static void losses_of_calls(const struct gs_launches *c, char *out, size_t bytes)
{
	const char *what = "";
	unsigned cause;
	uint64_t n = lost_calls(c, &cause), n_maps;

	out[0] = '\0';
	if (n) {
		snprintf(out, bytes, "%llu calls of CUDA, NCCL or MPI are not in the sums%s%s",
			 (unsigned long long)n, cause ? ": " : "",
			 cause ? gs_loss_text(cause) : "");
		return;
	}
	n = c->probe ? missing_of_mpi(c, &what) : 0;
	/* Of all processes of the machine; what they were about is found a moment later. */
	n_maps = c->probe ? gs_uprobe_lost(c->probe, GS_LAYER_NONE, GS_LOSS_MAPS) : 0;
	if (n)
		snprintf(out, bytes, "%llu %s", (unsigned long long)n, what);
	else if (gs_guard_n_refused())
		snprintf(
			out, bytes,
			"%llu files of CUDA, NCCL or MPI were left out, to limit what one user can cost",
			(unsigned long long)gs_guard_n_refused());
	else if (c->n_late)
		snprintf(out, bytes, "first calls into %llu libraries, mapped before their probes",
			 (unsigned long long)c->n_late);
	else if (n_maps)
		snprintf(
			out, bytes,
			"%llu notices of newly mapped libraries were dropped: first calls may be missing",
			(unsigned long long)n_maps);
}

void gs_launches_losses(const struct gs_launches *c, char *out, size_t bytes)
{
	const struct launches_hidden *first;
	size_t n_hidden = launches_programs_hidden(c->programs, &first), n;

	losses_of_calls(c, out, bytes);
	n = strlen(out);
	if (n_hidden)
		snprintf(out + n, bytes - n, "%s%s: %s", n ? "; " : "", first->name, first->reason);
	n = strlen(out);
	if (n_hidden > 1)
		snprintf(out + n, bytes - n, " (and %zu other programs)", n_hidden - 1);
}
