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

#define ASK_NS      50000000ull /* between two looks for a file that was not there */
#define LIBRARY     "libgpuscope_companion.so"
#define OPS_LIBRARY "libgpuscope_companion_ops.so"
#define OPS_WAIT_NS 10000000000ull /* from PyTorch's being mapped to its being whole */

static struct late_process *find_late(struct gs_inside *in, uint32_t pid, bool is_torch)
{
	for (unsigned i = 0; i < in->n_late; i++)
		if (in->late[i].pid == pid && in->late[i].is_torch == is_torch)
			return &in->late[i];
	return NULL;
}

static void forget_late(struct gs_inside *in, struct late_process *l)
{
	*l = in->late[--in->n_late];
}

void gs_inside_exec(struct gs_inside *in, uint32_t pid, uint64_t mono_ns)
{
	struct late_process *l;

	if (!in)
		return;
	gs_companion_files_forget(in->files, pid, mono_ns);
	gs_map_del(&in->asked, pid);
	for (unsigned is_torch = 0; is_torch < 2; is_torch++)
		if ((l = find_late(in, pid, is_torch)))
			forget_late(in, l);
}

/* looks: it is asked for seldom, and has to be right. */
static bool is_inside(struct gs_inside *in, uint32_t pid, bool looks)
{
	uint64_t now_ns = gs_clock_mono_ns(), asked_ns;

	if (gs_companion_files_since(in->files, pid))
		return true;
	if (!looks && gs_map_get(&in->asked, pid, &asked_ns) && now_ns - asked_ns < ASK_NS)
		return false;
	gs_map_put(&in->asked, pid, now_ns); /* else it is asked for more often */
	gs_companion_files_scan(in->files);
	return gs_companion_files_since(in->files, pid);
}

bool gs_inside_sees(struct gs_inside *in, uint32_t pid)
{
	return in && is_inside(in, pid, false);
}

/* Of the process now, also when it has just begun to be seen. */
static bool sees_ops(struct gs_inside *in, uint32_t pid)
{
	enum gs_companion_state state = GS_COMPANION_WAITS;

	if (gs_companion_files_state(in->files, pid, &state) && state == GS_COMPANION_WAITS)
		gs_companion_files_scan(in->files);
	else if (state == GS_COMPANION_WAITS)
		is_inside(in, pid, false); /* a child of one that is seen: its file may be new */
	return gs_companion_files_state(in->files, pid, &state) && state == GS_COMPANION_SEES;
}

bool gs_inside_covers(struct gs_inside *in, uint32_t pid, unsigned func)
{
	const struct gs_func *f;

	if (!in)
		return false;
	if (func < GS_FUNC_FIXED)
		return in->wanted[func] && is_inside(in, pid, false);
	f = in->ops.funcs && func < GS_FUNC_MAX ? gs_func_set_get(in->ops.funcs, func) : NULL;
	return f && f->desc.layer == GS_LAYER_TORCH && sees_ops(in, pid);
}

/* The loader maps our library before any of CUDA: a process without it will not be seen from inside. */
static bool has_library(uint32_t pid, const char *library)
{
	GS_FCLOSE FILE *f = NULL;
	char path[64], line[PATH_MAX + 128];

	snprintf(path, sizeof(path), "/proc/%u/maps", pid);
	f = fopen(path, "re");
	while (f && !gs_guard_stopped() && fgets(line, sizeof(line), f))
		if (strstr(line, library))
			return true;
	return false;
}

/* It is asked about again. False: it will not be seen from inside. */
static bool wait_for(struct gs_inside *in, uint32_t pid, bool is_torch, uint64_t wait_ns)
{
	struct late_process *l = find_late(in, pid, is_torch);

	if (l)
		return gs_clock_mono_ns() - l->since_ns <= wait_ns;
	if (in->n_late == INSIDE_LATE_MAX ||
	    !has_library(pid, is_torch ? "/" OPS_LIBRARY : "/" LIBRARY))
		return false;
	in->late[in->n_late++] = (struct late_process){
		.pid = pid, .since_ns = gs_clock_mono_ns(), .is_torch = is_torch};
	return true;
}

/* Whether PyTorch's operators are seen from inside is known when it has been loaded. */
static int attaches_torch(struct gs_inside *in, uint32_t pid)
{
	enum gs_companion_state state = GS_COMPANION_WAITS;

	if (!pid || sees_ops(in, pid))
		return 0;
	gs_companion_files_state(in->files, pid, &state);
	return state == GS_COMPANION_WAITS && wait_for(in, pid, true, OPS_WAIT_NS) ? -EAGAIN : 1;
}

int gs_inside_attaches(struct gs_inside *in, uint32_t pid, const char *path)
{
	if (in && in->ops.funcs && gs_layer_of_file(path) == GS_LAYER_TORCH)
		return attaches_torch(in, pid);
	if (!in || !in->has_calls || !gs_layer_file_is_cuda(path))
		return 1;
	if (!pid || is_inside(in, pid, true))
		return 0;
	return wait_for(in, pid, false, GS_INSIDE_WAIT_NS) ? -EAGAIN : 1;
}

/* Is it known by now that it is seen from inside? *ret_is_not: that it is not. */
static bool late_is_seen(struct gs_inside *in, const struct late_process *l, bool *ret_is_not)
{
	uint64_t wait_ns = l->is_torch ? OPS_WAIT_NS : GS_INSIDE_WAIT_NS;
	enum gs_companion_state state = GS_COMPANION_WAITS;

	*ret_is_not = gs_clock_mono_ns() - l->since_ns > wait_ns;
	if (!l->is_torch)
		return is_inside(in, l->pid, true);
	gs_companion_files_scan(in->files);
	gs_companion_files_state(in->files, l->pid, &state);
	*ret_is_not |= state != GS_COMPANION_WAITS;
	return state == GS_COMPANION_SEES;
}

uint32_t gs_inside_next_late(struct gs_inside *in, const char **ret_library)
{
	for (unsigned i = 0; in && i < in->n_late; i++) {
		struct late_process *l = &in->late[i];
		bool is_not;

		if (late_is_seen(in, l, &is_not))
			forget_late(in, l);
		else if (!l->is_asked && is_not) {
			l->is_asked = true;
			*ret_library = l->is_torch ? "PyTorch" : "libraries of CUDA or NCCL";
			return l->pid;
		}
	}
	return 0;
}
