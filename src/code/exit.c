#include "code/exit.h"

#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"
#include "code/insn.h"

#define MAX_FRAME_BYTES 65528u

enum flow {
	FLOW_ON,
	FLOW_JUMP,       /* relative, always */
	FLOW_BRANCH,     /* relative, by condition */
	FLOW_OTHER_JUMP, /* of which one cannot tell where it leads */
	FLOW_OTHER_BRANCH /* loop, jrcxz, or a form that must not be probed */,
	FLOW_CALL,
	FLOW_RET,
	FLOW_STOP, /* ud2, hlt: does not go on */
};

struct step {
	uint32_t at;
	uint8_t flow; /* enum flow */
	uint8_t condition;
	int64_t target; /* of JUMP, BRANCH and OTHER_BRANCH */
	bool bare;      /* the stack pointer may be as at the entry */
};

struct steps {
	struct step *items; /* owned */
	size_t n;
	bool has_other_jump;
	uint32_t frame_bytes;
};

static void steps_fini(struct steps *s)
{
	free(s->items);
}

static enum flow flow_of(const struct insn *in)
{
	if (in->encoding != ENC_LEGACY)
		return FLOW_ON;
	if (in->map == 1) {
		if ((in->opcode & 0xf0) == 0x80)
			return gs_insn_refusal(in) ? FLOW_OTHER_BRANCH : FLOW_BRANCH;
		return in->opcode == 0x0b ? FLOW_STOP : FLOW_ON;
	}
	if (in->map != 0)
		return FLOW_ON;
	if ((in->opcode & 0xf0) == 0x70)
		return gs_insn_refusal(in) ? FLOW_OTHER_BRANCH : FLOW_BRANCH;
	if (in->opcode >= 0xe0 && in->opcode <= 0xe3)
		return FLOW_OTHER_BRANCH;
	switch (in->opcode) {
	case 0xe8:
		return FLOW_CALL;
	case 0xe9:
	case 0xeb:
		return gs_insn_refusal(in) ? FLOW_OTHER_BRANCH : FLOW_JUMP;
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

static bool is_on_rsp(const struct insn *in, unsigned group)
{
	return in->map == 0 && in->encoding == ENC_LEGACY &&
	       (in->opcode == 0x81 || in->opcode == 0x83) && in->mod == 3 && in->group == group &&
	       in->rm == 4;
}

static bool is_push(const struct insn *in)
{
	return in->map == 0 && in->encoding == ENC_LEGACY && (in->opcode & 0xf8) == 0x50;
}

/* pop, leave, add to rsp: behind it the stack pointer may be as at the entry. */
static bool ends_frame(const struct insn *in)
{
	return is_on_rsp(in, 0) || (in->map == 0 && in->encoding == ENC_LEGACY &&
				    ((in->opcode & 0xf8) == 0x58 || in->opcode == 0xc9));
}

/* What the instruction, a sub from rsp, subtracts. */
static uint32_t frame_of_sub(const uint8_t *code, const struct insn *in)
{
	const uint8_t *end = code + in->length_bytes;

	if (in->opcode == 0x83)
		return end[-1] < 128 ? end[-1] : 128;
	return (uint32_t)end[-4] | (uint32_t)end[-3] << 8 | (uint32_t)end[-2] << 16 |
	       (uint32_t)end[-1] << 24;
}

static int take_steps(const uint8_t *code, size_t bytes, struct steps *s)
{
	uint64_t frame = 8;
	bool bare = true;
	struct insn in;

	s->items = calloc(bytes, sizeof(*s->items));
	if (!s->items)
		return -ENOMEM;
	for (size_t at = 0; at < bytes; at += in.length_bytes) {
		struct step *one = &s->items[s->n++];

		if (!gs_insn_decode(code + at, bytes - at, &in))
			return -EILSEQ;
		/* A ret that drops arguments is of no function of this ABI. */
		if (in.map == 0 && in.encoding == ENC_LEGACY && in.opcode == 0xc2)
			return -EILSEQ;
		*one = (struct step){.at = (uint32_t)at,
				     .flow = (uint8_t)flow_of(&in),
				     .condition = in.opcode & 15,
				     .target = (int64_t)at + in.length_bytes + in.rel,
				     .bare = bare};
		s->has_other_jump |= one->flow == FLOW_OTHER_JUMP;
		if (is_push(&in) || is_on_rsp(&in, 5)) {
			bare = false;
			frame += is_push(&in) ? 8 : frame_of_sub(code + at, &in);
		} else if (ends_frame(&in)) {
			bare = true;
		}
	}
	s->frame_bytes = frame < MAX_FRAME_BYTES ? (uint32_t)frame : MAX_FRAME_BYTES;
	return 0;
}

struct exits {
	struct gs_exit *items;
	size_t n, max;
};

/* An instruction may be a way out on both of its sides. */
static int add(struct exits *x, const struct gs_exit *exit)
{
	for (size_t i = 0; i < x->n; i++) {
		if (x->items[i].offset_bytes != exit->offset_bytes)
			continue;
		x->items[i].when_taken |= exit->when_taken;
		x->items[i].when_not_taken |= exit->when_not_taken;
		return 0;
	}
	if (x->n == x->max)
		return -E2BIG;
	x->items[x->n++] = *exit;
	return 0;
}

/* Leads the step into (from, to]? */
static bool leads_into(const struct step *one, int64_t from, int64_t to)
{
	return (one->flow == FLOW_JUMP || one->flow == FLOW_BRANCH ||
		one->flow == FLOW_OTHER_BRANCH) &&
	       one->target > from && one->target <= to;
}

/* The block that ends with ret number r: every way into it is one that can be probed cheaply. */
static bool block_has_gates(const struct steps *s, size_t first, size_t r)
{
	enum flow before = first ? s->items[first - 1].flow : FLOW_CALL;
	int64_t from = (int64_t)s->items[first].at - 1, to = s->items[r].at;

	if (s->has_other_jump || before == FLOW_CALL || before == FLOW_OTHER_BRANCH)
		return false;
	for (size_t i = 0; i < s->n; i++)
		if (s->items[i].flow == FLOW_OTHER_BRANCH && leads_into(&s->items[i], from, to))
			return false;
	return true;
}

static int add_return(const struct steps *s, size_t r, struct exits *x)
{
	struct gs_exit ret = {.offset_bytes = s->items[r].at,
			      .when_taken = true,
			      .when_not_taken = true,
			      .is_stepped = true};
	size_t first = r;
	int64_t from, to = s->items[r].at;
	int e = 0;

	while (first > 0 && s->items[first - 1].flow == FLOW_ON)
		first--;
	if (!block_has_gates(s, first, r))
		return add(x, &ret);
	from = (int64_t)s->items[first].at - 1;
	if (s->items[first - 1].flow == FLOW_BRANCH)
		e = add(x, &(struct gs_exit){.offset_bytes = s->items[first - 1].at,
					     .frame_bytes = s->frame_bytes,
					     .condition = s->items[first - 1].condition,
					     .when_not_taken = true});
	for (size_t i = 0; e == 0 && i < s->n; i++) {
		const struct step *one = &s->items[i];

		if (leads_into(one, from, to))
			e = add(x, &(struct gs_exit){.offset_bytes = one->at,
						     .frame_bytes = s->frame_bytes,
						     .condition = one->condition,
						     .when_taken = true,
						     .when_not_taken = one->flow == FLOW_JUMP});
	}
	return e;
}

int gs_exits_x86_64(const uint8_t *code, size_t bytes, struct gs_exit *ret_exits, size_t max)
{
	GS_CLEANUP(steps_fini) struct steps s = {0};
	struct exits x = {.items = ret_exits, .max = max};
	int r = take_steps(code, bytes, &s);

	for (size_t i = 0; r == 0 && i < s.n; i++) {
		const struct step *one = &s.items[i];

		if (one->flow == FLOW_RET)
			r = add_return(&s, i, &x);
		else if (one->flow == FLOW_JUMP && one->bare &&
			 (one->target < 0 || one->target >= (int64_t)bytes))
			r = add(&x, &(struct gs_exit){.offset_bytes = one->at,
						      .when_taken = true,
						      .when_not_taken = true});
	}
	if (r < 0)
		return r;
	return x.n ? (int)x.n : -EILSEQ;
}
