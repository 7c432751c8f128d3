/* Starting and ending senders, what they give up, and why they ended. */
#include "core/sender/sender.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "core/base/mem.h"

#define SENDER_ARGUMENT "--send-for-parent" /* argv[1]; the work follows */

#define MAX_MEMORY_BYTES (1ull << 30)
#define MAX_CPU_S        3600 /* then it is replaced; one that loops is ended long before */
#define MAX_FILES        256

int gs_sender_start(const char *work, const int *fds, unsigned n_fds, struct gs_sandbox_child *ret,
		    struct gs_err *err)
{
	/* libcurl: "Environment variables" of libcurl-env(3); the C library: resolv.conf(5),
	 * hostname(7). */
	static const char *const variables[] = {
		"http_proxy=",  "https_proxy=",   "HTTPS_PROXY=",
		"all_proxy=",   "ALL_PROXY=",     "no_proxy=",
		"NO_PROXY=",    "SSL_CERT_FILE=", "SSL_CERT_DIR=",
		"LOCALDOMAIN=", "RES_OPTIONS=",   "HOSTALIASES=",
		NULL,
	};
	const struct gs_sandbox_program program = {.name = "sender",
						   .arguments = {SENDER_ARGUMENT, work},
						   .fds = fds,
						   .n_fds = n_fds,
						   .variables = variables};

	return gs_sandbox_start_child(&program, ret, err);
}

static _Atomic uint64_t losses[GS_SENDER_N_LOSSES];

const char *gs_sender_lost(int r, int status, char *text, size_t bytes)
{
	enum gs_sender_loss loss = r == -ETIME     ? GS_SENDER_HUNG
				   : r == -EBADMSG ? GS_SENDER_LIED
						   : GS_SENDER_DIED;

	losses[loss]++;
	if (loss == GS_SENDER_HUNG)
		snprintf(text, bytes, "did not answer and was killed");
	else if (loss == GS_SENDER_LIED)
		snprintf(text, bytes, "violated the protocol and was killed");
	else if (WIFSIGNALED(status))
		snprintf(text, bytes, "was killed by signal %d", WTERMSIG(status));
	else
		snprintf(text, bytes, "ended with status %d", WEXITSTATUS(status));
	return text;
}

void gs_sender_losses(uint64_t ret[GS_SENDER_N_LOSSES])
{
	for (unsigned i = 0; i < GS_SENDER_N_LOSSES; i++)
		ret[i] = losses[i];
}

const char *gs_sender_loss_name(enum gs_sender_loss loss)
{
	static const char *const names[GS_SENDER_N_LOSSES] = {"died", "hung", "lied"};

	return loss < GS_SENDER_N_LOSSES ? names[loss] : "unknown";
}

/* --- in the sender --- */

bool gs_sender_is_called(int argc, char **argv, const char *work)
{
	return argc == 3 && strcmp(argv[1], SENDER_ARGUMENT) == 0 && strcmp(argv[2], work) == 0;
}

unsigned gs_sender_confine(void)
{
	/* Where names of hosts, certificates of authorities and the libraries of both are. The
	 * files of a name server's daemon are links from /etc/resolv.conf. */
	static const struct gs_sandbox_path paths[] = {
		{"/etc", GS_SANDBOX_READ},
		{"/usr", GS_SANDBOX_READ | GS_SANDBOX_EXECUTE},
		{"/lib", GS_SANDBOX_READ | GS_SANDBOX_EXECUTE},
		{"/lib64", GS_SANDBOX_READ | GS_SANDBOX_EXECUTE},
		{"/run/systemd/resolve", GS_SANDBOX_READ},
		{"/run/NetworkManager", GS_SANDBOX_READ},
		{"/run/resolvconf", GS_SANDBOX_READ},
		{"/run/connman", GS_SANDBOX_READ},
		{"/run/netconfig", GS_SANDBOX_READ},
		{"/run/nscd", GS_SANDBOX_READ},
		{"/var/lib/sss", GS_SANDBOX_READ},
		{"/var/lib/ca-certificates", GS_SANDBOX_READ},
		{"/dev/urandom", GS_SANDBOX_READ},
		{"/dev/null", GS_SANDBOX_READ | GS_SANDBOX_WRITE},
	};
	static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};
	const struct gs_sandbox box = {.profile = GS_SANDBOX_SENDER,
				       .own_user = true,
				       .paths = paths,
				       .n_paths = GS_ARRAY_LEN(paths),
				       .tcp = true,
				       .max_bytes = MAX_MEMORY_BYTES,
				       .max_cpu_s = MAX_CPU_S,
				       .max_files = MAX_FILES};

	for (size_t i = 0; i < GS_ARRAY_LEN(ignored); i++)
		signal(ignored[i], SIG_IGN);
	prctl(PR_SET_NAME, "gpuscope-sender");
	return gs_sandbox_enter(&box);
}
