/*
 * The door's begin in a program that runs already: gpuscope asks its interpreter to run a few lines (PEP 768,
 * sources/python_attach) that call _imp._gpuscope(), which is put there when this library is loaded; and its end, when tracing is
 * over. After that nothing of this library runs until it is asked for again, but for the end of code objects that were met.
 *
 * Those lines are run amidst the program's own: its signals' exceptions must not come to them. An interpreter looks for
 * signals after calls that succeed, so that each of ours fails, with StopIteration.
 */
#include "companion/python/python_int.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "companion/ring/sys.h"

#define LOOK_NS 2000000000ull /* between two looks for who reads what is recorded */

uint64_t python_late_check_at = UINT64_MAX;

static struct {
	bool was_in; /* this library was asked for before */
	uint32_t in; /* 1: our functions are registered */
	uint64_t check_ticks;
	char folder[256]; /* of who asked last */
} late;

/* --- the end --- */

static void leave_process(void)
{
	PyObject *error[3];

	python_late_check_at = UINT64_MAX;
	python_api.PyErr_Fetch(&error[0], &error[1], &error[2]);
	/* In this order: a thread that is in one of our functions writes to the file until it is out of it. Where threads run
	 * at the same time, taking the events back waits for all of them; where they do not, none is there but this one. */
	companion_end();
	python_monitor_end();
	companion_unmap();
	python_api.PyErr_Restore(error[0], error[1], error[2]);
}

bool python_late_leave(void)
{
	if (!late.was_in)
		return false;
	if (__atomic_exchange_n(&late.in, 0, __ATOMIC_ACQ_REL))
		leave_process();
	return true;
}

void python_late_check(uint64_t now)
{
	python_late_check_at = now + late.check_ticks;
	if (companion_has_reader())
		return;
	companion_live->head->stopped = 1;
	companion_remove_folder();
}

/* --- the begin --- */

static void set_check_time(uint64_t ns_per_tick)
{
	late.check_ticks = (uint64_t)(((unsigned __int128)LOOK_NS << 32) / ns_per_tick);
	python_late_check_at = companion_now() + late.check_ticks;
}

/* Another thread may be making the file, where threads run at the same time. */
static bool announce_file(void)
{
	while (!companion_announce() && !companion_live->failed && !companion_live->epoch)
		COMPANION_SYS3(sched_yield, 0, 0, 0);
	return companion_live->epoch;
}

/* NULL, or why not. */
static const char *begin_here(const char *folder, bool follows)
{
	struct companion_setup setup = {.doors = 1u << GS_COMPANION_PYTHON};
	const char *why = NULL;

	/* It is asked twice where the first answer was long in coming. */
	if (late.in && __builtin_strcmp(late.folder, folder) == 0)
		return NULL;
	if (late.in && !python_is_over() && companion_has_reader())
		return "another gpuscope traces its Python functions from inside";
	python_late_leave();
	if (companion_live && !late.was_in)
		return "it was started by gpuscope trace --inside";
	if (!late.was_in && (!python_api_find(&why) || python_api.version < 0x030c))
		return why ? why : "it is older than Python 3.12";
	if (!python_read_plans(folder, &setup))
		return "a library of another version of gpuscope is loaded in it, or it may not read its folder";
	if (!(late.was_in ? python_code_again() : python_code_start()))
		return "there is no memory for the names of its functions";
	snprintf(late.folder, sizeof(late.folder), "%s", folder);
	setup.only_pid = follows ? 0 : (uint32_t)getpid();
	if (companion_start(&setup) < 0)
		return "its kernel has no MADV_WIPEONFORK (Linux 4.14)";
	python_report_again();
	late.in = 1;
	if (!python_monitor_late(late.was_in, &why) || !announce_file()) {
		late.was_in = true;
		python_late_leave();
		return why ? why
			   : "its limits of files or memory leave no room for what is recorded";
	}
	late.was_in = true;
	set_check_time(setup.ns_per_tick);
	if (python_api.PyInterpreterState_Next &&
	    python_api.PyInterpreterState_Next(python_api.PyInterpreterState_Head()))
		python_report(
			GS_COMPANION_PYTHON_HELD, "%s",
			"functions of its sub-interpreters are not seen: only its main interpreter can be asked");
	return NULL;
}

/* In the folder, for who asked. */
static void report_refusal(const char *folder, const char *why)
{
	char path[300];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, GS_COMPANION_LATE_NAME);
	fd = (int)COMPANION_SYS4(openat, AT_FDCWD, path,
				 O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	COMPANION_SYS3(write, fd, why, __builtin_strlen(why));
	COMPANION_SYS3(write, fd, "\n", 1);
	COMPANION_SYS3(close, fd, 0, 0);
}

/* _gpuscope(folder, pid, follows): begin, as the plan in the folder says; without a folder: end. A forked child that has
 * inherited the question is not asked. */
static PyObject *on_asked(PyObject *self, PyObject *const *args, ssize_t n)
{
	const char *why;
	char *folder;
	ssize_t bytes;

	if (n == 3 && python_api.PyBytes_AsStringAndSize(args[0], &folder, &bytes) == 0 &&
	    python_api.PyLong_AsLong(args[1]) == (long)getpid()) {
		if (!bytes) {
			python_late_leave();
		} else {
			why = begin_here(folder, python_api.PyLong_AsLong(args[2]) > 0);
			if (why)
				report_refusal(folder, why);
		}
	}
	python_api.PyErr_Clear();
	python_api.PyErr_SetString(*python_api.stop, "gpuscope");
	return NULL;
}

/* Called by the interpreter when it is asked to load this library as a module, which it is not: it only puts the function
 * there. */
__attribute__((visibility("default"))) PyObject *PyInit_gpuscope_companion_python(void)
{
	static const struct python_method method = {"_gpuscope", on_asked, PYTHON_FASTCALL, NULL};
	PyObject *imp = NULL, *call = NULL;
	const char *why;

	if (!python_api_find(&why) || !python_api.PyErr_SetString || !python_api.stop ||
	    !python_api.PyImport_ImportModule || !python_api.PyObject_SetAttrString ||
	    !python_api.PyInterpreterState_Head)
		return NULL;
	imp = python_api.PyImport_ImportModule("_imp");
	call = python_api.PyCFunction_NewEx(&method, NULL, NULL);
	if (imp && call)
		python_api.PyObject_SetAttrString(imp, "_gpuscope", call);
	python_api.Py_DecRef(imp);
	python_api.Py_DecRef(call);
	python_api.PyErr_Clear();
	python_api.PyErr_SetString(*python_api.stop, "gpuscope");
	return NULL;
}
