/* gpuscope report --compare of recordings. */
#ifndef GS_COMMANDS_REPORT_REPORT_COMPARE_H
#define GS_COMMANDS_REPORT_REPORT_COMPARE_H

#include <stdbool.h>
#include <stddef.h>

/* Does the file begin as a recording? One that cannot be opened: is it called so? */
bool cmd_is_recording(const char *path);

struct cmd_compare_runs {
	char **base; /* --base; none: the first file is the base, and each other one is compared with it */
	size_t n_base;
	char **files; /* with base: runs of the other side */
	size_t n_files;
	const char *output; /* NULL: stdout */
	const char *format; /* NULL: by the suffix of output */
	int width;          /* as in struct report_options */
};

/* An exit status. */
int gs_cmd_compare_runs(const struct cmd_compare_runs *o);

#endif
