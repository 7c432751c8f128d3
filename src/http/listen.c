/* Addresses to listen on. */
#include "base/net.h"
#include "http/http_int.h"

bool gs_http_listen_valid(const char *text)
{
	char host[256], port[8];

	return gs_net_split(text, host, sizeof(host), port, sizeof(port));
}

int gs_http_listen(const char *text, char *ret_address, size_t bytes, struct gs_err *err)
{
	return gs_net_listen(text, "http.listen", ret_address, bytes, err);
}
