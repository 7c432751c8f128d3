#include "sources/x86/exit.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "core/base/vec.h"
#include "sources/x86/insn.h"

#define MAX_FRAME_BYTES 65528u

/* Of a part apart so much is read: those of operators have some hundred bytes, that of an
 * interpreter's loop some thousand. */
#define MAX_APART_BYTES      2048
#define MAX_LOOP_APART_BYTES 32768

#define MAX_APARTS 4

/* What lies between a probe and a ret is short. */
#define MAX_TAIL_STEPS 256

/* Calls that give memory back, between the probe and a ret. */
#define MAX_TAIL_CALLS 4

enum flow {
	FLOW_ON,
	FLOW_JUMP,         /* relative, always */
	FLOW_BRANCH,       /* relative, by condition */
	FLOW_OTHER_JUMP,   /* whose target is not known */
	FLOW_OTHER_BRANCH, /* loop, jrcxz, or a form that must not be probed */
	FLOW_CALL,         /* of what is work, or not known */
	FLOW_RELEASE,      /* a call that can be probed, of what gives memory back */
	FLOW_RET,
	FLOW_STOP, /* ud2, hlt, call of what does not return */
};

/* How far the stack pointer is below that at the entry, before an instruction. */
enum { DEPTH_UNSEEN = -2, DEPTH_UNKNOWN = -1 };

struct step {
	int64_t at, next;
	int64_t target;    /* of jumps and calls that name it */
	int64_t push;      /* what it takes off the stack pointer */
	int64_t depth;     /* or DEPTH_* */
	size_t other_from; /* number of the OTHER_BRANCH that leads here, plus 1; 0 none */
	uint8_t flow;      /* enum flow */
	uint8_t condition;
	bool moves_stack; /* sets the stack pointer to what is not known */
	bool is_nop;
	bool may_release; /* of a call: who is called has not been asked yet */
	bool in_tail;     /* of a ret that is not probed itself */
	bool in_trial;    /* of the one that is looked for */
};

struct steps {
	struct step *items; /* owned; the function's, then those of its part apart */
	size_t n, n_own, n_room;
	uint32_t *index; /* owned; of the instruction at a byte of the function, plus 1 */
	size_t bytes;    /* of the function */
	size_t *stack;   /* owned; of walks: each instruction twice at most */
	size_t *members; /* owned */
	bool has_other_jump, has_syscall;
	bool is_loop;    /* gs_exit_around.is_loop */
	bool is_unclear; /* so, or there are jumps that are not understood */
	uint32_t frame_bytes;
	const struct gs_exit_around *around; /* may be NULL */
};

static void steps_fini(struct steps *s)
{
	free(s->items);
	free(s->index);
	free(s->stack);
	free(s->members);
}

/* ---- instructions ---- */

static enum flow flow_of(const struct insn *in)
{
	if (in->encoding != ENC_LEGACY)
		return FLOW_ON;
	if (in->map == 1) {
		if ((in->opcode & 0xf0) == 0x80)
			return gs_x86_insn_refusal(in) ? FLOW_OTHER_BRANCH : FLOW_BRANCH;
		return in->opcode == 0x0b ? FLOW_STOP : FLOW_ON;
	}
	if (in->map != 0)
		return FLOW_ON;
	if ((in->opcode & 0xf0) == 0x70)
		return gs_x86_insn_refusal(in) ? FLOW_OTHER_BRANCH : FLOW_BRANCH;
	if (in->opcode >= 0xe0 && in->opcode <= 0xe3)
		return FLOW_OTHER_BRANCH;
	switch (in->opcode) {
	case 0xe8:
		return FLOW_CALL;
	case 0xe9:
	case 0xeb:
		return gs_x86_insn_refusal(in) ? FLOW_OTHER_JUMP : FLOW_JUMP;
	case 0xc3:
		return FLOW_RET;
	case 0xcc:
	case 0xf4:
		return FLOW_STOP;
	case 0xff:
		if (in->group == 2 || in->group == 3)
			return FLOW_CALL;
		return in->group == 4 || in->group == 5 ? FLOW_OTHER_JUMP : FLOW_ON;
	}
	return FLOW_ON;
}

/* The immediate at the end of an instruction of the group 81 or 83. */
static int64_t immediate_of(const uint8_t *code, const struct insn *in)
{
	const uint8_t *end = code + in->length_bytes;

	if (in->opcode == 0x83)
		return (int8_t)end[-1];
	return (int32_t)((uint32_t)end[-4] | (uint32_t)end[-3] << 8 | (uint32_t)end[-2] << 16 |
			 (uint32_t)end[-1] << 24);
}

