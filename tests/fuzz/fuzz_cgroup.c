/* /proc/PID/cgroup: the names of groups are chosen by whoever may make one. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sources/identity/job_cgroup.h"
#include "sources/identity/identity.h"
#include "replay_main.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char out[GS_IDENTITY_CONTAINER_BYTES];
	struct gs_job_cgroup group;
	char *text = malloc(bytes + 1);

	if (!text)
		return 0;
	if (bytes)
		memcpy(text, data, bytes);
	text[bytes] = '\0';
	memset(out, 'x', sizeof(out));
	gs_identity_container_of_cgroup(text, out);
	assert(memchr(out, '\0', sizeof(out)));
	for (size_t i = 0; out[i]; i++)
		assert((unsigned char)out[i] >= 0x20 && out[i] != 0x7f);
	if (gs_job_of_cgroup(text, &group)) {
		assert(group.kind != GS_JOB_NONE);
		assert(memchr(group.name, '\0', sizeof(group.name)));
		assert(memchr(group.path, '\0', sizeof(group.path)));
	}
	free(text);
	return 0;
}
