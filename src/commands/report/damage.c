/* What was wrong with a recording that was read as far as it could be. */
#include "commands/report/damage.h"

#include "commands/common/cli.h"
#include "core/base/fmt.h"

void cmd_report_damage(const char *path, const struct gs_recording_stats *stats)
{
	char n[GS_FMT_BYTES];

	if (stats->cut_bytes)
		gs_cli_print_message(
			"%s: cut off: the last %s could not be read; all %llu complete frames before them were",
			path, gs_fmt_bytes(n, stats->cut_bytes),
			(unsigned long long)stats->n_frames);
	if (stats->n_skipped_frames || stats->skipped_bytes)
		gs_cli_print_message("%s: damaged: %llu frames (%s) were skipped", path,
				     (unsigned long long)stats->n_skipped_frames,
				     gs_fmt_bytes(n, stats->skipped_bytes));
}
