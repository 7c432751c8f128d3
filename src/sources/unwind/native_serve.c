/*
 * In the reader: files of code that stay open, with their tables, and maps of generated code. The
 * holder says when memory is to be given back.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/map.h"
#include "core/base/mem.h"
#include "sources/cubin/needs.h"
#include "sources/cubin/stubs.h"
#include "sources/elf/code.h"
#include "sources/elf/elf.h"
#include "sources/unwind/native_int.h"
#include "sources/unwind/native_wire.h"
#include "sources/unwind/perf_map.h"
#include "sources/unwind/symbolize.h"

struct served_file {
	struct gs_elf *elf; /* owned */
	struct gs_cfi *cfi; /* owned; NULL: not read, or: */
	bool no_cfi;
	struct gs_elf *debug;         /* owned; until the names are read */
	struct gs_symbols *symbols;   /* owned; NULL: not read */
	struct gs_cubin_stubs *stubs; /* owned; likewise */
};

struct served {
	struct served_file *files[NATIVE_MAX_FILES + 1]; /* owned, by number */
	struct gs_perf_maps *all_made;                   /* owned */
	struct gs_perf_map *made[NATIVE_MAX_PROCS];      /* owned */
	struct gs_map made_of;                           /* process -> index */
	size_t n_made;
};

static struct served *served_new(void)
{
	struct served *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->made_of = GS_MAP_INIT(NATIVE_MAX_PROCS);
	s->all_made = gs_perf_maps_new();
	if (s->all_made)
		return s;
	free(s);
	return NULL;
}

static void drop_tables(struct served_file *f)
{
	gs_symbols_free(&f->symbols);
	gs_cubin_stubs_free(&f->stubs);
	gs_cfi_free(&f->cfi);
}

static void close_served(struct served *s, uint32_t file)
{
	struct served_file *f = s->files[file];

	if (!f)
		return;
	drop_tables(f);
	gs_elf_close(&f->debug);
	gs_elf_close(&f->elf);
	free(f);
	s->files[file] = NULL;
}

static uint64_t table_bytes(const struct served_file *f)
{
	return (f->symbols ? gs_symbols_bytes(f->symbols) : 0) +
	       (f->stubs ? gs_cubin_stubs_bytes(f->stubs) : 0) +
	       (f->cfi ? gs_cfi_bytes(f->cfi) : 0);
}

static int serve_open(struct served *s, uint32_t file, struct gs_reader_request *q,
		      struct gs_wire_out *out)
{
	const char *name = gs_wire_text(&q->in);
	struct gs_elf_segments segments;
	struct served_file *f;
	char link[256];
	uint32_t crc;
	int r;

	if (!name || !gs_wire_is_done(&q->in))
		return -EBADMSG;
	close_served(s, file);
	f = s->files[file] = calloc(1, sizeof(*f));
	if (!f)
		return -ENOMEM;
	r = gs_elf_open_fd(&q->fds[0], name, false, &f->elf, NULL);
	if (r == 0)
		r = gs_elf_code_segments(f->elf, &segments);
	if (r < 0) {
		close_served(s, file);
		return r;
	}
	native_put_segments(out, &segments);
	gs_wire_put_u8(out, gs_elf_has_symtab(f->elf));
	gs_wire_put_text(out, gs_elf_build_id(f->elf));
	gs_wire_put_text(out, gs_elf_debug_link(f->elf, link, &crc) ? link : NULL);
	return 0;
}

static int serve_row(struct served_file *f, struct gs_wire_in *in, struct gs_wire_out *out)
{
	uint64_t vaddr = gs_wire_u64(in);
	struct gs_cfi_row row;
	int r = -ENOENT;

	if (!gs_wire_is_done(in))
		return -EBADMSG;
	if (!f->cfi && !f->no_cfi)
		f->no_cfi = gs_cfi_new(f->elf, &f->cfi) < 0;
	if (f->cfi)
		r = gs_cfi_find(f->cfi, vaddr, &row);
	gs_wire_put_u32(out, (uint32_t)r);
	gs_wire_put_u64(out, table_bytes(f));
	if (r == 0)
		native_put_row(out, &row);
	return 0;
}

