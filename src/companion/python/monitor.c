/*
 * Python 3.12 and newer: sys.monitoring (PEP 669), which calls C functions of ours at each begin and end of a function, in
 * all threads of an interpreter, beside debuggers, coverage and profilers, which have other tool ids. What is not wanted is
 * switched off where it lies, and costs nothing from then on; exceptions that pass through cannot be.
 */
#include "companion/python/python_int.h"

#include <stdio.h>

#define TOOL_FIRST                                                                                 \
	4 /* 0 to 2 and 5 are for debuggers, coverage, profilers and optimizers; programs take 3 first */
#define TOOL_LAST 3
#define TOOL_NAME "gpuscope"

static int late_tool;     /* that was taken when the program ran; 0 none */
static PyObject *disable; /* sys.monitoring.DISABLE, which is one of all interpreters */

/* The answer at a place whose function is not wanted, or when tracing is over. None lives for ever, from 3.12 on. */
static PyObject *answer_off(void)
{
	python_api.Py_IncRef(disable);
	return disable;
}

/* Of what was not recorded. */
static PYTHON_COLD PyObject *answer_of(uint32_t number)
{
	if (python_is_over())
		return python_late_leave() ? python_api.none : answer_off();
	return number ? python_api.none : answer_off();
}

static inline PyObject *on_enter(PyObject *code, bool is_resumed)
{
	uint32_t number = python_code_number(code);

	if (number && number != PYTHON_UNKNOWN && python_stack_enter(code, number, is_resumed))
		return python_api.none;
	return answer_of(number);
}

static PYTHON_HOT PyObject *on_start(PyObject *self, PyObject *const *args, ssize_t n)
{
	return on_enter(args[0], false);
}

static PYTHON_HOT PyObject *on_resume(PyObject *self, PyObject *const *args, ssize_t n)
{
	return on_enter(args[0], true);
}

/* PY_RETURN, PY_YIELD. */
static PYTHON_HOT PyObject *on_leave(PyObject *self, PyObject *const *args, ssize_t n)
{
	if (python_stack_leave(args[0]))
		return python_api.none;
	python_stack_leave_other(args[0]);
	/* What has not been met was begun before it was seen: whether it is wanted, its next begin says. */
	return answer_of(python_code_find(args[0]));
}

/* PY_THROW, PY_UNWIND: these cannot be switched off by a function. */
static PyObject *on_throw(PyObject *self, PyObject *const *args, ssize_t n)
{
	uint32_t number = python_code_number(args[0]);

	if (number && number != PYTHON_UNKNOWN && !python_stack_enter(args[0], number, true) &&
	    python_is_over())
		python_late_leave();
	return python_api.none;
}

static PyObject *on_unwind(PyObject *self, PyObject *const *args, ssize_t n)
{
	if (!python_stack_leave(args[0])) {
		python_stack_leave_other(args[0]);
		if (python_is_over())
			python_late_leave();
	}
	return python_api.none;
}

static const struct {
	const char *event;
	struct python_method method;
} hooks[] = {{"PY_START", {"on_start", on_start, PYTHON_FASTCALL, NULL}},
	     {"PY_RESUME", {"on_resume", on_resume, PYTHON_FASTCALL, NULL}},
	     {"PY_RETURN", {"on_return", on_leave, PYTHON_FASTCALL, NULL}},
	     {"PY_YIELD", {"on_yield", on_leave, PYTHON_FASTCALL, NULL}},
	     {"PY_THROW", {"on_throw", on_throw, PYTHON_FASTCALL, NULL}},
	     {"PY_UNWIND", {"on_unwind", on_unwind, PYTHON_FASTCALL, NULL}}};

#define GS_HOOKS (sizeof(hooks) / sizeof(hooks[0]))

/* True: the call succeeded; no error is left in any case. */
static bool drop_result(PyObject *result)
{
	python_api.Py_DecRef(result);
	python_api.PyErr_Clear();
	return result;
}

static char why[160]; /* it cannot be */

