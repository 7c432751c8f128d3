/* Options of callers that may have been built with another version of the header. */
#include "library/gpuscope/library_int.h"

#include <errno.h>
#include <string.h>

#define BYTES_MAX 4096 /* larger than any struct of options will be */

int options_take(const void *given, size_t smallest, void *ret_options, size_t bytes,
		 struct gs_err *err)
{
	size_t size = 0;

	if (!given)
		return gs_err_set(err, -EINVAL, "options is NULL");
	memcpy(&size, given, sizeof(size));
	if (size < smallest || size > BYTES_MAX)
		return gs_err_set(
			err, -EINVAL,
			"options.size is %zu: set it to the sizeof of the struct, and unused members to 0",
			size);
	for (size_t i = bytes; i < size; i++)
		if (((const char *)given)[i])
			return gs_err_set(
				err, -E2BIG,
				"the options set members that libgpuscope %s does not know: use a newer library, or set them to 0",
				gs_library_version());
	memset(ret_options, 0, bytes);
	memcpy(ret_options, given, size < bytes ? size : bytes);
	return 0;
}
