/* What both ends know: the messages, and how a reader is started. */
#ifndef GS_CORE_READER_READER_INT_H
#define GS_CORE_READER_READER_INT_H

#include <sys/types.h>

#include "core/base/log.h"
#include "core/reader/reader.h"
#include "core/sandbox/sandbox.h"

#define READER_ARGUMENT "--read-for-parent" /* argv[1]; the level of messages follows */
#define READER_SOCKET   GS_SANDBOX_FIRST_FILE
#define READER_TOO_LATE "refused: it took more than %u s to read"

struct reader_request_head {
	uint32_t bytes; /* that follow */
	uint16_t service;
	uint16_t n_fds; /* that come with this head */
	uint32_t late_ms;
};

/* A line of its log: level and topic in one status. */
#define READER_LOG_STATUS(level, topic) ((int)(level) | (int)(topic) << 8)
#define READER_LOG_LEVEL(status)        ((enum gs_log_level)((status)&0xff))
#define READER_LOG_TOPIC(status)        ((enum gs_log_topic)((status) >> 8))
#define READER_LOG_IS_ONE(status)                                                                  \
	((status) > 0 && READER_LOG_LEVEL(status) > GS_LOG_WARNING &&                              \
	 READER_LOG_LEVEL(status) < GS_LOG_N_LEVELS && READER_LOG_TOPIC(status) < GS_LOG_N_TOPICS)

enum reader_message {
	READER_HELLO = 1,   /* status: what protects it */
	READER_LOG = 2,     /* status: READER_LOG_STATUS(); a text */
	READER_COST = 4,    /* status: KiB that it has read for the request */
	READER_REFUSED = 5, /* status: enum gs_refused; a text: what */
	READER_DONE = 3,    /* status: of the service; a text, and the answer when it is 0 */
};

struct reader_reply_head {
	uint32_t bytes; /* that follow */
	uint32_t message;
	int32_t status;
	uint32_t text_bytes; /* of these, the error's or log's text, without an end */
};

#endif
