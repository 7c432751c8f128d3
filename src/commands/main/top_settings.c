/*
 * What the setup screen of `gpuscope top` keeps: $XDG_CONFIG_HOME/gpuscope/top.yaml, or
 * ~/.config/gpuscope/top.yaml. A file that is not there is no mistake; one that cannot be read is
 * reported, and top begins as without it.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands/common/cli.h"
#include "commands/main/top.h"
#include "core/base/conf.h"
#include "core/base/folder.h"
#include "core/base/output.h"

struct top_kept {
	int theme;
	char hide[GS_TUI_TITLES_BYTES], hide_jobs[GS_TUI_TITLES_BYTES];
};

static const char *const theme_names[] = {"dark", "light", "mono", NULL};

#define KEY(name, kind, member, preset, comment)                                                   \
	name, kind, offsetof(struct top_kept, member), preset, comment

static const struct gs_conf_key keys[] = {
	{KEY("theme", GS_CONF_CHOICE, theme, "dark", "dark, light or mono"),
	 .choices = theme_names},
	{KEY("hide", GS_CONF_LIST, hide, "", "columns of processes that are not shown"),
	 .bytes = GS_TUI_TITLES_BYTES},
	{KEY("hide_jobs", GS_CONF_LIST, hide_jobs, "", "columns of jobs that are not shown"),
	 .bytes = GS_TUI_TITLES_BYTES},
};
static const struct gs_conf_section sections[] = {{"top", "", 0, keys, GS_ARRAY_LEN(keys)}};
static const struct gs_conf_schema schema = {
	.comment = "",
	.bytes = sizeof(struct top_kept),
	.sections = sections,
	.n_sections = GS_ARRAY_LEN(sections),
};

static bool settings_path(char *out, size_t bytes)
{
	char folder[256];
	int n;

	if (!gs_folder_config(folder, sizeof(folder)))
		return false;
	n = snprintf(out, bytes, "%s/top.yaml", folder);
	return n > 0 && (size_t)n < bytes;
}

void top_settings_read(struct gs_tui_options *o)
{
	struct gs_err err = {{0}};
	struct top_kept kept;
	char path[320];
	int r;

	if (!settings_path(path, sizeof(path)))
		return;
	r = gs_conf_load(&schema, path, &kept, NULL, &err);
	if (r == -ENOENT)
		return;
	if (r < 0) {
		gs_cli_print_message("%s; starting without it", gs_err_text(&err, r));
		return;
	}
	o->theme = (enum gs_tui_theme)kept.theme;
	snprintf(o->hidden, sizeof(o->hidden), "%s", kept.hide);
	snprintf(o->hidden_jobs, sizeof(o->hidden_jobs), "%s", kept.hide_jobs);
}

/* "[A, B]": titles may have a '%', and hold no quotes. */
static void put_titles(FILE *f, const char *key, const char *titles)
{
	fprintf(f, "  %s: [", key);
	for (const char *p = titles; *p; p += strcspn(p, ","), p += *p == ',') {
		fputs(p == titles ? "\"" : ", \"", f);
		fwrite(p, 1, strcspn(p, ","), f);
		fputc('"', f);
	}
	fprintf(f, "]\n");
}

static void make_folders(char *path)
{
	for (char *p = path + 1; *p; p++)
		if (*p == '/') {
			*p = 0;
			(void)mkdir(path, 0755);
			*p = '/';
		}
}

/* The folder of the file, or the nearest one above it that is there. */
static bool find_folder(const char *path, struct stat *ret)
{
	char folder[320];

	snprintf(folder, sizeof(folder), "%s", path);
	for (char *slash = strrchr(folder, '/'); slash; slash = strrchr(folder, '/')) {
		*slash = 0;
		if (stat(folder[0] ? folder : "/", ret) == 0)
			return true;
	}
	return false;
}

static bool take_files_of(uid_t uid, gid_t gid)
{
	(void)setfsgid(gid);
	(void)setfsuid(uid);
	/* Neither says whether it failed: asking for no id gives the one there is. */
	return (uid_t)setfsuid((uid_t)-1) == uid && (gid_t)setfsgid((gid_t)-1) == gid;
}

static int write_settings(char *path, const struct gs_tui_options *now, struct gs_err *err)
{
	struct gs_output out = GS_OUTPUT_INIT;
	FILE *f;
	int r;

	make_folders(path);
	r = gs_output_open(path, 0, &out, err);
	if (r < 0)
		return r;
	f = gs_output_stream(&out);
	if (!f)
		return gs_output_close(&out, -ENOMEM, err);
	fprintf(f, "# Written by F2 of gpuscope top.\ntop:\n  theme: %s\n",
		theme_names[now->theme]);
	put_titles(f, "hide", now->hidden);
	put_titles(f, "hide_jobs", now->hidden_jobs);
	return gs_output_close(&out, ferror(f) ? -EIO : 0, err);
}

/* `sudo -E` leaves a user's HOME: what root writes there must be the user's, who writes there next,
 * and must go where the user may write. This thread alone changes whose files it makes. */
int top_settings_save(void *ctx, const struct gs_tui_options *now, struct gs_err *err)
{
	char path[320];
	struct stat st;
	int r;

	(void)ctx;
	if (!settings_path(path, sizeof(path)))
		return gs_err_set(err, -ENOENT, "no home folder: set HOME or XDG_CONFIG_HOME");
	if (geteuid() != 0 || !find_folder(path, &st) || st.st_uid == 0)
		return write_settings(path, now, err);
	r = take_files_of(st.st_uid, st.st_gid)
		    ? write_settings(path, now, err)
		    : gs_err_set(
			      err, -EPERM,
			      "%s belongs to user %u, and this process may not write as that user",
			      path, (unsigned)st.st_uid);
	(void)take_files_of(0, getegid());
	return r;
}
