/* What was wrong with a recording: the same words in all commands that read one. */
#ifndef GS_COMMANDS_REPORT_DAMAGE_H
#define GS_COMMANDS_REPORT_DAMAGE_H

#include "pipeline/recording/recording.h"

/* On stderr, in a line each: bytes that could not be read at the end, and frames that were skipped.
 * Nothing of a whole file. */
void cmd_report_damage(const char *path, const struct gs_recording_stats *stats);

#endif
