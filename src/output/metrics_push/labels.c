/* Labels for every series, as a person writes them: cluster=alpha,rack=r3. */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "output/metrics_push/push.h"

/* What Prometheus takes as a name; names that begin with "__" are its own. */
static bool is_name(const char *s, size_t n)
{
	if (n == 0 || n >= GS_PUSH_LABEL_NAME_BYTES || isdigit((unsigned char)*s) ||
	    (n > 1 && s[0] == '_' && s[1] == '_'))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)s[i]) && s[i] != '_')
			return false;
	return true;
}

static bool is_value(const char *s, size_t n)
{
	if (n == 0 || n >= GS_PUSH_LABEL_VALUE_BYTES)
		return false;
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)s[i] < ' ' || s[i] == '"' || s[i] == '=' || s[i] == 0x7f)
			return false;
	return true;
}

static bool is_taken(const struct gs_push_options *o, const char *name, size_t n)
{
	for (size_t i = 0; i < o->n_labels; i++)
		if (strlen(o->label_name[i]) == n && memcmp(o->label_name[i], name, n) == 0)
			return true;
	return false;
}

int gs_push_labels_add(char *text, struct gs_push_options *options)
{
	char *at = text;

	while (*at) {
		size_t n = strcspn(at, ","), name;
		char *next = at + n + (at[n] == ',');

		if (at[n] == ',' && !*next)
			return -EINVAL;
		while (n && *at == ' ')
			at++, n--;
		while (n && at[n - 1] == ' ')
			n--;
		name = strcspn(at, "=");
		if (name >= n || !is_name(at, name) || !is_value(at + name + 1, n - name - 1) ||
		    is_taken(options, at, name) || options->n_labels == GS_PUSH_LABELS_MAX)
			return -EINVAL;
		at[name] = at[n] = 0;
		options->label_name[options->n_labels] = at;
		options->label_value[options->n_labels++] = at + name + 1;
		at = next;
	}
	return 0;
}

bool gs_push_labels_valid(const char *text)
{
	struct gs_push_options o = {.label_name = {"job", "instance"}, .n_labels = 2};
	char copy[GS_PUSH_LABELS_BYTES];

	if (strlen(text) >= sizeof(copy))
		return false;
	strcpy(copy, text);
	return gs_push_labels_add(copy, &o) == 0;
}
