/*
 * What a thread is in, and what its calls add up to: the innermost open function is the last frame. The end of a function
 * names its code object; the frame is nearly always the last one, but where a program switches stacks within a thread
 * (greenlets) it may lie below others. An end without a frame is of a function that began before it was seen.
 *
 * The frames lie in the file, so that a process that was killed or hangs shows what it was in.
 */
#include "companion/python/python_int.h"

#define READY_STEP 128u /* frames whose pages are had at once */

struct python_self { /* of a thread */
	uint64_t epoch;
	struct gs_companion_slot *slot;            /* of which thread is */
	struct gs_companion_python_thread *thread; /* NULL: there is no memory for it */
	uint32_t depth;
	uint32_t ready;                     /* frames that may be written */
	uint32_t over;                      /* open functions that found no frame */
	struct gs_companion_around *around; /* the other door's; or unused */
};

static __thread struct python_self python_self __attribute__((tls_model("initial-exec")));
static struct gs_companion_around
	unused; /* of threads without the other door: its numbers say nothing */

static struct gs_companion_python_thread *thread_of(const struct companion_self *s)
{
	struct gs_companion_head *head = companion_live->head;
	struct gs_companion_python_thread *threads =
		(void *)((char *)head + gs_companion_python_at(head->n_slots, head->ring_bytes));

	return &threads[s->slot - companion_live->slots];
}

/* The first function of a thread, or of a forked child. */
static PYTHON_COLD bool join_file(struct companion_self *s)
{
	struct python_self *p = &python_self;
	struct gs_companion_head *head = companion_live->head;

	python_code_put_names((void *)((char *)head + gs_companion_python_names_at(
							      head->n_slots, head->ring_bytes)),
			      s->epoch);
	*p = (struct python_self){.epoch = s->epoch, .slot = s->slot, .around = &unused};
	if (python_api.around)
		p->around = python_api.around();
	p->thread = thread_of(s);
	if (!companion_fill_pages(p->thread, offsetof(struct gs_companion_python_thread, frames)))
		p->thread = NULL;
	else
		p->thread->depth = 0;
	s->slot->has_sums = 1;
	return p->thread;
}

static PYTHON_COLD bool make_ready(struct python_self *p)
{
	struct gs_companion_python_frame *frames = p->thread->frames;

	if (p->ready + READY_STEP > GS_COMPANION_PYTHON_OPEN ||
	    !companion_fill_pages(&frames[p->ready], READY_STEP * sizeof(*frames)))
		return false;
	p->ready += READY_STEP;
	return true;
}

/* The row of a function; NULL: there is none left, counted. */
static PYTHON_COLD struct gs_companion_python_row *
make_row(struct companion_self *s, struct gs_companion_python_thread *t, uint32_t number)
{
	uint32_t n = t->n_rows;

	if (n >= GS_COMPANION_PYTHON_ROWS ||
	    !companion_fill_pages(&t->rows[n], sizeof(t->rows[n])) ||
	    !companion_fill_pages(t->hist[n], sizeof(t->hist[n]))) {
		s->slot->lost[GS_COMPANION_LOST_SUM][GS_LAYER_PYTHON]++;
		return NULL;
	}
	t->rows[n].number = number;
	t->of[number] = (uint16_t)(n + 1);
	__atomic_store_n(&t->n_rows, n + 1, __ATOMIC_RELEASE);
	return &t->rows[n];
}

static inline struct gs_companion_python_row *
row_of(struct companion_self *s, struct gs_companion_python_thread *t, uint32_t number)
{
	return t->of[number] ? &t->rows[t->of[number] - 1] : make_row(s, t, number);
}

/* Too many are open: only counted. */
static PYTHON_COLD bool enter_over(struct companion_self *s, struct python_self *p, uint32_t number,
				   bool is_resumed)
{
	struct gs_companion_python_row *row = row_of(s, p->thread, number);

	p->over++;
	if (!row)
		return true;
	row->calls++;
	row->resumes += is_resumed;
	s->slot->lost[GS_COMPANION_LOST_UNTIMED][GS_LAYER_PYTHON]++;
	return true;
}

bool python_stack_enter(const void *code, uint32_t number, bool is_resumed)
{
	struct companion_self *s = companion_thread();
	struct python_self *p = &python_self;
	struct gs_companion_python_frame *f;

	if (COMPANION_UNLIKELY(!s))
		return false;
	if (COMPANION_UNLIKELY(p->epoch != s->epoch || p->slot != s->slot) && !join_file(s))
		return false;
	if (COMPANION_UNLIKELY(!p->thread))
		return false;
	if (COMPANION_UNLIKELY(p->depth >= p->ready) && (p->over || !make_ready(p)))
		return enter_over(s, p, number, is_resumed);
	f = &p->thread->frames[p->depth];
	f->inside = 0;
	f->code = (uintptr_t)code;
	f->number = (uint16_t)number;
	f->flags = is_resumed ? GS_COMPANION_PYTHON_RESUMED : 0;
	f->launches = p->around->launches;
	p->around->python = number;
	f->start = companion_now();
	__atomic_store_n(&p->thread->depth, ++p->depth, __ATOMIC_RELEASE);
	return true;
}

