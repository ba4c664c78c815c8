#include "deploy/cli/operator/apply_command.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/files/command_result.h"
#include "common/files/file.h"
#include "common/files/topology_file.h"
#include "common/terminal/table.h"
#include "deploy/cli/session/operator_session.h"

namespace espalier::cli {
namespace {

std::string TextOf(const io::JsonValue& object, std::string_view key) {
  const io::JsonValue* const found = object.Find(key);
  return found == nullptr ? "" : found->text;
}

void PrintList(const io::JsonValue& answer, std::string_view key, std::string_view title) {
  const io::JsonValue* const list = answer.Find(key);
  if (list == nullptr) return;
  for (const io::JsonValue& item : list->items) fmt::print("{}: {}\n", title, item.text);
}

void PrintEffects(const io::JsonValue& answer, bool is_trial) {
  if (const io::JsonValue* changes = answer.Find("changes"); changes && !changes->items.empty()) {
    PrintTable({{"WHAT", "what"}, {"CHANGE", "change"}, {"ID", "id"}, {"DETAIL", "detail"}},
               changes->items);
  }
  PrintList(answer, "hosts_lost", "host with open flows that vanishes");
  PrintList(answer, "contradictions", "link on which probes see flows");
  PrintList(answer, "intents_dropped", "intent that goes with its object");
  fmt::print("flows: {} {} their paths, {} {} others, {} {} every path\n",
             TextOf(answer, "flows_kept"), is_trial ? "would keep" : "keep",
             TextOf(answer, "flows_moved"), is_trial ? "would take" : "take",
             TextOf(answer, "flows_lost"), is_trial ? "would lose" : "lose");
}

std::string Target(const Session& session, bool is_dry_run, const std::string& base) {
  std::string target = fmt::format("/api/v1/topology/apply?dry_run={}", is_dry_run);
  if (!session.reason.empty()) target += "&reason=" + UrlEncode(session.reason);
  if (session.force) target += "&force=true";
  if (!base.empty()) target += "&base=" + UrlEncode(base);
  return target;
}

void ApplyFile(Session& session) {
  const auto text = io::ReadFile(session.id);
  const auto topology = text ? io::ParseTopology(*text, session.id)
                             : Result<fabric::Topology>(tl::unexpected<Error>(text.error()));
  if (!topology) {
    return Report(session, ErrorCodeName(topology.error().code), topology.error().message, 2);
  }
  const auto would = Ask(session, "POST", Target(session, true, ""), session.dry_run, *text);
  if (!would) return;
  const std::string refusal = TextOf(*would, "refusal");
  const std::string question = TextOf(*would, "question");
  if (session.dry_run) {
    if (session.json) return;
    PrintEffects(*would, true);
    if (!refusal.empty()) fmt::print("it would be refused: {}\n", refusal);
    if (!question.empty()) fmt::print("{}: confirm it with --force\n", question);
    return;
  }
  // The controller refuses it, with its own words and exit code.
  const bool asks = refusal.empty() && !question.empty() && !session.force;
  const auto print = [&] { PrintEffects(*would, true); };
  if (asks && !IsAgreed(session, question, "what", print)) return;
  const auto done =
      Ask(session, "POST", Target(session, false, TextOf(*would, "base")), true, *text);
  if (!done || session.json) return;
  PrintEffects(*done, false);
  fmt::print(
      "the controller takes the topology over; agents connect again and their flows keep their "
      "ports (`espalier status`)\n");
}

}  // namespace

void AddTopologyApply(CLI::App& group, int& exit_code) {
  const auto session = std::make_shared<Session>(exit_code);
  CLI::App* command =
      AddCommand(group, session, "apply", "Make a running controller take over a topology file");
  command->add_option("FILE", session->id, "Topology file")->required();
  command->add_flag("--dry-run", session->dry_run,
                    "Print the difference and what flows would do, and change nothing");
  command->add_flag("--force", session->force,
                    "Do it without confirmation, even if flows lose their hosts or paths");
  command->add_option("--reason", session->reason, "Reason, for the audit log");
  command->footer("Examples:\n  espalier topology apply fabric.json --dry-run");
  command->callback([session] { ApplyFile(*session); });
}

}  // namespace espalier::cli
