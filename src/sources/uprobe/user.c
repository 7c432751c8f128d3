/*
 * Probes that the user described: which of them a file has, and what was added up for them. One
 * that names no files is looked for in all of them by its dynamic symbol, and in the executable by
 * any.
 */
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "core/base/foreign.h"
#include "core/base/map.h"
#include "core/base/mem.h"
#include "core/base/vec.h"
#include "sources/elf/elf.h"
#include "sources/elf/usdt_row.h"
#include "model/trace/func.h"
#include "sources/attach_plan/described.h"
#include "sources/uprobe/uprobe_int.h"

struct row_kept { /* of a described probe at a place of a file, for the next process with it */
	struct gs_file_id id;
	uint64_t file_off;
	size_t spec;
};

struct cell_seen {
	struct gs_user_cell_key key;
	struct gs_user_cell before;
};

struct users {
	const struct gs_user_set *set; /* borrowed */
	unsigned matched[GS_USER_SPEC_MAX];
	bool is_reported[GS_USER_SPEC_MAX];    /* that it cannot be placed, and why */
	struct row_kept kept[GS_USER_ROW_MAX]; /* by row */
	struct gs_map row_of;                  /* hash of a row_kept -> row */
	struct gs_user_row rows[GS_USER_ROW_MAX];
	struct cell_seen **cells; /* owned, and each */
	size_t n_cells;
	struct gs_map cell_of; /* hash of the key -> index */
	bool paths_done;
};

int uprobe_users_new(struct gs_uprobe *probe, struct users **ret_users)
{
	struct users *u;

	if (!gs_user_set_n(probe->options.users))
		return 0;
	u = calloc(1, sizeof(*u));
	if (!u)
		return -ENOMEM;
	u->cells = calloc(GS_USER_CELL_MAX * 2, sizeof(struct cell_seen *));
	u->row_of = GS_MAP_INIT(GS_USER_ROW_MAX);
	u->cell_of = GS_MAP_INIT(GS_USER_CELL_MAX * 2);
	u->set = probe->options.users;
	*ret_users = u;
	return u->cells ? 0 : -ENOMEM;
}

void uprobe_users_free(struct users **users)
{
	struct users *u = *users;

	if (!u)
		return;
	for (size_t i = 0; u->cells && i < u->n_cells; i++)
		free(u->cells[i]);
	free(u->cells);
	gs_map_fini(&u->row_of);
	gs_map_fini(&u->cell_of);
	free(u);
	*users = NULL;
}

/* --- what a file has --- */

struct match {
	struct gs_attach_plan_place place;
	size_t spec;
	uint64_t from; /* where the function begins */
	char *name;    /* owned: for failures */
};

struct search {
	struct gs_uprobe *probe;
	struct users *users;
	const struct gs_mapped_file *file;
	struct gs_described_want wants[GS_USER_SPEC_MAX]; /* what may be in this file */
	uint16_t spec_of[GS_USER_SPEC_MAX];               /* by want */
	unsigned n_wants;
	bool wanted[GS_USER_SPEC_MAX]; /* functions among them, by description */
	unsigned n_found[GS_USER_SPEC_MAX];
	struct match *matches; /* owned */
	size_t n, room;
	unsigned n_moved, n_stepped;
};

static void report_user_probe(struct search *s, const char *function, const char *reason,
			      int status)
{
	uprobe_files_report_failure(s->probe, s->file->path, function, reason, status,
				    GS_LAYER_USER);
}

static bool library_matches(const char *library, const struct gs_mapped_file *file)
{
	const char *slash = strrchr(file->path, '/'), *base = slash ? slash + 1 : file->path;
	char real[PATH_MAX];

	if (!library)
		return true;
	if (strcmp(library, "exe") == 0)
		return file->is_exe;
	if (!strchr(library, '/'))
		return fnmatch(library, base, 0) == 0;
	if (fnmatch(library, file->path, 0) == 0)
		return true;
	return realpath(library, real) && strcmp(real, file->path) == 0;
}

static uint64_t hash_of_row(const struct row_kept *k)
{
	return gs_hash_bytes(k, sizeof(*k));
}

