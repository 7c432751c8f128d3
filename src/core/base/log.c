#include "core/base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROW(name, word) [GS_LOG_##name] = (word),
static const char *const level_word[GS_LOG_N_LEVELS] = {GS_LOG_LEVELS(ROW)};
static const char *const topic_word[GS_LOG_N_TOPICS] = {GS_LOG_TOPICS(ROW)};

static enum gs_log_level log_level;
static unsigned log_topics; /* bits 1 << enum gs_log_topic; none: all */
static void (*log_sink)(enum gs_log_level level, enum gs_log_topic topic, const char *line);

void gs_log_set_level(enum gs_log_level level)
{
	log_level = level < GS_LOG_N_LEVELS ? level : GS_LOG_N_LEVELS - 1;
}

enum gs_log_level gs_log_level(void)
{
	return log_level;
}

int gs_log_parse_level(const char *word, enum gs_log_level *ret_level)
{
	for (unsigned i = 0; i < GS_LOG_N_LEVELS; i++) {
		if (strcmp(word, level_word[i]) == 0) {
			*ret_level = i;
			return 0;
		}
	}
	return -EINVAL;
}

int gs_log_add_topic(const char *word)
{
	for (unsigned i = 0; i < GS_LOG_N_TOPICS; i++) {
		if (strcmp(word, topic_word[i]) == 0) {
			log_topics |= 1u << i;
			return 0;
		}
	}
	return -EINVAL;
}

bool gs_log_is_on(enum gs_log_level level, enum gs_log_topic topic)
{
	return level == GS_LOG_WARNING ||
	       (level <= log_level && (!log_topics || log_topics >> topic & 1));
}

void gs_log_put_settings(char out[GS_LOG_SETTINGS_BYTES])
{
	snprintf(out, GS_LOG_SETTINGS_BYTES, "%u:%x", (unsigned)log_level, log_topics);
}

void gs_log_take_settings(const char *settings)
{
	char *end;
	unsigned long level = strtoul(settings, &end, 10), topics;

	if (*end != ':')
		return;
	topics = strtoul(end + 1, &end, 16);
	if (*end)
		return;
	gs_log_set_level((enum gs_log_level)level);
	log_topics = (unsigned)topics;
}

void gs_log_set_sink(void (*sink)(enum gs_log_level level, enum gs_log_topic topic,
				  const char *line))
{
	log_sink = sink;
}

void gs_log(enum gs_log_level level, enum gs_log_topic topic, const char *fmt, ...)
{
	int saved_errno = errno;
	char line[1024];
	va_list ap;

	if (!gs_log_is_on(level, topic))
		return;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (log_sink)
		log_sink(level, topic, line);
	else if (level == GS_LOG_WARNING)
		fprintf(stderr, "gpuscope: %s\n", line);
	else
		fprintf(stderr, "gpuscope: %s: %s\n", topic_word[topic], line);
	errno = saved_errno;
}
