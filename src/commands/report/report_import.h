/* gpuscope report TRACE.json -o FILE.gst: traces of other profilers, and sessions, become recordings. */
#ifndef GS_COMMANDS_REPORT_REPORT_IMPORT_H
#define GS_COMMANDS_REPORT_REPORT_IMPORT_H

#include <stdbool.h>

/* Does the name of this output ask for a recording? */
bool cmd_is_import(const char *output);

/* Of a file that is no recording: says what it may be, and what to do with it. */
void cmd_hint_import(const char *path);

/* Of a session that gswarm-profiler wrote: that its PCIe rx and tx are corrected; else nothing. */
struct gs_session_file_stats;
void cmd_report_swapped(const char *file, const struct gs_session_file_stats *stats);

/* 0, or a negative errno after a message. */
int cmd_import_trace(const char *trace, const char *output);

#endif