/* The row for this place, an old one or a new one. */
static int row_for(struct search *s, size_t spec_idx, uint64_t file_off, uint16_t func,
		   const struct gs_usdt_site *site, const char *name)
{
	const struct gs_user_spec *spec = gs_user_set_spec(s->users->set, spec_idx);
	struct row_kept kept = {.id = s->file->id, .file_off = file_off, .spec = spec_idx};
	struct gs_user_name names[GS_USER_VALUE_MAX];
	struct users *u = s->users;
	struct gs_user_row row;
	char why[200];
	const char *wrong;
	uint64_t old;
	int id, fd = bpf_map__fd(
			uprobe_kernel_map(&s->probe->kernel, GS_FAMILY_USER, "gs_user_rows"));

	if (gs_map_get(&u->row_of, hash_of_row(&kept), &old) &&
	    memcmp(&u->kept[old], &kept, sizeof(kept)) == 0)
		return (int)old;
	wrong = gs_usdt_row(spec, site, &row, names, why, sizeof(why));
	if (wrong) {
		report_user_probe(s, name, wrong, -EINVAL);
		return -EINVAL;
	}
	id = gs_user_set_row(s->probe->options.users, names, row.n_values);
	if (id < 0)
		return id;
	row.func = func;
	row.layer = (uint8_t)spec->layer;
	u->rows[id] = row;
	u->kept[id] = kept;
	if (bpf_map_update_elem(fd, &id, &row, BPF_ANY) < 0)
		return -errno;
	(void)gs_map_put(&u->row_of, hash_of_row(&kept), (uint64_t)id);
	return id;
}

static struct match *match_new(struct search *s)
{
	if (!gs_vec_reserve(&s->matches, &s->room, s->n + 1))
		return NULL;
	return &s->matches[s->n];
}

/* The probes of a function, or of a static one, at such places. */
static int add_match(struct search *s, size_t spec_idx, const char *symbol, uint64_t from,
		     const struct gs_usdt_site *site, const struct gs_attach_plan_place *places,
		     size_t n)
{
	const struct gs_user_spec *spec = gs_user_set_spec(s->users->set, spec_idx);
	const char *name = spec->name ? spec->name : symbol;
	uint16_t func;
	int r = gs_func_set_add(s->probe->options.funcs, spec->layer, spec->func_class, name,
				&func);
	if (r == 0)
		r = row_for(s, spec_idx, from, func, site, symbol);
	if (r == -EINVAL) /* reported */
		return 0;
	if (r < 0) {
		if (!s->users->is_reported[spec_idx])
			report_user_probe(
				s, symbol,
				r == -ENOBUFS
					? "more functions than can be traced at one time: a narrower pattern is needed"
					: strerror(-r),
				r);
		s->users->is_reported[spec_idx] = true;
		return 0;
	}
	for (size_t i = 0; i < n; i++) {
		struct match *m = match_new(s);

		if (!m)
			return -ENOMEM;
		*m = (struct match){
			.place = places[i], .spec = spec_idx, .from = from, .name = strdup(symbol)};
		m->place.cookie |= (uint64_t)r;
		m->place.func = func;
		if (!m->name)
			return -ENOMEM;
		s->n++;
	}
	return 0;
}

static bool has_match(const struct search *s, size_t spec, uint64_t from)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->matches[i].spec == spec && s->matches[i].from == from)
			return true;
	return false;
}

/* Only the time of its calls is asked for. */
static bool is_plain(const struct gs_user_spec *spec)
{
	return !spec->row.n_values && !spec->row.n_ops && !spec->row.aggregate &&
	       !(spec->row.flags & (GS_USER_NATIVE_STACK | GS_USER_PY_STACK));
}

/* What is read at the end is there at the ret alone, and so is the stack of the caller. */
static bool needs_ret(const struct gs_user_spec *spec)
{
	for (unsigned i = 0; i < spec->row.n_values; i++)
		if (spec->row.values[i].when != GS_WHEN_ENTRY)
			return true;
	return spec->row.flags & GS_USER_NATIVE_STACK;
}

bool uprobe_users_may_throw(const struct gs_user_set *set)
{
	for (size_t i = 0; i < gs_user_set_n(set); i++) {
		const struct gs_user_spec *spec = gs_user_set_spec(set, i);

		if (spec->function && spec->row.flags & GS_USER_RETURN && is_plain(spec))
			return true;
	}
	return false;
}

