/*
 * Reading a configuration: libyaml makes a tree whose nodes know where they stood, and the tree is
 * walked against the tables. The tree may hold cycles (an alias inside its own anchor); the walk
 * goes only as deep as the tables do.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <yaml.h>

#include "core/base/conf.h"
#include "core/base/conf_int.h"
#include "core/near/near.h"
#include "core/base/yaml_depth.h"

#define PATH_MAX_BYTES 128
#define MARKS_MAX      256
#define WRONG_MAX      20

struct mark {
	char path[PATH_MAX_BYTES];
	size_t line, column; /* from 1 */
};

struct gs_conf_where {
	const char *name;
	struct mark marks[MARKS_MAX]; /* keys and sections in the order of the file */
	size_t n_marks;
};

struct walk {
	const struct gs_conf_schema *schema;
	struct gs_conf_where *where;
	yaml_document_t *document;
	char *conf;
	gs_conf_report_fn report;
	unsigned n_wrong;
	struct gs_err wrong; /* the last one, not reported yet */
	struct gs_err *err;
};

static int fail_at(const struct gs_conf_where *where, size_t line, size_t column,
		   struct gs_err *err, const char *fmt, ...) GS_PRINTF(5, 6);

static int fail_at(const struct gs_conf_where *where, size_t line, size_t column,
		   struct gs_err *err, const char *fmt, ...)
{
	char text[640];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return gs_err_set(err, -EINVAL, "%s:%zu:%zu: %s", where->name, line, column, text);
}

static int fail_node(const struct walk *w, const yaml_node_t *node, const char *text)
{
	return fail_at(w->where, node->start_mark.line + 1, node->start_mark.column + 1, w->err,
		       "%s", text);
}

static const struct gs_conf_section *find_section(const struct gs_conf_schema *schema,
						  const char *path)
{
	for (size_t i = 0; i < schema->n_sections; i++)
		if (strcmp(schema->sections[i].name, path) == 0)
			return &schema->sections[i];
	return NULL;
}

/* The part of a section's name after "path." up to the next dot; false: it is not below path. */
static bool next_part(const char *name, const char *path, char *out, size_t bytes)
{
	size_t n = strlen(path), m;

	if (n) {
		if (strncmp(name, path, n) != 0 || name[n] != '.')
			return false;
		name += n + 1;
	}
	m = strcspn(name, ".");
	if (!m || m >= bytes)
		return false;
	memcpy(out, name, m);
	out[m] = '\0';
	return true;
}

static bool is_mapping_of_schema(const struct gs_conf_schema *schema, const char *path,
				 const char *key)
{
	char part[PATH_MAX_BYTES];

	for (size_t i = 0; i < schema->n_sections; i++)
		if (next_part(schema->sections[i].name, path, part, sizeof(part)) &&
		    strcmp(part, key) == 0)
			return true;
	return false;
}

/* The name of this mapping that is nearest to what was written; "" when none is near. */
static void suggest_key(const struct gs_conf_schema *schema, const char *path, const char *written,
			char *out, size_t bytes)
{
	const struct gs_conf_section *section = find_section(schema, path);
	unsigned best = (unsigned)strlen(written) / 2 + 1, d;
	char part[PATH_MAX_BYTES];

	out[0] = '\0';
	if (best > 5)
		best = 5;
	for (size_t i = 0; section && i < section->n_keys; i++)
		if ((d = gs_near_distance(written, section->keys[i].name)) < best) {
			best = d;
			snprintf(out, bytes, "%s", section->keys[i].name);
		}
	for (size_t i = 0; i < schema->n_sections; i++)
		if (next_part(schema->sections[i].name, path, part, sizeof(part)) &&
		    (d = gs_near_distance(written, part)) < best) {
			best = d;
			snprintf(out, bytes, "%s", part);
		}
}

static int refuse_unknown(const struct walk *w, const char *path, const char *written,
			  const yaml_node_t *node)
{
	char near[PATH_MAX_BYTES], text[400];
	int n;

	suggest_key(w->schema, path, written, near, sizeof(near));
	n = snprintf(text, sizeof(text), "unknown key \"%.60s\"", written);
	if (path[0])
		n += snprintf(text + n, sizeof(text) - (size_t)n, " in %s", path);
	if (near[0])
		snprintf(text + n, sizeof(text) - (size_t)n, "; did you mean \"%s\"?", near);
	else
		snprintf(text + n, sizeof(text) - (size_t)n, "; `--print-config` shows all keys");
	return fail_node(w, node, text);
}

