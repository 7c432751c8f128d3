#include "core/base/log.h"

#include <errno.h>
#include <stdarg.h>

static int log_level;
static void (*log_sink)(int level, const char *line);

void gs_log_set_level(int level)
{
	log_level = level;
}

int gs_log_level(void)
{
	return log_level;
}

void gs_log_set_sink(void (*sink)(int level, const char *line))
{
	log_sink = sink;
}

void gs_log(int level, const char *fmt, ...)
{
	int saved_errno = errno;
	char line[1024];
	va_list ap;

	if (level > log_level)
		return;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (log_sink)
		log_sink(level, line);
	else
		fprintf(stderr, "gpuscope: %s\n", line);
	errno = saved_errno;
}
