/*
 * Configuration files: YAML, read by libyaml, checked against tables of ours. One table says what
 * a key is called, what it takes, what it is without one, and the comment that a person reads; from
 * it come the parser, its messages and the commented default file. To add a section is to add a
 * table.
 *
 * Every message starts with FILE:LINE:COLUMN and says what was found and what is expected.
 */
#ifndef GS_CORE_BASE_CONF_H
#define GS_CORE_BASE_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "core/base/err.h"

#define GS_CONF_FILE_MAX (1U << 20) /* bytes of a file */

/* For min and max of a GS_CONF_DURATION: a millisecond, a second and an hour in ns. */
#define GS_CONF_MS 1000000ll
#define GS_CONF_S  (1000 * GS_CONF_MS)
#define GS_CONF_H  (3600 * GS_CONF_S)

enum gs_conf_kind {
	GS_CONF_NONE = 0,
	GS_CONF_BOOL = 1,     /* bool: true, false, yes, no, on, off */
	GS_CONF_NUMBER = 2,   /* int64_t, from min to max */
	GS_CONF_DURATION = 3, /* uint64_t ns, from min to max: "100ms", "1s", "1m", "1h" */
	GS_CONF_RATIO = 4,    /* double, 0 to 1, also as "5%" */
	GS_CONF_TEXT = 5,     /* char[bytes], terminated */
	GS_CONF_CHOICE = 6,   /* int, an index into choices */
	GS_CONF_REAL = 7,     /* double, from min to max; the preset "" is "not set", NAN */
	GS_CONF_ROWS = 8,     /* struct gs_conf_rows: a list of small mappings */
	GS_CONF_FOREIGN = 9,  /* uint32_t: known, of another program: the line where it stands (0:
			       * it does not), whatever its value is */
	GS_CONF_LIST = 10, /* char[bytes], terminated: a text or a list of texts, kept with commas
			    * between them */
};

#define GS_CONF_ROWS_MAX    64
#define GS_CONF_COLUMNS_MAX 8

struct gs_conf_cell {
	uint32_t line, column; /* from 1; 0: not given */
	char text[256];        /* as it stands in the file, terminated; "" where not given */
};

/* Mappings with the keys of columns; each an entry of a list, or the value of a key that is the
 * first column's. */
struct gs_conf_rows {
	uint32_t n;                                                      /* rows */
	struct gs_conf_cell cell[GS_CONF_ROWS_MAX][GS_CONF_COLUMNS_MAX]; /* by row and column */
};

struct gs_conf_key {
	const char *name;                /* in its section, as one writes it in the file */
	enum gs_conf_kind kind;          /* which also says the type of what lies at offset */
	size_t offset;                   /* in the section's struct */
	const char *preset;              /* the default, as one writes it in the file */
	const char *comment;             /* lines of at most 90 columns, without "# " */
	int64_t min, max;                /* of NUMBER, DURATION (ns) and REAL */
	size_t bytes;                    /* of TEXT and LIST */
	const char *const *choices;      /* of CHOICE, or columns of ROWS; ends with NULL */
	bool (*valid)(const char *text); /* of TEXT and of each of a LIST; NULL: any. The empty text
					  * is "not set" */
	const char *expects;             /* of TEXT and LIST with valid: "ADDRESS:PORT, ..." */
	bool hidden;                     /* another spelling: not in the default file */
};

struct gs_conf_section {
	const char *name;               /* "http", or "sampling.basic" for a mapping in a mapping */
	const char *comment;            /* "" none */
	size_t offset;                  /* of its struct in the whole */
	const struct gs_conf_key *keys; /* n_keys of them */
	size_t n_keys;
};

struct gs_conf_where; /* where each key stands in the file that is being read */

struct gs_conf_schema {
	const char *comment;                    /* at the head of the default file */
	size_t bytes;                           /* of the whole struct */
	const struct gs_conf_section *sections; /* n_sections of them */
	size_t n_sections;
	/* What no single key decides: returns 0 or what gs_conf_refuse() returned. May be NULL. */
	int (*check)(const void *conf, const struct gs_conf_where *where, struct gs_err *err);
};

/* The struct with every default. Asserts that the table's own defaults are valid. */
void gs_conf_defaults(const struct gs_conf_schema *schema, void *ret_conf);

/* One of several things that are wrong, "FILE:LINE:COLUMN: what". */
typedef void (*gs_conf_report_fn)(const char *text);

/* Read text (a whole file, called name in messages). ret_conf is written only on success. -EINVAL
 * with err, or -ENOMEM. When more keys than one are wrong, report (may be NULL) is given all but the
 * last of them, in the order of the file, and err has the last; after 20 no more are looked for. */
int gs_conf_parse(const struct gs_conf_schema *schema, const char *name, const void *text,
		  size_t bytes, void *ret_conf, gs_conf_report_fn report, struct gs_err *err);

/* The same with a file. Also -ENOENT, -EACCES, ... with err. */
int gs_conf_load(const struct gs_conf_schema *schema, const char *path, void *ret_conf,
		 gs_conf_report_fn report, struct gs_err *err);

/* One key ("http.listen") from elsewhere than a file, as an option: -EINVAL and in err what it
 * takes. schema->check is not asked. The key is one of the schema's and no ROWS. */
int gs_conf_put(const struct gs_conf_schema *schema, const char *key, const char *text, void *conf,
		struct gs_err *err);

/* For schema->check: the key ("http.tls_key") is refused where it stands (or where its section
 * stands when it is not given). Returns -EINVAL. */
int gs_conf_refuse(const struct gs_conf_where *where, const char *key, struct gs_err *err,
		   const char *fmt, ...) GS_PRINTF(4, 5);

/* The same at a place of the file, as cells of rows have it. */
int gs_conf_refuse_at(const struct gs_conf_where *where, size_t line, size_t column,
		      struct gs_err *err, const char *fmt, ...) GS_PRINTF(5, 6);

/* The commented default file. Parsing it gives gs_conf_defaults(). 0 or the error of
 * gs_buf_put(). */
int gs_conf_print(const struct gs_conf_schema *schema, struct gs_buf *out);

#endif