static int remember_node(const struct walk *w, const char *path, const yaml_node_t *node)
{
	struct gs_conf_where *where = w->where;
	char text[PATH_MAX_BYTES + 64];
	struct mark *m;

	for (size_t i = 0; i < where->n_marks; i++)
		if (strcmp(where->marks[i].path, path) == 0) {
			snprintf(text, sizeof(text), "%s is given twice, first on line %zu", path,
				 where->marks[i].line);
			return fail_node(w, node, text);
		}
	if (where->n_marks == MARKS_MAX)
		return fail_node(w, node, "too many keys for a configuration");
	m = &where->marks[where->n_marks++];
	snprintf(m->path, sizeof(m->path), "%s", path);
	m->line = node->start_mark.line + 1;
	m->column = node->start_mark.column + 1;
	return 0;
}

/* One cell: the key of a small mapping. */
static int walk_cell(const struct walk *w, const struct gs_conf_key *key, const yaml_node_t *name,
		     const yaml_node_t *value, struct gs_conf_cell *row)
{
	const char *written = (const char *)name->data.scalar.value, *content;
	char text[512], expected[320];
	int i = 0;

	if (name->type != YAML_SCALAR_NODE)
		return fail_node(w, name, "a key is a plain word");
	while (key->choices[i] && strcmp(key->choices[i], written) != 0)
		i++;
	if (!key->choices[i]) {
		snprintf(text, sizeof(text), "unknown key \"%.60s\": %s takes %s", written,
			 key->name, gs_conf_expects(key, expected, sizeof(expected)));
		return fail_node(w, name, text);
	}
	snprintf(text, sizeof(text), "%s takes a text of at most %zu bytes", written,
		 sizeof(row->text) - 1);
	if (value->type != YAML_SCALAR_NODE)
		return fail_node(w, value, text);
	content = (const char *)value->data.scalar.value;
	if (value->data.scalar.length >= sizeof(row->text) ||
	    strlen(content) != value->data.scalar.length)
		return fail_node(w, value, text);
	if (row[i].line) {
		snprintf(text, sizeof(text), "%s is given twice in one entry", key->choices[i]);
		return fail_node(w, name, text);
	}
	row[i].line = (uint32_t)value->start_mark.line + 1;
	row[i].column = (uint32_t)value->start_mark.column + 1;
	memcpy(row[i].text, content, value->data.scalar.length + 1);
	return 0;
}

/* One small mapping; title: the key that it is the value of, NULL in a list. */
static int walk_row(const struct walk *w, const struct gs_conf_key *key, const yaml_node_t *title,
		    const yaml_node_t *value, struct gs_conf_rows *rows)
{
	struct gs_conf_cell *row = rows->cell[rows->n];
	char text[400], expected[320];

	if (rows->n == GS_CONF_ROWS_MAX)
		return fail_node(w, value, "more than 64 entries");
	memset(row, 0, sizeof(rows->cell[0]));
	if (title) {
		if (title->type != YAML_SCALAR_NODE ||
		    title->data.scalar.length >= sizeof(row[0].text))
			return fail_node(w, title, "a key is a plain word");
		row[0].line = (uint32_t)title->start_mark.line + 1;
		row[0].column = (uint32_t)title->start_mark.column + 1;
		snprintf(row[0].text, sizeof(row[0].text), "%s",
			 (const char *)title->data.scalar.value);
	}
	if (value->type != YAML_MAPPING_NODE) {
		snprintf(text, sizeof(text), "%s takes %s", key->name,
			 gs_conf_expects(key, expected, sizeof(expected)));
		return fail_node(w, value, text);
	}
	for (yaml_node_pair_t *p = value->data.mapping.pairs.start;
	     p < value->data.mapping.pairs.top; p++) {
		int r = walk_cell(w, key, yaml_document_get_node(w->document, p->key),
				  yaml_document_get_node(w->document, p->value), row);

		if (r < 0)
			return r;
	}
	if (!row[0].text[0]) {
		snprintf(text, sizeof(text), "an entry of %s without %s", key->name,
			 key->choices[0]);
		return fail_node(w, value, text);
	}
	rows->n++;
	return 0;
}

