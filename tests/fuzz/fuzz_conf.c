/* A configuration, against the tables of agent and head: each error says where, nothing reads
 * outside. */
#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "commands/agent/agent_conf.h"
#include "server/head/head_conf.h"
#include "replay_main.h"

static void check_error(int r, const struct gs_err *err)
{
	unsigned line, column;

	assert(r == -EINVAL || r == -ENOMEM);
	assert(r == -ENOMEM || sscanf(err->text, "f:%u:%u: ", &line, &column) == 2);
	assert(!strchr(err->text, '\n'));
}

static void head(const uint8_t *data, size_t bytes)
{
	static struct gs_head_conf conf;
	struct gs_head_retention keep;
	struct gs_err err = {{0}};
	int r = gs_conf_parse(&gs_head_conf_schema, "f", data, bytes, &conf, NULL, &err);

	if (r < 0) {
		check_error(r, &err);
		return;
	}
	gs_head_conf_retention(&conf, &keep);
	assert(keep.n_levels == conf.store.downsample.n);
	for (size_t i = 0; i < keep.n_levels; i++)
		assert(keep.level[i].interval_ns >= GS_HEAD_COARSE_LEAST_NS &&
		       (!i || keep.level[i].after_ns > keep.level[i - 1].after_ns));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct gs_err err = {{0}};
	struct agent_conf conf;
	int r = gs_conf_parse(&agent_conf_schema, "f", data, bytes, &conf, NULL, &err);

	if (r == 0) {
		assert(memchr(conf.http.listen, '\0', sizeof(conf.http.listen)));
		assert(conf.sampling.interval_ns >= 100000000);
		assert(!conf.metrics.compat[0] || gs_metrics_names_parse(conf.metrics.compat));
		agent_conf_resolve(&conf);
		for (int i = 0; i < AGENT_GROUPS; i++)
			assert(conf.group[i].interval_ns >= 100000000 &&
			       conf.group[i].max_interval_ns >= conf.group[i].interval_ns);
	} else {
		check_error(r, &err);
	}
	head(data, bytes);
	return 0;
}
