/* The version, and settings made once for the whole process. */
#include "library/gpuscope/library_int.h"

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/shrink.h"

const char *gs_library_version(void)
{
	return GS_VERSION;
}

uint32_t gs_library_version_number(void)
{
	return GS_HEADER_MAJOR * 1000000 + GS_HEADER_MINOR * 1000 + GS_HEADER_PATCH;
}

static void drop_line(enum gs_log_level level, enum gs_log_topic topic, const char *line)
{
}

static void begin_once(void)
{
	gs_log_set_sink(drop_line);
	gs_shrink_spare_heap();
}

void library_begin(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, begin_once);
}

uint64_t library_until_ns(int64_t timeout_ns)
{
	uint64_t now_ns = gs_clock_mono_ns();

	if (timeout_ns < 0)
		return UINT64_MAX;
	return now_ns + (uint64_t)timeout_ns;
}
