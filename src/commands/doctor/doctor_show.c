/* Prints the answers, worst first: as text, which fits on one screen for a machine without faults, or as JSON or YAML. */
#include <string.h>
#include <unistd.h>

#include "commands/doctor/doctor_int.h"
#include "core/base/mem.h"
#include "core/text/doc.h"

#define GROUP_COLUMNS 12 /* "  libraries " */

static const struct {
	enum gs_doctor_state state;
	const char *title, *count; /* heading of the section; word in the first line */
} sections[] = {
	{GS_DOCTOR_FAILS, "fails", "fail"},
	{GS_DOCTOR_LIMITED, "limited: gpuscope runs, with these effects", "limited"},
	{GS_DOCTOR_NOT_ASKED, "not checked: not permitted, or not shown by this machine",
	 "not checked"},
	{GS_DOCTOR_WORKS, "works", "work"},
	{GS_DOCTOR_NOT_NEEDED, "not needed here", "not needed"},
};

static unsigned count_state(const struct gs_doctor *d, enum gs_doctor_state state)
{
	const struct gs_doctor_answer *a;
	unsigned n = 0;

	for (size_t i = 0; (a = gs_doctor_at(d, i)); i++)
		n += a->state == state;
	return n;
}

/* --- text --- */

/* Prints text from this column on; further lines are indented to it. */
static void put_wrapped(struct gs_pen *pen, const char *text, size_t at, size_t width)
{
	size_t column = at;

	while (*text) {
		size_t n = strcspn(text, " "), blanks = strspn(text + n, " ");

		if (width && column > at && column + 1 + n > width) {
			gs_pen_printf(pen, "\n%*s", (int)at, "");
			column = at;
		} else if (column > at) {
			gs_pen_puts(pen, " ");
			column++;
		}
		gs_pen_printf(pen, "%.*s", (int)n, text);
		column += n;
		text += n + blanks;
	}
	gs_pen_puts(pen, "\n");
}

static void put_labelled(struct gs_pen *pen, const char *label, const char *text, size_t width)
{
	int n;

	if (!*text)
		return;
	n = GROUP_COLUMNS + (int)strlen(label) + 1;
	gs_pen_printf(pen, "%*s%s ", GROUP_COLUMNS, "", label);
	/* A command stays on one line, so that it can be copied. */
	put_wrapped(pen, text, (size_t)n, strcmp(label, "do:") == 0 ? 0 : width);
}

static void put_answer(struct gs_pen *pen, const struct gs_doctor_answer *a, size_t width)
{
	char line[sizeof(a->name) + sizeof(a->found) + 4];

	snprintf(line, sizeof(line), "%s%s%s", a->name, a->found[0] ? ": " : "", a->found);
	gs_pen_printf(pen, "  %-*s", GROUP_COLUMNS - 2, gs_doctor_group_name(a->group));
	put_wrapped(pen, line, GROUP_COLUMNS, width);
	put_labelled(pen, "effect:", a->without, width);
	put_labelled(pen, "do:", a->mend, width);
}

/* Prints only the names of a group's answers, in one entry. */
static void put_names(const struct gs_doctor *d, struct gs_pen *pen, enum gs_doctor_state state,
		      enum gs_doctor_group group, size_t width)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf names = GS_BUF_INIT(1 << 16);
	const struct gs_doctor_answer *a;

	for (size_t i = 0; (a = gs_doctor_at(d, i)); i++)
		if (a->group == group && a->state == state)
			gs_pen_check(pen, gs_buf_printf(&names, "%s%s", names.bytes ? ", " : "",
							a->name));
	if (!names.bytes)
		return;
	gs_pen_check(pen, gs_buf_put(&names, "", 1));
	gs_pen_printf(pen, "  %-*s", GROUP_COLUMNS - 2, gs_doctor_group_name(group));
	put_wrapped(pen, names.data ? (char *)names.data : "", GROUP_COLUMNS, width);
}

static void put_section(const struct gs_doctor *d, struct gs_pen *pen,
			const struct doctor_style *style, enum gs_doctor_state state)
{
	const struct gs_doctor_answer *a;

	/* The program comes before the machine. */
	for (unsigned k = 0; k < GS_DOCTOR_GROUPS; k++) {
		enum gs_doctor_group group = (k + GS_DOCTOR_PROGRAM) % GS_DOCTOR_GROUPS;

		if (!style->is_verbose && state < GS_DOCTOR_LIMITED && group != GS_DOCTOR_PROGRAM) {
			put_names(d, pen, state, group, style->width);
			continue;
		}
		for (size_t i = 0; (a = gs_doctor_at(d, i)); i++)
			if (a->state == state && a->group == group)
				put_answer(pen, a, style->width);
	}
}

static void put_text(const struct gs_doctor *d, struct gs_pen *pen,
		     const struct doctor_style *style)
{
	char host[65] = "";
	bool is_first = true;

	gethostname(host, sizeof(host) - 1);
	gs_pen_printf(pen, "gpuscope " GS_VERSION " on %s, as user %u:", host, (unsigned)geteuid());
	for (size_t i = 0; i < GS_ARRAY_LEN(sections); i++) {
		unsigned n = count_state(d, sections[i].state);

		if (!n)
			continue;
		gs_pen_printf(pen, "%s %u %s", is_first ? "" : ",", n, sections[i].count);
		is_first = false;
	}
	gs_pen_puts(pen, "\n");
	for (size_t i = 0; i < GS_ARRAY_LEN(sections); i++) {
		if (!count_state(d, sections[i].state))
			continue;
		gs_pen_printf(pen, "%s\n", sections[i].title);
		put_section(d, pen, style, sections[i].state);
	}
}

/* --- documents --- */

static void put_document(const struct gs_doctor *d, struct gs_doc *doc)
{
	const struct gs_doctor_answer *a;

	gs_doc_begin_map(doc, NULL);
	gs_doc_put_version(doc);
	gs_doc_put_text(doc, "gpuscope", GS_VERSION);
	gs_doc_put_u64(doc, "user_id", geteuid());
	gs_doc_put_bool(doc, "works", !count_state(d, GS_DOCTOR_FAILS));
	gs_doc_begin_list(doc, "answers", gs_doctor_at(d, 0) != NULL);
	for (size_t i = 0; (a = gs_doctor_at(d, i)); i++) {
		gs_doc_begin_map(doc, NULL);
		gs_doc_put_text(doc, "group", gs_doctor_group_name(a->group));
		gs_doc_put_text(doc, "name", a->name);
		gs_doc_put_text(doc, "state", gs_doctor_state_name(a->state));
		gs_doc_put_text(doc, "found", a->found);
		gs_doc_put_text(doc, "effect", a->without);
		gs_doc_put_text(doc, "do", a->mend);
		gs_doc_end(doc);
	}
	gs_doc_end(doc);
	gs_doc_end(doc);
	if (doc->ops == &gs_doc_json)
		gs_pen_puts(doc->pen, "\n");
}

int doctor_show(const struct gs_doctor *d, const struct doctor_style *style, FILE *out)
{
	struct gs_pen pen;
	struct gs_doc doc = {.ops = style->format == DOCTOR_YAML ? &gs_doc_yaml : &gs_doc_json,
			     .pen = &pen};

	gs_pen_open(&pen, out);
	if (style->format == DOCTOR_TABLE)
		put_text(d, &pen, style);
	else
		put_document(d, &doc);
	return gs_pen_close(&pen);
}