/* A function that may throw, by probes on what it is left by: as operators are. */
static int place_scope(struct search *s, size_t spec_idx, const struct gs_described_function *f)
{
	const struct gs_user_spec *spec = gs_user_set_spec(s->users->set, spec_idx);
	uint16_t func;
	int r;

	if (!s->probe->kernel.objects[GS_FAMILY_USCOPE] || !s->probe->features.multi) {
		report_user_probe(
			s, f->name,
			"a C++ function: a return probe would end a program that throws through it, and other ways need multi links (Linux 6.6) and programs that this kernel refuses (return: false sees its calls)",
			-EOPNOTSUPP);
		return 0;
	}
	if (has_match(s, spec_idx, f->file_off))
		return 0;
	r = gs_func_set_add(s->probe->options.funcs, spec->layer, spec->func_class,
			    spec->name ? spec->name : f->name, &func);
	if (r < 0) {
		report_user_probe(s, f->name, strerror(-r), r);
		return r == -ENOMEM ? r : 0;
	}
	s->n_found[spec_idx]++;
	s->n_moved += f->plan->n_moved;
	s->n_stepped += f->plan->n_stepped;
	for (size_t i = 0; i < f->plan->n; i++) {
		struct match *m = match_new(s);

		if (!m)
			return -ENOMEM;
		*m = (struct match){.place = f->plan->places[i],
				    .spec = spec_idx,
				    .from = f->file_off,
				    .name = strdup(f->name)};
		m->place.func = func;
		m->place.cookie |= func;
		if (!m->name)
			return -ENOMEM;
		s->n++;
	}
	return 0;
}

/* One of which values are read, at its entry and where it is left. */
static int place_call(struct search *s, size_t spec, const struct gs_described_function *f)
{
	if (has_match(s, spec, f->file_off) || !f->plan->n) /* that is reported */
		return 0;
	s->n_moved += f->plan->n_moved;
	s->n_stepped += f->plan->n_stepped;
	s->n_found[spec]++;
	return add_match(s, spec, f->name, f->file_off, NULL, f->plan->places, f->plan->n);
}

static int place_function(struct search *s, size_t spec, const struct gs_described_function *f)
{
	const struct gs_user_spec *described = gs_user_set_spec(s->users->set, spec);
	struct gs_attach_plan_place place = {.file_off = f->file_off, .family = GS_FAMILY_USER};

	if (f->indirect) {
		report_user_probe(
			s, f->name,
			"an indirect function: which code runs is chosen when the program starts",
			-EOPNOTSUPP);
		return 0;
	}
	if (f->has_scope)
		return is_plain(described) ? place_scope(s, spec, f) : place_call(s, spec, f);
	if (f->site.kind == GS_X86_SITE_REFUSED) {
		report_user_probe(s, f->name, f->site.reason, -EOPNOTSUPP);
		return 0;
	}
	if (f->site.kind == GS_X86_SITE_MOVED && !s->probe->plan.first_byte)
		place.file_off += f->site.offset_bytes;
	if (has_match(s, spec, f->file_off))
		return 0;
	s->n_moved += place.file_off != f->file_off;
	place.is_stepped = place.file_off == f->file_off && f->site.kind != GS_X86_SITE_EMULATED;
	s->n_stepped += place.is_stepped;
	s->n_found[spec]++;
	return add_match(s, spec, f->name, f->file_off, NULL, &place, 1);
}

static int on_function(void *ctx, const struct gs_described_function *f)
{
	struct search *s = ctx;

	return place_function(s, s->spec_of[f->want], f);
}

static int on_site(void *ctx, const struct gs_described_site *d)
{
	const struct gs_usdt_site *site = d->site;
	const struct gs_attach_plan_place place = {.file_off = site->file_off,
						   .ref_ctr_off = site->ref_ctr_off,
						   .family = GS_FAMILY_USER};
	struct search *s = ctx;
	size_t spec = s->spec_of[d->want];
	char name[300];

	snprintf(name, sizeof(name), "%s:%s", site->provider, site->name);
	s->n_found[spec]++;
	if (s->probe->features.sites.nop5_is_call && d->is_nop5) {
		report_user_probe(
			s, name,
			"a five-byte nop: this kernel turns it into a call that crashes forked children",
			-EOPNOTSUPP);
		return 0;
	}
	return add_match(s, spec, name, site->file_off, site, &place, 1);
}

/* Which descriptions to look for in the file. */
static void choose_wants(struct search *s)
{
	for (size_t i = 0; i < gs_user_set_n(s->users->set); i++) {
		const struct gs_user_spec *spec = gs_user_set_spec(s->users->set, i);

		if (!library_matches(spec->library, s->file))
			continue;
		s->spec_of[s->n_wants] = (uint16_t)i;
		s->wants[s->n_wants++] = (struct gs_described_want){
			.function = spec->function,
			.is_glob = spec->library != NULL,
			.if_defined = !spec->library && !s->file->is_exe,
			.scope = spec->row.flags & GS_USER_RETURN,
			.values = !is_plain(spec),
			.by_ret = needs_ret(spec),
			.provider = spec->provider,
			.probe = spec->probe,
		};
		s->wanted[i] = spec->function;
	}
}

