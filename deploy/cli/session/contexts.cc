#include "deploy/cli/session/contexts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/files/file.h"
#include "common/files/json.h"
#include "common/files/json_writer.h"

namespace espalier::cli {
namespace {

constexpr std::pair<std::string_view, std::string Context::*> kFields[] = {
    {"name", &Context::name},
    {"controller", &Context::controller},
    {"token_file", &Context::token_file},
    {"ca_file", &Context::ca_file}};

Result<void> Invalid(const std::string& file, const io::JsonValue& at, std::string_view what) {
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("{}:{}:{}: {}", file, at.line, at.column, what));
}

Result<void> ReadContext(const std::string& file, const io::JsonValue& json, Contexts& contexts) {
  Context context;
  if (json.kind != io::JsonValue::Kind::kObject) return Invalid(file, json, "no object");
  for (const auto& [key, value] : json.members) {
    const auto* const field =
        std::ranges::find(kFields, key, [](const auto& one) { return one.first; });
    if (field == std::end(kFields)) {
      return Invalid(file, value, fmt::format("there is no field \"{}\" of a context", key));
    }
    if (value.kind != io::JsonValue::Kind::kString) return Invalid(file, value, "no text");
    context.*field->second = value.text;
  }
  if (context.name.empty() || context.controller.empty()) {
    return Invalid(file, json, "a context needs \"name\" and \"controller\"");
  }
  if (contexts.Find(context.name) != nullptr) {
    return Invalid(file, json, fmt::format("there are two contexts \"{}\"", context.name));
  }
  contexts.all.push_back(std::move(context));
  return {};
}

}  // namespace

const Context* Contexts::Find(std::string_view name) const {
  const auto found = std::ranges::find(all, name, &Context::name);
  return found == all.end() ? nullptr : &*found;
}

std::string ContextsFile() {
  const char* const named = std::getenv("ESPALIER_CONTEXTS");
  if (named != nullptr && *named != '\0') return named;
  const char* const home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') return "";
  return std::string(home) + "/.config/espalier/contexts.json";
}

Result<Contexts> ReadContexts() {
  const std::string file = ContextsFile();
  Contexts contexts;
  if (file.empty()) return contexts;
  Result<std::string> text = io::ReadFile(file);
  if (!text && text.error().code == ErrorCode::kNotFound) return contexts;
  if (!text) return Propagate(text);
  const auto json = io::ParseJson(*text, file);
  if (!json) return tl::unexpected<Error>(json.error());
  if (json->kind != io::JsonValue::Kind::kObject) {
    const Result<void> wrong = Invalid(file, *json, "no object");
    return tl::unexpected<Error>(wrong.error());
  }
  for (const auto& [key, value] : json->members) {
    if (key == "current" && value.kind == io::JsonValue::Kind::kString) {
      contexts.current = value.text;
      continue;
    }
    if (key != "contexts" || value.kind != io::JsonValue::Kind::kArray) {
      const Result<void> wrong = Invalid(file, value, fmt::format("unknown field \"{}\"", key));
      return tl::unexpected<Error>(wrong.error());
    }
    for (const io::JsonValue& one : value.items) {
      const Result<void> read = ReadContext(file, one, contexts);
      if (!read) return tl::unexpected<Error>(read.error());
    }
  }
  return contexts;
}

Result<void> WriteContexts(const Contexts& contexts) {
  const std::string file = ContextsFile();
  if (file.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                "there is no home folder for contexts.json (name a file in $ESPALIER_CONTEXTS)");
  }
  io::JsonWriter json;
  json.BeginObject().Key("current").String(contexts.current).Key("contexts").BeginArray();
  for (const Context& context : contexts.all) {
    json.BeginObject();
    for (const auto& [key, member] : kFields) json.Key(key).String(context.*member);
    json.EndObject();
  }
  json.EndArray().EndObject();
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  std::error_code ignored;  // the write says what is wrong
  if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
  return io::WriteFileDurably(file, json.Text() + "\n", io::Readers::kOwner);
}

}  // namespace espalier::cli
