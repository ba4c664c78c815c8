#include "controller/api/actions/accepted_answer.h"

#include "common/files/json_writer.h"

namespace espalier::controller {

std::string AcceptedAnswer(std::size_t count) {
  io::JsonWriter json;
  json.BeginObject().Key("taken").Integer(static_cast<std::int64_t>(count)).EndObject();
  return json.Text();
}

}  // namespace espalier::controller