static int walk_rows(const struct walk *w, const struct gs_conf_key *key, const yaml_node_t *value,
		     struct gs_conf_rows *rows)
{
	char text[400], expected[320];
	int r = 0;

	rows->n = 0;
	if (value->type == YAML_SEQUENCE_NODE) {
		for (yaml_node_item_t *i = value->data.sequence.items.start;
		     r == 0 && i < value->data.sequence.items.top; i++)
			r = walk_row(w, key, NULL, yaml_document_get_node(w->document, *i), rows);
		return r;
	}
	if (value->type == YAML_MAPPING_NODE) {
		for (yaml_node_pair_t *p = value->data.mapping.pairs.start;
		     r == 0 && p < value->data.mapping.pairs.top; p++)
			r = walk_row(w, key, yaml_document_get_node(w->document, p->key),
				     yaml_document_get_node(w->document, p->value), rows);
		return r;
	}
	if (value->data.scalar.length == 0)
		return 0;
	snprintf(text, sizeof(text), "%s takes %s, not a single value", key->name,
		 gs_conf_expects(key, expected, sizeof(expected)));
	return fail_node(w, value, text);
}

/* A list of texts, joined by commas; none of them may hold one. */
static int walk_list(const struct walk *w, const struct gs_conf_section *section,
		     const struct gs_conf_key *key, const yaml_node_t *value)
{
	char *out = w->conf + section->offset + key->offset;
	struct gs_conf_key one = *key;
	char expected[320], text[600];
	GS_FREE char *piece = calloc(1, key->bytes);
	size_t n = 0;

	if (!piece)
		return -ENOMEM;
	one.kind = GS_CONF_TEXT;
	one.offset = 0;
	out[0] = '\0';
	for (yaml_node_item_t *i = value->data.sequence.items.start;
	     i < value->data.sequence.items.top; i++) {
		const yaml_node_t *item = yaml_document_get_node(w->document, *i);
		const char *content = (const char *)item->data.scalar.value;
		struct gs_err why = {{0}};

		if (item->type != YAML_SCALAR_NODE || strchr(content, ',')) {
			snprintf(text, sizeof(text), "%s takes %s", key->name,
				 gs_conf_expects(key, expected, sizeof(expected)));
			return fail_node(w, item, text);
		}
		if (gs_conf_set(&one, content, item->data.scalar.length, piece, &why) < 0)
			return fail_node(w, item, why.text);
		if (n + strlen(piece) + 2 > key->bytes)
			return fail_node(w, item, "too many entries");
		n += (size_t)snprintf(out + n, key->bytes - n, "%s%s", n ? "," : "", piece);
	}
	return 0;
}

static int walk_value(const struct walk *w, const struct gs_conf_section *section,
		      const struct gs_conf_key *key, const yaml_node_t *value)
{
	char expected[512], text[600];
	struct gs_err why = {{0}};
	int r;

	if (key->kind == GS_CONF_FOREIGN) {
		*(uint32_t *)(w->conf + section->offset + key->offset) =
			(uint32_t)value->start_mark.line + 1;
		return 0;
	}
	if (key->kind == GS_CONF_ROWS)
		return walk_rows(w, key, value, (void *)(w->conf + section->offset + key->offset));
	if (key->kind == GS_CONF_LIST && value->type == YAML_SEQUENCE_NODE)
		return walk_list(w, section, key, value);
	if (value->type != YAML_SCALAR_NODE) {
		snprintf(text, sizeof(text), "%s takes %s, not a %s", key->name,
			 gs_conf_expects(key, expected, sizeof(expected)),
			 value->type == YAML_MAPPING_NODE ? "mapping" : "list");
		return fail_node(w, value, text);
	}
	r = gs_conf_set(key, (const char *)value->data.scalar.value, value->data.scalar.length,
			w->conf + section->offset, &why);
	return r < 0 ? fail_node(w, value, why.text) : 0;
}

static int walk_mapping(struct walk *w, const char *path, const yaml_node_t *node);

/* What is wrong with one key is kept until it is known whether it is the last; r: what reading it
 * returned. 0: the next key may be looked at. */
static int go_on(struct walk *w, int r)
{
	if (r != -EINVAL || w->n_wrong == WRONG_MAX)
		return r;
	if (w->n_wrong++ > 0 && w->report)
		w->report(w->wrong.text);
	w->wrong = *w->err;
	return w->n_wrong < WRONG_MAX ? 0 : r;
}

