/*
 * The few numbers of libcurl's ABI that are used, so that neither building nor starting needs it.
 * libcurl never changes the number of an option (curl.se/libcurl/abi.html); the values are those of
 * include/curl/curl.h of 7.49 and newer, and tests/unit/notify checks them against the header where
 * it is installed.
 */
#ifndef GS_NET_HTTP_CLIENT_CURL_ABI_H
#define GS_NET_HTTP_CLIENT_CURL_ABI_H

/* X(name, value) */
#define GS_CURL_NUMBERS(X)                                                                         \
	X(CURLOPT_WRITEDATA, 10001)                                                                \
	X(CURLOPT_URL, 10002)                                                                      \
	X(CURLOPT_READDATA, 10009)                                                                 \
	X(CURLOPT_ERRORBUFFER, 10010)                                                              \
	X(CURLOPT_POSTFIELDS, 10015)                                                               \
	X(CURLOPT_USERAGENT, 10018)                                                                \
	X(CURLOPT_HTTPHEADER, 10023)                                                               \
	X(CURLOPT_HEADERDATA, 10029)                                                               \
	X(CURLOPT_XFERINFODATA, 10057)                                                             \
	X(CURLOPT_CAINFO, 10065)                                                                   \
	X(CURLOPT_USERNAME, 10173)                                                                 \
	X(CURLOPT_PASSWORD, 10174)                                                                 \
	X(CURLOPT_MAIL_FROM, 10186)                                                                \
	X(CURLOPT_MAIL_RCPT, 10187)                                                                \
	X(CURLOPT_WRITEFUNCTION, 20011)                                                            \
	X(CURLOPT_READFUNCTION, 20012)                                                             \
	X(CURLOPT_HEADERFUNCTION, 20079)                                                           \
	X(CURLOPT_XFERINFOFUNCTION, 20219)                                                         \
	X(CURLOPT_INFILESIZE_LARGE, 30115)                                                         \
	X(CURLOPT_NOPROGRESS, 43)                                                                  \
	X(CURLOPT_UPLOAD, 46)                                                                      \
	X(CURLOPT_POSTFIELDSIZE, 60)                                                               \
	X(CURLOPT_HTTP_VERSION, 84)                                                                \
	X(CURLOPT_NOSIGNAL, 99)                                                                    \
	X(CURLOPT_USE_SSL, 119)                                                                    \
	X(CURLOPT_TIMEOUT_MS, 155)                                                                 \
	X(CURLOPT_CONNECTTIMEOUT_MS, 156)                                                          \
	X(CURLOPT_PROTOCOLS, 181)                                                                  \
	X(CURLINFO_RESPONSE_CODE, 0x200002)                                                        \
	X(CURLE_OK, 0)                                                                             \
	X(CURLE_ABORTED_BY_CALLBACK, 42)                                                           \
	X(CURL_HTTP_VERSION_2TLS, 4)                                                               \
	X(CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE, 5)                                                  \
	X(CURLUSESSL_NONE, 0)                                                                      \
	X(CURLUSESSL_TRY, 1)                                                                       \
	X(CURLUSESSL_ALL, 3)                                                                       \
	X(CURLPROTO_HTTP, 1)                                                                       \
	X(CURLPROTO_HTTPS, 2)                                                                      \
	X(CURLPROTO_SMTP, 65536)                                                                   \
	X(CURLPROTO_SMTPS, 131072)                                                                 \
	X(CURL_GLOBAL_ALL, 3)                                                                      \
	X(CURL_ERROR_SIZE, 256)

enum {
#define GS_CURL_NUMBER(name, value) GS_##name = value,
	GS_CURL_NUMBERS(GS_CURL_NUMBER)
#undef GS_CURL_NUMBER
};

#endif
