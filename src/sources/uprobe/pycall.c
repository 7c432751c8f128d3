/*
 * Calls of Python functions: what their programs know from the start, and the numbers that the
 * kernel side gives them (bpf/calls/pycall.bpf.c), taken back when their process has ended.
 */
#include <errno.h>
#include <string.h>

#include <bpf/bpf.h>

#include "core/base/mem.h"
#include "model/trace/func.h"
#include "sources/uprobe/uprobe_int.h"

#include "pycall.skel.h"

/* Numbers of a process that has ended are kept for so many harvests: until its last events have
 * been read, and what its threads added up has been handed over. */
#define N_HARVESTS 4

/* --- the kernel side --- */

void uprobe_pycall_fill(void *data, const struct gs_uprobe_options *o)
{
	struct gs_pycall_bpf__rodata *rodata = data;

	memcpy(rodata->gs_py_layouts, o->py_layouts, sizeof(rodata->gs_py_layouts));
	memcpy(rodata->gs_py_globs, o->py_globs, o->n_py_globs * sizeof(o->py_globs[0]));
	rodata->gs_n_py_globs = (uint32_t)o->n_py_globs;
}

/* --- numbers --- */

int uprobe_pycalls_new(struct gs_uprobe *probe, struct gs_pyfunc_set **ret)
{
	if (!probe->selection.py_func)
		return 0;
	*ret = gs_pyfunc_set_new();
	return *ret ? 0 : -ENOMEM;
}

void uprobe_pycalls_event(struct gs_pyfunc_set *set, const struct gs_event *event)
{
	const struct gs_event_task *task = (const void *)event;
	const struct gs_event_code *code = (const void *)event;

	if (!set)
		return;
	if (event->kind == GS_EV_PYFUNC && event->bytes >= sizeof(*code))
		gs_pyfunc_set_add(set, code->func, code->pid, code->code);
	if (event->kind == GS_EV_TASK && event->bytes >= sizeof(*task) && task->pid == task->tid &&
	    task->change == GS_TASK_EXIT)
		gs_pyfunc_set_end(set, task->pid);
}

static void take_back(void *ctx, uint32_t number, uint32_t pid, uint64_t code)
{
	const struct gs_uprobe *probe = ctx;
	int funcs_fd =
		bpf_map__fd(uprobe_kernel_map(&probe->kernel, GS_FAMILY_PYCALL, "gs_py_funcs"));
	int free_fd =
		bpf_map__fd(uprobe_kernel_map(&probe->kernel, GS_FAMILY_PYCALL, "gs_free_pyfuncs"));
	struct gs_py_func_key key = {code, pid};
	struct gs_py_func f;

	if (bpf_map_lookup_elem(funcs_fd, &key, &f) == 0 && f.number == number)
		bpf_map_delete_elem(funcs_fd, &key);
	bpf_map_update_elem(free_fd, NULL, &number, BPF_ANY);
}

/* Its first thread has ended before others, or its id is another's now. */
static bool has_no_threads(void *ctx, uint32_t pid)
{
	const struct gs_uprobe *probe = ctx;

	unsigned n = uprobe_reach_threads(&probe->kernel);

	for (unsigned i = 1; i < n; i++)
		if (probe->kernel.threads[i].pid == pid && !probe->kernel.threads[i].ended)
			return false;
	return true;
}

void uprobe_pycalls_drain(struct gs_uprobe *probe)
{
	const struct gs_pyfunc_round round = {N_HARVESTS, has_no_threads, take_back, probe};

	if (probe->pycalls)
		gs_pyfunc_set_round(probe->pycalls, &round);
}
