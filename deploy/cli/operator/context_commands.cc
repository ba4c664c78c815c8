#include "deploy/cli/operator/context_commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/files/json.h"
#include "common/files/json_writer.h"
#include "common/terminal/closest_name.h"
#include "common/terminal/table.h"
#include "deploy/cli/session/contexts.h"

namespace espalier::cli {
namespace {

void ReportFailure(Session& session, const Error& error) {
  const bool is_input =
      error.code == ErrorCode::kInvalidArgument || error.code == ErrorCode::kNotFound;
  Report(session, ErrorCodeName(error.code), error.message, is_input ? 2 : 1);
}

Error NoSuchContext(const Contexts& contexts, const std::string& name) {
  std::vector<std::string> names;
  for (const Context& context : contexts.all) names.push_back(context.name);
  const std::string meant = ClosestName(name, names);
  return {ErrorCode::kNotFound,
          fmt::format("there is no context \"{}\" ({})", EscapeControls(name),
                      meant.empty() ? "`espalier context list` lists them"
                                    : fmt::format("did you mean {}?", meant))};
}

void List(Session& session) {
  const Result<Contexts> contexts = ReadContexts();
  if (!contexts) return ReportFailure(session, contexts.error());
  session.exit_code = 0;
  if (session.json) {
    io::JsonWriter json;
    json.BeginObject().Key("current").String(contexts->current).Key("contexts").BeginArray();
    for (const Context& context : contexts->all) {
      json.BeginObject();
      json.Key("name").String(context.name).Key("controller").String(context.controller);
      json.Key("token_file").String(context.token_file).Key("ca_file").String(context.ca_file);
      json.EndObject();
    }
    return fmt::print("{}\n", json.EndArray().EndObject().Text());
  }
  std::vector<io::JsonValue> rows;
  for (const Context& context : contexts->all) {
    rows.push_back(MakeRow({{"current", context.name == contexts->current ? "yes" : ""},
                            {"name", context.name},
                            {"controller", context.controller},
                            {"token_file", context.token_file}}));
  }
  PrintTable({{"CONTEXT", "name"},
              {"CURRENT", "current"},
              {"CONTROLLER", "controller"},
              {"TOKEN FILE", "token_file"}},
             rows);
}

// Reads the contexts, changes them, and writes them if that did not fail.
void Change(Session& session, const std::string& done,
            const std::function<Result<void>(Contexts& contexts)>& change) {
  Result<Contexts> contexts = ReadContexts();
  if (!contexts) return ReportFailure(session, contexts.error());
  Result<void> changed = change(*contexts);
  if (changed) changed = WriteContexts(*contexts);
  if (!changed) return ReportFailure(session, changed.error());
  session.exit_code = 0;
  if (session.json)
    return fmt::print("{{\"current\":{}}}\n", io::JsonWriter().String(contexts->current).Text());
  fmt::print("{}\n", done);
}

// A relative path would mean another file in another folder.
std::string Absolute(const std::string& path) {
  return path.empty() ? path : std::filesystem::absolute(path).lexically_normal().string();
}

void Set(Session& session) {
  if (session.controller.empty()) {
    return Report(session, ErrorCodeName(ErrorCode::kInvalidArgument),
                  "the context has no controller (name its address with --controller)", 2);
  }
  Change(session, fmt::format("context {} set", session.id),
         [&](Contexts& contexts) -> Result<void> {
           std::erase_if(contexts.all, [&](const Context& one) { return one.name == session.id; });
           contexts.all.push_back({session.id, session.controller, Absolute(session.token_file),
                                   Absolute(session.ca_file)});
           if (contexts.current.empty()) contexts.current = session.id;
           return {};
         });
}

void Use(Session& session) {
  Change(session, fmt::format("commands go to context {} now", session.id),
         [&](Contexts& contexts) -> Result<void> {
           if (contexts.Find(session.id) == nullptr) {
             return tl::unexpected<Error>(NoSuchContext(contexts, session.id));
           }
           contexts.current = session.id;
           return {};
         });
}

void Remove(Session& session) {
  Change(session, fmt::format("context {} removed", session.id),
         [&](Contexts& contexts) -> Result<void> {
           if (contexts.Find(session.id) == nullptr) {
             return tl::unexpected<Error>(NoSuchContext(contexts, session.id));
           }
           std::erase_if(contexts.all, [&](const Context& one) { return one.name == session.id; });
           if (contexts.current == session.id) contexts.current.clear();
           return {};
         });
}

}  // namespace

void AddContexts(CLI::App& app, const SessionPtr& session) {
  CLI::App* group = app.add_subcommand(
      "context", "List, set, choose and remove the controllers that you work with");
  group->require_subcommand(1);
  const auto add = [&](const char* name, const char* help, void (*run)(Session&), bool has_name) {
    CLI::App* command = AddCommand(*group, session, name, help);
    if (has_name) command->add_option("NAME", session->id, "Name of the context")->required();
    command->callback([session, run] { run(*session); });
    return command;
  };
  add("list", "List the contexts of your file, and which is in use", List, false);
  add("set", "Add a context, or replace it: --controller, --token-file and --ca are kept with it",
      Set, true)
      ->footer(
          "Examples:\n  espalier context set west --controller https://ctl-west:9180 "
          "--token-file ~/.west-token");
  add("use", "Send commands to the controller of this context from now on", Use, true);
  add("remove", "Remove a context", Remove, true);
}

}  // namespace espalier::cli
