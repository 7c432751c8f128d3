/* What the agent takes from a configuration of ebpf-hpc-monitor. */
#ifndef GS_COMMANDS_AGENT_AGENT_HPC_H
#define GS_COMMANDS_AGENT_AGENT_HPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct agent_hpc_conf { /* Fields as the keys of agent_conf.c, texts "" where not given */
	bool ebpf;
	struct {
		bool enabled;
		int64_t port, update_s; /* update_s 0: not given */
		char prefix[32];
	} prometheus[2];      /* external_systems (README), integrations (the file it ships) */
	uint32_t foreign[24]; /* lines of keys that are not used; 0: not there */
};

struct agent_conf;

/* After reading a file, before options: what those keys ask for, where the agent's own keys do not
 * say otherwise. Its keys that were found and are not used, with their lines, in one line; "" none.
 */
void agent_conf_adopt(struct agent_conf *conf, char *ret_unused, size_t bytes);

#endif
