/*
 * Unwinding: from the registers of a capture and the copied bytes of its stack to the list of
 * callers, step by step by the rows of unwind tables; where code has no table, by its frame
 * pointer. Memory beyond the copy is known where a frame pointer led there (links[]): the two words
 * at it. A return address that a probe has replaced is put right before it is used.
 */
#include "sources/unwind/native.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "sources/elf/code.h"
#include "sources/unwind/native_int.h"
#include "sources/unwind/python.h"

int gs_native_new(struct gs_reader *reader, struct gs_native **ret_native)
{
	struct gs_native *n = calloc(1, sizeof(*n));

	if (!n)
		return -ENOMEM;
	n->reader = reader;
	n->request = GS_BUF_INIT(4u << 20); /* mostly some bytes; names of kernels are many */
	n->reply = GS_BUF_INIT(16 * GS_CUBIN_STUBS_MAX + 64);
	n->vdso_fd = -1;
	n->file_of_id = GS_MAP_INIT(2 * NATIVE_MAX_FILES);
	n->proc_of_pid = GS_MAP_INIT(NATIVE_MAX_PROCS);
	*ret_native = n;
	return 0;
}

void gs_native_free(struct gs_native **native)
{
	struct gs_native *n = *native;

	if (!n)
		return;
	native_processes_fini(n);
	native_files_fini(n);
	gs_buf_fini(&n->request);
	gs_buf_fini(&n->reply);
	gs_close_p(&n->vdso_fd);
	free(n);
	*native = NULL;
}

const char *gs_native_path(const struct gs_native *n, uint32_t file)
{
	return file && file <= n->n_files ? n->files[file - 1].path : "";
}

bool gs_native_name(struct gs_native *n, const struct gs_native_frame *frame, char *ret_name,
		    size_t bytes)
{
	if (frame->signal) {
		snprintf(ret_name, bytes, "<signal handler called>"); /* as gdb says it */
		return true;
	}
	if (!frame->file)
		return native_made_name(n, frame->pid, frame->pc, ret_name, bytes);
	return native_file_name(n, frame->file, frame->vaddr, ret_name, bytes);
}

/* ---- the captured stack ---------------------------------------------------------------- */

static bool read_word(void *ctx, uint64_t addr, uint64_t *ret_value)
{
	const struct gs_event_stack_bytes *e = ctx;

	if (addr >= e->sp && addr - e->sp < e->n_bytes && e->n_bytes - (addr - e->sp) >= 8) {
		memcpy(ret_value, e->bytes + (addr - e->sp), 8);
		return true;
	}
	for (unsigned i = 0; i < e->n_links; i++) {
		if (addr == e->links[i].at + 8) {
			*ret_value = e->links[i].value;
			return true;
		}
		/* What lies at a frame pointer is the next one. */
		if (addr == e->links[i].at && i + 1u < e->n_links) {
			*ret_value = e->links[i + 1].at;
			return true;
		}
	}
	return false;
}

static void put_right(const struct gs_event_stack_bytes *e, uint64_t slot, struct gs_regs *regs)
{
	for (unsigned i = 0; slot && i < e->n_returns; i++)
		if (e->returns[i].at == slot)
			regs->value[GS_REG_RIP] = e->returns[i].value;
}

static void set_reg(struct gs_regs *regs, unsigned reg, uint64_t value)
{
	regs->value[reg] = value;
	regs->known |= 1u << reg;
}

static struct gs_regs first_regs(const struct gs_event_stack_bytes *e)
{
	struct gs_regs regs = {.known = 0};

	set_reg(&regs, GS_REG_RIP, e->ip);
	set_reg(&regs, GS_REG_RSP, e->sp);
	set_reg(&regs, GS_REG_RBP, e->bp);
	set_reg(&regs, GS_REG_RBX, e->bx);
	set_reg(&regs, GS_REG_R12, e->r12);
	set_reg(&regs, GS_REG_R12 + 1, e->r13);
	set_reg(&regs, GS_REG_R12 + 2, e->r14);
	set_reg(&regs, GS_REG_R15, e->r15);
	return regs;
}

/* ---- one step -------------------------------------------------------------------------- */

static const struct native_row *row_find(struct gs_native *n, uint32_t file, uint64_t vaddr)
{
	uint64_t key[2] = {file, vaddr};
	struct native_row *row = &n->rows[gs_hash_bytes(key, sizeof(key)) & (NATIVE_ROWS - 1)];

	if (row->file == file && row->vaddr == vaddr)
		return row;
	row->file = file;
	row->vaddr = vaddr;
	row->result = (int16_t)native_file_row(n, file, vaddr, &row->row);
	return row;
}

/* As code with frame pointers leaves them: the caller's at rbp, the return address above. */
static int step_by_pointer(const struct gs_event_stack_bytes *e, struct gs_regs *regs,
			   uint64_t *ret_slot)
{
	uint64_t fp = regs->value[GS_REG_RBP], next, ret;

	if (!(regs->known >> GS_REG_RBP & 1))
		return -EFAULT;
	if (fp == 0) /* the outermost function (System V ABI 3.4.1) */
		return 1;
	if (fp < regs->value[GS_REG_RSP] || !read_word((void *)(uintptr_t)e, fp + 8, &ret))
		return -EFAULT;
	*ret_slot = fp + 8;
	regs->known = 1u << GS_REG_RIP | 1u << GS_REG_RSP;
	if (read_word((void *)(uintptr_t)e, fp, &next))
		set_reg(regs, GS_REG_RBP, next);
	regs->value[GS_REG_RSP] = fp + 16;
	regs->value[GS_REG_RIP] = ret;
	return 0;
}

