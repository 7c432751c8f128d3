#include "output/trace_export/export_line.h"

#include <stdio.h>
#include <string.h>

/* From here on it is whole characters. */
static const char *skip_to_whole(const char *text)
{
	while ((*text & 0xc0) == 0x80)
		text++;
	return text;
}

void gs_export_line_text(const struct gs_dict *dict, const struct gs_rec_frame *frame, char *out,
			 size_t bytes)
{
	const char *file = gs_dict_string(dict, frame->file_str);
	const char *function = gs_dict_string(dict, frame->function_str);
	size_t file_bytes = strlen(file), most = bytes / 2;
	const char *from = file_bytes > most ? skip_to_whole(file + file_bytes - most) : file;

	snprintf(out, bytes, "%s%s:%u %s", from == file ? "" : "..", *file ? from : "?",
		 frame->line, *function ? function : "?");
	/* Cut within a character: its beginning is left out too. */
	for (size_t n = strlen(out), i = n; n + 1 == bytes && i-- > 0 && i + 4 > n;)
		if ((out[i] & 0xc0) == 0xc0 || !(out[i] & 0x80)) {
			if (out[i] & 0x80)
				out[i] = 0;
			break;
		}
}
