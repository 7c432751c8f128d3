/*
 * Python 3.8 to 3.11: the hook for profilers, a C function that each thread has for itself, called also for C functions. New
 * threads get it from the thread that makes them, before they run.
 *
 * There is one such hook. A profiler of the program takes it from us and works in full; it is said who has it, and when it is
 * free again we are back. Where a thread's state has it is found by looking for our own function there, and what switches it
 * on by comparing with and without: in other threads it is set by these words, since PyEval_SetProfile() is an event for the
 * program's audit hooks, which may run Python code.
 */
#include "companion/python/python_int.h"

enum { CALL = 0, RETURN = 3, C_RETURN = 6 }; /* PyTrace_*, Include/cpython/pystate.h */

#define STATE_WORDS 64 /* of a thread's state, that are looked at */
#define TYPE_AT     8  /* PyObject: its type, */
#define NAME_AT     24 /* whose name is there */

static struct {
	int hook_at;      /* in a thread's state, in words; 0 not known yet */
	int code_at;      /* in a frame, in words, of 3.11 in what the first points to */
	int last_at;      /* bytes; 3.8 to 3.10: where the frame is in its code */
	int inner_at;     /* 3.11: in a frame, in words: the interpreter's own one */
	int is_checked;   /* 1: these are right; -1: they are not */
	uint8_t on;       /* the switch of a thread that has the hook */
	void *interp;     /* whose threads were looked at last, */
	void *head;       /* and the newest of them */
	PyObject *starts; /* _thread.start_new_thread */
} hook;

static int on_event(PyObject *self, PyObject *frame, int what, PyObject *arg);

static inline void *word_at(const void *object, int at)
{
	return ((void *const *)object)[at];
}

/* --- frames --- */

static inline PyObject *code_of(PyObject *frame)
{
	return word_at(hook.inner_at ? word_at(frame, hook.inner_at) : frame, hook.code_at);
}

/* Has the frame run before: does a generator go on? */
static inline bool is_resumed(PyObject *frame, uint32_t number)
{
	int begin;

	if (hook.last_at)
		return *(const int *)((const char *)frame + hook.last_at) >= 0;
	begin = python_code_begin(number);
	return begin > 0 && python_api.PyFrame_GetLasti(frame) > begin;
}

/* Is what we read of a frame what CPython says of it? */
static bool check_frame(PyObject *frame)
{
	PyObject *code = python_api.PyObject_GetAttrString(frame, "f_code");
	long last = python_api_number(frame, "f_lasti");
	bool good = code && code == code_of(frame);

	if (good && hook.last_at) {
		long there = *(const int *)((const char *)frame + hook.last_at);

		good = there < 0 ? last < 0
				 : last == there * (python_api.version == 0x030a ? 2 : 1);
	}
	python_api.Py_DecRef(code);
	python_api.PyErr_Clear();
	return good;
}

static PYTHON_COLD bool check_once(PyObject *frame)
{
	if (python_is_busy)
		return false;
	python_is_busy = true;
	hook.is_checked = check_frame(frame) ? 1 : -1;
	if (hook.is_checked < 0)
		python_report(GS_COMPANION_PYTHON_REFUSED,
			      "its frames are not laid out as in a %s of this version",
			      "usual Python");
	python_is_busy = false;
	return hook.is_checked > 0;
}

/* --- threads --- */

/* The byte that says whether a thread is looked at: the word before the hook, or (3.10 on) the first one of what the
 * pointer before the hook leads to. */
static uint8_t *switch_of(void *state)
{
	if (python_api.version < 0x030a)
		return (uint8_t *)state + hook.hook_at * 8 - 8;
	return word_at(state, hook.hook_at - 1);
}

/* Within an event of CPython for audit hooks, which others may have written in Python: nothing but these words is changed,
 * in threads that have not the lock. */
static void put_hook(void *state, python_profile_function function)
{
	((void **)state)[hook.hook_at] = (void *)function;
	*switch_of(state) = function || word_at(state, hook.hook_at + 1) ? hook.on : 0;
}

