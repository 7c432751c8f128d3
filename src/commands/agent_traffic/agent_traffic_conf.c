/* The section `traffic` of the agent's configuration. */
#include <stddef.h>
#include <stdlib.h>

#include "commands/agent_traffic/agent_traffic.h"

#define AT(member) offsetof(struct agent_traffic_conf, member)

static bool valid_port(const char *text)
{
	char *end;
	long port = strtol(text, &end, 10);

	return end != text && !*end && port >= 1 && port <= 65535;
}

const struct gs_conf_key agent_traffic_keys[AGENT_TRAFFIC_KEYS] = {
	{.name = "enabled",
	 .kind = GS_CONF_BOOL,
	 .offset = AT(enabled),
	 .preset = "false",
	 .comment =
		 "Count TCP connections, bytes, requests and response times by application, port and peer\n"
		 "(gpuscope_traffic_*, /api/v1/traffic). Needs root, or CAP_BPF and CAP_PERFMON."},
	{.name = "ports",
	 .kind = GS_CONF_LIST,
	 .offset = AT(ports),
	 .bytes = sizeof(((struct agent_traffic_conf *)0)->ports),
	 .preset = "",
	 .comment =
		 "Only count servers on these ports, at most 16, and their clients; empty: all ports.",
	 .valid = valid_port,
	 .expects = "ports, such as 11434, 8000"},
	{.name = "peers",
	 .kind = GS_CONF_NUMBER,
	 .offset = AT(peers),
	 .preset = "50",
	 .comment =
		 "Peers with their own metrics; all others are added up by port as peer \"other\".",
	 .min = 0,
	 .max = 10000},
	{.name = "max_peers",
	 .kind = GS_CONF_NUMBER,
	 .offset = AT(max_peers),
	 .preset = "4096",
	 .comment =
		 "Peers in memory, about 2 KiB each. A new peer replaces the least recently used one.",
	 .min = 16,
	 .max = 65536},
	{.name = "linger",
	 .kind = GS_CONF_DURATION,
	 .offset = AT(linger_ns),
	 .preset = "60s",
	 .comment =
		 "How long the kernel keeps figures of a process after its last connection has closed.",
	 .min = GS_CONF_S,
	 .max = GS_CONF_H},
	{.name = "ollama_port",
	 .kind = GS_CONF_NUMBER,
	 .offset = AT(ollama_port),
	 .preset = "11434",
	 .comment =
		 "Port of the Ollama server whose requests and tokens go to the MySQL tables ollamanet and ipport (mysql.schema: eacgm).",
	 .min = 1,
	 .max = 65535},
};
