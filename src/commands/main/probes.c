/*
 * gpuscope probes: the functions and static probes of files, of what a process has mapped, or of
 * what a command would load; what a probe on each would cost; and a probe file of them.
 *
 * The files may be anybody's, and who asks is often root: this process finds and opens them, and a
 * child that has given up its rights reads them and writes the list.
 */
#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "core/base/map.h"
#include "core/base/output.h"
#include "commands/common/cli.h"
#include "commands/common/shared.h"
#include "core/base/foreign.h"
#include "core/base/vec.h"
#include "core/sandbox/sandbox.h"
#include "core/text/doc.h"
#include "core/text/json.h"
#include "core/text/text.h"
#include "sources/elf/elf.h"
#include "sources/elf/library.h"
#include "sources/elf/usdt.h"
#include "sources/attach_plan/attach_plan.h"

#define MAX_TARGETS 64
#define MAX_FILES   65536
#define MAX_BYTES   (4ull << 30)
#define MAX_CPU_S   600
#define ITEM_BYTES  (64u << 20) /* of one function: its name is as long as its file wants */

struct function {
	struct gs_elf_function f;
	struct gs_x86_site site;
};

struct opened {
	int fd;
	char *path; /* owned */
};

struct tally { /* what the child reports: numbers of a stranger */
	uint64_t n_listed, n_written, n_files;
	int first_error;
};

struct probes {
	struct opened *files; /* owned */
	size_t n_opened, files_room;
	const char *targets[MAX_TARGETS];
	size_t n_targets;
	const char *match, *generate;
	bool only_usdt;
	unsigned format; /* enum list_format */

	struct gs_x86_site_rules rules;
	FILE *out; /* of --generate: file, or stdout */
	struct gs_output file;
	const char *path;
	struct gs_elf *elf;
	struct gs_buf item; /* of the list or the probe file, being written */
	struct gs_map seen; /* places of functions of this file already listed */
	bool heading;       /* of this file was printed */
	bool any_item;      /* a member of the list was printed */
	struct function
		*functions; /* of this file, until it has been read; owned, as their names */
	size_t n_functions, functions_room;
	uint64_t n_listed, n_written, n_files;
	int first_error;
};

static int add_target(void *target, char **words, struct gs_err *err)
{
	struct probes *p = target;

	if (p->n_targets == MAX_TARGETS)
		return gs_err_set(err, -EINVAL, "at most %d targets", MAX_TARGETS);
	p->targets[p->n_targets++] = words[0];
	return 0;
}

static int check_options(void *target, struct gs_err *err)
{
	const struct probes *p = target;

	return p->n_targets ? 0
			    : gs_err_set(err, -EINVAL, "no target: give a file, PID or command");
}

#define AT(member) GS_CLI_AT(struct probes, member)

enum list_format { LIST_TABLE, LIST_JSON };

static const struct gs_cli_option option_table[] = {
	{"match", 0, "GLOB", "only these functions or PROVIDER:NAMEs, such as 'cu*'", GS_CLI_TEXT,
	 AT(match)},
	{"usdt", 0, NULL, "only static probes", GS_CLI_FLAG, AT(only_usdt)},
	{"generate", 0, "FILE", "write a probe file for trace --probes (- standard output)",
	 GS_CLI_TEXT, AT(generate)},
	{"format", 0, "FORMAT", "list format: table, json", GS_CLI_WORD, AT(format),
	 .words = "table json"},
	GS_CLI_JSON,
	GS_CLI_END};