/* Have the hook for the first time, and find where a thread's state says so. Its own words are 64 at least in these
 * versions (Include/cpython/pystate.h). */
static bool find_hook(void *state)
{
	uint8_t before;

	python_api.PyEval_SetProfile(on_event, NULL);
	for (int at = 4; !hook.hook_at && at < STATE_WORDS / 2; at++)
		if (word_at(state, at) == (void *)on_event)
			hook.hook_at = at;
	if (!hook.hook_at || word_at(state, hook.hook_at + 1))
		return false;
	hook.on = *switch_of(state);
	python_api.PyEval_SetProfile(NULL, NULL);
	before = *switch_of(state);
	python_api.PyErr_Clear();
	if (!hook.on || before || word_at(state, hook.hook_at))
		return false;
	put_hook(state, on_event);
	return true;
}

/* Who has it: the type of the object that is called. */
static void report_holder(void *state)
{
	const void *object = word_at(state, hook.hook_at + 2); /* c_profileobj */
	const void *type = object ? word_at(object, TYPE_AT / 8) : NULL;
	const char *name = type ? word_at(type, NAME_AT / 8) : NULL;

	python_report(
		GS_COMPANION_PYTHON_HELD,
		"another profiler (%s) has Python's profile hook: what its threads call meanwhile is not seen",
		name ? name : "of C");
}

static void hook_thread(void *state)
{
	void *has = word_at(state, hook.hook_at);

	if (!has)
		put_hook(state, on_event);
	else if (has != (void *)on_event)
		report_holder(state);
}

/* All threads of this thread's interpreter get it that have none. */
static PYTHON_COLD void hook_all_threads(void *interp)
{
	for (void *state = python_api.PyInterpreterState_ThreadHead(interp); state;
	     state = python_api.PyThreadState_Next(state))
		hook_thread(state);
	hook.interp = interp;
	hook.head = python_api.PyInterpreterState_ThreadHead(interp);
}

/* PyInterpreterState_Get() is of 3.9: the third word of a thread's state in 3.8. */
static inline void *interp_of(void *state)
{
	return word_at(state, 2);
}

static int hook_threads_again(void *ctx)
{
	void *state = python_thread_state();

	if (state && !python_is_over())
		hook_all_threads(interp_of(state));
	return 0;
}

/* --- sys.setprofile --- */

/*
 * A program that sets a hook while there is one has the return of sys.setprofile() as its first event, which it has not
 * when it runs alone. So its own is set when that return has come, to us. The function is found where CPython has it in its
 * table of methods, and stands there as ours from then on.
 */
static python_method_o real_setprofile;
static __thread PyObject *next_hook __attribute__((tls_model("initial-exec"))); /* owned */

static PyObject *on_setprofile(PyObject *module, PyObject *function)
{
	void *state = python_thread_state();
	bool is_ours = word_at(state, hook.hook_at) == (void *)on_event;
	PyObject *result;

	if (is_ours && function != python_api.none && !python_is_over()) {
		python_api.Py_IncRef(function);
		python_api.Py_DecRef(next_hook);
		next_hook = function;
		python_api.Py_IncRef(python_api.none);
		return python_api.none;
	}
	result = real_setprofile(module, function);
	if (result && function == python_api.none && !python_is_over())
		hook_thread(state);
	return result;
}

static PYTHON_COLD void set_next_hook(void)
{
	PyObject *function = next_hook;

	next_hook = NULL;
	python_api.Py_DecRef(real_setprofile(NULL, function));
	python_api.Py_DecRef(function);
	python_api.PyErr_Clear();
	report_holder(python_thread_state());
}

