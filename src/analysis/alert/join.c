/* One cause on many GPUs of a node is one message. */
#include "analysis/alert/alert.h"

#include <stdio.h>
#include <string.h>

static const char *label_of(const struct gs_alert_message *m, const char *name)
{
	for (size_t i = 0; i < m->n_labels; i++)
		if (strcmp(m->label[i].name, name) == 0)
			return m->label[i].value;
	return "";
}

/* Of one from before a restart the GPU's number is not known any more. */
static bool is_same_alert(const struct gs_alert_message *a, const struct gs_alert_message *b)
{
	return a->kind == GS_ALERT_GPU && b->kind == GS_ALERT_GPU && a->event == b->event &&
	       strcmp(a->rule, b->rule) == 0 && strcmp(a->cause, b->cause) == 0 &&
	       label_of(a, "gpu")[0] && label_of(b, "gpu")[0];
}

/* What is true of all of them. */
static void keep_labels(struct gs_alert_message *to, const struct gs_alert_message *m)
{
	size_t n = 0;

	for (size_t i = 0; i < to->n_labels; i++)
		if (strcmp(label_of(m, to->label[i].name), to->label[i].value) == 0)
			to->label[n++] = to->label[i];
	to->n_labels = n;
}

static void add_member(struct gs_alert_message *to, const struct gs_alert_message *m)
{
	struct gs_alert_member *x = &to->member[to->n_members++];
	size_t n = strlen(to->title);

	snprintf(x->id, sizeof(x->id), "%s", m->id);
	snprintf(x->key, sizeof(x->key), "%s", m->key);
	snprintf(to->title + n, sizeof(to->title) - n, "%s%.8s", n ? ", " : "", label_of(m, "gpu"));
}

void gs_alert_join(const struct gs_alert_message *m, size_t n, bool *taken,
		   struct gs_alert_message *ret)
{
	char gpus[sizeof(ret->title)];
	size_t first = 0, bytes;

	while (first + 1 < n && taken[first])
		first++;
	*ret = m[first];
	taken[first] = true;
	ret->title[0] = '\0';
	ret->n_members = 0;
	add_member(ret, &m[first]);
	for (size_t i = first + 1; i < n && ret->n_members < GS_ALERT_MEMBERS_MAX; i++)
		if (!taken[i] && is_same_alert(&m[first], &m[i])) {
			taken[i] = true;
			keep_labels(ret, &m[i]);
			add_member(ret, &m[i]);
		}
	if (ret->n_members == 1) {
		*ret = m[first];
		return;
	}
	memcpy(gpus, ret->title, sizeof(gpus));
	snprintf(ret->title, sizeof(ret->title), "%zu GPUs (%.140s)", ret->n_members, gpus);
	bytes = strlen(ret->text);
	snprintf(ret->text + bytes, sizeof(ret->text) - bytes, " (GPU %s)",
		 label_of(&m[first], "gpu"));
}
