/*
 * Probe files: YAML (or JSON) that describes functions and static probes to be traced, made into
 * struct gs_user_spec. `man gpuscope-probes` has the format. Also takes the attach lists of eACGM,
 * as they are: a list of {name, exe_path: [...], exe_sym: [...]}.
 */
#ifndef GS_SOURCES_PROBEFILE_PROBEFILE_H
#define GS_SOURCES_PROBEFILE_PROBEFILE_H

#include "core/base/err.h"
#include "model/trace/user_set.h"

/* Add what the file describes to set. 0, -EINVAL with "FILE:LINE:COLUMN: what is wrong", or another
 * negative errno with a text. Probes before the wrong one have been added. One that
 * the set has already is left out, and counted there. */
int gs_probefile_read(const char *path, struct gs_user_set *set, struct gs_err *err);

/* The same of a text; path is for error texts alone. */
int gs_probefile_parse(const char *text, size_t bytes, const char *path, struct gs_user_set *set,
		       struct gs_err *err);

#endif
