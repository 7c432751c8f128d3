/*
 * libyaml takes time that grows with the square of how deep a document is nested (100,000 brackets
 * took 17 s), so a text is walked first, only as far as its depth is reasonable.
 */
#ifndef GS_CORE_BASE_YAML_DEPTH_H
#define GS_CORE_BASE_YAML_DEPTH_H

#include <stddef.h>

#include "core/base/err.h"

#define GS_YAML_DEPTH_MAX 32

/* -EINVAL: nested deeper than GS_YAML_DEPTH_MAX, with the place. 0 also for what is no YAML: who
 * loads it says what is wrong. name is for the message. */
int gs_yaml_check_depth(const char *name, const char *text, size_t bytes, struct gs_err *err);

#endif