const struct gs_cli_command gs_cli_probes = {
	.name = "gpuscope probes",
	.usage = "FILE...|PID|COMMAND|LIBRARY",
	.about =
		"Lists functions and static probes (USDT) that can be traced, and the cost of a probe on each: cheap; moved some bytes in, where it is cheap; single-stepped, ten times as expensive; refused.",
	.notes = "Examples:\n"
		 "  gpuscope probes libfoo.so --match 'foo_*' --generate foo.yaml\n"
		 "  gpuscope probes --usdt python3\n\n"
		 "Exit status: 0 done, 1 failed, 2 wrong usage, 3 not permitted, 4 nothing found.",
	.brief = "match usdt generate format json",
	.options = option_table,
	.groups = {GS_CLI_LOG_GROUP},
	.take_word = add_target,
	.check = check_options,
};

static void report_failure(struct probes *p, const struct gs_err *err, int r)
{
	gs_cli_print_message("%s", gs_err_text(err, r));
	if (!p->first_error)
		p->first_error = r;
}

static bool item_is_whole(struct probes *p)
{
	struct gs_err err;

	if (p->item.r < 0)
		report_failure(p, &err,
			       gs_err_set(&err, p->item.r, "%s: a name in it is too long to list",
					  p->path));
	return p->item.r == 0;
}

/* A member of the list, on a line of its own; end_item() ends it. */
static void begin_item(struct probes *p, const char *key, const char *name)
{
	gs_buf_reset(&p->item);
	gs_json_open(&p->item, NULL, '{');
	gs_json_text(&p->item, "path", p->path);
	gs_json_text(&p->item, key, name);
}

static void end_item(struct probes *p)
{
	gs_json_close(&p->item, '}');
	if (!item_is_whole(p))
		return;
	printf("%s\n", p->any_item ? "," : "");
	fwrite(p->item.data, 1, p->item.bytes, stdout);
	p->any_item = true;
}

/* A row of the probe file, in double quotes, which YAML reads as JSON does. */
static bool write_probe(struct probes *p, const char *lead, const char *key, const char *name)
{
	gs_buf_reset(&p->item);
	(void)gs_buf_printf(&p->item, "  %s{lib: ", lead);
	(void)gs_text_json(&p->item, p->path);
	(void)gs_buf_printf(&p->item, ", %s: ", key);
	(void)gs_text_json(&p->item, name);
	(void)gs_buf_puts(&p->item, "}\n");
	if (!item_is_whole(p))
		return false;
	fwrite(p->item.data, 1, p->item.bytes, p->out);
	return true;
}

static void put_heading(struct probes *p)
{
	if (!p->heading && p->format != LIST_JSON)
		printf("%s%s\n", p->n_listed > 1 ? "\n" : "", p->path);
	p->heading = true;
}

static const char *kind_word(enum gs_x86_site_kind kind)
{
	switch (kind) {
	case GS_X86_SITE_EMULATED:
		return "cheap";
	case GS_X86_SITE_MOVED:
		return "moved";
	case GS_X86_SITE_STEPPED:
		return "single-stepped";
	default:
		return "refused";
	}
}

static void list_function(struct probes *p, const struct gs_elf_function *f,
			  const struct gs_x86_site *site)
{
	const char *why = site->reason ? site->reason : "";

	p->n_listed++;
	if (p->out == stdout)
		return;
	if (p->format == LIST_JSON) {
		begin_item(p, "function", f->name);
		gs_json_u64(&p->item, "offset", f->file_off);
		gs_json_u64(&p->item, "bytes", f->size_bytes);
		gs_json_bool(&p->item, "exported", f->dynamic);
		gs_json_text(&p->item, "probe", kind_word(site->kind));
		if (*why)
			gs_json_text(&p->item, "reason", why);
		end_item(p);
	} else {
		put_heading(p);
		printf("  %-14s %8" PRIu64 " B  %s%s%s%s\n", kind_word(site->kind), f->size_bytes,
		       f->name, *why ? "   (" : "", why, *why ? ")" : "");
	}
}

static int by_name(const void *a, const void *b)
{
	const struct function *x = a, *y = b;
	int r = strcmp(x->f.name, y->f.name);

	return r ? r : (x->f.file_off > y->f.file_off) - (x->f.file_off < y->f.file_off);
}

