/* `gpuscope agent --print-config`: the default file, from the tables of agent_conf.c. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "commands/agent/agent_conf.h"
#include "commands/common/cli.h"

int agent_conf_print_defaults(void)
{
	struct gs_buf out = GS_BUF_INIT(1 << 20);
	int r = gs_conf_print(&agent_conf_schema, &out);

	if (r == 0 && (fwrite(out.data, 1, out.bytes, stdout) != out.bytes || fflush(stdout) != 0))
		r = -errno;
	gs_buf_fini(&out);
	if (r < 0)
		gs_cli_print_message("agent: cannot print: %s", strerror(-r));
	return r < 0 ? GS_EXIT_FAILED : GS_EXIT_DONE;
}