static int serve_debug(struct served_file *f, struct gs_reader_request *q, struct gs_wire_out *out)
{
	bool by_build_id = gs_wire_u8(&q->in), is_trusted = gs_wire_u8(&q->in);
	const char *name = gs_wire_text(&q->in);
	struct gs_elf *debug = NULL;
	bool fits;

	if (!name || !gs_wire_is_done(&q->in))
		return -EBADMSG;
	fits = gs_elf_open_fd(&q->fds[0], name, true, &debug, NULL) == 0 &&
	       gs_unwind_debug_fits(f->elf, debug, by_build_id, is_trusted);
	if (fits) {
		gs_elf_close(&f->debug);
		f->debug = gs_take(debug);
	}
	gs_elf_close(&debug);
	gs_wire_put_u8(out, fits);
	return 0;
}

static int serve_name(struct served_file *f, struct gs_wire_in *in, struct gs_wire_out *out)
{
	uint64_t vaddr = gs_wire_u64(in);
	char name[NATIVE_MAX_NAME];
	int r;

	if (!gs_wire_is_done(in))
		return -EBADMSG;
	r = f->symbols ? 0 : gs_symbols_new(f->elf, &f->debug, &f->symbols);
	if (r < 0)
		return r;
	gs_wire_put_u64(out, table_bytes(f));
	gs_wire_put_text(out, gs_symbols_name(f->symbols, vaddr, name, sizeof(name)) ? name : NULL);
	return 0;
}

static int reach_stubs(struct served_file *f)
{
	return f->stubs ? 0 : gs_cubin_stubs_new(f->elf, &f->stubs);
}

static int serve_kernel(struct served_file *f, struct gs_wire_in *in, struct gs_wire_out *out)
{
	uint64_t vaddr = gs_wire_u64(in);
	char name[NATIVE_MAX_NAME];
	bool found;
	int r;

	if (!gs_wire_is_done(in))
		return -EBADMSG;
	r = reach_stubs(f);
	if (r < 0)
		return r;
	found = gs_cubin_stubs_name(f->stubs, f->elf, vaddr, name, sizeof(name));
	gs_wire_put_u64(out, table_bytes(f));
	gs_wire_put_text(out, found ? name : NULL);
	return 0;
}

static int serve_handles(struct served_file *f, struct gs_wire_in *in, struct gs_wire_out *out)
{
	const struct gs_cubin_handle *handles;
	size_t n;
	int r;

	if (!gs_wire_is_done(in))
		return -EBADMSG;
	r = reach_stubs(f);
	if (r < 0)
		return r;
	handles = gs_cubin_stubs_handles(f->stubs, &n);
	gs_wire_put_u64(out, table_bytes(f));
	gs_wire_put_u32(out, (uint32_t)n);
	for (size_t i = 0; i < n; i++) {
		gs_wire_put_u64(out, handles[i].vaddr);
		gs_wire_put_u64(out, handles[i].stub);
	}
	return 0;
}

static void put_needs(struct gs_wire_out *out, const struct gs_cubin_wanted *w)
{
	const struct gs_cubin_kernel *k = &w->kernel;

	gs_wire_put_u8(out, w->found);
	gs_wire_put_u8(out, w->differs);
	gs_wire_put_u32(out, k->sm);
	gs_wire_put_u32(out, k->registers);
	gs_wire_put_u32(out, k->shared_bytes);
	gs_wire_put_u32(out, k->constant_bytes);
	gs_wire_put_u32(out, k->local_bytes);
	gs_wire_put_u32(out, k->max_threads);
	gs_wire_put_u64(out, k->code_bytes);
}

