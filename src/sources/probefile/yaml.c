/*
 * A probe file is a list of mappings, or a mapping with the one key "probes" and such a list. The
 * whole file is made into libyaml's document first, whose nodes know their line and column; then
 * each mapping is taken apart by its keys, in the order in which they need each other.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yaml.h>

#include "core/base/yaml_depth.h"
#include "model/trace/class.h"
#include "sources/probefile/probefile_int.h"

#define MAX_FILE_BYTES (4u << 20)

struct file {
	yaml_document_t doc;
	const char *path;
	struct gs_user_set *set; /* borrowed */
	struct gs_err *err;
};

/* -EINVAL with "FILE:LINE:COLUMN: ..."; more: columns after the mark. */
static int GS_PRINTF(4, 5) refuse_file(const struct file *f, const yaml_mark_t *mark, size_t more,
				       const char *fmt, ...)
{
	char text[640];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return gs_err_set(f->err, -EINVAL, "%s:%zu:%zu: %s", f->path, mark->line + 1,
			  mark->column + 1 + more, text);
}

/* A fault in the text of a node. */
static int refuse_text(const struct file *f, const yaml_node_t *node, const struct fault *fault)
{
	bool quoted = node->data.scalar.style == YAML_SINGLE_QUOTED_SCALAR_STYLE ||
		      node->data.scalar.style == YAML_DOUBLE_QUOTED_SCALAR_STYLE;

	return refuse_file(f, &node->start_mark, fault->at + quoted, "%s", fault->text);
}

static yaml_node_t *node_at(struct file *f, int id)
{
	return yaml_document_get_node(&f->doc, id);
}

/* The text of a scalar, NULL when it is none or has a zero inside. */
static const char *text_of(const yaml_node_t *n)
{
	const char *text;

	if (!n || n->type != YAML_SCALAR_NODE)
		return NULL;
	text = (const char *)n->data.scalar.value;
	return strlen(text) == n->data.scalar.length ? text : NULL;
}

/* --- one probe --- */

enum key {
	KEY_NAME,
	KEY_LIB,
	KEY_FUNCTION,
	KEY_USDT,
	KEY_RETURN,
	KEY_ARGS,
	KEY_FILTER,
	KEY_AGGREGATE,
	KEY_STACK,
	KEY_EXE_PATH,
	KEY_EXE_SYM,
	N_KEYS
};

static const char *const key_names[N_KEYS] = {"name",   "lib",      "function", "usdt",
					      "return", "args",     "filter",   "aggregate",
					      "stack",  "exe_path", "exe_sym"};

struct item {
	yaml_node_t *node;
	yaml_node_t *key[N_KEYS]; /* their values; NULL: not there */
};

static int sort_keys(struct file *f, yaml_node_t *node, struct item *item)
{
	*item = (struct item){.node = node};
	for (yaml_node_pair_t *p = node->data.mapping.pairs.start; p < node->data.mapping.pairs.top;
	     p++) {
		yaml_node_t *key = node_at(f, p->key);
		const char *name = text_of(key);
		unsigned k = 0;

		while (name && k < N_KEYS && strcmp(name, key_names[k]) != 0)
			k++;
		if (!name || k == N_KEYS)
			return refuse_file(
				f, &key->start_mark, 0,
				"\"%s\" is not a key of a probe: name lib function usdt return args filter aggregate stack",
				name ? name : "?");
		if (item->key[k])
			return refuse_file(f, &key->start_mark, 0, "\"%s\" is given twice", name);
		item->key[k] = node_at(f, p->value);
	}
	return 0;
}

/* A text that is needed, or NULL where the key is missing. */
static int take_text(struct file *f, const struct item *item, enum key key, const char **ret)
{
	const yaml_node_t *n = item->key[key];

	*ret = NULL;
	if (!n)
		return 0;
	*ret = text_of(n);
	if (!*ret || !**ret)
		return refuse_file(f, &n->start_mark, 0, "\"%s\" takes a text", key_names[key]);
	if (strlen(*ret) > 1024)
		return refuse_file(f, &n->start_mark, 0, "\"%s\" is too long", key_names[key]);
	return 0;
}

static int take_return(struct file *f, const struct item *item, struct gs_user_spec *spec)
{
	const yaml_node_t *n = item->key[KEY_RETURN];
	const char *text = text_of(n);
	bool wanted = false;

	if (n) {
		spec->return_given = true;
		if (!text || (strcmp(text, "true") != 0 && strcmp(text, "false") != 0))
			return refuse_file(f, &n->start_mark, 0, "\"return\" takes true or false");
		wanted = strcmp(text, "true") == 0;
		if (spec->probe && wanted)
			return refuse_file(f, &n->start_mark, 0,
					   "a static probe is a place, which does not return");
	}
	if (wanted)
		spec->row.flags |= GS_USER_RETURN;
	else
		spec->func_class = GS_CLASS_SITE;
	return 0;
}

