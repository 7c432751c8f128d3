/* By which door the calls of a process are seen, and when that is known. */
#include "pipeline/inside/inside_int.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/foreign.h"
#include "core/base/mem.h"
#include "model/trace/func.h"
#include "model/trace/library.h"

#define ASK_NS      50000000ull    /* between two looks for a file that was not there */
#define GRACE_NS    200000000ull   /* for the loader, which maps our library soon after a program */
#define OPS_WAIT_NS 10000000000ull /* from PyTorch's being mapped to its being whole */

/* Those of which a process is seen from inside or by probes. */
static const struct {
	enum gs_companion_door door;
	const char *library; /* that is mapped in a process which may be seen by it */
	const char *what;    /* is seen by it, in words */
} doors[] = {
	{GS_COMPANION_CALLS, "/libgpuscope_companion.so", "libraries of CUDA or NCCL"},
	{GS_COMPANION_OPS, "/libgpuscope_companion_ops.so", "PyTorch"},
	{GS_COMPANION_PYTHON, "/libgpuscope_companion_python.so", "Python"},
};

static size_t index_of(enum gs_companion_door door)
{
	size_t i = 0;

	while (doors[i].door != door)
		i++;
	return i;
}

static uint64_t asked_key(uint32_t pid, enum gs_companion_door door)
{
	return (uint64_t)door << 32 | pid;
}

static struct late_process *find_late(struct gs_inside *in, uint32_t pid,
				      enum gs_companion_door door)
{
	for (unsigned i = 0; i < in->n_late; i++)
		if (in->late[i].pid == pid && in->late[i].door == door)
			return &in->late[i];
	return NULL;
}

static void forget_late(struct gs_inside *in, struct late_process *l)
{
	*l = in->late[--in->n_late];
}

void gs_inside_exec(struct gs_inside *in, uint32_t pid, uint64_t mono_ns)
{
	if (!in)
		return;
	gs_companion_files_forget(in->files, pid, mono_ns);
	gs_inside_python_exec(&in->python, pid, mono_ns);
	gs_map_del(&in->expected, pid);
	for (size_t i = 0; i < GS_ARRAY_LEN(doors); i++) {
		struct late_process *l = find_late(in, pid, doors[i].door);

		gs_map_del(&in->asked, asked_key(pid, doors[i].door));
		/* What the new program has mapped may have been asked about before the notice of it came. */
		if (l && l->is_asked)
			forget_late(in, l);
		else if (l && l->since_ns < mono_ns)
			l->since_ns = mono_ns;
	}
}

/* looks: it is asked for seldom, and has to be right. */
static bool has_file(struct gs_inside *in, uint32_t pid, enum gs_companion_door door, bool looks)
{
	uint64_t now_ns = gs_clock_mono_ns(), asked_ns;

	if (gs_companion_files_since(in->files, pid, door))
		return true;
	if (!looks && gs_map_get(&in->asked, asked_key(pid, door), &asked_ns) &&
	    now_ns - asked_ns < ASK_NS)
		return false;
	/* Without it, it is asked for more often. */
	gs_map_put(&in->asked, asked_key(pid, door), now_ns);
	gs_companion_files_scan(in->files);
	return gs_companion_files_since(in->files, pid, door);
}

static enum gs_companion_state ops_state(const struct gs_inside *in, uint32_t pid)
{
	enum gs_companion_state state = GS_COMPANION_WAITS;

	gs_companion_files_state(in->files, pid, &state);
	return state;
}

/* Of the process now, also when it has just begun to be seen: PyTorch's operators are when it has been loaded. */
static bool sees_ops(struct gs_inside *in, uint32_t pid, bool looks)
{
	if (ops_state(in, pid) == GS_COMPANION_WAITS && has_file(in, pid, GS_COMPANION_OPS, looks))
		gs_companion_files_scan(in->files);
	return ops_state(in, pid) == GS_COMPANION_SEES;
}

static uint64_t expected_of(struct gs_inside *in, uint32_t pid)
{
	uint64_t expected = 0;

	gs_map_get(&in->expected, pid, &expected);
	return expected;
}

/* looks: as above. */
static bool is_inside(struct gs_inside *in, uint32_t pid, enum gs_companion_door door, bool looks)
{
	if (door == GS_COMPANION_OPS)
		return sees_ops(in, pid, looks);
	if (door == GS_COMPANION_PYTHON &&
	    (gs_inside_python_refused(&in->python, pid) || expected_of(in, pid) == INSIDE_GIVEN_UP))
		return false;
	return has_file(in, pid, door, looks);
}

void gs_inside_expect_python(struct gs_inside *in, uint32_t pid)
{
	(void)gs_map_put(&in->expected, pid, INSIDE_ASKED);
}

bool gs_inside_sees_python(struct gs_inside *in, uint32_t pid)
{
	return is_inside(in, pid, GS_COMPANION_PYTHON, true);
}