/* Descriptions that name this file and have nothing in it; several functions of one name. */
static void report_found(struct search *s, char *remark, size_t bytes)
{
	remark[0] = '\0';
	for (size_t i = 0; i < gs_user_set_n(s->users->set); i++) {
		const struct gs_user_spec *spec = gs_user_set_spec(s->users->set, i);

		s->users->matched[i] += s->n_found[i];
		if (s->wanted[i] && !s->n_found[i] && spec->library && !s->users->is_reported[i]) {
			report_user_probe(s, spec->function, "it has no function of this name",
					  -ENOENT);
			s->users->is_reported[i] = true;
		}
		if (s->wanted[i] && s->n_found[i] > 1 && !strpbrk(spec->function, "*?["))
			snprintf(remark, bytes, "%u functions are named %s: all of them are probed",
				 s->n_found[i], spec->function);
	}
}

/* Links for what was found of a family; how many were placed. */
static unsigned uprobe_link_matches(struct search *s, struct links *links, pid_t only_pid,
				    enum gs_family family)
{
	GS_FREE struct gs_attach_plan_place *places = calloc(s->n + 1, sizeof(*places));
	GS_FREE int *status = calloc(s->n + 1, sizeof(*status));
	GS_FREE size_t *which = calloc(s->n + 1, sizeof(*which));
	size_t n = 0;
	int done;

	if (!places || !status || !which)
		return 0;
	for (size_t i = 0; i < s->n; i++) {
		const struct gs_attach_plan_place *p = &s->matches[i].place;

		if (p->family != family || uprobe_files_is_off(s->probe, p->func))
			continue;
		which[n] = i;
		places[n++] = *p;
	}
	if (!n)
		return 0;
	done = uprobe_links_attach(links, &s->probe->kernel, &s->probe->features, family,
				   s->file->open_path, only_pid, places, n, status);
	for (size_t i = 0; i < n; i++) {
		const struct gs_user_row *row =
			family == GS_FAMILY_USER
				? &s->users->rows[places[i].cookie & (GS_USER_ROW_MAX - 1)]
				: NULL;

		if (status[i] < 0)
			report_user_probe(s, s->matches[which[i]].name,
					  uprobe_files_reason_of(status[i]), status[i]);
		else
			uprobe_files_report_cost(s->probe, &places[i], row);
	}
	return done > 0 ? (unsigned)done : 0;
}

static unsigned attach_found(struct search *s, struct links *links, pid_t only_pid)
{
	struct gs_attach a = {.path = s->file->path, .layer = GS_LAYER_USER};
	char remark[300];

	report_found(s, remark, sizeof(remark));
	if (!s->n)
		return 0;
	a.n_probes = uprobe_link_matches(s, links, only_pid, GS_FAMILY_USCOPE) +
		     uprobe_link_matches(s, links, only_pid, GS_FAMILY_USER);
	a.n_moved = s->n_moved;
	a.n_stepped = s->n_stepped;
	a.reason = *remark ? remark : NULL;
	if (a.n_probes)
		s->probe->options.on_attach(s->probe->options.ctx, &a);
	return a.n_probes;
}

static int search_file(struct search *s, struct gs_err *err)
{
	const struct gs_described_query query = {.options = &s->probe->plan,
						 .path = s->file->path,
						 .wants = s->wants,
						 .n_wants = s->n_wants};
	const struct gs_described_handler handler = {on_function, on_site, s};
	GS_FOREIGN_CLOSE struct gs_foreign file = GS_FOREIGN_INIT;
	GS_CLEANUP(gs_elf_close) struct gs_elf *elf = NULL;
	int r = gs_foreign_open(s->file->open_path, NULL, &file);

	if (r < 0)
		return gs_err_set(err, r, "%s", gs_foreign_reason(r));
	if (s->probe->options.reader)
		return gs_attach_plan_ask_described(&query, s->probe->options.reader, file.fd,
						    &handler, err);
	r = gs_elf_open_fd(&file.fd, s->file->path, false, &elf, err);
	return r < 0 ? r : gs_attach_plan_described(&query, elf, &handler, err);
}

unsigned uprobe_users_attach(struct gs_uprobe *probe, struct links *links,
			     const struct gs_mapped_file *file, pid_t only_pid)
{
	struct gs_err err = {{0}};
	struct search *s;
	unsigned done;
	int r;

	if (!probe->users)
		return 0;
	s = calloc(1, sizeof(*s));
	if (!s)
		return 0;
	s->probe = probe;
	s->users = probe->users;
	s->file = file;
	choose_wants(s);
	r = s->n_wants ? search_file(s, &err) : 0;
	if (r < 0)
		report_user_probe(s, NULL, gs_err_text(&err, r), r);
	done = attach_found(s, links, only_pid);
	for (size_t i = 0; i < s->n; i++)
		free(s->matches[i].name);
	free(s->matches);
	free(s);
	return done;
}

