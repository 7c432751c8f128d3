/* Between python_find.c (processes) and python_file.c (files). */
#ifndef GS_SOURCES_UNWIND_PYTHON_INT_H
#define GS_SOURCES_UNWIND_PYTHON_INT_H

#include <stdbool.h>
#include <stdint.h>

#include "sources/elf/code.h"
#include "sources/unwind/python.h"

struct python_file {
	uint64_t runtime;    /* address in the file; 0: no interpreter */
	uint64_t version_at; /* of Py_Version; 0 none */
	uint16_t version;    /* by its functions; 0: older than 3.8 or unknown */
	bool is_old;         /* an interpreter from before _PyRuntime */
	int error;           /* of reading it */
	struct gs_elf_segments segments;
};

/* Have an open file read. 0 or a negative errno, of the file or of asking. */
int python_file_ask(struct gs_reader *reader, const char *name, int fd,
		    struct python_file *ret_file);

/* The answer of a reader. False: it makes no sense. */
bool python_file_take(struct gs_wire_in *in, struct python_file *ret_file);

#endif
