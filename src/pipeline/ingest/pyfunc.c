/*
 * Python functions that are called: the kernel side gives each code object a number, by process,
 * and reports its file and name once. Here the numbers become functions of records: one for all
 * processes that run the same line of the same file. Their ids follow those of
 * model/trace/func_set.h.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/ingest/ingest_int.h"

#define FUNCS_MAX  (GS_FUNCTION_ID_MAX - GS_FUNC_MAX)
#define NAME_BYTES 1024

struct pyfunc {
	struct gs_func func; /* name owned */
	uint32_t file_str, line;
	bool is_recorded;
};

struct gs_ingest_pyfuncs {
	uint16_t of_number[GS_PYFUNC_MAX]; /* index into funcs, plus 1 */
	struct pyfunc funcs[FUNCS_MAX];    /* the last: all that have no place, or no name */
	uint32_t n;
	struct gs_map by_place; /* hash of file, name and line -> index */
	struct gs_map by_name;  /* hash of the name as shown */
};

void gs_ingest_pyfuncs_fini(struct gs_ingest *f)
{
	struct gs_ingest_pyfuncs *p = f->pyfuncs;

	if (!p)
		return;
	for (uint32_t i = 0; i < FUNCS_MAX; i++)
		free((char *)(uintptr_t)p->funcs[i].func.name);
	gs_map_fini(&p->by_place);
	gs_map_fini(&p->by_name);
	free(p);
	f->pyfuncs = NULL;
}

static int pyfunc_init(struct pyfunc *to, uint32_t idx, const char *name, uint32_t file_str,
		       uint32_t line)
{
	char *copy = strdup(name);

	if (!copy)
		return -ENOMEM;
	*to = (struct pyfunc){.file_str = file_str, .line = line};
	to->func.id = (uint16_t)(GS_FUNC_MAX + idx);
	to->func.name = copy;
	to->func.desc = (struct gs_func_desc){.layer = GS_LAYER_PYTHON,
					      .op = GS_CLASS_PYTHON,
					      .v_bytes = GS_V_NONE,
					      .v_bytes2 = GS_V_NONE,
					      .v_stream = GS_V_NONE,
					      .v_aux = GS_V_NONE};
	memset(to->func.desc.v_arg, GS_V_NONE, sizeof(to->func.desc.v_arg));
	return 0;
}

static struct gs_ingest_pyfuncs *pyfuncs_of(struct gs_ingest *f)
{
	struct gs_ingest_pyfuncs *p = f->pyfuncs;

	if (p)
		return p;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->by_place = GS_MAP_INIT(FUNCS_MAX);
	p->by_name = GS_MAP_INIT(FUNCS_MAX);
	if (pyfunc_init(&p->funcs[FUNCS_MAX - 1], FUNCS_MAX - 1, "other Python functions", 0, 0) <
	    0) {
		free(p);
		return NULL;
	}
	f->pyfuncs = p;
	return p;
}

/* The part of a path that distinguishes one file from others for those who know the program: what is below
 * the folder of installed packages or of the standard library, else its last name. */
static const char *short_path(const char *path)
{
	static const char *const folders[] = {"/site-packages/", "/dist-packages/"};
	const char *at, *slash = strrchr(path, '/');
	unsigned minor;
	int n = 0;

	for (size_t i = 0; i < GS_ARRAY_LEN(folders); i++) {
		at = strstr(path, folders[i]);
		if (at)
			return at + strlen(folders[i]);
	}
	at = strstr(path, "/lib/python3.");
	if (at && sscanf(at, "/lib/python3.%u/%n", &minor, &n) == 1 && n)
		return at + n;
	return slash && path[0] != '<' ? slash + 1 : path;
}

/* Files of the same name in other folders are shown with their whole path. */
static void name_of(struct gs_ingest_pyfuncs *p, const char *file, const char *name, uint32_t line,
		    char out[NAME_BYTES])
{
	uint64_t other;

	snprintf(out, NAME_BYTES, "%.600s:%.300s/%u", short_path(file), name, line);
	if (gs_map_get(&p->by_name, gs_hash_bytes(out, strlen(out)), &other))
		snprintf(out, NAME_BYTES, "%.600s:%.300s/%u", file, name, line);
}