/* A number for ourselves; 0: both are another's. */
static int take_tool(PyObject *monitoring)
{
	char *at = (char[]){"another tool"};
	PyObject *holder, *text = NULL;
	ssize_t n;

	for (int tool = TOOL_FIRST; tool >= TOOL_LAST; tool--)
		if (drop_result(python_api.PyObject_CallMethod(monitoring, "use_tool_id", "is",
							       tool, TOOL_NAME)))
			return tool;
	holder = python_api.PyObject_CallMethod(monitoring, "get_tool", "i", TOOL_LAST);
	if (holder)
		text = python_api.PyUnicode_AsEncodedString(holder, "utf-8", "replace");
	if (text)
		python_api.PyBytes_AsStringAndSize(text, &at, &n);
	python_api.PyErr_Clear();
	snprintf(why, sizeof(why), "its tool ids 3 and 4 of sys.monitoring are taken, one by %s",
		 at);
	python_api.Py_DecRef(text);
	python_api.Py_DecRef(holder);
	return 0;
}

/* Functions that live for ever, of the main interpreter, or for as long as they are registered. */
static PyObject *hook_of(unsigned i, bool is_kept)
{
	static PyObject *kept[GS_HOOKS];

	if (!is_kept)
		return python_api.PyCFunction_NewEx(&hooks[i].method, NULL, NULL);
	if (!kept[i])
		kept[i] = python_api.PyCFunction_NewEx(&hooks[i].method, NULL, NULL);
	if (kept[i])
		python_api.Py_IncRef(kept[i]);
	return kept[i];
}

static bool add_hooks(PyObject *monitoring, PyObject *events, int tool, bool is_late)
{
	long all = 0;

	for (unsigned i = 0; i < GS_HOOKS; i++) {
		long event = python_api_number(events, hooks[i].event);
		PyObject *call = hook_of(i, is_late);
		bool good = event > 0 && call &&
			    drop_result(python_api.PyObject_CallMethod(
				    monitoring, "register_callback", "ilO", tool, event, call));

		python_api.Py_DecRef(call);
		if (!good)
			return false;
		all |= event;
	}
	return drop_result(
		python_api.PyObject_CallMethod(monitoring, "set_events", "il", tool, all));
}

static void remove_hooks(PyObject *monitoring, int tool)
{
	PyObject *events = python_api.PyObject_GetAttrString(monitoring, "events");

	drop_result(python_api.PyObject_CallMethod(monitoring, "set_events", "ii", tool, 0));
	for (unsigned i = 0; events && i < GS_HOOKS; i++)
		drop_result(python_api.PyObject_CallMethod(
			monitoring, "register_callback", "ilO", tool,
			python_api_number(events, hooks[i].event), python_api.none));
	drop_result(python_api.PyObject_CallMethod(monitoring, "free_tool_id", "i", tool));
	python_api.Py_DecRef(events);
	python_api.PyErr_Clear();
}

/* The number that was taken; 0: none, why is set. */
static int begin_monitoring(PyObject *monitoring, bool is_late)
{
	PyObject *events = python_api.PyObject_GetAttrString(monitoring, "events");
	int tool;

	if (!disable)
		disable = python_api.PyObject_GetAttrString(monitoring, "DISABLE");
	snprintf(why, sizeof(why), "sys.monitoring refused our functions");
	tool = events && disable ? take_tool(monitoring) : 0;
	if (tool && !add_hooks(monitoring, events, tool, is_late)) {
		remove_hooks(monitoring, tool);
		tool = 0;
	}
	python_api.Py_DecRef(events);
	python_api.PyErr_Clear();
	return tool;
}

bool python_monitor_begin(bool *ret_again)
{
	PyObject *monitoring = python_api.PySys_GetObject("monitoring");

	/* An interpreter that is being made has no such module yet. */
	*ret_again = !monitoring;
	if (!monitoring)
		return false;
	if (begin_monitoring(monitoring, false))
		return true;
	python_report(GS_COMPANION_PYTHON_REFUSED, "%s", why);
	return false;
}

bool python_monitor_late(bool again, const char **ret_why)
{
	PyObject *monitoring = python_api.PySys_GetObject("monitoring");

	*ret_why = monitoring ? why : "it has no sys.monitoring";
	late_tool = monitoring ? begin_monitoring(monitoring, true) : 0;
	if (!late_tool)
		return false;
	*ret_why = NULL;
	/* Also those of other tools, which switch theirs off once more. */
	if (again)
		drop_result(python_api.PyObject_CallMethod(monitoring, "restart_events", NULL));
	return true;
}

void python_monitor_end(void)
{
	PyObject *monitoring = python_api.PySys_GetObject("monitoring");

	if (monitoring && late_tool)
		remove_hooks(monitoring, late_tool);
	late_tool = 0;
}
