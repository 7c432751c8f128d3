#include "commands/common/show_findings.h"

#include "commands/common/cli.h"
#include "core/base/fmt.h"

#define FEW_STEPS 128 /* as the detector of changes is trained with by default */

int gs_cli_findings_end(struct gs_findings *f, FILE *out, enum gs_findings_format format)
{
	struct gs_explain_result result;
	char steps[GS_FMT_BYTES];
	int r;

	gs_findings_show(f, out, format);
	if (format != GS_FINDINGS_TABLE)
		return 0;
	r = gs_findings_finish_steps(f, &result);
	if (r < 0)
		return r;
	gs_cli_print_message(gs_findings_was_shown(f) ? "%s steps were followed"
						      : "no findings in %s steps",
			     gs_fmt_count(steps, result.n_steps));
	gs_cli_warn_few_steps(result.n_steps);
	return 0;
}

int gs_cli_list_settings(void)
{
	gs_findings_list_settings(stdout);
	return fflush(stdout) == 0 && !ferror(stdout) ? GS_EXIT_DONE : GS_EXIT_FAILED;
}

void gs_cli_warn_few_steps(uint64_t n_steps)
{
	if (n_steps && n_steps < FEW_STEPS)
		gs_cli_print_message(
			"%llu steps are too few to know what is usual: record longer, or --set change.training_samples=16",
			(unsigned long long)n_steps);
}
