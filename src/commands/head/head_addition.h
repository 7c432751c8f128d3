/* What a room above the commands adds to `gpuscope head`: the interface of another program. */
#ifndef GS_COMMANDS_HEAD_HEAD_ADDITION_H
#define GS_COMMANDS_HEAD_HEAD_ADDITION_H

#include "server/api/endpoint.h"
#include "server/head/head.h"

struct head_addition {
	/* Calls for the options of one head, lent until close(), which comes after the head has
	 * stopped. NULL: no memory. */
	void *(*open)(struct gs_head_service *ret_service);
	void (*close)(void *addition);
	const struct gs_api_addition *http; /* static; NULL: none */
};

/* static; once, before any command runs. */
void head_set_addition(const struct head_addition *addition);

#endif
