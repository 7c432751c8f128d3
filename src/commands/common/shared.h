/* Options that several commands have: one row each, so that they mean and say the same everywhere. */
#ifndef GS_COMMANDS_COMMON_SHARED_H
#define GS_COMMANDS_COMMON_SHARED_H

#include "commands/common/options.h"
#include "core/base/log.h"

/* How a head is reached, beside its address. Texts are borrowed from argv; NULL: not given. */
struct gs_cli_connection {
	bool tls;                    /* also when one of the three files is given */
	const char *ca, *cert, *key; /* PEM files */
	const char *server_name;     /* that the head's certificate has to have */
	const char *token_file;      /* whose first line shows who we are */
	bool given;                  /* one of them was given, not by the environment alone */
};

#define GS_CLI_ENV_HEAD  "GPUSCOPE_HEAD"
#define GS_CLI_ENV_TOKEN "GPUSCOPE_TOKEN"

/* Whether there is a token, in a file or in the environment. */
bool gs_cli_connection_has_token(const struct gs_cli_connection *connection);

/* The token, empty where there is none; to be wiped by the caller. A negative errno with err. */
int gs_cli_connection_token(const struct gs_cli_connection *connection, char *out, size_t bytes,
			    struct gs_err *err);

extern const struct gs_cli_option gs_cli_connection_options[]; /* of that struct */
/* Of a group: 0, or -EINVAL with err. Sets tls where a file asks for it. */
int gs_cli_connection_check(void *connection, struct gs_err *err);

#define GS_CLI_CONNECTION(type, member)                                                            \
	{                                                                                          \
		"Connection to the head:", gs_cli_connection_options, offsetof(type, member),      \
			gs_cli_connection_check                                                    \
	}

/* A process id. 0, or -EINVAL: it is no number, or none that a process can have. */
int gs_cli_parse_pid(const char *text, uint32_t *ret_pid);

/* A user of this machine by name, or any by number. 0, or -EINVAL. */
int gs_cli_parse_user(const char *text, uint32_t *ret_uid);

/* For rows (gs_cli_option.set): --commands, for the whole program; --width, an int; --by, of a
 * struct gs_report_summary_style. 0, or -EINVAL without a text: the usual one is made. */
int gs_cli_set_commands(void *target, const struct gs_cli_option *option, char *argument,
			struct gs_err *err);
int gs_cli_set_width(void *target, const struct gs_cli_option *option, char *argument,
		     struct gs_err *err);
int gs_cli_set_view(void *target, const struct gs_cli_option *option, char *argument,
		    struct gs_err *err);
/* A struct gs_activity_config. */
int gs_cli_set_stream_limit(void *target, const struct gs_cli_option *option, char *argument,
			    struct gs_err *err);
int gs_cli_set_memory(void *target, const struct gs_cli_option *option, char *argument,
		      struct gs_err *err);
int gs_cli_set_quiet(void *target, const struct gs_cli_option *option, char *argument,
		     struct gs_err *err);
int gs_cli_set_format(void *target, const struct gs_cli_option *option, char *argument,
		      struct gs_err *err);
int gs_cli_raise_log_level(void *target, const struct gs_cli_option *option, char *argument,
			   struct gs_err *err);
int gs_cli_set_log_level(void *target, const struct gs_cli_option *option, char *argument,
			 struct gs_err *err);
int gs_cli_add_log_topic(void *target, const struct gs_cli_option *option, char *argument,
			 struct gs_err *err);

#define GS_CLI_LOG_LEVEL                                                                           \
	{                                                                                          \
		"log-level", 0, "LEVEL", "log: warning, info, debug or trace", GS_CLI_SET,         \
			.words = GS_LOG_LEVEL_WORDS, .set = gs_cli_set_log_level                   \
	}
#define GS_CLI_LOG_TOPIC                                                                           \
	{                                                                                          \
		"log-topic", 0, "TOPICS", "log only these topics, separated by commas",            \
			GS_CLI_LIST, .words = GS_LOG_TOPIC_WORDS, .set = gs_cli_add_log_topic      \
	}
/* A daemon's: trace raises more than the level by -v. */
#define GS_CLI_VERBOSE                                                                             \
	{                                                                                          \
		"verbose", 'v', NULL, "log more: once info, twice debug", GS_CLI_SET,              \
			.set = gs_cli_raise_log_level                                              \
	}
/* Of a command that has no other row for these: its groups. */
extern const struct gs_cli_option gs_cli_log_options[];
#define GS_CLI_LOG_GROUP                                                                           \
	{                                                                                          \
		"Messages:", gs_cli_log_options, 0, NULL                                           \
	}
/* Of a command that writes files: gs_cli_report_written() prints nothing. */
#define GS_CLI_QUIET                                                                               \
	{                                                                                          \
		"quiet", 'q', NULL, "print no line for each written file", GS_CLI_SET,             \
			.set = gs_cli_set_quiet                                                    \
	}