static int walk_pair(struct walk *w, const char *path, const yaml_node_t *name,
		     const yaml_node_t *value)
{
	const struct gs_conf_section *section = find_section(w->schema, path);
	const char *written;
	char full[PATH_MAX_BYTES];
	int r;

	if (name->type != YAML_SCALAR_NODE ||
	    strlen((const char *)name->data.scalar.value) != name->data.scalar.length)
		return fail_node(w, name, "a key is a plain word");
	written = (const char *)name->data.scalar.value;
	if ((size_t)snprintf(full, sizeof(full), "%s%s%s", path, path[0] ? "." : "", written) >=
	    sizeof(full))
		return refuse_unknown(w, path, written, name);
	for (size_t i = 0; section && i < section->n_keys; i++)
		if (strcmp(section->keys[i].name, written) == 0) {
			r = remember_node(w, full, name);
			return r < 0 ? r : walk_value(w, section, &section->keys[i], value);
		}
	if (!is_mapping_of_schema(w->schema, path, written))
		return refuse_unknown(w, path, written, name);
	r = remember_node(w, full, name);
	return r < 0 ? r : walk_mapping(w, full, value);
}

static int walk_mapping(struct walk *w, const char *path, const yaml_node_t *node)
{
	char text[PATH_MAX_BYTES + 64];

	/* "http:" with nothing below is a section that changes nothing. */
	if (node->type == YAML_SCALAR_NODE && node->data.scalar.length == 0 &&
	    node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
		return 0;
	if (node->type != YAML_MAPPING_NODE) {
		snprintf(text, sizeof(text), "%s takes keys and values, not a %s",
			 path[0] ? path : "a configuration",
			 node->type == YAML_SCALAR_NODE ? "single value" : "list");
		return fail_node(w, node, text);
	}
	for (yaml_node_pair_t *p = node->data.mapping.pairs.start; p < node->data.mapping.pairs.top;
	     p++) {
		int r = walk_pair(w, path, yaml_document_get_node(w->document, p->key),
				  yaml_document_get_node(w->document, p->value));

		r = go_on(w, r);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Where a byte of the text stands; libyaml's reader knows only how many bytes it had taken. */
static void place_of(const char *text, size_t bytes, size_t offset, size_t *ret_line,
		     size_t *ret_column)
{
	*ret_line = *ret_column = 1;
	for (size_t i = 0; i < offset && i < bytes; i++)
		if (text[i] == '\n') {
			++*ret_line;
			*ret_column = 1;
		} else {
			++*ret_column;
		}
}

static int fail_yaml(const yaml_parser_t *p, const struct gs_conf_where *where, const char *text,
		     size_t bytes, struct gs_err *err)
{
	size_t line, column;

	if (p->error == YAML_MEMORY_ERROR)
		return -ENOMEM;
	if (p->error == YAML_READER_ERROR) {
		place_of(text, bytes, p->problem_offset, &line, &column);
		return fail_at(where, line, column, err, "not UTF-8 text: %s",
			       p->problem ? p->problem : "unreadable");
	}
	return fail_at(where, p->problem_mark.line + 1, p->problem_mark.column + 1, err,
		       "not YAML: %s%s%s", p->problem ? p->problem : "unreadable",
		       p->context ? " " : "", p->context ? p->context : "");
}

static int walk_document(struct walk *w, yaml_parser_t *parser, const char *text, size_t bytes)
{
	yaml_document_t document, second;
	yaml_node_t *root;
	int r = 0;

	if (!yaml_parser_load(parser, &document))
		return fail_yaml(parser, w->where, text, bytes, w->err);
	w->document = &document;
	root = yaml_document_get_root_node(&document);
	if (root)
		r = walk_mapping(w, "", root);
	w->document = NULL;
	yaml_document_delete(&document);
	if (r < 0 || !root || w->n_wrong > 0)
		return r;
	if (!yaml_parser_load(parser, &second))
		return fail_yaml(parser, w->where, text, bytes, w->err);
	root = yaml_document_get_root_node(&second);
	if (root)
		r = fail_node(w, root, "a second document (\"---\"): a configuration has one");
	yaml_document_delete(&second);
	return r;
}

int gs_conf_parse(const struct gs_conf_schema *schema, const char *name, const void *text,
		  size_t bytes, void *ret_conf, gs_conf_report_fn report, struct gs_err *err)
{
	GS_FREE struct gs_conf_where *where = calloc(1, sizeof(*where));
	GS_FREE char *conf = calloc(1, schema->bytes);
	struct walk w = {
		.schema = schema, .where = where, .conf = conf, .report = report, .err = err};
	yaml_parser_t parser;
	int r;

	r = gs_yaml_check_depth(name, text ? text : "", bytes, err);
	if (r < 0)
		return r;
	if (!where || !conf || !yaml_parser_initialize(&parser))
		return -ENOMEM;
	where->name = name;
	gs_conf_defaults(schema, conf);
	yaml_parser_set_input_string(&parser, text ? text : "", bytes);
	yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
	r = walk_document(&w, &parser, text, bytes);
	yaml_parser_delete(&parser);
	if (w.n_wrong > 0 && r == 0)
		r = gs_err_set(err, -EINVAL, "%s", w.wrong.text);
	if (r == 0 && schema->check)
		r = schema->check(conf, where, err);
	if (r == 0)
		memcpy(ret_conf, conf, schema->bytes);
	return r;
}

int gs_conf_load(const struct gs_conf_schema *schema, const char *path, void *ret_conf,
		 gs_conf_report_fn report, struct gs_err *err)
{
	GS_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	GS_FREE char *text = malloc(GS_CONF_FILE_MAX + 1);
	size_t bytes = 0;
	ssize_t n = 1;

	if (fd < 0)
		return gs_err_set(err, -errno, "cannot read the configuration %s: %s", path,
				  strerror(errno));
	if (!text)
		return -ENOMEM;
	while (bytes <= GS_CONF_FILE_MAX && n > 0) {
		n = read(fd, text + bytes, GS_CONF_FILE_MAX + 1 - bytes);
		if (n < 0 && errno == EINTR)
			n = 1;
		else if (n < 0)
			return gs_err_set(err, -errno, "cannot read the configuration %s: %s", path,
					  strerror(errno));
		else
			bytes += (size_t)n;
	}
	if (bytes > GS_CONF_FILE_MAX)
		return gs_err_set(err, -EFBIG,
				  "%s is larger than 1 MiB, too large for a configuration", path);
	return gs_conf_parse(schema, path, text, bytes, ret_conf, report, err);
}

int gs_conf_refuse(const struct gs_conf_where *where, const char *key, struct gs_err *err,
		   const char *fmt, ...)
{
	size_t line = 1, column = 1, best = 0;
	char text[640];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	for (size_t i = 0; i < where->n_marks; i++) {
		const struct mark *m = &where->marks[i];
		size_t n = strlen(m->path);

		/* The key itself, or the deepest section around it that is there. */
		if (n > best && strncmp(m->path, key, n) == 0 && (!key[n] || key[n] == '.')) {
			best = n;
			line = m->line;
			column = m->column;
		}
	}
	return fail_at(where, line, column, err, "%s", text);
}

int gs_conf_refuse_at(const struct gs_conf_where *where, size_t line, size_t column,
		      struct gs_err *err, const char *fmt, ...)
{
	char text[640];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return fail_at(where, line, column, err, "%s", text);
}

void gs_conf_defaults(const struct gs_conf_schema *schema, void *ret_conf)
{
	memset(ret_conf, 0, schema->bytes);
	for (size_t i = 0; i < schema->n_sections; i++) {
		const struct gs_conf_section *s = &schema->sections[i];

		for (size_t k = 0; k < s->n_keys; k++) {
			const char *preset = s->keys[k].preset;
			int r;

			/* Nothing, and 0 is that already; or not set. */
			if (s->keys[k].kind == GS_CONF_ROWS || s->keys[k].kind == GS_CONF_FOREIGN)
				continue;
			if (s->keys[k].kind == GS_CONF_REAL && !*preset) {
				*(double *)((char *)ret_conf + s->offset + s->keys[k].offset) = NAN;
				continue;
			}
			r = gs_conf_set(&s->keys[k], preset, strlen(preset),
					(char *)ret_conf + s->offset, NULL);

			assert(r == 0);
			(void)r;
		}
	}
}

int gs_conf_put(const struct gs_conf_schema *schema, const char *key, const char *text, void *conf,
		struct gs_err *err)
{
	const char *dot = strrchr(key, '.');
	const struct gs_conf_section *section;
	char path[PATH_MAX_BYTES];

	snprintf(path, sizeof(path), "%.*s", dot ? (int)(dot - key) : 0, key);
	section = find_section(schema, path);
	for (size_t k = 0; section && k < section->n_keys; k++)
		if (strcmp(section->keys[k].name, dot ? dot + 1 : key) == 0)
			return gs_conf_set(&section->keys[k], text, strlen(text),
					   (char *)conf + section->offset, err);
	return gs_err_set(err, -ENOENT, "no key %s", key);
}

static int print_comment(struct gs_buf *out, unsigned indent, const char *comment)
{
	int r = 0;

	while (r == 0 && *comment) {
		int n = (int)strcspn(comment, "\n");

		r = gs_buf_printf(out, "%*s# %.*s\n", (int)indent, "", n, comment);
		comment += n;
		comment += *comment == '\n';
	}
	return r;
}

/* Whether a section before this one has described the same key in the same words. */
static bool described_before(const struct gs_conf_schema *schema, size_t section,
			     const struct gs_conf_key *key)
{
	for (size_t i = 0; i < section; i++)
		for (size_t k = 0; k < schema->sections[i].n_keys; k++) {
			const struct gs_conf_key *other = &schema->sections[i].keys[k];

			if (strcmp(other->name, key->name) == 0 &&
			    strcmp(other->comment, key->comment) == 0)
				return true;
		}
	return false;
}

static bool prints_key(const struct gs_conf_key *key)
{
	return key->kind != GS_CONF_FOREIGN && !key->hidden &&
	       !(key->kind == GS_CONF_REAL && !*key->preset);
}

static int print_key(struct gs_buf *out, unsigned indent, const struct gs_conf_key *key,
		     bool is_described)
{
	/* A preset is plain YAML unless it is empty or text. */
	bool is_text = key->kind == GS_CONF_TEXT || key->kind == GS_CONF_LIST;
	const char *quote = is_text ? "\"" : "";
	char expected[512];
	int r;

	/* Other names of what is described already, or of others. */
	if (!prints_key(key))
		return 0;
	r = is_described ? 0 : print_comment(out, indent, key->comment);

	if (r == 0 && !is_described && !is_text && key->kind != GS_CONF_BOOL &&
	    key->kind != GS_CONF_ROWS)
		r = gs_buf_printf(out, "%*s# (%s)\n", (int)indent, "",
				  gs_conf_expects(key, expected, sizeof(expected)));
	if (r == 0)
		r = gs_buf_printf(out, "%*s%s: %s%s%s\n", (int)indent, "", key->name, quote,
				  key->kind == GS_CONF_ROWS ? "[]" : key->preset, quote);
	return r;
}

/* Whether the section has a key that the default file shows. */
static bool has_printed_key(const struct gs_conf_section *s)
{
	for (size_t k = 0; k < s->n_keys; k++)
		if (prints_key(&s->keys[k]))
			return true;
	return false;
}

int gs_conf_print(const struct gs_conf_schema *schema, struct gs_buf *out)
{
	int r = print_comment(out, 0, schema->comment);
	const char *open = ""; /* the top mapping that is open */

	for (size_t i = 0; r == 0 && i < schema->n_sections; i++) {
		const struct gs_conf_section *s = &schema->sections[i];
		const char *dot = strchr(s->name, '.');
		int top = dot ? (int)(dot - s->name) : (int)strlen(s->name);
		unsigned indent = dot ? 2 : 0;

		if (!has_printed_key(s))
			continue;
		r = gs_buf_puts(out, "\n");
		/* A mapping in a mapping whose outer one is not a section of its own. */
		if (r == 0 && dot && strncmp(open, s->name, (size_t)top + 1) != 0 &&
		    !(strncmp(open, s->name, (size_t)top) == 0 &&
		      (open[top] == '\0' || open[top] == '.')))
			r = gs_buf_printf(out, "%.*s:\n", top, s->name);
		open = s->name;
		if (r == 0)
			r = print_comment(out, indent, s->comment);
		if (r == 0)
			r = gs_buf_printf(out, "%*s%s:\n", (int)indent, "",
					  dot ? dot + 1 : s->name);
		for (size_t k = 0; r == 0 && k < s->n_keys; k++)
			r = print_key(out, indent + 2, &s->keys[k],
				      described_before(schema, i, &s->keys[k]));
	}
	return r;
}
