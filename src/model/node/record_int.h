/* Between the files that make records of snapshots, and snapshots of records. */
#ifndef GS_MODEL_NODE_RECORD_INT_H
#define GS_MODEL_NODE_RECORD_INT_H

#include "model/node/record.h"

struct text { /* of a struct: where it goes to or comes from */
	char *at;
	size_t bytes; /* of the array */
};

#define TEXT(array)                                                                                \
	{                                                                                          \
		(char *)(array), sizeof(array)                                                     \
	}

#endif
