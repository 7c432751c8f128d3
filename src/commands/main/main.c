/* gpuscope COMMAND ...: finds the command in the table and runs it. */
#include <stdio.h>
#include <string.h>

#include "analysis/doctor/cupti.h"
#include "commands/common/cli.h"
#include "net/http_client/http_client.h"
#include "commands/common/completion.h"
#include "commands/main/main.h"
#include "net/http/http.h"
#include "net/uplink/uplink.h"
#include "output/mysql/mysql.h"
#include "sources/attach_plan/described.h"
#include "sources/attach_plan/remote.h"
#include "core/near/near.h"
#include "core/reader/reader.h"
#include "core/sender/sender.h"
#include "sources/unwind/native.h"
#include "pipeline/kineto/work.h"
#include "sources/cuda_visible/environ.h"
#include "sources/unwind/python.h"

static const struct gs_cmd_program *other; /* NULL: none */

static int run_version(int argc, char **argv)
{
	return cmd_version_show(argc, argv, other != NULL);
}

static const struct {
	const char *name;
	const char *summary; /* one line of `gpuscope --help` */
	int (*run)(int argc, char **argv);
} commands[] = {
	{"trace", "trace CUDA and NCCL calls of a command, of processes or of the machine",
	 gs_cmd_trace},
	{"report", "print, convert, plot or compare recordings", gs_cmd_report},
	{"explain", "find when a recorded run changed, and what else changed then", gs_cmd_explain},
	{"open", "show a recording, a flame graph or a report in the local browser", gs_cmd_open},
	{"gpu", "show GPU and GPU-process metrics, once or continuously", gs_cmd_gpu},
	{"job", "report what jobs wait for, how efficient they are, and what to change",
	 gs_cmd_job},
	{"top", "show GPUs, processes and jobs on a full screen, live or recorded", gs_cmd_top},
	{"agent", "node daemon: serves metrics of GPUs and jobs to Prometheus", gs_cmd_agent},
	{"head", "cluster server: collects and stores data from nodes", gs_cmd_head},
	{"connect", "send this node's samples to a head; survives disconnects", gs_cmd_connect},
	{"session", "control a head's sessions: start, stop, list, resume, export", gs_cmd_session},
	{"devices", "show and grant access of processes to NVIDIA devices", gs_cmd_devices},
	{"doctor", "show what works here, what does not, and how to fix it", gs_cmd_doctor},
	{"probes", "list functions and static probes that can be traced; write probe files",
	 gs_cmd_probes},
	{"version", "print the version, and details of build and kernel", run_version},
};

/* For `gpuscope completion`, which is none of those that it completes. */
static const struct gs_cli_command *const command_lines[] = {
	&gs_cli_trace, &gs_cli_report,  &gs_cli_explain, &gs_cli_gpu,
	&gs_cli_job,   &gs_cli_top,     &gs_cli_agent,   &gs_cli_agent_ctl,
	&gs_cli_head,  &gs_cli_connect, &gs_cli_session, &gs_cli_probes,
	&gs_cli_open,  &gs_cli_devices, &gs_cli_doctor,  &gs_cli_version,
	NULL};

static void print_help(FILE *out)
{
	fputs("Usage: gpuscope COMMAND [OPTION...]\n\n"
	      "Shows what an AI or HPC job does on this machine, without touching the job.\n\n"
	      "Commands:\n",
	      out);
	for (size_t i = 0; i < GS_ARRAY_LEN(commands); i++)
		fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].summary);
	fputs("\n"
	      "Run `gpuscope COMMAND --help` for common options, `gpuscope COMMAND --help-all` for all of them,\n"
	      "`gpuscope help COMMAND` for the manual, also of quickstart, metrics, alerts and libgpuscope,\n"
	      "`gpuscope completion bash` (zsh, fish) for completion.\n"
	      "Exit status: 0 done, 1 failed, 2 wrong usage, 3 not permitted or not supported, 4 nothing found.\n",
	      out);
}

static bool main_is_help(const char *word)
{
	return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 ||
	       strcmp(word, "--help-all") == 0;
}

static bool main_is_version(const char *word)
{
	return strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0;
}

/* What was typed is no command: an option before it, a slip, or something else. */
static int main_refuse(const char *word)
{
	struct gs_near near;

	if (word[0] == '-') {
		gs_cli_print_message(
			"options follow the command, as in `gpuscope trace %s`; `gpuscope --help` lists the commands",
			word);
		return GS_EXIT_USAGE;
	}
	gs_near_init(&near, word);
	for (size_t i = 0; i < GS_ARRAY_LEN(commands); i++)
		gs_near_add(&near, commands[i].name);
	if (near.name)
		gs_cli_print_message(
			"no command \"%s\"; did you mean \"%s\"? `gpuscope --help` lists them",
			word, near.name);
	else
		gs_cli_print_message("no command \"%s\"; `gpuscope --help` lists them", word);
	return GS_EXIT_USAGE;
}

