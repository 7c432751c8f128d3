/* CPython's C API as this program has it, found by name. */
#include "companion/python/python_int.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* Not of every libc. */
#pragma weak dlsym

#define OLDEST 0x0308

struct python_api python_api;

static void *find_symbol(const char *name)
{
	return dlsym ? dlsym(RTLD_DEFAULT, name) : NULL;
}

/* "3.12.1 (main, ...": 0x030c. */
static uint16_t version_of(const char *text)
{
	char *end;
	unsigned long major = strtoul(text, &end, 10);
	unsigned long minor = *end == '.' ? strtoul(end + 1, NULL, 10) : 0;

	return (uint16_t)(major << 8 | (minor & 0xff));
}

bool python_api_find(const char **ret_why)
{
	bool whole = true;

	*ret_why = NULL;
	/* Most programs have none: it costs them no more than this. */
	if (!find_symbol("Py_IsInitialized"))
		return false;
#define FIND(result, name, arguments) *(void **)&python_api.name = find_symbol(#name);
	PYTHON_API(FIND)
	PYTHON_API_MORE(FIND)
#undef FIND
	if (!python_api.Py_IsInitialized || !python_api.Py_GetVersion)
		return false;
	python_api.version = version_of(python_api.Py_GetVersion());
	python_api.is_free_threaded = strstr(python_api.Py_GetVersion(), "free-threading") != NULL;
	if (python_api.version < OLDEST) {
		*ret_why = "it is older than Python 3.8";
		return false;
	}
#define CHECK(result, name, arguments) whole &= python_api.name != NULL;
	PYTHON_API(CHECK)
#undef CHECK
	python_api.none = find_symbol("_Py_NoneStruct");
	python_api.stop = find_symbol("PyExc_StopIteration");
	python_api.function_type = find_symbol("PyCFunction_Type");
	*(void **)&python_api.around = find_symbol(GS_COMPANION_AROUND);
	whole &= python_api.none &&
		 (python_api.PyThreadState_GetUnchecked || python_api._PyThreadState_UncheckedGet);
	if (!whole)
		*ret_why = "it does not export CPython's C API";
	return whole;
}

void *python_thread_state(void)
{
	return python_api.PyThreadState_GetUnchecked ? python_api.PyThreadState_GetUnchecked()
						     : python_api._PyThreadState_UncheckedGet();
}

long python_api_number(PyObject *object, const char *attribute)
{
	PyObject *o = python_api.PyObject_GetAttrString(object, attribute);
	long n = -1;

	if (o) {
		n = python_api.PyLong_AsLong(o);
		python_api.Py_DecRef(o);
	}
	python_api.PyErr_Clear();
	return n;
}
