/*
 * User's probes, as they are described (a struct gs_user_spec each, made from a probe file) and as
 * they were found in files (the names of the values of each row). One thread adds rows, any thread
 * looks them up.
 */
#ifndef GS_MODEL_TRACE_USER_SET_H
#define GS_MODEL_TRACE_USER_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/trace/user_probe.h"

#define GS_USER_SPEC_MAX 1024 /* probes of one file */
#define GS_USER_NAME_MAX 64   /* bytes of the name of a value, with its zero */

/* What a value is called and how it is shown. */
struct gs_user_name {
	char name[GS_USER_NAME_MAX]; /* as the user calls it */
	uint8_t value_type;          /* enum gs_value_type */
	uint8_t is_f32;              /* the bits are those of a float */
};

/* How a described value begins: by an argument of a function or of a static probe. */
struct gs_user_start {
	uint8_t arg;    /* 1..; 0: the result */
	uint8_t derefs; /* pointers followed from there */
	uint8_t typed;  /* a type was given (else that of the static probe's argument) */
};

/* One described probe. All texts are owned by the set. */
struct gs_user_spec {
	const char *name;             /* shown; NULL: the symbol's own */
	const char *library;          /* path, glob of a file name, or "exe"; NULL: any file */
	const char *function;         /* symbol or glob; NULL: a static probe */
	const char *provider, *probe; /* of a static probe; else NULL */
	bool return_given;            /* "return" was said, true or false */
	unsigned layer;               /* enum gs_layer */
	unsigned func_class;          /* enum gs_func_class */
	struct gs_user_row row;       /* as far as it is the same for every file */
	struct gs_user_start starts[GS_USER_VALUE_MAX]; /* where each value is read */
	struct gs_user_name names[GS_USER_VALUE_MAX];   /* of row.n_values */
};

struct gs_user_set;

/* Calls of one user's probe in one thread, as they were read last and now. */
struct gs_user_sum {
	uint32_t pid, tid;
	uint16_t func;                     /* id */
	uint16_t aggregate;                /* enum gs_user_aggregate */
	const struct gs_user_name *value;  /* that is aggregated; NULL none */
	bool is_signed;                    /* of the value */
	const struct gs_user_cell *before; /* all zero the first time */
	const struct gs_user_cell *now;
};

struct gs_user_set *gs_user_set_new(void); /* NULL: no memory */
/* With specs and rows; NULL inside: nothing. */
void gs_user_set_free(struct gs_user_set **set);

/* A copy of the spec, texts included. 0, -ENOMEM, -ENOBUFS after GS_USER_SPEC_MAX, -EEXIST: this
 * very probe is there, which would count each call twice. */
int gs_user_set_add(struct gs_user_set *set, const struct gs_user_spec *spec);
size_t gs_user_set_n_twice(const struct gs_user_set *set); /* times that -EEXIST was the answer */
size_t gs_user_set_n(const struct gs_user_set *set);       /* set may be NULL: 0 */
const struct gs_user_spec *gs_user_set_spec(const struct gs_user_set *set, size_t idx);

/* The next row, in use from now on: its number from 1, or -ENOBUFS. names and n_values are
 * copied. */
int gs_user_set_row(struct gs_user_set *set, const struct gs_user_name *names, size_t n_names);

/* The names of a row's values; NULL when there is no such row. */
const struct gs_user_name *gs_user_set_names(const struct gs_user_set *set, unsigned row,
					     unsigned *ret_n);

#endif
