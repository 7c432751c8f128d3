/* gpuscope version: which program this is, how it was built, and on which kernel it runs. */
#include <errno.h>
#include <gnu/libc-version.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "core/text/json.h"
#include "model/trace/record.h"
#include "commands/common/cli.h"
#include "commands/common/shared.h"
#include "commands/main/main.h"

#define VERSION_OF_JSON 1
#ifdef __clang__
#define COMPILER __VERSION__
#else
#define COMPILER "gcc " __VERSION__
#endif
#define BTF_PATH "/sys/kernel/btf/vmlinux"

struct version_options {
	unsigned format; /* 0 table, 1 json */
	bool gsprof;     /* built with the other program */
};

static int print_json(const struct version_options *o, const struct utsname *kernel, bool has_btf)
{
	struct gs_buf out = GS_BUF_INIT(4096);
	int r;

	gs_json_open(&out, NULL, '{');
	gs_json_u64(&out, "version", VERSION_OF_JSON);
	gs_json_text(&out, "gpuscope_version", GS_VERSION);
	gs_json_open(&out, "build", '{');
	gs_json_text(&out, "compiler", COMPILER);
	gs_json_text(&out, "machine", "x86_64");
	gs_json_bool(&out, "gsprof", o->gsprof);
	gs_json_u64(&out, "recording_version", GS_RECORD_VERSION);
	gs_json_close(&out, '}');
	gs_json_text(&out, "libc", gnu_get_libc_version());
	gs_json_open(&out, "kernel", '{');
	gs_json_text(&out, "release", kernel->release);
	gs_json_text(&out, "build", kernel->version);
	gs_json_text(&out, "machine", kernel->machine);
	gs_json_bool(&out, "btf", has_btf);
	gs_json_close(&out, '}');
	gs_json_close(&out, '}');
	r = out.r < 0 ? out.r : 0;
	if (r == 0)
		r = fwrite(out.data, 1, out.bytes, stdout) == out.bytes && putchar('\n') != EOF
			    ? 0
			    : -EIO;
	gs_buf_fini(&out);
	return r;
}

static void print_text(const struct version_options *o, const struct utsname *kernel, bool has_btf)
{
	printf("gpuscope %s\n"
	       "build   %s, x86_64, %s gsprof, writes recordings of version %u\n"
	       "libc    %s\n"
	       "kernel  %s %s (%s), %s\n",
	       GS_VERSION, COMPILER, o->gsprof ? "with" : "without", GS_RECORD_VERSION,
	       gnu_get_libc_version(), kernel->release, kernel->machine, kernel->version,
	       has_btf ? "has " BTF_PATH : "no " BTF_PATH ": gpuscope cannot trace here");
}

static const struct gs_cli_option option_table[] = {
	{"format", 0, "FORMAT", "table, json", GS_CLI_WORD,
	 GS_CLI_AT(struct version_options, format), .words = "table json"},
	GS_CLI_JSON,
	GS_CLI_END};

const struct gs_cli_command gs_cli_version = {
	.name = "gpuscope version",
	.about = "Prints the version, and details of the build and of the running kernel.",
	.options = option_table,
};

int cmd_version_show(int argc, char **argv, bool has_gsprof)
{
	struct version_options o = {.gsprof = has_gsprof};
	struct utsname kernel;
	bool has_btf = access(BTF_PATH, R_OK) == 0;
	int status;

	if (!gs_cli_parse(&gs_cli_version, argc, argv, &o, &status))
		return status;
	if (uname(&kernel) < 0) {
		gs_cli_print_message("cannot ask the kernel for its version: %s", strerror(errno));
		return GS_EXIT_FAILED;
	}
	if (o.format)
		return print_json(&o, &kernel, has_btf) < 0 ? GS_EXIT_FAILED : GS_EXIT_DONE;
	print_text(&o, &kernel, has_btf);
	return fflush(stdout) == 0 ? GS_EXIT_DONE : GS_EXIT_FAILED;
}
