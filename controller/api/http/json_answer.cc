#include "controller/api/http/json_answer.h"

#include <utility>

#include "common/files/json_writer.h"

namespace espalier::controller {

using io::HttpResponse;

HttpResponse Ok(std::string body) { return {200, "application/json", std::move(body), {}, {}}; }

namespace {

int StatusOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return 400;
    case ErrorCode::kNotFound:
      return 404;
    case ErrorCode::kAlreadyExists:
    case ErrorCode::kFailedPrecondition:
      return 409;
    case ErrorCode::kPermissionDenied:
      return 403;
    case ErrorCode::kResourceExhausted:
      return 429;
    default:
      return 500;
  }
}

}  // namespace

HttpResponse Failed(const Error& error) {
  io::JsonWriter json;
  json.BeginObject().Key("error").BeginObject();
  json.Key("code").String(ErrorCodeName(error.code));
  json.Key("message").String(error.message);
  json.EndObject().EndObject();
  return {StatusOf(error.code), "application/json", json.Text(), {}, {}};
}

}  // namespace espalier::controller