/* What the instruction does to the stack pointer. Returns by how much it may lower it. */
static uint64_t take_stack(const uint8_t *code, const struct insn *in, struct step *one)
{
	int64_t imm;

	if (in->map != 0 || in->encoding != ENC_LEGACY)
		return 0;
	if ((in->opcode & 0xf8) == 0x50 || in->opcode == 0x68 || in->opcode == 0x6a ||
	    (in->opcode == 0xff && in->group == 6)) {
		one->push = 8;
		return 8;
	}
	if ((in->opcode & 0xf8) == 0x58 || in->opcode == 0x8f) {
		one->push = -8;
		one->moves_stack = in->opcode == 0x5c && !(in->rex & 1);
		return 0;
	}
	if ((in->opcode == 0x81 || in->opcode == 0x83) && in->mod == 3 && in->rm == 4) {
		imm = immediate_of(code, in);
		if (in->group == 4) /* and: rounds down */
			return imm < 0 ? (uint64_t)-imm : MAX_FRAME_BYTES;
		if (in->group == 0 || in->group == 5)
			one->push = in->group == 5 ? imm : -imm;
		return one->push > 0 ? (uint64_t)one->push : 0;
	}
	/* leave, and what sets rsp from a register or an address */
	one->moves_stack = in->opcode == 0xc9 || (in->opcode == 0x8d && in->reg == 4) ||
			   (in->opcode == 0x89 && in->mod == 3 && in->rm == 4) ||
			   (in->opcode == 0x8b && in->reg == 4);
	/* sub of a register: an array of variable size */
	if ((in->opcode == 0x29 && in->mod == 3 && in->rm == 4) ||
	    (in->opcode == 0x2b && in->reg == 4)) {
		one->moves_stack = true;
		return MAX_FRAME_BYTES;
	}
	return 0;
}

static int append_step(struct steps *s, const struct step *one)
{
	if (!gs_vec_reserve(&s->items, &s->n_room, s->n + 1))
		return -ENOMEM;
	s->items[s->n++] = *one;
	return 0;
}

static bool is_own(const struct steps *s, int64_t offset)
{
	return offset >= 0 && offset < (int64_t)s->bytes;
}

/* The function's own instruction there; NULL: none begins there. */
static struct step *own_at(const struct steps *s, int64_t offset)
{
	uint32_t i = is_own(s, offset) ? s->index[offset] : 0;

	return i ? &s->items[i - 1] : NULL;
}

static int take_own(struct steps *s, const uint8_t *code)
{
	uint64_t frame = 8;
	struct insn in;
	int r = 0;

	s->index = calloc(s->bytes ? s->bytes : 1, sizeof(*s->index));
	if (!s->index)
		return -ENOMEM;
	for (size_t at = 0; r == 0 && at < s->bytes; at += in.length_bytes) {
		struct step one = {.at = (int64_t)at, .depth = DEPTH_UNSEEN};

		if (!gs_x86_insn_decode(code + at, s->bytes - at, &in))
			return -EILSEQ;
		/* A ret that drops arguments is of no function of this ABI. */
		if (in.map == 0 && in.encoding == ENC_LEGACY && in.opcode == 0xc2)
			return -EILSEQ;
		one.next = one.at + in.length_bytes;
		one.target = one.next + in.rel;
		one.condition = in.opcode & 15;
		one.flow = (uint8_t)flow_of(&in);
		one.may_release = in.opcode == 0xe8 && !gs_x86_insn_refusal(&in);
		one.is_nop = in.encoding == ENC_LEGACY && ((in.map == 1 && in.opcode == 0x1f) ||
							   (in.map == 0 && in.opcode == 0x90));
		s->has_other_jump |= one.flow == FLOW_OTHER_JUMP;
		s->has_syscall |=
			in.encoding == ENC_LEGACY &&
			((in.map == 1 && in.opcode == 0x05) || (in.map == 0 && in.opcode == 0xcd));
		frame += take_stack(code + at, &in, &one);
		r = append_step(s, &one);
		s->index[at] = (uint32_t)s->n;
	}
	s->n_own = s->n;
	s->frame_bytes = frame < MAX_FRAME_BYTES ? (uint32_t)frame : MAX_FRAME_BYTES;
	return r;
}

/* ---- the flow within the function ---- */

