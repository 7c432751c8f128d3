#include "commands/common/cli.h"

#include <argp.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

void gs_cli_say(const char *fmt, ...)
{
	va_list ap;

	fputs("gpuscope: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
}

void gs_cli_say_text(const char *text)
{
	gs_cli_say("%s", text);
}

int gs_cli_exit_status_of(int error)
{
	switch (error) {
	case -EPERM:
	case -EACCES:
	case -ENOTSUP:
		return GS_EXIT_NOT_PERMITTED;
	default:
		return GS_EXIT_FAILED;
	}
}

/* As they are, but for argp's note on options with arguments. */
char *gs_cli_help_filter(int key, const char *text, void *input)
{
	return key == ARGP_KEY_HELP_DUP_ARGS_NOTE ? NULL : (char *)(uintptr_t)text;
}