void gs_inside_give_python_up(struct gs_inside *in, uint32_t pid)
{
	(void)gs_map_put(&in->expected, pid, INSIDE_GIVEN_UP);
}

bool gs_inside_sees(struct gs_inside *in, uint32_t pid)
{
	return in && is_inside(in, pid, GS_COMPANION_CALLS, false);
}

bool gs_inside_covers(struct gs_inside *in, uint32_t pid, unsigned func)
{
	const struct gs_func *f;

	if (!in)
		return false;
	if (func >= GS_FUNC_MAX)
		return in->has_python && is_inside(in, pid, GS_COMPANION_PYTHON, false);
	if (func < GS_FUNC_FIXED)
		return in->wanted[func] && is_inside(in, pid, GS_COMPANION_CALLS, false);
	f = in->ops.funcs ? gs_func_set_get(in->ops.funcs, func) : NULL;
	return f && f->desc.layer == GS_LAYER_TORCH && is_inside(in, pid, GS_COMPANION_OPS, false);
}

/* The loader maps our library before any of CUDA: a process without it will not be seen from inside. */
static bool has_library(uint32_t pid, enum gs_companion_door door)
{
	const char *library = doors[index_of(door)].library;
	GS_FCLOSE FILE *f = NULL;
	char path[64], line[PATH_MAX + 128];

	snprintf(path, sizeof(path), "/proc/%u/maps", pid);
	f = fopen(path, "re");
	while (f && !gs_guard_stopped() && fgets(line, sizeof(line), f))
		if (strstr(line, library))
			return true;
	return false;
}

/* Which door sees what is called in that file; false: none that is open. */
static bool find_door(const struct gs_inside *in, const char *path, enum gs_companion_door *ret)
{
	unsigned layer = gs_layer_of_file(path);

	*ret = layer == GS_LAYER_TORCH    ? GS_COMPANION_OPS
	       : layer == GS_LAYER_PYTHON ? GS_COMPANION_PYTHON
					  : GS_COMPANION_CALLS;
	if (*ret == GS_COMPANION_OPS)
		return in->ops.funcs;
	if (*ret == GS_COMPANION_PYTHON)
		return in->has_python && !in->attaches_python;
	return in->has_calls && gs_layer_file_is_cuda(path);
}

/* Is it known that it will not be seen from inside? Of a program our library is mapped after itself. */
static bool is_over_due(struct gs_inside *in, const struct late_process *l)
{
	uint64_t age_ns = gs_clock_mono_ns() - l->since_ns;

	if (l->door == GS_COMPANION_OPS)
		return age_ns > OPS_WAIT_NS || ops_state(in, l->pid) != GS_COMPANION_WAITS;
	if (l->door == GS_COMPANION_CALLS)
		return age_ns > GS_INSIDE_WAIT_NS;
	return age_ns > GS_INSIDE_WAIT_NS || gs_inside_python_refused(&in->python, l->pid) ||
	       (age_ns > GRACE_NS && !has_library(l->pid, l->door));
}

static int decide_process(struct gs_inside *in, uint32_t pid, enum gs_companion_door door)
{
	struct late_process *l;

	if (is_inside(in, pid, door, true))
		return 0;
	/* Of a process that ran already it is known; in its children nothing of that holds. */
	if (door == GS_COMPANION_PYTHON && expected_of(in, pid))
		return expected_of(in, pid) == INSIDE_ASKED ? -EAGAIN : 1;
	l = find_late(in, pid, door);
	if (l)
		return is_over_due(in, l) ? 1 : -EAGAIN;
	if (door == GS_COMPANION_OPS && ops_state(in, pid) != GS_COMPANION_WAITS)
		return 1;
	if (in->n_late == INSIDE_LATE_MAX ||
	    (door != GS_COMPANION_PYTHON && !has_library(pid, door)))
		return 1;
	in->late[in->n_late++] =
		(struct late_process){.pid = pid, .door = door, .since_ns = gs_clock_mono_ns()};
	return -EAGAIN;
}

int gs_inside_attaches(struct gs_inside *in, uint32_t pid, const char *path)
{
	enum gs_companion_door door;
	int r;

	if (!in || !find_door(in, path, &door))
		return 1;
	r = pid ? decide_process(in, pid, door) : 0;
	/* The end of a trace stops what looks for files and libraries halfway: not found says nothing. */
	return r == 1 && gs_guard_stopped() ? -EAGAIN : r;
}

uint32_t gs_inside_next_late(struct gs_inside *in, struct gs_inside_late *ret_late)
{
	for (unsigned i = 0; in && i < in->n_late && !gs_guard_stopped(); i++) {
		struct late_process *l = &in->late[i];

		if (is_inside(in, l->pid, l->door, true))
			forget_late(in, l);
		else if (!l->is_asked && is_over_due(in, l) && !gs_guard_stopped()) {
			l->is_asked = true;
			ret_late->what = doors[index_of(l->door)].what;
			ret_late->gap_ns = gs_clock_mono_ns() - l->since_ns;
			return l->pid;
		}
	}
	return 0;
}
