/*
 * Functions and static probes of a file that the user described: found by a reader, or by this
 * process where there is none. What is done with them is for sources/uprobe.
 */
#ifndef GS_SOURCES_ATTACH_PLAN_DESCRIBED_H
#define GS_SOURCES_ATTACH_PLAN_DESCRIBED_H

#include "sources/elf/usdt.h"
#include "sources/attach_plan/attach_plan.h"
#include "core/reader/reader.h"

/* At most this many functions and sites of a file are reported: more than a run can have. */
#define GS_DESCRIBED_MAX 16384u

struct gs_described_want {            /* all borrowed */
	const char *function;         /* NULL: a static probe */
	bool is_glob;                 /* function may be a pattern; else it is the whole name */
	bool if_defined;              /* only when .dynsym has it */
	bool scope;                   /* its end is to be seen: where it is left, too; */
	bool values;                  /* with what is read there, else only its time, */
	bool by_ret;                  /* at its very ret */
	const char *provider, *probe; /* patterns */
};

struct gs_described_function {
	unsigned want;                 /* which of them it is */
	const char *name;              /* its symbol */
	uint64_t file_off, size_bytes; /* as in struct gs_elf_function */
	bool indirect;                 /* likewise */
	struct gs_x86_site site;       /* where a probe of its entry goes; not of an indirect one */
	bool has_scope;                /* asked for: */
	/* As gs_attach_plan_add_scope() or, with values, gs_attach_plan_add_call() makes it,
	 * without an id: n 0 when it must not be probed. */
	const struct gs_attach_plan *plan;
};

struct gs_described_site {
	unsigned want;                   /* which of them it is */
	const struct gs_usdt_site *site; /* lent */
	bool is_nop5;                    /* what stands there is a nop of five bytes */
};

/* What is lent is good during the call. A non-zero return ends the search and is passed on. */
struct gs_described_handler {
	/* One that is asked for was found. */
	int (*function)(void *ctx, const struct gs_described_function *function);
	int (*site)(void *ctx, const struct gs_described_site *site); /* likewise */
	void *ctx;                                                    /* for both */
};

struct gs_described_query { /* all borrowed */
	/* How places are chosen, and to whom it is reported. */
	const struct gs_attach_plan_options *options;
	const char *path;                      /* as the process names it */
	const struct gs_described_want *wants; /* n_wants of them */
	unsigned n_wants;
};

/* 0, what the handler returned, or a negative errno: the file could not be read. */
int gs_attach_plan_described(const struct gs_described_query *query, struct gs_elf *elf,
			     const struct gs_described_handler *handler, struct gs_err *err);

/* The same by a reader, of an open file (lent); also the errors of gs_reader_ask(). */
int gs_attach_plan_ask_described(const struct gs_described_query *query, struct gs_reader *reader,
				 int fd, const struct gs_described_handler *handler,
				 struct gs_err *err);

/* Take the answer of a reader: -EBADMSG when nothing can have answered so. */
int gs_attach_plan_take_described(const struct gs_described_query *query, uint64_t file_bytes,
				  struct gs_wire_in *in,
				  const struct gs_described_handler *handler);

/* GS_READER_DESCRIBED of a reader. -EBADMSG: the request is none. */
int gs_attach_plan_serve_described(void **state, struct gs_reader_request *request,
				   struct gs_wire_out *reply, struct gs_err *err);

#endif
