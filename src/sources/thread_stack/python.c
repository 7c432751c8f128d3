/*
 * The Python stack of a thread of another process, read from here. Unlike in the kernel
 * (bpf/calls/python.bpf.h, which says how frames hang together) the thread may run meanwhile: what is
 * read then may be of two moments, and ends where it makes no sense. One that waits stands still.
 */
#include "sources/thread_stack/thread_stack.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

#define SCAN_MAX 1024 /* thread states looked at */
#define SKIP_MAX 128  /* frames of C code in one stack */
#define TAG_BITS 7ull /* low bits of a frame's pointer to its code that are flags (3.14) */
#define C_FRAME  3    /* frame_owner: from here on */
#define GLIBC_TID                                                                                  \
	0x2d0 /* glibc, nptl/descr.h: struct pthread's tid, which pthread_self() points to */

struct walk {
	pid_t pid;
	const struct gs_py_proc *proc;
	uint64_t frame; /* the next */
	uint8_t state[GS_PY_STATE_BYTES];
	uint8_t buf[GS_PY_FRAME_BYTES];
};

static uint64_t read_word(pid_t pid, uint64_t address)
{
	uint64_t v = 0;

	return gs_python_peek(pid, address, &v, sizeof(v)) < 0 ? 0 : v;
}

/* Of what was read of a struct; 0 beyond it. */
static uint64_t word_at(const uint8_t *buf, size_t bytes, size_t offset)
{
	uint64_t v = 0;

	if (offset <= bytes - sizeof(v))
		memcpy(&v, buf + offset, sizeof(v));
	return v;
}

static uint64_t state_word(const struct walk *w, size_t offset)
{
	return word_at(w->state, sizeof(w->state), offset);
}

static uint64_t frame_word(const struct walk *w, size_t offset)
{
	return word_at(w->buf, sizeof(w->buf), offset);
}

/* The number that a thread has in its own namespace. */
static uint32_t own_tid(pid_t pid, uint32_t tid)
{
	GS_FCLOSE FILE *f = NULL;
	char line[512];
	uint32_t own = tid;

	snprintf(line, sizeof(line), "/proc/%d/task/%u/status", (int)pid, tid);
	f = fopen(line, "re");
	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, "NSpid:", 6) == 0)
			own = (uint32_t)strtoul(strrchr(line, '\t') + 1, NULL, 10);
	return own;
}

/* Leaves the thread's state in w->state. The first thread of a process has the state that was made
 * first, which is the last of the list. */
static int find_state(struct walk *w, uint32_t tid)
{
	uint64_t interp = read_word(w->pid, w->proc->runtime + w->proc->runtime_interp);
	uint64_t state = read_word(w->pid, interp + w->proc->interp_threads);
	uint32_t own = own_tid(w->pid, tid), has = 0;

	if (w->proc->state_bytes > sizeof(w->state) || !interp)
		return -ENOENT;
	for (unsigned i = 0; state && i < SCAN_MAX; i++) {
		uint64_t next;

		if (gs_python_peek(w->pid, state, w->state, w->proc->state_bytes) < 0)
			return -EFAULT;
		gs_python_peek(w->pid, state_word(w, w->proc->state_thread_id) + GLIBC_TID, &has,
			       sizeof(has));
		next = state_word(w, w->proc->state_next);
		if (has == own || (!next && tid == (uint32_t)w->pid))
			return 0;
		state = next;
	}
	return -ENOENT;
}

static uint64_t code_begin(const struct walk *w, uint64_t code)
{
	uint64_t copies = 0;

	if (w->proc->frame_tlbc != GS_PY_NONE)
		copies = read_word(w->pid, code + w->proc->code_tlbc);
	if (!copies)
		return code + w->proc->code_begin;
	/* struct _PyCodeArray: a size, and the pointers. */
	return read_word(w->pid,
			 copies + 8 + 8 * (frame_word(w, w->proc->frame_tlbc) & 0xffffffff));
}

