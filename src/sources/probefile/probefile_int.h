/* Among the files of this room: yaml.c walks the file, value.c and filter.c read its texts. */
#ifndef GS_SOURCES_PROBEFILE_PROBEFILE_INT_H
#define GS_SOURCES_PROBEFILE_PROBEFILE_INT_H

#include "sources/probefile/probefile.h"

/* Where in a text something is wrong; the caller knows where the text begins in the file. */
struct fault {
	size_t at; /* bytes from its start */
	char text[512];
};

/* -EINVAL, with fault filled. */
int probefile_set_fault(struct fault *fault, size_t at, const char *fmt, ...) GS_PRINTF(3, 4);

/* "arg1", "*arg2+8", "ret" and "u64 size": the next value of spec. 0 or -EINVAL; which: 0 the place
 * is wrong, 1 the type. */
int probefile_parse_value(const char *place, const char *type, struct gs_user_spec *spec,
			  unsigned *ret_which, struct fault *fault);

/* "size > 1MB && kind == 2" into the row of spec, whose values and flags are known. */
int probefile_parse_filter(const char *text, struct gs_user_spec *spec, struct fault *fault);

/* "count", "sum(size)", "hist(duration)". */
int probefile_parse_aggregate(const char *text, struct gs_user_spec *spec, struct fault *fault);

/* Something in the description needs the return: it is watched then, unless "return" says false.
 * False: it cannot be. */
bool probefile_want_return(struct gs_user_spec *spec);

/* The value of this name (of n bytes); -1 there is none. */
int probefile_find_value(const struct gs_user_spec *spec, const char *name, size_t n);

/* "size, kind and duration": what may be named, for a text. */
void probefile_list_values(const struct gs_user_spec *spec, char *out, size_t bytes);

#endif