/* PyCFunctionObject: after the head, its row of the table. */
static void replace_setprofile(void)
{
	struct python_method *row;
	const void *function = python_api.PySys_GetObject("setprofile");

	if (!function || word_at(function, TYPE_AT / 8) != python_api.function_type)
		return;
	row = word_at(function, 2);
	if (!row || !row->name || __builtin_strcmp(row->name, "setprofile") != 0 ||
	    row->flags != PYTHON_O)
		return;
	real_setprofile = (python_method_o)(void *)row->call;
	row->call = (python_c_function)(void *)on_setprofile;
}

/* --- events --- */

static PYTHON_HOT int on_event(PyObject *self, PyObject *frame, int what, PyObject *arg)
{
	uint32_t number;
	PyObject *code;

	if (COMPANION_UNLIKELY(next_hook)) {
		set_next_hook();
		return 0;
	}
	if (what == C_RETURN) {
		if (COMPANION_UNLIKELY(arg == hook.starts) && !python_is_over())
			hook_threads_again(NULL);
		return 0;
	}
	if (what != CALL && what != RETURN)
		return 0;
	if (COMPANION_UNLIKELY(hook.is_checked <= 0) && (hook.is_checked < 0 || !check_once(frame)))
		return 0;
	code = code_of(frame);
	if (what == RETURN) {
		if (!python_stack_leave(code))
			python_stack_leave_other(code);
		return 0;
	}
	number = python_code_number(code);
	if (number && number != PYTHON_UNKNOWN &&
	    !python_stack_enter(code, number, is_resumed(frame, number)) && python_is_over()) {
		put_hook(python_thread_state(), NULL);
		return 0;
	}
	/* Threads that others than Python have made. */
	if (COMPANION_UNLIKELY(hook.interp &&
			       python_api.PyInterpreterState_ThreadHead(hook.interp) != hook.head))
		hook_threads_again(NULL);
	return 0;
}

bool python_profile_start(void)
{
	static const struct {
		uint16_t version;
		int code_at, last_at, inner_at;
	} layouts[] = {
		{0x0308, 4, 104, 0}, {0x0309, 4, 104, 0}, {0x030a, 4, 96, 0}, {0x030b, 4, 0, 3}};

	for (unsigned i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
		if (layouts[i].version != python_api.version)
			continue;
		hook.code_at = layouts[i].code_at;
		hook.last_at = layouts[i].last_at;
		hook.inner_at = layouts[i].inner_at;
	}
	return hook.code_at && python_api.PyEval_SetProfile && python_api.Py_AddPendingCall &&
	       python_api.PyThreadState_Next && python_api.PyInterpreterState_ThreadHead &&
	       python_api.PyImport_ImportModule && (hook.last_at || python_api.PyFrame_GetLasti);
}

/* The first time. */
static PYTHON_COLD void begin_hooking(void *state)
{
	PyObject *module = python_api.PyImport_ImportModule("_thread");

	if (module)
		hook.starts = python_api.PyObject_GetAttrString(module, "start_new_thread");
	python_api.Py_DecRef(module);
	python_api.PyErr_Clear();
	if (find_hook(state)) {
		replace_setprofile();
		return;
	}
	python_api.PyEval_SetProfile(NULL, NULL);
	python_api.PyErr_Clear();
	hook.hook_at = -1;
	python_report(GS_COMPANION_PYTHON_REFUSED, "%s was not found in its thread state",
		      "the profile hook");
}

void python_profile_check(const char *event)
{
	void *state = python_thread_state();
	bool changes = __builtin_strcmp(event, "sys.setprofile") == 0;

	if (hook.hook_at < 0)
		return;
	if (!hook.hook_at) {
		/* One that is being changed is looked at later. */
		if (!changes && __builtin_strcmp(event, "sys.settrace") != 0)
			begin_hooking(state);
		return;
	}
	/* The event comes before the change: look at it afterwards, too. */
	if (!changes)
		hook_thread(state);
	else if (word_at(state, hook.hook_at) && word_at(state, hook.hook_at) != (void *)on_event)
		report_holder(state);
	if (changes)
		python_api.Py_AddPendingCall(hook_threads_again, NULL);
}