static int64_t place_in_code(const struct walk *w, uint64_t code)
{
	uint64_t at = frame_word(w, w->proc->frame_at);
	int32_t last = (int32_t)at;

	if (w->proc->at_kind == GS_PY_AT_POINTER)
		return (int64_t)(at - code_begin(w, code));
	return (int64_t)last * (w->proc->at_kind == GS_PY_AT_UNITS && last > 0 ? 2 : 1);
}

static void read_text(const struct walk *w, uint64_t text, char *out, size_t out_bytes)
{
	uint64_t length = read_word(w->pid, text + w->proc->text_length), from;
	uint32_t state = (uint32_t)read_word(w->pid, text + w->proc->text_state), kind;
	uint8_t chars[GS_PY_FILE_BYTES];

	out[0] = '\0';
	state >>= w->proc->text_shift & 31;
	kind = state & 7;
	if (!(state & 8) || (kind != 1 && kind != 2 && kind != 4)) /* not compact */
		return;
	from = text + (state & 16 ? w->proc->text_ascii : w->proc->text_compact);
	length = length < sizeof(chars) / kind ? length : sizeof(chars) / kind;
	if (gs_python_peek(w->pid, from, chars, (size_t)length * kind) == 0)
		gs_python_text(chars, (size_t)length * kind, kind, out, out_bytes);
}

static uint32_t line_of(const struct walk *w, uint64_t code, uint64_t table)
{
	uint64_t bytes = read_word(w->pid, table + w->proc->bytes_length);
	GS_FREE uint8_t *lines = NULL;
	int32_t first = 0;

	if (!bytes || bytes > GS_PY_TABLE_MAX ||
	    gs_python_peek(w->pid, code + w->proc->code_first_line, &first, sizeof(first)) < 0)
		return 0;
	lines = malloc(bytes);
	if (!lines || gs_python_peek(w->pid, table + w->proc->bytes_data, lines, bytes) < 0)
		return 0;
	return gs_python_line(w->proc->version, lines, bytes, first, place_in_code(w, code));
}

/* One frame: 1; 0: one that is not shown; negative: the end of what can be read. */
static int read_frame(struct walk *w, struct gs_thread_stack_python *ret)
{
	const struct gs_py_proc *p = w->proc;
	uint64_t code, names[4];

	if (p->frame_bytes > sizeof(w->buf) ||
	    gs_python_peek(w->pid, w->frame, w->buf, p->frame_bytes) < 0)
		return -EFAULT;
	w->frame = frame_word(w, p->frame_previous);
	if (p->frame_owner < sizeof(w->buf) && w->buf[p->frame_owner] >= C_FRAME)
		return 0;
	code = frame_word(w, p->frame_code) & ~TAG_BITS;
	if (gs_python_peek(w->pid, code + p->code_filename, names, sizeof(names)) < 0)
		return -EFAULT;
	/* Before 3.11: file, name, table; since: file, name, qualified name, table. */
	read_text(w, names[0], ret->file, sizeof(ret->file));
	read_text(w, names[p->version >= 0x030b ? 2 : 1], ret->name, sizeof(ret->name));
	ret->line = line_of(w, code, names[p->version >= 0x030b ? 3 : 2]);
	/* Frames that the interpreter puts below an __init__ have neither. */
	return ret->file[0] && ret->line ? 1 : 0;
}

int gs_thread_stack_python(pid_t pid, uint32_t tid, const struct gs_py_proc *proc,
			   struct gs_thread_stack_python *frames, unsigned max)
{
	struct walk w = {.pid = pid, .proc = proc};
	int r = find_state(&w, tid), n = 0;
	uint64_t at;

	if (r < 0)
		return r;
	at = state_word(&w, proc->state_frame);
	w.frame = at && proc->cframe_frame != GS_PY_NONE ? read_word(pid, at + proc->cframe_frame)
							 : at;
	for (unsigned i = 0; i < max + SKIP_MAX && w.frame && (unsigned)n < max; i++) {
		r = read_frame(&w, &frames[n]);
		if (r < 0)
			break;
		n += r;
	}
	return n;
}