/* Symbol tables have no order: people look for names. */
static void report_functions(struct probes *p)
{
	if (p->n_functions)
		qsort(p->functions, p->n_functions, sizeof(*p->functions), by_name);
	for (size_t i = 0; i < p->n_functions; i++) {
		struct function *f = &p->functions[i];
		bool refused = f->site.kind == GS_X86_SITE_REFUSED;

		list_function(p, &f->f, &f->site);
		if (p->out &&
		    write_probe(p, refused ? "# cannot be probed: " : "- ", "function", f->f.name))
			p->n_written += !refused;
		free((char *)(uintptr_t)f->f.name);
	}
	p->n_functions = 0;
}

static int keep_function(struct probes *p, const struct gs_elf_function *f,
			 const struct gs_x86_site *site)
{
	char *name = strdup(f->name);

	if (!name || !gs_vec_reserve(&p->functions, &p->functions_room, p->n_functions + 1)) {
		free(name);
		return -ENOMEM;
	}
	p->functions[p->n_functions] = (struct function){*f, *site};
	p->functions[p->n_functions++].f.name = name;
	return 0;
}

static int on_function(void *ctx, const struct gs_elf_function *f)
{
	struct probes *p = ctx;
	uint64_t key = f->file_off ^ gs_hash_bytes(f->name, strlen(f->name)), ignored;
	struct gs_x86_site site = {
		.kind = GS_X86_SITE_REFUSED,
		.reason =
			"an indirect function: which code runs is chosen when the program starts"};

	if (p->match && fnmatch(p->match, f->name, 0) != 0)
		return 0;
	if (gs_map_get(&p->seen, key, &ignored) || gs_map_put(&p->seen, key, 1) < 0)
		return 0;
	if (!f->indirect)
		site = gs_attach_plan_site(p->elf, f->file_off, f->size_bytes, &p->rules);
	return keep_function(p, f, &site);
}

static int on_site(void *ctx, const struct gs_usdt_site *s)
{
	struct probes *p = ctx;
	uint64_t key, ignored;
	char name[512];
	bool is_new;

	snprintf(name, sizeof(name), "%s:%s", s->provider, s->name);
	if (p->match && fnmatch(p->match, name, 0) != 0)
		return 0;
	key = gs_hash_bytes(name, strlen(name));
	is_new = !gs_map_get(&p->seen, key, &ignored) && gs_map_put(&p->seen, key, 1) == 0;
	p->n_listed++;
	if (p->out == stdout) {
		;
	} else if (p->format == LIST_JSON) {
		begin_item(p, "usdt", name);
		gs_json_u64(&p->item, "offset", s->file_off);
		gs_json_bool(&p->item, "semaphore", s->ref_ctr_off != 0);
		gs_json_u64(&p->item, "readable_arguments", s->n_args);
		gs_json_text(&p->item, "arguments", s->arguments);
		end_item(p);
	} else {
		put_heading(p);
		printf("  %-14s %8s    %s%s%s%s%s%s%s\n", "static probe", "", name,
		       *s->arguments ? "   " : "", s->arguments,
		       s->ref_ctr_off ? "   (with a semaphore)" : "",
		       s->bad_arg ? "   (one is " : "", s->bad_arg ? s->bad_arg : "",
		       s->bad_arg ? ")" : "");
	}
	if (p->out && is_new)
		p->n_written += write_probe(p, "- ", "usdt", name);
	return 0;
}

static void list_file(struct probes *p, struct opened *file)
{
	struct gs_err err = {{0}};
	int r = gs_elf_open_fd(&file->fd, file->path, false, &p->elf, &err);

	p->path = file->path;
	p->heading = false;
	p->seen = GS_MAP_INIT(1u << 22);
	if (r == 0 && !p->only_usdt)
		r = gs_elf_functions(p->elf, on_function, p, &err);
	report_functions(p);
	if (r == 0)
		r = gs_elf_usdt(p->elf, on_site, p, &err);
	if (r < 0)
		report_failure(p, &err, r);
	else
		p->n_files++;
	gs_map_fini(&p->seen);
	gs_elf_close(&p->elf);
}

