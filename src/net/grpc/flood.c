/*
 * What costs a client nothing and us something, when there is too much of it: the connection ends
 * with GOAWAY and ENHANCE_YOUR_CALM (RFC 9113, 10.5).
 */
#include "core/base/clock.h"
#include "net/grpc/session_int.h"

/* Control frames (PING, SETTINGS, PRIORITY, resets, empty DATA) that no client needs in such numbers:
 * GS_GRPC_CONTROL_BURST at once, then so many a second. */
#define CONTROL_PER_SECOND 500

/* A block of headers a little above the limit gets a status. One byte on the wire can stand for 4
 * KiB of header though (HPACK's table), so a block this many times above it is read no further, and
 * the connection ends after some of these. */
#define HEADERS_EXCESS 4
#define HEADER_STRIKES 3

bool gs_grpc_flood_take_token(double *tokens, uint64_t *filled_ns, double burst, double per_second)
{
	uint64_t now = gs_clock_mono_ns();

	*tokens += (double)(now - *filled_ns) / 1e9 * per_second;
	*filled_ns = now;
	if (*tokens > burst)
		*tokens = burst;
	if (*tokens < 1)
		return false;
	*tokens -= 1;
	return true;
}

static void end_flood(struct gs_grpc_session *s, const char *why)
{
	if (s->broken)
		return;
	s->broken = true;
	gs_grpc_session_leave(s, NGHTTP2_ENHANCE_YOUR_CALM, why);
}

static void take_ping(struct gs_grpc_session *s)
{
	uint64_t now = gs_clock_mono_ns(), min = s->core->o.min_ping_ns;

	if (min == UINT64_MAX)
		return;
	if (s->ping_ns && now - s->ping_ns < min)
		s->ping_strikes++;
	s->ping_ns = now;
	if (s->ping_strikes > GS_GRPC_PING_STRIKES)
		end_flood(s, "too_many_pings"); /* the words that grpcio knows */
}

static bool is_control(const nghttp2_frame *frame)
{
	switch (frame->hd.type) {
	case NGHTTP2_PING:
	case NGHTTP2_SETTINGS:
	case NGHTTP2_PRIORITY:
	case NGHTTP2_RST_STREAM:
		return true;
	case NGHTTP2_DATA:
		return frame->hd.length == 0 && !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM);
	}
	return false;
}

bool gs_grpc_flood_frame(struct gs_grpc_session *s, const nghttp2_frame *frame)
{
	if (is_control(frame) &&
	    !gs_grpc_flood_take_token(&s->control_tokens, &s->control_ns, GS_GRPC_CONTROL_BURST,
				      CONTROL_PER_SECOND))
		end_flood(s, "too_many_control_frames");
	else if (frame->hd.type == NGHTTP2_PING && !(frame->hd.flags & NGHTTP2_FLAG_ACK))
		take_ping(s);
	return s->broken;
}

int gs_grpc_flood_header(struct gs_grpc_session *s, size_t name_bytes, size_t value_bytes)
{
	s->block_bytes += name_bytes + value_bytes + 32;
	if (s->block_bytes <= s->core->o.max_metadata_bytes * HEADERS_EXCESS)
		return 0;
	if (++s->header_strikes >= HEADER_STRIKES)
		end_flood(s, "too_large_headers");
	/* nghttp2 resets the stream and decodes the rest of the block without looking at it. */
	return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}
