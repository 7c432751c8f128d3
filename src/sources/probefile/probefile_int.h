/* Among the files of this room: yaml.c walks the file, value.c and filter.c read its texts. */
#ifndef GS_PROBEFILE_INT_H
#define GS_PROBEFILE_INT_H

#include "sources/probefile/probefile.h"

/* Where in a text something is wrong; the caller knows where the text begins in the file. */
struct fault {
	size_t at; /* bytes from its start */
	char text[512];
};

/* -EINVAL, with fault filled. */
int fault_set(struct fault *fault, size_t at, const char *fmt, ...) GS_PRINTF(3, 4);

/* "arg1", "*arg2+8", "ret" and "u64 size": the next value of spec. 0 or -EINVAL; which: 0 the place
 * is wrong, 1 the type. */
int value_parse(const char *place, const char *type, struct gs_user_spec *spec, unsigned *ret_which,
		struct fault *fault);

/* "size > 1MB && kind == 2" into the row of spec, whose values and flags are known. */
int filter_parse(const char *text, struct gs_user_spec *spec, struct fault *fault);

/* "count", "sum(size)", "hist(duration)". */
int aggregate_parse(const char *text, struct gs_user_spec *spec, struct fault *fault);

/* Something in the description needs the return: it is watched then, unless "return" says false.
 * False: it cannot be. */
bool spec_want_return(struct gs_user_spec *spec);

/* The value of this name (of n bytes); -1 there is none. */
int value_find(const struct gs_user_spec *spec, const char *name, size_t n);

/* "size, kind and duration": what may be named, for a text. */
void value_list(const struct gs_user_spec *spec, char *out, size_t bytes);

#endif
