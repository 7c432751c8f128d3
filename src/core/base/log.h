/*
 * What a daemon does, for who looks for a fault. Rooms do not print: they return, and log what they
 * decided. The two kinds of message that each user sees (a warning, the reason of a failure) are
 * printed by the commands (commands/common/cli.h).
 *
 * A message has a level, which says how much of it there is, and a topic, which says what it is
 * about. Both are chosen by --log-level and --log-topic; a line says its topic:
 *
 *   gpuscope: gpu: nvml: libnvidia-ml.so.1, driver 580.65.06, 8 GPUs and MIG instances
 */
#ifndef GS_CORE_BASE_LOG_H
#define GS_CORE_BASE_LOG_H

#include <stdbool.h>

#include "core/base/mem.h"

/* Name in the program, name for users. */
#define GS_LOG_LEVELS(X)                                                                           \
	X(WARNING, "warning") /* always */                                                         \
	X(INFO, "info")       /* -v: decisions, and what began and ended */                        \
	X(DEBUG, "debug")     /* -vv: every step */                                                \
	X(TRACE, "trace")     /* -vvv: with what the kernel's verifier says */

#define GS_LOG_TOPICS(X)                                                                           \
	X(ATTACH, "attach")       /* probes: what is attached, what the kernel refuses */          \
	X(FILES, "files")         /* programs and libraries that are read */                       \
	X(PYTHON, "python")       /* interpreters */                                               \
	X(GPU, "gpu")             /* the drivers of GPUs */                                        \
	X(JOBS, "jobs")           /* processes, containers, Slurm's jobs */                        \
	X(RECORDING, "recording") /* files that are written */                                     \
	X(COST, "cost")           /* what gpuscope itself costs */                                 \
	X(HEAD, "head")           /* nodes, sessions and commands: on both sides */                \
	X(HTTP, "http")           /* what is served and pushed by HTTP */                          \
	X(ALERTS, "alerts")       /* conditions that begin and end, messages that are sent */      \
	X(PROCESSES, "processes") /* gpuscope's own processes without rights */

#define GS_LOG_ENUM(name, word) GS_LOG_##name,
#define GS_LOG_WORD(name, word) " " word
/* All that is taken, with spaces. */
#define GS_LOG_LEVEL_WORDS (1 + GS_LOG_LEVELS(GS_LOG_WORD))
#define GS_LOG_TOPIC_WORDS (1 + GS_LOG_TOPICS(GS_LOG_WORD))

enum gs_log_level { GS_LOG_LEVELS(GS_LOG_ENUM) GS_LOG_N_LEVELS };
enum gs_log_topic { GS_LOG_TOPICS(GS_LOG_ENUM) GS_LOG_N_TOPICS };

/* Process-wide; set before there are threads. Preset: warnings of all topics. */
void gs_log_set_level(enum gs_log_level level);
enum gs_log_level gs_log_level(void);

/* Only those that were added, once there is one (warnings are of all topics). 0, or -EINVAL where the
 * word is no topic. */
int gs_log_add_topic(const char *word);

/* 0, or -EINVAL. */
int gs_log_parse_level(const char *word, enum gs_log_level *ret_level);

/* Whether gs_log() would write such a line: asked before a text is made that costs something. */
bool gs_log_is_on(enum gs_log_level level, enum gs_log_topic topic);

/* Both settings as a word for a process of its own, and back; a wrong word changes nothing. */
#define GS_LOG_SETTINGS_BYTES 16
void gs_log_put_settings(char out[GS_LOG_SETTINGS_BYTES]);
void gs_log_take_settings(const char *settings);

/* Lines go there and not to stderr from now on; NULL: to stderr again. */
void gs_log_set_sink(void (*sink)(enum gs_log_level level, enum gs_log_topic topic,
				  const char *line));

/* One line on stderr when level and topic are on. errno is kept. */
void gs_log(enum gs_log_level level, enum gs_log_topic topic, const char *fmt, ...) GS_PRINTF(3, 4);

#endif
