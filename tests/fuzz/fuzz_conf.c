/* A configuration, against the agent's own tables: each error says where, nothing reads outside. */
#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "agent/agent.h"
#include "replay_main.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct gs_err err = {{0}};
	struct agent_conf conf;
	unsigned line, column;
	int r = gs_conf_parse(&agent_conf_schema, "f", data, bytes, &conf, &err);

	if (r == 0) {
		assert(memchr(conf.http.listen, '\0', sizeof(conf.http.listen)));
		assert(conf.sampling.interval_ns >= 100000000);
		assert(conf.metrics.names >= 0 && conf.metrics.names <= GS_PROM_DCGM_NEW);
		agent_conf_resolve(&conf);
		for (int i = 0; i < AGENT_GROUPS; i++)
			assert(conf.group[i].interval_ns >= 100000000 &&
			       conf.group[i].max_interval_ns >= conf.group[i].interval_ns);
	} else {
		assert(r == -EINVAL || r == -ENOMEM);
		assert(r == -ENOMEM || sscanf(err.text, "f:%u:%u: ", &line, &column) == 2);
		assert(!strchr(err.text, '\n'));
	}
	return 0;
}