void uprobe_users_attach_paths(struct gs_uprobe *probe)
{
	struct users *u = probe->users;

	if (!u || u->paths_done)
		return;
	u->paths_done = true;
	if (probe->by_process) /* their links are made when the process is seen to use them */
		return;
	for (size_t i = 0; i < gs_user_set_n(u->set); i++) {
		const char *path = gs_user_set_spec(u->set, i)->library;
		struct gs_mapped_file file;
		bool is_new;

		/* What our own mount namespace has under this name; a container's file is found
		 * when it is mapped. */
		if (path && *path == '/' && !strpbrk(path, "*?[") &&
		    gs_library_resolve(getpid(), path, &file) == 0)
			uprobe_files_use(probe, 0, &file, &is_new);
	}
}

void uprobe_users_report_missing(struct gs_uprobe *probe)
{
	struct users *u = probe->users;

	for (size_t i = 0; u && i < gs_user_set_n(u->set); i++) {
		const struct gs_user_spec *spec = gs_user_set_spec(u->set, i);
		char name[300], reason[400];
		struct gs_attach a = {.path = spec->library ? spec->library : "any file",
				      .function = name,
				      .reason = reason,
				      .status = -ENOENT,
				      .layer = spec->layer};

		if (u->matched[i] || u->is_reported[i])
			continue;
		if (spec->probe)
			snprintf(name, sizeof(name), "%s:%s", spec->provider, spec->probe);
		else
			snprintf(name, sizeof(name), "%s", spec->function);
		snprintf(reason, sizeof(reason),
			 spec->library && strcmp(spec->library, "exe") != 0
				 ? "no traced process used a file %s%.0s with it"
				 : "no file that traced processes used has it%.0s%.0s",
			 spec->library ? spec->library : "", "");
		u->is_reported[i] = true;
		probe->options.on_attach(probe->options.ctx, &a);
	}
}

static struct cell_seen *cell_seen(struct users *u, const struct gs_user_cell_key *key)
{
	uint64_t hash = gs_hash_bytes(key, sizeof(*key)), i;
	struct cell_seen *c;

	if (gs_map_get(&u->cell_of, hash, &i) && memcmp(&u->cells[i]->key, key, sizeof(*key)) == 0)
		return u->cells[i];
	if (u->n_cells == (size_t)GS_USER_CELL_MAX * 2)
		return NULL;
	c = calloc(1, sizeof(*c));
	if (!c || gs_map_put(&u->cell_of, hash, u->n_cells) < 0) {
		free(c);
		return NULL;
	}
	c->key = *key;
	u->cells[u->n_cells++] = c;
	return c;
}

static void hand_over(struct gs_uprobe *probe, const struct gs_uprobe_handler *h,
		      const struct gs_user_cell_key *key, const struct gs_user_cell *now)
{
	struct users *u = probe->users;
	struct cell_seen *seen = cell_seen(u, key);
	struct gs_user_sum sum = {.pid = key->pid, .tid = key->tid, .func = (uint16_t)key->func};
	unsigned n;

	if (!seen || now->calls == seen->before.calls)
		return;
	if (key->row && key->row < GS_USER_ROW_MAX) {
		const struct gs_user_row *row = &u->rows[key->row];
		const struct gs_user_name *names = gs_user_set_names(u->set, key->row, &n);

		sum.aggregate = row->aggregate;
		if (names && row->aggregate_value < n) {
			sum.value = &names[row->aggregate_value];
			sum.is_signed = row->values[row->aggregate_value].is_signed;
		}
	}
	sum.before = &seen->before;
	sum.now = now;
	h->user_cell(h->ctx, &sum);
	seen->before = *now;
}

void uprobe_users_drain(struct gs_uprobe *probe, const struct gs_uprobe_handler *h)
{
	struct gs_user_cell_key key, *last = NULL, next;
	struct gs_user_cell now;
	int fd;

	if (!probe->users)
		return;
	fd = bpf_map__fd(uprobe_kernel_map(&probe->kernel, GS_FAMILY_USER, "gs_user_cells"));
	for (unsigned i = 0; i < GS_USER_CELL_MAX; i++) {
		if (bpf_map_get_next_key(fd, last, &next) < 0)
			break;
		key = next;
		last = &key;
		if (bpf_map_lookup_elem(fd, &key, &now) == 0)
			hand_over(probe, h, &key, &now);
	}
}
