#include "deploy/cli/doctor/finding.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "common/files/json.h"
#include "common/files/json_writer.h"
#include "common/terminal/table.h"

namespace espalier::doctor {
namespace {

constexpr std::array kStates = {State::kOk, State::kWarning, State::kFailed, State::kSkipped};

}  // namespace

std::string_view StateName(State state) {
  switch (state) {
    case State::kOk:
      return "ok";
    case State::kWarning:
      return "warning";
    case State::kFailed:
      return "failed";
    case State::kSkipped:
      return "skipped";
  }
  return "";
}

std::size_t Findings::Count(State state) const {
  return static_cast<std::size_t>(std::ranges::count(all_, state, &Finding::state));
}

void Findings::Add(State state, std::string subject, std::string found, std::string remedy) {
  constexpr std::size_t kMost = 1'000;  // characters of a text that others may have written
  for (std::string* const text : {&subject, &found, &remedy}) {
    if (text->size() > kMost) text->replace(kMost, std::string::npos, "...");
  }
  all_.push_back({place_, check_, std::move(subject), state, std::move(found), std::move(remedy)});
}

std::string FormatJson(const Findings& findings) {
  io::JsonWriter json;
  json.BeginObject().Key("checks").BeginArray();
  for (const Finding& finding : findings.all()) {
    json.BeginObject();
    json.Key("place").String(finding.place);
    json.Key("check").String(finding.check);
    json.Key("subject").String(cli::EscapeControls(finding.subject));
    json.Key("state").String(StateName(finding.state));
    json.Key("found").String(cli::EscapeControls(finding.found));
    json.Key("remedy").String(cli::EscapeControls(finding.remedy));
    json.EndObject();
  }
  json.EndArray();
  for (const State state : kStates) {
    json.Key(StateName(state)).Integer(static_cast<std::int64_t>(findings.Count(state)));
  }
  return json.EndObject().Text();
}

std::string FormatText(const Findings& findings, bool colours) {
  std::vector<io::JsonValue> rows;
  std::string remedies;
  for (const Finding& finding : findings.all()) {
    rows.push_back(cli::MakeRow({{"place", finding.place},
                                 {"check", finding.check},
                                 {"subject", finding.subject},
                                 {"state", std::string(StateName(finding.state))},
                                 {"found", finding.found}}));
    if (finding.remedy.empty()) continue;
    remedies +=
        fmt::format("  {}{}{}: {}\n", finding.check, finding.subject.empty() ? "" : " ",
                    cli::EscapeControls(finding.subject), cli::EscapeControls(finding.remedy));
  }
  std::string text = cli::FormatTable({{"PLACE", "place"},
                                       {"CHECK", "check"},
                                       {"SUBJECT", "subject"},
                                       {"STATE", "state", cli::CellFormat::kState},
                                       {"FOUND", "found"}},
                                      rows, colours);
  if (!remedies.empty()) text += "\nWhat to do:\n" + remedies;
  std::string counts;
  for (const State state : kStates) {
    counts +=
        fmt::format("{}{} {}", counts.empty() ? "" : ", ", findings.Count(state), StateName(state));
  }
  return text + '\n' + counts + '\n';
}

}  // namespace espalier::doctor
