/* Patterns that choose Python functions, as options give them: compared by the kernel side where
 * calls are traced, and here where a recorded file is read. */
#ifndef GS_PIPELINE_CORRELATE_PYTHON_GLOB_H
#define GS_PIPELINE_CORRELATE_PYTHON_GLOB_H

#include <stdbool.h>

#include "model/trace/python.h"

/* By name ("forward", "test_*"), or by file and name ("train.py:*", "models/x*.py:forward"; a path
 * that does not begin with a slash is the end of one). -EINVAL: empty; -E2BIG: too long. */
int gs_correlate_parse_py_glob(const char *text, struct gs_py_glob *ret_glob);

/* The same comparison as the kernel side makes, of a function by its file and qualified name. */
bool gs_correlate_matches_py_glob(const struct gs_py_glob *glob, const char *file,
				  const char *name);

#endif
