/* Texts of /proc that say what device numbers are. */
#include "sources/taskstats/taskstats_int.h"

#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"

size_t taskstats_gpu_majors(const char *text, uint32_t *majors, size_t max)
{
	/* NVIDIA's, the kernel's own of AMD (compute), and the nodes of NVSwitches. */
	static const char *const names[] = {"nvidia", "kfd"};
	size_t n = 0;

	while (text && *text) {
		const char *end = strchrnul(text, '\n');
		unsigned major;
		char name[64];

		if (strncmp(text, "Block", 5) == 0)
			break;
		if (sscanf(text, "%u %63[^\n ]", &major, name) == 2) {
			for (size_t i = 0; i < GS_ARRAY_LEN(names) && n < max; i++) {
				if (strncmp(name, names[i], strlen(names[i])) == 0)
					majors[n++] = major;
			}
		}
		text = *end ? end + 1 : end;
	}
	return n;
}

static bool is_octal(char c)
{
	return c >= '0' && c <= '7';
}

/* Blanks and the like in paths stand as \040 (proc(5)). */
static void copy_word(char *out, size_t bytes, const char *word, const char *end)
{
	size_t n = 0;

	while (word < end && n + 1 < bytes) {
		if (word[0] == '\\' && end - word >= 4 && is_octal(word[1]) && is_octal(word[2]) &&
		    is_octal(word[3])) {
			out[n++] = (char)((word[1] - '0') << 6 | (word[2] - '0') << 3 |
					  (word[3] - '0'));
			word += 4;
		} else {
			out[n++] = *word++;
		}
	}
	out[n] = '\0';
}

/* The next word of the line at *at, which moves after it; NULL at the end. */
static const char *next_word(const char **at, const char **ret_end)
{
	const char *p = *at + strspn(*at, " ");
	size_t n = strcspn(p, " \n");

	*at = *ret_end = p + n;
	return n ? p : NULL;
}

bool taskstats_mount_line(const char *line, struct taskstats_mount *ret, bool *ret_whole)
{
	const char *at = line, *end, *word[5], *ends[5];

	*ret = (struct taskstats_mount){0};
	for (int i = 0; i < 5; i++) {
		word[i] = next_word(&at, &ends[i]);
		if (!word[i])
			return false;
	}
	if (sscanf(word[2], "%u:%u", &ret->major, &ret->minor) != 2)
		return false;
	*ret_whole = ends[3] - word[3] == 1 && *word[3] == '/';
	copy_word(ret->path, sizeof(ret->path), word[4], ends[4]);
	/* Optional fields end with a dash; the type follows. */
	for (;;) {
		const char *w = next_word(&at, &end);

		if (!w)
			return false;
		if (end - w == 1 && *w == '-')
			break;
	}
	word[0] = next_word(&at, &end);
	if (!word[0])
		return false;
	copy_word(ret->type, sizeof(ret->type), word[0], end);
	return true;
}
