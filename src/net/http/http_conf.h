/*
 * Rows of the section `http` that every server has: how others may ask. Of the agent's table and of
 * the head's, so that what one takes the other takes.
 */
#ifndef GS_NET_HTTP_HTTP_CONF_H
#define GS_NET_HTTP_HTTP_CONF_H

#include "core/base/conf.h"
#include "net/http/http.h"

/* hosts: a text of size_bytes, words with commas, for gs_http_options.hosts. */
#define GS_HTTP_CONF_HOSTS(offset_bytes, size_bytes)                                                               \
	{                                                                                                          \
		.name = "hosts", .kind = GS_CONF_LIST, .offset = (offset_bytes), .preset = "",                     \
		.comment =                                                                                         \
			"Additional host names to accept in requests, such as those of a proxy or a service;\n"    \
			"addresses, localhost, the host's own names and those of tls_cert are known. \"*\": any.", \
		.bytes = (size_bytes), .valid = gs_http_hosts_valid,                                               \
		.expects = "host names without ports, or *"                                                        \
	}

/* origins: a text of size_bytes, words with commas, for gs_http_options.origins. */
#define GS_HTTP_CONF_ORIGINS(offset_bytes, size_bytes)                                             \
	{                                                                                          \
		.name = "origins", .kind = GS_CONF_LIST, .offset = (offset_bytes), .preset = "",   \
		.comment = "Origins whose pages may use the API from a browser (CORS), such as\n"  \
			   "https://grafana.example:3000. They need the same tokens as others.",   \
		.bytes = (size_bytes), .valid = gs_http_origin_valid,                              \
		.expects = "origins such as https://grafana.example:3000"                          \
	}

/* anonymous: a bool, for gs_http_options.anonymous. */
#define GS_HTTP_CONF_ANONYMOUS(offset_bytes)                                                                  \
	{                                                                                                     \
		.name = "anonymous", .kind = GS_CONF_BOOL, .offset = (offset_bytes),                          \
		.preset = "false",                                                                            \
		.comment =                                                                                    \
			"Serve page and API to other machines without tokens, not only metrics and health.\n" \
			"Users and command arguments are still left out."                                     \
	}

#endif
