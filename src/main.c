/* The program, put together: the commands, and what is built in beside them. */
#include "commands/main/main.h"
#ifdef GS_WITH_GSWARM
#include "compat/gswarm/gswarm.h"
#endif

int main(int argc, char **argv)
{
#ifdef GS_WITH_GSWARM
	gs_gswarm_add();
#endif
	return gs_cmd_run(argc, argv);
}