static bool is_jump(const struct step *one)
{
	return one->flow == FLOW_JUMP || one->flow == FLOW_BRANCH || one->flow == FLOW_OTHER_BRANCH;
}

static bool goes_on(const struct step *one)
{
	return one->flow != FLOW_JUMP && one->flow != FLOW_OTHER_JUMP && one->flow != FLOW_RET &&
	       one->flow != FLOW_STOP;
}

/* Notes the depth at an instruction. True: it was not known before. */
static bool meet_depth(struct step *to, int64_t depth)
{
	int64_t before = to->depth;

	if (before == DEPTH_UNSEEN)
		to->depth = depth;
	else if (before != depth)
		to->depth = DEPTH_UNKNOWN;
	return to->depth != before;
}

/* How deep the stack is at each instruction that can be reached from that one. */
static void take_depths(struct steps *s, size_t from, int64_t depth_there)
{
	size_t n = 0;

	if (from < s->n_own && meet_depth(&s->items[from], depth_there))
		s->stack[n++] = from;
	while (n) {
		const struct step *one = &s->items[s->stack[--n]];
		int64_t depth = one->depth;
		struct step *to;

		if (one->moves_stack || depth == DEPTH_UNKNOWN)
			depth = DEPTH_UNKNOWN;
		else
			depth = depth + one->push < 0 ? DEPTH_UNKNOWN : depth + one->push;
		to = is_jump(one) ? own_at(s, one->target) : NULL;
		if (to && meet_depth(to, depth))
			s->stack[n++] = (size_t)(to - s->items);
		to = goes_on(one) ? own_at(s, one->next) : NULL;
		if (to && meet_depth(to, depth))
			s->stack[n++] = (size_t)(to - s->items);
	}
}

/* Operations of an interpreter's loop are reached by indirect jumps alone, with the depth that all
 * of these have. Where they have not, nothing more is known. */
static void take_loop_depths(struct steps *s)
{
	int64_t depth = DEPTH_UNSEEN;
	bool is_start = false;

	for (size_t i = 0; i < s->n_own; i++) {
		const struct step *one = &s->items[i];

		if (one->flow != FLOW_OTHER_JUMP || one->depth == DEPTH_UNSEEN)
			continue;
		if (one->depth <= 0 || (depth != DEPTH_UNSEEN && one->depth != depth))
			return;
		depth = one->depth;
	}
	for (size_t i = 0; depth > 0 && i < s->n_own; i++) {
		const struct step *one = &s->items[i];

		if (one->is_nop)
			continue;
		if (is_start && one->depth == DEPTH_UNSEEN)
			take_depths(s, i, depth);
		is_start = !goes_on(one);
	}
}

/* A jump to outside where the stack pointer may be as at the entry: in place of a return. */
static bool is_tail_jump(const struct steps *s, const struct step *one)
{
	return one->flow == FLOW_JUMP && !is_own(s, one->target) && one->depth <= 0 &&
	       (one->depth != DEPTH_UNSEEN || s->has_other_jump);
}

/* The jumps back from the part apart that begins there. What follows it in the file are the
 * parts of other functions: these jump to theirs. */
static int take_apart(struct steps *s, int64_t from)
{
	size_t max = s->is_loop ? MAX_LOOP_APART_BYTES : MAX_APART_BYTES, n;
	GS_FREE uint8_t *code = malloc(max);
	struct insn in;
	int r = 0;

	if (!code)
		return -ENOMEM;
	n = s->around->read(s->around->ctx, from, code, max);
	for (size_t at = 0; r == 0 && at < n; at += in.length_bytes) {
		struct step one = {.at = from + (int64_t)at, .depth = DEPTH_UNKNOWN};

		if (is_own(s, one.at) || !gs_x86_insn_decode(code + at, n - at, &in))
			break;
		one.next = one.at + in.length_bytes;
		one.target = one.next + in.rel;
		one.condition = in.opcode & 15;
		one.flow = (uint8_t)flow_of(&in);
		if (is_jump(&one) && is_own(s, one.target))
			r = append_step(s, &one);
	}
	return r;
}

/* The first place from this one on that is jumped to from the function, and lies apart. */
static bool next_apart(const struct steps *s, int64_t from, int64_t *ret_at)
{
	bool found = false;

	for (size_t i = 0; i < s->n_own; i++) {
		const struct step *one = &s->items[i];

		if (!is_jump(one) || is_own(s, one->target) || is_tail_jump(s, one) ||
		    one->target < from || (found && one->target >= *ret_at))
			continue;
		*ret_at = one->target;
		found = true;
	}
	return found;
}

