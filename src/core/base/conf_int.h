/* Between the files of configuration: one scalar and its key. */
#ifndef GS_CORE_BASE_CONF_INT_H
#define GS_CORE_BASE_CONF_INT_H

#include "core/base/conf.h"

/* Store text at base (the section's struct). 0, or -EINVAL and what is expected in err. */
int gs_conf_set(const struct gs_conf_key *key, const char *text, size_t bytes, void *base,
		struct gs_err *err);

/* What the key takes, in words: "a duration from 100ms to 1h". */
const char *gs_conf_expects(const struct gs_conf_key *key, char *out, size_t bytes);

#endif
