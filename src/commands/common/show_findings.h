/* Findings of a run as a command ends with them. */
#ifndef GS_COMMANDS_COMMON_SHOW_FINDINGS_H
#define GS_COMMANDS_COMMON_SHOW_FINDINGS_H

#include "output/findings/findings.h"

/* The last time: of lines for people also how many steps of the view were followed. 0 or
 * -ENOMEM. */
int gs_cli_findings_end(struct gs_findings *findings, FILE *out, enum gs_findings_format format);

/* Says so when that many steps are too few to know what is usual. */
void gs_cli_warn_few_steps(uint64_t n_steps);

/* --set help: prints the options of all detectors. Returns the exit status. */
int gs_cli_list_settings(void);

#endif
