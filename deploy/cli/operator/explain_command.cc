#include "deploy/cli/operator/explain_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string_view>
#include <vector>

#include "common/terminal/table.h"
#include "deploy/cli/operator/flow_text.h"
#include "deploy/cli/operator/spread_text.h"

namespace espalier::cli {

void PrintExplanation(const io::JsonValue& answer, bool is_verbose) {
  if (const io::JsonValue* ended = answer.Find("ended")) {
    fmt::print("the flow has ended; this is how it was then:\n");
    for (const auto& [key, value] : ended->members) fmt::print("{:20} {}\n", key, value.text);
    return;
  }
  if (const io::JsonValue* flow = answer.Find("flow")) {
    fmt::print("{}{}", is_verbose ? FlowText(*flow) : ShortFlowText(*flow), ReturnText(answer));
  }
  const io::JsonValue* const ends_known = answer.Find("ends_known");
  const bool has_end = ends_known == nullptr || ends_known->boolean;
  for (const char* key : {"ends_in_seconds", "port_trust", "known_ports"}) {
    const io::JsonValue* const value = answer.Find(key);
    if (value == nullptr || !is_verbose) continue;
    const bool is_unknown = !has_end && std::string_view(key) == "ends_in_seconds";
    fmt::print("{:20} {}\n", key, is_unknown ? "unknown" : value->text);
  }
  if (const io::JsonValue* paths = answer.Find("paths")) {
    fmt::print("{}{}candidate paths, with the number of flows on the busiest link of each:\n",
               DescribeSpread(answer), DescribeUnreachable(answer));
    PrintTable({{"VIA", "via"},
                {"USABLE", "usable"},
                {"CHOSEN", "chosen"},
                {"FLOWS", "busiest_link_flows"}},
               paths->items);
    std::vector<io::JsonValue> loaded;
    for (const io::JsonValue& path : paths->items) {
      for (const io::JsonValue& link : path.Find("links")->items) {
        if (link.Find("background") != nullptr) loaded.push_back(link);
      }
    }
    if (loaded.empty()) return;
    fmt::print("background traffic on their links:\n");
    PrintTable({{"LINK", "direction"},
                {"RATE", "background.bps", CellFormat::kRate},
                {"REPORTED", "background.reported_bps", CellFormat::kRate},
                {"SOURCE", "background.source"},
                {"AGE", "background.age_seconds", CellFormat::kSeconds}},
               loaded);
  }
}

void AddExplain(CLI::App& app, const SessionPtr& session) {
  CLI::App* command = AddCommand(app, session, "explain", "Explain why a flow is on its path");
  command
      ->add_option("FLOW", session->id,
                   "Flow as `espalier flows` names it, such as h0:5; or its ends, 'h0>h4', with #2 "
                   "for the second flow between them")
      ->required();
  const auto is_verbose = std::make_shared<bool>(false);
  command->add_flag("--verbose,-v", *is_verbose, "Show all fields of the flow");
  command->callback([session, is_verbose] {
    const auto answer =
        Ask(*session, "GET", "/api/v1/flows/explain?flow=" + UrlEncode(session->id));
    if (answer && !session->json) PrintExplanation(*answer, *is_verbose);
  });
}

}  // namespace espalier::cli
