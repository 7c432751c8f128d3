/* Texts of /proc that the work probes read: mountinfo and the list of devices. */
#include <stdlib.h>
#include <string.h>

#include "sources/taskstats/taskstats_int.h"
#include "replay_main.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char *text = malloc(bytes + 1);
	uint32_t majors[4];
	struct taskstats_mount m;
	bool whole;

	if (!text)
		return 0;
	memcpy(text, data, bytes);
	text[bytes] = '\0';
	if (taskstats_gpu_majors(text, majors, 4) > 4)
		abort();
	if (taskstats_mount_line(text, &m, &whole) &&
	    (!memchr(m.path, '\0', sizeof(m.path)) || !memchr(m.type, '\0', sizeof(m.type))))
		abort();
	free(text);
	return 0;
}
