/*
 * The door's begin, with the program: where its environment asks for it and the program exports an interpreter, an audit hook
 * (PEP 578) is added, which may be done before the interpreter is there. It is called when modules are imported, so that each
 * interpreter of the process, also a later one, is met early; after that it has nothing to do.
 */
#include "companion/python/python_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "companion/ring/sys.h"

#define INTERPRETERS 65536 /* that are met, by their numbers */
#define TRIES        1000u /* of an interpreter that is not ready */
#define SAID_MAX     8u

struct gs_companion_python_plan python_plan;
__thread bool python_is_busy;

static __thread int64_t met_last __attribute__((tls_model("initial-exec"))) = -1;
static uint8_t has_met[INTERPRETERS / 8];
static bool is_refused;
static uint32_t n_said, n_tries;

void python_report(enum gs_companion_python_what what, const char *format, const char *more)
{
	struct gs_companion_python_state *r;
	static char said[SAID_MAX][160];
	char text[160];
	size_t n;

	snprintf(text, sizeof(text), format, more);
	for (uint32_t i = 0; i < n_said; i++)
		if (__builtin_strcmp(said[i], text) == 0)
			return;
	if (n_said == SAID_MAX)
		return;
	__builtin_memcpy(said[n_said++], text, sizeof(text));
	n = (__builtin_strlen(text) + 8) & ~(size_t)7;
	r = companion_put(GS_COMPANION_PYTHON_STATE, sizeof(*r) + n);
	if (!r)
		return;
	r->what = what;
	r->pad = 0;
	__builtin_memset(r->text, 0, n);
	__builtin_memcpy(r->text, text, __builtin_strlen(text));
	companion_publish(r);
}

void python_report_again(void)
{
	n_said = 0;
}

static int64_t interpreter_number(void)
{
	void *interp =
		python_api.PyInterpreterState_Get ? python_api.PyInterpreterState_Get() : NULL;

	return interp && python_api.PyInterpreterState_GetID
		       ? python_api.PyInterpreterState_GetID(interp)
		       : 0;
}

/* 3.12 and newer: once in each interpreter. */
static void meet_interpreter(void)
{
	int64_t id = interpreter_number();
	bool again = false;

	if (id == met_last || id < 0 || id >= INTERPRETERS)
		return;
	if (!(has_met[id / 8] & 1u << id % 8)) {
		python_monitor_begin(&again);
		if (again && n_tries++ < TRIES)
			return;
		has_met[id / 8] |= (uint8_t)(1u << id % 8);
	}
	met_last = id;
}

static int on_audit(const char *event, PyObject *args, void *ctx)
{
	PyObject *error[3];

	if (python_is_busy || is_refused || !python_api.Py_IsInitialized() ||
	    !python_thread_state() || python_is_over())
		return 0;
	python_is_busy = true;
	python_api.PyErr_Fetch(&error[0], &error[1], &error[2]);
	if (python_api.version >= 0x030c)
		meet_interpreter();
	else
		python_profile_check(event);
	python_api.PyErr_Restore(error[0], error[1], error[2]);
	python_is_busy = false;
	return 0;
}

bool python_read_plans(const char *folder, struct companion_setup *setup)
{
	struct gs_companion_plan plan;

	if (!folder || folder[0] != '/' || getuid() != geteuid() ||
	    snprintf(setup->folder, sizeof(setup->folder), "%s", folder) >=
		    (int)sizeof(setup->folder) ||
	    !companion_read_plan(folder, GS_COMPANION_PYTHON, &plan) ||
	    !companion_read_own(folder, GS_COMPANION_PYTHON_PLAN_NAME, &python_plan,
				sizeof(python_plan)))
		return false;
	setup->clock = plan.clock;
	setup->ring_bytes = plan.ring_bytes;
	setup->n_slots = plan.n_slots;
	setup->ns_per_tick = plan.ns_per_tick;
	return plan.n_slots && plan.n_slots <= GS_COMPANION_SLOTS_MAX &&
	       python_plan.magic == GS_COMPANION_PYTHON_PLAN &&
	       python_plan.version == GS_COMPANION_VERSION && python_plan.n_globs <= GS_PY_GLOB_MAX;
}

__attribute__((constructor)) static void start_door(void)
{
	struct companion_setup setup = {.doors = 1u << GS_COMPANION_PYTHON};
	const char *why;
	bool found = python_api_find(&why);

	if ((!found && !why) || !python_read_plans(getenv(GS_COMPANION_FOLDER_ENV), &setup))
		return;
	if (found && python_api.version < 0x030c && !python_profile_start())
		why = "it does not export what a profiler needs";
	if (!why && !python_code_start())
		why = "there is no memory for the names of its functions";
	/* A process without this door is seen by probes; its file has the reason. */
	if (why) {
		is_refused = true;
		setup.doors = 0;
	}
	if (companion_start(&setup) < 0 || !companion_announce())
		return;
	if (why)
		python_report(GS_COMPANION_PYTHON_REFUSED, "%s", why);
	else if (python_api.PySys_AddAuditHook(on_audit, NULL) < 0)
		python_report(GS_COMPANION_PYTHON_REFUSED, "%s", "it refused an audit hook");
}
