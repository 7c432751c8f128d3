/*
 * Rows of the table that the kernel's program for described probes follows. Of a function they are
 * as the description says. A static probe has its arguments wherever the compiler had them: the
 * place of each is in the site's note, and what the description follows from there comes
 * after it.
 */
#include "sources/elf/usdt_row.h"

#include <stdio.h>
#include <string.h>

#include "model/trace/record_stack.h"

/* The value of a site's argument: where it is, and as wide as it is. */
static const char *place_arg(struct gs_user_value *v, const struct gs_usdt_arg *a)
{
	bool follows = v->n_chain || v->value_type == GS_VALUE_STR;

	if (follows && a->bytes != 8)
		return "is not a pointer";
	if (a->place == GS_USDT_MEMORY && (a->value > INT32_MAX || a->value < INT32_MIN))
		return "is at an address that is out of range";
	v->from = a->place == GS_USDT_CONSTANT ? GS_FROM_CONSTANT : GS_FROM_REGISTER;
	v->reg = a->reg == GS_USDT_NO_REG ? GS_USER_NONE : a->reg;
	v->index_reg = a->index_reg == GS_USDT_NO_REG ? GS_USER_NONE : a->index_reg;
	v->index_shift = a->scale_shift;
	v->shift = a->shift;
	v->add = a->place == GS_USDT_CONSTANT ? a->value : 0;
	if (!follows && a->bytes < v->bytes) {
		v->bytes = a->bytes;
		v->is_signed = a->is_signed;
	}
	if (a->place == GS_USDT_MEMORY) {
		memmove(v->chain + 1, v->chain, sizeof(v->chain) - sizeof(v->chain[0]));
		v->chain[0] = (int32_t)a->value;
		v->n_chain++;
	}
	return NULL;
}

/* A static probe whose arguments were not described: all of them, as its notes list them. */
static void add_all_args(const struct gs_usdt_site *site, struct gs_user_row *row,
			 struct gs_user_name *names)
{
	for (unsigned i = 0; i < site->n_args && i < GS_USER_VALUE_MAX; i++) {
		const struct gs_usdt_arg *a = &site->args[i];
		uint8_t type = a->is_signed ? GS_VALUE_I64 : GS_VALUE_U64;
		struct gs_user_value *v = &row->values[i];

		*v = (struct gs_user_value){.value_type = type,
					    .bytes = a->bytes,
					    .is_signed = a->is_signed,
					    .text = GS_USER_NONE};
		if (place_arg(v, a) != NULL)
			return;
		names[i] = (struct gs_user_name){.value_type = type};
		snprintf(names[i].name, sizeof(names[i].name), "arg%u", i + 1);
		row->n_values++;
	}
}

const char *gs_usdt_row(const struct gs_user_spec *spec, const struct gs_usdt_site *site,
			struct gs_user_row *row, struct gs_user_name *names, char *why,
			size_t bytes)
{
	*row = spec->row;
	memcpy(names, spec->names, sizeof(spec->names));
	if (!site)
		return NULL;
	for (unsigned i = 0; i < row->n_values; i++) {
		unsigned arg = spec->starts[i].arg;
		const char *wrong;

		if (arg > site->n_args) {
			snprintf(why, bytes, "it has %u argument%s%s%s, not arg%u", site->n_args,
				 site->n_args == 1 ? "" : "s",
				 site->bad_arg ? " that can be read; the next is " : "",
				 site->bad_arg ? site->bad_arg : "", arg);
			return why;
		}
		wrong = place_arg(&row->values[i], &site->args[arg - 1]);
		if (wrong) {
			snprintf(why, bytes, "arg%u %s", arg, wrong);
			return why;
		}
	}
	if (!row->n_values)
		add_all_args(site, row, names);
	return NULL;
}