/* Code that was made at run time has no table. What a call in it returns to is often the end of a
 * small function at once, as that by which CPython is seen by perf (Python/asm_trampoline.S): it
 * says where its return address is. */
static int step_by_end(const struct gs_event_stack_bytes *e, uint64_t pc, struct gs_regs *regs,
		       uint64_t *ret_slot)
{
	static const uint8_t add_ret[] = {0x48, 0x83, 0xc4, 0x08, 0xc3}; /* add $8,%rsp; ret */
	static const uint8_t pop_ret[] = {0x5d, 0xc3};                   /* pop %rbp; ret */
	uint64_t slot = regs->value[GS_REG_RSP] + 8, ret, fp;
	uint8_t code[sizeof(add_ret)];
	bool pops;

	if (gs_python_peek((pid_t)e->pid, pc, code, sizeof(code)) < 0)
		return -EFAULT;
	pops = memcmp(code, pop_ret, sizeof(pop_ret)) == 0;
	if ((!pops && memcmp(code, add_ret, sizeof(add_ret)) != 0) ||
	    !read_word((void *)(uintptr_t)e, slot, &ret))
		return -EFAULT;
	if (pops && read_word((void *)(uintptr_t)e, slot - 8, &fp))
		set_reg(regs, GS_REG_RBP, fp);
	*ret_slot = slot;
	set_reg(regs, GS_REG_RSP, slot + 8);
	set_reg(regs, GS_REG_RIP, ret);
	return 0;
}

/* 0, 1 at the outermost frame, or a negative errno where the caller cannot be known. */
static int step_frame(struct gs_native *n, const struct gs_event_stack_bytes *e,
		      struct gs_native_frame *f, bool after_call, struct gs_regs *regs)
{
	const struct native_row *row = f->file ? row_find(n, f->file, f->vaddr) : NULL;
	uint64_t slot = 0;
	int r;

	if (row && row->result == 0) {
		f->signal = row->row.signal;
		r = gs_cfi_step(&row->row, f->pc - f->vaddr, read_word, (void *)(uintptr_t)e, regs,
				&slot);
	} else {
		r = f->file || !after_call ? -EFAULT
					   : step_by_end(e, regs->value[GS_REG_RIP], regs, &slot);
		if (r < 0)
			r = step_by_pointer(e, regs, &slot);
	}
	if (r == 0)
		put_right(e, slot, regs);
	return r;
}

static bool frame_at(struct gs_native *n, uint32_t pid, uint64_t pc, struct gs_native_frame *ret)
{
	const struct native_map *m = native_map_find(n, pid, pc);
	struct native_file *f;

	if (!m)
		return false;
	*ret = (struct gs_native_frame){.pc = pc, .pid = pid};
	f = m->file ? native_file_open(n, m->file) : NULL;
	if (m->file) {
		ret->file = m->file;
		ret->file_off = m->file_off + (pc - m->start);
	}
	if (!f || !gs_elf_vaddr_of(f->segments, ret->file_off, &ret->vaddr))
		ret->vaddr = ret->file_off;
	return true;
}

bool gs_native_find(struct gs_native *n, uint32_t pid, uint64_t pc,
		    struct gs_native_frame *ret_frame)
{
	n->now_ns = gs_clock_mono_ns();
	return frame_at(n, pid, pc, ret_frame);
}

bool gs_native_kernel(struct gs_native *n, const struct gs_native_frame *frame, char *ret_name,
		      size_t bytes)
{
	return frame->file && native_file_kernel(n, frame->file, frame->vaddr, ret_name, bytes);
}

static bool well_formed(const struct gs_event_stack_bytes *e)
{
	return e->head.bytes >= sizeof(*e) && e->n_bytes <= e->head.bytes - sizeof(*e) &&
	       e->n_returns <= GS_NATIVE_RETURNS && e->n_links <= GS_NATIVE_LINKS && e->pid;
}

int gs_native_unwind(struct gs_native *n, const struct gs_event_stack_bytes *e,
		     struct gs_native_stack *s)
{
	struct gs_regs regs;
	struct gs_native_frame *f;
	bool after_call;

	s->n_frames = 0;
	s->flags = 0;
	if (!well_formed(e))
		return -EINVAL;
	n->now_ns = gs_clock_mono_ns();
	regs = first_regs(e);
	after_call = e->after_call;
	/* At a ret the top of the stack was taken for it: the trampoline of another tool's return probe, if it has one. */
	if (after_call)
		put_right(e, e->sp - 8, &regs);
	for (;;) {
		uint64_t pc = regs.value[GS_REG_RIP];
		int r;

		if (pc == 0)
			return 0;
		if (s->n_frames == GS_STACK_MAX) {
			s->flags |= GS_STACK_TRUNCATED;
			return 0;
		}
		/* A call may be a function's last instruction: what it returns to belongs to the
		 * next one then, so the call's own last byte is what is looked for. */
		if (!frame_at(n, e->pid, pc - after_call, &s->frames[s->n_frames]))
			break;
		f = &s->frames[s->n_frames++];
		r = step_frame(n, e, f, after_call, &regs);
		if (r == 1)
			return 0;
		if (r < 0) {
			s->flags |= GS_STACK_PARTIAL;
			return 0;
		}
		after_call = !f->signal;
	}
	if (s->n_frames == 0)
		return -ESRCH;
	s->flags |= GS_STACK_PARTIAL;
	return 0;
}