/* The index of the function; FUNCS_MAX - 1 when there is no room. */
static uint32_t place_pyfunc(struct gs_ingest *f, struct gs_ingest_pyfuncs *p, const char *file,
			     const char *name, uint32_t line)
{
	uint64_t key[3] = {gs_hash_bytes(file, strlen(file)), gs_hash_bytes(name, strlen(name)),
			   line};
	uint64_t hash = gs_hash_bytes(key, sizeof(key)), idx;
	char shown[NAME_BYTES];

	if (gs_map_get(&p->by_place, hash, &idx))
		return (uint32_t)idx;
	if (p->n == FUNCS_MAX - 1)
		return FUNCS_MAX - 1;
	name_of(p, file, name, line, shown);
	idx = p->n;
	if (pyfunc_init(&p->funcs[idx], p->n, shown, gs_ingest_intern(f, file), line) < 0)
		return FUNCS_MAX - 1;
	p->n++;
	/* Without memory it is recorded again under another id: a second line of the same name. */
	(void)gs_map_put(&p->by_place, hash, idx);
	(void)gs_map_put(&p->by_name, gs_hash_bytes(shown, strlen(shown)), idx);
	return (uint32_t)idx;
}

bool gs_ingest_pyfunc_named(struct gs_ingest *f, const struct gs_event_code *ev)
{
	struct gs_ingest_pyfuncs *p = pyfuncs_of(f);
	char file[GS_INGEST_TEXT_BYTES], name[GS_INGEST_TEXT_BYTES];
	uint32_t number = ev->func - GS_FUNC_MAX;

	if (ev->head.bytes != sizeof(*ev) || !ev->pid || ev->func < GS_FUNC_MAX ||
	    number >= GS_PYFUNC_MAX)
		return false;
	if (!p)
		return true;
	gs_ingest_python_text(ev->pid, &ev->file, ev->file_text, sizeof(ev->file_text), file);
	gs_ingest_python_text(ev->pid, &ev->name, ev->name_text, sizeof(ev->name_text), name);
	p->of_number[number] =
		(uint16_t)(1 + place_pyfunc(f, p, *file ? file : "?", *name ? name : "?",
					    ev->first_line > 0 ? (uint32_t)ev->first_line : 0));
	return true;
}

/* Numbers of these follow all that the kernel side gives: one for each function of records. */
uint16_t gs_ingest_python_function(struct gs_ingest *f, const char *file, const char *name,
				   uint32_t line)
{
	struct gs_ingest_pyfuncs *p = pyfuncs_of(f);
	uint32_t idx = p ? place_pyfunc(f, p, *file ? file : "?", *name ? name : "?", line) : 0;

	_Static_assert(GS_PYFUNC_KERNEL + FUNCS_MAX == GS_PYFUNC_MAX, "one number for each");
	if (!p)
		return 0;
	p->of_number[GS_PYFUNC_KERNEL + idx] = (uint16_t)(1 + idx);
	return (uint16_t)(GS_FUNC_MAX + GS_PYFUNC_KERNEL + idx);
}

const struct gs_func *gs_ingest_pyfunc(struct gs_ingest *f, unsigned id)
{
	struct gs_ingest_pyfuncs *p = pyfuncs_of(f);
	struct gs_rec_function *r;
	struct pyfunc *one;
	uint32_t name_str;

	if (id < GS_FUNC_MAX || id - GS_FUNC_MAX >= GS_PYFUNC_MAX || !p)
		return NULL;
	one = &p->funcs[p->of_number[id - GS_FUNC_MAX] ? p->of_number[id - GS_FUNC_MAX] - 1
						       : FUNCS_MAX - 1];
	if (one->is_recorded)
		return &one->func;
	name_str = gs_ingest_intern(f, one->func.name);
	r = gs_ingest_put(f, GS_REC_FUNCTION, sizeof(*r), 0);
	r->id = one->func.id;
	r->layer = GS_LAYER_PYTHON;
	r->func_class = GS_CLASS_PYTHON;
	r->name_str = name_str;
	r->file_str = one->file_str;
	r->line = one->line;
	one->is_recorded = true;
	return &one->func;
}