/* The child's whole life from here on. */
static void list_all(struct probes *p, struct tally *tally)
{
	const struct gs_sandbox box = {.profile = GS_SANDBOX_PRINTER,
				       .own_user = true,
				       .max_bytes = MAX_BYTES,
				       .max_cpu_s = MAX_CPU_S};
	bool wrong;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)gs_sandbox_enter(&box);
	for (size_t i = 0; i < p->n_opened; i++)
		list_file(p, &p->files[i]);
	wrong = fflush(stdout) != 0 || (p->out && fflush(p->out) != 0);
	if (wrong)
		gs_cli_print_message("cannot write the list: %s", strerror(errno));
	*tally = (struct tally){p->n_listed, p->n_written, p->n_files, p->first_error};
	_exit(wrong);
}

/* 0 or a negative errno, said. */
static int list_apart(struct probes *p)
{
	struct tally *tally = mmap(NULL, sizeof(*tally), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status = 0, first_error = p->first_error;
	pid_t pid;

	if (tally == MAP_FAILED)
		return -ENOMEM;
	/* What is buffered would be written twice. */
	(void)fflush(stdout);
	if (p->out)
		(void)fflush(p->out);
	pid = fork();
	if (pid == 0)
		list_all(p, tally);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	p->n_listed = tally->n_listed;
	p->n_written = tally->n_written;
	p->n_files = tally->n_files;
	p->first_error = first_error ? first_error : tally->first_error;
	munmap(tally, sizeof(*tally));
	if (pid < 0) {
		gs_cli_print_message("cannot start a process that reads the files: %s",
				     strerror(errno));
		return -EAGAIN;
	}
	if (WIFSIGNALED(status))
		gs_cli_print_message("the process that read the files was killed by signal %d",
				     WTERMSIG(status));
	return status == 0 ? 0 : -EIO;
}

/* For the child. path: as the file is named in the list. */
static void open_file(struct probes *p, const char *open_path, const char *path)
{
	struct gs_foreign file = GS_FOREIGN_INIT;
	struct gs_err err = {{0}};
	char *name = strdup(path);
	int r = name ? gs_foreign_open(open_path, NULL, &file) : -ENOMEM;

	if (r == 0 && (p->n_opened == MAX_FILES ||
		       !gs_vec_reserve(&p->files, &p->files_room, p->n_opened + 1)))
		r = -ENOMEM;
	if (r == 0) {
		p->files[p->n_opened++] = (struct opened){gs_take_fd(&file.fd), gs_take(name)};
	} else if (r == -EINVAL) {
		report_failure(p, &err,
			       gs_err_set(&err, -ENOEXEC, "%s: it is not a regular file", path));
	} else {
		report_failure(
			p, &err,
			gs_err_set(&err, r, "cannot open %s: %s", open_path, gs_foreign_reason(r)));
	}
	gs_foreign_close(&file);
	free(name);
}

static int on_file(void *ctx, const struct gs_mapped_file *file)
{
	if (!file->is_guess)
		open_file(ctx, file->open_path, file->path);
	return 0;
}

static bool is_number(const char *text)
{
	for (const char *c = text; *c; c++)
		if (!isdigit((unsigned char)*c))
			return false;
	return *text != '\0';
}

/* As the kernel names it: that is what a probe file has to say. */
static void list_path(struct probes *p, const char *path)
{
	char real[PATH_MAX];

	open_file(p, path, realpath(path, real) ? real : path);
}

static void list_process(struct probes *p, const char *number)
{
	struct gs_err err = {{0}};
	int r = gs_library_scan_process(atoi(number), on_file, p);

	if (r < 0)
		report_failure(p, &err,
			       gs_err_set(&err, r, "process %s: %s", number,
					  r == -ESRCH ? "no such process" : strerror(-r)));
}

/* A process by its number, a file by its path, a command with what it loads, or a library. */
static void list_target(struct probes *p, const char *target)
{
	struct gs_err err = {{0}};
	char path[PATH_MAX];
	int r;

	if (is_number(target)) {
		list_process(p, target);
	} else if (strchr(target, '/') || access(target, R_OK) == 0) {
		list_path(p, target);
	} else {
		r = gs_library_candidates(target, environ, on_file, p);
		if (r == -ENOENT &&
		    gs_library_by_name(target, getenv("LD_LIBRARY_PATH"), path) == 0)
			list_path(p, path);
		else if (r < 0)
			report_failure(p, &err,
				       gs_err_set(&err, r,
						  "%s: no such file, process, command or library",
						  target));
	}
}

/* 0 or an exit status, said. */
static int finish_probes(struct probes *p)
{
	free(p->functions);
	gs_buf_fini(&p->item);
	for (size_t i = 0; i < p->n_opened; i++) {
		gs_close_p(&p->files[i].fd);
		free(p->files[i].path);
	}
	free(p->files);
	if (p->format == LIST_JSON && p->out != stdout)
		puts("\n]}");
	if (p->out && p->out != stdout) {
		struct gs_err err = {{0}};
		int r = gs_output_close(&p->file, 0, &err);

		p->out = NULL;
		if (r < 0) {
			gs_cli_print_message("%s", gs_err_text(&err, r));
			return GS_EXIT_FAILED;
		}
		gs_cli_print_message("%s: %" PRIu64
				     " probes; gpuscope trace --probes %s -- COMMAND",
				     p->generate, p->n_written, p->generate);
	}
	if (fflush(stdout) != 0) {
		gs_cli_print_message("cannot write the list: %s", strerror(errno));
		return GS_EXIT_FAILED;
	}
	if (p->first_error)
		return gs_cli_exit_status_of(p->first_error);
	if (!p->n_listed) {
		gs_cli_print_message("nothing %s%s in %" PRIu64 " file%s",
				     p->match ? "matches " : "to probe", p->match ? p->match : "",
				     p->n_files, p->n_files == 1 ? "" : "s");
		return GS_EXIT_NOTHING;
	}
	return GS_EXIT_DONE;
}

int gs_cmd_probes(int argc, char **argv)
{
	struct probes p = {.file = GS_OUTPUT_INIT, .item = GS_BUF_INIT(ITEM_BYTES)};
	int r;

	if (!gs_cli_parse(&gs_cli_probes, argc, argv, &p, &r))
		return r;
	gs_x86_site_rules_here(&p.rules);
	if (p.generate) {
		bool to_stdout = strcmp(p.generate, "-") == 0;
		struct gs_err err = {{0}};

		r = to_stdout ? 0 : gs_output_open(p.generate, 0, &p.file, &err);

		if (r == 0)
			p.out = to_stdout ? stdout : gs_output_stream(&p.file);
		if (!p.out) {
			gs_cli_print_message("%s", gs_err_text(&err, r < 0 ? r : -ENOMEM));
			return GS_EXIT_FAILED;
		}
		fputs("# A probe file: `man gpuscope-probes` describes what each probe may also have (args,\n"
		      "# filter, aggregate, name). Calls are seen as instants; with return: true they have times.\n"
		      "probes:\n",
		      p.out);
	}
	if (p.format == LIST_JSON && p.out != stdout)
		printf("{\"version\":%u,\"probes\":[", GS_DOC_VERSION);
	for (size_t i = 0; i < p.n_targets; i++)
		list_target(&p, p.targets[i]);
	r = list_apart(&p);
	if (r < 0 && !p.first_error)
		p.first_error = r;
	return finish_probes(&p);
}