static int take_all_apart(struct steps *s)
{
	int64_t from = INT64_MIN;
	int r = 0;

	if (!s->around || !s->around->read)
		return 0;
	for (int k = 0; r == 0 && k < MAX_APARTS && next_apart(s, from, &from); k++) {
		r = take_apart(s, from);
		from += s->is_loop ? MAX_LOOP_APART_BYTES : MAX_APART_BYTES;
	}
	return r;
}

/* Jumps into the middle of an instruction, or several of the rare kind to one place: not clear. */
static void link_targets(struct steps *s)
{
	s->is_unclear = s->has_other_jump && !s->is_loop;
	for (size_t i = 0; i < s->n; i++) {
		const struct step *one = &s->items[i];
		struct step *to = own_at(s, one->target);

		if (!is_jump(one) || !is_own(s, one->target))
			continue;
		if (!to || (one->flow == FLOW_OTHER_BRANCH && to->other_from))
			s->is_unclear = true;
		else if (one->flow == FLOW_OTHER_BRANCH)
			to->other_from = i + 1;
	}
}

/* ---- the tails ---- */

struct trial {
	struct steps *s;
	size_t n_members, n_done; /* of s->members */
	unsigned n_calls;
};

static void join_paths(struct trial *t, struct step *one)
{
	if (one->in_trial)
		return;
	one->in_trial = true;
	t->s->members[t->n_members++] = (size_t)(one - t->s->items);
}

/* Who is called is asked only of calls that stand near a ret. */
static void settle_call(const struct steps *s, struct step *one)
{
	enum gs_callee callee = GS_CALLEE_WORK;

	if (one->flow != FLOW_CALL || !one->may_release)
		return;
	one->may_release = false;
	if (s->around && s->around->callee)
		callee = s->around->callee(s->around->ctx, one->target);
	if (callee == GS_CALLEE_RELEASE)
		one->flow = FLOW_RELEASE;
	else if (callee == GS_CALLEE_NO_RETURN)
		one->flow = FLOW_STOP;
}

/* What follows a member joins. False: it must not. */
static bool join_next(struct trial *t, struct step *one)
{
	struct step *to;

	settle_call(t->s, one);
	if (one->flow == FLOW_CALL || one->flow == FLOW_OTHER_JUMP)
		return false;
	if (one->flow == FLOW_RELEASE && ++t->n_calls > MAX_TAIL_CALLS)
		return false;
	if (is_jump(one)) {
		to = own_at(t->s, one->target);
		if (!to || one->target <= one->at)
			return false;
		join_paths(t, to);
	}
	if (goes_on(one)) {
		to = own_at(t->s, one->next);
		if (!to)
			return false;
		join_paths(t, to);
	}
	return true;
}

/* What leads to a member and cannot be probed joins. */
static bool join_before(struct trial *t, const struct step *one)
{
	struct steps *s = t->s;
	size_t i = (size_t)(one - s->items);

	if (i == 0)
		return false; /* the function begins here */
	settle_call(s, &s->items[i - 1]);
	if (goes_on(&s->items[i - 1]) && s->items[i - 1].flow != FLOW_BRANCH &&
	    s->items[i - 1].flow != FLOW_RELEASE)
		join_paths(t, &s->items[i - 1]);
	if (one->other_from > s->n_own)
		return false;
	if (one->other_from)
		join_paths(t, &s->items[one->other_from - 1]);
	return true;
}

/* The smallest part of the function that holds the ret, is not left again, and is entered by what
 * can be probed. Each of its members is one of every such part, so when one must not be a member
 * there is none. */
static void find_tail(struct steps *s, struct step *ret)
{
	struct trial t = {.s = s};
	bool found = true;

	join_paths(&t, ret);
	while (found && t.n_done < t.n_members) {
		struct step *one = &s->items[s->members[t.n_done++]];

		found = t.n_members <= MAX_TAIL_STEPS && join_next(&t, one) && join_before(&t, one);
	}
	for (size_t i = 0; i < t.n_members; i++) {
		s->items[s->members[i]].in_trial = false;
		s->items[s->members[i]].in_tail |= found;
	}
}

/* ---- the ways out ---- */

static bool is_in_tail(const struct steps *s, int64_t offset)
{
	const struct step *one = own_at(s, offset);

	return one && one->in_tail;
}

