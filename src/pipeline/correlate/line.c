#include "pipeline/correlate/line.h"

#include <fnmatch.h>

#include "core/base/mem.h"

bool gs_line_is_library(const char *file)
{
	static const char *const globs[] = {"*/site-packages/*", "*/dist-packages/*",
					    "*/lib/python[23]*", "*/lib64/python[23]*",
					    "<frozen *"};

	for (size_t i = 0; i < GS_ARRAY_LEN(globs); i++)
		if (fnmatch(globs[i], file, 0) == 0)
			return true;
	return false;
}

const struct gs_rec_frame *gs_line_of_stack(const struct gs_dict *dict, uint32_t stack)
{
	const struct gs_rec_stack *s = gs_dict_stack(dict, stack);

	for (uint32_t i = 0; s && i < s->n_frames; i++) {
		const struct gs_rec_frame *f = gs_dict_frame(dict, s->frames[i]);

		if (f && !gs_line_is_library(gs_dict_string(dict, f->file_str)))
			return f;
	}
	return s && s->n_frames ? gs_dict_frame(dict, s->frames[0]) : NULL;
}