static int serve_needs(struct served_file *f, struct gs_wire_in *in, struct gs_wire_out *out)
{
	uint32_t sm = gs_wire_u32(in), n = gs_wire_count(in, 5);
	GS_FREE struct gs_cubin_wanted *wanted = calloc(n + 1u, sizeof(*wanted));
	int r;

	if (!wanted)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		wanted[i].name = gs_wire_text(in);
		if (!wanted[i].name)
			return -EBADMSG;
	}
	if (!gs_wire_is_done(in))
		return -EBADMSG;
	r = gs_cubin_find_needs(f->elf, sm, wanted, n, NULL);
	/* What was found before the end is true. */
	for (uint32_t i = 0; (r == 0 || r == -EDQUOT) && i < n; i++)
		put_needs(out, &wanted[i]);
	return r == -EDQUOT ? 0 : r;
}

/* ---- generated code ---- */

static struct gs_perf_map *made_of(struct served *s, uint32_t pid)
{
	struct gs_perf_map *m;
	uint64_t i;

	if (gs_map_get(&s->made_of, pid, &i))
		return s->made[i];
	for (i = 0; i < NATIVE_MAX_PROCS && s->made[i]; i++)
		;
	m = i < NATIVE_MAX_PROCS ? gs_perf_map_new(s->all_made) : NULL;
	if (m && gs_map_put(&s->made_of, pid, i) < 0)
		gs_perf_map_free(&m);
	if (m)
		s->made[i] = m;
	return m;
}

static int serve_made(struct served *s, uint32_t pid, struct gs_reader_request *q,
		      struct gs_wire_out *out)
{
	uint64_t pc = gs_wire_u64(&q->in), now_ns = gs_wire_u64(&q->in);
	GS_FOREIGN_CLOSE struct gs_foreign file = GS_FOREIGN_INIT;
	struct gs_perf_map *m = made_of(s, pid);
	char name[NATIVE_MAX_NAME];
	int r = 0;

	if (!gs_wire_is_done(&q->in))
		return -EBADMSG;
	if (!m)
		return -ENOMEM;
	if (q->fds[0] >= 0)
		r = gs_foreign_adopt(&q->fds[0], NULL, &file);
	if (r < 0)
		return r;
	if (file.fd >= 0)
		gs_perf_map_read(m, &file, now_ns);
	gs_wire_put_text(out, gs_perf_map_name(m, pc, name, sizeof(name)) ? name : NULL);
	return 0;
}

static void serve_forget(struct served *s, uint32_t pid)
{
	uint64_t i;

	if (!gs_map_get(&s->made_of, pid, &i))
		return;
	gs_map_del(&s->made_of, pid);
	gs_perf_map_free(&s->made[i]);
}

int gs_native_serve(void **state, struct gs_reader_request *q, struct gs_wire_out *out,
		    struct gs_err *err)
{
	unsigned request = gs_wire_u8(&q->in);
	uint32_t which = gs_wire_u32(&q->in);
	struct served *s = *state ? *state : (*state = served_new());

	if (!s)
		return -ENOMEM;
	if (q->in.bad)
		return -EBADMSG;
	if (request == NATIVE_MADE)
		return serve_made(s, which, q, out);
	if (request == NATIVE_FORGET) {
		serve_forget(s, which);
		return 0;
	}
	if (which > NATIVE_MAX_FILES)
		return -EBADMSG;
	if (request == NATIVE_OPEN)
		return serve_open(s, which, q, out);
	if (!s->files[which])
		return -ESTALE;
	switch (request) {
	case NATIVE_ROW:
		return serve_row(s->files[which], &q->in, out);
	case NATIVE_DEBUG:
		return serve_debug(s->files[which], q, out);
	case NATIVE_NAME:
		return serve_name(s->files[which], &q->in, out);
	case NATIVE_KERNEL:
		return serve_kernel(s->files[which], &q->in, out);
	case NATIVE_HANDLES:
		return serve_handles(s->files[which], &q->in, out);
	case NATIVE_NEEDS:
		return serve_needs(s->files[which], &q->in, out);
	case NATIVE_DROP:
		drop_tables(s->files[which]);
		return 0;
	case NATIVE_CLOSE:
		close_served(s, which);
		return 0;
	default:
		return -EBADMSG;
	}
}