static inline uint64_t to_ns(uint64_t ticks)
{
	return (uint64_t)((unsigned __int128)ticks * companion_ns_per_tick >> 32);
}

static inline void add_up(struct companion_self *s, struct gs_companion_python_thread *t,
			  const struct gs_companion_python_frame *f, uint64_t dur, uint64_t self,
			  uint32_t launches)
{
	struct gs_companion_python_row *row = row_of(s, t, f->number);
	uint64_t ns = to_ns(dur);

	if (!row)
		return;
	row->calls++;
	row->total_ns += ns;
	row->self_ns += to_ns(self);
	if (ns > row->max_ns)
		row->max_ns = ns;
	row->resumes += f->flags & GS_COMPANION_PYTHON_RESUMED;
	row->launches += launches;
	t->hist[row - t->rows][gs_hist_bucket(ns)]++;
}

static inline bool write_call(struct companion_self *s, struct gs_companion_python_thread *t,
			      const struct gs_companion_python_frame *f, uint64_t dur,
			      uint64_t self, uint32_t launches, uint16_t cpu)
{
	struct gs_companion_python_call *c =
		companion_put_in(s, GS_COMPANION_PYTHON_CALL, sizeof(*c), GS_LAYER_PYTHON);
	uint32_t depth = (uint32_t)(f - t->frames);

	if (!c)
		return false;
	c->start = f->start;
	c->dur = dur;
	c->self = self;
	c->number = f->number;
	c->around = depth ? f[-1].number : 0;
	c->cpu = cpu;
	c->depth = (uint8_t)(depth < 255 ? depth : 255);
	c->flags = (uint8_t)f->flags;
	c->launches = launches;
	c->pad = 0;
	companion_publish_in(s, c);
	return true;
}

/* Not the last one; false: it was never seen to begin. */
static PYTHON_COLD bool find_below(struct python_self *p, const void *code, uint32_t *ret_at)
{
	for (uint32_t at = p->depth; at--;) {
		if (p->thread->frames[at].code == (uintptr_t)code) {
			*ret_at = at;
			return true;
		}
	}
	return false;
}

static PYTHON_COLD void take_out(struct python_self *p, uint32_t at)
{
	struct gs_companion_python_frame *frames = p->thread->frames;

	for (; at + 1 < p->depth; at++)
		frames[at] = frames[at + 1];
}

/* The frame there has ended. */
static inline void end_frame(struct companion_self *s, struct python_self *p, uint32_t at,
			     uint64_t now, uint16_t cpu)
{
	struct gs_companion_python_frame *f = &p->thread->frames[at];
	uint64_t dur = now > f->start ? now - f->start : 0;
	uint64_t self = dur > f->inside ? dur - f->inside : 0;
	uint32_t launches = p->around->launches - f->launches;

	if (COMPANION_UNLIKELY(now > python_late_check_at))
		python_late_check(now);
	if (at)
		f[-1].inside += dur;
	p->around->python = p->depth > 1 ? p->thread->frames[p->depth - 2].number : 0;
	if (!python_plan.events || !write_call(s, p->thread, f, dur, self, launches, cpu))
		add_up(s, p->thread, f, dur, self, launches);
	if (COMPANION_UNLIKELY(at + 1 != p->depth))
		take_out(p, at);
	__atomic_store_n(&p->thread->depth, --p->depth, __ATOMIC_RELEASE);
}

static inline struct companion_self *joined_thread(const struct python_self *p)
{
	struct companion_self *s = companion_thread();

	if (COMPANION_UNLIKELY(!s || p->epoch != s->epoch || p->slot != s->slot || !p->thread))
		return NULL;
	return s;
}

bool python_stack_leave(const void *code)
{
	uint16_t cpu = 0;
	uint64_t now = python_plan.events ? companion_now_cpu(&cpu) : companion_now();
	struct python_self *p = &python_self;
	struct companion_self *s = joined_thread(p);

	if (COMPANION_UNLIKELY(!s || p->over || !p->depth) ||
	    p->thread->frames[p->depth - 1].code != (uintptr_t)code)
		return false;
	end_frame(s, p, p->depth - 1, now, cpu);
	return true;
}

void python_stack_leave_other(const void *code)
{
	uint16_t cpu;
	uint64_t now = companion_now_cpu(&cpu);
	uint32_t number = python_code_find(code), at;
	struct python_self *p = &python_self;
	struct companion_self *s = joined_thread(p);

	if (!s || !number || number == PYTHON_UNKNOWN)
		return;
	if (p->over)
		p->over--;
	else if (find_below(p, code, &at))
		end_frame(s, p, at, now, cpu);
}