/* False: not a way out. */
static bool exit_of(const struct steps *s, size_t i, struct gs_exit *ret_exit)
{
	const struct step *one = &s->items[i];
	struct gs_exit exit = {.offset_bytes = one->at,
			       .frame_bytes = s->frame_bytes,
			       .depth_bytes = one->depth >= 0 ? (int32_t)one->depth : -1};
	bool target = is_in_tail(s, one->target), next = i < s->n_own && is_in_tail(s, one->next);

	if (one->in_tail)
		return false;
	switch (one->flow) {
	case FLOW_RET:
		exit.frame_bytes = 0;
		exit.is_stepped = true;
		exit.when_taken = exit.when_not_taken = true;
		break;
	case FLOW_JUMP:
		if (i < s->n_own && is_tail_jump(s, one)) {
			exit.frame_bytes = 0;
			target = true;
		}
		exit.when_taken = exit.when_not_taken = target;
		break;
	case FLOW_RELEASE:
		exit.when_taken = exit.when_not_taken = next;
		break;
	case FLOW_BRANCH:
		exit.condition = one->condition;
		exit.when_taken = target;
		exit.when_not_taken = next;
		break;
	}
	*ret_exit = exit;
	return exit.when_taken || exit.when_not_taken;
}

static int take_steps(struct steps *s, const uint8_t *code)
{
	int r = take_own(s, code);

	if (r < 0)
		return r;
	s->stack = calloc(s->n * 2 + 1, sizeof(*s->stack));
	s->members = calloc(s->n + 1, sizeof(*s->members));
	if (!s->stack || !s->members)
		return -ENOMEM;
	take_depths(s, 0, 0);
	if (s->is_loop)
		take_loop_depths(s);
	r = take_all_apart(s);
	link_targets(s);
	return r;
}

int gs_x86_find_exits(const uint8_t *code, size_t bytes, const struct gs_exit_around *around,
		      struct gs_exit *ret_exits, size_t max)
{
	GS_CLEANUP(steps_fini)
	struct steps s = {.bytes = bytes, .around = around, .is_loop = around && around->is_loop};
	struct gs_exit exit;
	size_t n = 0;
	int r = take_steps(&s, code);

	if (r < 0)
		return r;
	for (size_t i = 0; i < s.n_own && !s.is_unclear; i++)
		if (s.items[i].flow == FLOW_RET && !s.items[i].in_tail)
			find_tail(&s, &s.items[i]);
	for (size_t i = 0; i < s.n; i++) {
		if (!exit_of(&s, i, &exit))
			continue;
		if (n == max)
			return -E2BIG;
		ret_exits[n++] = exit;
	}
	return n ? (int)n : -EILSEQ;
}

static void add_tail(struct gs_returns *found, int64_t target)
{
	for (unsigned i = 0; i < found->n_tails && i < GS_TAILS_MAX; i++)
		if (found->tails[i] == target)
			return;
	if (found->n_tails < GS_TAILS_MAX)
		found->tails[found->n_tails] = target;
	found->n_tails++;
}

int gs_x86_find_returns(const uint8_t *code, size_t bytes, struct gs_exit *ret_exits, size_t max,
			struct gs_returns *ret_returns)
{
	GS_CLEANUP(steps_fini) struct steps s = {.bytes = bytes};
	struct gs_returns found = {.indirect_jump = -1};
	unsigned n_jumps = 0;
	size_t n = 0;
	int r = take_steps(&s, code);

	found.alone = !s.has_syscall && !s.has_other_jump;
	for (size_t i = 0; r == 0 && i < s.n_own; i++) {
		const struct step *one = &s.items[i];
		/* With the stack as at the entry it is no switch within. */
		bool indirect = one->flow == FLOW_OTHER_JUMP && one->depth <= 0;
		bool tail = is_tail_jump(&s, one);

		found.calls |= one->flow == FLOW_CALL;
		found.alone &=
			one->flow != FLOW_CALL && !(is_jump(one) && !is_own(&s, one->target));
		n_jumps += indirect || tail;
		if (tail)
			add_tail(&found, one->target);
		if (indirect)
			found.indirect_jump = one->at;
		if (one->flow != FLOW_RET)
			continue;
		if (n == max)
			return -E2BIG;
		(void)exit_of(&s, i, &ret_exits[n++]);
	}
	if (r < 0)
		return r;
	found.jumps = n_jumps > 0;
	if (n_jumps > 1)
		found.indirect_jump = -1;
	*ret_returns = found;
	return n || n_jumps ? (int)n : -EILSEQ;
}
