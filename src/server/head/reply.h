/* A message of protobuf as the answer to a call, which it ends. */
#ifndef GS_SERVER_HEAD_REPLY_H
#define GS_SERVER_HEAD_REPLY_H

#include <protobuf-c/protobuf-c.h>

#include "net/grpc/grpc.h"

/* The call ends with an error when the message is too large, or there is no memory for it. */
void gs_head_reply(struct gs_grpc_call *call, const ProtobufCMessage *m);

#endif