/* argv[0] is the command's name. */
static int main_run(int argc, char **argv)
{
	for (size_t i = 0; i < GS_ARRAY_LEN(commands); i++)
		if (strcmp(argv[0], commands[i].name) == 0)
			return commands[i].run(argc, argv);
	return main_refuse(argv[0]);
}

/* Pages of the manual that are of no command. */
static const char *const topics[] = {"quickstart", "metrics", "alerts", CMD_MANUAL_LIBRARY};

static int main_help_topic(const char *topic)
{
	if (cmd_manual_show(topic))
		return GS_EXIT_DONE;
	gs_cli_print_message("the manual page of %s cannot be shown: is man(1) installed?", topic);
	return GS_EXIT_NOT_PERMITTED;
}

/* gpuscope help COMMAND, or a topic; argv[1] is which. */
static int main_help(char **argv)
{
	static char all[] = "--help-all";
	struct gs_near near;
	char meant[80];

	gs_near_init(&near, argv[1]);
	for (size_t i = 0; i < GS_ARRAY_LEN(topics); i++) {
		if (strcmp(argv[1], topics[i]) == 0)
			return main_help_topic(argv[1]);
		gs_near_add(&near, topics[i]);
	}
	for (size_t i = 0; i < GS_ARRAY_LEN(commands); i++) {
		gs_near_add(&near, commands[i].name);
		if (strcmp(argv[1], commands[i].name) != 0)
			continue;
		if (cmd_manual_show(argv[1]))
			return GS_EXIT_DONE;
		argv[0] = argv[1];
		argv[1] = all;
		return commands[i].run(2, argv);
	}
	gs_cli_print_message("no command or topic \"%s\"%s `gpuscope --help` lists them", argv[1],
			     near.name ? gs_near_text(&near, meant, sizeof(meant)) : ":");
	return GS_EXIT_USAGE;
}

/* What a reader can be asked. */
static const gs_reader_serve_fn reader_services[GS_READER_N_SERVICES] = {
	[GS_READER_PLAN] = gs_attach_plan_serve,
	[GS_READER_DESCRIBED] = gs_attach_plan_serve_described,
	[GS_READER_OPERATORS] = gs_attach_plan_serve_operators,
	[GS_READER_PYTHON] = gs_python_serve,
	[GS_READER_ENVIRON] = gs_cuda_visible_environ_serve,
	[GS_READER_KINETO] = gs_kineto_work_serve,
	[GS_READER_CUPTI] = gs_doctor_serve_cupti,
	[GS_READER_NATIVE] = gs_native_serve,
};

void gs_cmd_set_other(const struct gs_cmd_program *program)
{
	other = program;
}

static bool is_other(const char *argv0)
{
	const char *slash = strrchr(argv0, '/');

	return other && strcmp(slash ? slash + 1 : argv0, other->name) == 0;
}

int gs_cmd_run(int argc, char **argv)
{
	if (gs_reader_is_called(argc, argv))
		return gs_reader_main(argc, argv, reader_services);
	if (gs_http_apart_is_called(argc, argv))
		return gs_http_apart_main();
	if (gs_sender_is_called(argc, argv, "fetch"))
		return gs_http_client_sender_main();
	if (gs_sender_is_called(argc, argv, "mysql"))
		return gs_mysql_sender_main();
	if (gs_sender_is_called(argc, argv, "link"))
		return gs_uplink_sender_main();
	if (is_other(argv[0]))
		return other->run(argc, argv);
	if (argc < 2) {
		print_help(stderr);
		return GS_EXIT_USAGE;
	}
	if (main_is_help(argv[1]) || (strcmp(argv[1], "help") == 0 && argc == 2)) {
		print_help(stdout);
		return GS_EXIT_DONE;
	}
	if (strcmp(argv[1], "completion") == 0)
		return gs_cli_print_completion(argc - 1, argv + 1, command_lines);
	if (main_is_version(argv[1])) {
		puts("gpuscope " GS_VERSION);
		return GS_EXIT_DONE;
	}
	if (strcmp(argv[1], "help") == 0)
		return main_help(argv + 1);
	return main_run(argc - 1, argv + 1);
}