static int take_value(struct file *f, struct gs_user_spec *spec, const yaml_node_t *place_node,
		      const char *place, const yaml_node_t *type_node, const char *type,
		      size_t type_at)
{
	struct fault fault;
	unsigned which;
	int r = probefile_parse_value(place, type, spec, &which, &fault);

	if (r < 0 && which == 1)
		fault.at += type_at;
	return r < 0 ? refuse_text(f, which ? type_node : place_node, &fault) : 0;
}

/* "arg1: u64 size" as one text. */
static int take_value_text(struct file *f, struct gs_user_spec *spec, const yaml_node_t *n)
{
	const char *text = text_of(n), *colon = text ? strchr(text, ':') : NULL;
	GS_FREE char *place = NULL;
	size_t bytes;

	if (!colon)
		return refuse_file(
			f, &n->start_mark, 0,
			"a value is described as \"PLACE: TYPE NAME\", such as \"arg1: u64 size\"");
	bytes = (size_t)(colon - text);
	while (bytes && text[bytes - 1] == ' ')
		bytes--;
	place = strndup(text, bytes);
	if (!place)
		return -ENOMEM;
	return take_value(f, spec, n, place, n, colon + 1, (size_t)(colon + 1 - text));
}

static int take_pairs(struct file *f, struct gs_user_spec *spec, const yaml_node_t *n)
{
	int r = 0;

	for (yaml_node_pair_t *p = n->data.mapping.pairs.start;
	     r == 0 && p < n->data.mapping.pairs.top; p++) {
		const yaml_node_t *key = node_at(f, p->key), *value = node_at(f, p->value);
		const char *place = text_of(key), *type = text_of(value);

		if (!place || !type)
			return refuse_file(
				f, &key->start_mark, 0,
				"a value is described as \"PLACE: TYPE NAME\", such as \"arg1: u64 size\"");
		r = take_value(f, spec, key, place, value, type, 0);
	}
	return r;
}

static int take_args(struct file *f, const struct item *item, struct gs_user_spec *spec)
{
	const yaml_node_t *n = item->key[KEY_ARGS];
	int r = 0;

	if (!n)
		return 0;
	if (n->type == YAML_MAPPING_NODE)
		return take_pairs(f, spec, n);
	if (n->type != YAML_SEQUENCE_NODE)
		return refuse_file(f, &n->start_mark, 0, "\"args\" takes a list");
	for (yaml_node_item_t *i = n->data.sequence.items.start;
	     r == 0 && i < n->data.sequence.items.top; i++) {
		const yaml_node_t *v = node_at(f, *i);

		if (v->type == YAML_MAPPING_NODE)
			r = take_pairs(f, spec, v);
		else
			r = take_value_text(f, spec, v);
	}
	return r;
}

static int take_filter(struct file *f, const struct item *item, struct gs_user_spec *spec)
{
	struct fault fault;
	const char *text;
	int r = take_text(f, item, KEY_FILTER, &text);

	if (r == 0 && text && probefile_parse_filter(text, spec, &fault) < 0)
		r = refuse_text(f, item->key[KEY_FILTER], &fault);
	if (r == 0)
		r = take_text(f, item, KEY_AGGREGATE, &text);
	if (r == 0 && text && probefile_parse_aggregate(text, spec, &fault) < 0)
		r = refuse_text(f, item->key[KEY_AGGREGATE], &fault);
	return r;
}

static int take_stack(struct file *f, const struct item *item, struct gs_user_spec *spec)
{
	static const struct {
		const char *word;
		uint8_t flags;
	} words[] = {{"native", GS_USER_NATIVE_STACK},
		     {"python", GS_USER_PY_STACK},
		     {"true", GS_USER_NATIVE_STACK | GS_USER_PY_STACK},
		     {"false", 0}};
	const yaml_node_t *n = item->key[KEY_STACK];
	const char *text = text_of(n);

	if (!n)
		return 0;
	for (size_t i = 0; i < GS_ARRAY_LEN(words); i++) {
		if (!text || strcmp(text, words[i].word) != 0)
			continue;
		if (words[i].flags && spec->row.aggregate)
			return refuse_file(
				f, &n->start_mark, 0,
				"calls that are added up have no stacks: \"stack\" and \"aggregate\" do not go together");
		/* A stack belongs to a call: these calls come one by one, whatever others do. */
		spec->row.flags |= words[i].flags | (words[i].flags ? GS_USER_ALWAYS : 0);
		return 0;
	}
	return refuse_file(f, &n->start_mark, 0,
			   "\"stack\" takes native, python, true (both) or false");
}

