/*
 * By which names this server is asked for. A page in a browser can be made to ask any port that the
 * browser's machine reaches, under a name of its author's (DNS rebinding): the request then comes
 * with that name in Host. So a name has to be one of ours, exactly: localhost, the host's own name,
 * that name with a domain that this machine uses, a name of the certificate, or one that the
 * configuration lists. An address is always taken: a page that was fetched by an address cannot be
 * moved to another one.
 *
 * The domains come from /etc/hosts and /etc/resolv.conf. A name server is not asked: a start must
 * not wait for one, and its answers can be the attacker's.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "core/base/net.h"
#include "net/http/http_int.h"

#define FILE_MAX_BYTES 32768

enum gs_http_host gs_http_host_parse(const char *text, char out[GS_HTTP_HOST_MAX])
{
	bool six = *text == '[';
	const char *end, *port;
	struct in6_addr address;
	size_t n;

	text += six;
	end = text + strcspn(text, six ? "]" : ":");
	if (six && !*end)
		return GS_HTTP_HOST_INVALID;
	port = end + six;
	n = (size_t)(end - text);
	if (n == 0 || n >= GS_HTTP_HOST_MAX)
		return GS_HTTP_HOST_INVALID;
	if (*port && (*port != ':' || strspn(port + 1, "0123456789") != strlen(port + 1)))
		return GS_HTTP_HOST_INVALID;
	for (size_t i = 0; i < n; i++)
		out[i] = (char)tolower((unsigned char)text[i]);
	out[n] = '\0';
	if (six)
		return inet_pton(AF_INET6, out, &address) == 1 ? GS_HTTP_HOST_ADDRESS
							       : GS_HTTP_HOST_INVALID;
	if (inet_pton(AF_INET, out, &address) == 1)
		return GS_HTTP_HOST_ADDRESS;
	if (strspn(out, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != n)
		return GS_HTTP_HOST_INVALID;
	if (n > 1 && out[n - 1] == '.') /* the root's dot: the same name */
		out[n - 1] = '\0';
	return GS_HTTP_HOST_NAME;
}

/* What finds no room is not known: a request for it gets an answer that says what to do. */
static void add_host_name(struct gs_http_hosts *h, const char *name, const char *domain)
{
	size_t left = sizeof(h->names) - h->bytes;
	int n = snprintf(h->names + h->bytes, left, "%s%s%s", name, *domain ? "." : "", domain);

	if (n <= 0 || (size_t)n >= left || n >= GS_HTTP_HOST_MAX)
		return;
	for (int i = 0; i < n; i++)
		h->names[h->bytes + (size_t)i] =
			(char)tolower((unsigned char)h->names[h->bytes + (size_t)i]);
	if (h->names[h->bytes + (size_t)n - 1] == '.')
		h->names[h->bytes + (size_t)--n] = '\0';
	h->bytes += (size_t)n + 1;
}

static bool read_small_file(const char *path, char out[FILE_MAX_BYTES])
{
	GS_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	ssize_t n = fd < 0 ? -1 : read(fd, out, FILE_MAX_BYTES - 1);

	if (n < 0)
		return false;
	out[n] = '\0';
	return true;
}

/* A line "ADDRESS NAME NAME ...": when one of the names is ours, all are. */
static void take_hosts_line(struct gs_http_hosts *h, char *line, const char *own)
{
	char *word[32], *save = NULL;
	size_t n = 0;
	bool ours = false;

	line[strcspn(line, "#")] = '\0';
	for (char *w = strtok_r(line, " \t\r", &save); w && n < GS_ARRAY_LEN(word);
	     w = strtok_r(NULL, " \t\r", &save)) {
		ours |= n && strcasecmp(w, own) == 0;
		word[n++] = w;
	}
	for (size_t i = 1; ours && i < n; i++)
		add_host_name(h, word[i], "");
}

static void take_resolv_line(struct gs_http_hosts *h, char *line, const char *short_name)
{
	char *save = NULL, *word = strtok_r(line, " \t\r", &save);

	if (!word || (strcmp(word, "search") != 0 && strcmp(word, "domain") != 0))
		return;
	while ((word = strtok_r(NULL, " \t\r", &save)))
		if (strcmp(word, ".") != 0)
			add_host_name(h, short_name, word);
}

void gs_http_hosts_load(struct gs_http_hosts *h, const char *listen, const char *listed)
{
	char own[65] = "", short_name[65], host[256], port[8], text[FILE_MAX_BYTES], *save = NULL;

	memset(h, 0, sizeof(*h));
	add_host_name(h, "localhost", "");
	gethostname(own, sizeof(own) - 1);
	memcpy(short_name, own, sizeof(own));
	short_name[strcspn(short_name, ".")] = '\0';
	if (own[0])
		add_host_name(h, own, "");
	if (short_name[0])
		add_host_name(h, short_name, "");
	if (gs_net_split(listen, host, sizeof(host), port, sizeof(port)) && strcmp(host, "*") != 0)
		add_host_name(h, host, "");
	/* What a person lists comes before what the files say, should there be no room for all. */
	snprintf(text, sizeof(text), "%s", listed ? listed : "");
	for (char *w = strtok_r(text, ", ", &save); w; w = strtok_r(NULL, ", ", &save)) {
		h->any |= strcmp(w, "*") == 0;
		add_host_name(h, w, "");
	}
	if (own[0] && read_small_file("/etc/hosts", text))
		for (char *next, *line = text; line; line = next) {
			next = strchr(line, '\n');
			if (next)
				*next++ = '\0';
			take_hosts_line(h, line, own);
		}
	if (short_name[0] && read_small_file("/etc/resolv.conf", text))
		for (char *next, *line = text; line; line = next) {
			next = strchr(line, '\n');
			if (next)
				*next++ = '\0';
			take_resolv_line(h, line, short_name);
		}
}

bool gs_http_host_known(const struct gs_http_hosts *h, const char *name)
{
	char own[65] = "";

	if (h->any)
		return true;
	for (size_t at = 0; at < h->bytes; at += strlen(h->names + at) + 1)
		if (strcmp(h->names + at, name) == 0)
			return true;
	/* A machine may get its name after the start, from a DHCP server say. */
	gethostname(own, sizeof(own) - 1);
	return own[0] && strcasecmp(own, name) == 0;
}

bool gs_http_origin_valid(const char *text)
{
	const char *host = strncmp(text, "http://", 7) == 0    ? text + 7
			   : strncmp(text, "https://", 8) == 0 ? text + 8
							       : NULL;
	char name[GS_HTTP_HOST_MAX];

	return host && strlen(text) < GS_HTTP_ORIGIN_MAX &&
	       gs_http_host_parse(host, name) != GS_HTTP_HOST_INVALID;
}

bool gs_http_origin_listed(const char *list, const char *origin)
{
	size_t bytes = origin ? strlen(origin) : 0;

	while (bytes && list && *list) {
		size_t n = strcspn(list, ",");

		if (n == bytes && strncasecmp(list, origin, n) == 0)
			return true;
		list += n + (list[n] == ',');
	}
	return false;
}

bool gs_http_hosts_valid(const char *text)
{
	char name[GS_HTTP_HOST_MAX];

	return strcmp(text, "*") == 0 ||
	       (!strpbrk(text, ":[]") && gs_http_host_parse(text, name) == GS_HTTP_HOST_NAME);
}