#define GS_CLI_SELECT_GPUS                                                                         \
	{                                                                                          \
		"gpu", 'g', "GPU[,GPU]", "GPUs by index, UUID, PCI bus id or INDEX:MIG-INSTANCE",  \
			GS_CLI_SET, .set = add_gpus                                                \
	}
#define GS_CLI_SETTING                                                                             \
	{                                                                                          \
		"set", 0, "KEY=VALUE", "detector option, such as change.min_change=5%",            \
			GS_CLI_SET,                                                                \
			.takes = "an option of a detector, such as change.min_change=5%, or help", \
			.set = add_setting                                                         \
	}
#define GS_CLI_NO_ARGS                                                                             \
	{                                                                                          \
		.name = "no-args", .help = "same as --commands=name", .same_as = "commands=name"   \
	}
#define GS_CLI_COMMANDS                                                                            \
	{                                                                                          \
		"commands", 0, "WHAT", "process arguments: scrubbed, name (none), full",           \
			GS_CLI_SET, .words = "scrubbed name full", .set = gs_cli_set_commands      \
	}
#define GS_CLI_NVML(type, member)                                                                  \
	{                                                                                          \
		"nvml", 0, "PATH", "use this libnvidia-ml.so.1", GS_CLI_TEXT,                      \
			GS_CLI_AT(type, member)                                                    \
	}
#define GS_CLI_CONFIG(type, member, help)                                                          \
	{                                                                                          \
		"config", 'c', "FILE", help, GS_CLI_TEXT, GS_CLI_AT(type, member)                  \
	}
#define GS_CLI_CHECK_CONFIG(type, member)                                                          \
	{                                                                                          \
		"check-config", 0, NULL, "only check the configuration", GS_CLI_FLAG,              \
			GS_CLI_AT(type, member)                                                    \
	}
#define GS_CLI_PRINT_CONFIG(type, member)                                                          \
	{                                                                                          \
		"print-config", 0, NULL, "print the default configuration, commented",             \
			GS_CLI_FLAG, GS_CLI_AT(type, member)                                       \
	}
#define GS_CLI_FORMAT(type, member, help)                                                          \
	{                                                                                          \
		"format", 0, "FORMAT", help, GS_CLI_SET, GS_CLI_AT(type, member),                  \
			.words = "table json csv yaml", .set = gs_cli_set_format                   \
	}
/* After a row `format` that has json among its words. */
#define GS_CLI_JSON                                                                                \
	{                                                                                          \
		.name = "json", .help = "same as --format=json", .same_as = "format=json"          \
	}
/* Rows of the summaries of `gpuscope trace` and `report`. */
#define GS_CLI_BY(type, member)                                                                    \
	{                                                                                          \
		"by", 0, "WHAT", "by process, thread, stream, kernel, memory, operator, line",     \
			GS_CLI_SET, GS_CLI_AT(type, member),                                       \
			.words = "process thread stream kernel memory operator line",              \
			.set = gs_cli_set_view                                                     \
	}
#define GS_CLI_STREAM_LIMITS(type, member)                                                                                                                                          \
	{                                                                                                                                                                           \
		"stream-limits", 0, "WHAT=N[,WHAT=N]",                                                                                                                              \
			"limits of what --by stream keeps in memory", GS_CLI_LIST,                                                                                                  \
			GS_CLI_AT(type, member),                                                                                                                                    \
			.takes =                                                                                                                                                    \
				"one or more of processes, devices, streams, events, segments, stream-segments, captures, graphs and graph-kernels, each with =N of 1 to 16777216", \
			.near_words =                                                                                                                                               \
				"processes devices streams events segments stream-segments captures graphs graph-kernels",                                                          \
			.set = gs_cli_set_stream_limit                                                                                                                              \
	}
#define GS_CLI_MEMORY(type, member)                                                                \
	{                                                                                          \
		"memory", 0, NULL, "GPU memory by process and call site", GS_CLI_SET,              \
			GS_CLI_AT(type, member), .set = gs_cli_set_memory                          \
	}
#define GS_CLI_TOP(type, member, given)                                                            \
	{                                                                                          \
		"top", 0, "N", "table rows (10; with --by or -v 20; 0 all)", GS_CLI_COUNT,         \
			GS_CLI_AT(type, member), GS_CLI_GIVEN(type, given), .max = 99999           \
	}
#define GS_CLI_WIDTH(type, member)                                                                 \
	{                                                                                          \
		"width", 0, "COLUMNS", "table width (the terminal's, else 100; 0 no limit)",       \
			GS_CLI_SET, GS_CLI_AT(type, member),                                       \
			.takes = "a number of columns, 40 or more; 0 is no limit",                 \
			.set = gs_cli_set_width                                                    \
	}

#endif