/* What is probed where. */
static int take_target(struct file *f, const struct item *item, struct gs_user_spec *spec,
		       char **ret_provider)
{
	const char *usdt, *colon;
	int r = take_text(f, item, KEY_NAME, &spec->name);

	if (r == 0)
		r = take_text(f, item, KEY_LIB, &spec->library);
	if (r == 0)
		r = take_text(f, item, KEY_FUNCTION, &spec->function);
	if (r == 0)
		r = take_text(f, item, KEY_USDT, &usdt);
	if (r < 0)
		return r;
	if (!spec->function == !usdt)
		return refuse_file(
			f, &item->node->start_mark, 0,
			usdt ? "a probe has \"function\" or \"usdt\", not both"
			     : "\"function: NAME\" or \"usdt: PROVIDER:NAME\" is missing");
	if (spec->function && !spec->library && strpbrk(spec->function, "*?["))
		return refuse_file(f, &item->key[KEY_FUNCTION]->start_mark, 0,
				   "a pattern of functions needs \"lib\": the files to look in");
	if (!usdt)
		return 0;
	colon = strchr(usdt, ':');
	if (!colon || colon == usdt || !colon[1])
		return refuse_file(f, &item->key[KEY_USDT]->start_mark, 0,
				   "\"usdt\" takes PROVIDER:NAME, such as pytorch:malloc");
	*ret_provider = strndup(usdt, (size_t)(colon - usdt));
	if (!*ret_provider)
		return -ENOMEM;
	spec->provider = *ret_provider;
	spec->probe = colon + 1;
	return 0;
}

static void spec_init(struct gs_user_spec *spec)
{
	*spec = (struct gs_user_spec){
		.layer = GS_LAYER_USER,
		.func_class = GS_CLASS_PROBE,
	};
	spec->row.aggregate_value = GS_USER_NONE;
	spec->row.v_bytes = spec->row.v_stream = GS_USER_NONE;
	spec->row.v_aux = spec->row.v_arg0 = GS_USER_NONE;
}

static int add_spec(struct file *f, const struct gs_user_spec *spec, const yaml_node_t *node)
{
	int r = gs_user_set_add(f->set, spec);

	if (r == -ENOBUFS)
		return refuse_file(f, &node->start_mark, 0, "more than %d probes",
				   GS_USER_SPEC_MAX);
	return r == -EEXIST ? 0 : r;
}

static int take_probe(struct file *f, const struct item *item)
{
	GS_FREE char *provider = NULL;
	struct gs_user_spec spec;
	int r;

	spec_init(&spec);
	r = take_target(f, item, &spec, &provider);
	if (r == 0)
		r = take_return(f, item, &spec);
	if (r == 0)
		r = take_args(f, item, &spec);
	if (r == 0)
		r = take_filter(f, item, &spec);
	if (r == 0)
		r = take_stack(f, item, &spec);
	return r < 0 ? r : add_spec(f, &spec, item->node);
}

/* --- eACGM's attach lists --- */

/* An element of a list of texts; the list may be one text alone. */
static int list_text(struct file *f, const struct item *item, enum key key, size_t i,
		     const yaml_node_t **ret_node, const char **ret_text)
{
	const yaml_node_t *n = item->key[key];

	*ret_text = NULL;
	if (n->type == YAML_SEQUENCE_NODE) {
		if (i >= (size_t)(n->data.sequence.items.top - n->data.sequence.items.start))
			return 0;
		n = node_at(f, n->data.sequence.items.start[i]);
	} else if (i) {
		return 0;
	}
	*ret_node = n;
	*ret_text = text_of(n);
	if (!*ret_text || !**ret_text)
		return refuse_file(f, &n->start_mark, 0, "\"%s\" takes a list of texts",
				   key_names[key]);
	return 0;
}

static int take_attach(struct file *f, const struct item *item)
{
	const yaml_node_t *node;
	const char *path, *symbol;
	int r = 0;

	for (unsigned k = KEY_LIB; k < KEY_EXE_PATH; k++)
		if (item->key[k])
			return refuse_file(f, &item->key[k]->start_mark, 0,
					   "\"%s\" does not go with exe_path and exe_sym",
					   key_names[k]);
	if (!item->key[KEY_EXE_PATH] || !item->key[KEY_EXE_SYM])
		return refuse_file(f, &item->node->start_mark, 0,
				   "exe_path and exe_sym go together: one of them is missing");
	r = take_text(f, item, KEY_NAME, &path);
	for (size_t i = 0; r == 0; i++) {
		r = list_text(f, item, KEY_EXE_PATH, i, &node, &path);
		if (r < 0 || !path)
			break;
		for (size_t k = 0; r == 0; k++) {
			struct gs_user_spec spec;

			r = list_text(f, item, KEY_EXE_SYM, k, &node, &symbol);
			if (r < 0 || !symbol)
				break;
			spec_init(&spec);
			spec.library = path;
			spec.function = symbol;
			spec.row.flags = GS_USER_RETURN;
			r = add_spec(f, &spec, node);
		}
	}
	return r;
}

/* --- the file --- */

static int take_list(struct file *f, const yaml_node_t *list)
{
	int r = 0;

	if (list->data.sequence.items.start == list->data.sequence.items.top)
		return refuse_file(f, &list->start_mark, 0, "the list has no probes");
	for (yaml_node_item_t *i = list->data.sequence.items.start;
	     r == 0 && i < list->data.sequence.items.top; i++) {
		yaml_node_t *node = node_at(f, *i);
		struct item item;

		if (node->type != YAML_MAPPING_NODE)
			return refuse_file(
				f, &node->start_mark, 0,
				"a probe is a mapping: \"function: NAME\" or \"usdt: PROVIDER:NAME\", and more keys");
		r = sort_keys(f, node, &item);
		if (r < 0)
			return r;
		if (item.key[KEY_EXE_PATH] || item.key[KEY_EXE_SYM])
			r = take_attach(f, &item);
		else
			r = take_probe(f, &item);
	}
	return r;
}

static int take_document(struct file *f)
{
	const yaml_mark_t start = {0};
	yaml_node_t *root = yaml_document_get_root_node(&f->doc);

	if (!root)
		return refuse_file(f, &start, 0, "the file is empty");
	if (root->type == YAML_MAPPING_NODE) {
		yaml_node_pair_t *p = root->data.mapping.pairs.start;
		const char *key =
			p < root->data.mapping.pairs.top ? text_of(node_at(f, p->key)) : NULL;

		if (!key || strcmp(key, "probes") != 0 || p + 1 != root->data.mapping.pairs.top)
			return refuse_file(
				f, &root->start_mark, 0,
				"the file must be a list of probes, or \"probes:\" with such a list and nothing else");
		root = node_at(f, p->value);
	}
	if (root->type != YAML_SEQUENCE_NODE)
		return refuse_file(f, &root->start_mark, 0, "a list of probes is expected here");
	return take_list(f, root);
}

static int refuse_yaml(const struct file *f, const yaml_parser_t *parser)
{
	const char *what = parser->problem ? parser->problem : "it cannot be read";
	const char *hint = "";

	if (parser->error == YAML_MEMORY_ERROR)
		return -ENOMEM;
	if (strstr(what, "undefined alias"))
		hint = " (* begins an alias in YAML: put \"*arg1: ...\" in quotes)";
	return refuse_file(f, &parser->problem_mark, 0, "not YAML: %s%s", what, hint);
}

int gs_probefile_parse(const char *text, size_t bytes, const char *path, struct gs_user_set *set,
		       struct gs_err *err)
{
	struct file f = {.path = path, .set = set, .err = err};
	yaml_parser_t parser;
	int r;

	r = gs_yaml_check_depth(path, text, bytes, err);
	if (r < 0)
		return r;
	if (!yaml_parser_initialize(&parser))
		return -ENOMEM;
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, bytes);
	if (!yaml_parser_load(&parser, &f.doc)) {
		r = refuse_yaml(&f, &parser);
	} else {
		r = take_document(&f);
		yaml_document_delete(&f.doc);
	}
	yaml_parser_delete(&parser);
	return r;
}

int gs_probefile_read(const char *path, struct gs_user_set *set, struct gs_err *err)
{
	GS_FCLOSE FILE *file = fopen(path, "re");
	GS_FREE char *text = malloc(MAX_FILE_BYTES + 1);
	size_t bytes;

	if (!file)
		return gs_err_set(err, -errno, "cannot read %s: %s", path, strerror(errno));
	if (!text)
		return -ENOMEM;
	bytes = fread(text, 1, MAX_FILE_BYTES + 1, file);
	if (ferror(file))
		return gs_err_set(err, -EIO, "cannot read %s: %s", path, strerror(errno));
	if (bytes > MAX_FILE_BYTES)
		return gs_err_set(err, -EFBIG, "%s is too large for a probe file", path);
	return gs_probefile_parse(text, bytes, path, set, err);
}
